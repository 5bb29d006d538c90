"""One session as an editor has it: prompts go in, updates come out, questions go both ways.

One task follows the events and sends what they tell. A prompt is answered only when that task has
told everything up to its end, so that no update comes after the answer that it belongs before.

A prompt is open as long as agents work that the session has started: many editors lose what comes
while no prompt is open. Commands in the background may run for ever, and hold up nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from itertools import count
from math import inf
from typing import Any

import anyio
import anyio.abc
import msgspec

from prong.command import Accepted, Command, Interrupt, Remember, SetMemory, Stop, UseSkill
from prong.entry import Part, Usage
from prong.errors import ProngError, SessionEnded
from prong.event import (
    MAIN,
    Envelope,
    EventsSkipped,
    ModeChanged,
    PermissionAsked,
    PromptMoved,
    QuestionAsked,
    ReplyFinished,
    RequestSettled,
    TurnFinished,
    TurnStarted,
    Warned,
)
from prong.face.acp.config_option import config_options, mode_state
from prong.face.acp.editor_answer import OpenResult, PromptResult, TokenCount
from prong.face.acp.editor_question import EditorQuestions
from prong.face.acp.editor_value import EditorAbility
from prong.face.acp.event_update import EventUpdates, SentUpdate, note_update
from prong.face.acp.past import past_updates
from prong.face.acp.rpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    RpcFailed,
    RpcPeer,
)
from prong.face.acp.session_update import (
    CallStart,
    CallUpdate,
    ConfigOption,
    ConfigUpdate,
    ModeUpdate,
    Money,
    SessionUpdate,
    UpdateParams,
    UsageUpdate,
    reply_text,
)
from prong.face.carry import Carrier, Titling
from prong.face.line import describe_end, describe_forks
from prong.ids import AgentPath, task_of
from prong.session import Session, Turn

_STOPS: dict[str, Any] = {
    "done": "end_turn",
    "interrupted": "cancelled",
    "limit": "max_turn_requests",
    "budget": "max_turn_requests",
    "loop": "max_turn_requests",
    "refused": "refusal",
    "cut_off": "max_tokens",
}


_PATIENCE = 10.0
"""Seconds that a server may take to say which models it has."""


class OpenPrompt(msgspec.Struct, eq=False):
    """A prompt that has not been answered."""

    cancelled: bool = False
    waiting: anyio.CancelScope = msgspec.field(default_factory=anyio.CancelScope)
    """Around the wait for agents in the background."""


class EditorSession:
    """A session that an editor has open."""

    def __init__(self, session: Session, peer: RpcPeer, client: EditorAbility) -> None:
        """Take an open session; `follow` tells of it from now on."""
        self.session = session
        self._peer = peer
        self._client = client
        began = session.events(since=session.records.began)
        self._early = [one.event for one in began.drain() if isinstance(one.event, Warned)]
        began.close()
        self._seen: float = session.view().seq
        self._events = session.events(since=session.view().seq)
        self._moved = anyio.Event()
        self._updates = EventUpdates(session.id, client)
        self._questions = EditorQuestions(session, peer, client, self._updates)
        self._titling = Titling(session)
        self._prompts: set[OpenPrompt] = set()
        self._models: list[str] = []
        self._numbers = count(1)

    def opened(self, *, named: bool) -> OpenResult:
        """Say what can be chosen; a session that the editor does not know yet is named."""
        view = self.session.view()
        return OpenResult(
            session_id=self.session.id if named else msgspec.UNSET,
            modes=mode_state(view.mode),
            config_options=self.options(),
        )

    def options(self) -> tuple[ConfigOption, ...]:
        """Give everything that can be chosen, with what is."""
        view, effort = self.session.view(), self.session.records.effort
        return config_options(mode=view.mode, model=view.model, effort=effort, models=self._models)

    async def begin(self, commands: SessionUpdate) -> None:
        """Tell what belongs to a session that the editor knows now."""
        await self.send(commands)
        early, self._early = self._early, []
        for event in early:
            await self.tell(event.text, "warning")
        if self.session.view().main.requests:
            await self.send(self._usage())
        with anyio.move_on_after(_PATIENCE), suppress(ProngError):
            self._models = await self.session.records.models()
        await self.send(ConfigUpdate(config_options=self.options()))

    async def replay(self, path: str = MAIN) -> None:
        """Tell the conversation so far; a child's is shown in a session of its own from then on."""
        view = self.session.view()
        if path != MAIN:
            self._updates.load(path)
        to = self._updates.session_of(path)
        folder = self._updates.folder_of(view, path)
        for update in past_updates(view, view.agents[path], folder):
            await self.send(update, to=to)

    async def send(self, update: SessionUpdate, *, to: str = "") -> None:
        """Send an update of this session, or of one below it."""
        params = UpdateParams(session_id=to or self.session.id, update=update)
        await self._peer.notify("session/update", params)

    async def tell(self, text: str, severity: str = "info") -> None:
        """Tell the user something of our own."""
        await self.send(note_update(text, self._name("told"), severity, self._client))

    async def say(self, text: str) -> None:
        """Send lines of our own as a message."""
        await self.send(reply_text(text, self._name("said")))

    def _name(self, kind: str) -> str:
        """Name a message or a call of our own."""
        return f"{kind}-{next(self._numbers)}"

    async def follow(self) -> None:
        """Send what events tell, until the session ends."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._titling.run)
            # Agents of a resumed session may have asked before anybody listened.
            self._questions.catch_up(group)
            async for envelope in self._events:
                for to, update in self._told(envelope):
                    await self.send(update, to=to)
                await self._heed(envelope, group)
                event = envelope.event
                seen = event.until if isinstance(event, EventsSkipped) else envelope.seq
                self._reach(max(self._seen, seen))
            self._reach(inf)
            group.cancel_scope.cancel()

    def _reach(self, seen: float) -> None:
        if seen > self._seen:
            self._seen = seen
            self._moved.set()
            self._moved = anyio.Event()

    async def _caught_up(self) -> None:
        """Wait until everything has been sent that has happened so far."""
        now = self.session.view().seq
        while self._seen < now:
            await self._moved.wait()

    def _told(self, envelope: Envelope) -> list[SentUpdate]:
        """Give the updates of an event, and what is reckoned anew by it."""
        view, event, own = self.session.view(), envelope.event, self.session.id
        updates = self._updates.of(envelope, view)
        match event:
            case ReplyFinished():
                return [*updates, (own, self._usage())]
            case ModeChanged(mode=mode):
                changed = ConfigUpdate(config_options=self.options())
                return [*updates, (own, ModeUpdate(current_mode_id=mode)), (own, changed)]
            case PromptMoved() if envelope.agent == MAIN:
                return [*updates, (own, ConfigUpdate(config_options=self.options()))]
            case _:
                return updates

    def _usage(self) -> UsageUpdate:
        filled, view = self.session.records.context(), self.session.view()
        cost = view.cost
        return UsageUpdate(
            used=filled.tokens,
            size=filled.window,
            cost=msgspec.UNSET if cost is None else Money(amount=cost, currency="USD"),
            meta={
                "prong": {
                    "cachedReadTokens": view.usage.read,
                    "cachedWriteTokens": view.usage.written,
                    "savedUsd": view.saved,
                }
            },
        )

    async def _heed(self, envelope: Envelope, group: anyio.abc.TaskGroup) -> None:
        """Do what an event calls for beside telling of it."""
        match envelope.event:
            case PermissionAsked() | QuestionAsked() as asked:
                self._questions.put(envelope.agent, asked, group)
            case RequestSettled(request_id=request_id):
                self._questions.settle(request_id)
            case TurnStarted() if envelope.agent == MAIN and self._cancelled:
                await self.session.send(Interrupt())
            case TurnFinished(why=why) if envelope.agent == MAIN:
                self._give_up_waiting()
                if why == "done":
                    self._titling.turned()
            case EventsSkipped():
                self._questions.catch_up(group)
                if not self.session.view().busy:
                    self._give_up_waiting()
            case _:
                return

    def _give_up_waiting(self) -> None:
        """Wait for no agent any more where a prompt was cancelled, now that its turn is over."""
        for prompt in self._cancelled:
            prompt.waiting.cancel()

    @property
    def _cancelled(self) -> list[OpenPrompt]:
        return [prompt for prompt in self._prompts if prompt.cancelled]

    def prompted(self) -> OpenPrompt:
        """Take note of a prompt as soon as it is read, so that a cancel behind it finds it."""
        prompt = OpenPrompt()
        self._prompts.add(prompt)
        return prompt

    async def prompt(
        self, prompt: OpenPrompt, message: Sequence[Part] | UseSkill | None
    ) -> PromptResult:
        """Say something and wait for the end of the work on it; None only waits.

        Raises RpcFailed if the turn has failed.
        """
        try:
            turn = None
            if message is not None and not prompt.cancelled:
                turn = await self.session.run(message, wait_tasks=False)
            if turn is None or turn.why in {"done", "cut_off"}:
                turn = await self._settled(prompt, turn)
            await self._caught_up()
        except SessionEnded:
            turn = Turn(text="", why="interrupted")
        finally:
            self._prompts.discard(prompt)
        why = "interrupted" if prompt.cancelled else turn.why if turn is not None else "done"
        if turn is not None and why == "error":
            raise RpcFailed(INTERNAL_ERROR, turn.detail)
        if turn is not None and turn.detail and why not in {"done", "interrupted"}:
            await self.say(f"\n*{describe_end(why, turn.detail)}*")
        return PromptResult(stop_reason=_STOPS[why], usage=_counted(self.session.usage))

    async def _settled(self, prompt: OpenPrompt, turn: Turn | None) -> Turn | None:
        """Wait for agents in the background, and for what is made of their reports."""
        if prompt.cancelled:
            return turn
        before = self.session.last
        with prompt.waiting:
            await self.session.wait_settled(commands=False)
        last = self.session.last
        return turn if last is before else last

    async def cancel(self, *prompts: OpenPrompt) -> None:
        """Stop the turn that runs, or the wait for agents, which work on in the background.

        Without prompts it is about all that are open.
        """
        self._titling.cancel()
        meant = [*(prompts or self._prompts)]
        for prompt in meant:
            prompt.cancelled = True
        outcome = await self.session.send(Interrupt())
        if not isinstance(outcome, Accepted):
            for prompt in meant:
                prompt.waiting.cancel()

    def forget(self, prompt: OpenPrompt) -> None:
        """Take note that a prompt has been answered, however."""
        self._prompts.discard(prompt)

    async def stop_child(self, session_id: str) -> None:
        """Stop the child of a session, as the editor may where it knows children."""
        await self.session.send(Stop(task_of(AgentPath(session_id.partition(":")[2]))))

    async def choose(self, command: Command) -> None:
        """Carry out what the user has chosen.

        Raises RpcFailed if that is not possible, or would cost more than the user likes.
        """
        loss, records = self.session.records.loss(command), self.session.records
        if loss is not None:
            await self.tell(loss.text)
            if loss.extra is not None and loss.extra > records.confirm_above:
                question = f"that is ${loss.extra:.2f} more; go on?"
                if not await self.agree(question):
                    raise RpcFailed(INVALID_REQUEST, "left as it was")
        outcome = await self.session.send(command)
        if not isinstance(outcome, Accepted):
            raise RpcFailed(INVALID_PARAMS, outcome.why)
        await self._caught_up()

    async def carry_out(self, command: Command) -> bool:
        """Carry out a command and say what came of it; gives whether it was accepted."""
        outlet = _EditorOutlet(self)
        accepted = await Carrier(self.session, outlet).carry_out(command)
        await outlet.flush()
        return accepted

    async def agree(self, question: str) -> bool:
        """Ask the user a question of our own."""
        call_id = self._name("agree")
        await self.send(CallStart(tool_call_id=call_id, title=question, status="pending"))
        agreed = await self._questions.agree(question, call_id)
        status = "completed" if agreed else "failed"
        await self.send(CallUpdate(tool_call_id=call_id, status=status))
        return agreed

    async def close(self, *, keep_notes: bool) -> None:
        """Stop what runs and close the session; what was told until then is sent."""
        for prompt in self._prompts:
            prompt.cancelled = True
            prompt.waiting.cancel()
        if keep_notes and self.session.records.owes_notes:
            await self.session.send(Remember())
        # What could be kept is kept; the session's end need not wait for it again.
        await self.session.send(SetMemory(on=False))
        try:
            await self.session.close()
        except (ProngError, OSError) as error:
            await self.tell(str(error), "error")


class _EditorOutlet:
    """Says what a command has led to in the editor's session."""

    def __init__(self, editor: EditorSession) -> None:
        self._editor = editor
        self._lines: list[str] = []

    def tell(self, lines: list[tuple[str, str]]) -> None:
        """Hold lines until they can be sent."""
        self._lines += [line for line, _ in lines]

    def tell_forks(self, ids: tuple[str, ...]) -> None:
        """Hold the line that forks work; the editor is told of their ends."""
        self.tell(describe_forks(ids))

    def tell_wait(self, text: str) -> AbstractContextManager[None]:
        """Hold the line that says what is waited for."""
        self.tell([(text, "dim")])
        return nullcontext()

    async def flush(self) -> None:
        """Send the lines that are held."""
        text, self._lines = "\n".join(self._lines), []
        if text.strip():
            await self._editor.say(f"{text}\n")

    async def agree(self, question: str) -> bool:
        """Ask the user, after what there is to know for that."""
        await self.flush()
        return await self._editor.agree(question)


def _counted(usage: Usage) -> TokenCount:
    return TokenCount(
        total_tokens=usage.input + usage.output,
        input_tokens=usage.uncached,
        output_tokens=usage.output,
        thought_tokens=usage.reasoning,
        cached_read_tokens=usage.read,
        cached_write_tokens=usage.written,
    )
