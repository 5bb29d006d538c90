"""An HTTP client that reaches nobody."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NoReturn

from prong.errors import Unreachable


class NoTransport:
    """A client for whatever must not use the network."""

    def request(
        self,
        method: str,
        url: str,
        headers: Iterable[tuple[str, str]] = (),
        body: bytes | Sequence[bytes] = (),
    ) -> NoReturn:
        """Refuse."""
        del headers, body
        raise Unreachable(f"there is no network here for {method} {url}")

    async def aclose(self) -> None:
        """Close nothing."""
