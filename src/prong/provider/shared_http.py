"""An HTTP client that the sessions of one event loop share: their connections, and TLS's trust.

Those share one that would reach servers alike: the same proxies and certificates, the same
patience. It is closed with the last session that uses it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, TypeAlias

import anyio
import msgspec
from anyio.lowlevel import RunVar

from prong.provider.http import Http, HttpLimits, HttpResponse
from prong.provider.transport import Transport

_ClientKey: TypeAlias = tuple[HttpLimits, frozenset[tuple[str, str]]]
_VARIABLES = frozenset({"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE"})
"""Of the environment a client reads nothing else."""


class _SharedClient(msgspec.Struct, eq=False):
    """A client, and how many sessions use it."""

    http: Http
    users: int = 0


_clients: RunVar[dict[_ClientKey, _SharedClient]] = RunVar("shared_http")
"""Of an event loop, because a connection belongs to one."""


class SharedHttp:
    """A session's share in a client; what it may have open at once is its own."""

    def __init__(self, *, env: Mapping[str, str], limits: HttpLimits) -> None:
        """Take no share yet: a session may end without a request."""
        self.env = env
        self.limits = limits
        found = {name: value for name, value in env.items() if name.upper() in _VARIABLES}
        self._key: _ClientKey = (limits, frozenset(found.items()))
        self._slots = anyio.Semaphore(limits.connections, fast_acquire=True)
        self._http: Http | None = None

    def request(
        self,
        method: str,
        url: str,
        headers: Iterable[tuple[str, str]] = (),
        body: bytes | Sequence[bytes] = (),
    ) -> AbstractAsyncContextManager[HttpResponse]:
        """Send a request; see `Transport`."""
        http = self._http or self._take()
        return http.request(method, url, headers, body, slots=self._slots)

    async def aclose(self) -> None:
        """Give up the share; connections that nobody else may use are closed."""
        if self._http is None:
            return
        self._http = None
        shared = _all()[self._key]
        shared.users -= 1
        if not shared.users:
            # Whoever comes now makes another: this one is about to end.
            del _all()[self._key]
            await shared.http.aclose()

    def _take(self) -> Http:
        shared = _all().get(self._key)
        if shared is None:
            http = Http(env=dict(self._key[1]), limits=self.limits)
            shared = _all()[self._key] = _SharedClient(http)
        shared.users += 1
        self._http = shared.http
        return shared.http


def _all() -> dict[_ClientKey, _SharedClient]:
    clients = _clients.get(None)
    if clients is None:
        clients = dict[_ClientKey, _SharedClient]()
        _clients.set(clients)
    return clients


if TYPE_CHECKING:
    _transport: type[Transport] = SharedHttp
