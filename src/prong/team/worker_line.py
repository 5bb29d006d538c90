"""The line to a worker: a program whose two streams carry the frames of the protocol.

Whoever runs it (this machine, ssh, a container engine) makes no difference: when the program ends,
the line has ended, and with it every channel, each for itself; why is put together from how it
ended and what it said last.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import aclosing
from pathlib import Path

import anyio
import msgspec

from prong.errors import ProngError, WorkerFailed
from prong.host import make_private
from prong.host.dialogue import Dialogue
from prong.prompt import Prompt
from prong.provider import Secrets
from prong.team.channel import Incoming, Outgoing
from prong.team.message import (
    CONTROL,
    LEAD,
    PROTOCOL,
    Alive,
    ChannelClosed,
    CloseChannel,
    Credit,
    Frame,
    Frames,
    FrameTooLarge,
    Hello,
    NodeChosen,
    Queued,
    Ready,
    read_up,
)
from prong.team.rope_transfer import SentRopes

_SHOWN = 300
"""Characters that are shown of a worker's last words."""


class Waits(msgspec.Struct, frozen=True, kw_only=True):
    """How long a worker is waited for, in seconds."""

    start: float = 60.0
    """Until it says its first word."""
    silence: float = 120.0
    """Between two messages: while nothing happens, it says every now and then that it is there."""
    stop: float = 5.0
    """Until it has ended when it was asked to."""


class ErrorFile(msgspec.Struct, frozen=True):
    """What a worker, and what leads to it, has written to its standard error."""

    path: Path

    def said(self) -> str:
        """Give the last of it."""
        try:
            return self.path.read_bytes()[-4_000:].decode(errors="replace").strip()
        except OSError:
            return ""


class Greeting:
    """The first word of a worker, and what is said before it."""

    def __init__(self) -> None:
        """Wait for it."""
        self.ready: Ready | None = None
        self.node = ""
        """Which machine of a cluster there is room on; empty if that is not known, or no matter."""
        self.placed = anyio.Event()
        """Set when that is known, and when it will not be any more."""
        self.came = anyio.Event()
        """Set when it has come, and when it will not come any more."""
        self._queued = ""
        self._news = anyio.Event()

    def take(self, whole: Frame) -> None:
        """Take what was said.

        Raises WorkerFailed if it is no greeting, or one in another version of the protocol.
        """
        first = None if whole.channel != CONTROL else read_up(whole.data)
        if isinstance(first, Queued):
            self._queued = first.why
            self._news.set()
            return
        if isinstance(first, NodeChosen) and not self.node:
            self.node = first.node
            self.placed.set()
            return
        if isinstance(first, Alive) and self.node:
            return
        if not isinstance(first, Ready):
            raise WorkerFailed("it did not say hello")
        if first.version != PROTOCOL:
            raise WorkerFailed(
                f"it speaks version {first.version} of the protocol, and this is {PROTOCOL}; "
                "both must be of the same prong"
            )
        self.ready = first
        self.end()

    def end(self) -> None:
        """Let nobody wait for it any longer."""
        self.placed.set()
        self.came.set()
        self._news.set()

    async def queue(self) -> AsyncGenerator[str, None]:
        """Say now and then why there is no worker yet, until there is one, or none will be."""
        while not self.came.is_set():
            if self._news.is_set():
                # Several may wait: they share what is new.
                self._news = anyio.Event()
            await self._news.wait()
            if not self.came.is_set():
                yield self._queued


def _printed(first: bytes) -> str:
    """Say what it means that something else came before the first word."""
    line = next(iter(first.decode(errors="replace").strip().splitlines()), "")[:_SHOWN]
    return (
        f"before its first word came {line!r}, which is not of the protocol: whatever starts it, "
        "as ~/.bashrc does with ssh, must print nothing where there is no terminal"
    )


class _Unheard(WorkerFailed):
    """Of a worker that had spoken nothing was heard for too long."""


class WorkerLine:
    """The line to one worker, by which many channels go."""

    def __init__(
        self, argv: Sequence[str], *, folder: str, waits: Waits, withhold: Collection[str] = ()
    ) -> None:
        """Start the program in a folder of the session's own, where its errors are kept.

        Nothing is carried before `carry` runs. Raises WorkerFailed if it cannot be started.
        """
        self.waits = waits
        self.errors = ErrorFile(Path(folder, "errors.txt"))
        self.outgoing = Outgoing()
        self.ended = anyio.Event()
        self._cut = Frames()
        self.greeting = Greeting()
        self.own_code: int | None = None
        """How its program ended by itself; None if it has not, or was ended from here."""
        self._channels: dict[int, Channel] = {}
        self._changed = anyio.Event()
        """Set when a channel was opened or shut."""
        self._opened = CONTROL
        self._hung_up = False
        self._ropes = SentRopes()
        self._rope_turn = anyio.Lock()
        self._failure: ProngError | None = None
        try:
            make_private(Path(folder))
            with self.errors.path.open("wb") as file:
                self._talk = Dialogue(
                    argv, cwd=folder, env={}, errors=file.fileno(), withhold=withhold
                )
        except OSError as error:
            raise WorkerFailed(f"no process could be started for it: {error}") from error
        self.outgoing.put(Hello())

    @property
    def silent(self) -> bool:
        """Whether it was given up since nothing was heard of it any more."""
        return isinstance(self._failure, _Unheard)

    @property
    def code(self) -> int | None:
        """How its program ended; None if it has not."""
        group = self._talk.group
        return group.code if group.exited.is_set() else None

    @property
    def closing(self) -> bool:
        """Whether it has ended, or was told to end."""
        return self._hung_up or self.ended.is_set()

    async def wait_change(self) -> None:
        """Wait until a channel was opened or shut."""
        if self._changed.is_set():
            self._changed = anyio.Event()
        await self._changed.wait()

    def __len__(self) -> int:
        """How many channels are open."""
        return len(self._channels)

    async def carry(self) -> None:
        """Carry messages both ways until the worker has ended; then every channel has ended."""
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self.outgoing.pump, self._write)
                try:
                    await self._listen()
                except ProngError as error:
                    self._failure = self._failure or error
                group.cancel_scope.cancel()
        finally:
            await self._talk.close(grace=0.0 if self._failure else self.waits.stop)
            self._failure = self._failure or self._lost()
            self.outgoing.close()
            self.ended.set()
            self.greeting.end()
            for channel in tuple(self._channels.values()):
                channel.end()

    async def _write(self, data: bytes) -> None:
        try:
            await self._talk.send(data)
        except OSError:
            # It is gone, and whoever listens finds out how.
            self._talk.hang_up()

    async def _listen(self) -> None:
        async with aclosing(self._talk.chunks()) as chunks:
            while True:
                data = b""
                waits = self.waits.silence if self.greeting.came.is_set() else self.waits.start
                with anyio.move_on_after(waits) as scope:
                    data = await anext(chunks, b"")
                if scope.cancelled_caught:
                    raise self._unheard()
                if not data:
                    # Its pipe may be closed a moment before it is known how it ended.
                    with anyio.move_on_after(self.waits.stop):
                        await self._talk.group.exited.wait()
                    self.own_code = self.code
                    raise self._lost()
                self._hear(data)

    def _hear(self, data: bytes) -> None:
        """Take what came.

        Raises WorkerFailed if it is not of the protocol.
        """
        try:
            for whole in self._cut.feed(data):
                self._take(whole)
        except FrameTooLarge as error:
            if self.greeting.ready is None:
                raise WorkerFailed(_printed(self._cut.rest)) from error
            raise

    def _unheard(self) -> WorkerFailed:
        if not self.greeting.came.is_set():
            return WorkerFailed(f"it said nothing for {self.waits.start:g} seconds after its start")
        return _Unheard(f"nothing was heard of it for {self.waits.silence:g} seconds")

    def _lost(self) -> WorkerFailed:
        how = self._talk.ending or "it closed its pipe"
        torn = ", in the middle of a message" if self._cut.torn else ""
        if self.greeting.ready is None:
            return WorkerFailed(f"{how}{torn} before its first word")
        return WorkerFailed(f"{how}{torn} before its work was done; what it had done is kept")

    def _take(self, whole: Frame) -> None:
        if self.greeting.ready is None:
            self.greeting.take(whole)
        elif whole.channel != CONTROL:
            if (channel := self._channels.get(whole.channel)) is not None:
                channel.take(whole.data)
            elif whole.channel > self._opened:
                raise WorkerFailed("it spoke on a channel that nobody has opened")
        else:
            match read_up(whole.data):
                case Credit() as credit:
                    self.outgoing.grant(credit)
                case ChannelClosed(channel=number, why=why):
                    if (channel := self._channels.get(number)) is not None:
                        channel.end(why)
                case Alive():
                    pass
                case other:
                    raise WorkerFailed(f"it said {type(other).__name__!r} where that means nothing")

    async def wait_ready(self) -> Ready:
        """Wait until the worker has said who it is.

        Raises WorkerFailed if it does not, or speaks another version of the protocol.
        """
        await self.greeting.came.wait()
        if self.greeting.ready is None:
            raise self.failure()
        return self.greeting.ready

    @property
    def node(self) -> str:
        """Which machine of a cluster the worker is on; empty if that is not known, or no matter."""
        return self.greeting.node

    def failure(self) -> WorkerFailed:
        """Say why the line has ended."""
        return WorkerFailed(str(self._failure or self._lost()))

    def open(self) -> Channel:
        """Open a channel; the worker hears of it by the first word."""
        self._opened += 1
        channel = self._channels[self._opened] = Channel(self, self._opened)
        self._changed.set()
        if self.ended.is_set():
            channel.end()
        return channel

    async def lend(self, channel: Channel, prompt: Prompt) -> None:
        """Send what the worker has not of a prompt; it is held there while the channel is open."""
        async with self._rope_turn:
            channel.lent += self._ropes.lend(prompt)
            for part in self._ropes.missing(prompt):
                channel.sent += self.outgoing.put(part)
                await self.outgoing.wait_room(CONTROL)
            # What follows on the channel must not overtake it.
            await self.outgoing.wait_room(CONTROL, below=1)

    def shut(self, channel: Channel) -> None:
        """Forget a channel, and what was lent to it."""
        if self._channels.pop(channel.number, None) is not None:
            self._changed.set()
            self.outgoing.drop(channel.number)
            if channel.lent and (forget := self._ropes.give_back(channel.lent)) is not None:
                self.outgoing.put(forget)

    def hang_up(self) -> None:
        """Say nothing any more, by which it knows that it is to end."""
        self._hung_up = True
        self._talk.hang_up()

    async def close(self, *, grace: float) -> None:
        """Let it end by itself for so many seconds, then end it by force."""
        self.hang_up()
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(grace):
                await self.ended.wait()
            if not self.ended.is_set():
                self._talk.group.force()
                await self.ended.wait()

    def last_words(self, secrets: Secrets) -> str:
        """Give the last line of that, to be added to a reason; empty if there is none."""
        if not self.ended.is_set() or not (said := self.errors.said()):
            return ""
        line = secrets.mask(said.splitlines()[-1].strip())[:_SHOWN]
        return f" (its last words: {line}; more in {self.errors.path})"


class Channel:
    """A part of a line that is one run's, or one workspace's."""

    def __init__(self, line: WorkerLine, number: int) -> None:
        """Be the channel of that number."""
        self.line = line
        self.number = number
        self.sent = self.received = 0
        """Bytes that went there for it, and came from there."""
        self.lent: tuple[str, ...] = ()
        """What of the prompts over there is held for it."""
        self.ended = anyio.Event()
        """Set once nothing goes on in it over there."""
        self._incoming = Incoming(number, line.outgoing)
        self._why = ""

    @property
    def waits(self) -> Waits:
        """How long its worker is waited for."""
        return self.line.waits

    async def send(self, message: msgspec.Struct) -> None:
        """Say something; one that is gone is not told, and whoever listens finds out how."""
        await self.line.outgoing.wait_room(self.number)
        if not self.ended.is_set():
            self.sent += self.line.outgoing.put(message, self.number)

    async def lend(self, prompt: Prompt) -> None:
        """Send what the worker has not of a prompt that a run is to begin from."""
        await self.line.lend(self, prompt)

    def take(self, data: bytes) -> None:
        """Keep what the worker said.

        Raises WorkerFailed if it says more than it may.
        """
        self.received += LEAD + len(data)
        self._incoming.put(data)

    def end(self, why: str = "") -> None:
        """Nothing goes on over there any more."""
        self._why = why
        self.ended.set()
        self._incoming.end()

    def frames(self) -> AsyncGenerator[bytes, None]:
        """Stream what the worker says, message by message, until the channel has ended."""
        return self._incoming.frames()

    def lost(self) -> WorkerFailed:
        """Say why it has ended."""
        if self.line.ended.is_set():
            return self.line.failure()
        return WorkerFailed(self._why or "it ended before its work was done")

    def abort(self) -> None:
        """Listen no more."""
        self._incoming.end()

    async def close(self, *, grace: float) -> None:
        """Have what goes on in it ended, which is waited for so many seconds."""
        with anyio.CancelScope(shield=True), anyio.move_on_after(grace):
            if not self.ended.is_set():
                self.line.outgoing.put(CloseChannel(channel=self.number))
                await self.ended.wait()
        self.line.shut(self)
