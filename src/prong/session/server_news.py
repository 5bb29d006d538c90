"""What happens to MCP servers by themselves while a session runs."""

from __future__ import annotations

from collections import deque
from typing import Literal, TypeAlias

import anyio
import msgspec

_TOGETHER = 0.2
"""Seconds in which news are taken together."""
NewsKind: TypeAlias = Literal["ready", "failed", "changed"]


class ServerNews(msgspec.Struct, frozen=True):
    """Something a session should know of a server."""

    server: str
    what: NewsKind
    detail: str = ""


class NewsQueue:
    """News in their order, for one reader."""

    def __init__(self) -> None:
        """Nothing has happened yet."""
        self._waiting: deque[ServerNews] = deque()
        self._came = anyio.Event()
        self._taken = anyio.Event()

    def put(self, news: ServerNews) -> None:
        """Tell something."""
        if self._taken.is_set():
            self._taken = anyio.Event()
        self._waiting.append(news)
        self._came.set()

    async def wait_taken(self) -> None:
        """Wait until the reader has done with everything, and waits for more."""
        await self._taken.wait()

    async def next(self) -> list[ServerNews]:
        """Wait for the next news; what comes with them is given with them."""
        while not self._waiting:
            self._taken.set()
            self._came = anyio.Event()
            await self._came.wait()
        await anyio.sleep(_TOGETHER)
        given = [*self._waiting]
        self._waiting.clear()
        return given
