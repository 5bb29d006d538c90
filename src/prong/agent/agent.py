"""One agent: what it knows, what it can do, whom it tells.

The conversation changes only through `append` and `restart`. Both write to the journal before the
new prompt becomes the agent's, so what an agent has said or done is never ahead of what is stored.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import msgspec
from msgspec.structs import replace

from prong.agent.gate import Leave
from prong.agent.hook import Hooks, Verdict
from prong.agent.inbox import Inbox
from prong.agent.limit import Limits, Spent
from prong.agent.lineage import Lineage
from prong.agent.question import OpenQuestions
from prong.agent.repeat import Repeats
from prong.cost import Ledger, Prices, Row, markable, window
from prong.cost.budget import Budget
from prong.entry import Call, Entry, Part, Results, Text, Usage, User, plain
from prong.event import Event, InputTaken, PromptMoved, Warned
from prong.host import Host
from prong.journal.read import Replay
from prong.journal.recorder import Recorder
from prong.prompt import Node, Prompt
from prong.provider import Provider
from prong.provider.secret import Secrets
from prong.tools.base import Context, Tool
from prong.tools.kit import Kit
from prong.tools.policy import PolicyBox
from prong.wire import Ended, Ttl

COMPACT_AT = 0.8
"""Share of the context at which a conversation is compacted, if settings say nothing else."""


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


class Watch(Protocol):
    """Looks on at the requests of one agent: when each may be sent, what it wrote and what it cost.

    A sidecar's request is not held up.
    """

    async def before(self) -> None:
        """Wait until the next request may be sent."""

    def began(self) -> None:
        """Note that a response has begun: what its request wrote can be read from now on."""

    def paid(self, agent: Agent, row: Row, ended: Ended | None, at: float) -> None:
        """Note what a request, sent `at` a time, has cost; without an end it gave no whole reply.

        The agent still remembers the request before it as its last.
        """


class NoWatch:
    """Nobody looks on."""

    async def before(self) -> None:
        """Hold nothing up."""

    def began(self) -> None:
        """Take no note."""

    def paid(self, agent: Agent, row: Row, ended: Ended | None, at: float) -> None:
        """Take no note."""


class Gate(Protocol):
    """Gives leave for calls in the place of an agent's own rules, hooks and user."""

    async def leave(self, agent: Agent, call: Call, tool: Tool, args: Any) -> Leave:
        """Say whether a call may run, and as what."""
        ...

    async def outside(self, agent: Agent, leave: Leave, why: str) -> Leave | None:
        """Say whether a call that failed for its sandbox may run again without; None if not."""
        ...


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
    questions: OpenQuestions
    recorder: Recorder
    ledger: Ledger
    prices: Prices
    emit: Callable[[Event], None]
    limits: Limits = field(default_factory=Limits)
    budget: Budget = field(default_factory=Budget)
    """What it and everything it starts may spend."""
    inbox: Inbox = field(default_factory=Inbox)
    ttl: Ttl | None = None
    compact_at: float = COMPACT_AT
    """Share of the context at which to compact; 0 turns it off."""
    context_tokens: int | None = None
    """Tokens the model can read, if settings say so."""
    max_output: int | None = None
    """Tokens one reply may have, if settings say so."""
    last: Sent = field(default_factory=Sent)
    """The last request of this lineage that was answered."""
    base: Node | None = None
    """The fork base, for as long as the agent lives."""
    diagnose: bool = False
    """Whether to ask the provider for its own cache diagnostics."""
    clock: Callable[[], float] = time.time
    """Seconds since the epoch."""
    watch: Watch = field(default_factory=NoWatch)
    """Is told of every request of this agent."""
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
    gate: Gate | None = None
    """Gives leave for its calls, where that is done elsewhere; None is here, by its own rules."""

    def begin_run(self) -> None:
        """Forget what ended the run before, and what was repeated in it."""
        self.halted = self.finale = ""
        self.repeats.forget()

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
        self.extend(self.prompt.append(*(self._masked(entry) for entry in entries)))

    def extend(self, prompt: Prompt) -> None:
        """Go on with a prompt that extends the conversation, storing it first."""
        assert prompt.extends(self.prompt), "a conversation only grows"
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
        self.base, self.last = None, Sent(at=self.last.at)
        self.repeats.forget()
        self.emit(
            PromptMoved(
                reason=reason,
                detail=detail,
                before=len(before),
                after=len(prompt),
                model=prompt.head.model,
            )
        )

    def end_with(self, text: str) -> None:
        """Let the run end with a text after the calls at hand."""
        self.finale = text

    def connect(self, provider: Provider) -> None:
        """Let another provider answer from now on."""
        self.provider = provider

    def answered(self, sent: Sent) -> None:
        """Remember a request that was answered."""
        self.last = sent

    def move(self, host: Host, cwd: str, policy: PolicyBox) -> None:
        """Work in another place from now on, by the rules that hold there."""
        self.context.move(host, cwd, policy.keeps_back)
        self.policy = policy

    def take_inbox(self) -> int:
        """Put what waits before the model; gives how many entries that were."""
        items = self.inbox.drain()
        if items:
            self.repeats.forget()
        for entry, taken in items:
            self.append(entry)
            self.emit(InputTaken(kind=entry.kind, text=plain(entry.parts)))
            if taken is not None:
                taken()
        return len(items)

    def spent(self, turns: int) -> Spent | None:
        """Say which bound has been reached or cannot be kept; asked before every request."""
        if spent := self.limits.spent(turns):
            return spent
        why = self.budget.spent() or self._unpriced()
        return None if why is None else Spent("budget", why)

    def _unpriced(self) -> str | None:
        model, left = self.prompt.head.model, self.budget.left().usd
        if left is None or self.prices.of(model) is not None:
            return None
        return (
            f"the budget, of which ${left:.4f} are left, cannot be kept: the price of {model} is "
            "unknown; add it to prices.json or drop the budget"
        )

    @property
    def window(self) -> int:
        """How many tokens the model can read."""
        known = self.provider.trait.context
        return self.context_tokens or known or window(self.prompt.head.model)

    @property
    def tokens(self) -> int:
        """About how many tokens the next request has; what was not counted yet is guessed."""
        counted = self.last.usage.input + self.last.usage.output
        return counted + max(0, len(self.prompt) - self.last.length) // 4


def recalled(replay: Replay, path: str, prompt: Prompt) -> Sent:
    """Give the last request of an agent's conversation, as a journal has it."""
    for paid in reversed(replay.requests):
        row, then = paid.row, replay.known.get(paid.row.digest)
        if row.agent == path and not (row.sidecar or row.broken) and then:
            if not prompt.extends(then):
                break
            return Sent(
                node=markable(then.tip),
                usage=row.usage,
                length=len(then),
                response_id=row.response_id,
                at=paid.at - row.latency,
            )
    return Sent()
