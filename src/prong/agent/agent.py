"""One agent: what it knows, what it can do, whom it tells.

The conversation changes only through `append` and `restart`. Both write to the journal before the
new prompt becomes the agent's, so what an agent has said or done is never ahead of what is stored.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal

from msgspec.structs import replace

from prong.agent.desk import Desk
from prong.agent.hook import Hooks, Verdict
from prong.agent.inbox import Inbox
from prong.agent.limit import Limits, Spent
from prong.agent.lineage import Lineage
from prong.agent.repeat import Repeats
from prong.cost import Ledger, Prices, Row, markable, window
from prong.cost.budget import Purse
from prong.entry import Entry, Part, Results, Text, Usage, User
from prong.event import Event, PromptMoved, Warned
from prong.journal.read import Replay
from prong.journal.recorder import Recorder
from prong.prompt import Node, Prompt
from prong.provider import Provider, trait
from prong.provider.secret import Secrets
from prong.tools.base import Context
from prong.tools.kit import Kit
from prong.tools.policy import PolicyBox
from prong.wire import Ended, Ttl


@dataclass(slots=True, kw_only=True)
class Agent:
    """One agent."""

    path: str
    """`main`, or the parent's path and a name."""
    lineage: Lineage
    """Where it comes from; decides what it may do."""
    prompt: Prompt
    provider: Provider
    kit: Kit
    context: Context
    policy: PolicyBox
    hooks: Hooks
    desk: Desk
    recorder: Recorder
    ledger: Ledger
    prices: Prices
    emit: Callable[[Event], None]
    limits: Limits = field(default_factory=Limits)
    purse: Purse = field(default_factory=Purse)
    """What it and everything it starts may spend."""
    inbox: Inbox = field(default_factory=Inbox)
    ttl: Ttl | None = None
    compact_at: float = 0.8
    """Share of the context at which to compact; 0 turns it off."""
    context_tokens: int | None = None
    """Tokens the model can read, if settings say so."""
    max_output: int | None = None
    """Tokens one reply may have, if settings say so."""
    sent: Node | None = None
    """Where the last request of this lineage ended."""
    base: Node | None = None
    """The fork base, for as long as the agent lives."""
    last_usage: Usage = field(default_factory=Usage)
    last_length: int = 0
    """Open bytes of the prompt that `last_usage` speaks of."""
    last_id: str = ""
    """The provider's id of the last reply."""
    last_at: float = 0.0
    """When the last request was sent, on `clock`."""
    diagnose: bool = False
    """Whether to ask the provider for its own cache diagnostics."""
    clock: Callable[[], float] = time.time
    """Seconds since the epoch."""
    gate: Callable[[], Awaitable[None]] | None = None
    """Waited for before the next request is sent, once."""
    on_began: Callable[[], None] | None = None
    """Called when a response has begun: its cache entries can be read from then on."""
    on_paid: Callable[[Row, Ended | None], None] | None = None
    """Called for every request that cost something; without an end if there was no whole reply."""
    finale: str = ""
    """Text with which the run ends after the calls at hand, if a tool has set it."""
    secrets: Secrets = field(default_factory=Secrets)
    """Keys, which are masked in whatever comes from outside."""
    halted: str = ""
    """Why the run ends after the calls at hand, if a hook wants it."""
    repeats: Repeats = field(default_factory=Repeats)
    """What it has called, for the guard against loops."""
    refusals: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """Calls that were refused for good, by name and arguments."""

    def heed(self, verdict: Verdict) -> Verdict:
        """Tell the user what hooks have to say, and note if the run must end."""
        for text in verdict.warnings:
            self.emit(Warned(text=text))
        self.halted = self.halted or verdict.stop or ""
        return verdict

    def append(self, *entries: Entry) -> None:
        """Extend the conversation, storing the entries first; keys in them are masked.

        Raises JournalFull if they cannot be stored; the conversation then is as it was.
        """
        prompt = self.prompt.append(*(self._masked(entry) for entry in entries))
        self.recorder.keep(self.path, prompt)
        self.prompt = prompt

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

    def restart(
        self,
        prompt: Prompt,
        *,
        reason: Literal["compaction", "model", "tools", "clear"],
        detail: str,
    ) -> None:
        """Take a new prompt in place of the old one, and say why."""
        self.recorder.keep(self.path, prompt, reason=reason)
        before, self.prompt = self.prompt, prompt
        self.sent = self.base = None
        self.last_usage, self.last_length, self.last_id = Usage(), 0, ""
        self.repeats.forget()
        self.emit(PromptMoved(reason=reason, detail=detail, before=len(before), after=len(prompt)))

    def recall(self, replay: Replay) -> None:
        """Remember the last request: what was counted, when, and where it ended."""
        for paid in reversed(replay.requests):
            row, prompt = paid.row, replay.known.get(paid.row.digest)
            if row.agent == self.path and not (row.sidecar or row.broken) and prompt:
                if self.prompt.extends(prompt):
                    self.last_usage, self.last_length = row.usage, len(prompt)
                    self.last_id, self.last_at = row.response_id, paid.at - row.latency
                    self.sent = markable(prompt.tip)
                return

    def take_inbox(self) -> int:
        """Put what waits before the model; gives how many entries that were."""
        items = self.inbox.drain()
        if items:
            self.repeats.forget()
        for entry, taken in items:
            self.append(entry)
            if taken is not None:
                taken()
        return len(items)

    def spent(self, turns: int) -> Spent | None:
        """Say which bound has been reached or cannot be kept; asked before every request."""
        if spent := self.limits.spent(turns, self.ledger):
            return spent
        why = self.purse.spent() or self._unpriced()
        return None if why is None else Spent("budget", why)

    def _unpriced(self) -> str | None:
        model, left = self.prompt.head.model, self.purse.left().usd
        if left is None or self.prices.of(model) is not None:
            return None
        return (
            f"the budget, of which ${left:.4f} are left, cannot be kept: the price of {model} is "
            "unknown; add it to prices.json or drop the budget"
        )

    @property
    def window(self) -> int:
        """How many tokens the model can read."""
        known = trait(self.provider).context
        return self.context_tokens or known or window(self.prompt.head.model)

    @property
    def tokens(self) -> int:
        """About how many tokens the next request has; what was not counted yet is guessed."""
        counted = self.last_usage.input + self.last_usage.output
        return counted + max(0, len(self.prompt) - self.last_length) // 4
