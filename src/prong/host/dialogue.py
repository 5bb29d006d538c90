"""A program that is talked with: both its streams are pipes, for as long as it lives."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import aclosing

import anyio

from prong.host.process import Group, Pipe, Streams
from prong.system.pipe_end import PipeSink


class Dialogue:
    """A running program, what it says, and the way to say something to it."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        errors: int,
        withhold: Collection[str] = (),
    ) -> None:
        """Start it; `errors` takes its standard error and stays the caller's.

        Raises OSError.
        """
        self._pipe = Pipe()
        source, sink = os.pipe()
        self._sink: PipeSink | None = PipeSink(sink)
        self._floor = anyio.Lock()
        self.sent = 0
        """Bytes that went to it."""
        self.received = 0
        """Bytes that came from it."""
        try:
            self.group = Group(
                argv,
                cwd=cwd,
                env=env,
                streams=Streams(source, self._pipe.sink, errors),
                withhold=withhold,
            )
        except BaseException:
            self._pipe.close()
            self._sink.close()
            raise
        finally:
            os.close(source)
        self._pipe.close_sink()

    @property
    def ending(self) -> str:
        """How it ended, in words; empty if it has not."""
        if not self.group.exited.is_set():
            return ""
        code = self.group.code
        if code >= 0:
            return f"it ended with code {code}"
        return f"it was killed by {signal.Signals(-code).name}"

    async def send(self, data: bytes) -> None:
        """Say something, whole, as fast as it listens.

        Raises OSError if it does not listen any more.
        """
        async with self._floor:
            rest = memoryview(data)
            while rest and self._sink is not None:
                written = await self._sink.write(rest)
                rest, self.sent = rest[written:], self.sent + written

    def hang_up(self) -> None:
        """Say nothing any more, by which it knows that it is to end."""
        sink, self._sink = self._sink, None
        if sink is not None:
            sink.close()

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Stream what it says until it has ended."""
        async with aclosing(self._pipe.chunks(self.group)) as chunks:
            async for data in chunks:
                self.received += len(data)
                yield data

    async def close(self, *, grace: float) -> None:
        """Let it end by itself for so many seconds, then end it by force."""
        with anyio.CancelScope(shield=True):
            self.hang_up()
            with anyio.move_on_after(grace):
                await self.group.exited.wait()
            await self.group.kill()
            self._pipe.close()
