"""What an agent and its model have said to each other, stored before it counts.

A conversation changes only through `append`, `extend` and `restart`. All write to the journal
before the new prompt becomes the agent's, so what an agent has said or done is never ahead of what
is stored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from prong.entry import Entry, Part, Results, Text, Usage, User
from prong.event import Event, PromptMoved
from prong.ids import AgentPath
from prong.journal.note import Note
from prong.journal.recorder import Recorder
from prong.journal.replay import Replay
from prong.prompt import Node, Prompt
from prong.provider import Secrets

Reason: TypeAlias = Literal["compaction", "model", "tools", "clear"]
"""Why a conversation goes on under another prompt."""


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """A request that was answered: what it left behind for the next one."""

    node: Node | None = None
    """Where it ended: a cache entry may begin there."""
    usage: Usage = Usage()
    length: int = 0
    """Open bytes of the prompt that `usage` speaks of."""
    response_id: str = ""
    """The provider's id of the reply."""
    at: float = 0.0
    """When it was sent, on the agent's clock; 0 if none was."""
    recalled: bool = False
    """Whether an earlier process sent it: what keeps its prompt now may be another."""


class Conversation(msgspec.Struct, kw_only=True):
    """One conversation, and where it is stored and told of."""

    path: AgentPath
    """The agent's, under which it is stored."""
    prompt: Prompt
    recorder: Recorder
    emit: Callable[[Event], None]
    secrets: Secrets = msgspec.field(default_factory=Secrets)
    """Keys, which are masked in whatever comes from outside."""
    last: Sent = msgspec.field(default_factory=Sent)
    """The last request of this lineage that was answered."""
    base: Node | None = None
    """The fork base, for as long as it is part of the prompt."""

    @property
    def tokens(self) -> int:
        """About how many tokens the next request has; what was not counted yet is guessed."""
        return next_tokens(self.prompt, self.last)

    def store(self, *notes: Note) -> None:
        """Store the conversation as it begins, and values beside it."""
        self.recorder.keep(self.path, self.prompt)
        self.note(*notes)

    def append(self, *entries: Entry) -> None:
        """Add entries, storing them first; keys in them are masked.

        Raises JournalFull if they cannot be stored; the conversation then is as it was.
        """
        self._take(self.prompt.append(*(self._masked(entry) for entry in entries)))

    def extend(self, prompt: Prompt) -> None:
        """Go on with a prompt that extends the conversation, storing it first."""
        assert prompt.extends(self.prompt), "a conversation only grows"
        self._take(prompt)

    def _take(self, prompt: Prompt) -> None:
        self.recorder.keep(self.path, prompt)
        self.prompt = prompt

    def restart(self, prompt: Prompt, *, reason: Reason, detail: str) -> None:
        """Take a new prompt in place of the old one, and say why."""
        self.recorder.keep(self.path, prompt, reason=reason)
        before, self.prompt = self.prompt, prompt
        self.base, self.last = None, Sent(at=self.last.at)
        self.emit(
            PromptMoved(
                reason=reason,
                detail=detail,
                before=len(before),
                after=len(prompt),
                model=prompt.head.model,
            )
        )

    def answered(self, sent: Sent) -> None:
        """Remember a request that was answered."""
        self.last = sent

    def note(self, *notes: Note) -> None:
        """Store values beside the conversation; the latest of a kind counts."""
        self.recorder.note(self.path, *notes)

    def _masked(self, entry: Entry) -> Entry:
        """Hide keys in results and notices; what the model or the user said stays as it is."""
        match entry:
            case Results(results=results) if self.secrets.values:
                shown = (replace(one, parts=self._hidden(one.parts)) for one in results)
                return Results(tuple(shown))
            case User(kind=kind) if self.secrets.values and kind != "user":
                return replace(entry, parts=self._hidden(entry.parts))
            case _:
                return entry

    def _hidden(self, parts: tuple[Part, ...]) -> tuple[Part, ...]:
        mask = self.secrets.mask
        return tuple(Text(mask(p.text)) if isinstance(p, Text) else p for p in parts)


def next_tokens(prompt: Prompt, last: Sent) -> int:
    """Say about how many tokens the request after `last` has, if it sends a prompt."""
    counted = last.usage.input + last.usage.output
    return counted + max(0, len(prompt) - last.length) // 4


def recalled(replay: Replay, path: str, prompt: Prompt) -> Sent:
    """Give the last request of an agent's conversation, as a journal has it."""
    for paid in reversed(replay.requests):
        row, then = paid.row, replay.known.get(paid.row.digest)
        if row.agent == path and row.is_turn and then:
            if not prompt.extends(then):
                break
            return Sent(
                node=then.tip,
                usage=row.usage,
                length=len(then),
                response_id=row.response_id,
                at=paid.at - row.latency,
                recalled=True,
            )
    return Sent()
