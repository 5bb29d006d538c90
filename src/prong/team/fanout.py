"""A fan-out: siblings of one base, planned by what is known of their parent's cache.

How much of the parent's prompt is still cached decides whether its dispatching reply is kept and
who sends first. Beside the plan stands an estimate of the other ways, fresh agents with a brief and
going on alone, so that a fan-out that clearly costs more can be warned of or refused.

A provider's cache entry can be read only once the response that wrote it has begun. If a large part
of the base is not cached, one child leads and the rest wait for its first event; if the leader
fails before that, the next one leads. A child that comes so late that the entry has died in the
meantime finds the gate closed again, and leads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Annotated, Literal, TypeAlias

import anyio
import msgspec

from prong.agent import Agent, Sent
from prong.agent.observer import Prediction
from prong.agent.request import prewarm
from prong.cost import Prices
from prong.cost.breakeven import BreakEven, Scenario, WayCost, weigh_dispatch
from prong.cost.cache import CacheRule
from prong.cost.mark import LIFETIME
from prong.cost.receipt import FanEstimate
from prong.cost.schedule import Dispatch, FanPlan, Schedule
from prong.entry import Call, CallId
from prong.errors import ProngError
from prong.event import Warned
from prong.ids import TaskId
from prong.prompt import Prompt
from prong.team import fork
from prong.text import load_text

_BYTES = 4.0
"""Of text, for each token, where nothing better is known."""

_CLEARLY = 0.2
"""Share of a fork's cost that another way must save before anybody is told."""

_PARENT_WAITS = 10.0
"""Seconds that a parent waits at most for the first event of a child."""

Advice: TypeAlias = Literal["off", "warn", "choose"]
"""What happens when another way is clearly cheaper than a fork."""


class ForkSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the user may set about forks."""

    dispatch: Dispatch | None = None
    """Keep or drop the dispatching reply; None chooses by cost."""
    schedule: Schedule | None = None
    """How siblings start; None chooses by cost."""
    turns: Annotated[int, msgspec.Meta(ge=1)] = 3
    """Requests a child is expected to make, its first included, for the choices above."""
    break_even: Advice = "off"
    """Whether a fork that clearly costs more than another way is warned of, or refused."""


class FanOut:
    """A fan-out: one base, one plan, and the gate before the first requests."""

    def __init__(
        self,
        estimate: BreakEven,
        base: Prompt,
        *,
        rule: CacheRule,
        tokens: int,
        carrier: CallId | None = None,
        used_at: float = 0.0,
        lives: float = math.inf,
        clock: Callable[[], float],
    ) -> None:
        """Take what was planned and estimated, and the base, which is of so many `tokens`.

        With a `carrier`, the last call of the dispatching reply, directives travel inside its
        result: plain text would make the model drop its earlier thinking. `used_at` says when
        a request last used the base, and `lives` for how many seconds an entry may be counted on
        after that; without bound if it is not to be waited for.
        """
        plan = estimate.plan
        if plan.size > 1:
            base.flatten()
        self.base = base
        self.estimate = estimate
        self.rule = rule
        """How the provider keeps what siblings send."""
        self.tokens = tokens
        self.carrier = carrier
        self.running: set[str] = set()
        """Task ids of siblings that have not ended."""
        self.joined: list[str] = []
        """Task ids of all siblings, those that have ended too."""
        self.predictions: dict[str, Prediction] = {}
        """What the first request of each should find, by task id, as it was let in."""
        self._lives = lives
        self._clock = clock
        self._used_at = used_at
        self._open = plan.schedule == "at_once" or plan.size < 2
        self._leader = TaskId("")
        self._readable = plan.cached
        self._changed = anyio.Event()

    @property
    def first(self) -> str:
        """Task id of the first child, by which the fan-out is known; empty before it."""
        return self.joined[0] if self.joined else ""

    @property
    def plan(self) -> FanPlan:
        """How the siblings start, and the numbers it was chosen by."""
        return self.estimate.plan

    @property
    def stored(self) -> FanEstimate:
        """What is kept of it, to be compared with what it did cost."""
        return FanEstimate(base=self.base.digest, size=self.plan.size, estimate=self.estimate)

    def join(self, task_id: TaskId) -> None:
        """Take a child in: its siblings' notices may wait for its end."""
        self.running.add(task_id)
        self.joined.append(task_id)

    async def admit(self, task_id: TaskId, agent: Agent) -> None:
        """Wait until a child, with that agent, may send its first request."""
        while not self._may_go(task_id):
            await self._changed.wait()
        if self._leader == task_id and self.plan.schedule == "prewarm" and not self._open:
            await self._warm_up(agent)
        idle = self._clock() - self._used_at if self._used_at else None
        # Siblings that are made to start on a cold base all at once could have shared it.
        hasty = self.plan.schedule == "at_once"
        shared = self.plan.fresh if hasty and self.predictions else 0
        self.predictions[task_id] = Prediction(
            self._readable or shared,
            idle,
            in_flight=hasty and not self.plan.cached,
            drops_thinking=not self.rule.keeps_thinking and self.carrier is None,
        )

    async def wait_led(self) -> None:
        """Let the parent wait, for a while, if a child is just writing what it would write too."""
        with anyio.move_on_after(_PARENT_WAITS):
            while not self._open and self._leader:
                await self._changed.wait()

    def _may_go(self, task_id: TaskId) -> bool:
        if self._open and self._used_at and self._clock() - self._used_at >= self._lives:
            self._open, self._leader, self._readable = False, TaskId(""), 0
        if not self._open and not self._leader:
            self._leader = task_id
        return self._open or self._leader == task_id

    async def _warm_up(self, agent: Agent) -> None:
        try:
            await prewarm(agent.client, agent.conversation, self.base)
        except ProngError:
            # Not every endpoint takes such a request; the child's own does the same for the rest.
            return
        self.began(self._leader)

    def began(self, task_id: TaskId) -> None:
        """Note that a child's response has begun: it has used the base, and its entry can be read.

        If the base is not marked, what one child writes need not be found by the next.
        """
        marked = self.rule.marked or self.rule.lasting
        self._readable = self.plan.cached + (self.plan.fresh if marked else 0)
        self._used_at = max(self._used_at, self._clock())
        if task_id == self._leader and not self._open:
            self._open = True
            self._wake()

    def left(self, task_id: TaskId) -> None:
        """Note that a child has ended; if it led and never began, another leads."""
        self.running.discard(task_id)
        if not self.running:
            self.base.unflatten()
        if task_id == self._leader and not self._open:
            self._leader = TaskId("")
            self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()


def plan_fan_out(
    parent: Agent,
    prompt: Prompt,
    calls: tuple[Call, ...],
    directives: Sequence[str],
    settings: ForkSettings,
    prices: Prices,
    *,
    wakes: int,
) -> FanOut:
    """Plan a fan-out from a prompt; with `calls` it ends with the reply that dispatches it.

    In so many requests, `wakes`, the parent will take the reports.
    """
    whole, before = (fork.base(prompt, calls), _before(prompt)) if calls else (prompt, prompt)
    rule = parent.client.rule(prompt.head)
    last, carry = parent.conversation.last, _loses_thinking(before, rule)
    estimate = weigh_dispatch(
        msgspec.structs.replace(
            _scenario(parent, before, directives, rule, dispatched=len(whole) - len(before)),
            turns=settings.turns,
            wakes=wakes,
            how=settings.dispatch,
            schedule=settings.schedule,
        ),
        prices.of(prompt.head.model),
        warm=last.at > 0 and parent.client.clock() - last.at < rule.lives,
        carry=carry,
        minimum=rule.minimum,
    )
    plan = estimate.plan
    base, carrier = whole if plan.dispatch == "keep" else before, None
    if carry and calls and plan.dispatch == "keep":
        base, carrier = fork.carrying_base(prompt, calls), calls[-1].id
    waits = settings.schedule != "at_once" and plan.cached + plan.fresh >= rule.minimum
    return FanOut(
        estimate,
        base,
        rule=rule,
        tokens=last.usage.input + tokens(last, len(base) - last.length),
        carrier=carrier,
        used_at=last.at,
        lives=rule.lives if waits and plan.size > 1 else math.inf,
        clock=parent.client.clock,
    )


def _before(prompt: Prompt) -> Prompt:
    """Give a prompt without its last entry."""
    assert prompt.tip is not None
    return Prompt(prompt.head, prompt.tip.parent)


def _scenario(
    parent: Agent, prompt: Prompt, directives: Sequence[str], rule: CacheRule, *, dispatched: int
) -> Scenario:
    """Say in tokens what is known of a fan-out; `dispatched` bytes are its reply and results."""
    last = parent.conversation.last
    added = tokens(last, dispatched)
    # The output that the provider counted may hold thinking that is not sent again.
    reply = min(added, last.usage.output or added)
    frame = len(load_text("fork").encode())
    told = sum(len(told.encode()) for told in directives) // max(1, len(directives))
    # A cache that keeps things for no set time does not forget them with time either.
    idle = 0.0 if rule.lasting else max(0.0, parent.client.clock() - last.at)
    return Scenario(
        history=last.usage.input,
        children=len(directives),
        directive=tokens(last, frame + told),
        dispatch=reply,
        placeholders=added - reply,
        tail=tokens(last, len(prompt) - last.length),
        setup=tokens(last, len(prompt.head.data)),
        idle=idle if last.at else LIFETIME["12h"],
        ttl=rule.ttl,
    )


def cheaper(told: BreakEven) -> WayCost | None:
    """Give the way that clearly costs less than the fork from here on, if there is one.

    The dispatching reply is written by now, so it speaks for neither side.
    """
    best = told.options[0]
    ahead = _ahead(told)
    return best if best.way != "fork" and best.equivalents < (1 - _CLEARLY) * ahead else None


def _ahead(told: BreakEven) -> float:
    return told.fork.equivalents - told.scenario.dispatch * told.output_rate


_WAYS = {"fresh": "fresh agents with a brief", "alone": "going on alone"}

_INSTEAD = {
    "fresh": "start agents of a type instead (subagent_type, such as general-purpose), each with a "
    "brief that says all it needs to know",
    "alone": "do the parts yourself instead, one after another",
}


def advice(told: BreakEven, better: WayCost) -> str:
    """Say what another way would cost, and what the fork."""
    s, ahead = told.scenario, _ahead(told)
    forks = "a fork" if s.children == 1 else f"{s.children} forks"
    price = told.fork.cost / told.fork.equivalents if told.fork.cost is not None else None
    dollars = f" (${price * better.equivalents:.4f} against ${price * ahead:.4f})" if price else ""
    turns = "1 turn" if s.turns == 1 else f"{s.turns} turns"
    return (
        f"{_WAYS[better.way]} would cost about {better.equivalents:,.0f} input-token equivalents, "
        f"{forks} of {turns} each {ahead:,.0f}{dollars}"
    )


def advise(parent: Agent, fan: FanOut, wanted: Advice, *, asked: bool) -> str | None:
    """Warn of a fan-out that another way clearly undercuts, or say why the model may not have it.

    What the user asked for by hand is never refused.
    """
    if wanted == "off" or (better := cheaper(fan.estimate)) is None:
        return None
    if wanted == "choose" and not asked:
        return _refusal(fan.estimate, better)
    parent.emit(Warned(text=advice(fan.estimate, better)))
    return None


def _refusal(told: BreakEven, better: WayCost) -> str:
    """Tell the model why no fork was started, and what to do."""
    return (
        f"no fork was started: {advice(told, better)}, and the user wants the cheaper way "
        f"(fork.breakEven). Do not fork for this; {_INSTEAD[better.way]}."
    )


def tokens(last: Sent, length: int) -> int:
    """Guess the tokens of so many bytes by what an agent's last request was counted as."""
    if length <= 0:
        return 0
    counted = last.usage.input
    share = last.length / counted if counted else _BYTES
    # More than twice the usual means that not all bytes are read: an engine may shorten the tools.
    return round(length / (share if share <= 2 * _BYTES else _BYTES))


def _loses_thinking(prompt: Prompt, rule: CacheRule) -> bool:
    """Whether plain user text would make this model drop thinking that is in the prompt.

    What came before the last such text has been dropped already.
    """
    if prompt.head.dialect.name != "anthropic" or rule.keeps_thinking:
        return False
    node = prompt.tip
    while node is not None and node.kind in {"reply", "results"}:
        if node.kind == "reply" and b'thinking"' in node.delta:
            return True
        node = node.parent
    return False
