"""What a provider needs of an HTTP client; `prong.provider.http` is ours, and another would do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from prong.errors import BrokenReply

_BODY_LIMIT = 64 << 20
"""Bytes that a body which is read as a whole may have."""


class Response(Protocol):
    """A response whose head has come; iterate over it for the pieces of its body, as they come.

    The iteration raises BrokenReply if the body breaks off, grows without bound, or stalls.
    """

    @property
    def status(self) -> int:
        """The status code."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Names in lower case; values of repeated headers joined by commas."""
        ...

    @property
    def origin(self) -> str:
        """Scheme, host and port that it came from, for error texts."""
        ...

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Iterate over the body; no piece is empty."""
        ...

    def settle(self) -> None:
        """Say that the rest does not matter: it may end by itself, so the connection is kept."""
        ...

    def progressed(self) -> None:
        """Say that what came brought the reply further; others may be keep-alives."""
        ...


class Transport(Protocol):
    """An HTTP client that a session's agents share."""

    def request(
        self,
        method: str,
        url: str,
        headers: Iterable[tuple[str, str]] = ...,
        body: bytes | Sequence[bytes] = ...,
    ) -> AbstractAsyncContextManager[Response]:
        """Send a request and open its response; leaving early gives the request up at once.

        Raises:
            Unreachable: no connection could be made, or it broke before a response began.
            BrokenReply: the response broke off while it was read.
            UsageError: the URL or a header cannot be sent.

        """
        ...

    async def aclose(self) -> None:
        """Close every connection."""
        ...


async def read(response: Response, limit: int = _BODY_LIMIT) -> bytes:
    """Wait for the whole body.

    Raises:
        BrokenReply: it is longer than that, or broke off.

    """
    pieces: list[bytes] = []
    size = 0
    async for piece in response:
        pieces.append(piece)
        size += len(piece)
        if size > limit:
            raise too_large(response.origin, f"it is longer than {limit} bytes")
    return b"".join(pieces)


async def read_beginning(response: Response, limit: int) -> bytes:
    """Wait for the first bytes of the body, or for the whole if it is shorter."""
    data = bytearray()
    async for piece in response:
        data += piece
        if len(data) >= limit:
            break
    return bytes(data[:limit])


def too_large(origin: str, why: str) -> BrokenReply:
    """Make the error of a body without end; to ask again would bring another."""
    error = BrokenReply(f"the reply of {origin} is too large: {why}")
    error.retryable = False
    return error
