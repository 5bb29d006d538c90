"""The turns of one agent, one after the other: of the main agent, of a child, of a teammate.

A turn runs the loop until there is nothing more to do. This is the one place where any failure of
it is caught, so that it is always seen and whoever runs the agent lives on. An interrupt cancels
the scope of the turn and nothing else; a cancellation from outside passes through.
"""

from __future__ import annotations

import traceback
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Literal, TypeAlias

import anyio
import msgspec

from prong.agent import loop
from prong.agent.agent import Agent
from prong.agent.answer import awaits_reply
from prong.cost import total
from prong.entry import Reply, Text, Usage, User
from prong.errors import JournalError, Overloaded, ProngError, ProviderError, RateLimited
from prong.event import TurnFinished, TurnStarted, Warned
from prong.journal.note import FilesRead, FolderEntered, TodosKept, TurnSettled
from prong.prompt import Prompt
from prong.tools.structured import StructuredOutput

TurnEnd: TypeAlias = Literal[
    "done", "interrupted", "limit", "budget", "refused", "cut_off", "loop", "error"
]


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """How a turn ended, and what it gave."""

    text: str
    """The text of the last reply."""
    why: TurnEnd
    detail: str = ""
    """Why it ended so, where that needs words."""
    turns: int = 0
    """Requests that were made for it."""
    usage: Usage = Usage()
    cost: float | None = None
    """In dollars; None when the model's price is unknown."""
    structured: bytes | None = None
    """The answer as JSON, if a schema was given and the model has answered."""

    @property
    def ok(self) -> bool:
        """Whether the agent came to an end by itself."""
        return self.why == "done"


class Life:
    """Runs the turns of one agent."""

    def __init__(
        self,
        agent: Agent,
        *,
        settled: str = "",
        fallback: Callable[[ProviderError], bool] | None = None,
    ) -> None:
        """Nothing runs before `live` does; `settled` is what a resumed session has recorded.

        `fallback` lets another model answer where the agent's own is overloaded, if it can.
        """
        self._agent = agent
        self._fallback = fallback
        self._settled = settled
        """The prompt at the end of the last turn that came to one."""
        self._living = anyio.CancelScope()
        self._floor = anyio.Lock()
        """Held by whoever works on the conversation: a turn, or a compaction by command."""
        self._scope: anyio.CancelScope | None = None
        self._rested = anyio.Event()
        self._stored = _beside(agent)
        tool = agent.kit.get(StructuredOutput.name)
        self._answer = tool if isinstance(tool, StructuredOutput) else None
        """The tool that takes an answer by a schema, if one is wanted."""
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
        return self._living.cancel_called

    async def live(
        self,
        *,
        until: Callable[[Turn], Awaitable[bool]],
        at_once: bool = False,
        after: Turn | None = None,
    ) -> Turn | None:
        """Run turns whenever something waits, until a turn was the last; None if it was stopped.

        After every turn, and after the one that ended before a restart if it is given as `after`,
        `until` says whether that was all; it may put something before the agent to have it go on.
        With `at_once` nothing is waited for: the conversation itself wants a reply.
        """
        turn = after
        with self._living:
            while turn is None or not await until(turn):
                if not at_once:
                    await self._agent.inbox.wait()
                at_once = False
                async with self._floor:
                    # Woken just before all this is to end: no checkpoint lies between.
                    if self._living.cancel_called:
                        return None
                    turn = await self._one_turn()
            return turn
        return None

    async def go_on(self, *, until: Callable[[Turn], Awaitable[bool]]) -> Turn | None:
        """Live from where the agent stands: at a reply that is due, or after its last turn."""
        agent = self._agent
        ended = None if agent.inbox else said(agent.conversation.prompt)
        return await self.live(
            until=until, at_once=awaits_reply(agent.conversation.prompt), after=ended
        )

    def rested(self) -> Turn | None:
        """Give the turn that an earlier process has ended with, if nothing has come since."""
        prompt = self._agent.conversation.prompt
        if self._agent.inbox or prompt.tip is None:
            return None
        over = Turn(text="", why="done") if prompt.digest == self._settled else None
        return said(prompt) or over

    def take_up(self) -> str | None:
        """Begin the turn that a killed process, or an error, has left without an answer.

        Gives what the user had said, empty if it was not the user; None if nothing is left.
        """
        prompt = self._agent.conversation.prompt
        node = prompt.tip
        if node is None or node.kind in {"reply", "summary"} or prompt.digest == self._settled:
            return None
        last = next((one for one in reversed(prompt.nodes()) if one.kind == "user"), None)
        said = None if last is None else prompt.head.dialect.read(last.role, last.data)
        text = said.text if isinstance(said, User) else ""
        self._agent.inbox.recall(text)
        return text

    async def settle(self) -> None:
        """Store that the conversation, as it stands now, waits for no reply."""
        self._settled = self._agent.conversation.prompt.digest
        await self._store()

    def interrupt(self) -> bool:
        """Stop what runs, if something does."""
        if self._scope is None:
            return False
        self._scope.cancel()
        return True

    async def stop(self) -> None:
        """Let no turn begin any more, and wait for the end of the one that runs."""
        # Not only the turn that runs: what is put into the inbox from now on waits for a resume.
        self._living.cancel()
        while self._scope is not None:
            await self._rested.wait()

    @asynccontextmanager
    async def hold(self) -> AsyncGenerator[anyio.CancelScope, None]:
        """Keep turns away while somebody else works on the conversation; can be interrupted."""
        async with self._floor:
            try:
                with anyio.CancelScope() as self._scope:
                    yield self._scope
            finally:
                self._rest()

    def _rest(self) -> None:
        self._scope = None
        rested, self._rested = self._rested, anyio.Event()
        rested.set()

    async def _one_turn(self) -> Turn:
        rows = len(self._agent.client.billing.ledger.of(self._agent.path))
        self._agent.emit(TurnStarted(text=self._agent.inbox.text))
        ending: tuple[str, TurnEnd, str] = ("", "interrupted", "the user stopped it")
        try:
            with anyio.CancelScope() as self._scope:
                ending = await self._attempt()
        finally:
            # Also when everything is cancelled: whoever waits for the end waits for this.
            with anyio.CancelScope(shield=True):
                try:
                    self.last = await self._end_turn(rows, *ending)
                except BaseException:
                    self._rest()
                    raise
        assert self.last is not None
        return self.last

    async def _end_turn(self, rows: int, text: str, why: TurnEnd, detail: str) -> Turn:
        agent = self._agent
        if why == "interrupted":
            self._mark_interrupted()
        if why != "error":
            self._settled = agent.conversation.prompt.digest
        agent.policy.give_back()
        await self._store()
        made = agent.client.billing.ledger.of(agent.path)[rows:]
        spent = total(made)
        turns = sum(row.is_turn and row.agent == agent.path for row in made)
        turn = self.last = Turn(
            text=text,
            why=why,
            detail=detail,
            turns=turns,
            usage=spent.usage,
            cost=spent.cost,
            structured=self._answer.answer if self._answer is not None else None,
        )
        self._rest()
        self.ended += 1
        agent.emit(TurnFinished(text=text, why=why, detail=detail, turns=turns))
        return turn

    async def _attempt(self) -> tuple[str, TurnEnd, str]:
        try:
            try:
                stopped = await loop.run(self._agent)
            except (Overloaded, RateLimited) as error:
                if self._fallback is None or not self._fallback(error):
                    raise
                stopped = await loop.run(self._agent)
        except ProngError as error:
            return "", "error", str(error)
        except Exception as error:  # noqa: BLE001 - a failure is always seen, and ends one turn only
            log = self._report(error)
            return "", "error", f"a failure inside Prong ({error!r}); details are in {log}"
        if stopped.why == "done" and self._owes_answer:
            why = "the model ended without an answer of the JSON schema"
            return stopped.text, "error", why
        return stopped.text, stopped.why, stopped.detail

    @property
    def _owes_answer(self) -> bool:
        return self._answer is not None and self._answer.answer is None

    def _mark_interrupted(self) -> None:
        """Tell the model, with the next message, that its turn was stopped."""
        who = (
            "The turn was stopped"
            if self._agent.lineage.parent
            else "The user interrupted the turn"
        )
        with suppress(JournalError):
            self._agent.conversation.append(User((Text(f"[{who} here.]"),), "reminder"))

    async def _store(self) -> None:
        """Store what belongs to the agent beside its conversation, as far as it has changed."""
        agent = self._agent
        try:
            now = _beside(agent)
            fresh = [note for note, old in zip(now, self._stored, strict=True) if note != old]
            agent.conversation.note(*fresh, TurnSettled(self._settled))
            self._stored = now
            await agent.conversation.recorder.sync()
        except JournalError as error:
            agent.emit(Warned(text=str(error)))
        self.snapshot = agent.conversation.prompt

    def _report(self, error: BaseException) -> str:
        trace = "".join(traceback.format_exception(error)).encode(errors="replace")
        try:
            return self._agent.context.host.storage.write("failure.txt", trace)
        except OSError as full:
            return f"no file, which could not be written ({full})"


def _beside(agent: Agent) -> tuple[FilesRead, TodosKept, FolderEntered]:
    """Say what an agent has beside its conversation, to go on with after a restart."""
    context = agent.context
    reads = FilesRead(dict(context.reads.hashes))
    return reads, TodosKept(context.todos), FolderEntered(context.cwd)


def said(prompt: Prompt) -> Turn | None:
    """Read the end of a conversation as the end of a turn, if it is one."""
    if prompt.tip is None or prompt.tip.kind != "reply":
        return None
    reply = prompt.head.dialect.read(prompt.tip.role, prompt.tip.data)
    assert isinstance(reply, Reply)
    return None if reply.calls else Turn(text=reply.text, why="done")
