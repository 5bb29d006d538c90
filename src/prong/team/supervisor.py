"""Starts agents and finds them again: the only place that starts concurrent work.

Every child runs on the same road: an `Agent` of its own, the same course, a task on the board in
the session's task group, a notice at its end. The calls of a fan-out come together: each is routed
once, one plan is made, and then they start.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from types import MappingProxyType

import anyio
import msgspec

from prong.agent import Agent, CacheWatch
from prong.agent.answer import INTERRUPTED, unanswered
from prong.cost.budget import Bounds, Budget
from prong.entry import CallId, Results
from prong.errors import ProngError, UnknownName
from prong.event import Warned
from prong.host.slug import slug_from
from prong.host.target import read_isolation
from prong.ids import AgentPath, TaskId, is_below, root_of
from prong.journal.note import ChildNotes, ChildSpec, MemberSpec
from prong.journal.replay import Replay, read_journal
from prong.prompt import Prompt
from prong.team import fork
from prong.team.announce import announce
from prong.team.child import Child
from prong.team.course import Services, begin, end, launch
from prong.team.fanout import FanOut, ForkSettings, advise, plan_fan_out
from prong.team.fileset import BadSet, FileSet, read_set
from prong.team.make import (
    PlannedFork,
    fork_spec,
    fork_start,
    make_fork,
    make_typed,
    typed_spec,
    typed_start,
)
from prong.team.outbox import Expected
from prong.team.registry import Held, Registry
from prong.team.remote_workers import aimed
from prong.team.result import ChildResult, ending_of, finished, held_back, moved, result_of, started
from prong.team.resume import (
    TakenUp,
    answer_begun,
    make_up,
    specs,
    spent_budget,
    stored_start,
    take_up,
)
from prong.team.route import ForkMode, ForkRoute, NoRoute, Route, TypedRoute, route
from prong.team.standing import told
from prong.team.typed import TypeResolver
from prong.team.workspace import barred
from prong.tools.delegate import AnyAgentArguments, WaitedAgentArguments, WorkerArguments
from prong.tools.tool import CallOutcome, Delegation, Failed, done

PATIENCE = 120.0
"""Seconds a parent waits for a child before it goes on without it."""

_DISPATCHED = done(fork.PLACEHOLDER)
"""The result of every call that a fork came of."""


_WAITS = ForkMode(on=False, why_off="a member of a team waits for its agents")


class TeamSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What is set about the children of a session."""

    forks: ForkMode
    fork: ForkSettings
    task_budget: Bounds
    """What every child may spend at most, of its parent's budget."""
    patience: float | None = PATIENCE
    """Seconds a parent waits for a child in the foreground; None waits for ever."""
    wake_once: bool = False
    """Whether a fan-out wakes its parent once, when all are done."""
    background: bool = True
    """Whether children may work while their parent goes on; if not, each is waited for."""


class WaitedChild(msgspec.Struct, frozen=True):
    """A typed child that its parent waits for."""

    child: Child
    notes: tuple[str, ...] = ()


class Supervisor(msgspec.Struct, kw_only=True):
    """All agents of a session but the first."""

    services: Services
    settings: TeamSettings
    resolver: TypeResolver
    """Finds what typed children are made of."""
    _owed: set[str] = msgspec.field(default_factory=set[str])
    """Calls whose answer was lost with the process, so that a notice has to bring it."""
    _told: set[tuple[str, str]] = msgspec.field(default_factory=set[tuple[str, str]])
    """What the user was told of types that could not be honoured in full."""

    @property
    def registry(self) -> Registry:
        """All agents of the session by name."""
        return self.services.registry

    def for_agent(self, path: AgentPath) -> Delegation:
        """Make the way by which the tools of one agent start and reach others."""
        return _OwnDelegation(self, path)

    def child(self, name: str) -> Child | None:
        """Find a child by its name or task id."""
        return self.registry.get(name)

    @property
    def children(self) -> list[Child]:
        """All children that are in memory, in the order in which they began."""
        return list(self.registry)

    @property
    def held(self) -> Container[str]:
        """The tasks whose notices wait for their siblings."""
        return Held(self.registry) if self.settings.wake_once else ()

    async def delegate(
        self,
        path: AgentPath,
        calls: Sequence[tuple[CallId, AnyAgentArguments]],
        members: Mapping[CallId, MemberSpec] = MappingProxyType({}),
    ) -> list[CallOutcome]:
        """Start what calls in one reply ask for, and wait for the foreground.

        Those of TeamSpawn start `members` of a team.
        """
        parent = self.registry.agents[path]
        routes = [self.route(parent, args) for _, args in calls]
        fan = self._dispatch(parent, [args for _, args in calls], routes)
        begun = [
            self.start(parent, call_id, args, decided, fan, members.get(call_id))
            for (call_id, args), decided in zip(calls, routes, strict=True)
        ]
        waited = {index: one for index, one in enumerate(begun) if isinstance(one, WaitedChild)}
        outcomes: list[CallOutcome] = [
            Failed(INTERRUPTED) if isinstance(one, WaitedChild) else one for one in begun
        ]

        async def attend(index: int, one: WaitedChild) -> None:
            outcomes[index] = await self._attend(one)

        async with anyio.create_task_group() as group:
            for index, one in waited.items():
                group.start_soon(attend, index, one)
        return outcomes

    def route(self, parent: Agent, args: AnyAgentArguments) -> Route:
        """Say what a call of the Agent tool means for this agent."""
        model = parent.conversation.prompt.head.model
        forks = self.settings.forks if not parent.lineage.member else _WAITS
        decided = route(args, forks, parent.lineage, self.resolver.types, model=model)
        remote = self.services.remote
        if isinstance(decided, ForkRoute) and (why := barred(parent, args.isolation or "", remote)):
            return NoRoute(why)
        return decided

    def _dispatch(
        self, parent: Agent, given: Sequence[AnyAgentArguments], routes: Sequence[Route]
    ) -> FanOut | str:
        """Plan the forks of a reply as one fan-out; gives why there may be none, if so."""
        directives = [
            a.prompt for a, to in zip(given, routes, strict=True) if isinstance(to, ForkRoute)
        ]
        if not directives:
            return ""
        fan, why = self.plan(parent, parent.conversation.prompt, directives, dispatched=True)
        return why or fan

    def start(
        self,
        parent: Agent,
        call_id: CallId,
        args: AnyAgentArguments,
        decided: Route,
        fan: FanOut | str,
        member: MemberSpec | None,
    ) -> CallOutcome | WaitedChild:
        """Start the agent that a call asks for, by its route and the plan of its fan-out."""
        if isinstance(decided, NoRoute):
            return Failed(decided.why)
        if args.name and not self.registry.is_free(args.name):
            return Failed(f"{args.name!r} is taken already; choose another name")
        kind = slug_from(decided.type.lower()) if isinstance(decided, TypedRoute) else "fork"
        name = TaskId(args.name) if args.name else self.registry.numbered(kind)
        try:
            if isinstance(decided, TypedRoute):
                return self._start_typed(parent, call_id, name, args, decided.type, member)
            return self._start_fork(parent, call_id, name, args, fan, member)
        except ProngError as error:
            # Siblings that have started go on, so that their calls are answered.
            return Failed(f"the agent could not be started: {error}")

    def _start_fork(
        self,
        parent: Agent,
        call_id: CallId,
        task_id: TaskId,
        args: AnyAgentArguments,
        fan: FanOut | str,
        member: MemberSpec | None,
    ) -> CallOutcome:
        remote = self.services.remote
        why = barred(parent, args.isolation or "", remote, member=member is not None)
        if isinstance(fan, str) or why:
            return Failed(why or str(fan))
        budget = self._budget(parent, task_id)
        if isinstance(budget, str):
            return Failed(f"no fork was started: {budget}")
        part = PlannedFork(
            args.description,
            args.prompt,
            isolation=read_isolation(args.isolation or ""),
            counted=not args.name,
        )
        self.begin_fork(parent, fan, task_id, part, call_id=call_id, budget=budget, member=member)
        return _DISPATCHED

    def _budget(self, parent: Agent, name: str) -> Budget | str:
        return parent.client.billing.budget.child(f"agent {name}", self.settings.task_budget)

    def plan(
        self,
        parent: Agent,
        prompt: Prompt,
        directives: Sequence[str],
        *,
        notify: bool = True,
        dispatched: bool = False,
    ) -> tuple[FanOut, str]:
        """Plan a fan-out; also gives why the model may not have it, or nothing."""
        wakes = int(notify) * (1 if self.settings.wake_once else len(directives))
        calls = unanswered(prompt) if dispatched else ()
        known = (self.settings.fork, self.registry.prices)
        fan = plan_fan_out(parent, prompt, calls, directives, *known, wakes=wakes)
        why = advise(parent, fan, self.settings.fork.break_even, asked=not dispatched)
        if dispatched and isinstance(parent.client.observer, CacheWatch):
            parent.client.observer.follow(fan)
        return fan, why or ""

    def begin_fork(
        self,
        parent: Agent,
        fan: FanOut,
        task_id: TaskId,
        part: PlannedFork,
        *,
        call_id: str = "",
        notify: bool = True,
        budget: Budget | None = None,
        member: MemberSpec | None = None,
    ) -> Child:
        """Make a fork of a fan-out, and start it; raises ProngError, OSError."""
        spec = fork_spec(parent, fan, task_id, part, call_id=call_id, notify=notify, budget=budget)
        spec = aimed(msgspec.structs.replace(spec, member=member), self.services.remote)
        budget = budget or Budget(parent=parent.client.billing.budget, name=f"agent {task_id}")
        start, agents = fork_start(spec, fan), self.for_agent(spec.path)
        child = make_fork(parent, spec, start, budget, self.services, agents)
        begin(child, self.services)
        return child

    def _start_typed(
        self,
        parent: Agent,
        call_id: CallId,
        task_id: TaskId,
        args: AnyAgentArguments,
        name: str,
        member: MemberSpec | None,
    ) -> CallOutcome | WaitedChild:
        """Start a typed child.

        Raises ProngError if its model cannot be used.
        """
        kind = self.resolver.types[name]
        isolation = args.isolation or kind.isolation
        why = self._forbidden(parent, name)
        remote = self.services.remote
        why = why or barred(parent, isolation, remote, member=member is not None)
        if why is not None:
            return Failed(why)
        files = self._files(parent, args)
        if isinstance(files, BadSet):
            return Failed(files.why)
        waits = isinstance(args, WaitedAgentArguments) or not self.settings.background
        waits = waits or bool(parent.lineage.member)
        asked = args.background or kind.background or read_isolation(isolation).kind == "remote"
        background = not waits and asked
        made = self.resolver.resolve(
            parent, kind, model=args.model, background=background, member=member
        )
        budget = self._budget(parent, task_id)
        if isinstance(budget, str):
            return Failed(f"no agent was started: {budget}")
        spec = typed_spec(
            parent,
            task_id,
            args,
            made,
            call_id=call_id,
            budget=budget,
            notify=background,
            files=files,
        )
        spec = aimed(msgspec.structs.replace(spec, member=member), self.services.remote)
        start, agents = typed_start(parent, spec, made), self.for_agent(spec.path)
        child = make_typed(parent, spec, start, budget, self.services, agents, made)
        launched = begin(child, self.services)
        self._say_once(parent, child, made.warnings)
        if not background:
            return WaitedChild(child, made.warnings)
        return started(child, launched.handle, (*held_back(launched.behind), *made.warnings))

    def _say_once(self, parent: Agent, child: Child, notes: Sequence[str]) -> None:
        """Tell the user what of a type could not be honoured, the first time it is started so."""
        for note in notes:
            if (child.kind, note) not in self._told:
                self._told.add((child.kind, note))
                parent.emit(Warned(text=f"the agent {child.spec.task_id}: {note.strip('[]')}"))

    def _files(self, parent: Agent, args: AnyAgentArguments) -> FileSet | BadSet | None:
        claims = self.services.claims
        if claims is None or not isinstance(args, WorkerArguments) or args.files is None:
            return None
        if args.isolation:
            return BadSet("a worktree is a copy of all files; leave out either it or `files`")
        root = parent.policy.policy.root
        return read_set(args.files, root=root, resolve=parent.context.host.resolve)

    def _forbidden(self, parent: Agent, kind: str) -> str | None:
        """Say why an agent may not start agents of a type; None if it may."""
        own = self.registry.at(parent.path)
        spawns = own.spec.spawns if own is not None else None
        if spawns is not None and kind not in spawns:
            return (
                f"agents of type {kind!r} are not permitted here: your own type may start "
                f"only {', '.join(spawns) or 'none'}"
            )
        return None

    async def _attend(self, waited: WaitedChild) -> CallOutcome:
        """Wait for a child; whoever interrupts the parent stops it, with all that it started."""
        child, board = waited.child, self.services.board
        begun, task_id, parent = anyio.current_time(), child.spec.task_id, child.spec.parent
        member = self.registry.agents[parent].lineage.member
        patience = None if member else self.settings.patience
        try:
            why = await board.wait_foreground(task_id, parent, patience)
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await board.stop(task_id)
            raise
        if why and child.status == "running" and board.runs(task_id):
            child.notify()
            handle = board.promote(task_id)
            assert handle is not None
            return moved(child, handle, why)
        await board.wait_ended(task_id)
        return finished(child, anyio.current_time() - begun, waited.notes)

    def result(self, child: Child) -> ChildResult:
        """Put together what a child gave back."""
        return result_of(child, self.registry.receipt(child))

    def to_background(self, name: str | None = None) -> list[TaskId]:
        """Send what is waited for to the background, as the board does; gives the task ids."""
        return self.services.board.to_background(name) if self.settings.background else []

    async def send(self, sender: AgentPath, to: str, text: str) -> CallOutcome:
        """Send a message to a child, which goes on from where it is."""
        child = self.registry.get(to) or self.unarchived(sender, to)
        if child is None or not is_below(child.spec.path, sender):
            return Failed(f"there is no agent {to!r} of yours; {self.registry.tell_of(sender)}")
        child.tell(text)
        if self.services.board.runs(child.spec.task_id):
            return done(f"{to} is working and will read the message before its next step.")
        child.run_again(notify=self.settings.background)
        launched = launch(child, self.services)
        if not self.settings.background:
            return await self._attend(WaitedChild(child))
        notes = ("", *held_back(launched.behind))
        return done(f"{to} goes on with your message and will report again.{' '.join(notes)}")

    def unarchived(self, sender: AgentPath, name: str) -> Child | None:
        """Read a child that ended a while ago from the journal again."""
        spec = self.registry.archived(name)
        if spec is None or not is_below(spec.path, sender):
            return None
        child = self._taken_up(spec, read_journal(self.services.journal))
        if child is not None:
            self.registry.add(child)
        return child

    def _taken_up(self, spec: ChildSpec, replay: Replay) -> Child | None:
        """Make a child of what the journal has of it; None, and a warning, if that cannot be."""
        agents = self.registry.agents
        parent = agents.get(spec.parent) or agents[root_of(spec.parent)]
        try:
            noted = replay.noted_child(spec.path)
            return take_up(self._remade(parent, spec, noted, replay), noted.unread)
        except ProngError as error:
            warned = Warned(text=f"the agent {spec.task_id} cannot be taken up again: {error}")
            self.services.emit(parent.path, warned)
            return None

    def _remade(self, parent: Agent, spec: ChildSpec, noted: ChildNotes, replay: Replay) -> Child:
        """Make a child again.

        Raises ProngError if its type or its model is not there any more.
        """
        budget, agents = spent_budget(parent, spec, replay), self.for_agent(spec.path)
        start = stored_start(spec, noted, replay, ttl=parent.client.settings.ttl)
        if spec.kind == "fork":
            return make_fork(parent, spec, start, budget, self.services, agents)
        kind = self.resolver.types.get(spec.type)
        if kind is None:
            raise UnknownName(f"there is no agent type {spec.type!r} any more")
        model, background = spec.model or None, spec.notify
        made = self.resolver.resolve(
            parent, kind, model=model, background=background, member=spec.member
        )
        return make_typed(parent, spec, start, budget, self.services, agents, made)

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
            self.registry.add(child)
            if child.status != "running":
                board.ids.know_as(spec.call_id, spec.task_id)
                if make_up(child, replay, board.delivery, owed=spec.call_id in self._owed) and run:
                    taken.lost.append(spec.task_id)
            elif run:
                if spec.kind == "typed":
                    child.notify()
                launch(child, self.services, resumed=True)
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
        results = answer_begun(replay, prompt)
        self._owed = {one.call_id for one in results.results} if results is not None else set()
        return results


class _OwnDelegation(msgspec.Struct, frozen=True):
    """The supervisor as one agent's tools see it."""

    supervisor: Supervisor
    path: AgentPath

    async def delegate(
        self, calls: Sequence[tuple[CallId, AnyAgentArguments]]
    ) -> list[CallOutcome]:
        """Start agents."""
        return await self.supervisor.delegate(self.path, calls)

    async def send(self, to: str, message: str) -> CallOutcome:
        """Send a message to a child."""
        return await self.supervisor.send(self.path, to, message)
