"""subscribe_pr_activity: be told what happens on a pull request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Protocol

import msgspec
from msgspec import Meta

from prong.entry import CallId
from prong.tools.access import Access
from prong.tools.tool import CallOutcome, Context, SideEffect

if TYPE_CHECKING:
    from prong.tools.tool import Tool


class Subscribe(Protocol):
    """Begins to watch a pull request."""

    async def __call__(self, pull_request: str) -> CallOutcome:
        """Watch it; what happens from now on comes as notices."""
        ...


class PullArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What subscribe_pr_activity is called with."""

    pull_request: Annotated[
        str, Meta(min_length=1, description="owner/repo#12, its address, or 12 in this repository")
    ]


class SubscribePullActivity:
    """Watches a pull request through the user's own `gh`."""

    name = "subscribe_pr_activity"
    effect: SideEffect = "writes"
    arguments: type[msgspec.Struct] = PullArguments
    budget = 10_000

    def __init__(self, subscribe: Subscribe) -> None:
        """Take what watches."""
        self._subscribe = subscribe

    def title(self, args: PullArguments) -> str:
        """Name the pull request."""
        return f"subscribe to {args.pull_request}"

    def access(self, args: PullArguments, context: Context) -> Sequence[Access]:
        """Touch nothing here: it only reads, as the user, what the service shows."""
        del args, context
        return ()

    async def run(self, call_id: CallId, args: PullArguments, context: Context) -> CallOutcome:
        """Begin to watch."""
        del call_id, context
        return await self._subscribe(args.pull_request)


if TYPE_CHECKING:
    _: type[Tool] = SubscribePullActivity
