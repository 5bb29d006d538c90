"""The session's side of a run that goes on elsewhere: checks what comes, and keeps it.

The agent here is the one that the session knows: what it has said is stored here, what it pays is
charged here, its calls are decided on here by its own policy, hooks and user, and what waits for it
waits here. A worker can lie about its own work and about nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import msgspec

from prong.agent import Agent, Turn, Verdict
from prong.agent.agent import known_of, spent_by
from prong.agent.answer import interrupted, unanswered
from prong.agent.gate import CheckedCall
from prong.agent.lineage import contained
from prong.agent.permission import ask_outside, ask_permission, match_of
from prong.entry import Call, CallId, Text, User
from prong.errors import JournalError, WorkerFailed
from prong.event import (
    ReplyDiscarded,
    ReplyFinished,
    RequestFailed,
    RequestSent,
    TaskFinished,
    TaskStarted,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
    Warned,
)
from prong.foreign_json import NOT_JSON
from prong.host.far_host import FarHost
from prong.ids import RequestId, TaskId
from prong.journal.note import FilesRead, FolderEntered, TodosKept, TurnSettled, decode_note
from prong.journal.record import EntryRecord
from prong.journal.transfer import grow
from prong.prompt import Prompt
from prong.team.message import (
    KEPT,
    Alive,
    Compacted,
    EntrySent,
    EventTold,
    Fire,
    Granted,
    MayEnd,
    MayRun,
    MaySend,
    Noted,
    RequestPaid,
    ResponseBegan,
    Speech,
    Taken,
    Up,
    Use,
    Used,
    WorkerAsk,
)
from prong.team.run import (
    Waiting,
)
from prong.team.runner import Until
from prong.tools.mcp_search import meant
from prong.tools.skill_text import undone
from prong.tools.tool import CallOutcome, Failed, Together, Tool

_REASON = 1_000
"""Letters of a worker's reason that are shown."""


class Spans:
    """What has begun and not ended in what one agent tells."""

    def __init__(self, prefix: str) -> None:
        """Take what the ids of the agent's background commands begin with."""
        self._prefix = prefix
        self._open: dict[tuple[str, str], Speech] = {}

    def take(self, event: Speech) -> None:
        """Follow an event.

        Raises WorkerFailed if it is the end of nothing, or a second beginning.
        """
        match event:
            case TurnStarted():
                self._begin(("turn", ""), event)
            case RequestSent(request_id=name):
                self._begin(("request", name), event)
            case ToolStarted(call_id=name):
                self._begin(("call", name), event)
            case TaskStarted(task_id=name):
                if not name.startswith(self._prefix):
                    raise WorkerFailed(f"it told of a task {name!r}, which is not its own")
                self._begin(("task", name), event)
            case ReplyDiscarded(request_id=name):
                if ("request", name) not in self._open:
                    raise WorkerFailed(f"it told of a request {name!r} that was never sent")
            case _:
                self._end(event)

    def _begin(self, key: tuple[str, str], event: Speech) -> None:
        if key in self._open:
            raise WorkerFailed(f"it told twice of the beginning of a {key[0]}")
        self._open[key] = event

    def _end(self, event: Speech) -> None:
        match event:
            case TurnFinished():
                key = ("turn", "")
            case ReplyFinished(request_id=name) | RequestFailed(request_id=name):
                key = ("request", name)
            case TaskFinished(task_id=name):
                key = ("task", name)
            case ToolFinished(call_id=name):
                # A call that was refused or not understood never began.
                self._open.pop(("call", name), None)
                return
            case _:
                return
        if self._open.pop(key, None) is None:
            raise WorkerFailed(f"it told of the end of a {key[0]} that never began")

    def endings(self, why: str) -> list[Speech]:
        """Give the ends of what is open, what lies within something else first."""
        found: list[Speech] = []
        for (kind, name), begun in sorted(self._open.items()):
            match kind, begun:
                case "call", ToolStarted():
                    found.append(
                        ToolFinished(
                            call_id=begun.call_id,
                            name=begun.name,
                            failed=True,
                            interrupted=True,
                            text=why,
                            title=begun.title,
                        )
                    )
                case "request", RequestSent(sidecar=sidecar):
                    ended = RequestFailed(
                        request_id=RequestId(name), why=why, error="killed", sidecar=sidecar
                    )
                    found.append(ended)
                case "task", _:
                    found.append(TaskFinished(task_id=TaskId(name), status="killed", summary=why))
                case _:
                    found.append(TurnFinished(text="", why="error", detail=why))
        self._open.clear()
        return found


class Home:
    """An agent of this session while it runs elsewhere."""

    def __init__(self, agent: Agent, until: Until, *, prefix: str) -> None:
        """Take the agent, and what says of a turn whether it was the last."""
        self._agent = agent
        self._until = until
        self._spans = Spans(prefix)
        self._numbers = count(1)
        self._sent: dict[int, tuple[User, Callable[[], None] | None]] = {}
        """What was sent to it and does not stand in its conversation yet."""
        self._granted: dict[CallId, Call] = {}
        """Calls that may run, as they are to run."""
        self.last: Turn | None = None
        """The turn that was its last."""

    def collect(self) -> tuple[Waiting, ...]:
        """Take what waits for the agent, to be sent to it."""
        found: list[Waiting] = []
        for entry, taken in self._agent.inbox.drain():
            number = next(self._numbers)
            self._sent[number] = (entry, taken)
            found.append(Waiting(number, entry))
        return tuple(found)

    def take(self, message: Up) -> None:
        """Check and keep what the worker tells; questions are not for here.

        Raises WorkerFailed if it may not say that, JournalError if it cannot be stored.
        """
        agent = self._agent
        match message:
            case EventTold():
                self._tell(message)
            case EntrySent(record=record):
                agent.conversation.extend(self._grown(agent.conversation.prompt, record))
            case Compacted():
                self._move(message)
            case Noted():
                self._note(message)
            case ResponseBegan():
                agent.client.observer.began()
            case RequestPaid():
                self._pay(message)
            case Taken(number=number):
                self._took(number)
            case Alive():
                pass
            case _:
                raise WorkerFailed(f"it said {type(message).__name__!r} where that means nothing")

    def _tell(self, message: EventTold) -> None:
        self._mine(message.agent)
        self._spans.take(message.event)
        if isinstance(message.event, TurnStarted):
            self._agent.run.begin()
        self._agent.emit(message.event)

    def _mine(self, path: str) -> None:
        if path != self._agent.path:
            raise WorkerFailed(f"it spoke in the name of {path!r} and is {self._agent.path!r}")

    def _grown(self, prompt: Prompt, record: EntryRecord) -> Prompt:
        self._mine(record.agent)
        try:
            grown = grow(prompt, record)
            assert grown.tip is not None
            prompt.head.dialect.read(record.role, grown.tip.data)
        except (*NOT_JSON, ValueError, LookupError, TypeError) as error:
            why = f"it sent an entry that cannot follow on its conversation ({error})"
            raise WorkerFailed(why) from error
        return grown

    def _move(self, message: Compacted) -> None:
        prompt = Prompt(self._agent.conversation.prompt.head)
        for record in message.records:
            prompt = self._grown(prompt, record)
        self._agent.restart(prompt, reason="compaction", detail=message.detail)

    def _note(self, message: Noted) -> None:
        self._mine(message.agent)
        kind = KEPT.get(message.name)
        if kind is None:
            raise WorkerFailed(
                f"it wanted a note {message.name!r} stored, which is not its to give"
            )
        try:
            note = decode_note(kind, bytes(message.value))
        except JournalError as error:
            raise WorkerFailed(str(error)) from error
        self._agent.conversation.note(note)
        context = self._agent.context
        match note:
            case FilesRead(value=reads):
                context.recall(reads=reads)
            case TodosKept(value=todos):
                context.recall(todos=todos)
            case FolderEntered(value=cwd):
                context.recall(cwd=cwd)
            case TurnSettled():
                pass

    def _pay(self, message: RequestPaid) -> None:
        agent, row = self._agent, message.row
        self._mine(row.agent)
        prompt = agent.conversation.prompt
        if row.model != prompt.head.model or (not row.sidecar and row.digest != prompt.digest):
            raise WorkerFailed("it told of the cost of a request that is not of its conversation")
        # What tokens cost is known here.
        agent.client.pay(agent.conversation, row, at=message.at, diagnostics=message.diagnostics)

    def _took(self, number: int) -> None:
        if number not in self._sent:
            raise WorkerFailed("it has taken a message that was never sent to it")
        _, taken = self._sent.pop(number)
        if taken is not None:
            taken()

    async def answer(self, ask: WorkerAsk) -> object:
        """Answer a question of the worker's.

        Raises WorkerFailed if it may not ask that.
        """
        match ask:
            case MaySend():
                await self._agent.client.observer.before()
                spent = spent_by(self._agent, 0)
                return spent.detail if spent is not None else ""
            case MayRun():
                return await self._may_run(ask)
            case MayEnd(turn=turn):
                return await self._may_end(turn)
            case Fire():
                return await self._fire(ask)
            case Use():
                return await self._use(ask)

    async def _fire(self, ask: Fire) -> Verdict:
        """Tell the hooks; what is known of the agent is known here."""
        agent, match = self._agent, None
        call = self._granted.get(CallId(_text(ask.payload.get("tool_use_id"))))
        if call is not None and not isinstance(parsed := agent.kit.parse(call), Failed):
            match = match_of(agent, CheckedCall(call, *parsed))
        told = {**ask.payload, **known_of(agent)}
        return await agent.consult(ask.event, told, ask.matcher, match, heeds=False)

    async def _may_run(self, ask: MayRun) -> Granted:
        agent = self._agent
        calls = unanswered(agent.conversation.prompt)
        call = next((one for one in calls if one.id == ask.call_id), None)
        call = call if call is None else meant(call)
        if call is None:
            raise WorkerFailed(f"it asked for leave for a call {ask.call_id!r} that nobody made")
        agent.context.recall(cwd=ask.cwd)
        if isinstance(agent.context.host, FarHost):
            agent.context.host.learn(ask.links)
        why, parsed = contained(agent.lineage, call.name), agent.kit.parse(call)
        if why is None and isinstance(parsed, Failed):
            why = parsed.why
        if why is not None or isinstance(parsed, Failed):
            return Granted(arguments=call.arguments, title="", refused=why)
        if ask.outside:
            return await self._may_run_outside(ask, *parsed)
        try:
            checked = await ask_permission(agent, call, *parsed)
        except OSError as error:
            refused = f"{call.name}: {error}"
            return Granted(arguments=call.arguments, title="", refused=refused)
        if checked.refused is None:
            self._granted[call.id] = checked.call
        return Granted(
            arguments=checked.call.arguments,
            title=checked.tool.title(checked.args),
            refused=checked.refused,
            notes=checked.notes,
            halted=agent.run.halted,
            profile=checked.profile,
        )

    async def _may_run_outside(self, ask: MayRun, tool: Tool, args: Any) -> Granted:
        """Ask the user whether a call that may run, and did, may run again without its sandbox."""
        call = self._granted.get(ask.call_id)
        if call is None:
            raise WorkerFailed(f"it wanted a call {ask.call_id!r} outside that had no leave")
        parsed = self._agent.kit.parse(call)
        if not isinstance(parsed, Failed):
            tool, args = parsed
        freed = await ask_outside(self._agent, CheckedCall(call, tool, args), ask.outside[:_REASON])
        refused = "the user was not for it, or is not here" if freed is None else None
        return Granted(arguments=call.arguments, title=tool.title(args), refused=refused)

    async def _may_end(self, turn: Turn) -> bool:
        agent = self._agent
        try:
            await agent.conversation.recorder.sync()
        except JournalError as error:
            agent.emit(Warned(text=str(error)))
        if turn.ok and self._sent:
            return False
        over = await self._until(turn)
        self.last = turn if over else None
        return over

    async def _use(self, ask: Use) -> list[Used]:
        agent = self._agent
        tool = agent.kit.get(ask.name)
        for call_id, arguments in ask.calls:
            granted = self._granted.pop(call_id, None)
            if granted is None or (granted.name, granted.arguments) != (ask.name, arguments):
                raise WorkerFailed(f"it used {ask.name} without leave")
        parsed = [
            (call_id, agent.kit.parse(Call(call_id, ask.name, arguments)))
            for call_id, arguments in ask.calls
        ]
        given = [(name, read[1]) for name, read in parsed if not isinstance(read, Failed)]
        assert tool is not None
        assert len(given) == len(parsed), "leave was given for it"
        try:
            if isinstance(tool, Together):
                outcomes: Sequence[CallOutcome] = await tool.run_all(given, agent.context)
            else:
                outcomes = [await tool.run(name, args, agent.context) for name, args in given]
        except OSError as error:
            outcomes = [Failed(f"{ask.name}: {error}")] * len(given)
        return [_used(outcome) for outcome in outcomes]

    def close(self, why: str) -> None:
        """End what the worker left open, so that the conversation can go on from here.

        What was sent to it and not taken waits again.
        """
        agent = self._agent
        for event in self._spans.endings(why):
            agent.emit(event)
        for entry, taken in self._sent.values():
            agent.inbox.put(entry, taken=taken)
        self._sent.clear()
        try:
            if (results := interrupted(agent.conversation.prompt)) is not None:
                agent.conversation.append(results)
        except JournalError as error:
            agent.emit(Warned(text=str(error)))


def _text(value: msgspec.Raw | None) -> str:
    """Read a text of a worker's; empty if it is none."""
    try:
        return "" if value is None else msgspec.json.decode(value, type=str)
    except NOT_JSON:
        return ""


def _used(outcome: CallOutcome) -> Used:
    if isinstance(outcome, Failed):
        return Used(failed=outcome.why)
    note = undone(outcome.skill.skill) if outcome.skill is not None else ""
    parts = (*outcome.parts, Text(note)) if note else outcome.parts
    return Used(parts=parts, shown=outcome.shown)
