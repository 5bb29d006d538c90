"""The tools by which the main agent enters plan mode and asks to leave it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from prong.entry import CallId
from prong.tools.access import Access
from prong.tools.tool import CallOutcome, Context, SideEffect

if TYPE_CHECKING:
    from prong.tools.tool import Tool


class Planning(Protocol):
    """Plan mode, as far as tools need it."""

    def begin(self) -> CallOutcome:
        """Enter plan mode; gives what the model has to know of it."""
        ...

    async def propose(self, call_id: CallId) -> CallOutcome:
        """Put the plan before the user and wait for what they say."""
        ...


class PlanArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the plan tools take: nothing, since the plan is in its file."""


class EnterPlanMode:
    """Makes the whole tree of agents read only until a plan is approved."""

    name = "EnterPlanMode"
    effect: SideEffect = "writes"
    arguments: type[msgspec.Struct] = PlanArguments
    budget = 20_000

    def __init__(self, planning: Planning) -> None:
        """Take what keeps the mode."""
        self._planning = planning

    def title(self, args: PlanArguments) -> str:
        """Say that the mode changes."""
        del args
        return "Enter plan mode"

    def access(self, args: PlanArguments, context: Context) -> Sequence[Access]:
        """Touch nothing: it only takes leave away."""
        del args, context
        return ()

    async def run(self, call_id: CallId, args: PlanArguments, context: Context) -> CallOutcome:
        """Enter it."""
        del call_id, args, context
        return self._planning.begin()


class ExitPlanMode:
    """Shows the plan to the user, or to a team's leader, whose yes ends plan mode."""

    name = "ExitPlanMode"
    effect: SideEffect = "writes"
    arguments: type[msgspec.Struct] = PlanArguments
    budget = 200_000

    def __init__(self, planning: Planning) -> None:
        """Take what keeps the mode."""
        self._planning = planning

    def title(self, args: PlanArguments) -> str:
        """Say that a plan is shown."""
        del args
        return "Propose the plan"

    def access(self, args: PlanArguments, context: Context) -> Sequence[Access]:
        """Touch nothing: the user decides on the plan itself."""
        del args, context
        return ()

    async def run(self, call_id: CallId, args: PlanArguments, context: Context) -> CallOutcome:
        """Ask for approval: the user's, or for a member of a team its leader's."""
        del args
        if context.team is not None and not context.team.leads:
            return await context.team.propose()
        return await self._planning.propose(call_id)


if TYPE_CHECKING:
    _: type[Tool] = EnterPlanMode
    __: type[Tool] = ExitPlanMode
