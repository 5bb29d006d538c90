"""What happens to MCP servers by themselves while a session runs."""

from __future__ import annotations

from collections import deque
from typing import Literal, TypeAlias

import anyio
import msgspec

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

    def put(self, news: ServerNews) -> None:
        """Tell something."""
        self._waiting.append(news)
        self._came.set()

    async def next(self) -> ServerNews:
        """Wait for the next news."""
        while not self._waiting:
            self._came = anyio.Event()
            await self._came.wait()
        return self._waiting.popleft()
