"""A team as its leader has it: what members ask, and what is decided for them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import anyio.to_thread
import msgspec

from prong.cost.receipt import Receipt
from prong.errors import NotPossibleNow, UnknownName
from prong.journal.note import AskedByMember, TeamKept
from prong.journal.recorder import Recorder
from prong.mail import (
    EVERYONE,
    LEADER,
    Idle,
    Mail,
    Member,
    Message,
    PermissionRequest,
    PermissionSettled,
    PlanRequest,
    PlanResponse,
    ShutdownRequest,
    ShutdownResponse,
    Team,
)
from prong.team.membership import Membership
from prong.team.team_mail import TeamMail
from prong.team.teammate import received_text
from prong.tools.delegate import SpawnArguments


class DetachedMembers(Protocol):
    """Those members of a led team that work in sessions of their own, and outlive its leader."""

    async def choose(self, args: SpawnArguments) -> str:
        """Say where a member is to run; raises UsageError if it cannot run where it is to."""
        ...

    async def start(self, led: LedTeam, member: Member, args: SpawnArguments) -> str:
        """Start a member; gives what is to be told of where it is. Raises ProngError, OSError."""
        ...

    async def take_up(self, led: LedTeam) -> None:
        """See to the members of a team that is led again."""
        ...

    def ask(self, led: LedTeam, asked: AskedByMember) -> None:
        """Put what a member wants before whoever answers for the leader."""
        ...

    def settle(self, member: str, request_id: str) -> None:
        """Take a question back that was answered elsewhere."""
        ...

    async def look(self, led: LedTeam) -> None:
        """See to members that have begun to work without being started here."""
        ...

    async def end(self, led: LedTeam, name: str) -> None:
        """End a member at once, with all that it has started; raises ProngError."""
        ...

    async def output(self, led: LedTeam, name: str, *, wait: float) -> str:
        """Tell what is new of a member, having waited so long for its end; raises ProngError."""
        ...

    async def arrange(self, led: LedTeam, name: str, action: str) -> str:
        """Take a member's pane out of sight, or bring it back; raises ProngError."""
        ...

    async def sweep(self, led: LedTeam, keep: Sequence[str] = ()) -> None:
        """Close what panes are left of members that are not to be kept."""
        ...

    def receipts(self) -> list[Receipt]:
        """Give what each has shared and paid so far."""
        ...

    def close(self) -> None:
        """Show no member any more, as the session ends."""
        ...


@dataclass(slots=True)
class LedTeam:
    """The team that this session leads."""

    membership: Membership
    mail: TeamMail
    recorder: Recorder
    kept: TeamKept
    detached: DetachedMembers
    lost: bool = False
    """Whether its folder is gone, and nobody is to be led any more."""

    async def read(self) -> Team:
        """Give who is in it, read now; raises UsageError."""
        return await anyio.to_thread.run_sync(lambda: self.membership.folder.team)

    def _keep(self, **changes: Any) -> None:
        kept = msgspec.structs.replace(self.kept, **changes)
        if kept != self.kept and not self.lost:
            self.recorder.note(self.membership.path, kept)
            self.kept = kept

    async def look(self) -> None:
        """See who works; a leader gives tasks out, and is not woken by them."""
        await self.detached.look(self)

    def lose(self) -> None:
        """Lead nobody any more: somebody has removed the team."""
        self.lost = True

    def take(self, mail: Mail, mail_id: str) -> str:
        """Heed a mail; gives what the model is told of it, or nothing."""
        del mail_id
        who = mail.sender
        match mail.body:
            case Message(text=text):
                return received_text(mail, text)
            case Idle(summary=summary):
                last = f" The last it said: {received_text(mail, summary)}" if summary else ""
                return f"{who} has nothing to do and sleeps.{last}"
            case PlanRequest(request_id=request_id, plan=plan):
                self._keep(plans={**self.kept.plans, who: request_id})
                return (
                    f"{who} asks you to approve its plan (request_id {request_id}) and waits. "
                    f"Answer by SendMessage to {who} with this request_id and approve true, or "
                    f"false with what to change.\n\n{received_text(mail, plan)}"
                )
            case PermissionRequest():
                self._ask(who, mail.body)
                return ""
            case PermissionSettled(request_id=request_id):
                self.forget_asked(who, request_id)
                self.detached.settle(who, request_id)
                return ""
            case ShutdownResponse(agree=agree, reason=reason):
                said = f": {received_text(mail, reason)}" if reason else "."
                return f"{who} {'agrees to end' if agree else 'declines to end'}{said}"
            case _:
                return ""

    def _ask(self, member: str, body: PermissionRequest) -> None:
        """Ask for a member; what was asked before a kill is asked again when it is taken up."""
        asked = AskedByMember(
            member=member,
            request_id=body.request_id,
            tool=body.tool,
            title=body.title,
            why=body.why,
            suggestion=body.suggestion,
            arguments=body.arguments,
            preview=body.preview,
        )
        if asked not in self.kept.asked:
            self._keep(asked=(*self.kept.asked, asked))
            self.detached.ask(self, asked)

    def forget_asked(self, member: str, request_id: str | None = None) -> None:
        """Let a question of a member go, or all of them."""
        left = tuple(
            one
            for one in self.kept.asked
            if one.member != member or request_id not in {None, one.request_id}
        )
        self._keep(asked=left)

    async def tell(self, to: str, text: str) -> None:
        """Send a message to a member, or to all; raises UsageError, JournalFull."""
        await self.mail.post(self.membership, to, Message(text=text))

    async def ask_to_end(self, name: str, reason: str) -> str:
        """Ask a member to end; gives the id of the request. Raises UsageError, JournalFull."""
        self._must_run(await self.read(), name)
        request_id = f"end-{os.urandom(4).hex()}"
        body = ShutdownRequest(request_id=request_id, reason=reason)
        await self.mail.post(self.membership, name, body)
        return request_id

    async def answer_plan(
        self, name: str, *, approve: bool, feedback: str, request_id: str | None = None
    ) -> None:
        """Answer a member's plan; raises UsageError if none of it is open, JournalFull."""
        asked = self.kept.plans.get(name)
        if asked is None or request_id not in {None, asked}:
            listed = ", ".join(f"{who} ({what})" for who, what in self.kept.plans.items())
            raise NotPossibleNow(
                f"no plan {request_id or ''!r} of {name} waits for an answer; open are: "
                f"{listed or 'none'}"
            )
        body = PlanResponse(request_id=asked, approve=approve, feedback=feedback)
        await self.mail.post(self.membership, name, body)
        # Not the next one, which it may have sent by now.
        left = {who: what for who, what in self.kept.plans.items() if (who, what) != (name, asked)}
        self._keep(plans=left)

    def forget_plan(self, name: str) -> None:
        """Let a plan go whose member has ended."""
        self._keep(plans={who: what for who, what in self.kept.plans.items() if who != name})

    def _must_run(self, team: Team, name: str) -> None:
        member = team.member(name)
        if name in {LEADER, EVERYONE} or member is None:
            there = ", ".join(one.name for one in team.members) or "none"
            raise UnknownName(f"there is no member {name!r}; there are: {there}")
        if member.state == "ended":
            raise NotPossibleNow(f"{name} has ended already")
