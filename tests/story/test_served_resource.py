"""What of servers is proposed behind an @: what they say in time, and as text of somebody else."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from prong.config.server import ServerSpec
from prong.face.status import find_sources
from prong.session import Records
from prong.session.mcp_reach import ServerReach
from prong.session.mcp_server import McpServer
from prong.session.mcp_servers import McpServers
from prong.session.server_features import ServerFeatures
from prong.testing import Worlds

pytestmark = [pytest.mark.anyio, pytest.mark.spec("L11", "X2")]


class Talker:
    """Stands for a connection to a server that has resources."""

    def __init__(self, *uris: str, error: Exception | None = None, hangs: bool = False) -> None:
        self._uris = uris
        self._error = error
        self._hangs = hangs
        self.asked = 0

    async def list_resources(self, cursor: str | None = None) -> Any:
        assert cursor is None
        self.asked += 1
        if self._hangs:
            await anyio.sleep_forever()
        if self._error is not None:
            raise self._error
        found = [SimpleNamespace(uri=uri, name=f"the {uri}") for uri in self._uris]
        return SimpleNamespace(resources=found, next_cursor=None)


def server(name: str, client: Any, *, ready: bool = True, resources: bool = True) -> McpServer:
    spec = ServerSpec(name=name, path="f", line=1, command="x")
    made = McpServer(spec, ServerReach(home="/", cwd="/"))
    made.features = ServerFeatures(resources=resources)
    made._connection.client = client
    if ready:
        made._settled.set()
    return made


async def listed(*servers: McpServer, seconds: float = 600) -> dict[str, str]:
    """Ask them all; who would wait for long fails."""
    with anyio.fail_after(100):
        return await McpServers(servers).resources(seconds)


async def test_resources_of_all_servers_are_listed_in_order() -> None:
    """One after the other by name, whoever has answered first."""
    found = await listed(server("b", Talker("x://2", "x://1")), server("a", Talker("y://1")))

    assert [*found.items()] == [
        ("a:y://1", "the y://1"),
        ("b:x://1", "the x://1"),
        ("b:x://2", "the x://2"),
    ]


async def test_a_server_that_fails_costs_the_others_nothing() -> None:
    """It has no resources then; one that has none at all is not asked."""
    broken, none = Talker(error=ValueError("nonsense")), Talker("x://1")
    servers = (server("bad", broken), server("none", none, resources=False))
    found = await listed(*servers, server("good", Talker("x://1")))

    assert [*found] == ["good:x://1"]
    assert (broken.asked, none.asked) == (1, 0)


async def test_a_server_that_starts_is_not_waited_for() -> None:
    """Who types goes on with what there is."""
    found = await listed(server("late", None, ready=False), server("good", Talker("x://1")))

    assert [*found] == ["good:x://1"]


async def test_a_server_that_does_not_answer_is_waited_for_no_longer() -> None:
    """After a while nothing of it is proposed."""
    silent = Talker("x://1", hangs=True)

    assert await listed(server("silent", silent), seconds=0.05) == {}


async def test_what_a_server_calls_a_resource_is_one_line(
    world: Worlds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cannot pass for several proposals, nor colour the screen."""

    async def resources(_: Records) -> dict[str, str]:
        return {"s:x://1": "one\nand\ttwo \x1b[31mred"}

    monkeypatch.setattr(Records, "resources", resources)
    async with world([]) as w:
        found = await find_sources(w.session.view(), w.session.records, "see @")

    [one] = found.resources
    assert one.text == "s:x://1"
    assert one.help.startswith("one and two ")
    assert "\x1b" not in one.help
