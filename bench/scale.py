"""What happens with 10, 100, 1,000 and 10,000 agents: a simulation on a clock that leaps.

    python bench/scale.py                  # the table of docs/scale.md
    python bench/scale.py 10 100           # only these
    python bench/scale.py 100 --requests 50 --input 50000 --output 10000
    python bench/scale.py 1000 --unthrottled --schedule at_once

Real: the plan of the fan-out and its gate, prompts and their bytes, cache marks, requests, retries
and the throttle, prices, ledgers, receipts' predictions. Simulated: the model's servers
(`simulated_api.py`, with the test server's own cache), time, the nodes and the lines to them, the
tools, and the processor time of the driver. Everything follows from the seed.
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, cast

import anyio
from simulated_api import TOKENS_PER_BYTE, URL, Limits, SimulatedApi, SimulatedTransport, Speed

from prong.agent import Conversation
from prong.agent.client import ModelClient
from prong.agent.request import request
from prong.cost import Billing, Charge, Ledger, Prices
from prong.cost.schedule import Schedule
from prong.entry import CallId, Result, Results, Text, user_text
from prong.errors import ProviderError
from prong.event import CacheMissed, Event
from prong.ids import AgentPath, TaskId
from prong.journal.note import ChildSpec, Note
from prong.prompt import Head, Prompt
from prong.provider.api import Api
from prong.provider.provider import Endpoint
from prong.provider.throttle import Throttle
from prong.team import fork
from prong.team.account import fork_account
from prong.team.fanout import FanOut, ForkSettings, plan_fan_out
from prong.testing.virtual_time import run_virtually
from prong.wire import HeadSpec, dialect

if TYPE_CHECKING:
    from prong.agent import Agent

MODEL = "claude-sonnet-5-5"
SIZES = (10, 100, 1_000, 10_000)
PER_NODE = 20
EPOCH = 1_790_000_000.0


@dataclass(frozen=True, slots=True)
class Workload:
    """What every agent does."""

    base: int = 60_000
    """Tokens of the conversation that they are forks of."""
    directive: int = 500
    turns: int = 4
    growth: int = 2_000
    """Tokens of the results of a turn."""
    output: int = 400
    tools: tuple[float, float] = (1.0, 5.0)
    """Seconds that the calls of a turn take, at least and at most."""
    idle: float = 400.0
    """Seconds since the parent's last request: its cache entry is gone when the agents start."""
    line: float = 0.04
    """Seconds to a node, or to the model."""
    driver: float = 0.0017
    """Seconds of the driver's processor for a turn of an agent; see the CPU rows of `fork.py`."""


@dataclass(frozen=True)
class Setup:
    """What is the same however many agents there are."""

    limits: Limits = field(default_factory=Limits)
    work: Workload = field(default_factory=Workload)
    seed: int = 1
    throttled: bool = True
    """Whether requests take turns after a refusal; if not, each comes again by itself."""
    schedule: Schedule | None = None
    """Who sends first; None lets the plan choose."""


class _NoJournal:
    """Stores nothing."""

    def keep(self, agent: str, prompt: Prompt, *, reason: str = "") -> None:
        """Forget it."""

    def request(self, row: Charge) -> None:
        """Forget it."""

    def note(self, agent: str, *notes: Note) -> None:
        """Forget it."""

    async def sync(self) -> None:
        """Nothing is to be written."""


@dataclass(slots=True)
class _Parent:
    """The two parts of an agent that a fan-out is planned by."""

    client: ModelClient
    conversation: Conversation

    @property
    def agent(self) -> Agent:
        # A whole one would bring a project, tools and rules that nothing here asks for.
        return cast("Agent", self)


@dataclass(slots=True)
class Outcome:
    """Where the time and the money went."""

    agents: int
    nodes: int
    seconds: float = 0.0
    """From the fan-out to the end of the last agent."""
    gate: float = 0.0
    """Of all agents: seconds before their first request was let in."""
    asking: float = 0.0
    """Of all agents: seconds from sending a request to its whole reply."""
    tools: float = 0.0
    driver: float = 0.0
    """Seconds for which the driver's processor was busy."""
    failed: int = 0
    ends: list[float] = field(default_factory=list[float])
    missed: Counter[str] = field(default_factory=Counter[str])
    """Requests that read less than predicted, by the reason given."""


class Simulation:
    """One fan-out over many nodes."""

    def __init__(self, agents: int, setup: Setup) -> None:
        self.setup = setup
        self.work = work = setup.work
        self.api = SimulatedApi(setup.limits, Speed(), work.output)
        self.nodes = max(1, agents // PER_NODE)
        self.outcome = Outcome(agents, self.nodes)
        self.ledger = Ledger()
        self.prices = Prices()
        self._random = Random(setup.seed)
        self._driver = anyio.Lock()
        spoken = dialect("anthropic")
        endpoint = Endpoint(base_url=URL, dialect="anthropic")
        lines = [SimulatedTransport(self.api, work.line) for _ in range(self.nodes)]
        self._providers = [
            Api(
                line,
                endpoint,
                spoken,
                random=Random(setup.seed + node),
                throttle=Throttle(learns=setup.throttled),
            )
            for node, line in enumerate(lines)
        ]

    async def run(self) -> Outcome:
        """Let the parent answer once, then fan out, and wait for the last agent."""
        count = self.outcome.agents
        head = Head(dialect("anthropic"), HeadSpec(model=MODEL, system=("You work on code.",)))
        history = "h" * (self.work.base // TOKENS_PER_BYTE)
        parent = _Parent(self._client(0), self._conversation("main", Prompt(head)))
        parent.conversation.append(user_text(history))
        replied = await request(parent.client, parent.conversation)
        parent.conversation.append(replied.reply)
        await anyio.sleep(self.work.idle)
        directives = [self._text(self.work.directive, number) for number in range(count)]
        fan = plan_fan_out(
            parent.agent,
            parent.conversation.prompt,
            (),
            directives,
            ForkSettings(turns=self.work.turns, schedule=self.setup.schedule),
            self.prices,
            wakes=1,
        )
        began = anyio.current_time()
        async with anyio.create_task_group() as group:
            for number, directive in enumerate(directives):
                group.start_soon(self._agent, fan, parent, number, directive)
        self.outcome.seconds = anyio.current_time() - began
        self.outcome.ends = [end - began for end in self.outcome.ends]
        return self.outcome

    async def _agent(self, fan: FanOut, parent: _Parent, number: int, directive: str) -> None:
        task = TaskId(f"a{number}")
        path = AgentPath(f"main/{task}")
        spec = ChildSpec(
            task_id=task,
            path=path,
            parent=AgentPath("main"),
            kind="fork",
            type="fork",
            description="a part",
            base=fan.base.digest,
        )
        conversation = self._conversation(path, fork.child(fan.base, directive))
        conversation.last, conversation.base = parent.conversation.last, fan.base.tip
        client = self._client(number % self.nodes)
        fan.join(task)
        client.observer = fork_account(spec, fan)
        outcome, began = self.outcome, anyio.current_time()
        await anyio.sleep(self.work.line)
        try:
            await fan.admit(task, parent.agent)
            outcome.gate += anyio.current_time() - began
            await self._turns(client, conversation)
        except ProviderError:
            outcome.failed += 1
        finally:
            fan.left(task)
            outcome.ends.append(anyio.current_time())

    async def _turns(self, client: ModelClient, conversation: Conversation) -> None:
        for turn in range(self.work.turns):
            if turn:
                pause = self._random.uniform(*self.work.tools)
                self.outcome.tools += pause
                await anyio.sleep(pause)
                result = Text(self._text(self.work.growth, turn))
                conversation.append(Results((Result(CallId(f"toolu_{turn:02}"), (result,)),)))
            await self._drive()
            sent = anyio.current_time()
            try:
                replied = await request(client, conversation)
            finally:
                self.outcome.asking += anyio.current_time() - sent
            conversation.append(replied.reply)

    async def _drive(self) -> None:
        """Take the driver's processor for what a turn costs there."""
        async with self._driver:
            self.outcome.driver += self.work.driver
            await anyio.sleep(self.work.driver)

    def _client(self, node: int) -> ModelClient:
        return ModelClient(
            provider=self._providers[node],
            billing=Billing(prices=self.prices, ledger=self.ledger),
            clock=lambda: EPOCH + anyio.current_time(),
        )

    def _conversation(self, path: str, prompt: Prompt) -> Conversation:
        return Conversation(
            path=AgentPath(path), prompt=prompt, recorder=_NoJournal(), emit=self._see
        )

    def _see(self, event: Event) -> None:
        if isinstance(event, CacheMissed):
            self.outcome.missed[event.why] += 1

    def _text(self, tokens: int, number: int) -> str:
        return f"{number} ".ljust(tokens // TOKENS_PER_BYTE, "x")

    @property
    def least_seconds(self) -> float:
        """What the limits and the work itself would take if nothing were lost."""
        api, limits = self.api, self.api.limits
        rows = api.ledger.rows[1:]
        used = {
            "requests": len(rows),
            "input": sum(row.usage.uncached + row.usage.written for row in rows),
            "output": sum(row.usage.output for row in rows),
        }
        bound = max(60 * amount / getattr(limits, name) for name, amount in used.items())
        alone = (api.busy + self.outcome.tools) / self.outcome.agents
        return max(bound - limits.burst, alone)

    @property
    def base_writes(self) -> int:
        """How many requests of the agents wrote the shared prefix."""
        whole = self.work.base
        return sum(row.usage.written >= whole for row in self.api.ledger.rows[1:])


def simulate(agents: int, setup: Setup) -> Simulation:
    """Let so many agents work, to the end of the last one."""
    made = Simulation(agents, setup)
    run_virtually(made.run)
    return made


TIME = (
    "| agents | nodes | time | least | gate | limits | model | tools | refused | failed | limit |",
    "|---|---|---|---|---|---|---|---|---|---|---|",
)
MONEY = (
    "| agents | base written | cost | each | uncached | paid / least | reads | writes | output |",
    "|---|---|---|---|---|---|---|---|---|",
)


def time_row(run: Simulation) -> str:
    """Say where the time went; of an agent on average, except for the first two times."""
    of, api, n = run.outcome, run.api, run.outcome.agents
    driver = f"none; driver {of.driver / of.seconds:.1%}"
    limit = api.refusals.most_common(1)[0][0] if api.refusals else driver
    cells = (
        f"{n:,}",
        f"{of.nodes:,}",
        f"{of.seconds:,.0f} s",
        f"{run.least_seconds:,.0f} s",
        f"{of.gate / n:.1f} s",
        f"{max(0.0, of.asking - api.busy) / n:,.0f} s",
        f"{api.busy / n:.0f} s",
        f"{of.tools / n:.0f} s",
        f"{sum(api.refusals.values()):,}",
        f"{of.failed:,}",
        limit,
    )
    return f"| {' | '.join(cells)} |"


def money_row(run: Simulation) -> str:
    """Say where the money went."""
    n, price = run.outcome.agents, run.prices.of(MODEL)
    assert price is not None, "the model is in the list of prices"
    charges = run.ledger.rows[1:]
    cost = sum(row.cost or 0.0 for row in charges)
    uncached = sum(row.uncached or 0.0 for row in charges)
    read = sum(row.usage.read for row in charges) * price.read / 1e6
    output = sum(row.usage.output for row in charges) * price.output / 1e6
    books = run.api.ledger
    cells = (
        f"{n:,}",
        str(run.base_writes),
        f"${cost:,.2f}",
        f"${cost / n:.3f}",
        f"${uncached:,.2f}",
        f"{books.paid() / books.least_possible():.2f}",
        f"{read / cost:.0%}",
        f"{(cost - read - output) / cost:.0%}",
        f"{output / cost:.0%}",
    )
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(prog="python bench/scale.py")
    parser.add_argument("agents", nargs="*", type=int, default=SIZES)
    parser.add_argument("--requests", type=float, default=Limits.requests)
    parser.add_argument("--input", type=float, default=Limits.input)
    parser.add_argument("--output", type=float, default=Limits.output)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--unthrottled", action="store_true", help="each request by itself")
    parser.add_argument("--schedule", choices=("at_once", "leader", "prewarm"))
    given = parser.parse_args()
    setup = Setup(
        limits=Limits(given.requests, given.input, given.output),
        seed=given.seed,
        throttled=not given.unthrottled,
        schedule=given.schedule,
    )
    runs: list[Simulation] = []
    print("\n".join(TIME), flush=True)
    for size in given.agents:
        runs.append(simulate(size, setup))
        print(time_row(runs[-1]), flush=True)
    print("\n".join(("", *MONEY, *map(money_row, runs))))


if __name__ == "__main__":
    main()
