"""Logins at servers: in a browser, back to this machine, kept for the user alone."""

from __future__ import annotations

import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from http.client import HTTPException
from pathlib import Path
from threading import Thread

import anyio
import anyio.to_thread
import msgspec
import pytest

from prong.config.document import parse_document
from prong.config.server import ServerLogin, ServerSpec, parse_servers
from prong.errors import ConfigError, ProngError, UsageError
from prong.session.mcp_login import Loopback, log_in, log_out
from prong.session.mcp_reach import ServerReach
from prong.session.mcp_servers import McpServers, open_servers
from prong.session.mcp_token import StoredLogin, TokenFile
from prong.testing.local_port import held_port
from prong.tools.tool import Failed
from shared.served import wait_listening

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("L11", "L13")]

SCRIPT = str(Path(__file__).with_name("mcp_login_server.py"))


@contextmanager
def serving(*words: str) -> Generator[str]:
    with held_port() as port:
        process = subprocess.Popen([sys.executable, SCRIPT, str(port), *words])
        try:
            wait_listening(port, process)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.terminate()
            process.wait()


def spec_of(url: str, **headers: str) -> ServerSpec:
    return ServerSpec(name="locked", path="f", line=1, kind="http", url=url, headers=headers)


def visit(url: str) -> str:
    """Do as a browser does: go there, and where one is sent."""
    try:
        with urllib.request.urlopen(url, timeout=50) as page:
            return str(page.read().decode())
    except (OSError, HTTPException) as error:
        # Also if the other end closes in the middle of it.
        return str(error)


async def logged_in(
    url: str,
    home: Path,
    *,
    browser: Callable[[str], str] = visit,
    login: ServerLogin | None = None,
    secret: str = "",
) -> tuple[str, list[str]]:
    """Log in, with a browser that does what it is told."""
    pages: list[str] = []
    browsers: list[Thread] = []

    def show(text: str) -> None:
        thread = Thread(target=lambda: pages.append(browser(text.splitlines()[-1])))
        browsers.append(thread)
        thread.start()

    try:
        env = {"MCP_CLIENT_SECRET": secret} if secret else {}
        reach = ServerReach(home=str(home), cwd="/", env=env)
        spec = msgspec.structs.replace(spec_of(url), login=login or ServerLogin())
        said = await log_in(spec, reach, show, browse=False)
    finally:
        for thread in browsers:
            await anyio.to_thread.run_sync(thread.join)
    return said, pages


async def used(url: str, home: Path) -> tuple[str, str]:
    """Open the server as a session does; gives its state, and what its tool says."""
    state = said = ""
    async with anyio.create_task_group() as group:
        reach = ServerReach(home=str(home), cwd="/", start_seconds=50)
        servers: McpServers = await open_servers([spec_of(url)], group, reach)
        (server,) = servers.servers
        answer = await server.call("mcp__locked__secret", {}, print)
        said = answer.why if isinstance(answer, Failed) else str(answer.content[0])
        state = server.failure or server.state
        await servers.aclose()
    return state, said


async def test_a_login_is_kept_and_used(tmp_path: Path) -> None:
    """401 says what to do; a login is kept with mode 600, used by sessions, and can be left."""
    with serving() as url:
        state, _ = await used(url, tmp_path)
        assert state == "it wants a login (HTTP 401); run: prong mcp login locked"
        said, pages = await logged_in(url, tmp_path)
        assert "logged in at MCP server 'locked'" in said
        assert "You are logged in" in pages[0]
        file = TokenFile(str(tmp_path), url)
        assert file.path.stat().st_mode & 0o777 == 0o600
        assert file.path.parent.stat().st_mode & 0o777 == 0o700
        state, answer = await used(url, tmp_path)
        assert state == "ready"
        assert "the cat is in the bag" in answer
        reach = ServerReach(home=str(tmp_path), cwd="/")
        assert "logged out" in log_out(spec_of(url), reach)
        assert "no login" in log_out(spec_of(url), reach)
        assert not file.path.exists()


async def test_a_token_that_has_ended_is_refreshed(tmp_path: Path) -> None:
    """An old token is exchanged before it is used, and what came is kept."""
    with serving("short") as url:
        await logged_in(url, tmp_path)
        file = TokenFile(str(tmp_path), url)
        before = file.read()
        state, _ = await used(url, tmp_path)
        assert state == "ready"
        after = file.read()
        assert before is not None
        assert after is not None
        assert after.access_token != before.access_token
        assert after.refresh_token != before.refresh_token


async def test_a_token_that_was_taken_back_is_refreshed_or_said(tmp_path: Path) -> None:
    """A token that the server forgot is exchanged; if that fails too, the user is told to log in."""
    for words, good in (((), True), (("no_refresh",), False)):
        with serving(*words) as url:
            await logged_in(url, tmp_path)
            base = url.removesuffix("/mcp")
            revoke = urllib.request.Request(f"{base}/revoke", method="POST")
            await anyio.to_thread.run_sync(partial(urllib.request.urlopen, revoke, timeout=50))
            state, _ = await used(url, tmp_path)
            assert (state == "ready") == good
            if not good:
                assert "run: prong mcp login locked" in state


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("denies", "access_denied"),
        ("elsewhere", "where it may not go"),
        ("far_token", "where it may not go"),
        ("far_register", "where it may not go"),
        ("other_resource", "does not match"),
        ("other_issuer", "issuer"),
    ],
)
async def test_a_login_that_leads_astray_is_refused(tmp_path: Path, word: str, why: str) -> None:
    """Refusals, and metadata that points elsewhere, end the login; nothing is kept."""
    with serving(word) as url:
        with pytest.raises(UsageError, match=why):
            await logged_in(url, tmp_path)
        assert not (tmp_path / ".prong/mcp-tokens").exists()


async def test_only_the_first_right_answer_counts(tmp_path: Path) -> None:
    """A page with a wrong state, or a second answer, changes nothing."""

    def browser(url: str) -> str:
        back = urllib.request.urlopen(url, timeout=50).geturl()
        forged = back.replace("code=", "code=forged")
        return visit(forged)

    with serving() as url:
        said, pages = await logged_in(url, tmp_path, browser=browser)
        assert "logged in" in said
        assert "logged in." not in pages[0]


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("GET /callback?code=c&state=other HTTP/1.1", "400"),
        ("GET /callback?code=c HTTP/1.1", "400"),
        ("GET /favicon.ico HTTP/1.1", "404"),
        ("POST /callback?code=c&state=s HTTP/1.1", "404"),
        ("nonsense", "404"),
        ("", "404"),
    ],
)
async def test_what_is_no_answer_is_not_heard(line: str, status: str) -> None:
    """The address for answers hears only a page that knows the state, and that once."""
    page = Loopback(1)
    assert page._take("GET /callback?code=c&state= HTTP/1.1")[0].startswith("400")
    page.state = "s"
    assert page._take(line)[0].startswith(status)
    assert page.answer is None
    good = "GET /callback?code=c&state=s HTTP/1.1"
    assert page._take(good)[0].startswith("200")
    assert page._take(good.replace("code=c", "code=d"))[0].startswith("409")
    assert page.answer is not None
    assert page.answer.code == "c"


@pytest.mark.parametrize(
    ("content", "mode", "why"),
    [
        (b"{", 0o600, "holds no login"),
        (b"\xff\xfe", 0o600, "holds no login"),
        (b"[]", 0o600, "holds no login"),
        (None, 0o644, "can be read by others"),
    ],
)
async def test_a_tokens_file_that_cannot_be_used_is_said(
    tmp_path: Path, content: bytes | None, mode: int, why: str
) -> None:
    """A damaged file, or one that others can read, is named, and the server fails with that."""
    url = "http://127.0.0.1:9/mcp"
    file = TokenFile(str(tmp_path), url)
    file.write(StoredLogin(url=url, access_token="t"))
    if content is not None:
        file.path.write_bytes(content)
    file.path.chmod(mode)
    state, _ = await used(url, tmp_path)
    assert why in state
    assert "log in anew" in state


def test_a_login_belongs_to_one_address(tmp_path: Path) -> None:
    """A known name at another address gets nothing of a login."""
    one = TokenFile(str(tmp_path), "https://good.example/mcp")
    one.write(StoredLogin(url="https://good.example/mcp", access_token="t"))
    other = TokenFile(str(tmp_path), "https://evil.example/mcp")
    assert other.read() is None
    other.path.write_bytes(msgspec.json.encode(one.read()))
    other.path.chmod(0o600)
    with pytest.raises(ProngError, match="is the login at"):
        other.read()


async def test_what_has_no_login_says_so(tmp_path: Path) -> None:
    """A server that is started here, or has a header of its own, cannot be logged in at."""
    reach = ServerReach(home=str(tmp_path), cwd="/")
    local = ServerSpec(name="s", path="f", line=1, command="x")
    with pytest.raises(UsageError, match="only an address"):
        await log_in(local, reach, print, browse=False)
    with pytest.raises(UsageError, match="Authorization header"):
        await log_in(spec_of("http://h", Authorization="x"), reach, print, browse=False)


@pytest.mark.parametrize("secret", ["", "hush-0123456789"])
async def test_a_program_that_was_registered_before_logs_in(tmp_path: Path, secret: str) -> None:
    """With a client id nothing is registered, and the browser comes back to the agreed port."""
    words = ("agreed", "secret") if secret else ("agreed",)
    with held_port() as port, serving(*words) as url:
        login = ServerLogin("agreed-1", port)
        said, _ = await logged_in(url, tmp_path, login=login, secret=secret)
        kept = TokenFile(str(tmp_path), url).read()

    assert "logged in" in said
    assert kept is not None
    assert (kept.client_id, kept.client_secret or "") == ("agreed-1", secret)


async def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    """Nothing is opened in a browser that could not come back."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"port {port} of this machine cannot be used"):
            await logged_in("http://127.0.0.1:1/mcp", tmp_path, login=ServerLogin("x", port))


@pytest.mark.parametrize(
    ("oauth", "found"),
    [
        ('{"clientId": "a", "callbackPort": 8080}', ServerLogin("a", 8080)),
        ('{"clientId": "${ID:-b}", "scopes": "x"}', ServerLogin("b", None, ("scopes",))),
        ("null", ServerLogin()),
        ("[]", "must be an object"),
        ('{"clientId": 7}', "must be a text"),
        ('{"callbackPort": "80"}', "must be the number of a port"),
        ('{"callbackPort": 70000}', "must be the number of a port"),
        ('{"callbackPort": true}', "must be the number of a port"),
    ],
)
def test_what_was_agreed_on_stands_in_the_servers_entry(oauth: str, found: object) -> None:
    """The entry is read whole; what is wrong in it is named, and what has no effect is kept."""
    text = f'{{"mcpServers": {{"s": {{"url": "https://x.test/mcp", "oauth": {oauth}}}}}}}'
    document = parse_document("f.json", text)
    assert not isinstance(document, ConfigError)
    servers, problems = parse_servers(document, {})

    if isinstance(found, str):
        assert found in str(problems[0])
    else:
        assert [one.login for one in servers] == [found]
