"""What settings and the place say about the sandbox of commands."""

from __future__ import annotations

import os
from pathlib import Path

from prong.config.place import Place
from prong.errors import NotPossibleNow
from prong.host import Host
from prong.system.path_form import real_path
from prong.tools.ground import Sandboxing, is_inside

CACHES = (
    "~/.cache",
    "~/.npm",
    "~/.yarn",
    "~/.bun/install/cache",
    "~/.pnpm-store",
    "~/.local/share/pnpm",
    "~/.cargo/registry",
    "~/.cargo/git",
    "~/.cargo/.package-cache",
    "~/.cargo/.global-cache",
    "~/go/pkg",
    "~/.gradle",
    "~/.m2",
    "~/.nuget/packages",
    "~/Library/Caches",
)
"""Where programs keep what they have downloaded or made before, unless settings say otherwise."""

_POINTER = "gitdir:"
_LARGEST = 4096


def sandboxing(place: Place, home: str) -> Sandboxing:
    """Put together what is wanted of the sandbox; what the system can hold is not known yet."""
    given = place.settings.values.sandbox
    return Sandboxing(
        on=given.mode != "off",
        network=given.network,
        daemons=given.unix_sockets,
        temp=_real(("/tmp", "/var/tmp", place.env.get("TMPDIR") or "/tmp"), home, place.cwd),  # noqa: S108
        caches=_real(_caches(place, home), home, place.cwd),
        writable=_real(given.writable, home, place.cwd),
        git=repository(place.root),
        outside=tuple(_pattern(text) for text in given.outside),
    )


def _caches(place: Place, home: str) -> tuple[str, ...]:
    """Name the folders of caches: as set, or the usual ones and what `XDG_CACHE_HOME` names."""
    given = place.settings.values.sandbox.caches
    if given is not None:
        return given
    named = real_path(place.env.get("XDG_CACHE_HOME") or "/")
    # Whatever holds the home or the project is no folder for caches alone.
    if any(is_inside(own, named) for own in (real_path(home), place.root)):
        return CACHES
    return (*CACHES, named)


def must_hold(place: Place, host: Host) -> None:
    """Demand a whole sandbox where the settings require one.

    Raises UsageError if the system cannot give it.
    """
    if place.settings.values.sandbox.mode == "required":
        ability = host.ability
        if not (ability.writes and ability.views):
            raise NotPossibleNow(
                "the setting sandbox.mode is 'required', and it cannot be had in full: "
                f"{ability.why}; 'prong doctor' says more"
            )


def _pattern(text: str) -> str:
    """Read a command as a rule of Bash names it, with or without that name around it."""
    return text[5:-1] if text.startswith("Bash(") and text.endswith(")") else text


def _real(paths: tuple[str, ...] | list[str], home: str, cwd: str) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for path in paths:
        whole = home + path[1:] if path == "~" or path.startswith("~/") else path
        found[real_path(os.path.join(cwd, whole))] = None  # noqa: PTH118 - strings throughout
    return tuple(found)


def repository(root: str) -> tuple[str, ...]:
    """Find the repository's own folder of a working copy that has it elsewhere."""
    pointer = Path(root, ".git")
    try:
        with pointer.open("rb") as file:
            text = file.read(_LARGEST).decode(errors="surrogateescape")
    except OSError:
        return ()
    if not text.startswith(_POINTER):
        return ()
    own = Path(root, text.removeprefix(_POINTER).strip())
    try:
        common = own / (own / "commondir").read_text(errors="surrogateescape").strip()
    except OSError:
        common = own
    # Anything could be named there: only what is a repository counts.
    if not (own / "HEAD").is_file() or not (common / "objects").is_dir():
        return ()
    return (real_path(common),)
