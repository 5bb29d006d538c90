"""Requests that are signed as they leave: by a key that a command gives, or by a cloud's own rules.

What signs is a transport around the session's own. It sees each try of a request, so that what is
valid for minutes is made anew each time, and one that was refused as expired is signed once more.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager

import msgspec

from prong.provider.api import Api
from prong.provider.secret import Secrets, gather
from prong.provider.transport import Response, Transport

_EXPIRED = 401


class OutboundRequest(msgspec.Struct, frozen=True):
    """A request before it leaves."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...]
    body: Sequence[bytes]
    """The first piece begins with the prompt's head, the last is what does not belong to it."""

    def with_headers(self, **headers: str) -> OutboundRequest:
        """Put headers in place of those of the same names; an underscore is written as a dash."""
        new = {name.replace("_", "-"): value for name, value in headers.items()}
        kept = (pair for pair in self.headers if pair[0] not in new)
        return msgspec.structs.replace(self, headers=(*kept, *new.items()))


class SigningTransport(ABC):
    """A transport that signs requests, and sends them by another."""

    def __init__(self, inner: Transport) -> None:
        """Sign nothing yet: a session may end without a request."""
        self.inner = inner

    @abstractmethod
    async def sign(self, request: OutboundRequest) -> OutboundRequest:
        """Make a request what the server wants.

        Raises ProviderError if it cannot be signed.
        """

    def renew(self) -> bool:
        """Forget what a server refused as expired; says whether to sign again can help."""
        return False

    def read(self, response: Response) -> Response:
        """Give a response as the API itself would have sent it."""
        return response

    @property
    def secrets(self) -> tuple[str, ...]:
        """What it signs by, as far as a server could repeat it."""
        return ()

    @asynccontextmanager
    async def request(
        self,
        method: str,
        url: str,
        headers: Iterable[tuple[str, str]] = (),
        body: bytes | Sequence[bytes] = (),
    ) -> AsyncGenerator[Response, None]:
        """Send a request; see `Transport`."""
        pieces = (body,) if isinstance(body, bytes) else body
        plain = OutboundRequest(method, url, tuple(headers), pieces)
        signed = await self.sign(plain)
        async with self._send(signed) as response:
            if response.status != _EXPIRED or not self.renew():
                yield self.read(response)
                return
            response.settle()
        async with self._send(await self.sign(plain)) as response:
            yield self.read(response)

    @asynccontextmanager
    async def _send(self, signed: OutboundRequest) -> AsyncGenerator[Response, None]:
        sending = self.inner.request(signed.method, signed.url, signed.headers, signed.body)
        async with sending as response:
            yield response

    async def aclose(self) -> None:  # noqa: B027 - part of a transport, and nothing is ours
        """Close nothing: the other transport is the session's."""


class SignedApi(Api):
    """A model behind HTTP whose requests are signed."""

    transport: SigningTransport

    @property
    def secrets(self) -> Secrets:
        """What of a request nobody should see."""
        return gather((*self.endpoint.secrets.values, *self.transport.secrets))
