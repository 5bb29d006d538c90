"""Several sessions in one process: what they share, and that one's end is not another's."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from prong.provider import HttpLimits, SharedHttp
from prong.provider.shared_http import _all
from prong.testing import Script, Worlds, say, stall

pytestmark = [pytest.mark.anyio, pytest.mark.spec("X4")]


async def test_sessions_share_connections(world: Worlds) -> None:
    """One after the other they use the same connection; the last closes it."""
    async with world(Script(forever=say("ok")), opens=False) as w:
        async with w.open() as one, w.open() as two:
            for session in (one, two, one):
                await session.run("Hi")
            (shared,) = _all().values()
            assert shared.users == 2
            (pool,) = shared.http._pools.values()
            assert len(pool.all) == 1
            await one.close()
            assert (await two.run("Hi")).ok
        assert _all() == {}


async def test_the_end_of_one_leaves_anothers_request(world: Worlds) -> None:
    """A session that is closed in the middle of a reply breaks nobody else's."""
    script = Script(routes={"SLOW": [stall(60)], "QUICK": [say("there")]})
    async with world(script, opens=False) as w:
        async with w.open() as one, w.open() as two, anyio.create_task_group() as group:
            await one.say("SLOW")
            group.start_soon(two.run, "QUICK")
            await anyio.sleep(0)
            await one.close()
        assert two.last is not None
        assert two.last.text == "there"


@pytest.mark.parametrize(
    "given",
    [{"settings": {"retry": {"idle": 77}}}, {"proxy": "http://127.0.0.1:9"}],
    ids=["patience", "proxy"],
)
async def test_what_reaches_servers_otherwise_is_not_shared(
    world: Worlds, given: dict[str, Any]
) -> None:
    """Another patience, or another proxy, is another client."""
    script = Script(forever=say("ok"))
    async with world(script, opens=False) as w, w.open() as one, w.open(**given) as two:
        await one.run("Hi")
        await two.run("Hi")
        assert len(_all()) == 2


async def test_a_bound_is_a_sessions_own(world: Worlds) -> None:
    """What one session has open does not make another wait."""
    limits = HttpLimits(connections=1)
    one, two = (SharedHttp(env={}, limits=limits) for _ in range(2))
    async with world(Script(), opens=False) as w:
        with anyio.fail_after(50):
            async with one.request("GET", w.server.url), two.request("GET", w.server.url):
                assert [shared.users for shared in _all().values()] == [2]
        await one.aclose()
        await two.aclose()
