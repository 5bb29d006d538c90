"""Our ends of pipes to other processes, which the event loop waits for.

No pipe of Windows can be waited for beside others. There a thread of its own reads, a little
ahead, and writing is done in a thread.
"""

from __future__ import annotations

import asyncio
import errno
import os
import sys
from collections.abc import Callable
from contextlib import suppress

CHUNK = 1 << 16
"""Bytes read at once; also what a pipe can hold."""

if sys.platform == "win32":
    import threading
    from collections import deque

    import anyio
    from anyio.to_thread import run_sync

    _AHEAD = 4
    """Chunks that are read before anybody has asked for them."""

    class PipeSource:
        """The end that is read, never waiting."""

        def __init__(self, fd: int) -> None:
            """Take over a descriptor."""
            self._fd = fd
            self._found = deque[bytes]()
            self._room = threading.Condition()
            self._closed = False
            self._thread: threading.Thread | None = None
            self._ready: Callable[[], None] | None = None

        def _begin(self) -> None:
            if self._thread is None:
                self._thread = threading.Thread(target=self._pump, daemon=True)
                self._thread.start()

        def _pump(self) -> None:
            data = b"-"
            while data and not self._closed:
                try:
                    data = os.read(self._fd, CHUNK)
                except OSError:
                    data = b""
                with self._room:
                    self._found.append(data)
                    if self._ready is not None:
                        self._ready()
                    while len(self._found) >= _AHEAD and not self._closed:
                        self._room.wait()
            # Only here: whoever closes what another reads waits for that.
            os.close(self._fd)

        def read_nowait(self) -> bytes | None:
            """Take what is there: None if nothing is yet, empty at the end."""
            self._begin()
            with self._room:
                if not self._found:
                    return None
                if not self._found[0]:
                    return b""
                self._room.notify()
                return self._found.popleft()

        def watch(self, ready: Callable[[], None]) -> None:
            """Have something called in the event loop as soon as there is something to read."""
            loop = asyncio.get_running_loop()

            def tell() -> None:
                with suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(ready)

            self._begin()
            with self._room:
                self._ready = tell
                if self._found:
                    tell()

        def unwatch(self) -> None:
            """Have nothing called any more."""
            self._ready = None

        async def wait(self) -> None:
            """Wait until there is something to read."""
            ready = anyio.Event()
            self.watch(ready.set)
            try:
                await ready.wait()
            finally:
                self.unwatch()

        def close(self) -> None:
            """Read no more."""
            with self._room:
                self._closed = True
                self._room.notify()
            if self._thread is None:
                os.close(self._fd)

    async def read_input(fd: int) -> bytes:
        """Wait for what comes next from a pipe, a terminal or a file; empty at the end."""
        # What is abandoned waits until the process ends.
        return await run_sync(os.read, fd, CHUNK, abandon_on_cancel=True)

    class PipeSink:
        """The end that is written to."""

        def __init__(self, fd: int) -> None:
            """Take over a descriptor."""
            self._fd = fd
            self._busy = False
            self._closed = False

        async def write(self, data: memoryview) -> int:
            """Write some of it, waiting until there is room; gives how much. Raises OSError."""
            return await run_sync(self._write, data, abandon_on_cancel=True)

        def _write(self, data: memoryview) -> int:
            self._busy = True
            try:
                return os.write(self._fd, data[:CHUNK])
            finally:
                self._busy = False
                if self._closed:
                    os.close(self._fd)

        def close(self) -> None:
            """Write no more."""
            if not self._closed:
                self._closed = True
                # As above: then whoever writes closes it.
                if not self._busy:
                    os.close(self._fd)

else:
    import anyio

    class PipeSource:
        """The end that is read, never waiting."""

        def __init__(self, fd: int) -> None:
            """Take over a descriptor."""
            self._fd = fd
            os.set_blocking(fd, False)

        def read_nowait(self) -> bytes | None:
            """Take what is there: None if nothing is yet, empty at the end."""
            try:
                return os.read(self._fd, CHUNK)
            except BlockingIOError:
                return None

        def watch(self, ready: Callable[[], None]) -> None:
            """Have something called in the event loop as soon as there is something to read."""
            asyncio.get_running_loop().add_reader(self._fd, ready)

        def unwatch(self) -> None:
            """Have nothing called any more."""
            asyncio.get_running_loop().remove_reader(self._fd)

        async def wait(self) -> None:
            """Wait until there is something to read."""
            await anyio.wait_readable(self._fd)

        def close(self) -> None:
            """Read no more."""
            os.close(self._fd)

    async def read_input(fd: int) -> bytes:
        """Wait for what comes next from a pipe, a terminal or a file; empty at the end."""
        # Without a thread, which would hold up the exit. A file is always ready, and cannot be
        # waited for.
        with suppress(PermissionError):
            await anyio.wait_readable(fd)
        return os.read(fd, CHUNK)

    class PipeSink:
        """The end that is written to."""

        def __init__(self, fd: int) -> None:
            """Take over a descriptor."""
            self._fd = fd
            self._awaited = False
            os.set_blocking(fd, False)

        async def write(self, data: memoryview) -> int:
            """Write some of it, waiting until there is room; gives how much. Raises OSError."""
            while self._fd >= 0:
                try:
                    return os.write(self._fd, data)
                except BlockingIOError:
                    await self._wait_room()
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

        async def _wait_room(self) -> None:
            self._awaited = True
            try:
                with suppress(anyio.ClosedResourceError):
                    await anyio.wait_writable(self._fd)
            finally:
                self._awaited = False

        def close(self) -> None:
            """Write no more; whoever waits to do so is told."""
            if self._fd >= 0:
                fd, self._fd = self._fd, -1
                if self._awaited:
                    # Or the loop would watch whatever gets the number next.
                    anyio.notify_closing(fd)
                os.close(fd)
