"""Starts agents and finds them again: the only place that starts concurrent work.

Every child runs on the same road: an `Agent` of its own, the same course, a task on the board in
the session's task group, a notice at its end. The calls of a fan-out come together: each is routed
once, one plan is made, and then they start.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field

import anyio
import msgspec

from prong.agent import Agent
from prong.agent.answer import INTERRUPTED, unanswered
from prong.agent.spec import AgentType
from prong.cost.budget import Bounds, Budget
from prong.entry import CallId, Result, Results, Text
from prong.errors import ProngError, UsageError
from prong.event import Warned
from prong.journal.note import ChildEnded, ChildSpec, ReceiptOpened
from prong.journal.read import Replay, read_journal
from prong.prompt import Prompt
from prong.team import fork
from prong.team.account import CacheWatch, keep_estimate
from prong.team.announce import announce
from prong.team.child import Child
from prong.team.course import ChildTask, Services, end
from prong.team.fanout import FanOut, ForkSettings, advise, plan_fan_out
from prong.team.fileset import BadSet, FileSet, read_set
from prong.team.make import (
    Part,
    declared,
    fork_spec,
    fork_start,
    make_fork,
    make_typed,
    typed_spec,
    typed_start,
)
from prong.team.outbox import Expected
from prong.team.place import barred
from prong.team.recruit import Recruiter
from prong.team.result import ForkResult, ending_of, finished, held_back, moved, result_of, started
from prong.team.resume import TakenUp, make_up, specs, spent_budget, stored_start, take_up, told
from prong.team.roster import Held, Roster
from prong.team.route import Fork, ForkMode, Refused, Route, Typed, route
from prong.team.wait import Wait
from prong.tools.base import Delegation, Failed, Outcome, TaskHandle, done
from prong.tools.delegate import AnyAgentArguments, WorkerArguments

PATIENCE = 120.0
"""Seconds a parent waits for a child before it goes on without it."""


@dataclass(slots=True, frozen=True)
class _Waited:
    """A typed child that its parent waits for."""

    child: Child
    wait: Wait
    notes: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class Supervisor:
    """All agents of a session but the first."""

    services: Services
    forks: ForkMode
    settings: ForkSettings
    recruiter: Recruiter
    """Makes the parts of typed children."""
    task_budget: Bounds
    """What every child may spend at most, of its parent's budget."""
    patience: float | None = PATIENCE
    """Seconds a parent waits for a child in the foreground; None waits for ever."""
    wake_once: bool = False
    """Whether a fan-out wakes its parent once, when all are done."""
    background: bool = True
    """Whether children may work while their parent goes on; if not, each is waited for."""
    _owed: set[str] = field(default_factory=set[str])
    """Calls whose answer was lost with the process, so that a notice has to bring it."""

    @property
    def roster(self) -> Roster:
        """All agents of the session by name."""
        return self.services.roster

    def for_agent(self, path: str) -> Delegation:
        """Make the way by which the tools of one agent start and reach others."""
        return _Delegation(self, path)

    def child(self, name: str) -> Child | None:
        """Find a child by its name or task id."""
        return self.roster.get(name)

    @property
    def children(self) -> list[Child]:
        """All children that are in memory, in the order in which they began."""
        return list(self.roster)

    @property
    def held(self) -> Container[str]:
        """The tasks whose notices wait for their siblings."""
        return Held(self.roster) if self.wake_once else ()

    async def delegate(
        self, path: str, calls: Sequence[tuple[CallId, AnyAgentArguments]]
    ) -> list[Outcome]:
        """Start what calls of the Agent tool in one reply ask for, and wait for the foreground."""
        parent = self.roster.agents[path]
        routes = [self._route(parent, args) for _, args in calls]
        fan = self._dispatch(parent, [args for _, args in calls], routes)
        begun = [
            self._start(parent, call_id, args, decided, fan)
            for (call_id, args), decided in zip(calls, routes, strict=True)
        ]
        outcomes: list[Outcome] = [Failed(INTERRUPTED)] * len(begun)

        async def settle(index: int, one: Outcome | _Waited) -> None:
            outcomes[index] = await self._attend(one) if isinstance(one, _Waited) else one

        async with anyio.create_task_group() as group:
            for index, one in enumerate(begun):
                group.start_soon(settle, index, one)
        return outcomes

    def _route(self, parent: Agent, args: AnyAgentArguments) -> Route:
        model = parent.prompt.head.model
        decided = route(args, self.forks, parent.lineage, self.recruiter.types, model=model)
        if isinstance(decided, Fork) and (why := barred(parent, args.isolation or "")):
            return Refused(why)
        return decided

    def _dispatch(
        self, parent: Agent, given: Sequence[AnyAgentArguments], routes: Sequence[Route]
    ) -> FanOut | str:
        """Plan the forks of a reply as one fan-out; gives why there may be none, if so."""
        directives = [a.prompt for a, to in zip(given, routes, strict=True) if isinstance(to, Fork)]
        if not directives:
            return ""
        fan, why = self._plan(parent, parent.prompt, directives, dispatched=True)
        return why or fan

    def _start(
        self,
        parent: Agent,
        call_id: CallId,
        args: AnyAgentArguments,
        decided: Route,
        fan: FanOut | str,
    ) -> Outcome | _Waited:
        if not isinstance(decided, Refused) and self.roster.has(args.name):
            return Failed(f"there is an agent {args.name!r} already; choose another name")
        match decided:
            case Refused(why):
                return Failed(why)
            case Typed(name):
                try:
                    return self._start_typed(parent, call_id, args, self.recruiter.types[name])
                except ProngError as error:
                    return Failed(f"the agent could not be started: {error}")
            case Fork():
                if isinstance(fan, str):
                    return Failed(fan)
                return self._start_fork(parent, call_id, args, fan)

    def _start_fork(
        self, parent: Agent, call_id: CallId, args: AnyAgentArguments, fan: FanOut
    ) -> Outcome:
        budget = self._budget(parent, args.name or call_id)
        if isinstance(budget, str):
            return Failed(f"no fork was started: {budget}")
        part = Part(args.description, args.prompt, isolated=bool(args.isolation))
        name = self.roster.free(args.name or call_id)
        self._fork(parent, fan, name, part, call_id=call_id, budget=budget)
        return done(fork.PLACEHOLDER)

    def _budget(self, parent: Agent, name: str) -> Budget | str:
        return parent.budget.child(f"agent {name}", self.task_budget)

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
        Raises UsageError if forks are off, or are to be `isolated` and may not.
        """
        if not self.forks.on:
            raise UsageError(f"forks are off: {self.forks.why_off}")
        if isolated and (why := barred(parent, "worktree")) is not None:
            raise UsageError(why)
        prompt = parent.prompt
        while unanswered(prompt):
            assert prompt.tip is not None
            prompt = Prompt(prompt.head, prompt.tip.parent)
        fan, _ = self._plan(parent, prompt, directives, notify=notify)
        number = len(self.roster)
        parts = [Part(_short(text), text, isolated=isolated) for text in directives]
        return [
            self._fork(parent, fan, self.roster.free(f"fork-{number + i}"), part, notify=notify)
            for i, part in enumerate(parts, 1)
        ]

    def _plan(
        self,
        parent: Agent,
        prompt: Prompt,
        directives: Sequence[str],
        *,
        notify: bool = True,
        dispatched: bool = False,
    ) -> tuple[FanOut, str]:
        """Plan a fan-out; also gives why the model may not have it, or nothing."""
        wakes = int(notify) * (1 if self.wake_once else len(directives))
        calls = unanswered(prompt) if dispatched else ()
        known = (self.settings, self.roster.prices)
        fan = plan_fan_out(parent, prompt, calls, directives, *known, wakes=wakes)
        why = advise(parent, fan, self.settings.break_even, asked=not dispatched)
        if dispatched and isinstance(parent.watch, CacheWatch):
            parent.watch.lead(fan)
        return fan, why or ""

    def _fork(
        self,
        parent: Agent,
        fan: FanOut,
        task_id: str,
        part: Part,
        *,
        call_id: str = "",
        notify: bool = True,
        budget: Budget | None = None,
    ) -> Child:
        spec = fork_spec(parent, fan, task_id, part, call_id=call_id, notify=notify, budget=budget)
        fan.join(task_id)
        if fan.first == task_id:
            keep_estimate(parent, fan)
        budget = budget or Budget(parent=parent.budget, name=f"agent {task_id}")
        start, agents = fork_start(parent, spec, fan), self.for_agent(spec.path)
        child = make_fork(parent, spec, start, budget, self.services, agents)
        child.agent.recorder.keep(spec.path, start.prompt)
        child.agent.recorder.note(spec.path, ReceiptOpened(child.account.receipt))
        child.agent.recorder.note(spec.path, spec)
        self._begin(child)
        return child

    def _start_typed(
        self, parent: Agent, call_id: CallId, args: AnyAgentArguments, kind: AgentType
    ) -> Outcome | _Waited:
        """Start a typed child.

        Raises ProngError if its model cannot be used.
        """
        isolation = args.isolation or kind.isolation
        why = self._forbidden(parent, kind) or barred(parent, isolation)
        if why is not None:
            return Failed(why)
        files = self._files(parent, args)
        if isinstance(files, BadSet):
            return Failed(files.why)
        background = self.background and (args.background or kind.background)
        made = self.recruiter.make(parent, kind, model=args.model, background=background)
        task_id = self.roster.free(args.name or call_id)
        budget = self._budget(parent, task_id)
        if isinstance(budget, str):
            return Failed(f"no agent was started: {budget}")
        spec = typed_spec(parent, kind, task_id, args, made, call_id=call_id, budget=budget)
        spec = msgspec.structs.replace(
            spec, notify=background, files=files.patterns if files is not None else None
        )
        start, agents = typed_start(spec, made), self.for_agent(spec.path)
        child = make_typed(parent, spec, start, budget, self.services, agents, kind, made)
        child.agent.recorder.keep(spec.path, start.prompt)
        child.agent.recorder.note(spec.path, spec)
        if background:
            return started(child, self._begin(child), made.warnings)
        wait = child.hold_up()
        self._begin(child)
        return _Waited(child, wait, made.warnings)

    def _files(self, parent: Agent, args: AnyAgentArguments) -> FileSet | BadSet | None:
        claims = self.services.claims
        if claims is None or not isinstance(args, WorkerArguments) or args.files is None:
            return None
        if args.isolation:
            return BadSet("a worktree is a copy of all files; leave out either it or `files`")
        root = parent.policy.policy.root
        return read_set(args.files, root=root, resolve=parent.context.host.resolve)

    def _forbidden(self, parent: Agent, kind: AgentType) -> str | None:
        """Say why an agent may not start agents of a type; None if it may."""
        own = self.roster.at(parent.path)
        spawns = own.spec.spawns if own is not None else None
        if spawns is not None and kind.name not in spawns:
            return (
                f"agents of type {kind.name!r} are not permitted here: your own type may start "
                f"only {', '.join(spawns) or 'none'}"
            )
        return None

    def _begin(self, child: Child) -> TaskHandle:
        """Launch a new child."""
        spec = child.spec
        self.roster.add(child)
        try:
            return self._launch(child)
        except BaseException:
            # Nobody will ever end it, so nobody may wait for it.
            self.roster.remove(child)
            if self.services.claims is not None:
                self.services.claims.leave(spec.task_id)
            child.account.leave()
            child.agent.budget.close()
            gone = ChildEnded(1, "failed", "it could not be started")
            child.agent.recorder.note(spec.path, gone)
            raise

    def _launch(self, child: Child, *, resumed: bool = False) -> TaskHandle:
        """Run a child's course as a task."""
        spec, agent, services = child.spec, child.agent, self.services
        services.board.delivery.subscribe(spec.path, agent.inbox)
        if services.claims is not None and spec.kind == "typed" and not spec.isolation:
            child.wait_for(tuple(services.claims.enter(spec.task_id, declared(spec))))
        announce(child, resumed=resumed)
        return services.board.start(
            ChildTask(child, services),
            title=spec.description,
            task_id=spec.task_id,
            notice=child.notice_id,
            agent=spec.parent,
            emit=child.voice.emit,
            notify=spec.notify,
        )

    async def _attend(self, waited: _Waited) -> Outcome:
        """Wait for a child; whoever interrupts the parent stops it, with all that it started."""
        child, wait, board = waited.child, waited.wait, self.services.board
        begun, task_id = anyio.current_time(), child.spec.task_id
        try:
            await wait.wait_over(self.patience)
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await board.stop(task_id)
            raise
        if wait.why and child.status == "running" and board.runs(task_id):
            child.notify()
            handle = board.promote(task_id)
            assert handle is not None
            return moved(child, handle, wait.why)
        await board.wait_ended(task_id)
        child.let_go()
        return finished(child, anyio.current_time() - begun, waited.notes)

    async def wait(self, children: Sequence[Child]) -> list[ForkResult]:
        """Wait until children have ended; gives what each of them gave back."""
        for child in children:
            await self.services.board.wait_ended(child.spec.task_id)
        return [self.result(child) for child in children]

    def result(self, child: Child) -> ForkResult:
        """Put together what a child gave back."""
        return result_of(child, self.roster.receipt(child))

    def to_background(self, task_id: str | None = None) -> list[str]:
        """Send a child that is waited for to the background, or all; gives their task ids."""
        if not self.background:
            return []
        waits = [(child.spec.task_id, child.wait) for child in self.roster]
        chosen = [(name, wait) for name, wait in waits if wait and task_id in {None, name}]
        for _, wait in chosen:
            wait.give_up()
        return [name for name, _ in chosen]

    async def send(self, sender: str, to: str, text: str) -> Outcome:
        """Send a message to a child, which goes on from where it is."""
        child = self.roster.get(to) or self._unarchived(sender, to)
        if child is None or not child.spec.path.startswith(f"{sender}/"):
            known = [one.spec.task_id for one in self.roster if one.spec.parent == sender]
            return Failed(
                f"there is no agent {to!r} of yours; yours are: {', '.join(known) or '-'}"
            )
        child.tell(text)
        if self.services.board.runs(child.spec.task_id):
            return done(f"{to} is working and will read the message before its next step.")
        child.run_again(notify=self.background)
        if not self.background:
            wait = child.hold_up()
            self._launch(child)
            return await self._attend(_Waited(child, wait, ()))
        self._launch(child)
        notes = ("", *held_back(child))
        return done(f"{to} goes on with your message and will report again.{' '.join(notes)}")

    def _unarchived(self, sender: str, name: str) -> Child | None:
        """Read a child that ended a while ago from the journal again."""
        spec = self.roster.archived(name)
        if spec is None or not spec.path.startswith(f"{sender}/"):
            return None
        child = self._taken_up(spec, read_journal(self.services.journal))
        if child is not None:
            self.roster.add(child)
        return child

    def _taken_up(self, spec: ChildSpec, replay: Replay) -> Child | None:
        """Make a child of what the journal has of it; None, and a warning, if that cannot be."""
        agents = self.roster.agents
        parent = agents.get(spec.parent) or agents[spec.parent.partition("/")[0]]
        try:
            return take_up(self._remade(parent, spec, replay), replay)
        except ProngError as error:
            warned = Warned(text=f"the agent {spec.task_id} cannot be taken up again: {error}")
            self.services.emit(parent.path, warned)
            return None

    def _remade(self, parent: Agent, spec: ChildSpec, replay: Replay) -> Child:
        """Make a child again.

        Raises ProngError if its type or its model is not there any more.
        """
        start, budget = stored_start(spec, replay), spent_budget(parent, spec, replay)
        agents = self.for_agent(spec.path)
        if spec.kind == "fork":
            return make_fork(parent, spec, start, budget, self.services, agents)
        kind = self.recruiter.types.get(spec.type)
        if kind is None:
            raise UsageError(f"there is no agent type {spec.type!r} any more")
        model, background = spec.model or None, spec.notify
        made = self.recruiter.make(parent, kind, model=model, background=background)
        return make_typed(parent, spec, start, budget, self.services, agents, kind, made)

    def resume(self, replay: Replay, *, run: bool = True) -> TakenUp:
        """Take up the children of a resumed session.

        Without `run` those that were running count as stopped: they go on in another session.
        """
        taken, board = TakenUp(), self.services.board
        outbox = board.delivery.outbox
        outbox.ack(told(replay, outbox.unsettled))
        for spec in specs(replay):
            child = self._taken_up(spec, replay)
            if child is None:
                continue
            self.roster.add(child)
            if child.status != "running":
                if make_up(child, replay, board.delivery, owed=spec.call_id in self._owed) and run:
                    taken.lost.append(spec.task_id)
            elif run:
                if spec.kind == "typed":
                    child.notify()
                self._launch(child, resumed=True)
                taken.running.add(spec.task_id)
            else:
                child.end("killed", "it goes on in the session it began in")
                announce(child, resumed=False)
                end(child, self.services)
                lost = Expected(child.notice_id, spec.parent, spec.task_id, "")
                board.delivery.send(lost, ending_of(child))
        return taken

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


@dataclass(slots=True, frozen=True)
class _Delegation:
    """The supervisor as one agent's tools see it."""

    supervisor: Supervisor
    path: str

    async def delegate(self, calls: Sequence[tuple[CallId, AnyAgentArguments]]) -> list[Outcome]:
        """Start agents."""
        return await self.supervisor.delegate(self.path, calls)

    async def send(self, to: str, message: str) -> Outcome:
        """Send a message to a child."""
        return await self.supervisor.send(self.path, to, message)


def _short(text: str, limit: int = 60) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
