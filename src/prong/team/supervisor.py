"""Starts agents and sees each of them to its end: the only place that starts concurrent work.

Every child runs on the same road: an `Agent` of its own, the same loop, a task on the board in the
session's task group, a notice at its end. A fork differs only in its first prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from prong.agent import Agent, Hooks
from prong.agent.answer import INTERRUPTED, unanswered
from prong.agent.lineage import Lineage
from prong.cost import Prices
from prong.cost.budget import Bounds, Purse
from prong.cost.receipt import Receipt
from prong.entry import Call, CallId, Reply, Result, Results, Text
from prong.errors import JournalError, ProngError, UsageError
from prong.event import Answer, Event, Question, QuestionAsked, Warned
from prong.journal.note import ChildEnded, ChildRun, ChildSpec, ReceiptOpened
from prong.journal.read import Replay, read_journal
from prong.prompt import Node, Prompt
from prong.team import fork
from prong.team.account import close_receipt, enter, keep_estimate, open_receipt, receipt_of
from prong.team.child import Child
from prong.team.departure import ForkSettings, advise, plan_departure
from prong.team.door import Door
from prong.team.fan import Fan
from prong.team.handback import Classifier, inspect, warning
from prong.team.isolation import make_agent, nobody
from prong.team.office import Office, held_back, notifies
from prong.team.result import ForkResult, result_of
from prong.team.revival import ended, revived, specs, spent_purse
from prong.team.route import Fork, ForkMode, Refused, Typed, route
from prong.team.shelf import Held, Shelf
from prong.team.task import TaskBoard
from prong.team.usher import may_stop
from prong.team.workplace import WorktreeSettings, assign, barred, close, prepare
from prong.text import load_text
from prong.tools.base import Failed, Outcome, TaskHandle, done
from prong.tools.delegate import AgentArguments, AnyAgentArguments

FORK_TURNS = 200
"""Requests a fork may make."""


class _Part(msgspec.Struct, frozen=True):
    """What one fork is to do."""

    description: str
    directive: str
    isolated: bool


@dataclass(slots=True, kw_only=True)
class Supervisor:
    """All agents of a session but the first."""

    board: TaskBoard
    emit: Callable[[str, Event], None]
    """Tells the faces something about the agent of that path."""
    mode: ForkMode
    settings: ForkSettings
    prices: Prices
    child_hooks: Callable[[Hooks], Hooks]
    """Makes a child's hooks from its parent's."""
    office: Office
    """Starts typed children."""
    journal: Path
    """Where the session's journal is."""
    classifier: Classifier | None = None
    """Looks at what children give back, beside the rules."""
    worktrees: WorktreeSettings = field(default_factory=WorktreeSettings)
    wake_once: bool = False
    """Whether a fan-out wakes its parent once, when all are done."""
    _shelf: Shelf = field(default_factory=Shelf)
    _owed: set[str] = field(default_factory=set[str])
    """Calls whose answer was lost with the process, so that a notice has to bring it."""
    _children: dict[str, Child] = field(default_factory=dict[str, Child])
    _fans: dict[str, tuple[object, Fan]] = field(default_factory=dict[str, tuple[object, Fan]])

    def door(self, agent: Agent) -> Door:
        """Make the way by which an agent's tools reach this supervisor."""
        return Door(self, agent)

    def child(self, name: str) -> Child | None:
        """Find a child by its name or task id."""
        return self._children.get(name)

    @property
    def children(self) -> list[Child]:
        """All children of the session, in the order in which they began."""
        return list(self._children.values())

    @property
    def held(self) -> Container[str]:
        """The tasks whose notices wait for their siblings."""
        return Held(self._children) if self.wake_once else ()

    async def delegate(self, parent: Agent, call_id: CallId, args: AnyAgentArguments) -> Outcome:
        """Start what a call of the Agent tool asks for."""
        model = parent.prompt.head.model
        decided = route(args, self.mode, parent.lineage, self.office.types, model=model)
        if not isinstance(decided, Refused) and self._named(args.name):
            return Failed(f"there is an agent {args.name!r} already; choose another name")
        match decided:
            case Refused(why):
                return Failed(why)
            case Typed(name):
                try:
                    return await self.office.delegate(self, parent, call_id, args, name)
                except ProngError as error:
                    return Failed(f"the agent could not be started: {error}")
            case Fork():
                if (why := barred(parent, args.isolation or "")) is not None:
                    return Failed(why)
                if (fan := self._dispatched(parent)).refusal:
                    return Failed(fan.refusal)
                if isinstance(purse := self._purse(parent, args.name or call_id), str):
                    return Failed(f"no fork was started: {purse}")
                part = _Part(args.description, args.prompt, isolated=bool(args.isolation))
                name = self.free(args.name or call_id)
                self._fork(parent, fan, name, part, call_id=call_id, purse=purse)
                return done(fork.PLACEHOLDER)

    def _purse(self, parent: Agent, name: str) -> Purse | str:
        return parent.purse.child(f"agent {name}", self.office.task_budget)

    def _named(self, name: str | None) -> bool:
        return name in self._children or name in self._shelf

    async def fork(
        self,
        parent: Agent,
        directives: Sequence[str],
        *,
        notify: bool = False,
        isolated: bool = False,
    ) -> list[Child]:
        """Fork an agent by hand, from its conversation as it stands.

        A reply whose calls still run is left out: it could not be sent without their results.
        Raises UsageError if forks are to be `isolated` and may not.
        """
        if isolated and (why := barred(parent, "worktree")) is not None:
            raise UsageError(why)
        prompt = parent.prompt
        while unanswered(prompt):
            assert prompt.tip is not None
            prompt = Prompt(prompt.head, prompt.tip.parent)
        fan = self._plan(parent, prompt, None, directives, notify=notify)
        number = len(self._children) + len(self._shelf)
        parts = [_Part(_short(text), text, isolated=isolated) for text in directives]
        return [
            self._fork(parent, fan, self.free(f"fork-{number + i}"), part, notify=notify)
            for i, part in enumerate(parts, 1)
        ]

    def free(self, name: str) -> str:
        """Give a name that no other agent has and no task had."""
        found, number = name, 1
        while self._named(found) or self.board.knows(found):
            number += 1
            found = f"{name}-{number}"
        return found

    async def wait(self, children: Sequence[Child]) -> list[ForkResult]:
        """Wait until children have ended; gives what each of them gave back."""
        for child in children:
            await self.board.wait_ended(child.spec.task_id)
        return [self.result(child) for child in children]

    def result(self, child: Child) -> ForkResult:
        """Put together what a child gave back."""
        return result_of(child, self.receipt(child))

    async def send(self, sender: Agent, to: str, text: str) -> Outcome:
        """Send a message to a child, which goes on from where it is."""
        child = self._children.get(to) or self._unshelved(sender, to)
        if child is None or not child.spec.path.startswith(f"{sender.path}/"):
            known = [name for name, one in self._children.items() if one.spec.parent == sender.path]
            return Failed(
                f"there is no agent {to!r} of yours; yours are: {', '.join(known) or '-'}"
            )
        child.tell(text)
        if self.board.runs(child.spec.task_id):
            return done(f"{to} is working and will read the message before its next step.")
        self._wake(child)
        notes = ("", *held_back(child))
        return done(f"{to} goes on with your message and will report again.{' '.join(notes)}")

    def _wake(self, child: Child) -> None:
        """Run a finished child again on its very prompt, so that its cache is read again."""
        child.runs += 1
        child.since = (len(child.rows), child.tool_uses)
        child.status = "running"
        child.findings = ()
        child.fan = None
        child.agent.purse.restart()
        if child.spec.kind == "typed":
            notifies(child)
        child.agent.recorder.note(child.spec.path, ChildRun(child.runs))
        self._launch(child)

    def _dispatched(self, parent: Agent) -> Fan:
        """Give the fan-out of the reply that the parent's calls come from, made once per reply."""
        tip = parent.prompt.tip
        assert tip is not None
        assert tip.kind == "reply", "children are dispatched by a reply"
        key, fan = self._fans.get(parent.path, (None, None))
        if fan is None or key is not tip:
            reply = parent.prompt.head.dialect.read(tip.role, tip.data)
            assert isinstance(reply, Reply)
            before = Prompt(parent.prompt.head, tip.parent)
            told = [self._directive(parent, call) for call in reply.calls]
            fan = self._plan(parent, before, reply, [text for text in told if text is not None])
            parent.gate = fan.wait_led
            self._fans[parent.path] = (tip, fan)
        return fan

    def _directive(self, parent: Agent, call: Call) -> str | None:
        """Give what a call tells its fork; None if it will not become one."""
        parsed = parent.kit.parse(call)
        if isinstance(parsed, Failed) or not isinstance(parsed[1], AgentArguments):
            return None
        model = parent.prompt.head.model
        decided = route(parsed[1], self.mode, parent.lineage, self.office.types, model=model)
        return parsed[1].prompt if isinstance(decided, Fork) else None

    def _plan(
        self,
        parent: Agent,
        prompt: Prompt,
        reply: Reply | None,
        directives: Sequence[str],
        *,
        notify: bool = True,
    ) -> Fan:
        wakes = int(notify) * (1 if self.wake_once else len(directives))
        known = (self.settings, self.prices)
        fan = plan_departure(parent, prompt, reply, directives, *known, wakes=wakes)
        advise(parent, fan, self.settings.break_even, asked=reply is None)
        return fan

    def _fork(
        self,
        parent: Agent,
        fan: Fan,
        task_id: str,
        part: _Part,
        *,
        call_id: str = "",
        notify: bool = True,
        purse: Purse | None = None,
    ) -> Child:
        spec = ChildSpec(
            task_id=task_id,
            path=f"{parent.path}/{task_id}",
            parent=parent.path,
            kind="fork",
            type="fork",
            description=part.description,
            call_id=call_id,
            notify=notify,
            base_depth=fan.base.depth,
            base=fan.base.digest,
            budget=purse.bounds if purse is not None else Bounds(),
            isolation="worktree" if part.isolated else "",
        )
        fan.first = fan.first or task_id
        told = f"{load_text('fork')}\n{part.directive}"
        prompt = fan.child(told)
        purse = purse or Purse(parent=parent.purse, name=f"agent {task_id}")
        agent = self._made(parent, spec, prompt, sent=fan.sent, base=fan.base.tip, purse=purse)
        child = Child(spec, agent, fan)
        child.receipt = open_receipt(parent, child, fan)
        if fan.first == task_id:
            keep_estimate(parent, fan)
        child.compose = lambda more: fan.child(f"{told}\n\n{more}")
        agent.recorder.keep(spec.path, prompt)
        agent.recorder.note(spec.path, ReceiptOpened(child.receipt))
        agent.recorder.note(spec.path, spec)
        fan.running.add(task_id)
        self.begin(child)
        return child

    def begin(self, child: Child) -> TaskHandle:
        """Launch a new child."""
        spec, agent = child.spec, child.agent
        self._children[spec.task_id] = child
        try:
            return self._launch(child)
        except BaseException:
            # Nobody will ever end it, so nobody may wait for it.
            del self._children[spec.task_id]
            self.office.yield_files(spec.task_id)
            if child.fan is not None:
                child.fan.left(spec.task_id)
            agent.purse.close()
            agent.recorder.note(spec.path, ChildEnded(1, "failed", "it could not be started"))
            raise

    def _made(
        self,
        parent: Agent,
        spec: ChildSpec,
        prompt: Prompt,
        *,
        sent: Node | None,
        base: Node | None,
        purse: Purse,
    ) -> Agent:
        """Make a fork's agent of its parent's."""
        context = self.surroundings(spec)
        return make_agent(
            parent,
            "fork",
            agent={
                "path": spec.path,
                "lineage": Lineage("fork", spec.parent, spec.path.count("/"), spec.base),
                "prompt": prompt,
                "policy": parent.policy.narrow(mode="bubble"),
                "hooks": self.child_hooks(parent.hooks),
                "emit": context["emit"],
                "limits": msgspec.structs.replace(parent.limits, max_turns=FORK_TURNS),
                "purse": purse,
                "sent": sent,
                "base": base,
            },
            context=context,
        )

    def surroundings(self, spec: ChildSpec) -> dict[str, Any]:
        """Make what is new in every child's context; `_launch` opens its doors."""

        def emit(event: Event) -> None:
            self.emit(spec.path, event)

        tasks = self.board.for_agent(spec.path, emit)
        return {"emit": emit, "ask": nobody, "tasks": tasks, "agents": None}

    def _launch(self, child: Child) -> TaskHandle:
        spec, agent = child.spec, child.agent

        def emit(event: Event) -> None:
            self.emit(spec.path, event)

        async def ask(questions: Sequence[Question]) -> str | None:
            asked = QuestionAsked(request_id=agent.desk.number(), questions=tuple(questions))
            answer = await agent.desk.ask(spec.path, asked, emit)
            return answer.text if isinstance(answer, Answer) and answer.allow else None

        agent.emit = agent.context.emit = emit
        agent.context.ask = ask
        agent.context.tasks = self.board.for_agent(spec.path, emit)
        agent.context.agents = self.door(agent)
        agent.on_paid = lambda row, ended: enter(child, row, ended, self.emit)
        child.used_at = agent.last_at
        self.board.listen(spec.path, lambda: self._collect(agent))
        if child.fan is not None:
            fan = child.fan
            agent.on_began = lambda: fan.began(spec.task_id)
        assign(child, self.worktrees)
        child.prepare, child.close = partial(prepare, child), partial(close, child)
        child.may_stop = lambda again: may_stop(child, again=again)
        child.on_end = self._ended
        self.office.claim(child)
        child.inspect = partial(inspect, classifier=self.classifier)
        child.leave = lambda: self._left(spec)
        return self.board.start(
            child,
            title=spec.description,
            task_id=spec.task_id,
            notice=child.notice_id,
            agent=spec.parent,
            emit=emit,
            notify=spec.notify,
        )

    async def _left(self, spec: ChildSpec) -> None:
        """Stop what a child has started and forget it: nothing of it outlives the child."""
        await self.board.stop_owned(spec.path)
        self.board.listen(spec.path, None)
        self.office.yield_files(spec.task_id)

    def _collect(self, agent: Agent) -> None:
        self.board.collect(agent.path, agent.inbox)

    def receipt(self, child: Child) -> Receipt:
        """Settle a child's receipt by what it has paid so far."""
        return receipt_of(child, self.prices)

    def _ended(self, child: Child) -> None:
        """Store a child's end and issue its receipt; a full disk must not keep it from ending."""
        # First, so that nothing below can leave the parent waiting.
        if child.waiting is not None:
            child.waiting.end()
        try:
            close_receipt(child, self.prices, self.emit)
            child.agent.recorder.note(child.spec.path, ended(child))
        except JournalError as error:
            self.emit(child.spec.path, Warned(text=str(error)))
        if said := warning(child.flags):
            self.emit(child.spec.path, Warned(text=said))
        self._shelf.take(self._children, self.board.runs, self.receipt)

    def receipts(self) -> list[Receipt]:
        """Give the receipts of all children."""
        return [*self._shelf.receipts(), *map(self.receipt, self._children.values())]

    def to_background(self, task_id: str | None = None) -> list[str]:
        """Send a child that is waited for to the background, or all; gives their task ids."""
        waited = [child for child in self._children.values() if child.waiting is not None]
        chosen = [child for child in waited if task_id in {None, child.spec.task_id}]
        for child in chosen:
            if child.waiting is not None:
                child.waiting.detach()
        return [child.spec.task_id for child in chosen]

    def at(self, path: str) -> Child | None:
        """Find a child by its path."""
        return next((c for c in self._children.values() if c.spec.path == path), None)

    def _unshelved(self, sender: Agent, name: str) -> Child | None:
        """Read a child that ended a while ago from the journal again."""
        spec = self._shelf.spec(name)
        if spec is None or not spec.path.startswith(f"{sender.path}/"):
            return None
        child = self._taken_up(sender, spec, read_journal(self.journal))
        if child is not None:
            self._shelf.drop(name)
            self._children[name] = child
        return child

    def _taken_up(self, main: Agent, spec: ChildSpec, replay: Replay) -> Child | None:
        """Make a child of what the journal has of it; None, and a warning, if that cannot be."""
        above = self.at(spec.parent)
        parent = above.agent if above is not None else main
        purse = spent_purse(parent, spec, replay)
        prompt = replay.agents[spec.path]
        if spec.kind == "fork":
            agent = self._made(parent, spec, prompt, sent=None, base=None, purse=purse)
            return revived(spec, agent, replay)
        try:
            return self.office.take_up(self, parent, spec, replay, purse)
        except ProngError as error:
            warned = Warned(text=f"the agent {spec.task_id} cannot be taken up again: {error}")
            self.emit(parent.path, warned)
            return None

    def revive(self, main: Agent, replay: Replay, *, run: bool = True) -> set[str]:
        """Take up the children of a resumed session; gives the tasks that run again.

        Without `run` those that were running count as stopped: they go on in another session.
        """
        running: set[str] = set()
        for spec in specs(replay):
            child = self._taken_up(main, spec, replay)
            if child is None:
                continue
            self._children[spec.task_id] = child
            if child.status != "running":
                self.board.make_up(child.notice_id, child.ending())
                if spec.call_id in self._owed and not spec.notify:
                    self.board.tell(child.notice_id, spec.parent, spec.task_id, child.ending())
            elif run:
                if spec.kind == "typed":
                    notifies(child)
                self._launch(child)
                running.add(spec.task_id)
            else:
                child.status, child.detail = "killed", "it goes on in the session it began in"
                self._ended(child)
                self.board.tell(child.notice_id, spec.parent, spec.task_id, child.ending())
        return running

    def answered(self, replay: Replay, prompt: Prompt) -> Results | None:
        """Answer the calls of a parent that died after its children had started."""
        begun = {spec.call_id for spec in specs(replay) if spec.call_id}
        calls = unanswered(prompt)
        if not any(call.id in begun for call in calls):
            return None
        self._owed = {call.id for call in calls}
        return Results(
            tuple(
                Result(call.id, (Text(fork.PLACEHOLDER),))
                if call.id in begun
                else Result(call.id, (Text(INTERRUPTED),), failed=True)
                for call in calls
            )
        )


def _short(text: str, limit: int = 60) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
