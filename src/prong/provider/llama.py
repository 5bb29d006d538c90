"""A server that may be llama.cpp's: forks share what their parent has computed, where it can.

Its slots are named in the tail of a request, so the bodies of a lineage extend each other as ever.
Why, and what else was tried: docs/decisions/011-slots-of-a-server.md.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

import msgspec

from prong.errors import ProviderError
from prong.prompt import Mark, Prompt
from prong.provider.address import is_near, read_url
from prong.provider.api import Api, Patience
from prong.provider.azure import has_deployment
from prong.provider.provider import Endpoint, Noticed, Provider, Retrying, Streamed, Trait
from prong.provider.rack import Lease, Rack
from prong.provider.transport import Response, Transport
from prong.wire import Began, Dialect, Ended, Tail, WireEvent

_PLAIN = Tail()


def may_be_llama(endpoint: Endpoint) -> bool:
    """Say whether an endpoint could be llama.cpp's server; a public service is never asked."""
    compatible = endpoint.dialect == "chat" and not endpoint.explicit
    near = is_near(read_url(endpoint.base_url).host)
    return compatible and near and not has_deployment(endpoint.base_url)


class Llama(Api):
    """A compatible server on this machine or near it."""

    def __init__(
        self,
        transport: Transport,
        endpoint: Endpoint,
        dialect: Dialect,
        rack: Rack,
        *,
        patience: Patience | None = None,
        dispatching: frozenset[str] = frozenset(),
    ) -> None:
        """Share client and rack; after a `dispatching` call others go on from the reply."""
        super().__init__(transport, endpoint, dialect, patience=patience)
        self._rack = rack
        self._dispatching = dispatching
        self._leases: dict[int, Lease] = {}

    @property
    def trait(self) -> Trait:
        """A server of our own keeps what it read until it needs the room."""
        rack = self._rack
        return Trait(lasting=rack.kind in {"single", "slots"}, context=rack.context)

    async def stream(
        self,
        prompt: Prompt,
        marks: Sequence[Mark] = (),
        tail: Tail = _PLAIN,
        *,
        who: str = "",
        sidecar: str = "",
    ) -> AsyncGenerator[Streamed, None]:
        """Ask for one reply; see `Provider.stream`."""
        rack = self._rack
        if rack.meet(prompt, who):
            await rack.recognise()
            if text := rack.remark():
                yield Noticed(text)
        async with rack.lease(prompt, who) as lease:
            slot = lease.slot
            extra = {} if slot is None else {"id_slot": slot.number, "cache_prompt": True}
            sent = msgspec.structs.replace(tail, extra={**tail.extra, **extra})
            self._leases[id(sent)] = lease
            try:
                reply = super().stream(prompt, marks, sent, who=who, sidecar=sidecar)
                async with aclosing(self._follow(reply, lease)) as events:
                    async for event in events:
                        yield event
            except ProviderError:
                rack.doubt()
                raise
            finally:
                del self._leases[id(sent)]

    async def _follow(
        self, reply: AsyncGenerator[Streamed, None], lease: Lease
    ) -> AsyncGenerator[Streamed, None]:
        """Pass a reply on, and tell the rack how it goes."""
        first = 0.0
        async with aclosing(reply) as events:
            async for event in events:
                if isinstance(event, Retrying):
                    self._rack.doubt()
                    self._rack.launched(lease)
                elif isinstance(event, Began):
                    first = time.monotonic()
                elif isinstance(event, Ended):
                    self._rack.spoke(lease, event.usage, first)
                    if any(call.name in self._dispatching for call in event.reply.calls):
                        await self._rack.recognise()
                        await self._rack.keep(lease)
                yield event

    async def _decode(
        self, response: Response, tail: Tail
    ) -> AsyncGenerator[Sequence[WireEvent], None]:
        # The head of a response comes when the slot begins to work, well before the first token.
        self._rack.began(self._leases[id(tail)])
        async with aclosing(super()._decode(response, tail)) as batches:
            async for events in batches:
                yield events


if TYPE_CHECKING:
    _provider: type[Provider] = Llama
