"""Starts agents and sees each of them to its end: the only place that starts concurrent work.

Every child runs on the same road: an `Agent` of its own, the same loop, a task on the board in the
session's task group, a notice at its end. A fork differs only in its first prompt.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import msgspec

from prong.agent import Agent, Hooks
from prong.agent.answer import interrupted
from prong.agent.inbox import Inbox
from prong.agent.lineage import Lineage
from prong.agent.request import prewarm
from prong.cost import Prices, Row, fact, markable
from prong.cost.fan import LIFETIME, Dispatch, Schedule, plan_fan, rates
from prong.cost.receipt import (
    Circumstance,
    Receipt,
    as_json,
    diagnosis,
    line,
    reconcile,
    settle,
)
from prong.entry import Call, CallId, Reply
from prong.event import CacheMissed, Event, ReceiptIssued
from prong.prompt import Node, Prompt
from prong.provider import trait
from prong.team import fork
from prong.team.child import Child, ChildSpec, Status, message
from prong.team.fan import Fan
from prong.team.route import Fork, ForkMode, Refused, Typed, route
from prong.team.task import TaskBoard
from prong.tool.base import Failed, Outcome, done
from prong.tool.delegate import AgentArguments, AnyAgentArguments
from prong.wire import Ended, Ttl

FORK_TURNS = 200
"""Requests a fork may make."""

_MARGIN = 20.0
"""Seconds before an entry's end at which it no longer counts as cached."""


class ForkSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the user may set about forks."""

    dispatch: Dispatch | None = None
    """Keep or drop the dispatching reply; None chooses by cost."""
    schedule: Schedule | None = None
    """How siblings start; None chooses by cost."""
    turns: int = 3
    """Requests a child is expected to make, for the choices above."""


class ForkResult(msgspec.Struct, frozen=True, kw_only=True):
    """What one fork gave back."""

    task_id: str
    status: str
    text: str
    """Its last reply, whole."""
    report: fork.Report
    receipt: Receipt
    detail: str = ""
    """Why it failed or was stopped, if it did."""


@dataclass(slots=True, kw_only=True)
class Supervisor:
    """All agents of a session but the first."""

    board: TaskBoard
    emit: Callable[[str, Event], None]
    """Tells the faces something about the agent of that path."""
    mode: Callable[[], ForkMode]
    settings: ForkSettings
    prices: Prices
    child_hooks: Callable[[Hooks], Hooks]
    """Makes a child's hooks from its parent's."""
    wake_once: bool = False
    """Whether a fan-out wakes its parent once, when all are done."""
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

    def held(self, agent: str) -> set[str]:
        """Name the tasks whose notices wait for their siblings."""
        if not self.wake_once:
            return set()
        return {
            child.spec.task_id
            for child in self._children.values()
            if child.spec.parent == agent and child.fan is not None and child.fan.running
        }

    async def delegate(self, parent: Agent, call_id: CallId, args: AnyAgentArguments) -> Outcome:
        """Start what a call of the Agent tool asks for."""
        model = parent.prompt.head.model
        match route(args, self.mode(), parent.lineage, frozenset[str](), model=model):
            case Refused(why):
                return Failed(why)
            case Typed(name):
                return Failed(f"agents of type {name!r} cannot be started yet")
            case Fork():
                task_id = args.name or call_id
                if task_id in self._children:
                    return Failed(f"there is an agent {task_id!r} already; choose another name")
                fan = self._dispatched(parent)
                self._fork(parent, fan, task_id, args.description, args.prompt, notify=True)
                return done(fork.PLACEHOLDER)

    async def fork(
        self, parent: Agent, directives: Sequence[str], *, notify: bool = False
    ) -> list[Child]:
        """Fork an agent by hand, from its conversation as it stands."""
        prompt = parent.prompt
        fan = self._fan(parent, prompt, None, len(directives))
        number = len(self._children)
        return [
            self._fork(parent, fan, f"fork-{number + index}", _short(text), text, notify=notify)
            for index, text in enumerate(directives, 1)
        ]

    async def wait(self, children: Sequence[Child]) -> list[ForkResult]:
        """Wait until children have ended; gives what each of them gave back."""
        for child in children:
            await self.board.wait_ended(child.spec.task_id)
        return [self.result(child) for child in children]

    def result(self, child: Child) -> ForkResult:
        """Put together what a child gave back."""
        return ForkResult(
            task_id=child.spec.task_id,
            status=child.status,
            text=child.text,
            report=child.report,
            receipt=self.receipt(child),
            detail=child.detail,
        )

    async def send(self, sender: Agent, to: str, text: str) -> Outcome:
        """Send a message to a child, which goes on from where it is."""
        child = self._children.get(to)
        if child is None or not child.spec.path.startswith(f"{sender.path}/"):
            known = [name for name, one in self._children.items() if one.spec.parent == sender.path]
            return Failed(
                f"there is no agent {to!r} of yours; yours are: {', '.join(known) or '-'}"
            )
        child.agent.inbox.put(message(text))
        if self.board.runs(child.spec.task_id):
            return done(f"{to} is working and will read the message before its next step.")
        self._wake(child)
        return done(f"{to} goes on with your message and will report again.")

    def _wake(self, child: Child) -> None:
        """Run a finished child again on its very prompt, so that its cache is read again."""
        child.runs += 1
        child.status = "running"
        child.fan = None
        child.agent.recorder.note(child.spec.path, "run", child.runs)
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
            size = sum(self._forks(parent, call) for call in reply.calls)
            fan = self._fan(parent, before, reply, size)
            self._fans[parent.path] = (tip, fan)
        return fan

    def _forks(self, parent: Agent, call: Call) -> bool:
        """Whether a call will become a fork."""
        parsed = parent.kit.parse(call)
        if isinstance(parsed, Failed) or not isinstance(parsed[1], AgentArguments):
            return False
        model = parent.prompt.head.model
        decided = route(parsed[1], self.mode(), parent.lineage, frozenset[str](), model=model)
        return isinstance(decided, Fork)

    def _fan(self, parent: Agent, prompt: Prompt, reply: Reply | None, size: int) -> Fan:
        """Plan a fan-out from a prompt, with the reply that dispatches it, if one does."""
        whole = fork.base(prompt, reply) if reply is not None else prompt
        carry = reply is not None and self._loses_thinking(prompt)
        cached = parent.last_usage.input
        plan = plan_fan(
            size=size,
            cached=cached,
            dispatch_tokens=self._tokens(parent, len(whole) - len(prompt)),
            tail_tokens=self._tokens(parent, len(prompt) - parent.last_length) if cached else 0,
            turns=self.settings.turns,
            rates=rates(self.prices.of(prompt.head.model), self._ttl(parent)),
            warm=self._warm(parent),
            dispatch=self.settings.dispatch,
            schedule=self.settings.schedule,
            carry=carry,
            minimum=fact(prompt.head.model).min_prefix,
        )
        base = whole if plan.dispatch == "keep" else prompt
        return Fan(
            plan,
            base,
            sent=parent.sent,
            warm_since=parent.last_at,
            carrier=(prompt, reply) if carry and reply is not None else None,
            prewarm=lambda: prewarm(parent, base),
        )

    def _tokens(self, parent: Agent, length: int) -> int:
        """Guess the tokens of so many bytes by what the parent's prompt was counted as."""
        if length <= 0:
            return 0
        counted = parent.last_usage.input
        share = parent.last_length / counted if counted else 4.0
        return round(length / share)

    def _warm(self, parent: Agent) -> bool:
        """Whether what the parent last sent should still be cached."""
        if trait(parent.provider).lasting:
            return parent.last_at > 0
        lives = LIFETIME[self._ttl(parent)] - _MARGIN
        return parent.last_at > 0 and parent.clock() - parent.last_at < lives

    def _ttl(self, agent: Agent) -> Ttl:
        """Say how long the provider keeps what an agent sends."""
        if agent.ttl is not None:
            return agent.ttl
        head = agent.prompt.head
        return "30m" if head.spec.explicit_marks and head.dialect.name != "anthropic" else "5m"

    def _loses_thinking(self, prompt: Prompt) -> bool:
        """Whether plain user text would make this model drop thinking that is in the prompt."""
        if prompt.head.dialect.name != "anthropic" or fact(prompt.head.model).keeps_thinking:
            return False
        return any(b'"type":"thinking"' in node.delta for node in prompt.nodes())

    def _fork(
        self,
        parent: Agent,
        fan: Fan,
        task_id: str,
        description: str,
        directive: str,
        *,
        notify: bool,
    ) -> Child:
        path = f"{parent.path}/{task_id}"
        prompt = fan.child(f"{parent.texts('fork')}\n{directive}")
        agent = replace(
            parent,
            path=path,
            lineage=Lineage("fork", parent.path, parent.lineage.depth + 1, fan.base.digest),
            prompt=prompt,
            context=replace(parent.context, reads=parent.context.reads.clone(), agents=None),
            policy=parent.policy.narrow(mode="bubble"),
            hooks=self.child_hooks(parent.hooks),
            limits=msgspec.structs.replace(parent.limits, max_turns=FORK_TURNS),
            inbox=Inbox(),
            refusals=Counter(),
            sent=fan.sent,
            base=fan.base.tip,
        )
        spec = ChildSpec(
            task_id=task_id,
            path=path,
            parent=parent.path,
            kind="fork",
            type="fork",
            description=description,
            notify=notify,
            base_depth=fan.base.depth,
            base=fan.base.digest,
        )
        child = Child(spec, agent, fan)
        child.receipt = self._opened(parent, child, fan)
        fan.running.add(task_id)
        self._children[task_id] = child
        agent.recorder.keep(path, prompt)
        agent.recorder.note(path, "child", spec)
        self._launch(child)
        return child

    def _launch(self, child: Child) -> None:
        spec, agent = child.spec, child.agent

        def emit(event: Event) -> None:
            self.emit(spec.path, event)

        agent.emit = agent.context.emit = emit
        agent.context.tasks = self.board.for_agent(spec.path, emit)
        agent.context.agents = self.door(agent)
        agent.on_paid = lambda row, ended: self._paid(child, row, ended)

        def collect() -> None:
            self.board.collect(spec.path, agent.inbox)

        self.board.listen(spec.path, collect)
        if child.fan is not None:
            fan = child.fan
            agent.on_began = lambda: fan.began(spec.task_id)
        child.on_end = self._ended
        self.board.start(
            child,
            title=spec.description,
            task_id=spec.task_id,
            notice=child.notice_id,
            agent=spec.parent,
            emit=emit,
            notify=spec.notify,
        )

    def receipt(self, child: Child) -> Receipt:
        """Settle a child's receipt by what it has paid so far."""
        price = self.prices.of(child.agent.prompt.head.model)
        return settle(
            msgspec.structs.replace(child.receipt, status=child.status, miss=child.miss),
            child.rows,
            price,
            ttl=self._ttl(child.agent),
        )

    def _opened(self, parent: Agent, child: Child, fan: Fan) -> Receipt:
        """Begin the receipt of a fork with what it should share."""
        spec, prompt = child.spec, child.agent.prompt
        shared = len(fan.base)
        return Receipt(
            task_id=spec.task_id,
            agent=spec.path,
            base=spec.base,
            bytes_shared=shared,
            bytes_first=len(prompt),
            tokens_shared=parent.last_usage.input
            + self._tokens(parent, shared - parent.last_length),
            dispatch=fan.plan.dispatch,
            schedule=fan.plan.schedule,
            reason=fan.plan.reason,
            delivered="pending",
        )

    def _paid(self, child: Child, row: Row, ended: Ended) -> None:
        """Hold a child's first reply against what was predicted for it."""
        first = not child.rows
        child.rows.append(row)
        fan = child.fan
        if not first or fan is None:
            return
        predicted = fan.predicted_read(child.spec.task_id)
        child.receipt = msgspec.structs.replace(
            child.receipt,
            predicted_read=predicted,
            predicted_write=max(0, row.usage.input - predicted),
            diagnosis=diagnosis(ended.diagnostics),
        )
        known = self._circumstance(child, fan, ended, row)
        if why := reconcile(predicted, row.usage, known):
            child.miss = why
            missed = CacheMissed(predicted=predicted, read=row.usage.read, why=why)
            self.emit(child.spec.path, missed)

    def _circumstance(self, child: Child, fan: Fan, ended: Ended, row: Row) -> Circumstance:
        head = child.agent.prompt.head
        anthropic = head.dialect.name == "anthropic"
        rounds = 0 if anthropic or head.spec.explicit_marks else 128
        known = trait(child.agent.provider)
        return Circumstance(
            diagnostics=ended.diagnostics,
            minimum=fact(head.model).min_prefix,
            idle=max(0.0, child.agent.last_at - fan.warm_since)
            if fan.warm_since and not known.lasting
            else None,
            ttl=self._ttl(child.agent),
            in_flight=fan.plan.schedule == "at_once" and not fan.plan.cached,
            drops_thinking=not fact(head.model).keeps_thinking and fan.carrier is None,
            marks=row.marks,
            rounds_to=rounds if known.slack is None else known.slack,
        )

    def _ended(self, child: Child) -> None:
        """Store a child's end and issue its receipt."""
        child.receipt = msgspec.structs.replace(
            child.receipt, delivered="notice" if child.spec.notify else "returned"
        )
        receipt, agent = self.receipt(child), child.agent
        agent.recorder.note(child.spec.path, "receipt", receipt)
        agent.recorder.note(child.spec.path, "ended", _Ended(child.runs, child.status))
        self.emit(
            child.spec.path,
            ReceiptIssued(
                task_id=child.spec.task_id,
                receipt=msgspec.Raw(msgspec.json.encode(as_json(receipt))),
                text=line(receipt),
            ),
        )

    def revive(
        self,
        main: Agent,
        prompts: Mapping[str, Prompt],
        note: NoteReader,
        *,
        restore: Callable[[Agent], None],
    ) -> set[str]:
        """Take up the children of a resumed session; gives the tasks that run again.

        A child that was running when the process ended goes on from its stored prompt, its
        unfinished calls answered as interrupted. One that had ended can be sent messages again.
        `restore` lets an agent remember its last request.
        """
        running: set[str] = set()
        for path, prompt in prompts.items():
            spec = note(path, "child", ChildSpec)
            if spec is None:
                continue
            ended = note(path, "ended", _Ended) or _Ended()
            child = self._revived(main, spec, prompt, ended, note)
            restore(child.agent)
            self._children[spec.task_id] = child
            if ended.run < max(1, note(path, "run", int) or 1):
                if (results := interrupted(prompt)) is not None:
                    child.agent.append(results)
                self._launch(child)
                running.add(spec.task_id)
        return running

    def _revived(
        self, main: Agent, spec: ChildSpec, prompt: Prompt, ended: _Ended, note: NoteReader
    ) -> Child:
        node = prompt.tip
        while node is not None and node.depth > spec.base_depth:
            node = node.parent
        agent = replace(
            main,
            path=spec.path,
            lineage=Lineage("fork", spec.parent, spec.path.count("/"), spec.base),
            prompt=prompt,
            context=replace(main.context, reads=main.context.reads.clone(), agents=None),
            policy=main.policy.narrow(mode="bubble"),
            hooks=self.child_hooks(main.hooks),
            limits=msgspec.structs.replace(main.limits, max_turns=FORK_TURNS),
            inbox=Inbox(),
            refusals=Counter(),
            sent=_last_sent(prompt),
            base=node,
        )
        child = Child(spec, agent, None, status=ended.status, runs=max(1, ended.run))
        child.receipt = note(spec.path, "receipt", Receipt) or Receipt(
            task_id=spec.task_id, agent=spec.path, base=spec.base
        )
        return child


class _Ended(msgspec.Struct, frozen=True):
    run: int = 0
    status: Status = "running"


class NoteReader(Protocol):
    """Reads a stored note of an agent as a type; None if there is none."""

    def __call__(self, agent: str, name: str, kind: Any) -> Any:
        """Read it."""
        ...


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


def _last_sent(prompt: Prompt) -> Node | None:
    """Find where a conversation ended when it was last sent: before its last reply."""
    node = prompt.tip
    while node is not None and node.kind != "reply":
        node = node.parent
    return markable(node.parent) if node is not None else None


def _short(text: str, limit: int = 60) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
