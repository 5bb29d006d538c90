"""Logs the user in at an MCP server: in their browser, and back to a port of this machine.

Who the server names as the place to log in is checked before anything is sent there: it must be
reached by https, and a server elsewhere cannot lead to this machine. The page that comes back must
know the state that went out, and is heard once.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import anyio
import anyio.abc
import anyio.to_thread
import msgspec

from prong.config.server import ServerSpec
from prong.errors import BadInput, NotPossibleNow
from prong.session.mcp_reach import ServerReach, load_client
from prong.session.mcp_server import plainly
from prong.session.mcp_token import StoredLogin, TokenFile
from prong.session.server_address import may_lead
from prong.system.console import has_screen

if TYPE_CHECKING:
    import httpx2
    from mcp.client.auth import OAuthClientProvider

_SECONDS = 300.0
_LONGEST = 16_384
SECRET_VARIABLE = "MCP_CLIENT_SECRET"  # noqa: S105 - the name of a variable
"""Holds the secret of a program that was registered beforehand, if it has one."""


class _PageAnswer(msgspec.Struct, frozen=True):
    """What came back from the page on which the user logged in."""

    code: str = ""
    iss: str | None = None
    error: str = ""


class Loopback:
    """The address on this machine to which the browser is led back."""

    def __init__(self, port: int, *, named: bool = False) -> None:
        """Wait at a port; before a state is known every answer is a wrong one.

        With `named` the browser is led back by this machine's name.
        """
        # What is registered beforehand is so by this name, and compared by the letter.
        self.url = f"http://{'localhost' if named else '127.0.0.1'}:{port}/callback"
        self.state = ""
        self.answer: _PageAnswer | None = None
        self.answered = anyio.Event()

    async def hear(self, stream: anyio.abc.ByteStream) -> None:
        """Take one request of a browser."""
        async with stream:
            try:
                with anyio.move_on_after(10):
                    text = await _request_line(stream)
                    status, told = self._take(text)
                    body = f"<!doctype html><title>Prong</title><p>{told}</p>".encode()
                    head = f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\n"
                    head += f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
                    await stream.send(head.encode() + body)
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                return

    def _take(self, line: str) -> tuple[str, str]:
        """Read a request; only the first that knows the state is an answer."""
        words = line.split(" ")
        target = urlsplit(words[1]) if len(words) > 2 and words[0] == "GET" else urlsplit("")
        if target.path != "/callback":
            return "404 Not Found", "There is nothing here."
        given = {name: values[0] for name, values in parse_qs(target.query).items()}
        if not self.state or given.get("state") != self.state:
            return "400 Bad Request", "This is not the answer that Prong waits for."
        if self.answer is not None:
            return "409 Conflict", "Prong has had its answer already."
        said = given.get("error_description") or given.get("error", "")
        self.answer = _PageAnswer(given.get("code", ""), given.get("iss"), said)
        self.answered.set()
        if said or not self.answer.code:
            return "200 OK", "You are not logged in. You can close this page."
        return "200 OK", "You are logged in. You can close this page and go back to Prong."


async def _request_line(stream: anyio.abc.ByteStream) -> str:
    data = b""
    while b"\r\n\r\n" not in data and len(data) < _LONGEST:
        data += await stream.receive()
    return data.split(b"\r\n", 1)[0].decode(errors="replace")


@asynccontextmanager
async def loopback(wanted: int | None = None) -> AsyncGenerator[Loopback, None]:
    """Listen on a port of this machine, a free one if none is wanted, for this machine alone.

    Raises NotPossibleNow if the port is taken.
    """
    host = "127.0.0.1" if wanted is None else "localhost"
    try:
        listener = await anyio.create_tcp_listener(local_host=host, local_port=wanted or 0)
    except OSError as error:
        why = error.strerror or error
        raise NotPossibleNow(f"port {wanted} of this machine cannot be used: {why}") from error
    port = listener.extra(anyio.abc.SocketAttribute.local_port)  # noqa: S610 - no Django here
    waiting = Loopback(port, named=wanted is not None)
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, waiting.hear)
        try:
            yield waiting
        finally:
            group.cancel_scope.cancel()


async def log_in(
    spec: ServerSpec, reach: ServerReach, show: Callable[[str], None], *, browse: bool
) -> str:
    """Log in at a server and keep the tokens; gives what came of it.

    `show` tells the user where to go; with `browse` their browser is opened there.

    Raises UsageError if the server has no login, or it did not work.
    """
    if not spec.url:
        raise BadInput(f"MCP server {spec.name!r} is started here; only an address has a login")
    if any(name.lower() == "authorization" for name in spec.headers):
        raise BadInput(
            f"MCP server {spec.name!r} has an Authorization header in {spec.path}; remove it first"
        )
    if spec.login.unheeded:
        named = ", ".join(f"oauth.{key}" for key in spec.login.unheeded)
        show(f"({named} of {spec.path} has no effect here)")
    await anyio.to_thread.run_sync(load_client)
    why = f"nobody logged in within {_SECONDS:g} s; try again"
    async with loopback(spec.login.port) as page:
        provider = _provider(spec, page, show, reach.env.get(SECRET_VARIABLE, ""), browse=browse)
        with anyio.move_on_after(_SECONDS):
            why = await _connect(spec, provider)
    if why:
        raise NotPossibleNow(f"no login at MCP server {spec.name!r}: {why}")
    return _keep(spec, reach, provider)


def _provider(
    spec: ServerSpec, page: Loopback, show: Callable[[str], None], secret: str, *, browse: bool
) -> OAuthClientProvider:
    from mcp.client.auth import OAuthClientProvider
    from mcp.shared.auth import (
        AuthorizationCodeResult,
        OAuthClientInformationFull,
        OAuthClientMetadata,
    )
    from pydantic import AnyUrl

    async def lead(url: str) -> None:
        _check_address(spec.url, url)
        page.state = parse_qs(urlsplit(url).query).get("state", [""])[0]
        show(f"Log in at {urlsplit(url).netloc}, in your browser:\n{url}")
        if browse:
            import webbrowser

            if not (has_screen() and await anyio.to_thread.run_sync(webbrowser.open, url)):
                show("no browser could be opened; open the address above yourself")

    async def wait() -> AuthorizationCodeResult:
        await page.answered.wait()
        assert page.answer is not None
        if page.answer.error or not page.answer.code:
            why = page.answer.error or "no code came back"
            raise NotPossibleNow(f"you were not let in: {why[:500]}")
        return AuthorizationCodeResult(code=page.answer.code, state=page.state, iss=page.answer.iss)

    known, method = None, "none"
    if client := spec.login.client_id:
        method = "client_secret_post" if secret else "none"
        known = OAuthClientInformationFull(
            client_id=client,
            client_secret=secret or None,
            redirect_uris=[AnyUrl(page.url)],
            token_endpoint_auth_method=method,
        )
    return OAuthClientProvider(
        server_url=spec.url,
        client_metadata=OAuthClientMetadata(
            redirect_uris=[AnyUrl(page.url)],
            client_name="Prong",
            token_endpoint_auth_method=method,
        ),
        storage=_PendingLogin(known),
        redirect_handler=lead,
        callback_handler=wait,
    )


class _PendingLogin:
    """Holds what a login gives until all of it can be kept."""

    def __init__(self, client: Any = None) -> None:
        self._tokens: Any = None
        self._client: Any = client

    async def get_tokens(self) -> Any:
        return self._tokens

    async def set_tokens(self, tokens: Any) -> None:
        self._tokens = tokens

    async def get_client_info(self) -> Any:
        return self._client

    async def set_client_info(self, client_info: Any) -> None:
        self._client = client_info


async def _connect(spec: ServerSpec, provider: OAuthClientProvider) -> str:
    """Ask the server something, so that it asks for a login; gives why that did not work out."""
    import httpx2
    from mcp import Client
    from mcp.client.sse import sse_client
    from mcp.client.streamable_http import streamable_http_client

    async def look(request: httpx2.Request) -> None:
        _check_address(spec.url, str(request.url))

    def client(
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        del timeout
        return httpx2.AsyncClient(
            headers=headers, auth=auth, timeout=_SECONDS, event_hooks={"request": [look]}
        )

    headers = dict(spec.headers) or None
    try:
        if spec.kind == "sse":
            transport = sse_client(
                spec.url, headers=headers, httpx_client_factory=client, auth=provider
            )
            async with Client(transport, cache=None):
                return ""
        async with (
            client(headers, auth=provider) as http,
            Client(streamable_http_client(spec.url, http_client=http), cache=None),
        ):
            return ""
    except Exception as error:  # noqa: BLE001 - whatever a server does, the user is told in words
        return plainly(error)[:1_000]


def _check_address(server: str, url: str) -> None:
    """Make sure that a login leads to no place where it has no business; raises UsageError."""
    if not may_lead(server, url):
        raise BadInput(f"the server leads the login to {url[:200]!r}, where it may not go")


def _keep(spec: ServerSpec, reach: ServerReach, provider: OAuthClientProvider) -> str:
    """Keep what a login has given."""
    context = provider.context
    tokens, client, metadata = context.current_tokens, context.client_info, context.oauth_metadata
    if tokens is None or client is None:
        return f"MCP server {spec.name!r} wants no login"
    if spec.login.client_id not in {"", client.client_id}:
        raise NotPossibleNow(f"{spec.url} did not take the client id {spec.login.client_id!r}")
    endpoint = str(metadata.token_endpoint) if metadata is not None else ""
    file = TokenFile(reach.home, spec.url)
    file.write(
        StoredLogin(
            url=spec.url,
            access_token=tokens.access_token,
            refresh_token=tokens.refresh_token,
            expires_at=None if tokens.expires_in is None else time.time() + tokens.expires_in,
            scope=tokens.scope,
            token_endpoint=endpoint,
            resource=context.get_resource_url() if context.protected_resource_metadata else "",
            client_id=client.client_id,
            client_secret=client.client_secret,
            auth_method=client.token_endpoint_auth_method,
        )
    )
    return f"logged in at MCP server {spec.name!r}; the login is kept in {file.path}"


def log_out(spec: ServerSpec, reach: ServerReach) -> str:
    """Forget the login at a server; gives what came of it.

    Raises ConfigError if its file cannot be removed.
    """
    if spec.url and TokenFile(reach.home, spec.url).delete():
        return f"logged out of MCP server {spec.name!r}; its tokens are deleted here"
    return f"there is no login at MCP server {spec.name!r}"
