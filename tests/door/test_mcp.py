from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, cast

import anyio
import msgspec
import pytest

from prong.config.server import ServerSpec
from prong.entry import CallId, Image, Text
from prong.session.mcp_reach import ServerReach
from prong.session.mcp_server import problems
from prong.session.mcp_servers import McpServers, open_servers, served_tools
from prong.testing.local_port import held_port
from prong.tools.access import Using
from prong.tools.mcp import McpTool, required_keys, usable_schema
from prong.tools.tool import CallOutcome, Context, Done, Failed
from shared.served import wait_listening

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("L11", "L2")]

SCRIPT = str(Path(__file__).with_name("mcp_echo_server.py"))


def stdio(name: str = "echo", **more: Any) -> ServerSpec:
    fields: dict[str, Any] = {"command": sys.executable, "args": (SCRIPT,), **more}
    return ServerSpec(name=name, path=".mcp.json", line=3, **fields)


def reach(**more: Any) -> ServerReach:
    return ServerReach(home="/nonexistent", cwd="/", **more)


@asynccontextmanager
async def opened(*specs: ServerSpec, **more: Any) -> AsyncGenerator[McpServers]:
    async with anyio.create_task_group() as group:
        servers = await open_servers(specs, group, reach(**more))
        try:
            yield servers
        finally:
            await servers.aclose()


class Plain:
    """As much of a context as these tools look at."""

    images = True

    def __init__(self) -> None:
        self.shown: list[str] = []

    def show(self, call_id: CallId, text: str) -> None:
        self.shown.append(text)


async def use(servers: McpServers, name: str, arguments: str = "{}") -> CallOutcome:
    served = (tool for server in servers.servers for tool in served_tools(server))
    tool = next(tool for tool in served if tool.name == name)
    return await tool.run(
        CallId("1"),
        cast("Any", msgspec.json.decode(arguments, type=tool.arguments)),
        cast("Context", Plain()),
    )


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_stdio_server_offers_sorted_tools_and_answers() -> None:
    """Tools of a stdio server are named, sorted, and give text, pictures, resources, failures."""
    async with opened(stdio(env={"PRONG_TEST": "given"})) as servers:
        assert problems(servers.servers) == ()
        tools = servers.tools()
        assert [tool.name for tool in tools] == [
            "mcp__echo__crash",
            "mcp__echo__environment",
            "mcp__echo__fail",
            "mcp__echo__odd_name_with_marks",
            "mcp__echo__picture",
            "mcp__echo__resource",
            "mcp__echo__say",
        ]
        say = tools[-1]
        assert isinstance(say, McpTool)
        assert (say.effect, tools[0].effect) == ("reads", "writes")
        assert say.description == "Say a text back."
        assert msgspec.json.decode(say.raw_schema)["required"] == ["text"]
        assert say.access({"text": "x"}, cast("Context", Plain())) == (Using("mcp__echo__say"),)
        assert await use(servers, "mcp__echo__say", '{"text": "hé"}') == Done((Text("echo: hé"),))
        picture = await use(servers, "mcp__echo__picture")
        assert isinstance(picture, Done)
        assert isinstance(picture.parts[0], Image)
        assert picture.parts[0].media_type == "image/png"
        assert await use(servers, "mcp__echo__resource") == Done(
            (Text("[resource memo://one]\ninside"),)
        )
        failed = await use(servers, "mcp__echo__fail")
        assert isinstance(failed, Failed)
        assert "on purpose" in failed.why
        environment = await use(servers, "mcp__echo__environment", '{"name": "PRONG_TEST"}')
        assert environment == Done((Text("given"),))


async def test_missing_argument_is_named_before_the_call() -> None:
    """A call that lacks a required argument fails with its name and never reaches the server."""
    nobody = cast("Any", None)
    tool = McpTool(
        connection=nobody,
        server="s",
        tool="t",
        name="mcp__s__t",
        description="",
        raw_schema=msgspec.Raw(b"{}"),
        effect="writes",
        required=("text",),
    )
    outcome = await tool.run(CallId("1"), {}, cast("Context", Plain()))
    assert outcome == Failed("missing required argument: text")


async def test_crash_fails_the_call_with_last_words_and_reconnects_once() -> None:
    """A server that dies in a call fails it with its last output, and the next call works."""
    async with opened(stdio()) as servers:
        failed = await use(servers, "mcp__echo__crash")
        assert isinstance(failed, Failed)
        assert "last words of the server" in failed.why
        assert "started again" in failed.why
        assert await use(servers, "mcp__echo__say", '{"text": "a"}') == Done((Text("echo: a"),))


async def test_server_that_dies_twice_in_a_row_is_given_up() -> None:
    """After a second crash without a good call between, the server is not started again."""
    async with opened(stdio()) as servers:
        await use(servers, "mcp__echo__crash")
        second = await use(servers, "mcp__echo__crash")
        assert isinstance(second, Failed)
        assert "not available any more" in second.why
        third = await use(servers, "mcp__echo__say", '{"text": "a"}')
        assert isinstance(third, Failed)
        assert "not connected" in third.why


async def test_calls_that_break_together_reconnect_once() -> None:
    """Calls in flight when the server dies all fail, and one new server serves the rest."""
    # It dies once it has all three: one that came too late would go to the new server.
    async with opened(stdio(env={"CRASH_AFTER": "3"})) as servers:
        outcomes: list[CallOutcome] = []

        async def crash() -> None:
            outcomes.append(await use(servers, "mcp__echo__crash"))

        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(crash)
        assert all(isinstance(outcome, Failed) for outcome in outcomes)
        assert await use(servers, "mcp__echo__say", '{"text": "a"}') == Done((Text("echo: a"),))


async def test_failing_servers_do_not_hide_the_others(tmp_path: Path) -> None:
    """A missing command and an early exit are each reported with the reason; one works."""
    early = stdio("early", args=("-c", "import sys; sys.exit('cannot start: no token')"))
    missing = stdio("missing", command=str(tmp_path / "nothing"))
    async with opened(early, missing, stdio()) as servers:
        found = [str(problem) for problem in problems(servers.servers)]
        assert len(found) == 2
        assert all(problem.startswith(".mcp.json:3: MCP server") for problem in found)
        assert "'early'" in found[0]
        assert "no token" in found[0]
        assert "'missing'" in found[1]
        assert "nothing" in found[1]
        assert {tool.server for tool in servers.tools()} == {"echo"}


async def test_silent_server_is_given_up_after_its_time() -> None:
    """A server that never answers is reported, and its process ends."""
    silent = stdio("silent", args=("-c", "import time; time.sleep(60)"))
    async with opened(silent, start_seconds=0.5) as servers:
        (problem,) = problems(servers.servers)
        assert problem.why.startswith("MCP server 'silent' could not be started: no answer")
        assert "within 0.5 s (MCP_TIMEOUT sets the time)" in problem.why


async def test_server_processes_die_with_the_session() -> None:
    """Closing ends the process, and so does cancelling the session's task group."""
    async with opened(stdio()) as servers:
        answer = await use(servers, "mcp__echo__odd_name_with_marks")
        assert isinstance(answer, Done)
        first = int(cast("Text", answer.parts[0]).text)
        assert is_alive(first)
    assert not is_alive(first)

    second = 0
    async with anyio.create_task_group() as group:
        servers = await open_servers([stdio()], group, reach())
        answer = await use(servers, "mcp__echo__odd_name_with_marks")
        assert isinstance(answer, Done)
        second = int(cast("Text", answer.parts[0]).text)
        group.cancel_scope.cancel()
    assert second
    assert not is_alive(second)


NOISY = """
import sys
import anyio
from prong.session.mcp_reach import ServerReach
from prong.session.mcp_servers import open_servers
from prong.config.server import ServerSpec

code = "print('Welcome!', flush=True); import runpy; runpy.run_path(%r, run_name='__main__')"
args = ("-c", code % sys.argv[1])
spec = ServerSpec(name="n", path="f", line=1, command=sys.executable, args=args)

async def main():
    async with anyio.create_task_group() as group:
        servers = await open_servers([spec], group, ServerReach(home="/", cwd="/"))
        answer = await servers.servers[0].call("mcp__n__say", {"text": "a"}, print)
        print(answer.content[0].text)
        await servers.aclose()

anyio.run(main)
"""


def test_noise_on_standard_output_is_passed_over() -> None:
    """A server that prints banners where messages belong still works, and the terminal is clean."""
    command = [sys.executable, "-c", NOISY, SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("echo: a\n", "")


def test_schemas_are_made_such_that_providers_take_them() -> None:
    """A schema without a type gets one; choices at its top go into the description."""
    assert usable_schema({}) == ({"type": "object", "properties": {}}, "")
    properties = {"a": {"type": "string"}}
    choice = [{"required": ["a"]}]
    schema, further = usable_schema({"type": "object", "properties": properties, "anyOf": choice})
    assert schema == {"type": "object", "properties": properties}
    assert further.endswith('must also meet: {"anyOf":[{"required":["a"]}]}')
    assert required_keys({"required": ["a", 3]}) == ("a",)
    assert required_keys({"required": "a"}) == ()


@pytest.fixture
def http_server() -> Iterator[str]:
    with serving("http") as base:
        yield f"{base}/mcp"


@pytest.fixture
def sse_server() -> Iterator[str]:
    with serving("sse") as base:
        yield f"{base}/sse"


@contextmanager
def serving(kind: str) -> Generator[str]:
    with held_port() as port:
        words = [sys.executable, SCRIPT, kind, str(port)]
        process = subprocess.Popen(words, stderr=subprocess.PIPE)
        try:
            wait_listening(port, process)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.communicate()


async def test_streamable_http_server_answers(http_server: str) -> None:
    """A server at an address is used like one that was started."""
    spec = ServerSpec(name="web", path=".mcp.json", line=1, url=http_server, headers={"X-Key": "1"})
    async with opened(spec) as servers:
        assert problems(servers.servers) == ()
        answer = await use(servers, "mcp__web__say", '{"text": "far"}')
        assert answer == Done((Text("echo: far"),))


async def test_unreachable_address_is_a_problem() -> None:
    """An address where nobody listens is named, and the session goes on."""
    with held_port() as port:
        spec = ServerSpec(name="gone", path="m.json", line=2, url=f"http://127.0.0.1:{port}/mcp")
        async with opened(spec) as servers:
            found = problems(servers.servers)
        assert len(found) == 1
        assert str(found[0]).startswith("m.json:2: MCP server 'gone' could not be")


async def test_older_address_answers(sse_server: str) -> None:
    """A server of the type `sse` is used like one of the newer kind."""
    spec = ServerSpec(name="old", path=".mcp.json", line=1, kind="sse", url=sse_server)
    async with opened(spec) as servers:
        assert problems(servers.servers) == ()
        answer = await use(servers, "mcp__old__say", '{"text": "far"}')
        assert answer == Done((Text("echo: far"),))
