"""What installed packages bring: found by entry points, loaded when it is wanted, in one way.

An installed package is the user's own: its code runs without a question. So the folder that is
worked in is not looked at, and everything says whose it is: what cannot be loaded is named with its
package, and stops nobody who did not ask for it by name. `prong doctor` lists what is there.
"""

from __future__ import annotations

import os
import re
import sys
from functools import lru_cache
from typing import Literal, TypeAlias, get_args

import msgspec

from prong.errors import NotInstalled

ExtensionGroup: TypeAlias = Literal[
    "prong.agents", "prong.backends", "prong.launchers", "prong.providers", "prong.tools"
]
GROUPS: tuple[ExtensionGroup, ...] = get_args(ExtensionGroup)
_WHAT: dict[ExtensionGroup, str] = {
    "prong.agents": "the agent types",
    "prong.backends": "the back-end",
    "prong.launchers": "the launcher",
    "prong.providers": "the provider",
    "prong.tools": "the tools",
}


class Extension(msgspec.Struct, frozen=True, order=True):
    """One entry point of a package."""

    group: ExtensionGroup
    name: str
    value: str
    """The module, and what in it is meant."""
    package: str
    version: str

    def __str__(self) -> str:
        return f"{_WHAT[self.group]} {self.name!r} ({self.value} of {self.package})"

    def load(self) -> object:
        """Import what it names.

        Raises NotInstalled if that fails, in whatever way.
        """
        from importlib.metadata import EntryPoint

        try:
            return EntryPoint(self.name, self.value, self.group).load()
        except (Exception, SystemExit) as error:
            # Foreign code may fail in any way; it must be said whose it is.
            raise self.wrong(f"cannot be loaded: {error!r}") from error

    def wrong(self, why: str) -> NotInstalled:
        """Make the error of one that cannot be used."""
        return NotInstalled(f"{self} {why}; update or uninstall that package")


def installed(group: ExtensionGroup) -> list[Extension]:
    """List what packages bring, without loading any of it."""
    return list(_listed(group, _places())) if group in _declared(_places()) else []


def find_extension(group: ExtensionGroup, name: str) -> Extension | None:
    """Find the one of a name; None if no package brings it.

    Raises NotInstalled if several do: nobody can guess which one was meant.
    """
    found = [one for one in installed(group) if one.name == name]
    if len(found) > 1:
        raise NotInstalled(
            f"{_WHAT[group]} {name!r} is brought by several packages "
            f"({', '.join(sorted(f'{one.value} of {one.package}' for one in found))}); uninstall "
            "all but one"
        )
    return found[0] if found else None


@lru_cache(maxsize=len(GROUPS))
def _listed(group: ExtensionGroup, places: tuple[tuple[str, int], ...]) -> tuple[Extension, ...]:
    """Read the metadata of all packages, which takes its time."""
    from importlib.metadata import distributions

    found: dict[str, list[Extension]] = {}
    for package in distributions(path=[place for place, _ in places]):
        # A message has no `get`.
        told = package.metadata
        name = told["Name"] if "Name" in told else "?"  # noqa: SIM401
        version = told["Version"] if "Version" in told else ""  # noqa: SIM401
        points = package.entry_points.select(group=group)
        # Of two of one name the first is the one that is imported.
        found.setdefault(
            re.sub(r"[-_.]+", "-", name).lower(),
            [Extension(group, point.name, point.value, name, version) for point in points],
        )
    return tuple(sorted({one for brought in found.values() for one in brought}))


@lru_cache(maxsize=1)
def _declared(places: tuple[tuple[str, int], ...]) -> frozenset[str]:
    """Name the groups of ours that any package has.

    Reading the metadata of all packages takes longer than all else at start; looking for a few
    words in their small files does not.
    """
    found: set[str] = set()
    for place, _ in places:
        try:
            folders = [entry.path for entry in os.scandir(place) if entry.name.endswith("-info")]
        except OSError:
            continue
        for folder in folders:
            try:
                with open(f"{folder}/entry_points.txt", "rb") as file:  # noqa: PTH123 - speed
                    said = file.read()
            except OSError:
                continue
            found.update(group for group in GROUPS if f"[{group}]".encode() in said)
    return frozenset(found)


def _places() -> tuple[tuple[str, int], ...]:
    """Name where packages are, each with its last change: to install one is a change.

    The working folder is no such place, though `python -m` looks for modules there: a project could
    bring packages with itself, whose code would run without a question.
    """
    found: dict[str, int] = {}
    here = _identity(".")
    for place in sys.path:
        identity = _identity(place or ".")
        if identity is not None and (here is None or identity[:2] != here[:2]):
            found[place] = identity[2]
    return tuple(found.items())


def _identity(place: str) -> tuple[int, int, int] | None:
    """Tell folders apart, and see when one was changed."""
    try:
        found = os.stat(place)  # noqa: PTH116 - speed
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns
