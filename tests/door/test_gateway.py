"""Servers of one's own: a key that a command gives, web pages, servers that know only one API."""

from __future__ import annotations

import json
from contextlib import aclosing
from pathlib import Path
from uuid import uuid4

import anyio
import anyio.lowlevel
import pytest

from prong.config.model import choose
from prong.config.option import Options
from prong.config.place import look_around
from prong.entry import user_text
from prong.errors import BadRequest, Unauthorised
from prong.prompt import Head, Prompt
from prong.provider import Endpoint, Http, Provider, Providers, Retrying, Streamed, pick
from prong.provider.key_helper import KeyHelper
from prong.provider.signing import OutboundRequest
from prong.testing import Options as ServerOptions
from prong.testing import Server, say
from prong.testing.http import Exchange, listen
from prong.testing.transport import NoTransport
from prong.wire import HeadSpec, Tail
from shared.running import runs, started_with

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("L9")]
KEY = "sk-helped-0123456789"


async def ask(provider: Provider, model: str) -> list[Streamed]:
    prompt = Prompt(Head(provider.dialect, HeadSpec(model=model))).append(user_text("Hi"))
    async with aclosing(provider.stream(prompt, (), Tail(max_tokens=9))) as events:
        return [event async for event in events]


def helped(url: str, command: str, env: dict[str, str] | None = None) -> tuple[Providers, Endpoint]:
    endpoint, _ = pick("claude-x", base_url=url, key_helper=command, env={})
    return Providers(Http(env={}), env={"PATH": "/usr/bin:/bin", **(env or {})}), endpoint


async def test_a_command_gives_the_key_and_gives_it_once(tmp_path: Path):
    """All requests of a session share one run of the command, until its key has grown old."""
    runs = tmp_path / "runs"
    command = f"echo run >> {runs}; echo {KEY}"
    options = ServerOptions(key=KEY)
    async with Server(
        [say("a"), say("b"), say("c")], options=options, moves_prefix="two"
    ) as server:
        made, endpoint = helped(server.url, command)
        async with made as providers:
            for _ in range(2):
                await ask(providers.connect(endpoint, "claude-x"), "claude-x")
        heads = [record.headers for record in server.records]
        assert runs.read_text() == "run\n"
        made, endpoint = helped(server.url, command, {"CLAUDE_CODE_API_KEY_HELPER_TTL_MS": "0"})
        async with made as providers:
            await ask(providers.connect(endpoint, "claude-x"), "claude-x")

    assert [(h["x-api-key"], h["authorization"]) for h in heads] == [(KEY, f"Bearer {KEY}")] * 2
    assert runs.read_text() == "run\nrun\n"


async def test_a_refused_key_is_asked_for_once_more(tmp_path: Path):
    """A key that was refused as expired is replaced before anybody hears of it; a second is not."""
    old = tmp_path / "old"
    command = f"test -e {old} && echo {KEY} || echo sk-stale-9876543210; touch {old}"
    async with Server([say("a")], options=ServerOptions(key=KEY)) as server:
        made, endpoint = helped(server.url, command)
        async with made as providers:
            events = await ask(providers.connect(endpoint, "claude-x"), "claude-x")
        assert not [event for event in events if isinstance(event, Retrying)]
        assert [record.status for record in server.records] == [401, 200]
        made, endpoint = helped(server.url, "echo sk-wrong-0123456789")
        async with made as providers:
            with pytest.raises(Unauthorised, match="the setting apiKeyHelper"):
                await ask(providers.connect(endpoint, "claude-x"), "claude-x")
    assert [record.status for record in server.records] == [401, 200, 401, 401]


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("sleep 600", "did not end within 0.2 seconds"),
        ("sleep 600 & echo key", "did not end within 0.2 seconds"),
        ("printf 'sk-one-0123456789\\nsk-two-0123456789\\n'", "printed 2 lines"),
        ("true", "printed 0 lines"),
        ("echo sk-one-0123456789; exit 3", "ended with exit code 3"),
        ("yes sk-one-0123456789", "printed more than"),
        ("printf 'sk\\001one'", "printed what no header can hold"),
    ],
)
async def test_a_command_that_gives_no_key_is_named_and_nothing_is_sent(command: str, why: str):
    """It hangs, fails, or prints something else: no request leaves, and no key is shown."""
    seconds = 0.2 if "sleep" in command else 30.0
    env = {"PATH": "/usr/bin:/bin"}
    helper = KeyHelper(NoTransport(), command, env, seconds=seconds)
    with pytest.raises(Unauthorised, match=why) as caught:
        async with helper.request("POST", "http://127.0.0.1:9/", (), b"{}"):
            pass

    assert "sk-one" not in str(caught.value)


async def test_what_a_command_started_does_not_stay(tmp_path: Path):
    """A process that it left behind is ended with it."""
    note = tmp_path / "pid"
    command = f"sleep 600 >/dev/null & echo $! > {note}; echo {KEY}"
    helper = KeyHelper(NoTransport(), command, {"PATH": "/usr/bin:/bin"})
    signed = await helper.sign(OutboundRequest("POST", "http://x", (), ()))

    assert dict(signed.headers)["x-api-key"] == KEY
    with anyio.fail_after(40):
        while runs(int(note.read_text())):
            await anyio.sleep(0.01)


async def test_whoever_is_cancelled_while_a_command_starts_waits_for_its_end():
    """However early that is, no process is left that nobody waits for."""
    word, found = f"600.{uuid4().int}", list[int]()
    helper = KeyHelper(NoTransport(), f"exec sleep {word}", {"PATH": "/usr/bin:/bin"})
    async with anyio.create_task_group() as group:
        group.start_soon(helper.sign, OutboundRequest("POST", "http://x", (), ()))
        while not found:
            await anyio.lowlevel.checkpoint()
            found = started_with(word)
        group.cancel_scope.cancel()
    assert not Path(f"/proc/{found[0]}").exists()


def test_only_the_vendor_that_it_is_for_gets_such_a_key(tmp_path: Path):
    """Neither OpenAI's API, nor a request that has a key already, runs the command."""
    home = tmp_path / "home"
    (home / ".claude").mkdir(parents=True)
    (home / ".claude/settings.json").write_text('{"apiKeyHelper": "echo key"}')
    env = {"HOME": str(home), "OPENAI_API_KEY": "o"}
    here = look_around(Options(cwd=str(tmp_path), env=env))
    keyed = look_around(Options(cwd=str(tmp_path), env={**env, "ANTHROPIC_API_KEY": "a"}))

    assert choose(here, None).endpoint.key_helper == "echo key"
    assert choose(here, None).model == "claude-sonnet-5-5"
    assert choose(here, "gpt-6-sol").endpoint.key_helper == ""
    assert choose(keyed, None).endpoint.key_helper == ""


def test_a_folder_may_not_bring_such_a_command(tmp_path: Path):
    """In a project's own settings it counts only once the folder is trusted."""
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude/settings.json").write_text('{"apiKeyHelper": "touch /tmp/pwned"}')
    env = {"HOME": str(tmp_path / "home"), "ANTHROPIC_API_KEY": "a"}
    here = look_around(Options(cwd=str(tmp_path), env=env))

    assert here.settings.values.api_key_helper is None
    assert any("apiKeyHelper" in one for one in here.warnings)


async def failing(status: int, body: bytes, kind: str, api: str) -> tuple[str, int]:
    """Give what is said of a server that answers like that, and how often it was asked."""
    asked = 0

    async def answer(exchange: Exchange) -> None:
        nonlocal asked
        asked += 1
        await exchange.send(status, body, {"content-type": kind} if kind else {})

    async with listen(answer) as port, Providers(Http(env={}), env={}) as providers:
        url = f"http://127.0.0.1:{port}"
        endpoint, model = pick("gpt-6", base_url=url, api=api, key="sk-1", env={})
        endpoint = Endpoint(base_url=url, dialect=endpoint.dialect, explicit=True)
        with pytest.raises(BadRequest) as caught:
            await ask(providers.connect(endpoint, model), model)
    return str(caught.value), asked


@pytest.mark.parametrize("api", ["anthropic", "responses", "chat"])
@pytest.mark.parametrize("kind", ["text/html", "", "text/event-stream"])
async def test_a_web_page_is_no_reply(api: str, kind: str):
    """A gateway that answers with its login page is named at once, whatever it calls the page."""
    said, asked = await failing(200, b"\n<!doctype html><p>Sign in", kind, api)

    assert "web page" in said
    assert asked == 1


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, b'{"detail":"Not Found"}'),
        (404, b"404 page not found"),
        (404, b""),
        (405, b'{"detail":"Method Not Allowed"}'),
        (501, b'{"error":{"message":"not implemented"}}'),
        (400, b'{"error":{"message":"Unsupported endpoint /v1/responses"}}'),
        (200, b'{"error":"Unexpected endpoint or method. (POST /v1/responses)"}'),
    ],
)
async def test_a_server_of_the_chat_api_alone_is_recognised(status: int, body: bytes):
    """If there is no Responses API, the way to ask the other one is said in the same line."""
    said, asked = await failing(status, body, "application/json", "responses")

    assert "--api chat" in said
    assert "\n" not in said
    assert asked == 1
    assert "--api" not in (await failing(status, body, "application/json", "chat"))[0]


async def test_a_key_helper_serves_a_whole_session(world):
    """A turn of a session is answered with the key that the user's settings have printed."""
    files = {"~/.claude/settings.json": json.dumps({"apiKeyHelper": f"echo {KEY}"})}
    async with world([say("Hello.")], files=files, serving=ServerOptions(key=KEY)) as made:
        turn = await made.session.run("Hi")

    assert turn.text == "Hello."
