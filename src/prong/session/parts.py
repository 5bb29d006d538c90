"""What a session is made of, once everything has been put together."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct, field

from prong.agent import Agent, Life
from prong.config.firing import UserHooks
from prong.config.place import Place
from prong.cost import Ledger
from prong.cost.receipt import Receipt
from prong.errors import NotPossibleNow, SessionEnded
from prong.journal.writer import Journal
from prong.prompt import Prompt
from prong.session import sidecar
from prong.session.bus import Bus
from prong.session.extraction import Memory
from prong.session.housekeeping import Housekeeping
from prong.session.intake import Intake
from prong.session.outside_control import OutsideControl
from prong.session.planning import Planner
from prong.team.supervisor import Supervisor
from prong.team.task import TaskBoard

if TYPE_CHECKING:
    # Loaded only where there are servers, or a team.
    from prong.session.mcp_servers import McpServers
    from prong.team.leader import Leader


class Parts(Struct, frozen=True, kw_only=True):
    """The parts of a session that has been opened; they change, their places do not."""

    agent: Agent
    """The main agent."""
    bus: Bus
    housekeeping: Housekeeping
    hooks: UserHooks
    """The session's, which the main agent's are made of."""
    life: Life
    intake: Intake
    journal: Journal
    leader: Leader | None
    """The main agent as the leader of a team, if it may lead one."""
    memory: Memory
    place: Place
    planner: Planner
    servers: McpServers | None
    supervisor: Supervisor
    switch: Callable[[str], None]
    """Lets another model answer."""
    control: OutsideControl = field(default_factory=OutsideControl)
    """Who may act in it from another process."""

    @property
    def tasks(self) -> TaskBoard:
        """Everything that runs in the background."""
        return self.supervisor.services.board

    @property
    def owed(self) -> bool:
        """Whether there are notices that the main agent will still be given."""
        return self.tasks.delivery.owes(self.agent.path)

    @property
    def ledger(self) -> Ledger:
        """Every request so far."""
        return self.agent.client.billing.ledger

    @property
    def busy(self) -> bool:
        """Whether a turn runs or is about to."""
        return self.life.working or len(self.agent.inbox) > 0

    @property
    def over(self) -> bool:
        """Whether the session does nothing any more but close."""
        return self.life.stopped or self.bus.closed

    @property
    def snapshot(self) -> Prompt:
        """The conversation as it stood when the last turn ended."""
        now, before = self.agent.conversation.prompt, self.life.snapshot
        if before is not None and (self.busy or now.extends(before)):
            return before
        return sidecar.sendable(now)

    def receipts(self) -> list[Receipt]:
        """Give the receipts of all children so far, those in sessions of their own included."""
        detached = self.leader.detached.receipts() if self.leader is not None else []
        return [*self.supervisor.registry.receipts(), *detached]

    def must_live(self) -> None:
        """Make sure that the session can still do something.

        Raises SessionEnded if it has ended.
        """
        if self.over:
            raise SessionEnded("the session has ended; open another, or resume it")

    def must_be_idle(self, what: str) -> None:
        """Make sure that nobody works on the conversation.

        Raises NotPossibleNow if a turn runs.
        """
        if self.busy:
            raise NotPossibleNow(
                f"cannot {what} while a turn runs; interrupt it or wait for its end"
            )
