"""What this system can hold, found out once."""

from __future__ import annotations

import os
import sys
from functools import cache

from prong.host.sandbox.profile import Ability

_REMEDY = {
    "darwin": "sandbox-exec is not there",
    "win32": "there is none for Windows",
    "linux": "the kernel has no Landlock, or the container does not allow it; Linux 5.13 has it, "
    "if 'landlock' is in /sys/kernel/security/lsm",
}


def assess(system: str, *, abi: int = 0, filters: bool = False, views: str = "") -> Ability:
    """Judge by what was found; `views` is why there can be none, empty if there can. Pure."""
    if system == "darwin" and filters:
        return Ability(kind="seatbelt", filters=True, views=True, why="")
    if system != "linux" or abi < 1:
        why = _REMEDY.get(system, f"there is none for {system}")
        return Ability(why=why)
    if not filters:
        why = "calls to the kernel cannot be filtered here (seccomp), so not all is held"
        return Ability(kind="landlock", abi=abi, why=why)
    if abi < 3:
        why = f"Landlock is of version {abi}: before version 3 (Linux 6.2) files can be emptied"
        return Ability(kind="landlock", abi=abi, filters=True, views=not views, why=why)
    why = views and f"single files in open folders cannot be held: {views}"
    return Ability(kind="landlock", abi=abi, filters=True, views=not views, why=why)


def detect() -> Ability:
    """Find out what this system can hold."""
    return _detect(0 if sys.platform == "win32" else os.geteuid())


@cache
def _detect(user: int) -> Ability:
    del user
    if sys.platform == "darwin":
        return assess("darwin", filters=os.access("/usr/bin/sandbox-exec", os.X_OK))
    if sys.platform != "linux":
        return assess(sys.platform)
    # Only here: what it calls is nowhere else.
    from prong.host.sandbox.linux_ability import probe

    found = probe()
    return assess("linux", abi=found.abi, filters=found.filters, views=found.views)
