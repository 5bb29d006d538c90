"""The steps of a login at a server, each by itself: where it leads, what is heard, what is kept."""

from __future__ import annotations

import time
import webbrowser
from contextlib import AsyncExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self, cast
from urllib.parse import urlsplit

import anyio
import anyio.abc
import msgspec
import pytest

from prong.config.server import ServerLogin, ServerSpec
from prong.errors import BadInput, NotPossibleNow, UsageError
from prong.session import mcp_login
from prong.session.mcp_login import Loopback, log_in, loopback
from prong.session.mcp_reach import ServerReach, load_client
from prong.session.mcp_token import StoredLogin, TokenFile
from prong.testing.local_port import held_port

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("L11", "L13")]

URL = "https://mcp.example/mcp"
SPEC = ServerSpec(name="locked", path="f", line=1, kind="http", url=URL)


def agreed(**login: Any) -> ServerSpec:
    return msgspec.structs.replace(SPEC, login=ServerLogin(**login))


class Flow:
    """A login that has been begun, as the library sees it."""

    def __init__(self, spec: ServerSpec = SPEC, secret: str = "", *, browse: bool = False) -> None:
        load_client()
        self.page = Loopback(1)
        self.shown: list[str] = []
        show = self.shown.append
        self.provider = mcp_login._provider(spec, self.page, show, secret, browse=browse)

    async def lead(self, url: str) -> None:
        handler = self.provider.context.redirect_handler
        assert handler is not None
        await handler(url)

    async def answer(self, **words: str) -> Any:
        query = "&".join(f"{name}={value}" for name, value in words.items())
        assert self.page._take(f"GET /callback?{query} HTTP/1.1")[0] == "200 OK"
        handler = self.provider.context.callback_handler
        assert handler is not None
        return await handler()


@pytest.mark.parametrize("named", [False, True])
async def test_answers_are_heard_on_this_machine_alone(named: bool) -> None:
    """No other address of it is listened at, whether the port was agreed on or not."""
    async with AsyncExitStack() as held:
        port = held.enter_context(held_port()) if named else None
        page = await held.enter_async_context(loopback(port))
        found = urlsplit(page.url)
        assert found.port is not None
        assert found.hostname == ("localhost" if named else "127.0.0.1")
        await (await anyio.connect_tcp("127.0.0.1", found.port)).aclose()
        with pytest.raises(OSError, match=r"refused|failed|unreachable"):
            await anyio.connect_tcp("127.0.0.2", found.port)


class Flood:
    """Stands for a browser whose request has no end."""

    def __init__(self) -> None:
        self.said = b""
        self.read = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def receive(self) -> bytes:
        self.read += 4_096
        assert self.read < 100_000, "nobody listens for so long"
        return b"a" * 4_096

    async def send(self, data: bytes) -> None:
        self.said += data


async def test_a_request_without_an_end_is_not_heard_out() -> None:
    """Whoever finds the port cannot fill the memory by it."""
    flood, page = Flood(), Loopback(1)
    await page.hear(cast("anyio.abc.ByteStream", flood))

    assert flood.said.startswith(b"HTTP/1.1 404 ")
    assert page.answer is None


@pytest.mark.parametrize(
    ("browse", "screen", "opens"),
    [
        (False, "DISPLAY", False),
        (True, "DISPLAY", True),
        (True, "WAYLAND_DISPLAY", True),
        (True, "BROWSER", True),
        (True, "", False),
    ],
)
async def test_a_browser_is_opened_only_if_that_is_wanted(
    monkeypatch: pytest.MonkeyPatch, browse: bool, screen: str, opens: bool
) -> None:
    """The address is shown always, and where no browser can appear none takes the terminal."""
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda url: opened.append(url) or True)
    for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    if screen:
        monkeypatch.setenv(screen, "x")
    flow = Flow(browse=browse)
    url = "https://login.example/authorize?state=s-1"
    await flow.lead(url)

    assert flow.shown[0] == f"Log in at login.example, in your browser:\n{url}"
    assert opened == ([url] if opens else [])
    assert flow.shown[1:] == (
        ["no browser could be opened; open the address above yourself"]
        if browse and not opens
        else []
    )
    assert flow.page.state == "s-1"


@pytest.mark.parametrize("url", ["http://login.example/x?state=s", "https://127.0.0.1/x?state=s"])
async def test_the_user_is_led_nowhere_else(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """An address in the clear, or of this machine, is neither shown nor opened."""
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    flow = Flow(browse=True)
    with pytest.raises(BadInput, match="where it may not go"):
        await flow.lead(url)

    assert (flow.shown, opened, flow.page.state) == ([], [], "")


async def test_what_comes_back_is_given_on_whole() -> None:
    """The code with the state that went out, and who says to have given it."""
    flow = Flow()
    await flow.lead("https://login.example/authorize?state=s-1")
    found = await flow.answer(state="s-1", code="c-1", iss="https://login.example")

    assert (found.code, found.state, found.iss) == ("c-1", "s-1", "https://login.example")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ({"error": "access_denied"}, "you were not let in: access_denied"),
        ({"error": "access_denied", "code": "c"}, "you were not let in: access_denied"),
        ({"error": "e", "error_description": "ask+again"}, "you were not let in: ask again"),
        ({"iss": "x"}, "no code came back"),
    ],
)
async def test_a_no_is_told(words: dict[str, str], why: str) -> None:
    """With an error, or without a code, nobody is logged in, whatever else was said."""
    flow = Flow()
    await flow.lead("https://login.example/authorize?state=s-1")
    with pytest.raises(NotPossibleNow, match=why):
        await flow.answer(state="s-1", **words)


@pytest.mark.parametrize(("secret", "method"), [("", "none"), ("hush", "client_secret_post")])
async def test_a_program_that_is_known_says_so(secret: str, method: str) -> None:
    """With a client id it is that one, by its secret if it has one; else none is known yet."""
    known = await Flow(agreed(client_id="me"), secret).provider.context.storage.get_client_info()
    unknown = await Flow(secret=secret).provider.context.storage.get_client_info()

    assert known is not None
    assert (known.client_id, known.client_secret or "") == ("me", secret)
    assert known.token_endpoint_auth_method == method
    assert unknown is None


def provider_of(*, metadata: bool = True, client: str = "me") -> Any:
    """Give what a library has at the end of a login."""
    tokens = SimpleNamespace(access_token="a", refresh_token="r", expires_in=3600, scope="x y")
    registered = SimpleNamespace(
        client_id=client, client_secret="hush", token_endpoint_auth_method="client_secret_post"
    )
    context = SimpleNamespace(
        current_tokens=tokens,
        client_info=registered,
        oauth_metadata=SimpleNamespace(token_endpoint="https://login.example/token")
        if metadata
        else None,
        protected_resource_metadata=object() if metadata else None,
        get_resource_url=lambda: URL,
    )
    return SimpleNamespace(context=context)


def test_all_that_a_refresh_needs_is_kept(tmp_path: Path) -> None:
    """Tokens, until when, for what and by whom, and where there are others."""
    reach = ServerReach(home=str(tmp_path), cwd="/")
    before = time.time()
    said = mcp_login._keep(SPEC, reach, provider_of())
    kept = TokenFile(str(tmp_path), URL).read()

    assert "logged in at MCP server 'locked'" in said
    assert kept is not None
    assert kept.expires_at is not None
    assert before + 3600 <= kept.expires_at <= time.time() + 3600
    assert msgspec.structs.replace(kept, expires_at=None) == StoredLogin(
        url=URL,
        access_token="a",
        refresh_token="r",
        scope="x y",
        token_endpoint="https://login.example/token",
        resource=URL,
        client_id="me",
        client_secret="hush",
        auth_method="client_secret_post",
    )
    mcp_login._keep(SPEC, reach, provider_of(metadata=False))
    kept = TokenFile(str(tmp_path), URL).read()
    assert kept is not None
    assert (kept.token_endpoint, kept.resource) == ("", "")


def test_a_login_as_somebody_else_is_not_kept(tmp_path: Path) -> None:
    """Who was to log in as one program, and was made another, has no login."""
    reach = ServerReach(home=str(tmp_path), cwd="/")
    with pytest.raises(NotPossibleNow, match="did not take the client id 'me'"):
        mcp_login._keep(agreed(client_id="me"), reach, provider_of(client="other"))

    assert TokenFile(str(tmp_path), URL).read() is None


@pytest.mark.parametrize("name", ["Authorization", "AUTHORIZATION", "authorization"])
async def test_a_header_that_says_who_asks_stands_for_a_login(tmp_path: Path, name: str) -> None:
    """However it is written: both would be sent, or neither."""
    spec = msgspec.structs.replace(SPEC, headers={name: "x"})
    with pytest.raises(UsageError, match="Authorization header"):
        await log_in(spec, ServerReach(home=str(tmp_path), cwd="/"), print, browse=False)


async def test_what_has_no_effect_is_said_and_so_is_why_it_failed(tmp_path: Path) -> None:
    """Nothing is dropped in silence: not a key of the entry, and not what the connection said."""
    shown: list[str] = []
    spec = msgspec.structs.replace(
        agreed(unheeded=("scopes",)), url="http://127.0.0.1:1/mcp", path=".mcp.json"
    )
    with pytest.raises(NotPossibleNow, match=r"no login at MCP server 'locked': \S"):
        await log_in(spec, ServerReach(home=str(tmp_path), cwd="/"), shown.append, browse=False)

    assert shown == ["(oauth.scopes of .mcp.json has no effect here)"]
