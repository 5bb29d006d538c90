"""Servers that do what no server should: the session lives on, and says what happened."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import anyio.abc
import anyio.lowlevel
import pytest

from prong.config.server import ServerSpec
from prong.session import mcp_stdio, server_features
from prong.session.mcp_reach import ServerReach
from prong.session.mcp_servers import McpServers, open_servers
from prong.testing import call, say, world
from prong.tools.tool import Failed
from shared.running import runs, started_with
from shared.served import MANY, OLD, patient, server_config

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("L11")]


@asynccontextmanager
async def opened(
    *words: str, command: str = "", script: str = MANY, **more: Any
) -> AsyncGenerator[McpServers]:
    argv = ("-c", command) if command else (script, *words)
    spec = ServerSpec(name="many", path=".mcp.json", line=1, command=sys.executable, args=argv)
    async with anyio.create_task_group() as group:
        servers = await open_servers([spec], group, ServerReach(home="/", cwd="/", **more))
        try:
            yield servers
        finally:
            await servers.aclose()


def ignore(text: str) -> None:
    del text


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("flood", "it sent a message of more than 32 MB"),
        ("noise", "lines that are no messages"),
    ],
)
async def test_a_flood_ends_the_connection(word: str, why: str) -> None:
    """A line without an end, or noise without a message, is given up with the reason."""
    async with opened(word) as servers:
        assert servers.servers[0].state == "failed"
        assert why in servers.servers[0].failure


async def test_a_call_without_a_sign_of_life_is_given_up() -> None:
    """A hung call ends after MCP_TOOL_TIMEOUT, the server goes on, and the model is told why."""
    async with opened(call_seconds=0.5) as servers:
        (server,) = servers.servers
        failed = await server.call("mcp__many__hang", {}, ignore)
        assert isinstance(failed, Failed)
        assert "no sign of progress for 0.5 s" in failed.why
        assert "MCP_TOOL_TIMEOUT" in failed.why
        # On a busy machine half a second may be too short for anything.
        with anyio.fail_after(50):
            while isinstance(await server.call("mcp__many__lookup", {"word": "w"}, ignore), Failed):
                pass


async def test_progress_keeps_a_call_alive() -> None:
    """A call may last longer than its time as long as it says how far it is."""
    # Ten seconds, as a busy machine may keep the server from saying anything for a few.
    async with opened(call_seconds=10.0) as servers:
        answer = await servers.servers[0].call("mcp__many__work", {"steps": 68}, ignore)
        assert not isinstance(answer, Failed)


async def test_the_server_decides_its_own_time() -> None:
    """`timeout` of a server, in milliseconds, goes before MCP_TOOL_TIMEOUT."""
    config = server_config(timeout=300)
    async with world(
        [call("mcp__many__hang", {}), say("Done.")],
        mcp_config=config,
        settings=patient(),
        allow=["mcp__many"],
    ) as w:
        await w.session.run("Go")
        assert "for 0.3 s" in str(w.bodies()[-1]["messages"][-1])


@pytest.mark.parametrize("value", ["soon", "-5", "inf", "nan"])
async def test_a_wrong_time_is_said(value: str) -> None:
    """A time that is none is named, and the usual one holds."""
    env = {"HOME": "/nonexistent", "PATH": os.environ["PATH"], "MCP_TIMEOUT": value}
    async with world(
        [say("Hi.")], mcp_config=server_config(), settings=patient(), opens=False
    ) as w:
        async with w.open(env={**env, "HOME": str(w.home)}) as session:
            await session.run("Go")
        assert any(f"MCP_TIMEOUT is '{value}'" in one for one in w.warnings)


async def test_the_environment_is_handed_on_less_the_keys_of_models(tmp_path: Path) -> None:
    """Servers see what the user has set, but a model's key only if their own `env` names it."""
    told = tmp_path / "told"
    code = f"import os, json; open({str(told)!r}, 'w').write(json.dumps(dict(os.environ)))"
    given = {
        "PATH": os.environ["PATH"],
        "GITHUB_TOKEN": "ghp_0123456789abcdef",
        "HTTPS_PROXY": "http://proxy:3128",
        "NODE_EXTRA_CA_CERTS": "/certs.pem",
        "ANTHROPIC_API_KEY": "sk-ant-0123456789abcdef",
        "OPENAI_API_KEY": "sk-0123456789abcdefghij",
    }
    server = {
        "command": sys.executable,
        "args": ["-c", code],
        "env": {"OPENAI_API_KEY": "${OPENAI_API_KEY}"},
    }
    settings = {**patient(), "env": {"FROM_SETTINGS": "yes"}}
    async with world([], settings=settings, opens=False) as w:
        config = {"mcpServers": {"dump": server}}
        async with w.open(env={**given, "HOME": str(w.home)}, mcp_config=config):
            pass
    import json

    seen = json.loads(told.read_text())
    for name in ("GITHUB_TOKEN", "HTTPS_PROXY", "NODE_EXTRA_CA_CERTS", "OPENAI_API_KEY"):
        assert seen[name] == given[name]
    assert seen["FROM_SETTINGS"] == "yes"
    assert "ANTHROPIC_API_KEY" not in seen


async def test_a_dead_server_does_not_make_the_start_wait() -> None:
    """A server that never answers is said to be late, and the session works without it."""
    async with world(
        [say("Hi.")], mcp_config=server_config("asleep"), settings={"mcp": {"wait": 0.1}}
    ) as w:
        turn = await w.session.run("Go")
        assert turn.text == "Hi."
        assert any("still starting: MCP server many" in one for one in w.warnings)


async def test_who_closes_waits_for_no_server_that_starts(tmp_path: Path) -> None:
    """A session that ends while a server starts ends the server's process, and does not wait."""
    told = tmp_path / "pid"
    code = f"import os, time; open({str(told)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    config = {"mcpServers": {"s": {"command": sys.executable, "args": ["-c", code]}}}
    with anyio.fail_after(50):
        async with world([], mcp_config=config, settings={"mcp": {"wait": 0}}):
            while not told.exists() or not told.read_text():
                await anyio.sleep(0.02)
        while runs(int(told.read_text())):
            await anyio.sleep(0.02)


async def test_whoever_is_cancelled_while_a_server_starts_waits_for_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However early that is, no process is left that nobody waits for."""
    monkeypatch.setattr(mcp_stdio, "_GRACE", 60.0)
    word, found = f"600.{uuid4().int}", list[int]()

    async def start() -> None:
        async with mcp_stdio.started(("sleep", word), env=os.environ, cwd="/"):
            await anyio.sleep_forever()

    async with anyio.create_task_group() as group:
        group.start_soon(start)
        while not found:
            await anyio.lowlevel.checkpoint()
            found = started_with(word)
        group.cancel_scope.cancel()
    assert not Path(f"/proc/{found[0]}").exists()


async def test_a_server_that_will_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever ends neither with its input nor by a signal is killed, with all it started."""
    monkeypatch.setattr(mcp_stdio, "_GRACE", 0.2)
    async with opened("stubborn") as servers:
        link = servers.servers[0]._connection.link
        assert link is not None
        assert link._process is not None
        pid = link._process._process.pid
    # A killed process takes a moment to end.
    with anyio.fail_after(50):
        while runs(pid):
            await anyio.sleep(0.02)


async def test_too_many_tools_are_cut_and_said() -> None:
    """Of a server with ten thousand tools the first by name count, and that is known."""
    async with opened("10000", script=OLD, start_seconds=300) as servers:
        (server,) = servers.servers
        assert len(server.features.tools) == server_features.MOST_TOOLS
        assert server.features.notes == ("of its tools the first 5,000 by name count",)


GARBAGE = """
import sys, json
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": %s}), flush=True)
"""


@pytest.mark.parametrize("result", ["[]", "{}", '{"protocolVersion": 3}', '"x"', "None"])
async def test_answers_of_garbage_fail_the_server_alone(result: str) -> None:
    """A server that answers with what is no answer is a problem with a reason, known at once."""
    command = GARBAGE % result
    async with opened(command=command, start_seconds=30) as servers:
        assert servers.servers[0].state == "failed"
        assert servers.servers[0].failure
        assert "no answer" not in servers.servers[0].failure


async def test_what_nests_too_deeply_is_noise() -> None:
    """A line that cannot be read for its depth ends nothing: what comes after it counts."""
    deep = """print('{"id": 1, "x": ' + '[' * 200_000 + ']' * 200_000 + '}', flush=True)"""
    async with opened(command=f"{deep}{GARBAGE % '[]'}", start_seconds=30) as servers:
        assert servers.servers[0].state == "failed"
        assert "not of the protocol" in servers.servers[0].failure


async def test_a_large_result_is_kept_in_a_file() -> None:
    """A result of a million characters reaches the model cut, with the file that has it whole."""
    async with world(
        [call("mcp__many__large", {"size": 1_000_000}), say("Done.")],
        mcp_config=server_config(),
        settings=patient(),
        allow=["mcp__many"],
    ) as w:
        await w.session.run("Go")
        text = str(w.bodies()[-1]["messages"][-1])
        assert len(text) < 60_000
        assert "whole result of 1000000 characters" in text


async def flooding(stream: anyio.abc.ByteStream) -> None:
    """Answer every request with JSON that never ends."""
    async with stream:
        with suppress(anyio.BrokenResourceError, anyio.EndOfStream, anyio.ClosedResourceError):
            await stream.receive()
            head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
            await stream.send(head.encode())
            while True:
                await stream.send(b" " * (1 << 20))


async def test_an_address_that_floods_is_given_up() -> None:
    """An answer without an end is read as far as a message may go, and the server fails alone."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    spec = ServerSpec(name="web", path="f", line=1, kind="http", url=f"http://127.0.0.1:{port}/mcp")
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, flooding)
        servers = await open_servers([spec], group, ServerReach(home="/", cwd="/"))
        assert servers.servers[0].state == "failed"
        assert "more than 32 MB" in servers.servers[0].failure
        await servers.aclose()
        group.cancel_scope.cancel()
