"""Drives the main agent: one turn after the other, whenever something waits for it.

This is the supervisor of the main agent: the one place where any failure of a turn is caught, so
that it is always seen and the session lives on. An interrupt cancels the scope of the turn and
nothing else.
"""

from __future__ import annotations

import traceback
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Literal, TypeAlias

import anyio
import msgspec

from prong.agent import Agent, loop
from prong.cost import total
from prong.entry import Text, Usage, User, plain
from prong.errors import JournalError, ProngError
from prong.event import TurnFinished, TurnStarted, Warned
from prong.host import make_private
from prong.journal.note import FilesRead, FolderEntered, TodosKept, TurnSettled
from prong.prompt import Prompt
from prong.session.bus import Bus
from prong.team.outbox import Outbox
from prong.tools.structured import StructuredOutput

Why: TypeAlias = Literal[
    "done", "interrupted", "limit", "budget", "refused", "cut_off", "loop", "error"
]


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """How a turn ended, and what it gave."""

    text: str
    """The text of the last reply."""
    why: Why
    detail: str = ""
    """Why it ended so, where that needs words."""
    turns: int = 0
    """Requests that were made for it."""
    usage: Usage = Usage()
    cost: float | None = None
    """In dollars; None when the model's price is unknown."""

    @property
    def ok(self) -> bool:
        """Whether the agent came to an end by itself."""
        return self.why == "done"


class Driver:
    """Runs the turns of a session's main agent."""

    def __init__(self, agent: Agent, bus: Bus, outbox: Outbox, *, settled: str) -> None:
        """Nothing runs before `drive` does; `settled` is what a resumed session has recorded."""
        self._agent = agent
        self.bus = bus
        self._outbox = outbox
        self._settled = settled
        """The prompt at the end of the last turn that came to one."""
        self._driving = anyio.CancelScope()
        self._floor = anyio.Lock()
        """Held by whoever works on the conversation: a turn, or a compaction by command."""
        self._scope: anyio.CancelScope | None = None
        self.last: Turn | None = None
        """The last turn that ended."""
        self.ended = 0
        """How many turns have ended."""
        self.snapshot: Prompt | None = None
        """The conversation as it stood then."""

    @property
    def working(self) -> bool:
        """Whether a turn or a compaction runs."""
        return self._scope is not None

    @property
    def stopped(self) -> bool:
        """Whether no turn will begin any more."""
        return self._driving.cancel_called

    def take_up(self) -> str | None:
        """Begin the turn that a killed process, or an error, has left without an answer.

        Gives what the user had said, empty if it was not the user; None if nothing is left.
        """
        prompt = self._agent.prompt
        node = prompt.tip
        if node is None or node.kind in {"reply", "summary"} or prompt.digest == self._settled:
            return None
        last = next((one for one in reversed(prompt.nodes()) if one.kind == "user"), None)
        said = None if last is None else prompt.head.dialect.read(last.role, last.data)
        text = plain(said.parts) if isinstance(said, User) else ""
        self._agent.inbox.recall(text)
        return text

    def interrupt(self) -> bool:
        """Stop what runs, if something does."""
        if self._scope is None:
            return False
        self._scope.cancel()
        return True

    async def drive(self) -> None:
        """Run turns whenever something waits; runs in the session's task group to its end."""
        with self._driving:
            while not self._driving.cancel_called:
                await self._agent.inbox.wait()
                async with self._floor:
                    # Woken just before the session began to close: no checkpoint lies between.
                    if not self._driving.cancel_called:
                        await self._one_turn()

    async def stop(self) -> None:
        """Let no turn begin any more, and wait for the end of the one that runs."""
        # Not only the turn that runs: what is put into the inbox from now on waits for a resume.
        self._driving.cancel()
        await self.bus.until(lambda: self._scope is None)

    @asynccontextmanager
    async def hold(self) -> AsyncGenerator[anyio.CancelScope, None]:
        """Keep turns away while somebody else works on the conversation; can be interrupted."""
        async with self._floor:
            try:
                with anyio.CancelScope() as self._scope:
                    yield self._scope
            finally:
                self._scope = None

    async def _one_turn(self) -> None:
        rows = len(self._agent.ledger.rows)
        self._agent.emit(TurnStarted(text=self._agent.inbox.text))
        ending: tuple[str, Why, str] = ("", "interrupted", "the user stopped it")
        try:
            with anyio.CancelScope() as self._scope:
                ending = await self._attempt()
        finally:
            # Also when the whole session is cancelled: whoever closes it waits for this.
            with anyio.CancelScope(shield=True):
                await self._end_turn(rows, *ending)

    async def _end_turn(self, rows: int, text: str, why: Why, detail: str) -> None:
        agent = self._agent
        if why == "interrupted":
            self._mark_interrupted()
        if why != "error":
            self._settled = agent.prompt.digest
        await self._store()
        made = agent.ledger.rows[rows:]
        spent = total(made)
        turns = sum(not (row.sidecar or row.broken) and row.agent == agent.path for row in made)
        self.last = Turn(
            text=text, why=why, detail=detail, turns=turns, usage=spent.usage, cost=spent.cost
        )
        self._scope = None
        self.ended += 1
        agent.emit(TurnFinished(text=text, why=why, detail=detail, turns=turns))

    async def _attempt(self) -> tuple[str, Why, str]:
        try:
            stopped = await loop.run(self._agent)
        except ProngError as error:
            return "", "error", str(error)
        except Exception as error:  # noqa: BLE001 - the supervisor: a failure is always seen
            log = self._report(error)
            return "", "error", f"a failure inside Prong ({error!r}); details are in {log}"
        if stopped.why == "done" and self._owes_answer:
            why = "the model ended without an answer of the JSON schema"
            return stopped.text, "error", why
        return stopped.text, stopped.why, stopped.detail

    @property
    def _owes_answer(self) -> bool:
        tool = self._agent.kit.get(StructuredOutput.name)
        return isinstance(tool, StructuredOutput) and tool.answer is None

    def _mark_interrupted(self) -> None:
        """Tell the model, with the next message, that its turn was stopped."""
        with suppress(JournalError):
            note = "[The user interrupted the turn here.]"
            self._agent.append(User((Text(note),), "reminder"))

    async def _store(self) -> None:
        """Store what belongs to the agent beside its conversation."""
        agent, context = self._agent, self._agent.context
        try:
            agent.recorder.note(agent.path, FilesRead(context.reads.hashes))
            agent.recorder.note(agent.path, TodosKept(context.todos))
            agent.recorder.note(agent.path, FolderEntered(context.cwd))
            agent.recorder.note(agent.path, TurnSettled(self._settled))
            await agent.recorder.sync()
            await self._outbox.sync()
        except JournalError as error:
            agent.emit(Warned(text=str(error)))
        self.snapshot = agent.prompt

    def _report(self, error: BaseException) -> str:
        path = Path(self._agent.context.storage) / "failure.txt"
        try:
            make_private(path.parent)
            path.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
        except OSError as full:
            return f"no file, which could not be written ({full})"
        return str(path)
