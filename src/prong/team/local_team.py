"""The members of teams that run in this process, and their tools' way to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import anyio

from prong.agent import Agent
from prong.entry import CallId
from prong.ids import AgentPath
from prong.journal.note import MemberSpec
from prong.team.member_record import MemberRecord
from prong.team.membership import Membership
from prong.team.task import TaskBoard
from prong.team.team_mail import TeamMail
from prong.team.teammate import Teammate
from prong.tools.delegate import SpawnArguments
from prong.tools.team_task import SharedTaskArguments
from prong.tools.teamwork import NO_TEAM, TeamMessageArguments
from prong.tools.tool import CallOutcome, Failed, Teamwork

_LEADS = "only the leader does that; send it a message"


@dataclass(slots=True)
class LocalTeams:
    """Those agents of this process that are members of a team."""

    mail: TeamMail
    board: TaskBoard
    """Where members run as tasks."""
    _at_work: dict[AgentPath, Teammate] = field(default_factory=dict[AgentPath, Teammate])

    async def join(self, agent: Agent, member: MemberSpec, record: MemberRecord) -> Teammate:
        """Let an agent be at work as a member.

        Raises ProngError if there is no such team or member any more.
        """
        folder = await self.mail.open_folder(member.team)
        membership = Membership(folder, member.name, agent.path)
        teammate = Teammate(agent, membership, self.mail, self.board, record, agent.policy)
        self._at_work[agent.path] = teammate
        try:
            await teammate.begin()
        except BaseException:
            with anyio.CancelScope(shield=True):
                await teammate.leave()
            raise
        return teammate

    def port(self, path: AgentPath) -> Teamwork:
        """Make the way by which the tools of a member reach its team."""
        return MemberPort(self, path)

    def rests(self, path: AgentPath) -> bool:
        """Whether a member sleeps, and nothing waits for it."""
        teammate = self._at_work.get(path)
        return teammate is not None and teammate.resting and teammate.quiet

    def at_work(self, path: AgentPath) -> Teammate | None:
        """Give the member that an agent is."""
        return self._at_work.get(path)


@dataclass(slots=True, frozen=True)
class MemberPort:
    """A team, as the tools of one of its members see it."""

    teams: LocalTeams
    path: AgentPath
    leads: bool = False

    async def create(self, name: str, description: str) -> CallOutcome:
        """Refuse: a team has one leader."""
        del name, description
        return Failed(_LEADS)

    async def spawn(self, calls: Sequence[tuple[CallId, SpawnArguments]]) -> list[CallOutcome]:
        """Refuse: a team has one leader."""
        return [Failed(_LEADS) for _ in calls]

    async def send(self, args: TeamMessageArguments) -> CallOutcome | None:
        """Send a message, or an answer."""
        member = self.teams.at_work(self.path)
        return Failed(NO_TEAM) if member is None else await member.send(args)

    async def stop(self, name: str) -> CallOutcome | None:
        """Leave it: a member ends what it has started itself."""
        del name
        return None

    async def output(self, name: str, *, wait: float) -> CallOutcome | None:
        """Leave it: a member looks after what it has started itself."""
        del name, wait
        return None

    async def propose(self) -> CallOutcome:
        """Put the plan before the leader."""
        member = self.teams.at_work(self.path)
        return Failed(NO_TEAM) if member is None else await member.propose()

    async def task(self, args: SharedTaskArguments) -> CallOutcome:
        """Do something with the shared list."""
        member = self.teams.at_work(self.path)
        return Failed(NO_TEAM) if member is None else await member.task(args)

    async def delete(self) -> CallOutcome:
        """Refuse: a team has one leader."""
        return Failed(_LEADS)
