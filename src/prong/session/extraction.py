"""What later sessions should know is asked of the model beside the conversation.

The question rides on the conversation as it is, so it reads the cache and leaves no trace. It is
asked when there is enough that is new, before the conversation is compacted or cleared, and when
the session ends; one at a time, and only the end waits for it. The answer is a model's, so it is
taken apart into single lines, cleaned and bounded, and noted in the journal before the file is
changed: after a kill the rest is done, once.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

import anyio
import anyio.abc
import anyio.to_thread

from prong.agent import Agent
from prong.config.memory import MOST, Applied, NoteFile
from prong.cost import total
from prong.errors import NotPossibleNow, ProngError
from prong.event import MAIN, Event, MemoryKept, RequestSent, TurnFinished, Warned
from prong.journal.note import NoteChange, NotesAsked
from prong.prompt import Node, Prompt
from prong.session import sidecar
from prong.session.bus import Bus
from prong.text import load_text
from prong.tools.fence import neutral

_ENOUGH = 32_000
"""Bytes by which a conversation has grown when it is asked about before its end."""
_LONGEST = 300
"""Characters of a note."""
_LINES = 10
"""Changes that one answer may make."""
_LINE = r"(?i)(?:(ADD)|(REPLACE|DROP)\s+(\d{1,4}))\s*(?::\s*(.*))?"
_DELICATE = (
    r"(?i)-----BEGIN|\b(?:sk|pk|rk)[-_][\w-]{16,}|\bgh[pousr]_\w{20,}|\bgithub_pat_"
    r"|\bAKIA[0-9A-Z]{12,}|\bxox[abprs]-|\beyJ[\w-]{10,}\.[\w-]{10,}|\bAIza[\w-]{20,}|://[^/\s:@]+:[^/\s@]+@"
    r"|(?:password|passwd|passphrase|secret|token|api[ _-]?key)"
    r"\W{0,3}(?:is|=|:)\W{0,3}(?=\S*\d)\S{6,}"
)
"""What looks like a secret."""


class Memory:
    """Keeps notes of one session's conversation for later sessions of its project."""

    def __init__(
        self,
        agent: Agent,
        notes: NoteFile,
        group: anyio.abc.TaskGroup,
        bus: Bus,
        *,
        on: bool,
        asked: NotesAsked | None = None,
    ) -> None:
        """Nothing is asked yet; `asked` is what a resumed session has noted."""
        self._agent = agent
        self._notes = notes
        self._group = group
        self._asked = asked or NotesAsked()
        self._turn = anyio.Lock()
        self._bus = bus
        self._on = False
        self._watching = False
        self.switch(on=on)

    @property
    def on(self) -> bool:
        """Whether notes are kept."""
        return self._on

    def switch(self, *, on: bool) -> None:
        """Keep notes from now on, or no longer.

        Nobody looks on at a session that keeps none: each event would have to be told.
        """
        self._on = on
        if on and not self._watching:
            self._watching = True
            self._group.start_soon(self._watch)

    @property
    def path(self) -> str:
        """The file that Prong writes."""
        return str(self._notes.path)

    def due(self, prompt: Prompt, *, least: int = 0) -> bool:
        """Whether something was said and answered since the last time, and how much."""
        if not self.on:
            return False
        new = _new(prompt, self._asked.digest)
        kinds = {node.kind for node in new}
        return (
            "reply" in kinds
            and bool(kinds & {"user", "notice"})
            and sum(len(node.delta) for node in new) >= least
        )

    def begin(self, prompt: Prompt, *, least: int = 0) -> None:
        """Ask in the background if that is due; while another question is open, nothing is done."""
        if self.due(prompt, least=least) and not self._turn.locked():
            self._group.start_soon(self.attempt, prompt)

    async def attempt(self, prompt: Prompt) -> None:
        """Ask if that is due; a failure is told to the user, and is no reason to ask again."""
        try:
            if self.due(prompt):
                await self.keep(prompt)
        except ProngError as error:
            self._asked = NotesAsked(prompt.digest)
            self._agent.emit(Warned(text=f"nothing was kept for later sessions: {error}"))

    async def keep(self, prompt: Prompt) -> MemoryKept | None:
        """Ask what later sessions should know, and keep it; None if nothing is new.

        Raises ProviderError, BudgetSpent, ConfigError or UsageError if that is not possible.
        """
        if not self.on:
            raise NotPossibleNow(
                "notes for later sessions are off; the setting memory, --memory on or /memory on "
                "switches them on"
            )
        async with self._turn:
            if not self.due(prompt):
                return None
            shown = await anyio.to_thread.run_sync(self._notes.lines)
            rows = len(self._agent.client.billing.ledger.rows)
            question = f"{load_text('memory')}\n\n{_listed(shown)}"
            answer = await sidecar.ask(self._agent, prompt, question, purpose="memory")
            paid = [
                row
                for row in self._agent.client.billing.ledger.rows[rows:]
                if row.sidecar == "memory"
            ]
            own = [line for line, ours in shown if ours]
            changes, unsafe = read_answer(self._agent.conversation.secrets.mask(answer), own)
            # Once the answer is here it is kept whole: what cancels this came too late.
            applied = Applied()
            with anyio.CancelScope(shield=True):
                applied = await self._apply(NotesAsked(prompt.digest, changes))
            kept = MemoryKept(
                path=self.path,
                added=applied.added,
                replaced=applied.replaced,
                dropped=applied.dropped,
                cost=total(paid).cost,
                left_out=_left_out(applied, unsafe),
            )
            self._agent.emit(kept)
            return kept

    async def take_up(self) -> None:
        """Finish what a process that was killed had begun to keep."""
        if self._asked.pending:
            try:
                await self._apply(self._asked)
            except ProngError as error:
                self._agent.emit(Warned(text=f"nothing was kept for later sessions: {error}"))

    async def _apply(self, asked: NotesAsked) -> Applied:
        agent = self._agent
        agent.conversation.note(asked)
        self._asked = asked
        done = Applied()
        if asked.pending:
            await agent.conversation.recorder.sync()
            done = await anyio.to_thread.run_sync(self._notes.apply, asked.pending)
            self._asked = NotesAsked(asked.digest)
            agent.conversation.note(self._asked)
        return done

    async def _watch(self) -> None:
        """Look on at the main agent for as long as notes are kept, and ask when it is time."""
        with self._bus.subscribe(None) as events:
            async for envelope in events:
                if not self._on:
                    break
                if envelope.agent == MAIN and (least := _moment(envelope.event)) is not None:
                    self.begin(sidecar.sendable(self._agent.conversation.prompt), least=least)
        self._watching = False


def _moment(event: Event) -> int | None:
    """Say how much must be new to be asked about at an event; None if it is not the time."""
    match event:
        case RequestSent(sidecar="compaction"):
            return 0
        case TurnFinished(why="done"):
            return _ENOUGH
        case _:
            return None


def _new(prompt: Prompt, digest: str) -> list[Node]:
    """Give the entries after those that were asked about."""
    found: list[Node] = []
    node = prompt.tip
    while node is not None and node.digest.hex() != digest:
        found.append(node)
        node = node.parent
    return found


def _listed(lines: Sequence[tuple[str, bool]]) -> str:
    """Draw the lines for the model, those that may be replaced with a number."""
    number, shown = 0, list[str]()
    for line, ours in lines:
        number += ours
        shown.append(f"{number}. {_bare(line)}" if ours else line)
    return "\n".join(shown) or "(none)"


def read_answer(answer: str, own: Sequence[str]) -> tuple[tuple[NoteChange, ...], int]:
    """Read an answer into changes of lines, those that may be replaced being `own`.

    Gives also how many notes were left out because they look like a secret.
    """
    changes: list[NoteChange] = []
    unsafe = 0
    for line in answer.splitlines():
        found = re.fullmatch(_LINE, line.strip().lstrip("-*• "))
        if found is None or len(changes) == _LINES:
            continue
        kind = str(found[1] or found[2]).upper()
        text = _clean(found[4] or "")
        if text and re.search(_DELICATE, text):
            unsafe += 1
            continue
        number = int(found[3] or 0)
        if kind == "ADD" and text:
            changes.append(NoteChange(f"- {text}"))
        elif 0 < number <= len(own) and (kind == "DROP" or text):
            put = f"- {text}" if kind == "REPLACE" else ""
            changes.append(NoteChange(put, own[number - 1]))
    return tuple(changes), unsafe


def _clean(text: str) -> str:
    """Give a text of a model as one harmless line."""
    # Characters that steer, hide or turn text are no part of a note.
    seen = "".join(c if unicodedata.category(c)[0] != "C" else " " for c in text)
    line = neutral(" ".join(seen.split()))
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def _bare(line: str) -> str:
    return line.removeprefix("- ")


def _left_out(applied: Applied, unsafe: int) -> str:
    reasons = [f"{unsafe} looked like a secret"] if unsafe else []
    if applied.full:
        reasons.append(f"{applied.full} found no room in {MOST:,} characters: shorten the file")
    return "; ".join(reasons)
