"""The one HTTP client of a session: HTTP/1.1 on plain asyncio, bytes in and bytes out.

A request takes an idle connection of its origin or opens one; the response is read as it comes; at
the end the connection goes back. Leaving the context before the end closes the connection, so that
a cancelled request stops costing at once. Why not a library: docs/decisions/002-own-http-client.md.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Self

import anyio
import msgspec
from anyio.lowlevel import checkpoint

from prong.errors import BadInput, BrokenReply, ProviderError, Unreachable
from prong.provider.address import Proxy, Url, proxy_authorization, proxy_for, read_url
from prong.provider.connection import Broken, Connection, Deadline
from prong.provider.dial import dial, tls_context
from prong.provider.public_address import AddressGuard
from prong.provider.transport import Transport, too_large

if TYPE_CHECKING:
    from ssl import SSLContext

    from prong.provider.inflate import Inflate

_KEEP_SECONDS = 55.0
_ROUTES_KEPT = 256
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


class HttpLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How long to wait and how much to do at once."""

    connect: float = 30.0
    """Seconds until a connection must stand, TLS included."""
    idle: float = 600.0
    """Seconds for which a server may send nothing while an answer is due."""
    progress: float = 1_200.0
    """Seconds for which it may send only what brings the answer no further, such as pings.

    The head of a response and each piece of a streamed reply are progress; a body that is not
    streamed must be there in that time.
    """
    connections: int = 256
    """Requests that may be open to one server at a time; further ones wait their turn."""
    ratio: int = 250
    """Bytes that one byte of a compressed body may unpack to."""


class HttpResponse:
    """A response of this client; see `Response`."""

    __slots__ = ("_connection", "_inflate", "_pieces", "headers", "origin", "settled", "status")

    def __init__(self, connection: Connection, url: Url, ratio: int) -> None:
        """Read the head; see `HttpLimits` for the ratio."""
        parser = connection.parser
        assert parser is not None, "a response needs its head"
        self.status = parser.status
        self.headers = _join(parser.fields)
        """Names in lower case; values of repeated headers joined by commas."""
        self.settled = False
        self._connection = connection
        self.origin = url.origin
        self._inflate = _inflate_for(self.headers.get("content-encoding", ""), url, ratio)
        self._pieces: Iterator[bytes] = iter(())

    def settle(self) -> None:
        """Say that the rest does not matter: it may end by itself, so the connection is kept."""
        self.settled = True

    def progressed(self) -> None:
        """Say that what came brought the reply further; see `Limits.progress`."""
        self._connection.progressed()

    def __aiter__(self) -> Self:
        """Iterate over the body, as it comes."""
        return self

    async def __anext__(self) -> bytes:
        """Wait for more of the body."""
        try:
            if self._inflate is None:
                data = await self._connection.next()
            else:
                data = await self._next_inflated(self._inflate)
        except Broken as error:
            broken = BrokenReply(
                f"the reply of {self.origin} broke off: {error.why}", status=self.status
            )
            broken.waited = error.waited
            raise broken from error
        if not data:
            raise StopAsyncIteration
        return data

    async def _next_inflated(self, inflate: Inflate) -> bytes:
        import zlib

        from prong.provider.inflate import Bomb

        while True:
            # Much can come out of one byte, so it is here that others get their turn.
            await checkpoint()
            try:
                for piece in self._pieces:
                    if piece:
                        return piece
            except Bomb as error:
                raise too_large(self.origin, str(error)) from error
            except zlib.error as error:
                raise Broken(f"its compression is damaged ({error})", began=True) from error
            data = await self._connection.next()
            if not data:
                if not inflate.done:
                    raise Broken("its compressed body is incomplete", began=True)
                return b""
            self._pieces = inflate.feed(data)


class _Pool:
    """The connections to one origin."""

    __slots__ = ("all", "free", "slots")

    def __init__(self, connections: int) -> None:
        self.all: set[Connection] = set()
        self.free: list[Connection] = []
        self.slots = anyio.Semaphore(connections, fast_acquire=True)

    def take(self) -> Connection | None:
        """Take the connection used last, if one is free, and close those free for long."""
        horizon = asyncio.get_running_loop().time() - _KEEP_SECONDS
        while self.free and (self.free[0].lost or self.free[0].free_since < horizon):
            self.free.pop(0).abort()
        while self.free:
            connection = self.free.pop()
            if not connection.lost:
                return connection
        return None

    def freed(self, connection: Connection) -> None:
        """Take a connection back."""
        self.free.append(connection)

    def lost(self, connection: Connection) -> None:
        """Forget a connection that has ended."""
        self.all.discard(connection)
        if connection in self.free:
            self.free.remove(connection)


class Http:
    """An HTTP/1.1 client with kept connections; belongs to one event loop."""

    def __init__(
        self,
        *,
        limits: HttpLimits | None = None,
        env: Mapping[str, str] | None = None,
        tls: SSLContext | None = None,
        guard: AddressGuard | None = None,
    ) -> None:
        """Take proxies and SSL_CERT_FILE from the environment given, or from the process's.

        With a guard only what it lets through is reached.
        """
        self.limits = limits or HttpLimits()
        self.env = os.environ if env is None else env
        self._tls = tls
        self._guard = guard
        self._routes: dict[str, tuple[Url, Proxy | None]] = {}
        self._pools: dict[tuple[str, str, int, Proxy | None], _Pool] = {}

    async def __aenter__(self) -> Self:
        """Open nothing: connections are made when they are needed."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close every connection."""
        await self.aclose()

    async def aclose(self) -> None:
        """Close every connection."""
        for pool in self._pools.values():
            for connection in tuple(pool.all):
                connection.abort()
        self._pools.clear()
        # The transports give their sockets back in callbacks; let those run.
        with anyio.CancelScope(shield=True):
            for _ in range(3):
                await checkpoint()

    @asynccontextmanager
    async def request(
        self,
        method: str,
        url: str,
        headers: Iterable[tuple[str, str]] = (),
        body: bytes | Sequence[bytes] = (),
        *,
        slots: anyio.Semaphore | None = None,
    ) -> AsyncGenerator[HttpResponse, None]:
        """Send a request; see `Transport`. A body in pieces is joined only as it is sent.

        It waits for one of the slots, if its caller has a bound of its own.
        """
        pieces = (body,) if isinstance(body, bytes) else body
        target, proxy = self._route(url)
        key = (target.scheme, target.host, target.port, proxy)
        pool = self._pools.get(key)
        if pool is None:
            pool = self._pools[key] = _Pool(self.limits.connections)
        head = _request_head(method, target, proxy, headers, sum(map(len, pieces)))
        async with slots or pool.slots:
            connection = await self._exchange(pool, target, proxy, (method, head, pieces))
            settle = False
            try:
                response = HttpResponse(connection, target, self.limits.ratio)
                try:
                    yield response
                finally:
                    settle = response.settled
            finally:
                connection.release(settle=settle)

    async def _exchange(
        self,
        pool: _Pool,
        url: Url,
        proxy: Proxy | None,
        request: tuple[str, bytes, Sequence[bytes]],
    ) -> Connection:
        kept = pool.take()
        if kept is not None:
            try:
                await kept.exchange(*request)
                return kept
            except Broken as error:
                # A kept connection that the server has just closed tells nothing about the request.
                if error.began or error.waited:
                    raise _no_reply(url, error) from error
        connection = await self._connect(pool, url, proxy)
        try:
            await connection.exchange(*request)
        except Broken as error:
            raise _no_reply(url, error) from error
        return connection

    async def _connect(self, pool: _Pool, url: Url, proxy: Proxy | None) -> Connection:
        if url.scheme == "https" and self._tls is None:
            self._tls = tls_context(self.env)
        limits = self.limits
        connection = Connection(Deadline(limits.idle, limits.progress), pool)
        tls = self._tls if url.scheme == "https" else None
        await dial(connection, url, proxy, tls, limit=limits.connect, guard=self._guard)
        pool.all.add(connection)
        return connection

    def _route(self, text: str) -> tuple[Url, Proxy | None]:
        route = self._routes.get(text)
        if route is None:
            url = read_url(text)
            route = (url, proxy_for(url, self.env))
            if len(self._routes) >= _ROUTES_KEPT:
                self._routes.clear()
            self._routes[text] = route
        return route


def _request_head(
    method: str,
    url: Url,
    proxy: Proxy | None,
    headers: Iterable[tuple[str, str]],
    length: int,
) -> bytes:
    plain_proxy = proxy if url.scheme == "http" else None
    target = url.path if plain_proxy is None else f"{url.origin}{url.path}"
    lines = [f"{method} {target} HTTP/1.1", f"host: {url.authority}", "accept-encoding: identity"]
    if plain_proxy is not None and (authorization := proxy_authorization(plain_proxy)):
        lines.append(f"proxy-authorization: {authorization}")
    if length or method == "POST":
        lines.append(f"content-length: {length}")
    lines += [_header(name, value) for name, value in headers]
    lines.append("\r\n")
    return "\r\n".join(lines).encode("latin-1")


@lru_cache(maxsize=64)
def _header(name: str, value: str) -> str:
    """Write a header; nearly all are those of the request before."""
    if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
        # The value may be a secret, so it is not shown.
        raise BadInput(
            f"the header {name!r} cannot be sent: its name or value has a character that "
            "headers must not have (a line break, a control character or one beyond Latin-1)"
        )
    return f"{name}: {value}"


def _join(fields: list[tuple[bytes, bytes]]) -> dict[str, str]:
    joined: dict[str, str] = {}
    for raw_name, raw_value in fields:
        name, value = raw_name.decode("ascii"), raw_value.decode("latin-1")
        joined[name] = f"{joined[name]}, {value}" if name in joined else value
    return joined


def _inflate_for(encoding: str, url: Url, ratio: int) -> Inflate | None:
    coding = encoding.strip().lower()
    if coding in {"", "identity"}:
        return None
    if coding not in {"gzip", "x-gzip", "deflate"}:
        raise BrokenReply(f"{url.origin} compressed its reply with {coding[:40]!r}, unasked")
    from prong.provider.inflate import Inflate

    return Inflate(ratio)


def _no_reply(url: Url, error: Broken) -> ProviderError:
    made: ProviderError
    if error.began:
        made = BrokenReply(f"the reply of {url.origin} was not understood: {error.why}")
    else:
        made = Unreachable(
            f"{url.origin} gave no reply: {error.why}; check that the base URL is right "
            "and that the server is well"
        )
    made.waited = error.waited
    return made


if TYPE_CHECKING:
    _transport: type[Transport] = Http
