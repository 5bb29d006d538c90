"""What is kept of a member of a team, and what its course needs of its team.

Teams themselves are loaded only where there is one: all that a session without them sees is here.
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from prong.agent import Agent, Conversation, Turn
from prong.ids import AgentPath
from prong.journal.note import MemberKept, MemberSpec
from prong.text import load_text
from prong.tools.tool import Teamwork


class MemberRecord(msgspec.Struct):
    """What is kept of a member beside its conversation: changed only once it is stored."""

    conversation: Conversation
    kept: MemberKept

    def keep(self, **changes: Any) -> None:
        """Store changes of single fields."""
        kept = msgspec.structs.replace(self.kept, **changes)
        if kept != self.kept:
            self.conversation.note(kept)
            self.kept = kept

    def begin_again(self) -> None:
        """Be asked for nothing and have agreed to nothing, for another run."""
        self.keep(shutdown="", agreed=False)


def member_brief(member: MemberSpec, brief: str, *, forked: bool) -> str:
    """Put together what a member is told at first: who it is, how it works, what it is to do.

    One of a type has the rules of members in its system prompt.
    """
    parts = (
        load_text("teammate_fork").format(name=member.name) if forked else "",
        load_text("teammate") if forked else "",
        f"You are {member.name} of the team {member.team}.",
        load_text("teammate_plan") if member.plan else "",
        f"Directive:\n{brief}" if forked else brief,
    )
    return "\n\n".join(part.strip() for part in parts if part)


class Joined(Protocol):
    """A member at work, as its course sees it."""

    async def is_leaving(self, turn: Turn) -> bool:
        """Say whether it has agreed to end; if not, it sleeps until there is something to do."""
        ...

    async def leave(self) -> None:
        """Let it be at work no longer: what it had taken on is free for others."""
        ...


class Teams(Protocol):
    """The teams that agents of this process are in."""

    async def join(self, agent: Agent, member: MemberSpec, record: MemberRecord) -> Joined:
        """Let an agent be at work as a member.

        Raises ProngError if there is no such team or member any more.
        """
        ...

    def port(self, path: AgentPath) -> Teamwork:
        """Make the way by which the tools of a member reach its team."""
        ...

    def at_work(self, path: AgentPath) -> Joined | None:
        """Give the member that an agent is, if it is one and at work."""
        ...

    def rests(self, path: AgentPath) -> bool:
        """Whether a member sleeps, and nothing waits for it."""
        ...
