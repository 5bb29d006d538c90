"""Starts a process that is held to a profile, with everything that it will start.

Landlock and filters bind the thread that asks for them, so a fresh thread restricts itself, starts
the process by the ordinary means, and ends. A view of the files is entered before them, since both
forbid mounts. Who is not root may enter none here, so that the starter's thread does all that.
"""

from __future__ import annotations

import _thread
import errno
import os
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import IO, TypedDict, Unpack

from prong.host.guardian import GUARDIAN
from prong.host.sandbox import landlock, mounts, places, seccomp
from prong.host.sandbox.bind import bind
from prong.host.sandbox.linux_ability import enters_by_thread, has_terminals
from prong.host.sandbox.remnant import Offspring, hold_view
from prong.host.sandbox.room import Given, Room, is_viewed
from prong.host.sandbox.starter import STARTER, Binding, Started
from prong.system.descriptor import open_own

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")
_SCOPED_SINCE = 6


class Mounts(TypedDict):
    """What a command sees; see `mounts.enter`."""

    writable: tuple[str, ...]
    pinned: tuple[str, ...]
    kept: tuple[str, ...]
    fleeting: tuple[str, ...]
    masks: tuple[tuple[str, str], ...]
    terminals: bool
    cwd: str


def _masks() -> str:
    """Have something empty to put over what is hidden; gives where."""
    folder = GUARDIAN.folder()
    with suppress(FileExistsError):
        os.mkdir(f"{folder}/folder", 0o000)  # noqa: PTH102
    with suppress(FileExistsError):
        os.close(open_own(f"{folder}/file", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o000))
    return folder


def spawn(
    argv: Sequence[str], room: Room, **given: Unpack[Given]
) -> subprocess.Popen[bytes] | Started:
    """Start a process in a room; `given` is for Popen.

    Raises OSError if it cannot be started, or not be held.
    """
    began = time.monotonic()
    started, view = _spawn(argv, room, given)
    if view >= 0:
        room.note_start(Offspring(os.fstat(view).st_ino, started.pid, began, view))
    return started


def _spawn(
    argv: Sequence[str], room: Room, given: Given
) -> tuple[subprocess.Popen[bytes] | Started, int]:
    """Start it; gives what holds its view too, -1 if it has none."""
    binding = _binding(room)
    if not is_viewed(room.profile, room.ability):
        return _in_thread(lambda: bind(*binding), argv, given), -1
    seen = _view(room)
    if not enters_by_thread():
        return _by_starter(argv, seen, binding, given)
    views: list[int] = []

    def enter_and_bind() -> None:
        mounts.enter(**seen)
        views.append(hold_view())
        bind(*binding)

    try:
        return _in_thread(enter_and_bind, argv, given), views[0]
    except BaseException:
        for view in views:
            os.close(view)
        raise


def _by_starter(
    argv: Sequence[str], seen: Mounts, binding: Binding, given: Given
) -> tuple[Started, int]:
    null = open_own(os.devnull, os.O_RDWR)
    try:
        named = (given["stdin"], given["stdout"], given["stderr"])
        streams = [null if one == subprocess.DEVNULL else _number(one) for one in named]
        targets = (0, 1, 2, *given["pass_fds"])
        order = (list(argv), given["env"], {**seen}, binding, targets)
        return STARTER.start(order, [*streams, *given["pass_fds"]])
    finally:
        os.close(null)


def _number(stream: IO[bytes] | int) -> int:
    return stream if isinstance(stream, int) else stream.fileno()


def _binding(room: Room) -> Binding:
    """Work out what binds a thread."""
    profile, ability = room.profile, room.ability
    reading = profile.name == "reading"
    rules = landlock.rules_for(
        ability.abi, network=profile.network, signals=profile.signals, devices=not reading
    )
    granted = (*room.writable, *(() if reading else ("/dev/shm",)))  # noqa: S108
    devices = DEVICES
    if is_viewed(profile, ability) and has_terminals():
        granted, devices = (*granted, "/dev/pts"), (*devices, "/dev/ptmx")
    kind = seccomp.machine() if ability.filters else None
    refusals = seccomp.Refusals(
        attributes=not profile.attributes,
        signals=not profile.signals and reading and ability.abi < _SCOPED_SINCE,
        network=not profile.network,
        unix=not profile.daemons and not is_viewed(profile, ability),
    )
    bare = room.hidden and not is_viewed(profile, ability)
    readable = (*places.beside(room.hidden), *granted, *devices) if bare else ()
    ruled = landlock.spell(ability.abi, rules, granted, devices, readable)
    return (*ruled, kind.seccomp, seccomp.program(kind, refusals)) if kind else (*ruled, 0, b"")


def _view(room: Room) -> Mounts:
    shared = ("/dev/shm",) if room.profile.name != "reading" else ()  # noqa: S108
    writable = (*room.writable, *(one for one in shared if os.path.isdir(one)))  # noqa: PTH112
    held = {*writable, *room.kept}
    loose = (one for one in room.profile.pinned if one not in held)
    pinned = [found for one in loose if (found := places.real(one)) is not None]
    masks: list[tuple[str, str]] = []
    empty = _masks() if room.hidden else ""
    for path in room.hidden:
        folder = os.path.isdir(path)  # noqa: PTH112
        masks.append((f"{empty}/{'folder' if folder else 'file'}", path))

    def seen(paths: Iterable[str]) -> tuple[str, ...]:
        return tuple(one for one in paths if not places.is_below(one, room.hidden))

    return Mounts(
        writable=seen(writable),
        pinned=seen(one for one in pinned if os.path.isdir(one) and one not in held),  # noqa: PTH112
        kept=seen(one for one, named in room.kept.items() if named),
        fleeting=seen(one for one, named in room.kept.items() if not named),
        masks=tuple(masks),
        terminals=has_terminals(),
        cwd=room.cwd,
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
        finally:
            over.release()

    # The thread is waited for at once, so the bookkeeping of a `Thread` would be for nothing.
    over = _thread.allocate_lock()
    over.acquire()
    _thread.start_new_thread(work, ())
    over.acquire()
    if not started:
        raise failed[0] if failed else OSError(errno.EIO, "the sandbox could not be made")
    return started[0]
