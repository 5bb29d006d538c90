"""Starts a process that is held to a profile, with everything that it will start.

Landlock and filters bind the thread that asks for them, so a fresh thread restricts itself, starts
the process by the ordinary means, and ends. A view of the files is entered before them, since both
forbid mounts.
"""

from __future__ import annotations

import _thread
import atexit
import errno
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cache
from typing import Unpack

from prong.host.sandbox import landlock, mounts, places, privilege, seccomp
from prong.host.sandbox.ability import enters_by_thread, has_terminals
from prong.host.sandbox.remnant import Offspring, hold_view, own_view
from prong.host.sandbox.room import Given, Room, is_viewed, make_folder
from prong.host.sandbox.seatbelt import profile_text

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")
_SCOPED_SINCE = 6


@cache
def _masks(process: int) -> str:
    """Make something empty to put over what is hidden, once for this process."""
    del process
    folder = make_folder()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.mkdir(f"{folder}/folder", 0o000)  # noqa: PTH102
    os.close(os.open(f"{folder}/file", os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o000))
    return folder


def spawn(argv: Sequence[str], room: Room, **given: Unpack[Given]) -> subprocess.Popen[bytes]:
    """Start a process in a room; `given` is for Popen.

    Raises OSError if it cannot be started, or not be held.
    """
    if room.ability.kind == "seatbelt":
        words = ["/usr/bin/sandbox-exec", "-p", profile_text(room.profile, room.temp), *argv]
        return subprocess.Popen(words, **given)
    began = time.monotonic()
    started, view = _spawn(argv, room, given)
    if view >= 0:
        room.note_start(Offspring(os.fstat(view).st_ino, started.pid, began, view))
    return started


def _spawn(argv: Sequence[str], room: Room, given: Given) -> tuple[subprocess.Popen[bytes], int]:
    """Start it; gives what holds its view too, -1 if it has none."""
    bind = _binding(room)
    if not is_viewed(room.profile, room.ability):
        return _in_thread(bind, argv, given), -1
    seen = _view(room)
    if enters_by_thread():
        views: list[int] = []

        def enter_and_bind() -> None:
            mounts.enter(seen, user=False, cwd=room.cwd)
            views.append(hold_view("thread-self"))
            bind()

        try:
            return _in_thread(enter_and_bind, argv, given), views[0]
        except BaseException:
            for view in views:
                os.close(view)
            raise
    return _by_fork(seen, bind, argv, room.cwd, given)


def _binding(room: Room) -> Callable[[], None]:
    """Give what binds a thread: everything is worked out before."""
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
    program = seccomp.program(kind, refusals) if kind is not None else b""

    bare = room.hidden and not is_viewed(profile, ability)
    readable = (*places.beside(room.hidden), *granted, *devices) if bare else ()

    def bind() -> None:
        privilege.shed()
        landlock.restrict(ability.abi, rules, granted, devices, readable)
        if kind is not None:
            seccomp.install(kind, program)

    return bind


def _view(room: Room) -> mounts.Mounts:
    shared = ("/dev/shm",) if room.profile.name != "reading" else ()  # noqa: S108
    writable = (*room.writable, *(one for one in shared if os.path.isdir(one)))  # noqa: PTH112
    held = {*writable, *room.kept}
    loose = (one for one in room.profile.pinned if one not in held)
    pinned = [found for one in loose if (found := places.real(one)) is not None]
    masks: list[tuple[str, str]] = []
    for path in room.hidden:
        folder = os.path.isdir(path)  # noqa: PTH112
        masks.append((f"{_masks(os.getpid())}/{'folder' if folder else 'file'}", path))

    def seen(paths: Iterable[str]) -> tuple[str, ...]:
        return tuple(one for one in paths if not places.is_below(one, room.hidden))

    return mounts.Mounts(
        writable=seen(writable),
        pinned=seen(one for one in pinned if os.path.isdir(one) and one not in held),  # noqa: PTH112
        kept=seen(one for one, named in room.kept.items() if named),
        fleeting=seen(one for one, named in room.kept.items() if not named),
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


def _by_fork(
    seen: mounts.Mounts,
    bind: Callable[[], None],
    argv: Sequence[str],
    cwd: str,
    given: Given,
) -> tuple[subprocess.Popen[bytes], int]:
    source, sink = os.pipe()

    def enter() -> None:
        try:
            mounts.enter(seen, user=True, cwd=cwd)
            os.write(sink, f"{own_view()}\n".encode())
            bind()
        except OSError as error:
            os.write(sink, f"{error.errno} {error.strerror}".encode())
            raise

    try:
        started = subprocess.Popen(list(argv), preexec_fn=enter, **given)  # noqa: PLW1509 - one thread in the child
    except subprocess.SubprocessError as error:
        number, _, why = _told(source).rpartition("\n")[2].partition(" ")
        code = int(number) if number.isdecimal() else errno.EPERM
        raise OSError(code, why or "the sandbox could not be made") from error
    else:
        return started, _held(started.pid, int(_told(source) or 0))
    finally:
        os.close(source)
        os.close(sink)


def _held(process: int, view: int) -> int:
    """Hold the view of a process that was just started; -1 if it has ended by now."""
    try:
        held = hold_view(str(process))
    except OSError:
        return -1
    if os.fstat(held).st_ino == view:
        return held
    os.close(held)
    return -1


def _told(source: int) -> str:
    """Read what the child has written, if anything."""
    os.set_blocking(source, False)
    with suppress(BlockingIOError):
        return os.read(source, 4096).decode(errors="replace")
    return ""
