"""A member of a team at work: what it is asked and answers, when it sleeps and what wakes it.

It is the same wherever the agent runs: what a member was asked and has said is kept beside its
conversation, so that a process that takes it up again goes on from there.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial

import anyio.to_thread

from prong.agent import Agent, Turn
from prong.entry import Reply, Text, User
from prong.errors import ProngError, UnknownName
from prong.event import AgentRested, Warned
from prong.ids import task_of
from prong.journal.note import MemberKept
from prong.mail import (
    EVERYONE,
    LEADER,
    Idle,
    Mail,
    MemberState,
    Message,
    PermissionResponse,
    PlanRequest,
    PlanResponse,
    SharedTask,
    SharedTasks,
    ShutdownRequest,
    ShutdownResponse,
)
from prong.prompt import Prompt
from prong.question import Answer
from prong.team.injection import check_report, warning
from prong.team.member_record import MemberRecord
from prong.team.membership import Membership
from prong.team.task import TaskBoard
from prong.team.team_list import shown, use_list
from prong.team.team_mail import NOT_STORED, TeamMail
from prong.tools.agent_policy import AgentPolicy
from prong.tools.team_task import SharedTaskArguments
from prong.tools.teamwork import TeamMessageArguments
from prong.tools.tool import CallOutcome, Done, Failed, done

_SUMMARY = 200
"""Letters of the last reply that the leader is told with an Idle."""


def received_text(mail: Mail, text: str) -> str:
    """Give a message as the model reads it; what looks like an injection is pointed out."""
    if mail.sender == LEADER:
        return text
    flagged = warning(check_report(text))
    return f"{flagged}\n\n{text}" if flagged else text


@dataclass(slots=True)
class Teammate:
    """A member of a team, for the length of a run."""

    agent: Agent
    membership: Membership
    mail: TeamMail
    board: TaskBoard
    """Where its task is."""
    record: MemberRecord
    before: AgentPolicy
    """The agent's rules without those of planning."""
    resting: bool = False
    _planning: AgentPolicy | None = field(default=None)
    _since: int = 0
    """What had come to its inbox when its last turn ended."""

    @property
    def kept(self) -> MemberKept:
        """What is kept of it."""
        return self.record.kept

    async def begin(self) -> None:
        """Read what waits for it; what it asked for and was not answered is asked again."""
        agent = self.agent
        if self.kept.planning:
            self._planning = self.before.narrow(mode="plan", plans=True)
            agent.move(agent.context.host, agent.context.cwd, self._planning)
        await self._state("working")
        await self.mail.listen(self)
        request_id, plan = self.kept.plan
        if request_id:
            # It may have been killed before this was sent; the leader knows it by its id.
            await self._ask_plan(request_id, plan)

    async def leave(self) -> None:
        """Let it be at work no longer: what it had taken on is free for others."""
        agent, name = self.agent, self.membership.name
        self.mail.leave(self.membership.path)
        if self._planning is not None:
            agent.move(agent.context.host, agent.context.cwd, self.before)
        try:
            with suppress(UnknownName):
                # Whoever was let go has no state any more.
                await self._state("ended")
            release = partial(SharedTasks.release, owner=name, by=name)
            await self.mail.use_tasks(self.membership, release)
        except (ProngError, OSError) as error:
            agent.emit(Warned(text=f"{name} could not be taken out of its team: {error}"))

    async def _state(self, state: MemberState) -> None:
        change = partial(self.membership.folder.change, self.membership.name, state=state)
        await anyio.to_thread.run_sync(change)

    def take(self, mail: Mail, mail_id: str) -> str:
        """Heed a mail; gives what the model is told of it, or nothing."""
        match mail.body:
            case Message(text=text):
                return received_text(mail, text)
            case PlanResponse():
                return self._planned(mail.body, mail_id)
            case PermissionResponse():
                self._permitted(mail.body)
                return ""
            case ShutdownRequest(request_id=request_id, reason=reason):
                self.record.keep(shutdown=request_id)
                why = f" {reason}" if reason else ""
                return (
                    f"The leader asks you to end (request_id {request_id}).{why} Finish your step, "
                    f"then answer by SendMessage to leader with this request_id: approve true ends "
                    f"you after this turn; approve false declines, with the reason in `message`."
                )
            case _:
                return ""

    def _permitted(self, answer: PermissionResponse) -> None:
        """Take the leader's word on a call, if nobody here has said it before."""
        process, _, request_id = answer.request_id.partition(".")
        if process == _process():
            given = Answer(request_id, allow=answer.allow, always=answer.always, text=answer.text)
            self.agent.questions.settle(given)

    def _planned(self, answer: PlanResponse, mail_id: str) -> str:
        """Take the leader's word on a plan: the first that answers an open request."""
        kept = self.kept
        if kept.plan[0] == answer.request_id:
            planning = kept.planning and not answer.approve
            self.record.keep(plan=("", ""), settled=mail_id, planning=planning)
            if not planning and self._planning is not None:
                self._planning.set_mode("bubble")
        elif kept.settled != mail_id:
            text = f"an answer to the plan {answer.request_id!r}, which is not open, was left out"
            self.agent.emit(Warned(text=text))
            return ""
        said = f" {answer.feedback}" if answer.feedback else ""
        if answer.approve:
            return f"Your plan is approved; you may do more than read now. Work by it.{said}"
        return f"Your plan is not approved.{said} Improve it, and call ExitPlanMode again."

    async def is_leaving(self, turn: Turn) -> bool:
        """Say whether it has agreed to end; if not, it sleeps until there is something to do."""
        if self.kept.agreed:
            return True
        self._since = self.agent.inbox.arrivals
        self.mail.withdraw(self.membership.name)
        if not self.kept.plan[0]:
            await self._say_idle(turn)
        if self.quiet:
            await self._seek_task(wakes=True)
        if self.quiet:
            await self._state("idle")
            await self._sleep()
            await self._state("working")
        return False

    @property
    def quiet(self) -> bool:
        """Whether nothing has come since its last turn, be it that a worker has taken it."""
        return self.agent.inbox.arrivals == self._since

    async def _sleep(self) -> None:
        """Wait until there is something to do, without a request."""
        if not self.quiet:
            return
        self.resting = True
        self.agent.emit(AgentRested(waits="plan" if self.kept.plan[0] else "work"))
        try:
            await self.agent.inbox.wait_arrival(self._since)
        finally:
            self.resting = False

    async def _say_idle(self, turn: Turn) -> None:
        """Tell the leader once that there is nothing to do."""
        digest = self.agent.conversation.prompt.digest
        if self.kept.idle != digest:
            words = " ".join(turn.text.split())
            short = words if len(words) <= _SUMMARY else f"{words[:_SUMMARY]}…"
            # Killed before this is kept, it says the same again, which is read once.
            about = f"idle {self.kept.idles} {digest}"
            await self.mail.post(self.membership, LEADER, Idle(summary=short), about=about)
            self.record.keep(idle=digest, idles=self.kept.idles + 1)

    async def look(self) -> None:
        """Look for a task that has become free, or was given to it; one that was let go ends."""
        team = await anyio.to_thread.run_sync(lambda: self.membership.folder.team)
        if team.member(self.membership.name) is None:
            self.lose()
        else:
            await self._seek_task(wakes=self.resting)

    def lose(self) -> None:
        """End: there is no team any more that it is in."""
        self.mail.leave(self.membership.path)
        self.mail.group.start_soon(self.board.stop, task_of(self.membership.path))

    async def _seek_task(self, *, wakes: bool) -> None:
        """Wake it for a task that is free or its own; each is told of once while it is so."""
        name = self.membership.name
        mine, free, lines = await self.mail.use_tasks(self.membership, partial(_open_to, name=name))
        known = tuple(one for one in self.kept.offered if one in lines)
        self.record.keep(offered=known)
        if not wakes or not self.quiet:
            return
        new = [task for task in mine if task.id not in known]
        task = new[0] if new else self.mail.offer(name, [t for t in free if t.id not in known])
        if task is None:
            return
        self.record.keep(offered=(*known, task.id))
        how = "is yours and not completed" if task in new else "is free; claim it if it is for you"
        text = f"A task of the team's list {how}:\n{lines[task.id]}"
        self.agent.inbox.put(User((Text(text),), "reminder"))

    async def send(self, args: TeamMessageArguments) -> CallOutcome | None:
        """Send a message, or the answer to the leader's request; None if it is not for the team."""
        if args.shutdown:
            return Failed("only the leader asks members to end")
        if args.approve is not None or args.request_id:
            return await self._answer(args)
        try:
            team = await anyio.to_thread.run_sync(lambda: self.membership.folder.team)
            member = team.member(args.to)
            if member is None and args.to not in {LEADER, EVERYONE}:
                return None
            if not args.message.strip():
                return Failed("the message is empty")
            await self.mail.post(self.membership, args.to, Message(text=args.message))
        except NOT_STORED as error:
            return Failed(str(error))
        if member is not None and member.state == "ended":
            return done(f"{args.to} has ended; it reads this if it is started again.")
        return done(f"Sent to {'all' if args.to == EVERYONE else args.to}.")

    async def _answer(self, args: TeamMessageArguments) -> CallOutcome:
        """Answer the leader's request to end."""
        request_id = self.kept.shutdown
        if not request_id or args.request_id not in {None, request_id}:
            return Failed(f"no request {args.request_id or ''!r} to you is open; nothing was sent")
        if args.approve is None:
            return Failed("say whether you approve")
        body = ShutdownResponse(request_id=request_id, agree=args.approve, reason=args.message)
        if args.approve:
            # Before it is said: whoever has said it must end, also after a kill.
            self.record.keep(agreed=True, shutdown="")
        about = f"{request_id} {args.approve}"
        try:
            await self.mail.post(self.membership, LEADER, body, about=about)
        except NOT_STORED as error:
            ends = " You end all the same." if args.approve else ""
            return Failed(f"{error}.{ends}")
        self.record.keep(shutdown="")
        told = "End your turn now." if args.approve else "Go on with your work."
        return done(f"The leader is told. {told}")

    async def propose(self) -> CallOutcome:
        """Put the plan that was just said before the leader."""
        if not self.kept.planning:
            return Failed("you are not planning, so there is no plan to approve; do the work")
        if self.kept.plan[0]:
            return Failed("your plan is with the leader; end your turn, the answer will come")
        plan = _said_last(self.agent.conversation.prompt).strip()
        if not plan:
            return Failed("write the whole plan as text in the reply that calls ExitPlanMode")
        request_id = f"plan-{os.urandom(4).hex()}"
        self.record.keep(plan=(request_id, plan))
        try:
            await self._ask_plan(request_id, plan)
        except NOT_STORED as error:
            self.record.keep(plan=("", ""))
            return Failed(str(error))
        told = "The plan is with the leader. The answer comes as a message."
        return Done((Text(told),), ends=plan)

    async def _ask_plan(self, request_id: str, plan: str) -> None:
        body = PlanRequest(request_id=request_id, plan=plan)
        await self.mail.post(self.membership, LEADER, body, about=request_id)

    async def task(self, args: SharedTaskArguments) -> CallOutcome:
        """Do something with the shared list."""
        return await use_list(self.mail, self.membership, args)


def own_request(request_id: str) -> str:
    """Give the id by which a leader knows a request of this process: the next one counts anew."""
    return f"{_process()}.{request_id}"


@cache
def _process() -> str:
    """Name this process as none before it: a number comes back soon where there are few."""
    return os.urandom(8).hex()


def _open_to(
    tasks: SharedTasks, *, name: str
) -> tuple[list[SharedTask], list[SharedTask], dict[str, str]]:
    """Give the tasks that are a member's and not over, those that are free, and a line of each."""
    every = tasks.list()
    mine = [task for task in every if task.owner == name and not task.over]
    free = [
        task
        for task in every
        if task.status == "pending" and not task.owner and not tasks.waits_for(task.id)
    ]
    return mine, free, {task.id: shown(task, tasks) for task in (*mine, *free)}


def _said_last(prompt: Prompt) -> str:
    """Give the text of the last reply."""
    node = prompt.tip
    while node is not None and node.kind != "reply":
        node = node.parent
    reply = prompt.head.dialect.read(node.role, node.data) if node is not None else None
    return reply.text if isinstance(reply, Reply) else ""
