import itertools

import anyio
import pytest

from prong.provider.api import Api
from prong.provider.connect import Providers
from prong.provider.provider import Endpoint
from prong.provider.throttle import Throttle
from prong.testing.transport import NoTransport
from prong.testing.virtual_time import run_virtually

pytestmark = pytest.mark.spec("L10")


class Requests:
    """Requests of agents, and when each of them left."""

    def __init__(self) -> None:
        self.throttle = Throttle()
        self.left: list[tuple[str, float]] = []

    async def send(self, who: str, *, again: bool = False) -> None:
        await self.throttle.wait_turn(who, again=again)
        self.left.append((who, anyio.current_time()))

    async def refuse(self, asked: float, *, before: int = 0) -> None:
        for number in range(before):
            await self.throttle.wait_turn(f"main/before{number}")
        sent_at = await self.throttle.wait_turn("main/first")
        self.throttle.refused(sent_at, asked)

    @property
    def order(self) -> list[str]:
        return [who for who, _ in self.left]

    @property
    def times(self) -> list[float]:
        return [at for _, at in self.left]


async def all_at_once(requests: Requests, *names: str) -> None:
    async with anyio.create_task_group() as group:
        for name in names:
            group.start_soon(requests.send, name)


def test_requests_leave_at_once_until_one_is_refused():
    """Without a refusal nobody waits, however many there are."""

    async def story() -> list[float]:
        requests = Requests()
        await all_at_once(requests, *(f"main/a{n}" for n in range(500)))
        return requests.times

    assert set(run_virtually(story)) == {0.0}


def test_after_a_refusal_requests_leave_one_by_one():
    """Nobody leaves before the time that was asked for, no two together, and ever quicker."""

    async def story() -> list[float]:
        requests = Requests()
        await requests.refuse(5.0, before=50)
        await all_at_once(requests, *(f"main/a{n}" for n in range(40)))
        return requests.times

    times = run_virtually(story)
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert times[0] == 5.0
    assert all(gap > 0 for gap in gaps)
    assert gaps == sorted(gaps, reverse=True)


def test_those_at_work_go_before_those_who_have_not_begun():
    """Agents that were answered or refused before, then the others; the main agent waits for none."""

    async def story() -> list[str]:
        requests = Requests()
        requests.throttle.answered("main/old")
        await requests.refuse(1.0)
        async with anyio.create_task_group() as group:
            group.start_soon(requests.send, "main/new1")
            group.start_soon(requests.send, "main/new2")
            await anyio.sleep(0.1)
            group.start_soon(requests.send, "main/old")
            group.start_soon(lambda: requests.send("main/sent", again=True))
            group.start_soon(requests.send, "main")
        return requests.order

    assert run_virtually(story) == ["main", "main/old", "main/sent", "main/new1", "main/new2"]


def test_refusals_of_one_burst_lower_the_rate_once():
    """What left before the rate was lowered tells nothing about the lower one."""

    async def story() -> tuple[float | None, float | None, float | None]:
        throttle = Throttle()
        burst = [await throttle.wait_turn(f"main/a{n}") for n in range(100)]
        throttle.refused(burst[0], 1.0)
        once = throttle.rate
        for sent_at in burst[1:]:
            throttle.refused(sent_at, 1.0)
        many = throttle.rate
        await anyio.sleep(1.0)
        throttle.refused(await throttle.wait_turn("main/a1"), 1.0)
        return once, many, throttle.rate

    once, many, later = run_virtually(story)
    assert once is not None
    assert once == many
    assert later is not None
    assert later < once


@pytest.mark.parametrize("gone", ["main/a0", "main/a1"])
def test_a_request_that_is_given_up_holds_nobody_up(gone):
    """Whether it was the next or further behind, the others leave in their order."""
    names, scopes = ("main/a0", "main/a1", "main/a2"), dict[str, anyio.CancelScope]()

    async def send(requests: Requests, name: str) -> None:
        with anyio.CancelScope() as scopes[name]:
            await requests.send(name)

    async def story() -> list[str]:
        requests = Requests()
        await requests.refuse(3.0)
        async with anyio.create_task_group() as group:
            for name in names:
                group.start_soon(send, requests, name)
            await anyio.sleep(1.0)
            scopes[gone].cancel()
        return requests.order

    assert run_virtually(story) == [name for name in names if name != gone]


def test_a_refusal_for_an_hour_does_not_hold_the_others_for_an_hour():
    """What one request is told to wait may be meant for it alone: the others try in a minute."""

    async def story() -> list[float]:
        requests = Requests()
        await requests.refuse(3600.0)
        await requests.send("main/a1")
        return requests.times

    assert run_virtually(story) == [60.0]


def test_a_person_does_not_wait_for_agents():
    """What the main agent sends leaves at once, whatever was refused before: it is one request."""

    async def story() -> list[tuple[str, float]]:
        requests = Requests()
        await requests.refuse(30.0)
        await all_at_once(requests, "main/a1", "main")
        return requests.left

    assert run_virtually(story)[0] == ("main", 0.0)


def test_a_lone_agent_hears_of_no_turns():
    """Who waits as asked and finds nobody before it leaves at once, and is told nothing."""

    async def story() -> tuple[str, float]:
        throttle = Throttle()
        throttle.refused(await throttle.wait_turn("main/a1"), 2.0)
        await anyio.sleep(2.1)
        remark = throttle.remark()
        return remark, await throttle.wait_turn("main/a1", again=True)

    assert run_virtually(story) == ("", 2.1)


def test_a_refusal_is_forgotten():
    """A minute after the last refusal, with nobody waiting, requests leave freely again."""

    async def story() -> tuple[str, float | None]:
        requests = Requests()
        await requests.refuse(1.0)
        async with anyio.create_task_group() as group:
            group.start_soon(requests.send, "main/before")
            await anyio.sleep(0.5)
            said.extend(requests.throttle.remark() for _ in range(2))
        requests.left.clear()
        await anyio.sleep(61.0)
        later = requests.throttle.remark()
        await all_at_once(requests, *(f"main/a{n}" for n in range(9)))
        assert len(set(requests.times)) == 1
        return later, requests.throttle.rate

    said: list[str] = []
    assert run_virtually(story) == ("", None)
    assert "take turns" in said[0]
    assert said[1] == ""


def test_agents_with_one_account_share_a_throttle():
    """Limits are of a key at a server: the same two share, another key or server does not."""

    def endpoint(url: str, key: str) -> Endpoint:
        return Endpoint(base_url=url, dialect="anthropic", headers=(("x-api-key", key),))

    made = Providers(NoTransport(), env={})
    places = [
        ("https://a.test", "k"),
        ("https://a.test", "k"),
        ("https://a.test", "l"),
        ("https://b.test", "k"),
    ]
    shared = [made.connect(endpoint(*place), "claude-x") for place in places]
    throttles = [one._throttle for one in shared if isinstance(one, Api)]
    assert throttles[0] is throttles[1]
    assert len({id(one) for one in throttles}) == 3
