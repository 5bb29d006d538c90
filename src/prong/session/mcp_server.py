"""Connections to MCP servers, shared by all agents of a session.

The client's contexts must be left in the task that entered them, so each server lives in a task of
its own in the session's task group: it connects, says so, and waits to be told to end or to connect
again. Calls come from any task. A server that breaks in the middle of a call fails that call, which
may have had effects, and is connected again once.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, cast

import anyio
import anyio.abc
import anyio.to_thread
import msgspec

from prong.config.server import ServerSpec
from prong.errors import ConfigError
from prong.tools.mcp import (
    McpTool,
    bounded_description,
    full_name,
    required_keys,
    usable_schema,
)
from prong.tools.tool import Failed

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import CallToolResult, Tool

_PAGES = 100
_TAIL = 4_000


class _StderrTail:
    """The last of what a server printed on standard error."""

    def __init__(self) -> None:
        self._reader, self.writer = os.pipe()
        os.set_blocking(self._reader, False)
        self._kept = b""
        self._open = True

    async def follow(self) -> None:
        """Keep the pipe from filling up."""
        while self._take():
            await anyio.wait_readable(self._reader)

    def text(self) -> str:
        """Give what is known so far."""
        self._take()
        return self._kept.decode(errors="replace").strip()

    def close(self) -> None:
        """Take the rest and close; the text stays."""
        self._take()
        self._open = False
        os.close(self._reader)

    def _take(self) -> bool:
        """Take what is there; False at the end."""
        try:
            while self._open and (chunk := os.read(self._reader, 65536)):
                self._kept = (self._kept + chunk)[-_TAIL:]
        except BlockingIOError:
            return True
        return False


class McpServer:
    """One server and the task that keeps it."""

    def __init__(self, spec: ServerSpec, *, cwd: str, seconds: float) -> None:
        """Take what is configured; it may take so many seconds to connect."""
        self.spec = spec
        self.tools: tuple[Tool, ...] = ()
        self.failure = ""
        """Why there is no connection; empty while there is one."""
        self._cwd = cwd
        self._seconds = seconds
        self._client: Client | None = None
        self._tail: _StderrTail | None = None
        # Set when an attempt to connect has ended, well or not.
        self._settled = anyio.Event()
        # Tells the task to leave the connection it is in.
        self._leave = anyio.Event()
        self._ended = anyio.Event()
        self._closing = False
        # Whether a broken connection may be made once more.
        self._again = True

    async def keep(self) -> None:
        """Connect, wait, connect again if it broke; runs in the session's task group."""
        try:
            while not self._closing and not self.failure:
                self._leave = anyio.Event()
                await self._connect()
        finally:
            self._client = None
            self.failure = self.failure or "the session is closing"
            self._settled.set()
            self._ended.set()

    async def wait_settled(self) -> None:
        """Wait until the server is connected or has failed to."""
        await self._settled.wait()

    async def aclose(self) -> None:
        """End the connection and the server's process."""
        self._closing = True
        self._leave.set()
        await self._ended.wait()

    async def call(self, tool: str, arguments: dict[str, Any]) -> CallToolResult | Failed:
        """Call a tool of the server."""
        from mcp import MCPError
        from mcp_types import CONNECTION_CLOSED

        await self._settled.wait()
        client, leave = self._client, self._leave
        if client is None:
            return Failed(f"MCP server {self.spec.name!r} is not connected: {self.failure}")
        try:
            answer = await client.call_tool(tool, arguments)
        except MCPError as error:
            if error.code == CONNECTION_CLOSED:
                return await self._fail_call(leave)
            return Failed(f"MCP server {self.spec.name!r}: {error}")
        except (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
            return await self._fail_call(leave)
        except (ValueError, RuntimeError) as error:
            return Failed(f"MCP server {self.spec.name!r} gave an invalid answer: {error}")
        self._again = True
        return answer

    async def _fail_call(self, leave: anyio.Event) -> Failed:
        """Have the connection made again and say what happened."""
        words = self._last_words()
        # Calls that break together must not ask for more than one new connection.
        if leave is self._leave and not leave.is_set():
            self._break("it ended twice in a row")
            leave.set()
        await self._settled.wait()
        if self._client is None:
            advice = f"it is not available any more: {self.failure}"
        else:
            advice = "it was started again, so the call may be repeated if that does no harm"
        return Failed(f"MCP server {self.spec.name!r} ended during the call; {advice}{words}")

    def _break(self, why: str) -> None:
        """Give the connection up; it is made again unless that was tried just before."""
        self._client = None
        if self._again:
            self._again = False
            self._settled = anyio.Event()
        else:
            self.failure = why

    def _last_words(self) -> str:
        text = self._tail.text() if self._tail else ""
        return f"\nIts last output:\n{text}" if text else ""

    async def _connect(self) -> None:
        """Stay connected until told to leave."""
        # The scope spans the whole connection, because contexts must nest; the deadline is
        # lifted once the server has answered.
        scope = anyio.CancelScope(deadline=anyio.current_time() + self._seconds)
        connected = False
        try:
            with scope:
                async with AsyncExitStack() as stack:
                    client = await self._enter(stack)
                    self.tools = self.tools or await _all_tools(client)
                    scope.deadline = float("inf")
                    connected = True
                    self._client = client
                    self._settled.set()
                    await self._leave.wait()
        except Exception as error:  # noqa: BLE001 # whatever a server does must not end the session
            if not connected:
                self.failure = f"{_plainly(error)}{self._last_words()}"
            elif not self._leave.is_set():
                self._break(_plainly(error))
        if scope.cancelled_caught and not connected:
            self.failure = f"no answer within {self._seconds:g} s{self._last_words()}"

    async def _enter(self, stack: AsyncExitStack) -> Client:
        from mcp import Client, StdioServerParameters, stdio_client
        from mcp.client.streamable_http import streamable_http_client
        from mcp.shared._httpx_utils import create_mcp_http_client
        from mcp_types import Implementation

        spec = self.spec
        info = Implementation(name="prong", version="0")
        if spec.url:
            http = create_mcp_http_client(headers=spec.headers or None)
            await stack.enter_async_context(http)
            transport = streamable_http_client(spec.url, http_client=http)
            return await stack.enter_async_context(Client(transport, client_info=info, cache=None))
        tail = self._tail = _StderrTail()
        stack.callback(tail.close)
        follow = await stack.enter_async_context(anyio.create_task_group())
        follow.start_soon(tail.follow)
        stack.callback(follow.cancel_scope.cancel)
        with os.fdopen(tail.writer, "w") as errors:
            parameters = StdioServerParameters(
                command=spec.command, args=list(spec.args), env=spec.env, cwd=spec.cwd or self._cwd
            )
            transport = stdio_client(parameters, errlog=errors)
            return await stack.enter_async_context(Client(transport, client_info=info, cache=None))


class Servers(msgspec.Struct, frozen=True):
    """All servers of a session; their tools are fixed."""

    servers: tuple[McpServer, ...] = ()
    tools: tuple[McpTool, ...] = ()
    problems: tuple[ConfigError, ...] = ()

    async def aclose(self) -> None:
        """End all connections and processes, all at once."""
        async with anyio.create_task_group() as group:
            for server in self.servers:
                group.start_soon(server.aclose)


async def open_servers(
    specs: Sequence[ServerSpec], group: anyio.abc.TaskGroup, *, cwd: str, seconds: float = 30.0
) -> Servers:
    """Connect to all servers at once; one that fails is a problem and the others work.

    The servers live in the given task group until `aclose`, or until it is cancelled.
    """
    if not specs:
        return Servers()
    try:
        await anyio.to_thread.run_sync(_load_client)
    except ImportError:
        why = "MCP servers need the package 'mcp'; install prong[mcp]"
        return Servers(problems=(ConfigError(specs[0].path, why, line=specs[0].line),))
    servers = tuple(McpServer(spec, cwd=cwd, seconds=seconds) for spec in specs)
    for server in servers:
        group.start_soon(server.keep)
    for server in servers:
        await server.wait_settled()
    problems = [
        ConfigError(
            server.spec.path,
            f"MCP server {server.spec.name!r} could not be started: {server.failure}",
            line=server.spec.line,
        )
        for server in servers
        if server.failure
    ]
    return Servers(servers, _freeze(servers), tuple(problems))


def _load_client() -> None:
    """Import the client, which takes a second; done in a thread so that others go on."""
    import logging

    import mcp

    del mcp
    # It logs what servers do wrong; on a terminal that would garble what the user reads.
    logging.getLogger("mcp").addHandler(logging.NullHandler())


async def _all_tools(client: Client) -> tuple[Tool, ...]:
    tools: list[Tool] = []
    cursor: str | None = None
    for _ in range(_PAGES):
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        cursor = page.next_cursor
        if cursor is None:
            break
    return tuple(tools)


def _freeze(servers: Sequence[McpServer]) -> tuple[McpTool, ...]:
    made: dict[str, McpTool] = {}
    for server in servers:
        for tool in sorted(server.tools, key=lambda tool: tool.name):
            name = full_name(server.spec.name, tool.name, taken=made)
            hint = tool.annotations.read_only_hint if tool.annotations else None
            description = tool.description or tool.title or tool.name
            schema, further = usable_schema(tool.input_schema)
            made[name] = McpTool(
                connection=server,
                server=server.spec.name,
                tool=tool.name,
                name=name,
                description=bounded_description(f"{description}{further}"),
                raw_schema=msgspec.Raw(msgspec.json.encode(schema)),
                effect="reads" if hint else "writes",
                required=required_keys(schema),
            )
    return tuple(tool for _, tool in sorted(made.items()))


def _plainly(error: BaseException) -> str:
    """Name the first cause in a group of errors."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return str(error) or type(error).__name__
