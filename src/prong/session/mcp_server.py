"""A connection to one MCP server, shared by all agents of a session.

The client's contexts must be left in the task that entered them, so each server lives in a task of
its own in the session's task group: it connects, says so, and waits to be told to end or to connect
again. Calls come from any task. A server that breaks in the middle of a call fails that call, which
may have had effects, and is connected again once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar, cast

import anyio
from msgspec import Struct, field
from msgspec.structs import replace

from prong.about import __version__
from prong.config.server import ServerSpec
from prong.errors import ConfigError
from prong.session.mcp_reach import Link, ServerReach, open_link
from prong.session.server_features import (
    ServerFeatures,
    differences,
    has_resources,
    introduced,
    list_resources,
    named_resources,
    with_prompts,
    with_tools,
)
from prong.session.server_news import NewsKind, NewsQueue, ServerNews
from prong.tools.mcp import ResourceContents
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
    )

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


class _ServerConnection(Struct):
    """One connection to a server, from the attempt to make it until it is left."""

    client: Client | None = None
    """To ask by; None while it is being made, and when it broke."""
    link: Link | None = None
    """The line; until there is one that of the connection before, for what it had to say."""
    attempt: anyio.CancelScope | None = None
    """An attempt that has not ended; whoever closes need not wait for it."""
    leave: anyio.Event = field(default_factory=anyio.Event)
    """Tells the task to leave the connection it is in."""

    def end(self) -> None:
        """Have it left, be it made yet or not."""
        self.leave.set()
        if self.attempt is not None:
            self.attempt.cancel()

    def last_words(self) -> str:
        """Give what the server did and printed last."""
        return self.link.last_words() if self.link is not None else ""

    def refused(self) -> str:
        """Say what to do about a refusal; empty if there was none."""
        return self.link.refused() if self.link is not None else ""


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
        self.features = ServerFeatures()
        self.failure = ""
        """Why there is no connection; empty while there is one."""
        self.seconds = 0.0
        """How long it took to connect."""
        self._reach = reach
        self._asker = asker
        self._news = news
        self._connection = _ServerConnection()
        # Set when an attempt to connect has ended, well or not.
        self._settled = anyio.Event()
        self._changed = anyio.Event()
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
                self._connection = _ServerConnection(link=self._connection.link)
                await self._connect(self._connection)
        finally:
            self._connection.client = None
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
        self._connection.end()
        await self._ended.wait()

    async def call(
        self, name: str, arguments: dict[str, Any], show: Callable[[str], None]
    ) -> CallToolResult | Failed:
        """Call a tool by its full name."""
        await self._settled.wait()
        tool = self.features.tools.get(name)
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
                return await self._ask(list_resources)
            found = await self._ask(lambda client: client.read_resource(uri))
            return found if isinstance(found, Failed) else found.contents
        return self._gave_up()

    async def resources(self) -> list[tuple[str, str]]:
        """Give the addresses of its resources, each with what it is called; none if it fails."""
        if self.state != "ready" or not self.features.resources:
            return []
        found = await self._ask(named_resources)
        return [] if isinstance(found, Failed) else found

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
        connection = self._connection
        if connection.client is None:
            return Failed(f"MCP server {self.spec.name!r} is not connected: {self.failure}")
        try:
            answer = await request(connection.client)
        except MCPError as error:
            if error.code == CONNECTION_CLOSED:
                return await self._fail_call(connection)
            return Failed(f"MCP server {self.spec.name!r}: {self._connection.refused() or error}")
        except (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
            return await self._fail_call(connection)
        except (ValueError, RuntimeError) as error:
            return Failed(f"MCP server {self.spec.name!r} gave an invalid answer: {error}")
        self._again = True
        return answer

    async def _fail_call(self, connection: _ServerConnection) -> Failed:
        """Have the connection made again and say what happened."""
        words = self._connection.last_words()
        # Calls that break together must not ask for more than one new connection.
        if connection is self._connection and not connection.leave.is_set():
            self._break("it ended twice in a row")
            connection.leave.set()
        await self._settled.wait()
        if self._connection.client is None:
            advice = f"it is not available any more: {self.failure}"
        else:
            advice = "it was started again, so the call may be repeated if that does no harm"
        return Failed(f"MCP server {self.spec.name!r} ended during the call; {advice}{words}")

    def _break(self, why: str) -> None:
        """Give the connection up; it is made again unless that was tried just before."""
        self._connection.client = None
        if self._again:
            self._again = False
            self._settled = anyio.Event()
        else:
            self.failure = why

    def _tell(self, what: NewsKind, detail: str = "") -> None:
        if self._news is not None:
            self._news.put(ServerNews(self.spec.name, what, detail))

    async def _connect(self, connection: _ServerConnection) -> None:
        """Stay connected until told to leave."""
        # The scope spans the whole connection, because contexts must nest; the deadline is
        # lifted once the server has answered.
        begun = anyio.current_time()
        scope = anyio.CancelScope(deadline=begun + self._reach.start_seconds)
        connection.attempt, connected = scope, False
        try:
            with scope:
                async with AsyncExitStack() as stack:
                    connection.link = await open_link(stack, self.spec, self._reach)
                    client = await self._enter(stack, connection.link)
                    await self._learn(client)
                    scope.deadline = float("inf")
                    connection.attempt, connected = None, True
                    connection.client = client
                    first = not self.seconds
                    self.seconds = anyio.current_time() - begun
                    self._settled.set()
                    if first:
                        self._tell("ready")
                    await self._stay(client, connection.leave)
        except Exception as error:  # noqa: BLE001 # whatever a server does must not end the session
            if not connected:
                self.failure = f"{connection.refused() or plainly(error)}{connection.last_words()}"
            elif not connection.leave.is_set():
                self._break(plainly(error))
        if scope.cancelled_caught and not connected:
            late = f"no answer within {self._reach.start_seconds:g} s (MCP_TIMEOUT sets the time)"
            self.failure = f"{connection.refused() or late}{connection.last_words()}"

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
        offers = client.server_capabilities
        # One after the other: of a server that fails on the way is known what it said before.
        self.features = introduced(self.features, client)
        some = offers.resources is not None and await has_resources(client)
        self.features = replace(self.features, resources=some)
        if not self.features.tools and offers.tools is not None:
            self.features = await with_tools(self.features, client, self.spec.name)
        if not self.features.prompts and offers.prompts is not None:
            self.features = await with_prompts(self.features, client)

    async def _stay(self, client: Client, leave: anyio.Event) -> None:
        """Keep the connection until told to leave, and see what changes."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._follow_changes, client)
            group.start_soon(_subscribe, client)
            await leave.wait()
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
                    now = await with_tools(self.features, client, self.spec.name)
            except (MCPError, TimeoutError, ValueError, RuntimeError):
                continue
            before, self.features = self.features, now
            if changes := differences(before.tools, now.tools):
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
