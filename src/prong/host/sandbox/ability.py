"""What this system can hold, found out once."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import cache

from prong.host.sandbox import landlock, mounts, seccomp
from prong.host.sandbox.bind import install, restrict
from prong.host.sandbox.profile import Ability

_OPEN = ("/dev",)
"""A folder to open for writing: that takes every call which a view can need."""
_REMEDY = {
    "darwin": "sandbox-exec is not there",
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
    return _detect(os.geteuid())


@cache
def _detect(user: int) -> Ability:
    del user
    if sys.platform == "darwin":
        return assess("darwin", filters=os.access("/usr/bin/sandbox-exec", os.X_OK))
    if sys.platform != "linux":
        return assess(sys.platform)
    abi = landlock.version()
    if abi < 1 or _try_rules(abi):
        return assess("linux")
    return assess("linux", abi=abi, filters=_try_filter() == "", views=_try_view())


def _try_rules(abi: int) -> str:
    """Bind a thread by rules: a container may tell the version and forbid the use."""
    rules = landlock.rules_for(abi, network=False, signals=False, devices=False)
    return _tried(lambda: restrict(*landlock.spell(abi, rules, _OPEN, (), _OPEN)))


def _try_filter() -> str:
    kind = seccomp.machine()
    if kind is None:
        return "the numbers of this machine's calls are not known"
    data = seccomp.program(kind, seccomp.Refusals())
    return _tried(lambda: install(kind.seccomp, data))


def enters_by_thread() -> bool:
    """Whether a view is entered by a thread: root needs no namespace of users."""
    return _enters(os.geteuid())


@cache
def _enters(user: int) -> bool:
    return user == 0 and _tried(lambda: mounts.enter(writable=_OPEN, cwd="/")) == ""


def _try_view() -> str:
    if enters_by_thread() or _forked(lambda: mounts.enter(writable=_OPEN, cwd="/")):
        return ""
    return (
        "namespaces of users, or mounts in them, are not allowed here "
        "(kernel.unprivileged_userns_clone, user.max_user_namespaces, AppArmor or the container)"
    )


def has_terminals() -> bool:
    """Whether a view can have terminals of its own."""
    return _terminals(os.geteuid())


@cache
def _terminals(user: int) -> bool:
    del user

    def enter() -> None:
        mounts.enter(terminals=True, cwd="/")

    return _tried(enter) == "" if enters_by_thread() else _forked(enter)


def _forked(enter: Callable[[], None]) -> bool:
    """Try a view by a process that is thrown away."""

    def enter_both() -> None:
        mounts.enter_users()
        enter()

    try:
        subprocess.run(["true"], preexec_fn=enter_both, check=True, capture_output=True)
    except (OSError, subprocess.SubprocessError):
        return False
    return True


def _tried(work: Callable[[], None]) -> str:
    """Do something in a thread that is thrown away; gives why it failed."""
    told: list[str] = []

    def run() -> None:
        try:
            work()
        except OSError as error:
            told.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return told[0] if told else ""
