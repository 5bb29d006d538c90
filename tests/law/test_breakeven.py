"""Fork, fresh agents or alone: worked examples, laws, and what a server then bills."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager

import anyio
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prong.cost import Prices, markable, plan
from prong.cost.breakeven import BreakEven, Scenario, Way, estimate
from prong.cost.schedule import Dispatch, Rates
from prong.entry import Call, CallId, Reply, Result, Results, Text, user_text
from prong.prompt import Head, Node, Prompt
from prong.provider import Api, Http, pick
from prong.team import fork
from prong.testing import Clock, Request, Server, Step, call, calls
from prong.wire import Ended, HeadSpec, Tail, dialect

MODEL = "claude-opus-5"
FLAT = Rates(read=0.1, write=1.0)


@pytest.mark.spec("F19")
def test_the_worked_example_of_a_live_parent() -> None:
    """100,000 cached, 500 + 200 of dispatch, 100-token directives, three: 31,000, not 300,000."""
    found = estimate(
        Scenario(history=100_000, children=3, dispatch=500, placeholders=200, directive=100),
        rates=FLAT,
    )

    assert found.fork.first == pytest.approx(31_000)
    assert found.uncached > 300_000


@pytest.mark.spec("F19")
def test_a_model_stands_for_its_price() -> None:
    """The name of a model gives the figures of its price; one that nobody knows has no dollars."""
    scenario = Scenario(history=100_000, children=3)
    named = estimate(scenario, model=MODEL)

    assert named == estimate(scenario, price=Prices().of(MODEL))
    assert named.fork.cost is not None
    assert estimate(scenario, model="nobody-knows-it").fork.cost is None


@pytest.mark.spec("F19")
@given(st.integers(1, 200_000), st.integers(1, 50), st.integers(1, 30), st.booleans())
def test_children_pay_a_part_of_a_fork(history: int, size: int, turns: int, wakes: bool) -> None:
    """What the children pay and what the parent pays make the whole; alone there are none."""
    scenario = Scenario(history=history, children=size, turns=turns, wakes=int(wakes))
    found = estimate(scenario, model=MODEL)
    parent = found.fork.equivalents - found.fork.children

    assert parent >= scenario.dispatch * found.output_rate * 0.999
    assert found.fork.children > 0
    assert found.alone.children == 0


@pytest.mark.spec("F19")
def test_the_worked_example_of_a_cold_base() -> None:
    """48,500 cold, 200-token directives, five, leader first: 48,700 and 5,050 for each other."""
    cold = Scenario(
        history=48_500, children=5, directive=200, dispatch=0, placeholders=0, idle=300.0
    )

    found = estimate(cold, rates=FLAT)

    assert found.plan.schedule == "leader"
    assert found.first_child == pytest.approx(48_700)
    assert found.each_other == pytest.approx(5_050)
    assert found.fork.first == pytest.approx(48_700 + 4 * 5_050)


@pytest.mark.spec("F19")
def test_a_brief_is_paid_as_output() -> None:
    """A token more of brief costs the output price once, and is written by parent and child."""
    price = Prices().of(MODEL)
    short = Scenario(history=50_000, children=1, turns=1, explore=0)
    longer = msgspec.structs.replace(short, brief=short.brief + 1_000)

    more = estimate(longer, price=price).fresh
    less = estimate(short, price=price).fresh

    assert more.output - less.output == 1_000
    assert more.cost is not None
    assert less.cost is not None
    assert more.cost - less.cost == pytest.approx((25 + 6.25 + 6.25) * 1_000 / 1e6)
    assert estimate(longer, price=price).fork == estimate(short, price=price).fork


scenarios = st.builds(
    Scenario,
    history=st.integers(2_000, 500_000),
    children=st.integers(1, 64),
    turns=st.integers(1, 20),
    growth=st.integers(0, 10_000),
    directive=st.integers(1, 1_000),
    idle=st.sampled_from([0.0, 10_000.0]),
)


@pytest.mark.spec("F19")
@given(scenarios)
def test_estimates_grow_with_what_there_is_to_do(scenario) -> None:
    """More history, turns or growth never cost less; an expired entry costs every way more."""
    now = estimate(scenario)
    for more in ({"history": 1_000}, {"turns": 1}, {"growth": 100}):
        ((name, by),) = more.items()
        longer = estimate(msgspec.structs.replace(scenario, **{name: getattr(scenario, name) + by}))
        assert longer.fork.input >= now.fork.input
        assert longer.fresh.input >= now.fresh.input
        assert longer.alone.input > now.alone.input
    warm = estimate(msgspec.structs.replace(scenario, idle=0.0))
    assert warm.fork.input <= now.fork.input
    assert warm.alone.input <= now.alone.input
    assert now.best == min(now.options, key=lambda option: option.equivalents).way


@pytest.mark.spec("F19")
@given(scenarios)
def test_the_turns_up_to_which_a_fork_pays_are_the_turns_up_to_which_it_pays(scenario) -> None:
    """At that number of turns a fork costs no more than fresh agents, and one later it does."""
    until = estimate(scenario).until_turns
    if until is None:
        until = 200
    else:
        after = estimate(msgspec.structs.replace(scenario, turns=until + 1))
        assert after.fork.equivalents > after.fresh.equivalents
    if until:
        at = estimate(msgspec.structs.replace(scenario, turns=until))
        assert at.fork.equivalents <= at.fresh.equivalents


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """Work of a given shape, to be estimated and then done."""

    history: int
    """Tokens of what the parent was told, system text aside."""
    children: int
    turns: int
    result: int
    """Tokens of a tool's result."""
    cold: bool = False
    wakes: int = 1
    how: Dispatch | None = None

    def scenario(self, history: int) -> Scenario:
        """Say the case in tokens, from the lengths of its texts and the JSON around them."""
        block, used = 26, 84
        each = {"description": "work", "prompt": DIRECTIVE}
        return Scenario(
            history=history,
            children=self.children,
            turns=self.turns,
            growth=self.result + 2 * used // 4,
            directive=(len(DIRECTIVE) + block) // 4,
            dispatch=self.children * (len(msgspec.json.encode(each)) + used) // 4,
            placeholders=self.children * (len(fork.PLACEHOLDER) + used) // 4,
            report=(len(REPORT) + block) // 4,
            closing=2 * used // 4,
            wakes=self.wakes,
            brief=(len(BRIEF) + block) // 4,
            setup=(len(SYSTEM) + block) // 4,
            explore=0,
            idle=400.0 if self.cold else 0.0,
            how=self.how,
        )


DIRECTIVE = "Update the module and its tests. " * 8
REPORT = "Scope: module. Result: done. " * 40
BRIEF = "You work on a service with a schema and tests; here is what is known. " * 60
SYSTEM = "You are a careful engineer. " * 600


class Work:
    """Does a case on a server, driving the rope directly."""

    def __init__(self, case: Case, server: Server, api: Api, clock: Clock) -> None:
        self.case, self.server, self.api, self.clock = case, server, api, clock
        self.head = Head(api.dialect, HeadSpec(model=MODEL, system=(SYSTEM,)))
        self.history = 0
        self.sent: Node | None = None
        self._before = 0.0

    async def ask(self, prompt: Prompt, sent: Node | None, base: Node | None = None) -> Reply:
        marks = plan(prompt, sent=sent, base=base)
        stream = self.api.stream(prompt, marks, Tail(max_tokens=1_000))
        async with aclosing(stream) as events:
            ended = [event async for event in events if isinstance(event, Ended)][-1]
        self.history = self.history or ended.usage.input
        return ended.reply

    async def parent(self) -> tuple[Prompt, Reply]:
        """Send the history, so that it is cached, and perhaps let it expire."""
        prompt = Prompt(self.head).append(user_text("Dispatch. " + "h" * (4 * self.case.history)))
        reply = await self.ask(prompt, None)
        self.sent = markable(prompt.tip)
        self._before = self.server.paid()
        if self.case.cold:
            self.clock.advance(400)
        return prompt, reply

    async def start(self, prompts: list[Prompt], base: Prompt | None) -> list[Reply]:
        """Send first requests, all of them before any answer begins."""
        replies: dict[int, Reply] = {}

        async def one(index: int) -> None:
            place = base.tip if base else None
            replies[index] = await self.ask(prompts[index], self.sent if base else None, place)

        async with anyio.create_task_group() as tasks:
            for index in range(len(prompts)):
                tasks.start_soon(one, index)
            while self.clock.sleepers < len(prompts):
                await anyio.sleep(0.001)
            self.clock.advance(1)
        return [replies[index] for index in range(len(prompts))]

    async def go_on(self, prompt: Prompt, reply: Reply, turns: int, base: Node | None) -> None:
        """Work for so many further turns, each with a result of a tool."""
        for _ in range(turns):
            sent = markable(prompt.tip)
            result = Result(reply.calls[0].id, (Text("x" * (4 * self.case.result)),))
            prompt = prompt.append(reply, Results((result,)))
            reply = await self.ask(prompt, sent, base)

    async def wake(self, prompt: Prompt) -> None:
        """Tell the parent of the reports, in as many requests as the case has."""
        sent, each = self.sent, self.case.children // self.case.wakes
        for _ in range(self.case.wakes):
            prompt = prompt.append(user_text(REPORT * each))
            reply = await self.ask(prompt, sent)
            sent = markable(prompt.tip)
            results = tuple(Result(made.id, (Text("ok"),)) for made in reply.calls)
            prompt = prompt.append(reply, Results(results))

    def paid(self) -> float:
        return self.server.paid() - self._before


def script(case: Case) -> Callable[[Request], Step]:
    """Dispatch when told to; answer all else with a call; a child's first answer takes a while."""
    each = {"description": "work", "prompt": DIRECTIVE}

    def choose(request: Request) -> Step:
        told = request.last_text
        if told.startswith("Dispatch"):
            return calls(*(("Agent", each) for _ in range(case.children)))
        slow = 1.0 if told in (DIRECTIVE, BRIEF) else 0.0
        return msgspec.structs.replace(call("Read", {"path": "a.py"}), first_byte=slow)

    return choose


@asynccontextmanager
async def serving(case: Case) -> AsyncGenerator[Work, None]:
    clock = Clock()
    async with (
        Server(script(case), clock=clock, moves_prefix="many agents") as server,
        Http(env={}) as http,
    ):
        endpoint, _ = pick(MODEL, base_url=f"{server.url}/v1", env={"ANTHROPIC_API_KEY": "k"})
        yield Work(case, server, Api(http, endpoint, dialect("anthropic")), clock)


CASES = {
    "fifty": Case(history=46_000, children=8, turns=3, result=800),
    "many": Case(history=46_000, children=40, turns=2, result=300),
    "growing": Case(history=6_000, children=3, turns=7, result=3_000),
    "kept": Case(history=20_000, children=6, turns=2, result=300, how="keep"),
    "cold": Case(history=46_000, children=5, turns=3, result=800, cold=True),
    "cold kept": Case(history=20_000, children=6, turns=3, result=300, cold=True, how="keep"),
    "often woken": Case(history=2_000, children=12, turns=1, result=9, wakes=12),
    "woken": Case(history=46_000, children=6, turns=2, result=300, wakes=6),
}
cases = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


def close(found: BreakEven, way: Way, paid: float) -> bool:
    return abs(getattr(found, way).input / paid - 1) <= 0.05


@pytest.mark.anyio
@pytest.mark.spec("F19")
@cases
async def test_a_fork_is_billed_as_estimated(case) -> None:
    """Children on one base, started as planned, and the parent's closing: within 5 %."""
    async with serving(case) as work:
        prompt, reply = await work.parent()
        found = estimate(case.scenario(work.history), rates=Rates())
        whole = fork.base(prompt.append(reply), reply.calls)
        base = whole if found.plan.dispatch == "keep" else prompt
        children = [fork.child(base, DIRECTIVE) for _ in range(case.children)]
        led = int(found.plan.schedule == "leader")
        replies = await work.start(children[:led], base) if led else []
        replies += await work.start(children[led:], base)
        for child, first in zip(children, replies, strict=True):
            await work.go_on(child, first, case.turns - 1, base.tip)
        await work.wake(whole)

        assert led == case.cold
        assert close(found, "fork", work.paid())


@pytest.mark.anyio
@pytest.mark.spec("F19")
@cases
async def test_fresh_agents_are_billed_as_estimated(case) -> None:
    """Agents with a brief of their own, and the parent's closing: within 5 %."""
    async with serving(case) as work:
        prompt, _ = await work.parent()
        found = estimate(case.scenario(work.history), rates=Rates())
        # Every agent has a system text of its own, as different types of agents have.
        fresh = [
            Prompt(Head(work.head.dialect, HeadSpec(model=MODEL, system=(f"{n:03}{SYSTEM}",))))
            for n in range(case.children)
        ]
        fresh = [one.append(user_text(BRIEF)) for one in fresh]
        for one, first in zip(fresh, await work.start(fresh, None), strict=True):
            await work.go_on(one, first, case.turns - 1, None)
        briefed = [call_of(number, BRIEF) for number in range(case.children)]
        told = Reply((), "", calls=tuple(briefed), stop="calls")
        await work.wake(fork.base(prompt.append(told), told.calls))

        assert close(found, "fresh", work.paid())


@pytest.mark.anyio
@pytest.mark.spec("F19")
@cases
async def test_working_alone_is_billed_as_estimated(case) -> None:
    """All turns on the parent's own history: within 5 %."""
    async with serving(case) as work:
        prompt, _ = await work.parent()
        found = estimate(case.scenario(work.history), rates=Rates())
        read = Reply((), "", calls=(call_of(0, "a.py"),), stop="calls")
        await work.go_on(prompt, read, case.children * case.turns, None)

        assert close(found, "alone", work.paid())


def call_of(number: int, text: str) -> Call:
    return Call(
        CallId(f"toolu_9{number:05}"), "Agent", msgspec.json.encode({"prompt": text}).decode()
    )
