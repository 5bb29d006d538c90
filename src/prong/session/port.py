"""The far side of the port: what an agent in a worker has in place of a session.

Everything goes through one channel, in order. What the agent stores, says and pays is on its way
before it goes on; and before each request and each call it waits for an answer, by which time all
of that was taken. So nothing is done before the session has stored what led to it, and what waits
to be written is bounded by what one step has to say; live output, which has no such bound, is left
out while the line is slow.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from typing import Any, TypeVar, cast, get_args

import anyio
import msgspec

from prong.agent import Agent, Conversation, Turn, Verdict
from prong.agent.call_match import CallMatch
from prong.agent.gate import CheckedCall
from prong.agent.observer import Payment
from prong.cost import Charge
from prong.entry import Call, CallId
from prong.errors import BudgetSpent, WorkerFailed
from prong.event import Delta, Event, PromptMoved, Warned
from prong.host.far_host import TracedHost
from prong.host.lease import RunLease
from prong.ids import AgentPath
from prong.journal.note import Note, encode_note
from prong.journal.transfer import growth
from prong.prompt import Prompt
from prong.team.channel import ROOM, Outgoing
from prong.team.message import (
    SPEECH,
    AskAnswered,
    Compacted,
    EntrySent,
    EventTold,
    Fire,
    FiredAfar,
    Granted,
    MayEnd,
    MayRun,
    MaySend,
    Noted,
    RequestPaid,
    ResponseBegan,
    Use,
    Used,
    WorkerAsk,
)
from prong.team.run import (
    ToolRow,
)
from prong.tools.access import Access
from prong.tools.tool import CallOutcome, Context, Done, Failed, SideEffect, Tool
from prong.wire.raw import dump

_T = TypeVar("_T")

_LOOK = 1.0
"""Seconds between two looks at the lease."""

_SLOW = "the line to this agent is slow: some of what it shows while it works is left out"


def check_lease(lease: RunLease | None) -> None:
    """Look whether a run is still this process's.

    Raises WorkerFailed if a later one has begun.
    """
    if lease is not None and lease.lost:
        raise WorkerFailed(f"a later run than number {lease.number} has begun: this one stops")


async def keep_lease(lease: RunLease) -> None:
    """Look now and then whether what is done is still this process's.

    Raises WorkerFailed once a later one has begun.
    """
    while True:
        await anyio.sleep(_LOOK)
        check_lease(lease)


class Port:
    """The way to the session that one run has, or one workspace."""

    def __init__(self, outgoing: Outgoing, channel: int, lease: RunLease | None = None) -> None:
        """Take what is to be written to the session, and the channel of it that is this one's.

        With a lease, nothing is asked for once a later run has begun.
        """
        self._outgoing = outgoing
        self._channel = channel
        self._lease = lease
        self._numbers = count(1)
        self._slots: dict[int, _Pending] = {}

    def leased(self, lease: RunLease | None) -> Port:
        """Give the same way, for a run that holds a lease."""
        return Port(self._outgoing, self._channel, lease)

    @property
    def crowded(self) -> bool:
        """Whether so much waits to be written that what can be left out should be."""
        return self._outgoing.backlog(self._channel) >= ROOM

    def say(self, message: msgspec.Struct) -> None:
        """Say something; what is said is written in its order, as fast as the session takes it."""
        self._outgoing.put(message, self._channel)

    async def wait_room(self) -> None:
        """Wait until not too much waits to be written."""
        await self._outgoing.wait_room(self._channel)

    def number(self) -> int:
        """Make a number for a question."""
        return next(self._numbers)

    async def ask(self, ask: WorkerAsk, kind: type[_T]) -> _T:
        """Ask something and wait for the answer.

        Raises WorkerFailed if a later run has begun.
        """
        check_lease(self._lease)
        slot = self._slots[ask.number] = _Pending(anyio.Event())
        try:
            self.say(ask)
            await slot.came.wait()
        finally:
            del self._slots[ask.number]
        return msgspec.json.decode(slot.value, type=kind)

    def settle(self, answered: AskAnswered) -> None:
        """Hand an answer to whoever waits for it; one that nobody waits for any more is dropped."""
        if (slot := self._slots.get(answered.number)) is not None:
            slot.value = bytes(answered.value)
            slot.came.set()


class _Pending(msgspec.Struct):
    came: anyio.Event
    value: bytes = b""


class Relay:
    """Has the session store what the agent would store, and tells it what the agent tells."""

    def __init__(self, port: Port, path: AgentPath, prompt: Prompt) -> None:
        """Take the prompt that the session has sent."""
        self._port = port
        self._path = path
        self._there = prompt
        """What the session has of the conversation."""
        self._moved: Prompt | None = None
        self._slow = False
        """Whether live output was left out."""

    def keep(self, agent: str, prompt: Prompt, *, reason: str = "") -> None:
        """Send what of the prompt the session has not."""
        if reason or not prompt.extends(self._there):
            # Its reason follows at once, as an event.
            self._moved = prompt
        else:
            for record in growth(agent, prompt, after=self._there):
                self._port.say(EntrySent(record=record))
        self._there = prompt

    def request(self, row: Charge) -> None:
        """Do nothing: the session enters it when it is told what was paid."""

    def note(self, agent: str, *notes: Note) -> None:
        """Send notes."""
        for note in notes:
            self._port.say(Noted(agent=agent, name=note.name, value=encode_note(note)))

    async def sync(self) -> None:
        """Do nothing: the session does it before it lets the agent end."""

    def emit(self, event: Event) -> None:
        """Send an event, if it is one that the session does not tell by itself."""
        if isinstance(event, PromptMoved) and self._moved is not None:
            records = tuple(growth(self._path, self._moved))
            self._moved = None
            self._port.say(Compacted(records=records, detail=event.detail))
        elif isinstance(event, Delta) and self._port.crowded:
            # Its end says all of it once more.
            if not self._slow:
                self._slow = True
                self._port.say(EventTold(agent=self._path, event=Warned(text=_SLOW)))
        elif isinstance(event, SPEECH):
            self._port.say(EventTold(agent=self._path, event=event))  # pyright: ignore[reportArgumentType] # just looked


class PortObserver:
    """Lets the session look on at the requests."""

    def __init__(self, port: Port) -> None:
        """Take the way to the session."""
        self._port = port

    async def before(self) -> None:
        """Wait until the next request may be sent.

        Raises BudgetSpent if it may not, since others have spent what was left.
        """
        if why := await self._port.ask(MaySend(number=self._port.number()), str):
            raise BudgetSpent(why)

    def began(self) -> None:
        """Say that a response has begun."""
        self._port.say(ResponseBegan())

    def paid(self, conversation: Conversation, payment: Payment) -> None:
        """Say what a request has cost."""
        del conversation
        told = RequestPaid(row=payment.row, at=payment.at, diagnostics=payment.diagnostics)
        self._port.say(told)


class PortHooks:
    """The session's hooks."""

    def __init__(self, port: Port) -> None:
        """Take the way to the session."""
        self._port = port

    def listens(self, event: str) -> bool:
        """Leave that to the session."""
        del event
        return True

    async def fire(
        self,
        event: str,
        payload: dict[str, Any],
        matcher: str = "",
        call: CallMatch | None = None,
    ) -> Verdict:
        """Have the session tell its hooks, which sees for itself what a call would do."""
        del call
        assert event in get_args(FiredAfar), "the session fires all others by itself"
        told = {name: msgspec.Raw(dump(value)) for name, value in payload.items()}
        ask = Fire(
            number=self._port.number(),
            event=cast("FiredAfar", event),
            payload=told,
            matcher=matcher,
        )
        return await self._port.ask(ask, Verdict)


class PortGate:
    """Permission for calls, which the session gives."""

    def __init__(self, port: Port) -> None:
        """Take the way to the session."""
        self._port = port

    async def check(self, agent: Agent, call: Call, tool: Tool, args: Any) -> CheckedCall:
        """Ask whether a call may run, and as what."""
        links = _links(agent, call, tool, args)
        number, cwd = self._port.number(), agent.context.cwd
        ask = MayRun(number=number, call_id=call.id, cwd=cwd, links=links)
        granted = await self._port.ask(ask, Granted)
        if granted.halted:
            agent.run.halt(granted.halted)
        call = msgspec.structs.replace(call, arguments=granted.arguments)
        if granted.refused is not None:
            return CheckedCall(call, tool, args, granted.refused, granted.notes)
        parsed = agent.kit.parse(call)
        if isinstance(parsed, Failed):
            return CheckedCall(call, tool, args, parsed.why, granted.notes)
        found, args = parsed
        if isinstance(found, HomeTool):
            args = _Passed(granted.arguments, granted.title)
        return CheckedCall(call, found, args, notes=granted.notes, profile=granted.profile)

    async def outside(self, agent: Agent, checked: CheckedCall, why: str) -> CheckedCall | None:
        """Ask whether a call may run again without its sandbox."""
        number, cwd = self._port.number(), agent.context.cwd
        ask = MayRun(number=number, call_id=checked.call.id, cwd=cwd, outside=why)
        granted = await self._port.ask(ask, Granted)
        if granted.refused is not None:
            return None
        return msgspec.structs.replace(checked, profile=granted.profile)


def _links(agent: Agent, call: Call, tool: Tool, args: Any) -> dict[str, str]:
    """Find out where the paths of a call lead, if the session cannot see them.

    The same decision is made here once, for the sake of the paths that it looks at.
    """
    host = agent.context.host
    if not isinstance(host, TracedHost):
        return {}
    host.links.clear()
    with suppress(OSError):
        accesses = tool.access(args, agent.context)
        agent.policy.decide(call.name, accesses, resolve=host.follow)
        agent.policy.decide(call.name, accesses, resolve=host.resolve)
    return dict(host.links)


class _Passed(msgspec.Struct, frozen=True):
    """The arguments of a call as they were written, and what the call is called."""

    arguments: str
    title: str = ""


class HomeTool:
    """A tool that the session runs: it has the connections, and knows the other agents."""

    arguments: type[msgspec.Struct] = _Passed

    def __init__(self, row: ToolRow, port: Port) -> None:
        """Be the tool of that name."""
        self.name = row.name
        self.effect: SideEffect = row.effect
        self.budget = row.budget
        self._port = port

    def decode(self, arguments: str) -> _Passed:
        """Leave the arguments to the session."""
        return _Passed(arguments)

    def title(self, args: _Passed) -> str:
        """Say what the session says."""
        return args.title or self.name

    def access(self, args: _Passed, context: Context) -> Sequence[Access]:
        """Touch nothing here."""
        del args, context
        return ()

    async def run(self, call_id: CallId, args: _Passed, context: Context) -> CallOutcome:
        """Have the session do it."""
        del context
        (outcome,) = await self._use([(call_id, args)])
        return outcome

    async def _use(self, calls: Sequence[tuple[CallId, _Passed]]) -> list[CallOutcome]:
        given = tuple((call_id, args.arguments) for call_id, args in calls)
        ask = Use(number=self._port.number(), name=self.name, calls=given)
        used = await self._port.ask(ask, list[Used])
        return [
            Failed(one.failed) if one.failed is not None else Done(one.parts, one.shown)
            for one in used
        ]


class HomeGroup(HomeTool):
    """A tool that the session runs and that takes the calls of a reply together."""

    async def run_all(
        self, calls: Sequence[tuple[CallId, _Passed]], context: Context
    ) -> list[CallOutcome]:
        """Have the session do all of them."""
        del context
        return await self._use(calls)


async def may_end(port: Port, agent: Agent, turn: Turn) -> bool:
    """Ask whether a turn was the last; one that has something to wait for was not."""
    if turn.ok and (agent.inbox or agent.context.tasks.busy()):
        return False
    return await port.ask(MayEnd(number=port.number(), turn=turn), bool)
