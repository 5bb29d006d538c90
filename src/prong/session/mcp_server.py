"""A connection to one MCP server, shared by all agents of a session.

The client's contexts must be left in the task that entered them, so each server lives in a task of
its own in the session's task group: it connects, says so, and waits to be told to end or to connect
again. Calls come from any task. A server that breaks in the middle of a call fails that call, which
may have had effects, and is connected again once.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar, cast

import anyio

from prong.about import __version__
from prong.config.server import ServerSpec
from prong.errors import ConfigError
from prong.session.mcp_reach import Link, ServerReach, open_link
from prong.session.server_news import NewsKind, NewsQueue, ServerNews
from prong.tools.mcp import ResourceContents, full_name
from prong.tools.tool import Failed

if TYPE_CHECKING:
    from collections.abc import Generator

    from mcp import Client
    from mcp.client.session import ClientRequestContext, IncomingMessage
    from mcp_types import (
        CallToolResult,
        ElicitRequestParams,
        ElicitResult,
        GetPromptResult,
        Prompt,
        Tool,
    )

_PAGES = 100
MOST_TOOLS = 5_000
_LISTED = 200
"""Resources that are listed at most."""
_SETTLE = 0.2
"""Seconds in which changes of a list are taken together."""
_SHOWN = 0.1
"""Seconds between two lines of progress that are shown."""
_T = TypeVar("_T")

ServerState: TypeAlias = Literal["starting", "ready", "failed"]


class Asker(Protocol):
    """Puts the questions of servers to the user."""

    async def elicit(self, server: str, params: ElicitRequestParams) -> ElicitResult:
        """Ask; it is declined if nobody is there to answer."""
        ...


class McpServer:
    """One server and the task that keeps it."""

    def __init__(
        self,
        spec: ServerSpec,
        reach: ServerReach,
        *,
        asker: Asker | None = None,
        news: NewsQueue | None = None,
    ) -> None:
        """Take what is configured, who asks the user, and where to tell what happens."""
        self.spec = spec
        self.tools: dict[str, Tool] = {}
        """Its tools by their full names."""
        self.prompts: tuple[Prompt, ...] = ()
        self.resources = False
        """Whether it has resources."""
        self.instructions = ""
        self.about = ""
        """What it says it is: name and version."""
        self.notes: list[str] = []
        """What of it was left out."""
        self.failure = ""
        """Why there is no connection; empty while there is one."""
        self.seconds = 0.0
        """How long it took to connect."""
        self._reach = reach
        self._asker = asker
        self._news = news
        self._client: Client | None = None
        self._link: Link | None = None
        # Set when an attempt to connect has ended, well or not.
        self._settled = anyio.Event()
        # Tells the task to leave the connection it is in.
        self._leave = anyio.Event()
        self._changed = anyio.Event()
        # An attempt to connect that has not ended; whoever closes need not wait for it.
        self._attempt: anyio.CancelScope | None = None
        self._ended = anyio.Event()
        self._closing = False
        # Whether a broken connection may be made once more.
        self._again = True
        # The deadlines of calls that run; an open question lifts them.
        self._calls: set[anyio.CancelScope] = set()

    @property
    def state(self) -> ServerState:
        """How it stands."""
        if not self._settled.is_set():
            return "starting"
        return "failed" if self.failure else "ready"

    async def keep(self) -> None:
        """Connect, wait, connect again if it broke; runs in the session's task group."""
        try:
            while not self._closing and not self.failure:
                self._leave = anyio.Event()
                await self._connect()
        finally:
            self._client = None
            first = not self._settled.is_set()
            self.failure = self.failure or "the session is closing"
            self._settled.set()
            self._ended.set()
            if not self._closing and first:
                self._tell("failed", self.failure)

    async def wait_settled(self) -> None:
        """Wait until the server is connected or has failed to."""
        await self._settled.wait()

    async def aclose(self) -> None:
        """End the connection and the server's process."""
        self._closing = True
        self._leave.set()
        if self._attempt is not None:
            self._attempt.cancel()
        await self._ended.wait()

    async def call(
        self, name: str, arguments: dict[str, Any], show: Callable[[str], None]
    ) -> CallToolResult | Failed:
        """Call a tool by its full name."""
        await self._settled.wait()
        tool = self.tools.get(name)
        if tool is None and not self.failure:
            return Failed(f"MCP server {self.spec.name!r} has no tool {name} any more")
        own = tool.name if tool is not None else name
        progress = _Progress(show)
        with self._timed() as scope:
            progress.scope, progress.seconds = scope, self._call_seconds
            return await self._ask(
                lambda client: client.call_tool(own, arguments, progress_callback=progress)
            )
        return self._gave_up()

    async def read(self, uri: str) -> ResourceContents | Failed:
        """Read a resource; without an address, list what there is."""
        with self._timed():
            if not uri:
                return await self._ask(_listed_resources)
            found = await self._ask(lambda client: client.read_resource(uri))
            return found if isinstance(found, Failed) else found.contents
        return self._gave_up()

    async def prompt(self, name: str, arguments: dict[str, str]) -> GetPromptResult | Failed:
        """Have the server write one of its prompts."""
        with self._timed():
            return await self._ask(lambda client: client.get_prompt(name, arguments))
        return self._gave_up()

    @property
    def _call_seconds(self) -> float:
        return self.spec.call_seconds or self._reach.call_seconds

    @contextmanager
    def _timed(self) -> Generator[anyio.CancelScope, None, None]:
        """Give up after a while without a sign of life."""
        deadline = anyio.current_time() + self._call_seconds
        with anyio.CancelScope(deadline=deadline) as scope:
            self._calls.add(scope)
            try:
                yield scope
            finally:
                self._calls.discard(scope)

    def _gave_up(self) -> Failed:
        return Failed(
            f"MCP server {self.spec.name!r} gave no answer and no sign of progress for "
            f"{self._call_seconds:g} s, so it was told to stop (MCP_TOOL_TIMEOUT sets the time)"
        )

    async def _ask(self, request: Callable[[Client], Awaitable[_T]]) -> _T | Failed:
        """Send a request; what goes wrong with it is a failure in words."""
        from mcp import MCPError
        from mcp_types import CONNECTION_CLOSED

        await self._settled.wait()
        client, leave = self._client, self._leave
        if client is None:
            return Failed(f"MCP server {self.spec.name!r} is not connected: {self.failure}")
        try:
            answer = await request(client)
        except MCPError as error:
            if error.code == CONNECTION_CLOSED:
                return await self._fail_call(leave)
            return Failed(f"MCP server {self.spec.name!r}: {self._refused() or error}")
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
        return self._link.last_words() if self._link is not None else ""

    def _refused(self) -> str:
        return self._link.refused() if self._link is not None else ""

    def _tell(self, what: NewsKind, detail: str = "") -> None:
        if self._news is not None:
            self._news.put(ServerNews(self.spec.name, what, detail))

    async def _connect(self) -> None:
        """Stay connected until told to leave."""
        # The scope spans the whole connection, because contexts must nest; the deadline is
        # lifted once the server has answered.
        begun = anyio.current_time()
        scope = anyio.CancelScope(deadline=begun + self._reach.start_seconds)
        self._attempt, connected = scope, False
        try:
            with scope:
                async with AsyncExitStack() as stack:
                    self._link = await open_link(stack, self.spec, self._reach)
                    client = await self._enter(stack, self._link)
                    await self._learn(client)
                    scope.deadline = float("inf")
                    self._attempt, connected = None, True
                    self._client = client
                    first = not self.seconds
                    self.seconds = anyio.current_time() - begun
                    self._settled.set()
                    if first:
                        self._tell("ready")
                    await self._stay(client)
        except Exception as error:  # noqa: BLE001 # whatever a server does must not end the session
            if not connected:
                self.failure = f"{self._refused() or plainly(error)}{self._last_words()}"
            elif not self._leave.is_set():
                self._break(plainly(error))
        if scope.cancelled_caught and not connected:
            late = f"no answer within {self._reach.start_seconds:g} s (MCP_TIMEOUT sets the time)"
            self.failure = f"{self._refused() or late}{self._last_words()}"

    async def _enter(self, stack: AsyncExitStack, link: Link) -> Client:
        from mcp import Client
        from mcp_types import Implementation

        return await stack.enter_async_context(
            Client(
                link.transport,
                client_info=Implementation(name="prong", version=__version__),
                cache=None,
                message_handler=self._hear,
                elicitation_callback=self._elicit if self._asker is not None else None,
            )
        )

    async def _learn(self, client: Client) -> None:
        """Find out what the server has; after a new start it is what it was."""
        offers, about = client.server_capabilities, client.server_info
        self.about = f"{about.name} {about.version}".strip() if about is not None else ""
        self.instructions = (client.instructions or "").strip()
        self.resources = offers.resources is not None and await _has_resources(client)
        if not self.tools and offers.tools is not None:
            self.tools = await self._all_tools(client)
        if not self.prompts and offers.prompts is not None:
            self.prompts = tuple([one async for one in _pages(client.list_prompts, "prompts")])

    async def _all_tools(self, client: Client) -> dict[str, Tool]:
        found: list[Tool] = [one async for one in _pages(client.list_tools, "tools")]
        found.sort(key=lambda tool: tool.name)
        self.notes = []
        if len(found) > MOST_TOOLS:
            self.notes.append(f"of its tools the first {MOST_TOOLS:,} by name count")
        named: dict[str, Tool] = {}
        for tool in found[:MOST_TOOLS]:
            named[full_name(self.spec.name, tool.name, taken=named)] = tool
        return named

    async def _stay(self, client: Client) -> None:
        """Keep the connection until told to leave, and see what changes."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._follow_changes, client)
            group.start_soon(_subscribe, client)
            await self._leave.wait()
            group.cancel_scope.cancel()

    async def _hear(self, message: IncomingMessage) -> None:
        from mcp_types import ToolListChangedNotification

        if isinstance(message, ToolListChangedNotification):
            self._changed.set()

    async def _follow_changes(self, client: Client) -> None:
        """Look at the list of tools again when the server says that it has changed."""
        from mcp import MCPError

        while True:
            await self._changed.wait()
            await anyio.sleep(_SETTLE)
            self._changed = anyio.Event()
            try:
                with anyio.fail_after(self._reach.start_seconds):
                    now = await self._all_tools(client)
            except (MCPError, TimeoutError, ValueError, RuntimeError):
                continue
            before, self.tools = self.tools, now
            if changes := _differences(before, now):
                self._tell("changed", changes)

    async def _elicit(
        self, context: ClientRequestContext, params: ElicitRequestParams
    ) -> ElicitResult:
        """Ask the user; meanwhile no call runs out of time."""
        del context
        assert self._asker is not None
        for scope in self._calls:
            scope.deadline = float("inf")
        try:
            return await self._asker.elicit(self.spec.name, params)
        finally:
            for scope in self._calls:
                scope.deadline = anyio.current_time() + self._call_seconds


class _Progress:
    """Shows what a server says while it works; each word is a sign of life."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._last = ("", 0.0)
        self.scope: anyio.CancelScope | None = None
        self.seconds = 0.0

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        now = anyio.current_time()
        if self.scope is not None and self.scope.deadline != float("inf"):
            self.scope.deadline = now + self.seconds
        share = f"{progress:g}" if total is None else f"{progress:g}/{total:g}"
        text = f"{share} {(message or '')[:500]}".rstrip()
        before, at = self._last
        ends = total is not None and progress >= total
        if text != before and (ends or now - at >= _SHOWN):
            self._last = (text, now)
            self._show(f"{text}\n")


async def _pages(fetch: Callable[..., Awaitable[Any]], field: str) -> AsyncGenerator[Any, None]:
    """Go through a list page by page, as far as is sensible."""
    cursor: str | None = None
    for _ in range(_PAGES):
        page = await fetch(cursor=cursor)
        for one in getattr(page, field):
            yield one
        cursor = page.next_cursor
        if cursor is None:
            break


async def _has_resources(client: Client) -> bool:
    """Whether there is any resource: many servers say that they could have some."""
    from mcp import MCPError

    try:
        if (await client.list_resources()).resources:
            return True
        return bool((await client.list_resource_templates()).resource_templates)
    except (MCPError, ValueError, RuntimeError):
        return False


async def _listed_resources(client: Client) -> ResourceContents:
    """List resources and templates, as one text."""
    from mcp_types import TextResourceContents

    found = [(one.uri, one) async for one in _pages(client.list_resources, "resources")]
    templates = _pages(client.list_resource_templates, "resource_templates")
    found += [(one.uri_template, one) async for one in templates]
    lines = [f"{uri}  {one.name}  {one.description or ''}".rstrip() for uri, one in found]
    more = len(lines) - _LISTED
    shown = [*lines[:_LISTED], *([f"… and {more:,} more"] if more > 0 else [])]
    if not shown:
        return ()
    return (TextResourceContents(uri="resources", text="\n".join(shown)),)


async def _subscribe(client: Client) -> None:
    """Ask a server of the newer kind to say when its tools change; it tells the handler."""
    from mcp import MCPError
    from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost

    try:
        async with client.listen(tools_list_changed=True) as changes:
            async for _ in changes:
                pass
    except (ListenNotSupportedError, SubscriptionLost, MCPError, TimeoutError):
        return


def _differences(before: dict[str, Tool], now: dict[str, Tool]) -> str:
    """Say which tools came, went and changed."""
    came = [f"+{name}" for name in now if name not in before]
    went = [f"-{name}" for name in before if name not in now]
    other = [f"~{name}" for name, tool in now.items() if name in before and before[name] != tool]
    listed = [*came, *went, *other]
    more = len(listed) - 5
    return ", ".join((*listed[:5], *([f"and {more} more"] if more > 0 else [])))


def plainly(error: BaseException) -> str:
    """Name the first cause in a group of errors."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return str(error) or type(error).__name__


def problems(servers: Sequence[McpServer]) -> tuple[ConfigError, ...]:
    """Say which servers are not there, each with the reason and where it is configured."""
    return tuple(
        ConfigError(
            server.spec.path,
            f"MCP server {server.spec.name!r} could not be started: {server.failure}",
            line=server.spec.line,
        )
        for server in servers
        if server.state == "failed"
    )
