"""What a page may do, if it may: sends its orders to the sessions that they are for.

A session in another process is asked once, when somebody presses the button; its own user decides.
All pages of this server act by that one link. Each order has an id that the page has made up, so
that one sent again, after a connection broke, is not carried out again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import anyio
import anyio.abc
import msgspec

from prong.errors import BadInput, NotPossibleNow, OutcomeUnknown
from prong.foreign_json import NOT_JSON
from prong.session import ControlLink, OutsideCommand, act_in


class PageOrder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a page wants done."""

    id: Annotated[str, msgspec.Meta(min_length=8, max_length=64, pattern="^[0-9A-Za-z-]+$")]
    command: OutsideCommand
    asked: int = 0


class ActingState(msgspec.Struct, frozen=True):
    """Whether pages can act in a session, and what there is to say about it."""

    state: str
    """`off`, `ready`, `asking`, `admitted`, `refused` or `lost`."""
    code: str = ""
    why: str = ""


OFF = ActingState("off")


class PageActions:
    """Acts in sessions for the pages of one server."""

    def __init__(self, group: anyio.abc.TaskGroup) -> None:
        """Keep links in a group."""
        self._group = group
        self._links: dict[Path, _HeldLink] = {}

    def state(self, journal: Path) -> ActingState:
        """Say how it stands with one session."""
        held = self._links.get(journal)
        return ActingState("ready") if held is None else held.state

    async def ask(self, journal: Path) -> ActingState:
        """Ask the session to be let in, unless that is under way or done; gives how it stands."""
        held = self._links.get(journal)
        if held is None or held.state.state in {"refused", "lost"}:
            held = self._links[journal] = _HeldLink(journal)
            await self._group.start(held.run)
        return held.state

    async def carry_out(self, journal: Path, body: bytes) -> dict[str, Any]:
        """Do what a page has sent; raises BadInput if that is no order."""
        try:
            order = msgspec.json.decode(body, type=PageOrder)
        except NOT_JSON as error:
            raise BadInput(f"that is no order: {error}") from error
        held = self._links.get(journal)
        if held is None or held.link is None:
            why = held.state.why if held is not None else ""
            return {"type": "refused", "why": why or "the session was not asked yet"}
        try:
            outcome = await held.link.send(order.command, asked=order.asked, order=order.id)
        except OutcomeUnknown as error:
            return {"type": "unknown", "why": str(error)}
        return msgspec.to_builtins(outcome)


class _HeldLink:
    """The link to one session."""

    def __init__(self, journal: Path) -> None:
        self._journal = journal
        self._why = ""
        self.link: ControlLink | None = None

    @property
    def state(self) -> ActingState:
        if self.link is None:
            return ActingState("refused" if self._why else "asking", why=self._why)
        return ActingState(self.link.state, self.link.code, self.link.why)

    async def run(self, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        """Hold the link until the session goes away."""
        try:
            async with act_in(self._journal) as self.link:
                task_status.started()
                await self.link.wait_ended()
        except NotPossibleNow as error:
            self._why = str(error)
            task_status.started()
