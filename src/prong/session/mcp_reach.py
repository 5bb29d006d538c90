"""How a server is reached: what it is given of the user's environment, and over which line."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import anyio.to_thread
import msgspec

from prong.config.place import Place
from prong.config.secrecy import provider_keys
from prong.config.server import ServerSpec
from prong.errors import ConfigError
from prong.session.mcp_stdio import LARGEST, ServerProcess, started, talk
from prong.session.mcp_token import TokenFile, token_auth

if TYPE_CHECKING:
    import httpx2

_START, _CALL = 30.0, 600.0


class ServerReach(msgspec.Struct, frozen=True, kw_only=True):
    """What all servers of a session have in common."""

    home: str
    cwd: str
    env: Mapping[str, str] = {}
    """What servers that are started here find in their environment."""
    start_seconds: float = _START
    call_seconds: float = _CALL
    """How long a call may go without a sign of life."""


def reach_of(place: Place) -> ServerReach:
    """Say how the servers of a session are reached: with all of the user's environment but keys."""
    given = {**place.env, **place.settings.values.env}
    keys = provider_keys(place)
    return ServerReach(
        home=place.home,
        cwd=place.cwd,
        env={
            "CLAUDE_PROJECT_DIR": place.root,
            **{name: value for name, value in given.items() if name not in keys},
        },
        start_seconds=_seconds(place, given, "MCP_TIMEOUT", _START),
        call_seconds=_seconds(place, given, "MCP_TOOL_TIMEOUT", _CALL),
    )


def _seconds(place: Place, env: Mapping[str, str], name: str, usual: float) -> float:
    """Read a time in milliseconds from the environment."""
    text = env.get(name, "").strip()
    if not text:
        return usual
    try:
        value = float(text) / 1000
    except ValueError:
        value = 0.0
    if not value > 0 or math.isinf(value):
        place.warn(f"{name} is {text!r} and must be milliseconds above 0; it is {usual:g} s")
        return usual
    return value


class Link:
    """The line to a server, and what is known of it when it fails."""

    def __init__(self, spec: ServerSpec, transport: Any, process: ServerProcess | None) -> None:
        """Take the transport, and the process that is at its other end, if it was started here."""
        self.transport = transport
        self._spec = spec
        self._process = process
        self._status = 0
        self._token = ""

    async def look(self, response: httpx2.Response) -> None:
        """Take note of an answer by which a server refuses whoever asks."""
        if response.status_code in {401, 403}:
            self._status = response.status_code
        elif response.is_success:
            self._status = 0
        if "text/event-stream" not in response.headers.get("content-type", ""):
            # A stream of events is bounded event by event, and may last for ever.
            response.stream = _bounded(response.stream)

    def refused(self) -> str:
        """Say what to do about a refusal; empty if there was none."""
        if not self._status:
            return ""
        name, status = self._spec.name, self._status
        if any(header.lower() == "authorization" for header in self._spec.headers):
            return (
                f"it refuses the Authorization header that {self._spec.path} gives it (HTTP "
                f"{status}); correct it, or remove it and run: prong mcp login {name}"
            )
        what = "it wants a login" if status == 401 else "it refuses this login"
        return f"{what} (HTTP {status}); run: prong mcp login {name}"

    def last_words(self) -> str:
        """Give what the process did and printed last."""
        if self._process is None:
            return ""
        text = self._process.tail.text()
        broken = f"; {self._process.broken}" if self._process.broken else ""
        return f"{broken}\nIts last output:\n{text}" if text else broken


def _bounded(stream: Any) -> httpx2.AsyncByteStream:
    """Read no more of an answer than a message may have."""
    import httpx2

    class Bounded(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncGenerator[bytes, None]:
            size = 0
            async for chunk in stream:
                size += len(chunk)
                if size > LARGEST:
                    raise httpx2.ReadError(f"it sent an answer of more than {LARGEST >> 20} MB")
                yield chunk

        async def aclose(self) -> None:
            await stream.aclose()

    return Bounded()


async def open_link(stack: AsyncExitStack, spec: ServerSpec, reach: ServerReach) -> Link:
    """Start a server, or prepare to reach it; what was begun ends with the stack.

    Raises OSError if it cannot be started, ConfigError if a stored login cannot be read.
    """
    if not spec.url:
        argv, env = (spec.command, *spec.args), {**reach.env, **spec.env}
        process = await stack.enter_async_context(started(argv, env=env, cwd=spec.cwd or reach.cwd))
        # Beside the server, which starts in the same time.
        await anyio.to_thread.run_sync(load_client)
        return Link(spec, talk(process), process)
    await anyio.to_thread.run_sync(load_client)
    return await _open_web(stack, spec, reach)


async def _open_web(stack: AsyncExitStack, spec: ServerSpec, reach: ServerReach) -> Link:
    import httpx2
    from mcp.client.sse import sse_client
    from mcp.client.streamable_http import streamable_http_client

    tokens = TokenFile(reach.home, spec.url)
    own = any(name.lower() == "authorization" for name in spec.headers)
    auth = None if own or tokens.read() is None else token_auth(tokens)
    link = Link(spec, None, None)
    read = (spec.call_seconds or reach.call_seconds) + _START

    def client(
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        del timeout
        return httpx2.AsyncClient(
            headers=headers,
            timeout=httpx2.Timeout(_START, read=read),
            auth=auth,
            event_hooks={"response": [link.look]},
        )

    if spec.kind == "sse":
        link.transport = sse_client(
            spec.url,
            headers=dict(spec.headers) or None,
            sse_read_timeout=read,
            httpx_client_factory=client,
            auth=auth,
        )
        return link
    http = await stack.enter_async_context(client(dict(spec.headers) or None, auth=auth))
    link.transport = streamable_http_client(spec.url, http_client=http)
    return link


def load_client() -> None:
    """Import the client, which takes a while; done in a thread so that others go on.

    Raises ConfigError if it is not installed.
    """
    import logging

    try:
        import mcp
    except ImportError as error:
        raise ConfigError("MCP", "servers need the package 'mcp'; install prong[mcp]") from error
    del mcp
    # It logs what servers do wrong; on a terminal that would garble what the user reads.
    logging.getLogger("mcp").addHandler(logging.NullHandler())
