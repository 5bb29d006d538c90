"""Starts a process that is held to a profile, with everything that it will start.

Landlock and filters bind the thread that asks for them, so a fresh thread restricts itself, starts
the process by the ordinary means, and ends. A view of the files is entered before them, since both
forbid mounts.

What is to be kept but is not there cannot be mounted over. It is looked at again when the process
has ended: what was made there meanwhile is taken away, and that is said.
"""

from __future__ import annotations

import atexit
import errno
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO, TypedDict, Unpack
from weakref import WeakSet

from prong.host.sandbox import landlock, mounts, places, privilege, seccomp
from prong.host.sandbox.ability import enters_by_thread, has_terminals
from prong.host.sandbox.profile import Ability, Profile
from prong.host.sandbox.seatbelt import profile_text

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")
_SCOPED_SINCE = 6


class Given(TypedDict):
    """What every process is started with."""

    cwd: str
    env: dict[str, str]
    stdin: IO[bytes] | int
    stdout: int
    stderr: int
    start_new_session: bool


@dataclass(slots=True, eq=False, weakref_slot=True)
class Room:
    """What one process is held to, and what has to be seen to after its end."""

    profile: Profile
    ability: Ability
    cwd: str
    temp: str = ""
    """Its own temporary folder."""
    hidden: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    """Paths to keep that were not there."""
    numbers: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    """Device and inode of the paths to keep."""
    aside: str = ""
    """Where things are put that were made where nothing may be."""

    @property
    def writable(self) -> tuple[str, ...]:
        """What may be written, links followed, if it is there."""
        named = (*self.profile.writable, self.temp)
        real = (os.path.realpath(one) for one in named if one)
        return mounts.outermost([one for one in real if os.path.exists(one)], self.kept)  # noqa: PTH110

    def excuse(self, paths: Iterable[str]) -> None:
        """Take note that somebody else may make these paths: they are not to be taken away."""
        for path in paths:
            self.absent = tuple(
                one for one in self.absent if not (_holds(one, path) or _holds(path, one))
            )

    def leave(self) -> list[str]:
        """See to what is left after the end; gives what was undone, a sentence each."""
        _ROOMS.discard(self)
        told = [self._undo(path) for path in self.absent if os.path.lexists(path)]
        for path, number in self.numbers.items():
            if _number(path) != number:
                told.append(f"{path} is protected, and another file stands in its place now")
        if self.temp:
            _remove(self.temp)
        self.absent, self.numbers, self.temp = (), {}, ""
        return told

    def _undo(self, path: str) -> str:
        """Take away what was made where nothing may be."""
        where = os.path.join(self.aside, f"taken-{os.urandom(4).hex()}")  # noqa: PTH118
        try:
            os.makedirs(self.aside, mode=0o700, exist_ok=True)  # noqa: PTH103
            shutil.move(path, where)
        except OSError as error:
            return f"{path} is protected; it was made, and could not be taken away: {error}"
        return f"{path} is protected; what was made there was moved to {where}"


_ROOMS = WeakSet[Room]()
"""Those of this process that are in use."""


def _holds(folder: str, path: str) -> bool:
    return path == folder or path.startswith(folder + "/")


def allowed(path: str) -> None:
    """Take note that a file was written by leave: no room takes it away after its end."""
    for room in _ROOMS:
        room.excuse((path,))


def furnish(
    profile: Profile, ability: Ability, *, cwd: str, env: Mapping[str, str], home: str, aside: str
) -> Room:
    """Find and make what a process needs that is held to a profile.

    Raises OSError if it cannot be held as far as this system can.
    """
    room = Room(profile, ability, os.path.realpath(cwd), aside=aside)
    for path in profile.writable:
        _ensure(path)
    if profile.private:
        room.temp = os.path.realpath(_folder())
    there, absent = places.find_kept(profile.kept)
    spared = {os.path.realpath(path) for path in profile.spared}
    room.kept = tuple(dict.fromkeys(path for path in there if path not in spared))
    # Whoever makes a repository where there was none makes what is in it.
    unmade = tuple(f"{one}/" for one in profile.pinned if not os.path.lexists(one))
    room.absent = tuple(path for path in absent if not path.startswith(unmade))
    room.numbers = {path: found for path in room.kept if (found := _number(path)) is not None}
    for other in _ROOMS:
        other.excuse(profile.opened)
        room.excuse(other.profile.opened)
    _ROOMS.add(room)
    if ability.kind == "landlock":
        viewed = _views(profile, ability)
        hidden = places.find_hidden(profile.hidden) if viewed or profile.name == "reading" else []
        if viewed and not profile.daemons:
            agents = profile.agents
            hidden += places.daemon_sockets(env, home, os.geteuid(), agents=agents)
        room.hidden = tuple(dict.fromkeys(hidden))
    return room


def _views(profile: Profile, ability: Ability) -> bool:
    """Whether a view of its own is made for a profile."""
    return ability.views and profile.name in {"working", "worktree"}


def _ensure(path: str) -> None:
    """Make a file that a process shall write; a folder is there or is not."""
    if path.endswith(".cwd"):
        with suppress(OSError):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))


def _folder() -> str:
    """Make a folder that nobody else can look into."""
    folder = f"{tempfile.gettempdir()}/prong-{os.urandom(8).hex()}"
    os.mkdir(folder, 0o700)  # noqa: PTH102
    return folder


def _remove(folder: str) -> None:
    try:
        os.rmdir(folder)  # noqa: PTH106 - most are empty
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)


@cache
def _masks(process: int) -> str:
    """Make something empty to put over what is hidden, once for this process."""
    del process
    folder = _folder()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.mkdir(f"{folder}/folder", 0o000)  # noqa: PTH102
    os.close(os.open(f"{folder}/file", os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o000))
    return folder


def _number(path: str) -> tuple[int, int] | None:
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def spawn(argv: Sequence[str], room: Room, **given: Unpack[Given]) -> subprocess.Popen[bytes]:
    """Start a process in a room; `given` is for Popen.

    Raises OSError if it cannot be started, or not be held.
    """
    if room.ability.kind == "seatbelt":
        words = ["/usr/bin/sandbox-exec", "-p", profile_text(room.profile, room.temp), *argv]
        return subprocess.Popen(words, **given)
    bind = _binding(room)
    if not _views(room.profile, room.ability):
        return _in_thread(bind, argv, given)
    seen = _view(room)
    if enters_by_thread():

        def enter_and_bind() -> None:
            mounts.enter(seen, user=False, cwd=room.cwd)
            bind()

        return _in_thread(enter_and_bind, argv, given)
    return _by_fork(seen, bind, argv, room.cwd, given)


def _binding(room: Room) -> Callable[[], None]:
    """Give what binds a thread: everything is worked out before."""
    profile, ability = room.profile, room.ability
    reading = profile.name == "reading"
    rules = landlock.rules_for(
        ability.abi, network=profile.network, signals=profile.signals, devices=not reading
    )
    granted = (*room.writable, *DEVICES, *(() if reading else ("/dev/shm",)))  # noqa: S108
    if _views(profile, ability) and has_terminals():
        granted = (*granted, "/dev/ptmx", "/dev/pts")
    kind = seccomp.machine() if ability.filters else None
    refusals = seccomp.Refusals(
        attributes=not profile.attributes,
        signals=not profile.signals and reading and ability.abi < _SCOPED_SINCE,
        network=not profile.network,
        unix=not profile.daemons and not _views(profile, ability),
    )
    program = seccomp.program(kind, refusals) if kind is not None else b""

    readable = (*places.beside(room.hidden), *granted) if reading and room.hidden else ()

    def bind() -> None:
        privilege.shed()
        landlock.restrict(ability.abi, rules, granted, readable)
        if kind is not None:
            seccomp.install(kind, program)

    return bind


def _view(room: Room) -> mounts.Mounts:
    shared = ("/dev/shm",) if room.profile.name != "reading" else ()  # noqa: S108
    writable = (*room.writable, *(one for one in shared if os.path.isdir(one)))  # noqa: PTH112
    pinned = [os.path.realpath(one) for one in room.profile.pinned]
    masks: list[tuple[str, str]] = []
    for path in room.hidden:
        folder = os.path.isdir(path)  # noqa: PTH112
        masks.append((f"{_masks(os.getpid())}/{'folder' if folder else 'file'}", path))
    return mounts.Mounts(
        writable=writable,
        pinned=tuple(one for one in pinned if os.path.isdir(one) and one not in writable),  # noqa: PTH112
        kept=room.kept,
        masks=tuple(masks),
        terminals=has_terminals(),
    )


def _in_thread(
    bind: Callable[[], None], argv: Sequence[str], given: Given
) -> subprocess.Popen[bytes]:
    started: list[subprocess.Popen[bytes]] = []
    failed: list[BaseException] = []

    def work() -> None:
        try:
            bind()
            started.append(subprocess.Popen(list(argv), **given))
        except (OSError, ValueError) as error:
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return started[0]


def _by_fork(
    seen: mounts.Mounts,
    bind: Callable[[], None],
    argv: Sequence[str],
    cwd: str,
    given: Given,
) -> subprocess.Popen[bytes]:
    source, sink = os.pipe()

    def enter() -> None:
        try:
            mounts.enter(seen, user=True, cwd=cwd)
            bind()
        except OSError as error:
            os.write(sink, f"{error.errno} {error.strerror}".encode())
            raise

    try:
        return subprocess.Popen(list(argv), preexec_fn=enter, **given)  # noqa: PLW1509 - one thread in the child
    except subprocess.SubprocessError as error:
        os.set_blocking(source, False)
        told = b""
        with suppress(BlockingIOError):
            told = os.read(source, 4096)
        number, _, why = told.decode(errors="replace").partition(" ")
        code = int(number) if number.isdecimal() else errno.EPERM
        raise OSError(code, why or "the sandbox could not be made") from error
    finally:
        os.close(source)
        os.close(sink)
