"""The composition root: the only place where everything meets."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import anyio
import anyio.abc
from msgspec.structs import replace

from prong.agent import Agent, Life, OpenQuestions, Respond, Turn
from prong.agent.lineage import COORDINATOR, told_by
from prong.agent.speaker import speaking
from prong.config.firing import UserHooks
from prong.config.guard import Guard
from prong.config.local_rule import local_rules
from prong.config.memory import note_file
from prong.config.model import choose
from prong.config.option import OptionKeywords, Options, with_keywords
from prong.config.place import Place, look_around, make_policy
from prong.config.sampling import kept, sampling
from prong.config.sandboxing import must_hold, sandboxing
from prong.config.secrecy import must_withhold, secrets, withheld
from prong.errors import JournalError, ProngError
from prong.event import (
    MAIN,
    AgentRested,
    AgentStarted,
    Event,
    PermissionAsked,
    QuestionAsked,
    SessionStarted,
    Warned,
)
from prong.host import Host, LocalHost
from prong.journal import store
from prong.journal.eventlog import NAME as EVENTS
from prong.journal.eventlog import EventLog
from prong.journal.note import MainNotes, NotesAsked
from prong.provider import Providers
from prong.question import Answer
from prong.session.beginning import begin
from prong.session.bus import Bus
from prong.session.coordination import make_pulls, worker_tools
from prong.session.crew import Crew, make_crew
from prong.session.end import finish, remember_last, stop_turns
from prong.session.entrance import enter
from prong.session.extraction import Memory
from prong.session.foundation import Foundation
from prong.session.hook_event import make_hooks
from prong.session.housekeeping import Housekeeping
from prong.session.intake import Intake
from prong.session.lifetime import Opening
from prong.session.main import first_prompt, make_agent, make_planner
from prong.session.move import fall_back, switch
from prong.session.notification import attend
from prong.session.own_worktree import OwnWorktree, start_worktree
from prong.session.parts import Parts
from prong.session.preference import (
    exports,
    fork_settings,
    make_prices,
    make_providers,
    patience,
    remote_workers,
    runner,
    server_wait,
    structured_output,
    wakes_once,
)
from prong.session.prompt_tool import answer_by_tool, check_prompt_tool
from prong.session.provider_search import web_tools
from prong.session.teaming import make_leader, make_teams, may_lead, membership_of
from prong.session.toolbox import TeamRole
from prong.team.claim import Claims
from prong.team.course import Services
from prong.team.delivery import Delivery
from prong.team.injection import Classifier
from prong.team.member_record import Teams
from prong.team.outbox import Outbox
from prong.team.registry import Registry
from prong.team.remote_workers import RemoteWorkers
from prong.team.supervisor import Supervisor, TeamSettings
from prong.team.task import TaskBoard
from prong.team.typed import TypeResolver
from prong.team.workspace import read_settings
from prong.tools.policy import Policy
from prong.tools.policy_box import PolicyBox

if TYPE_CHECKING:
    # Loaded only where there are servers.
    from prong.session.mcp_servers import McpServers


def open_session(
    options: Options | None = None,
    *,
    respond: Respond | None = None,
    attended: bool = False,
    clock: Callable[[], float] = time.time,
    host: Host | None = None,
    **given: Unpack[OptionKeywords],
) -> Opening:
    """Open a session, with `async with` or `await`; everything it started ends with it.

    A block closes it at its end; what `await` gives is closed by `session.close()`, in whatever
    task, or with the event loop. Options are given as a value, by name, or both. `respond` answers
    permission requests and questions; `attended` says that a reader of the events will send
    answers. With neither, whatever would need an answer is refused, and the model is told why. By
    the `clock`, seconds since the epoch, is judged what the provider's cache still holds. What
    agents read, write and run is on the `host`, this machine unless another is given; then its root
    is the working folder.

    Raises when it is entered or awaited:
        UsageError: an option makes no sense, or commands of the host would see a key.
        ProngError: the session cannot be opened, and why.

    """
    options = with_keywords(options or Options(), given)
    return Opening(_live(options, respond, clock, host, attended=attended))


@asynccontextmanager
async def _live(
    options: Options,
    respond: Respond | None,
    clock: Callable[[], float],
    host: Host | None,
    *,
    attended: bool,
) -> AsyncGenerator[Parts, None]:
    """Put a session together, and take it apart when it is left, in one and the same task."""
    options, own = await start_worktree(options, host)
    place = look_around(options, cwd=host.root if host is not None else None)
    prompt_tool = options.permission_prompt_tool

    async def by_tool(_: str, asked: PermissionAsked | QuestionAsked) -> Answer | None:
        assert prompt_tool is not None
        return await answer_by_tool(maker.parts, prompt_tool, asked)

    if prompt_tool is not None and respond is None and not attended:
        respond = by_tool
    failure: BaseException | None = None
    async with anyio.create_task_group() as group, make_providers(place) as providers:
        rules = local_rules(place) if host is None else None
        questions = OpenQuestions(respond, attended=attended, rules=rules)
        maker = _Maker(place, providers, group, questions, clock, host, own)
        try:
            parts = await maker.make()
            group.start_soon(_drive, parts)
            await attend(group, parts)
            yield parts
            await remember_last(parts)
        except anyio.get_cancelled_exc_class():
            raise
        except BaseException as error:  # noqa: BLE001 - given back below, bare of its group
            failure = error
        finally:
            with anyio.CancelScope(shield=True):
                closing = await maker.close()
                failure = failure or closing
            group.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def _drive(parts: Parts) -> None:
    """Run the turns of the main agent until the session is closed."""
    teams = parts.supervisor.services.teams
    member = teams.at_work(MAIN) if teams is not None else None

    async def until(turn: Turn) -> bool:
        # Notices must survive what the turn was told of.
        try:
            await parts.tasks.delivery.outbox.sync()
        except JournalError as error:
            parts.agent.emit(Warned(text=str(error)))
        return member is not None and await member.is_leaving(turn)

    with speaking(MAIN):
        # A member that slept sleeps on; everybody else waits for the user anyway.
        slept = parts.life.rested() if member is not None else None
        await parts.life.live(until=until, after=slept)
    if member is not None and not parts.life.stopped:
        parts.agent.emit(AgentRested(waits="end"))


class _Maker:
    """Builds a session part by part, and takes it apart again in the other order."""

    def __init__(
        self,
        place: Place,
        providers: Providers,
        group: anyio.abc.TaskGroup,
        questions: OpenQuestions,
        clock: Callable[[], float],
        host: Host | None,
        own: OwnWorktree | None,
    ) -> None:
        self._clock = clock
        self._own = own
        self._host = host
        self._place = place
        self._providers = providers
        self._group = group
        self._questions = questions
        self._secrets = secrets(place)
        self._parts: Parts | None = None
        self._closers: list[Callable[[], Any]] = []
        self._created: Path | None = None
        """The journal this start has made; it goes again if the start fails."""
        self._passing: Path | None = None
        """The journal of a session that is not to be kept."""

    @property
    def parts(self) -> Parts:
        """What was put together."""
        assert self._parts is not None, "nothing is asked before the session is there"
        return self._parts

    async def make(self) -> Parts:
        """Put everything together."""
        base = self._lay()
        tools, member = worker_tools(base), membership_of(base)
        role: TeamRole = "member" if member is not None else "leader" if may_lead(base) else ""
        planner = make_planner(base, words="plan" if tools is None else "plan_coordinator")
        pulls = make_pulls(base)
        registry = Registry(board=base.board, prices=make_prices(base.place))
        servers, web = await self._servers(base), web_tools(base, registry.agents)
        crew = make_crew(base, servers, planner, pulls, tools, role=role, web=web)
        base = replace(base, place=crew.place)
        check_prompt_tool(base.place.options.permission_prompt_tool, crew.pool)
        hooks = make_hooks(base, registry.agents, servers, self._group)
        prompt = first_prompt(base, crew.kit)
        crew = crew.fitted(prompt.head)
        teams = make_teams(base, self._group) if role else None
        services = self._services(base, crew, registry, teams)
        supervisor = self._supervisor(base, crew, services, hooks)
        leader = None
        if teams is not None and role == "leader":
            leader = make_leader(base, supervisor, teams, self._group)
            self._closers.append(leader.detached.close)
        agent = registry.agents[MAIN] = make_agent(
            base,
            supervisor.for_agent(MAIN),
            team=leader or (teams.port(MAIN) if teams is not None else None),
            prices=registry.prices,
            lineage=COORDINATOR if crew.coordinates else told_by(prompt),
            prompt=prompt,
            kit=crew.kit,
            hooks=Guard(
                hooks=hooks,
                cwd=base.place.cwd,
                instructions=base.place.instructions,
                structured=base.structured,
            ),
        )
        parts = self._parts = Parts(
            agent=agent,
            bus=base.bus,
            housekeeping=Housekeeping(base),
            hooks=hooks,
            life=Life(
                agent,
                settled=base.noted.settled,
                fallback=partial(fall_back, base.place, self._providers, agent),
            ),
            intake=Intake(agent, planner),
            journal=base.journal,
            leader=leader,
            memory=self._memory(base, agent),
            place=base.place,
            planner=planner,
            servers=servers,
            supervisor=supervisor,
            switch=partial(switch, base.place, self._providers, agent),
        )
        self._closers.append(partial(stop_turns, parts))
        base.bus.open(MAIN, *_started(base, agent))
        await begin(parts, base, self._group)
        if servers is not None:
            from prong.session.tool_renewal import follow_servers

            self._group.start_soon(follow_servers, parts, crew, servers)
        if member is not None and teams is not None:
            from prong.session.member_session import join_team

            teammate = await join_team(parts, base, teams, member, self._group)
            if teammate is not None:
                self._closers.append(teammate.leave)
        if base.noted.pulls and not base.place.options.fork_session:
            pulls.restore(base.noted.pulls)
        self._created = None
        return parts

    def _memory(self, base: Foundation, agent: Agent) -> Memory:
        place, past = base.place, base.replay
        return Memory(
            agent,
            note_file(place.root, place.store),
            self._group,
            base.bus,
            on=place.remembers,
            asked=past.last(MAIN, NotesAsked) if past is not None else None,
        )

    def _lay(self) -> Foundation:
        """Make what has to be there before the first agent."""
        place = self._place
        entered = enter(place)
        journal, replay, self._created = entered.journal, entered.replay, entered.made
        self._passing = None if place.options.persist else entered.made
        if replay is not None and MAIN in replay.agents:
            place = replace(place, options=kept(place.options, replay.agents[MAIN].head.spec))
        self._closers.append(journal.close)
        log = EventLog(journal.path.with_suffix("") / EVENTS)
        bus = Bus(log, self._clock, self._secrets)
        emit = partial(bus.emit, MAIN)
        noted = replay.noted(MAIN) if replay is not None else MainNotes()
        chosen = choose(place, place.options.model, noted.model)
        if place.options.fallback_model is not None:
            choose(place, place.options.fallback_model)
        # Before anything is stored: a resumed session may be asked to go on with another model.
        sampling(place, chosen.endpoint.dialect)
        if exports(place):
            from prong.session.telemetry_reader import TelemetryReader

            reader = TelemetryReader(place, chosen, bus, emit)
            self._group.start_soon(reader.run)
            self._closers.append(reader.close)
        self._closers.append(self._finish)
        if self._own is not None:
            self._closers.append(partial(self._own.leave, emit))
        storage, keys = journal.path.with_suffix("").as_posix(), withheld(place)
        host = self._host or LocalHost(
            place.cwd,
            place.home,
            withhold=keys,
            storage=storage,
            warn=lambda text: emit(Warned(text=text)),
        )
        self._closers.append(host.close)
        must_withhold(host, keys)
        return Foundation(
            place=place,
            providers=self._providers,
            questions=self._questions,
            clock=self._clock,
            bus=bus,
            emit=emit,
            journal=journal,
            replay=replay,
            noted=noted,
            host=host,
            chosen=chosen,
            policy=PolicyBox(_policy(place, host, storage)),
            structured=structured_output(place.options),
            secrets=self._secrets,
            remote=self._remote(place, storage),
            board=self._board(storage, emit),
        )

    def _remote(self, place: Place, storage: str) -> RemoteWorkers:
        remote = remote_workers(place, self._group, storage)
        # Children are stopped by the board, which comes later and is closed before.
        self._closers.append(remote.close)
        return remote

    def _board(self, storage: str, emit: Callable[[Event], None]) -> TaskBoard:
        outbox = Outbox(f"{storage}/outbox.jsonl")
        self._closers.append(outbox.close)
        delivery = Delivery(outbox, emit)
        board = TaskBoard(group=self._group, storage=storage, delivery=delivery)
        self._closers.append(board.close)
        return board

    async def _servers(self, base: Foundation) -> McpServers | None:
        """Start the servers; the session goes on without those that take their time."""
        specs = base.place.servers.servers
        if not specs:
            return None
        from prong.session.mcp_elicitation import Elicitations
        from prong.session.mcp_reach import reach_of
        from prong.session.mcp_servers import open_servers

        servers = await open_servers(
            specs,
            self._group,
            reach_of(base.place),
            asker=Elicitations(base.questions, base.emit),
            wait=server_wait(base.place),
        )
        self._closers.append(servers.aclose)
        return servers

    def _services(
        self, base: Foundation, crew: Crew, registry: Registry, teams: Teams | None
    ) -> Services:
        place = base.place
        return Services(
            board=base.board,
            emit=base.bus.emit,
            registry=registry,
            journal=base.journal.path,
            runner=runner(place),
            remote=base.remote,
            worktrees=read_settings(place.settings.values.worktree),
            teams=teams,
            claims=Claims() if crew.coordinates else None,
            classifier=self._classifier(registry.agents),
        )

    def _supervisor(
        self, base: Foundation, crew: Crew, services: Services, hooks: UserHooks
    ) -> Supervisor:
        place = base.place
        resolver = TypeResolver(
            place=place,
            providers=self._providers,
            types=crew.types,
            kit=crew.pool,
            hooks=hooks,
            cache_key=base.journal.session,
        )
        settings = TeamSettings(
            forks=crew.forks,
            fork=fork_settings(place),
            task_budget=place.settings.values.task_budget,
            patience=patience(place),
            wake_once=wakes_once(place, attended=self._questions.attended),
            background=place.settings.values.background,
        )
        return Supervisor(services=services, settings=settings, resolver=resolver)

    def _classifier(self, agents: dict[str, Agent]) -> Classifier | None:
        """Make what asks a model about results, if the settings name one."""
        model = self._place.settings.values.handback.model
        if not model:
            return None
        from prong.session.classify import classifier

        return classifier(agents, choose(self._place, model), self._providers)

    async def _finish(self) -> None:
        """End the stream of events, after everything that could say something."""
        if self._parts is not None:
            await finish(self._parts)

    async def close(self) -> Exception | None:
        """Take everything apart, the last part first; gives what went wrong in that."""
        failures: list[Exception] = []
        cancelled: BaseException | None = None
        for closer in reversed(self._closers):
            # Whatever fails, the rest must be closed: processes of the user's hang on it.
            try:
                waiting = closer()
                if waiting is not None:
                    await waiting
            except (ProngError, OSError) as error:
                failures.append(error)
            except anyio.get_cancelled_exc_class() as error:
                # No scope's doing, this is shielded: the event loop is about to end.
                cancelled = error
        if self._created is not None:
            store.discard(self._created)
        if self._passing is not None:
            store.remove(self._passing)
        if cancelled is not None:
            raise cancelled
        return failures[0] if failures else None


def _policy(place: Place, host: Host, storage: str) -> Policy:
    """Make the policy; what the system can hold of it is found out before the first command."""
    must_hold(place, host)
    sandbox = sandboxing(place, host.home)
    if not sandbox.on:
        place.warn("the sandbox is off by the setting sandbox.mode: permissions alone decide")
    storage = host.storage.path or storage
    return make_policy(place, home=host.home, storage=storage, sandbox=sandbox)


def _started(base: Foundation, agent: Agent) -> tuple[SessionStarted, AgentStarted]:
    resumed = base.replay is not None
    started = SessionStarted(
        session_id=base.journal.session,
        model=base.chosen.model,
        cwd=base.place.cwd,
        tools=agent.kit.shown,
        mode=base.policy.policy.mode,
        title=base.journal.tally.title,
        resumed=resumed,
    )
    return started, AgentStarted(kind="main", model=base.chosen.model, resumed=resumed)
