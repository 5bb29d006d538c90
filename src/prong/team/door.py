"""The supervisor as one agent's tools see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from prong.agent import Agent
from prong.entry import CallId
from prong.tools.base import Outcome
from prong.tools.delegate import AnyAgentArguments

if TYPE_CHECKING:
    from prong.team.supervisor import Supervisor


@dataclass(slots=True, frozen=True)
class Door:
    """The supervisor as one agent sees it."""

    supervisor: Supervisor
    agent: Agent

    async def delegate(self, call_id: CallId, args: AnyAgentArguments) -> Outcome:
        """Start an agent."""
        return await self.supervisor.delegate(self.agent, call_id, args)

    async def send(self, to: str, message: str) -> Outcome:
        """Send a message to a child."""
        return await self.supervisor.send(self.agent, to, message)
