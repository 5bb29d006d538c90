"""A process whose two streams can be taken up again: whoever talks with it says from which byte on.

What is sent twice is written once, and what was given and not known to have arrived is given again.
So a line to it may be cut at any moment, and neither side notices more than a pause.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress

import anyio
import msgspec

from prong.system.descriptor import make_nonblocking
from prong.system.process_tree import ProcessTree, apart

PART = 64 * 1024
"""Bytes that are sent or given at once."""

_GRACE = 2.0
"""Seconds between the end of its input and its end by force."""


class Pulled(msgspec.Struct, frozen=True, array_like=True):
    """What a process has said next."""

    data: bytes
    """Empty if it has said nothing new."""
    code: int | None = None
    """How it ended, once everything it said was given."""
    errors: str = ""
    """The last of what it wrote to its standard error, once it has ended."""


class HeldProcess:
    """A process that outlives the line by which it is talked with."""

    def __init__(self, argv: Sequence[str]) -> None:
        """Start it.

        Raises OSError.
        """
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - held as long as the process
        self._process = subprocess.Popen(
            list(argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            bufsize=0,
            **apart(),
        )
        self._tree = ProcessTree(self._process.pid)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._sink, self._source = self._process.stdin.fileno(), self._process.stdout.fileno()
        make_nonblocking(self._sink)
        make_nonblocking(self._source)
        self._written = 0
        self._begun = 0
        """Where in all that it said the unacknowledged part begins."""
        self._held = b""
        self._ended = False
        self._last: Pulled | None = None
        self._writing, self._reading = anyio.Lock(), anyio.Lock()

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    async def push(self, at: int, data: bytes) -> int:
        """Write bytes of which the first is number `at`; gives how many were written in all.

        What was written before is not written again. Raises ValueError if some are missing.
        """
        async with self._writing:
            if at > self._written:
                raise ValueError(f"the bytes from {self._written} to {at} have not come")
            rest = memoryview(data)[self._written - at :]
            while rest:
                try:
                    written = os.write(self._sink, rest)
                    rest, self._written = rest[written:], self._written + written
                except BlockingIOError:
                    await anyio.wait_writable(self._sink)
                except OSError:
                    # It is gone, and whoever pulls finds out how.
                    break
            return self._written

    async def pull(self, after: int, wait: float) -> Pulled:
        """Give what it has said after so many bytes, which have arrived, waiting for a while.

        Of one that was ended nothing more is given but how. Raises ValueError if that was
        acknowledged before.
        """
        async with self._reading:
            if self._last is not None:
                return self._last
            if not self._begun <= after <= self._begun + len(self._held):
                raise ValueError(f"the bytes after {after} are not held")
            self._held, self._begun = self._held[after - self._begun :], after
            if not self._held and not self._ended:
                with anyio.move_on_after(wait):
                    await anyio.wait_readable(self._source)
                    self._held = os.read(self._source, PART)
                    self._ended = not self._held
            if self._held or not self._ended:
                return Pulled(self._held)
            return await self._finish()

    async def _finish(self) -> Pulled:
        """Say how it ended, and let go of it."""
        if self._last is None:
            code = await self._wait()
            self._last = Pulled(b"", code, self._said())
            # Whoever still writes hears by the broken pipe that nobody reads: until then the number
            # of that pipe must not become another file's.
            async with self._writing:
                self._sink = -1
                for file in (self._process.stdin, self._process.stdout, self._errors):
                    assert file is not None
                    with suppress(OSError):
                        file.close()
        return self._last

    async def _wait(self) -> int:
        """Wait for the end of a process that has nothing more to say."""
        with anyio.move_on_after(_GRACE):
            while self._process.poll() is None:  # noqa: ASYNC110 - only its number is known
                await anyio.sleep(0.01)
        self.kill()
        return self._process.wait()

    def _said(self) -> str:
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - 4_000))
        return self._errors.read().decode(errors="replace").strip()

    async def end(self) -> None:
        """End it: by the end of its input, and by force if that does not do."""
        if not self._writing.locked():
            with suppress(OSError):
                assert self._process.stdin is not None
                self._process.stdin.close()
            self._sink = -1
        await self._wait()
        async with self._reading:
            await self._finish()

    def kill(self) -> None:
        """End it, and all of its group, at once."""
        self._tree.force()
