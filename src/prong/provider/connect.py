"""The providers of a session: made for an endpoint, and closed with what they share."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Self

import anyio

from prong.errors import NotInstalled
from prong.provider.api import Api, Patience
from prong.provider.backend import Backend, Resources, find_backend
from prong.provider.provider import Endpoint, Provider
from prong.provider.throttle import Throttle
from prong.provider.transport import Transport
from prong.wire import dialect

if TYPE_CHECKING:
    from prong.provider.key_helper import KeyHelper
    from prong.provider.rack import Rack


class Providers:
    """Makes providers; owns the HTTP client, the back-ends and what is known of servers."""

    def __init__(
        self, transport: Transport, *, env: Mapping[str, str], folder: Path | None = None
    ) -> None:
        """Start nothing; in the folder is kept what outlives a session, if anything is."""
        self._transport = transport
        self._env = env
        self._folder = folder
        self._backends: dict[Endpoint, Backend] = {}
        self._racks: dict[str, Rack] = {}
        self._helpers: dict[str, KeyHelper] = {}
        self._throttles: dict[Endpoint, Throttle] = {}

    async def __aenter__(self) -> Self:
        """Open nothing: everything is made when it is needed."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close everything."""
        await self.aclose()

    def connect(
        self,
        endpoint: Endpoint,
        model: str,
        *,
        patience: Patience | None = None,
        dispatching: frozenset[str] = frozenset(),
    ) -> Provider:
        """Make the provider of an endpoint; after a `dispatching` call others go on from the reply.

        Raises ProngError if it cannot be used.
        """
        if endpoint.backend:
            return self._backend(endpoint, patience).connect(model.partition(":")[2])
        speaks = dialect(endpoint.dialect, explicit=endpoint.explicit)
        if endpoint.dialect == "chat":
            from prong.provider.llama import Llama, may_be_llama

            if may_be_llama(endpoint):
                rack = self._rack(endpoint)
                return Llama(
                    self._transport,
                    endpoint,
                    speaks,
                    rack,
                    patience=patience,
                    dispatching=dispatching,
                )
        # Limits are of an account at a server, so whoever has the same of both shares a throttle.
        throttle = self._throttles.setdefault(endpoint, Throttle())
        if endpoint.key_helper:
            from prong.provider.signing import SignedApi

            helper = self._key_helper(endpoint.key_helper)
            return SignedApi(helper, endpoint, speaks, patience=patience, throttle=throttle)
        return Api(self._transport, endpoint, speaks, patience=patience, throttle=throttle)

    def _backend(self, endpoint: Endpoint, patience: Patience | None) -> Backend:
        name, given_url = endpoint.backend, endpoint.base_url
        backend = self._backends.get(endpoint)
        if backend is None:
            if (found := find_backend(name)) is None:
                raise NotInstalled(f"the provider {name!r} is not installed; install Prong anew")
            folder = self._folder / name if self._folder is not None else None
            given = Resources(
                transport=self._transport,
                env=self._env,
                folder=folder,
                base_url="" if given_url == f"{name}:" else given_url,
                headers=endpoint.headers,
                patience=patience,
            )
            backend = found(given)
            self._backends[endpoint] = backend
        return backend

    def _key_helper(self, command: str) -> KeyHelper:
        """Give what asks a command for the key; all agents of the session share what it said."""
        from prong.provider.key_helper import KeyHelper

        if command not in self._helpers:
            self._helpers[command] = KeyHelper(self._transport, command, self._env)
        return self._helpers[command]

    def _rack(self, endpoint: Endpoint) -> Rack:
        """Give what is known of an endpoint's server; it is shared by all agents of the session."""
        from prong.provider.rack import Rack
        from prong.provider.slot_server import SlotServer

        root = endpoint.base_url.partition("?")[0].rstrip("/").removesuffix("/v1")
        rack = self._racks.get(root)
        if rack is None:
            server = SlotServer(self._transport, root, endpoint.headers)
            rack = self._racks[root] = Rack(server)
        return rack

    async def aclose(self) -> None:
        """End the back-ends, leave the servers, close the client: all of it, whatever fails."""
        with anyio.CancelScope(shield=True):
            async with AsyncExitStack() as closing:
                closing.push_async_callback(self._transport.aclose)
                for rack in self._racks.values():
                    closing.push_async_callback(rack.aclose)
                for backend in self._backends.values():
                    closing.push_async_callback(backend.aclose)
