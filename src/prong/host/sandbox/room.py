"""What one process is held to, made ready before its start and seen to after its end.

What is to be kept but is not there cannot be mounted over. It is looked at again when the process
has ended: what was made there meanwhile is taken away, and that is said. If something that it
started goes on by then, it is looked at whenever another ends, and at the end of the host.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import count
from typing import IO, TypedDict
from weakref import WeakSet

from msgspec import Struct, field

from prong.host.guardian import GUARDIAN
from prong.host.private import remove_tree
from prong.host.sandbox import places
from prong.host.sandbox.profile import Ability, Profile
from prong.host.sandbox.remnant import NOBODY, Offspring, end_members


class Given(TypedDict):
    """What every process is started with."""

    cwd: str
    env: dict[str, str]
    stdin: IO[bytes] | int
    stdout: int
    stderr: int
    pass_fds: tuple[int, ...]
    start_new_session: bool


class Room(Struct, eq=False, weakref=True):
    """What one process is held to, and what has to be seen to after its end."""

    profile: Profile
    ability: Ability
    cwd: str
    temp: str = ""
    """Its own temporary folder."""
    writable: tuple[str, ...] = ()
    """What may be written, links followed, if it is there."""
    hidden: tuple[str, ...] = ()
    kept: dict[str, bool] = field(default_factory=dict[str, bool])
    """Paths to keep that are there, and whether they were named, and not found by a pattern."""
    absent: tuple[str, ...] = ()
    """Paths to keep that were not there."""
    numbers: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    """Device and inode of the paths to keep."""
    aside: str = ""
    """Where things are put that were made where nothing may be."""
    lingering: list[Room] = field(default_factory=list["Room"])
    """Rooms of the same host whose process has ended while something that it started goes on."""
    before: tuple[str, ...] = ()
    """What was undone when it was made, of what those had made meanwhile."""
    offspring: Offspring = NOBODY
    """Its process with all that it has started."""
    anchor: int = -1
    """The folder that it was started in, wherever that is by now; -1 if it need not be known."""

    def note_start(self, offspring: Offspring) -> None:
        """Take note of the process that was started."""
        self.offspring = offspring

    def excuse(self, paths: Iterable[str]) -> None:
        """Take note that somebody else may make these paths: they are not to be taken away."""
        for path in paths:
            self.absent = tuple(
                one for one in self.absent if not (_holds(one, path) or _holds(path, one))
            )
            self.numbers = {one: n for one, n in self.numbers.items() if not _holds(one, path)}

    def leave(self) -> list[str]:
        """See to what is left after the end; gives what was undone, a sentence each."""
        told = [*self.before, *self.look()]
        for path, number in self.numbers.items():
            if places.number(path) != number:
                told.append(f"{path} is protected, and another file stands in its place now")
        told += look_again(self.lingering)
        if self.temp:
            remove_tree(self.temp)
        self.numbers, self.temp = {}, ""
        if self.absent and self.goes_on():
            self.lingering.append(self)
        else:
            self.forget()
        return told

    def forget(self) -> None:
        """Look no more at what is made where nothing may be."""
        if self in self.lingering:
            self.lingering.remove(self)
        self.absent = ()
        if self.anchor >= 0:
            os.close(self.anchor)
        self.offspring.let_go()
        self.anchor, self.offspring = -1, NOBODY
        _ROOMS.discard(self)

    def look(self) -> list[str]:
        """Take away what was made where nothing may be; gives what was done, a sentence each."""
        return [self._undo(path) for path in self._watched() if os.path.lexists(path)]

    def _watched(self) -> tuple[str, ...]:
        """Give the paths to keep that were not there, also where they are after a rename."""
        try:
            now = os.readlink(f"/proc/self/fd/{self.anchor}") if self.anchor >= 0 else self.cwd  # noqa: PTH115
        except OSError:
            now = self.cwd
        if now == self.cwd:
            return self.absent
        old, new = _parted(self.cwd, now)
        moved = (new + path[len(old) :] for path in self.absent if _holds(old, path))
        return (*self.absent, *moved)

    def goes_on(self) -> bool:
        """Whether anything that was started in it still runs."""
        return bool(self.offspring.members())

    def _undo(self, path: str) -> str:
        """Take away what was made where nothing may be."""
        import shutil

        where = os.path.join(self.aside, f"taken-{os.urandom(4).hex()}")  # noqa: PTH118
        try:
            os.makedirs(self.aside, mode=0o700, exist_ok=True)  # noqa: PTH103
            shutil.move(path, where)
        except OSError as error:
            return f"{path} is protected; it was made, and could not be taken away: {error}"
        return f"{path} is protected; what was made there was moved to {where}"


_ROOMS = WeakSet[Room]()
"""Those of this process that are in use and keep or open something."""
_NUMBERS = count(1)
"""Of temporary folders."""


def _holds(folder: str, path: str) -> bool:
    return path == folder or path.startswith(folder + "/")


def _parted(old: str, new: str) -> tuple[str, str]:
    """Leave out what two paths have in common at their ends."""
    while old and new:
        (above, _, name), (beyond, _, other) = old.rpartition("/"), new.rpartition("/")
        if name != other:
            break
        old, new = above, beyond
    return old, new


def allowed(path: str) -> None:
    """Take note that a file was written by leave: no room takes it away after its end."""
    for room in _ROOMS:
        room.excuse((path,))


def look_again(lingering: list[Room]) -> list[str]:
    """Take away what was made since by what goes on in rooms; gives what was done."""
    told: list[str] = []
    for room in tuple(lingering):
        goes_on = room.goes_on()
        told += room.look()
        if not goes_on:
            room.forget()
    return told


async def dissolve(lingering: list[Room]) -> list[str]:
    """End what goes on in rooms whose process has ended; gives what was done, a sentence each."""
    told: list[str] = []
    for room in tuple(lingering):
        ended = await end_members(room.offspring)
        if ended:
            told.append(f"{', '.join(ended)} went on after the command that started it: ended")
        told += room.look()
        room.forget()
    return told


def furnish(
    profile: Profile,
    ability: Ability,
    *,
    cwd: str,
    env: Mapping[str, str],
    home: str,
    aside: str,
    lingering: list[Room],
) -> Room:
    """Find and make what a process needs that is held to a profile.

    Raises OSError if it cannot be held as far as this system can.
    """
    room = Room(profile, ability, places.real(cwd) or cwd, aside=aside, lingering=lingering)
    # What they have made must not pass for something that was there.
    room.before = tuple(look_again(lingering))
    for path in profile.writable:
        places.make_cache(path)
    if profile.private:
        room.temp = f"{GUARDIAN.folder()}/{next(_NUMBERS)}"
        os.mkdir(room.temp, 0o700)  # noqa: PTH102
    room.kept, absent = places.find_kept(profile.kept, profile.spared)
    folders = (*profile.writable, *((room.temp,) if room.temp else ()))
    opened = [found for one in folders if (found := places.real(one)) is not None]
    room.writable = places.outermost(opened, tuple(room.kept))
    # Whoever makes a repository where there was none makes what is in it.
    unmade = tuple(f"{one}/" for one in profile.pinned if not os.path.lexists(one))
    room.absent = tuple(path for path in absent if not f"{path}/".startswith(unmade))
    if sys.platform == "linux" and room.absent:
        with suppress(OSError):
            room.anchor = os.open(room.cwd, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    # What a pattern names is replaced by others as they work.
    found = ((path, places.number(path)) for path, named in room.kept.items() if named)
    room.numbers = {path: number for path, number in found if number is not None}
    _acquaint(room)
    if ability.kind == "landlock":
        try:
            room.hidden = _hidden(room, env, home)
        except OSError:
            room.leave()
            raise
    return room


def _acquaint(room: Room) -> None:
    """Let rooms know of paths that others may make; most have nothing to do with any."""
    opened = room.profile.opened
    if not (room.absent or room.numbers or opened):
        return
    for other in _ROOMS:
        if opened:
            other.excuse(opened)
        if other.profile.opened:
            room.excuse(other.profile.opened)
    _ROOMS.add(room)


def _hidden(room: Room, env: Mapping[str, str], home: str) -> tuple[str, ...]:
    assert sys.platform == "linux"
    profile = room.profile
    viewed = is_viewed(profile, room.ability)
    # Landlock hides a path by naming all beside it, which in a full /tmp takes long.
    reached = viewed or profile.daemons or not room.ability.filters
    hidden = [one for one in profile.hidden if reached or not one.sockets]
    if viewed or profile.name == "reading":
        found = places.find_hidden(hidden)
    else:
        # Landlock alone can hide what lies where the command makes nothing.
        single = places.find_hidden([one for one in hidden if not one.deep])
        found = [path for path in single if not places.is_below(path, room.writable)]
    if viewed and not profile.daemons:
        found += places.daemon_sockets(env, home, os.geteuid(), agents=profile.agents)
    # What lies in a folder that is hidden is hidden with it, and cannot be reached to be covered.
    return places.outermost(found)


def is_viewed(profile: Profile, ability: Ability) -> bool:
    """Whether a view of its own is made for a profile."""
    return ability.views and profile.name in {"working", "worktree"}
