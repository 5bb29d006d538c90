"""Carries TCP connections to an address, by a line that can be cut and restored.

While it is cut, nobody is let in. What is connected breaks; or the cut is silent, as where packets
are lost: then connections stay, and what is said on them arrives once the line is back.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress

import anyio
import anyio.abc
from anyio.from_thread import BlockingPortal, start_blocking_portal

from prong.testing.local_port import HERE, held_port

_GONE = (OSError, anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)


class CuttableProxy:
    """The line, which is cut from the thread that has made it."""

    def __init__(
        self, portal: BlockingPortal, group: anyio.abc.TaskGroup, port: int, far: tuple[str, int]
    ) -> None:
        """Take the loop and the group that it runs in, its own port, and where it leads."""
        self.port = port
        """Where it listens, at 127.0.0.1."""
        self._portal = portal
        self._group = group
        self._far = far
        self._connected: set[anyio.abc.SocketStream] = set()
        self._open = anyio.Event()
        self._listening = anyio.CancelScope()
        self._shut = anyio.Event()

    def cut(self, *, silent: bool) -> None:
        """Let nothing through any more."""
        self._portal.call(self._cut, silent)

    async def _cut(self, silent: bool) -> None:  # noqa: FBT001 - a portal gives no keywords
        if self._open.is_set():
            self._open = anyio.Event()
            self._listening.cancel()
            # Until then somebody could still come in, and nobody could listen there anew.
            await self._shut.wait()
        if not silent:
            for stream in tuple(self._connected):
                await anyio.aclose_forcefully(stream)

    def restore(self) -> None:
        """Let everything through again; also if nothing was cut."""
        self._portal.call(self.listen)

    async def listen(self) -> None:
        """Let in who comes, unless that is so."""
        if not self._open.is_set():
            listener = await anyio.create_tcp_listener(local_host=HERE, local_port=self.port)
            self._listening, self._shut = anyio.CancelScope(), anyio.Event()
            self._group.start_soon(self._serve, listener, self._listening, self._shut)
            self._open.set()

    async def _serve(
        self,
        listener: anyio.abc.Listener[anyio.abc.SocketStream],
        scope: anyio.CancelScope,
        shut: anyio.Event,
    ) -> None:
        try:
            with scope:
                async with listener:
                    await listener.serve(self._carry, self._group)
        finally:
            shut.set()

    async def _carry(self, near: anyio.abc.SocketStream) -> None:
        with suppress(OSError):
            async with near, await anyio.connect_tcp(*self._far) as far:
                self._connected |= {near, far}
                async with anyio.create_task_group() as group:
                    group.start_soon(self._pump, near, far, group.cancel_scope)
                    group.start_soon(self._pump, far, near, group.cancel_scope)
                self._connected -= {near, far}

    async def _pump(
        self,
        source: anyio.abc.SocketStream,
        sink: anyio.abc.SocketStream,
        scope: anyio.CancelScope,
    ) -> None:
        with suppress(*_GONE):
            while True:
                data = await source.receive()
                await self._open.wait()
                await sink.send(data)
        scope.cancel()


@asynccontextmanager
async def _serving(portal: BlockingPortal, far: tuple[str, int]) -> AsyncGenerator[CuttableProxy]:
    with held_port() as port:
        async with anyio.create_task_group() as group:
            proxy = CuttableProxy(portal, group, port, far)
            await proxy.listen()
            yield proxy
            group.cancel_scope.cancel()


@contextmanager
def cuttable_proxy(host: str, port: int) -> Generator[CuttableProxy]:
    """Lead to an address, from a loop in a thread of its own."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(_serving(portal, (host, port))) as proxy,
    ):
        yield proxy
