"""The line to a worker: a program whose two streams carry the frames of the protocol.

Whoever runs it (this machine, ssh, a container engine) makes no difference: when the program ends,
the line has ended, and why is put together from how it ended and what it said last.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import aclosing
from pathlib import Path
from signal import SIGKILL

import anyio
import msgspec

from prong.errors import WorkerFailed
from prong.host import make_private
from prong.host.dialogue import Dialogue
from prong.provider import Secrets
from prong.team.message import PROTOCOL, Frames, Hello, Ready, frame, read_up

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


class WorkerLine:
    """The line to one worker."""

    def __init__(
        self, argv: Sequence[str], *, folder: str, waits: Waits, withhold: Collection[str] = ()
    ) -> None:
        """Start the program in a folder of the session's own, where its errors are kept.

        Raises WorkerFailed if it cannot be started.
        """
        self.waits = waits
        self.errors = Path(folder, "errors.txt")
        self._cut = Frames()
        try:
            make_private(self.errors.parent)
            with self.errors.open("wb") as file:
                self._talk = Dialogue(
                    argv, cwd=folder, env={}, errors=file.fileno(), withhold=withhold
                )
        except OSError as error:
            raise WorkerFailed(f"no process could be started for it: {error}") from error

    @property
    def bytes(self) -> tuple[int, int]:
        """How many bytes went to it, and came from it."""
        return self._talk.sent, self._talk.received

    @property
    def code(self) -> int | None:
        """How its program ended; None if it has not."""
        group = self._talk.group
        return group.code if group.exited.is_set() else None

    async def greet(self, hello: Hello, frames: AsyncGenerator[bytes, None]) -> Ready:
        """Say hello, and hear who it is.

        Raises WorkerFailed if it does not answer, or speaks another version of the protocol.
        """
        with anyio.move_on_after(self.waits.start) as scope:
            await self.send(hello)
            data = await anext(frames, None)
            first = None if data is None else read_up(data)
            if not isinstance(first, Ready):
                raise await self.lost() if first is None else WorkerFailed("it did not say hello")
            if first.version != PROTOCOL:
                raise WorkerFailed(
                    f"it speaks version {first.version} of the protocol, and this is {PROTOCOL}; "
                    "both must be of the same prong"
                )
            return first
        assert scope.cancelled_caught
        raise WorkerFailed(f"it said nothing for {self.waits.start:g} seconds after its start")

    async def send(self, message: msgspec.Struct) -> None:
        """Say something; one that is gone is not told, and whoever listens finds out how."""
        data = frame(message)
        try:
            await self._talk.send(data)
        except OSError:
            self._talk.hang_up()

    async def frames(self) -> AsyncGenerator[bytes, None]:
        """Stream what it says, message by message, until it has ended.

        Raises WorkerFailed if nothing is heard of it for too long.
        """
        async with aclosing(self._talk.chunks()) as chunks:
            while True:
                data: bytes | None = None
                with anyio.move_on_after(self.waits.silence):
                    data = await anext(chunks, b"")
                if data is None:
                    why = f"nothing was heard of it for {self.waits.silence:g} seconds"
                    raise WorkerFailed(why)
                if not data:
                    return
                for whole in self._cut.feed(data):
                    yield whole

    async def lost(self) -> WorkerFailed:
        """Say that it is gone, and how."""
        # Its pipe may be closed a moment before it is known how it ended.
        with anyio.move_on_after(self.waits.stop):
            await self._talk.group.exited.wait()
        how = self._talk.ending or "it closed its pipe"
        torn = ", in the middle of a message" if self._cut.torn else ""
        return WorkerFailed(f"{how}{torn} before its work was done; what it had done is kept")

    def kill(self) -> None:
        """End it at once; whoever listens hears that it is gone."""
        self._talk.group.signal(SIGKILL)

    async def close(self, *, grace: float) -> None:
        """Let it end by itself for so many seconds, then end it by force."""
        await self._talk.close(grace=grace)

    def said(self) -> str:
        """Give the last of what it wrote to its standard error."""
        try:
            return self.errors.read_bytes()[-4_000:].decode(errors="replace").strip()
        except OSError:
            return ""

    def last_words(self, secrets: Secrets) -> str:
        """Give the last line of that, to be added to a reason; empty if there is none."""
        if not (said := self.said()):
            return ""
        line = secrets.mask(said.splitlines()[-1].strip())[:_SHOWN]
        return f" (its last words: {line}; more in {self.errors})"
