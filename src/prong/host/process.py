"""Processes in groups of their own, at little cost.

A spawn is `Popen` (vfork underneath, as nothing runs between fork and exec), a non-blocking pipe
and a pidfd watched by the event loop: no thread per child and half the CPU of asyncio's own
subprocess transport. Three rules keep it from hanging or hitting strangers:

- A pipe is given up shortly after its process has ended, even if a descendant holds it open.
  What the process itself wrote is complete by then: it fits into the pipe.
- Everything is ended by group, by the guardian if Prong itself is killed. A process that makes a
  session of its own escapes that.
- Once a group is known to be empty it is never signalled again: its number may be another's.
"""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

import anyio
import anyio.lowlevel
from msgspec import Struct

from prong.host.exit_output import ExitFile, ExitPipe, open_exit_output
from prong.host.guardian import GUARDIAN, MARK
from prong.host.host import Finished
from prong.host.sandbox.room import Room
from prong.host.sandbox.starter import Started
from prong.system.bash_program import bash_program
from prong.system.identity import presence
from prong.system.pipe_end import CHUNK, PipeSource
from prong.system.process_tree import KILLED, ProcessTree, apart, exit_descriptor
from prong.system.program_path import program_path

GRACE = 2.0
"""Seconds between asking a group to end and forcing it."""
LINGER = 0.2
"""Seconds a pipe is read after its process has ended."""
_MOMENT = 0.05
"""Seconds in which most processes end when they are asked to."""


class Streams(Struct, frozen=True):
    """What a process reads from and prints to."""

    stdin: IO[bytes] | int
    stdout: int
    stderr: int
    others: tuple[int, ...] = ()
    """Descriptors that it has by the same numbers as we."""


class Group:
    """A process that leads a process group, and its end."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str] | None,
        streams: Streams,
        withhold: Collection[str] = (),
        room: Room | None = None,
    ) -> None:
        """Start it, in a sandbox if there is one; the caller closes its own ends of the streams.

        It sees our environment but for the variables to withhold. One with an environment of its
        own may be anything that the user or a model asked for. The others are our own short-lived
        tools, for which a mark is not worth its price.

        Raises OSError.
        """
        if env is None:
            GUARDIAN.ready()
            own = dict[str, str]()
        else:
            own = {**env, MARK: GUARDIAN.expect()}
        whole = {**os.environ, **own}
        for name in withhold:
            whole.pop(name, None)
        try:
            self._process = _spawn(argv, cwd, whole, streams, room)
            self._tree = ProcessTree(self._process.pid)
        except (OSError, ValueError) as error:
            GUARDIAN.give_up()
            if isinstance(error, OSError):
                raise
            # A NUL or a lone surrogate in a word.
            raise OSError(errno.EINVAL, f"cannot be started: {error}") from error
        self.pid = self._process.pid
        GUARDIAN.tell("+", self.pid)
        self.exited = anyio.Event()
        self.empty = False
        self.deadline = float("inf")
        """The loop's time after which its pipes are given up."""
        self.waiting: set[anyio.Event] = set()
        """Set when the process ends: readers that wait for output or the end."""
        self._watch()

    @property
    def code(self) -> int:
        """The exit code of a process that has ended."""
        assert self._process.returncode is not None
        return self._process.returncode

    def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        if isinstance(self._process, Started):
            self._watch_descriptor(loop, self._process.fileno())
            return
        descriptor = exit_descriptor(self.pid)
        if descriptor is None:
            self._watch_in_thread(loop)
        else:
            self._watch_descriptor(loop, descriptor, own=True)

    def _watch_descriptor(
        self, loop: asyncio.AbstractEventLoop, descriptor: int, *, own: bool = False
    ) -> None:
        def on_exit() -> None:
            loop.remove_reader(descriptor)
            if own:
                os.close(descriptor)
            self._ended(loop)

        loop.add_reader(descriptor, on_exit)

    def _watch_in_thread(self, loop: asyncio.AbstractEventLoop) -> None:
        def wait() -> None:
            self._process.wait()
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._ended, loop)

        threading.Thread(target=wait, daemon=True).start()

    def _ended(self, loop: asyncio.AbstractEventLoop) -> None:
        self._process.wait()
        self.deadline = loop.time() + LINGER
        if self.alive():
            GUARDIAN.tell("=", self.pid)
        self.exited.set()
        for event in self.waiting:
            event.set()

    def alive(self) -> bool:
        """Tell whether anything of the group is left."""
        return self._tell(self._tree.exists)

    def ask(self) -> bool:
        """Ask the whole group to end; False if nothing of it is left."""
        return self._tell(self._tree.ask)

    def force(self) -> bool:
        """End the whole group at once; False if nothing of it is left."""
        return self._tell(self._tree.force)

    def _tell(self, way: Callable[[], bool]) -> bool:
        if self.empty:
            return False
        led = self._process.returncode is None
        # No process gets the number of a group that has members: if there is one, ours has none.
        if (led or presence(self.pid) == "gone") and way():
            return True
        if not led:
            self._clear()
        return False

    def _clear(self) -> None:
        self.empty = True
        self._tree.close()
        GUARDIAN.tell("-", self.pid)

    async def kill(self) -> None:
        """Ask the group to end, force it after a moment, wait until it is gone."""
        if self.empty:
            return
        with anyio.CancelScope(shield=True):
            if self.ask():
                with anyio.move_on_after(GRACE):
                    await self._wait_empty()
            # Always: a look at the members may miss one that was being born, the signal cannot.
            if self.force():
                with anyio.move_on_after(GRACE):
                    await self._wait_empty()
                    # Zombies that a slow init has not reaped yet are nobody's concern.
                    self._clear()

    async def _wait_empty(self) -> None:
        with anyio.move_on_after(_MOMENT):
            await self.exited.wait()
        pause = 0.005
        while self.alive() and self._tree.has_live_member():
            self._tree.ask_unheard()
            await anyio.sleep(pause)
            pause = min(pause * 2, 0.1)
        await self.exited.wait()


def _spawn(
    argv: Sequence[str], cwd: str, env: dict[str, str], streams: Streams, room: Room | None
) -> subprocess.Popen[bytes] | Started:
    if room is not None and room.ability.kind == "seatbelt":
        from prong.host.sandbox.seatbelt import profile_text

        argv = ["/usr/bin/sandbox-exec", "-p", profile_text(room.profile, room.temp), *argv]
    if room is None or room.ability.kind == "seatbelt":
        return subprocess.Popen(
            [program_path(argv[0]), *argv[1:]],
            cwd=cwd,
            env=env,
            stdin=streams.stdin,
            stdout=streams.stdout,
            stderr=streams.stderr,
            pass_fds=streams.others,
            **apart(),
        )
    # Most sessions never run a command.
    from prong.host.sandbox.spawn import spawn

    return spawn(
        argv,
        room,
        cwd=cwd,
        env=env,
        stdin=streams.stdin,
        stdout=streams.stdout,
        stderr=streams.stderr,
        pass_fds=streams.others,
        start_new_session=True,
    )


class Pipe:
    """The reading end of a pipe, non-blocking."""

    def __init__(self) -> None:
        """Open both ends; `sink` is for the child and is closed here once it has started."""
        source, self.sink = os.pipe()
        self._source = PipeSource(source)
        self.open = True

    def read_nowait(self) -> bytes | None:
        """Take what is there: None if nothing is yet, empty at the end."""
        return self._source.read_nowait() if self.open else b""

    def close_sink(self) -> None:
        """Give up the child's end, so that the end of the child ends the pipe."""
        if self.sink >= 0:
            os.close(self.sink)
            self.sink = -1

    def close(self) -> None:
        """Give up both ends."""
        self.close_sink()
        if self.open:
            self.open = False
            self._source.close()

    async def wait(self, group: Group) -> None:
        """Wait until there is something to read, the process has ended, or its time is up."""
        loop = asyncio.get_running_loop()
        ready = anyio.Event()
        self._source.watch(ready.set)
        try:
            if group.exited.is_set():
                with anyio.move_on_after(group.deadline - loop.time()):
                    await ready.wait()
            else:
                group.waiting.add(ready)
                await ready.wait()
        finally:
            group.waiting.discard(ready)
            self._source.unwatch()

    async def chunks(self, group: Group) -> AsyncGenerator[bytes, None]:
        """Stream what the group prints until its process has ended.

        May be left at any point and called again.
        """
        loop = asyncio.get_running_loop()
        rest = CHUNK
        while rest > 0:
            late = loop.time() >= group.deadline
            data = self.read_nowait()
            if data:
                rest -= len(data) if late else 0
                yield data
                # A flood must not keep the loop from everything else.
                await anyio.lowlevel.checkpoint()
            elif late or data is not None:
                break
            else:
                await self.wait(group)
        self.close()


class LocalProcess:
    """A shell command of this machine, its output merged into one pipe."""

    def __init__(
        self,
        group: Group,
        pipe: Pipe,
        room: Room | None = None,
        last: ExitPipe | ExitFile | None = None,
    ) -> None:
        """Take over a started group and the room it is in.

        It prints into one pipe, and what it prints `at_exit` into another.
        """
        self.group = group
        self._pipe = pipe
        self._room = room
        self._last = last
        self._reading = False

    @property
    def pid(self) -> int:
        """The id of the process and of its group."""
        return self.group.pid

    async def output(self) -> AsyncIterator[bytes]:
        """Stream what it prints; a reader that left off may go on with a second call."""
        assert not self._reading, "one reader at a time"
        self._reading = True
        try:
            async for chunk in self._pipe.chunks(self.group):
                yield chunk
        finally:
            self._reading = False

    async def wait(self) -> int:
        """Wait until it has ended; gives the exit code."""
        await self.group.exited.wait()
        return self.group.code

    async def kill(self) -> None:
        """End it and its whole group: asked first, forced after a moment."""
        await self.group.kill()
        if not self._reading:
            self._pipe.close()

    def exit_output(self) -> str:
        """Give what its shell printed `at_exit`, the first time that it is asked."""
        last, self._last = self._last, None
        return "" if last is None else os.fsdecode(last.take())

    def leave(self) -> list[str]:
        """See to what is left after its end; gives what had to be undone."""
        self.exit_output()
        room, self._room = self._room, None
        return room.leave() if room is not None else []


def start(
    command: str,
    *,
    cwd: str,
    env: Mapping[str, str] | None,
    withhold: Collection[str] = (),
    room: Room | None = None,
    at_exit: str = "",
) -> LocalProcess:
    """Start a bash command line.

    Raises OSError.
    """
    pipe = Pipe()
    last: ExitPipe | ExitFile | None = None
    others = tuple[int, ...]()
    try:
        if at_exit:
            last = open_exit_output()
            others = last.descriptors
            command = _trapped(command, at_exit, last.target)
        group = Group(
            [bash_program(), "-c", command],
            cwd=cwd,
            env=env,
            streams=Streams(subprocess.DEVNULL, pipe.sink, pipe.sink, others),
            withhold=withhold,
            room=room,
        )
    except BaseException:
        pipe.close()
        if last is not None:
            last.close()
        if room is not None:
            room.leave()
        raise
    pipe.close_sink()
    if last is not None:
        last.begin()
    return LocalProcess(group, pipe, room, last)


def _trapped(command: str, at_exit: str, target: str) -> str:
    """Put a trap in front, on the same line so that line numbers in messages stay right."""
    import shlex

    # Inside the outer braces nothing shows up under `set -x`, nor that a command closed the pipe.
    said = f"{{ {{ {at_exit}; }} {target}; }} 2>/dev/null || :"
    return f"trap {shlex.quote(said)} EXIT; {command}"


class _BoundedBuffer:
    """Keeps the first bytes of a pipe and drops the rest."""

    def __init__(self, pipe: Pipe, limit: int | None) -> None:
        self.data = bytearray()
        self.cut = False
        self._pipe = pipe
        self._limit = limit

    async def collect(self, group: Group) -> None:
        async for chunk in self._pipe.chunks(group):
            room = len(chunk) if self._limit is None else self._limit - len(self.data)
            self.data += chunk[:room]
            self.cut = self.cut or len(chunk) > room


async def collect(
    group: Group, out: Pipe, err: Pipe, *, seconds: float | None, limit: int | None
) -> Finished:
    """Gather what a group prints until it ends; kill it when its time is up or ours is."""
    kept, errors = _BoundedBuffer(out, limit), _BoundedBuffer(err, limit)
    try:
        with anyio.move_on_after(seconds):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(kept.collect, group)
                tasks.start_soon(errors.collect, group)
                await group.exited.wait()
    finally:
        timed_out = not group.exited.is_set()
        if timed_out:
            await group.kill()
        out.close()
        err.close()
    code = group.code if group.exited.is_set() else KILLED
    cut = kept.cut or errors.cut
    return Finished(code, bytes(kept.data), bytes(errors.data), timed_out=timed_out, cut=cut)


def _temporary() -> IO[bytes]:
    import tempfile  # most programs are given nothing

    return tempfile.TemporaryFile()


def launch(
    argv: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str] | None,
    stdin: bytes,
    withhold: Collection[str] = (),
) -> tuple[Group, Pipe, Pipe]:
    """Start a program with its two streams kept apart.

    Raises OSError.
    """
    out, err = Pipe(), Pipe()
    try:
        # A file as standard input cannot deadlock with the output, however much either holds.
        with _temporary() if stdin else Path(os.devnull).open("rb") as source:
            if stdin:
                source.write(stdin)
                source.seek(0)
            group = Group(
                argv,
                cwd=cwd,
                env=env,
                streams=Streams(source, out.sink, err.sink),
                withhold=withhold,
            )
    except BaseException:
        out.close()
        err.close()
        raise
    out.close_sink()
    err.close_sink()
    return group, out, err
