"""The composition root: the only place where everything meets."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

import anyio
import anyio.abc
import msgspec

from prong.agent import Agent, Desk, NoHooks, Respond
from prong.agent.answer import interrupted
from prong.agent.compact import carried
from prong.agent.lineage import COORDINATOR, Lineage, told_by
from prong.cost import Ledger
from prong.cost.budget import Bounds, Purse
from prong.entry import Usage
from prong.errors import ProngError, UsageError
from prong.event import Answer, Event, Question, QuestionAsked, SessionStarted, Todo, Warned
from prong.host import LocalHost
from prong.host.escape import MARK
from prong.prompt import Prompt
from prong.provider import Http
from prong.session import store
from prong.session.bus import Bus
from prong.session.coordination import Before, coordinate, make_pulls
from prong.session.entrance import enter
from prong.session.guard import Guard
from prong.session.hook import CommandHooks
from prong.session.journal import Journal
from prong.session.model import (
    Chosen,
    cache_ttl,
    choose,
    diagnoses,
    left_out,
    remembered,
    render_head,
)
from prong.session.option import Given, Options
from prong.session.past import past_of, restore
from prong.session.place import Place, look_around, make_policy
from prong.session.planning import Kept, Planner
from prong.session.preference import (
    answer_schema,
    compact_share,
    fork_settings,
    make_limits,
    make_prices,
    patience,
    proxied,
    structured_output,
    task_budget,
    wakes_once,
)
from prong.session.recruit import Recruiter
from prong.session.replay import Replay, read_journal
from prong.session.session import MAIN, Session
from prong.session.text import text
from prong.session.toolbox import built_in
from prong.team.account import watch
from prong.team.claim import Claims
from prong.team.handback import Classifier
from prong.team.notice import told_in
from prong.team.office import Office
from prong.team.outbox import Outbox
from prong.team.route import ForkMode
from prong.team.supervisor import Supervisor
from prong.team.task import TaskBoard
from prong.team.workplace import may_hold_worktrees, read_settings, tidy
from prong.tool.base import Context, Reads, Tool
from prong.tool.filter import is_mcp
from prong.tool.kit import Kit
from prong.tool.policy import Deny, PolicyBox
from prong.tool.structured import StructuredOutput

if TYPE_CHECKING:
    from prong.tool.mcp import McpTool


@asynccontextmanager
async def open_session(
    options: Options | None = None,
    *,
    respond: Respond | None = None,
    attended: bool = False,
    clock: Callable[[], float] = time.time,
    **given: Unpack[Given],
) -> AsyncGenerator[Session, None]:
    """Open a session; everything it started ends with the block.

    Options are given as a value, by name, or both. `respond` answers permission requests and
    questions; `attended` says that a reader of the events will send answers. With neither,
    whatever would need an answer is refused, and the model is told why. By the `clock`, seconds
    since the epoch, is judged what the provider's cache still holds.

    Raises:
        UsageError: an option makes no sense.
        ProngError: the session cannot be opened, and why.

    """
    options = msgspec.structs.replace(options or Options(), **given)
    place = look_around(options)
    failure: BaseException | None = None
    async with anyio.create_task_group() as group, Http(env=proxied(place)) as http:
        maker = _Maker(place, http, group, Desk(respond, attended=attended), clock)
        try:
            session = await maker.make()
            group.start_soon(session.drive)
            yield session
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


class _Parts(TypedDict):
    """What the main agent is made of, besides what follows from options and settings."""

    lineage: Lineage
    prompt: Prompt
    kit: Kit
    context: Context
    policy: PolicyBox
    hooks: Guard
    recorder: Journal


class _Maker:
    """Builds a session part by part, and takes it apart again in the other order."""

    def __init__(
        self,
        place: Place,
        http: Http,
        group: anyio.abc.TaskGroup,
        desk: Desk,
        clock: Callable[[], float],
    ) -> None:
        self._clock = clock
        self._place = place
        self._http = http
        http.keep = place.store / "local"
        self._group = group
        self._desk = desk
        self._bus = Bus()
        self._replay: Replay | None = None
        self._closers: list[Callable[[], Any]] = []
        self._created: Path | None = None
        """The journal this start has made; it goes again if the start fails."""

    async def make(self) -> Session:
        """Put everything together."""
        place, options = self._place, self._place.options
        entered = enter(place)
        journal, self._replay, self._created = entered.journal, entered.replay, entered.made
        self._closers.append(journal.close)
        storage = journal.path.with_suffix("")
        host = LocalHost(place.cwd, place.home)
        host.warn = lambda text: self._emit(Warned(text=text))
        self._closers.append(host.close)
        chosen = choose(place, options.model, self._note("endpoint"))
        policy = PolicyBox(make_policy(place, storage=str(storage)))
        structured = structured_output(options)
        board = self._board(storage)
        planner = self._planner(policy, board, journal)
        forks = self._forks(policy)
        pool = kit = await self._kit(structured, planner, forks=forks.on)
        types = place.types
        pulls = make_pulls(place, host, board, journal, self._emit, self._env(journal))
        before = Before(self._replay is not None, self._note("coordinator"))
        if (team := coordinate(place, pool, policy, pulls, before)) is not None:
            kit, types, place.role = team.kit, team.types, team.role
            planner.words = "plan_coordinator"
            forks = ForkMode(on=False, why_off="a coordinator's workers start from nothing")
        commands = CommandHooks(
            hooks=place.settings.hooks,
            host=host,
            session_id=journal.session,
            transcript=str(journal.path),
            env=self._env(journal),
        )
        prompt = self._prompt(journal, chosen, kit)
        agent = self._agent(
            chosen,
            lineage=told_by(prompt) if team is None else COORDINATOR,
            prompt=prompt,
            kit=kit,
            context=self._context(host, board, policy, journal, chosen),
            policy=policy,
            hooks=Guard(
                hooks=commands if place.settings.hooks else NoHooks(),
                cwd=place.cwd,
                instructions=place.instructions,
                structured=structured,
            ),
            recorder=journal,
        )
        recruiter = Recruiter(
            place=place,
            http=self._http,
            types=types,
            kit=pool,
            commands=commands,
            cache_key=journal.session,
        )
        office = Office(
            types=types,
            claims=None if team is None else Claims(),
            make_child=recruiter.make,
            task_budget=task_budget(place),
            patience=patience(place),
        )
        supervisor = self._supervisor(agent, journal, board, office, forks)
        agent.context.agents = supervisor.door(agent)
        planner.bind(agent)
        session = Session(
            agent=agent,
            bus=self._bus,
            journal=journal,
            place=place,
            supervisor=supervisor,
            planner=planner,
            started=self._started(journal, chosen, kit, policy),
            switch=self._switch,
        )
        self._closers.append(session.finish)
        await self._begin(session, chosen)
        if self._replay is not None and not options.fork_session:
            pulls.restore(self._replay.note(MAIN, "pulls", dict[str, list[str]]) or {})
        self._created = None
        return session

    def _board(self, storage: Path) -> TaskBoard:
        outbox = Outbox(str(storage / "outbox.jsonl"))
        self._closers.append(outbox.close)
        board = TaskBoard(
            group=self._group, storage=str(storage), outbox=outbox, emit=self._emit, agent=MAIN
        )
        self._closers.append(board.close)
        return board

    def _planner(self, policy: PolicyBox, board: TaskBoard, journal: Journal) -> Planner:
        planner = Planner(
            policy,
            root=self._place.root,
            storage=str(journal.path.with_suffix("")),
            note=lambda name, value: journal.note(MAIN, name, value),
            emit=self._emit,
            shells=board.shells,
        )
        planner.start(
            wanted=self._place.options.mode,
            recorded=self._note("mode"),
            kept=self._replay.note(MAIN, "plan", Kept | None) if self._replay else None,
            otherwise=self._place.settings.permissions.mode,
        )
        return planner

    def _agent(self, chosen: Chosen, **parts: Unpack[_Parts]) -> Agent:
        """Make the main agent, with what the session has paid so far on its account."""
        place, options = self._place, self._place.options
        limits, prices = make_limits(place), make_prices(place)
        if limits.max_usd is not None and prices.of(chosen.model, Usage()) is None:
            raise UsageError(
                f"the budget of ${limits.max_usd:g} cannot be kept: the price of {chosen.model} is "
                f"unknown; add it to {place.store / 'prices.json'} or drop the budget"
            )
        requests = self._replay.requests if self._replay else ()
        ledger = Ledger(paid.row for paid in requests if not paid.inherited)
        purse = Purse(Bounds(tokens=limits.max_tokens, usd=limits.max_usd))
        for row in ledger.rows:
            tokens = row.usage.input + row.usage.output
            purse.charge(tokens, row.cost, turns=0 if row.sidecar else 1, model=row.model)
        agent = Agent(
            path=MAIN,
            provider=chosen.connect(self._http),
            desk=self._desk,
            ledger=ledger,
            prices=prices,
            emit=self._emit,
            texts=text,
            limits=limits,
            purse=purse,
            ttl=cache_ttl(options, place),
            context_tokens=options.context_tokens,
            max_output=options.max_output,
            diagnose=diagnoses(place, chosen),
            clock=self._clock,
            **parts,
        )
        agent.compact_at = compact_share(place, agent.compact_at)
        return agent

    def _supervisor(
        self, agent: Agent, journal: Journal, board: TaskBoard, office: Office, forks: ForkMode
    ) -> Supervisor:
        place = self._place
        return Supervisor(
            office=office,
            reload=lambda: past_of(read_journal(journal.path)),
            classifier=self._classifier(agent),
            board=board,
            emit=self._bus.emit,
            mode=forks,
            settings=fork_settings(place),
            worktrees=read_settings(place.settings.map("worktree")),
            wake_once=wakes_once(place, attended=self._desk.attended),
            prices=agent.prices,
            child_hooks=lambda hooks: hooks.clone() if isinstance(hooks, Guard) else hooks,
        )

    async def close(self) -> Exception | None:
        """Take everything apart, the last part first; gives what went wrong in that."""
        failures: list[Exception] = []
        for closer in reversed(self._closers):
            try:
                waiting = closer()
                if waiting is not None:
                    await waiting
            except (ProngError, OSError) as error:
                # The rest must be closed all the same: processes of the user's hang on it.
                failures.append(error)
        if self._created is not None:
            store.discard(self._created)
        return failures[0] if failures else None

    async def _begin(self, session: Session, chosen: Chosen) -> None:
        """Bring a new or resumed conversation into a state from which it can go on."""
        agent, journal = session.agent, session.journal
        journal.note(MAIN, "endpoint", remembered(chosen))
        options = self._place.options
        if options.name or (options.fork_session and journal.tally.title):
            # A copy is another session: the name goes on meaning the one it was given to.
            journal.note(MAIN, "title", options.name or "")
        running = self._revive(session, chosen) if self._replay else set[str]()
        watch(agent)
        session.tasks.recover(keep=running)
        outbox = session.tasks.outbox
        outbox.ack(told_in(agent.prompt, outbox.uncertain))
        session.tasks.listen(MAIN, session.collect)
        session.collect()
        await self._tidy(session)
        if self._replay is not None:
            self._group.start_soon(session.tell_escaped, "which it started earlier, still runs")
        for warning in self._place.warnings:
            session.warn(warning)
        source = "resume" if self._replay else "startup"
        verdict = await agent.hooks.fire("SessionStart", {"source": source}, matcher=source)
        session.heed(verdict)

    async def _tidy(self, session: Session) -> None:
        """Look for worktrees that a crash has left, without making anybody wait."""
        host = session.agent.context.host
        if not await may_hold_worktrees(host, self._place.root):
            return
        specs = [child.spec for child in session.supervisor.children]
        spare = frozenset(spec.worktree.path for spec in specs if spec.worktree is not None)
        self._group.start_soon(partial(tidy, host, spare=spare, warn=session.warn))

    def _forks(self, policy: PolicyBox) -> ForkMode:
        """Whether forks are on: somebody, or a rule, must be there to answer for them."""
        options = self._place.options
        if self._place.settings.map("fork").get("enabled") is False:
            return ForkMode(on=False, why_off="the setting fork.enabled is false")
        never_asks = policy.policy.mode in {"bypassPermissions", "dontAsk"}
        if self._desk.answerable or never_asks or options.allow:
            return ForkMode(on=True)
        why = "nobody is here to answer a fork's permission requests, and no policy was given"
        return ForkMode(on=False, why_off=why)

    def _revive(self, session: Session, chosen: Chosen) -> set[str]:
        """Take up the agents of a resumed session where they were."""
        replay, agent = self._replay, session.agent
        assert replay is not None
        past = past_of(replay)
        results = session.supervisor.answered(past, agent.prompt) or interrupted(agent.prompt)
        if results is not None:
            agent.append(results)
        restore(agent, replay)
        running = session.supervisor.revive(agent, past, run=not self._place.options.fork_session)
        self._compare(agent, chosen)
        return running

    def _note(self, name: str) -> Any:
        return self._replay.note(MAIN, name) if self._replay else None

    async def _kit(
        self, structured: StructuredOutput | None, planner: Planner, *, forks: bool
    ) -> Kit:
        tools: list[Tool] = [
            *built_in(self._place, planner, forks=forks),
            *await self._server_tools(),
        ]
        wanted = self._place.options.tools
        if wanted is not None:
            unknown = set(wanted) - {tool.name for tool in tools}
            # The server of a tool may only be away just now, which was said already.
            if away := sorted(name for name in unknown if is_mcp(name)):
                self._place.warnings.append(f"there is no tool {', '.join(away)}")
            if wrong := sorted(unknown.difference(away)):
                names = ", ".join(tool.name for tool in tools)
                raise UsageError(f"there is no tool {', '.join(wrong)}; the tools are {names}")
            tools = [tool for tool in tools if tool.name in wanted]
        return Kit([*tools, *([structured] if structured else [])])

    async def _server_tools(self) -> tuple[McpTool, ...]:
        if not self._place.servers.servers:
            return ()
        from prong.session.connection import open_servers

        servers = await open_servers(self._place.servers.servers, self._group, cwd=self._place.cwd)
        self._closers.append(servers.aclose)
        self._place.warnings += [str(problem) for problem in servers.problems]
        return servers.tools

    def _prompt(self, journal: Journal, chosen: Chosen, kit: Kit) -> Prompt:
        if self._replay is not None and MAIN in self._replay.agents:
            return self._replay.agents[MAIN]
        specs = kit.specs(lambda name: text(f"tool/{name}"))
        prompt = Prompt(render_head(self._place, chosen, specs, cache_key=journal.session))
        journal.keep(MAIN, prompt)
        return prompt

    def _compare(self, agent: Agent, chosen: Chosen) -> None:
        """Keep the recorded head where it still serves; say so, or why a new one is needed."""
        head = agent.prompt.head
        if head.model != chosen.model or head.dialect.name != chosen.endpoint.dialect:
            self._move(agent, chosen, f"from {head.model} to {chosen.model}")
            return
        self._place.warnings += left_out(self._place.options, head.spec)
        specs = agent.kit.specs(lambda name: text(f"tool/{name}"))
        if answer_schema(specs) not in (None, answer_schema(head.spec.tools)):
            self._move(agent, chosen, "the answer has a new schema", reason="tools")
            return
        now, then = set(agent.kit.names), set(head.tools)
        if now != then:
            changes = [
                *(f"+{n}" for n in sorted(now - then)),
                *(f"-{n}" for n in sorted(then - now)),
            ]
            self._place.warnings.append(
                f"the tools have changed since this session began ({', '.join(changes)}); it goes "
                "on with the tools it had, so that its cache holds; a new session has the new ones"
            )

    def _switch(self, session: Session, model: str) -> None:
        chosen = choose(self._place, model)
        session.agent.provider = chosen.connect(self._http)
        self._move(session.agent, chosen, f"from {session.model} to {chosen.model}")
        session.journal.note(MAIN, "endpoint", remembered(chosen))

    def _move(
        self,
        agent: Agent,
        chosen: Chosen,
        detail: str,
        *,
        reason: Literal["model", "tools"] = "model",
    ) -> None:
        specs = agent.kit.specs(lambda name: text(f"tool/{name}"))
        head = render_head(self._place, chosen, specs, cache_key=agent.prompt.head.spec.cache_key)
        agent.restart(Prompt(head).append(*carried(agent.prompt)), reason=reason, detail=detail)
        agent.context.images = chosen.images

    def _context(
        self, host: LocalHost, board: TaskBoard, policy: PolicyBox, journal: Journal, chosen: Chosen
    ) -> Context:
        def may_read(path: str) -> bool:
            from prong.tool.access import Reading

            return not isinstance(policy.decide("Read", [Reading(path)]), Deny)

        todos = self._note("todos") or ()
        return Context(
            host=host,
            reads=Reads(dict(self._note("reads") or {})),
            emit=self._emit,
            ask=self._ask,
            tasks=board,
            storage=board.storage,
            cwd=self._note("cwd") or "",
            todos=msgspec.convert(todos, tuple[Todo, ...]),
            env=self._env(journal),
            images=chosen.images,
            may_read=may_read,
        )

    def _env(self, journal: Journal) -> dict[str, str]:
        chosen = {key: str(value) for key, value in self._place.settings.map("env").items()}
        return {MARK: journal.session, **chosen}

    async def _ask(self, questions: Sequence[Question]) -> str | None:
        asked = QuestionAsked(request_id=self._desk.number(), questions=tuple(questions))
        answer = await self._desk.ask(MAIN, asked, self._emit)
        return answer.text if isinstance(answer, Answer) and answer.allow else None

    def _classifier(self, agent: Agent) -> Classifier | None:
        """Make what asks a model about results, if the settings name one."""
        model = self._place.settings.map("handback").get("model")
        if not model:
            return None
        from prong.session.classify import classifier

        return classifier(agent, choose(self._place, str(model)), self._http)

    def _started(
        self, journal: Journal, chosen: Chosen, kit: Kit, policy: PolicyBox
    ) -> SessionStarted:
        return SessionStarted(
            session_id=journal.session,
            model=chosen.model,
            cwd=self._place.cwd,
            tools=kit.names,
            mode=policy.policy.mode,
            resumed=self._replay is not None,
        )

    def _emit(self, event: Event) -> None:
        self._bus.emit(MAIN, event)
