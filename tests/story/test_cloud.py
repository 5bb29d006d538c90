"""Claude at clouds: signed requests, their own frames and addresses, and the same cache."""

from __future__ import annotations

import itertools
import json
from base64 import urlsafe_b64decode
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from prong.config import alias_table
from prong.config.model import choose
from prong.config.option import Options
from prong.config.place import look_around
from prong.cost import Prices
from prong.entry import user_text
from prong.errors import BadInput, BrokenReply, NotInstalled, Unauthorised
from prong.event import CacheMissed, ReceiptIssued
from prong.prompt import Head, Prompt
from prong.provider import Api, Http, Providers, pick
from prong.provider.backend import Resources
from prong.provider.bedrock import BedrockSigner, Unframed
from prong.provider.hosted import library
from prong.provider.signing import OutboundRequest
from prong.provider.vertex import VertexSigner
from prong.testing import Options as ServerOptions
from prong.testing import Script, Worlds, break_off, call, forks, report, say
from prong.testing.arrival import CloudKeys, frame
from prong.testing.http import Exchange, listen
from prong.testing.transport import NoTransport
from prong.wire import HeadSpec, Tail, dialect

pytestmark = [pytest.mark.anyio, pytest.mark.spec("L9")]
ACCESS, SECRET, TOKEN = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "ya29.0123456789"
SERVING = ServerOptions(clouds=CloudKeys(aws={ACCESS: SECRET}, google_token=TOKEN))
LONG = "A line that says something about the project.\n" * 400
APIS = ["bedrock", "vertex", "azure-chat", "azure-responses"]


@pytest.fixture(scope="module")
def service_account() -> tuple[Any, dict[str, str]]:
    """Give the two halves of an account's key."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    info = {
        "type": "service_account",
        "project_id": "a-project",
        "private_key_id": "1",
        "private_key": pem.decode(),
        "client_email": "a@a-project.iam.gserviceaccount.com",
        "client_id": "1",
    }
    return key.public_key(), info


@pytest.fixture
async def google(service_account, tmp_path: Path) -> AsyncIterator[dict[str, str]]:
    """Serve tokens to whoever signs for the account, and give its environment."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding

    public, info = service_account

    async def answer(exchange: Exchange) -> None:
        asked = parse_qs(exchange.incoming.body.decode())["assertion"][0]
        signed, _, signature = asked.rpartition(".")
        padded = signature + "=" * (-len(signature) % 4)
        public.verify(
            urlsafe_b64decode(padded), signed.encode(), padding.PKCS1v15(), hashes.SHA256()
        )
        told = {"access_token": TOKEN, "expires_in": 3600, "token_type": "Bearer"}
        await exchange.send(200, json.dumps(told).encode(), {"content-type": "application/json"})

    async with listen(answer) as port:
        file = tmp_path / "account.json"
        file.write_text(json.dumps({**info, "token_uri": f"http://127.0.0.1:{port}/token"}))
        yield {"GOOGLE_APPLICATION_CREDENTIALS": str(file)}


def reached(api: str, url: str, google: dict[str, str]) -> dict[str, Any]:
    """Give the options by which a session reaches a cloud that is at a URL."""
    azure = f"{url}/openai/deployments/gpt-6.1-sol?api-version=2026-09-01"
    return {
        "bedrock": {
            "model": "bedrock:sonnet",
            "base_url": None,
            "env": {
                "AWS_REGION": "us-east-1",
                "AWS_ACCESS_KEY_ID": ACCESS,
                "AWS_SECRET_ACCESS_KEY": SECRET,
                "ANTHROPIC_BEDROCK_BASE_URL": url,
            },
        },
        "vertex": {
            "model": "vertex:sonnet",
            "base_url": None,
            "env": {"ANTHROPIC_VERTEX_BASE_URL": f"{url}/v1", **google},
        },
        "azure-chat": {"model": "gpt-4.1", "base_url": azure, "api": "chat", "api_key": "az"},
        "azure-responses": {
            "model": "gpt-6.1-sol",
            "base_url": azure,
            "api": "responses",
            "api_key": "az",
            "settings": '{"cacheMarks": true}',
        },
    }[api]


@pytest.mark.spec("F4", "F6", "F16", "L8")
@pytest.mark.parametrize("api", APIS)
async def test_turns_and_forks_read_the_cache(world: Worlds, google, api: str):
    """Every request is let in by its signature, extends the one before, and reads what that wrote."""
    names = [f"DIRECTIVE-{n}." for n in range(3)]
    script = Script(
        [
            call("Read", {"file_path": "a.txt"}),
            forks(*names),
            say("waiting"),
            say("all done"),
            say("and more"),
        ],
        routes={
            name: [call("Read", {"file_path": "a.txt"}), report(f"part {n}")]
            for n, name in enumerate(names)
        },
    )
    async with world(script, files={"a.txt": LONG}, serving=SERVING, opens=False) as w:
        given = reached(api, w.server.url, google)
        home = {"HOME": str(w.home), "PATH": "/usr/bin:/bin"}
        given["env"] = {**home, **given.get("env", {})}
        async with w.open(mode="bypassPermissions", **given) as session:
            first = await session.run("Go")
            second = await session.run("And?")
            children = w.parts.supervisor.children
        receipts = [one.receipt for one in w.told(ReceiptIssued)]
        lineages = w.server.lineages()

        assert (first.text, second.text) == ("all done", "and more"), first.detail
        assert {record.status for record in w.server.records} == {200}
        assert len(children) == 3
        assert receipts
        assert not w.told(CacheMissed)
        assert not w.warnings
        for records in lineages.values():
            for before, after in itertools.pairwise(records):
                assert after.usage.read >= (before.usage.read + before.usage.written) // 128 * 128
        least = 5_000 if api == "azure-chat" else max(r.usage.read for r in lineages["main"][:2])
        assert min(rs[0].usage.read for name, rs in lineages.items() if "/" in name) >= least


async def test_a_wrong_secret_is_refused_and_never_shown(world: Worlds):
    """The signature does not match: the session says whose it was, once, without the secret."""
    async with world([say("never")], serving=SERVING, opens=False) as w:
        given = reached("bedrock", w.server.url, {})
        env = {"HOME": str(w.home), **given["env"], "AWS_SECRET_ACCESS_KEY": "wrong-0123456789abc"}
        async with w.open(model=given["model"], base_url=None, env=env) as session:
            turn = await session.run("Go")

        assert turn.why == "error"
        assert "signature" in turn.detail
        assert "wrong-0123456789abc" not in turn.detail
        assert [record.status for record in w.server.records] == [403]


async def test_an_error_within_the_frames_is_an_error_of_the_stream(world: Worlds):
    """What AWS calls an exception is sent again where that helps, like the API's own."""
    broken = break_off("api_error", "It broke.")
    async with world([broken, say("whole")], serving=SERVING, opens=False) as w:
        given = reached("bedrock", w.server.url, {})
        env = {"HOME": str(w.home), **given["env"]}
        settings = '{"retry": {"first": 0.001}}'
        async with w.open(
            model=given["model"], base_url=None, env=env, settings=settings
        ) as session:
            turn = await session.run("Go")

        assert turn.text == "whole"
        assert len(w.server.records) == 2


async def test_a_damaged_frame_is_no_reply():
    """A checksum that does not hold, or a frame that is none, breaks the reply off."""

    class Torn:
        status, origin = 200, "https://x.test"

        def __init__(self, data: bytes) -> None:
            self.data = data
            self.headers = {"content-type": "application/vnd.amazon.eventstream"}

        async def __aiter__(self):
            yield self.data

        def settle(self) -> None: ...

        def progressed(self) -> None: ...

    whole = frame({"bytes": "e30="}, {":message-type": "event", ":event-type": "chunk"})
    assert [piece async for piece in Unframed(Torn(whole))] == [b"event: \ndata: {}\n\n"]
    for at in (4, 9, len(whole) // 2, len(whole) - 1):
        torn = bytearray(whole)
        torn[at] ^= 1
        with pytest.raises(BrokenReply, match="is damaged"):
            [piece async for piece in Unframed(Torn(bytes(torn)))]


async def test_a_cloud_gets_the_messages_api_and_nothing_else(world: Worlds):
    """The body is the prompt's own, less the model; the betas stand where the cloud reads them."""
    async with world([say("a"), say("b")], serving=SERVING, opens=False) as w:
        env = {"HOME": str(w.home), **reached("bedrock", w.server.url, {})["env"]}
        endpoint, model = pick("bedrock:us.anthropic.claude-x-v1:0", env=env)
        spec = HeadSpec(model=model, system=("s",), betas=("b-1", "b-2"))
        prompt = Prompt(Head(dialect("anthropic"), spec)).append(user_text("Hi"))
        async with Providers(Http(env={}), env=env) as providers:
            provider = providers.connect(endpoint, model)
            assert isinstance(provider, Api)
            assert await provider.models() == []
            for tail in (Tail(max_tokens=9), Tail(max_tokens=9, stream=False)):
                async with aclosing(provider.stream(prompt, (), tail)) as events:
                    assert [event async for event in events]
        for record in w.server.records:
            assert record.json["model"] == "us.anthropic.claude-x-v1:0"
            assert record.headers["anthropic-beta"] == "b-1,b-2"
            sent = msgspec_members(record.body)
            assert sent["messages"] in prompt.body()


def msgspec_members(body: bytes) -> dict[str, bytes]:
    import msgspec

    found = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    return {name: bytes(raw) for name, raw in found.items()}


@pytest.mark.parametrize(
    ("model", "env", "named"),
    [
        ("opus", {"CLAUDE_CODE_USE_BEDROCK": "1"}, alias_table.BEDROCK["claude-opus-5-5"]),
        (None, {"CLAUDE_CODE_USE_BEDROCK": "true"}, alias_table.BEDROCK["claude-sonnet-5-5"]),
        ("us.anthropic.claude-x", {"CLAUDE_CODE_USE_BEDROCK": "1"}, "us.anthropic.claude-x"),
        ("opus", {"CLAUDE_CODE_USE_VERTEX": "1"}, "claude-opus-5-5"),
        ("vertex:haiku", {}, "claude-haiku-5-5"),
        ("bedrock:claude-opus-5", {}, alias_table.BEDROCK["claude-opus-5"]),
    ],
)
def test_a_cloud_is_chosen_by_prefix_or_by_its_switch(
    tmp_path: Path, model: str | None, env: dict[str, str], named: str
):
    """The names are the cloud's own, and what is recorded leads there again."""
    here = look_around(Options(cwd=str(tmp_path), env={"HOME": str(tmp_path / "home"), **env}))
    found = choose(here, model)
    cloud = "vertex" if "vertex" in str((model, env)).lower() else "bedrock"

    assert found.named == found.model == f"{cloud}:{named}"
    assert found.endpoint.backend == cloud
    assert choose(here, None, found.recorded).named == found.named


def test_a_switch_is_for_one_vendor_and_may_be_off(tmp_path: Path):
    """Other vendors' models go where they always went."""
    env = {"HOME": str(tmp_path), "OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "a"}
    on = look_around(Options(cwd=str(tmp_path), env={**env, "CLAUDE_CODE_USE_BEDROCK": "1"}))
    off = look_around(Options(cwd=str(tmp_path), env={**env, "CLAUDE_CODE_USE_BEDROCK": "0"}))

    assert choose(on, "gpt-6-sol").endpoint.backend == ""
    assert choose(off, "opus").endpoint.backend == ""


@pytest.mark.spec("K2")
def test_a_region_has_its_own_price():
    """What a cloud asks for is the price, and a name it does not list has none."""
    prices = Prices()
    world_wide = prices.of("bedrock:global.anthropic.claude-opus-5-5")
    regional = prices.of("bedrock:us.anthropic.claude-opus-5-5")

    assert world_wide is not None
    assert regional is not None
    assert regional.input == pytest.approx(world_wide.input * 1.1)
    assert prices.of("vertex:claude-opus-5-5") is not None
    assert prices.of("bedrock:us.anthropic.claude-opus-5-5-cyber") is None


def resources(env: dict[str, str], **given: Any) -> Resources:
    return Resources(transport=NoTransport(), env=env, folder=None, **given)


def test_what_is_missing_is_said():
    """No region, no credentials, no library: each is named with its remedy."""
    with pytest.raises(BadInput, match="set AWS_REGION"):
        BedrockSigner(resources({"AWS_CONFIG_FILE": "/nowhere"}))
    with pytest.raises(NotInstalled, match=r"pip install prong\[bedrock\]"):
        library("no_such_module", "bedrock")


async def test_without_credentials_nothing_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Neither cloud is asked anything if nobody can sign for it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    for env, why in (
        ({"AWS_REGION": "us-east-1"}, "no AWS credentials.*AWS_PROFILE"),
        (
            {"GOOGLE_APPLICATION_CREDENTIALS": str(tmp_path / "none.json")},
            "no Google credentials.*gcloud auth",
        ),
    ):
        prefix = "bedrock" if "AWS_REGION" in env else "vertex"
        endpoint, model = pick(f"{prefix}:claude-x", env=env)
        prompt = Prompt(Head(dialect("anthropic"), HeadSpec(model=model))).append(user_text("Hi"))
        async with Providers(NoTransport(), env=env) as providers:
            provider = providers.connect(endpoint, model)
            with pytest.raises(Unauthorised, match=why):
                async with aclosing(provider.stream(prompt)) as events:
                    [event async for event in events]


@pytest.mark.parametrize("api", ["bedrock", "vertex"])
@pytest.mark.parametrize("way", ["option", "setting", "environment"])
async def test_a_server_that_is_asked_for_is_the_one_that_is_asked(
    world: Worlds, google, api: str, way: str
):
    """`--base-url`, the setting and the variable hold for clouds, and so do headers."""
    async with world([say("here")], serving=SERVING, opens=False) as w:
        given = reached(api, w.server.url, google)
        env = {"HOME": str(w.home), **given["env"]}
        url = env.pop(f"ANTHROPIC_{api.upper()}_BASE_URL")
        env["ANTHROPIC_CUSTOM_HEADERS"] = "X-Team: core"
        settings = json.dumps({"baseUrl": url} if way == "setting" else {})
        env |= {"PRONG_BASE_URL": url} if way == "environment" else {}
        async with w.open(
            model=given["model"],
            env=env,
            settings=settings,
            base_url=url if way == "option" else None,
            headers={"X-Gate": "open"},
        ) as session:
            turn = await session.run("Go")

        assert turn.text == "here", turn.detail
        [record] = w.server.records
        assert (record.headers["x-team"], record.headers["x-gate"]) == ("core", "open")


@pytest.mark.parametrize("cloud", [BedrockSigner, VertexSigner])
def test_an_option_goes_before_a_variable(cloud: type[BedrockSigner | VertexSigner]):
    """Who names a server is not led to the one of the environment."""
    names = ("ANTHROPIC_BEDROCK_BASE_URL", "ANTHROPIC_VERTEX_BASE_URL")
    env = {"AWS_REGION": "us-east-1", **dict.fromkeys(names, "http://variable.test/")}

    assert cloud(resources(env)).base == "http://variable.test"
    assert cloud(resources(env, base_url="http://option.test")).base == "http://option.test"


async def test_to_aws_goes_only_what_is_for_it():
    """Of a request to the Messages API its headers stay behind, but who asks and what was given."""
    env = {"AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET}
    kept = {"user-agent": "prong", "x-prong-lineage": "main", "x-gate": "open"}
    dropped = {"anthropic-version": "v", "anthropic-beta": "b", "x-api-key": "k", "x-other": "o"}
    body = (b'{"model":"bedrock:m","max_tokens":1', b',"stream":true}')
    plain = OutboundRequest("POST", "http://x.test", (*kept.items(), *dropped.items()), body)
    signer = BedrockSigner(resources(env, headers=(("x-gate", "open"),)))
    signed = dict((await signer.sign(plain)).headers)

    assert {name: signed.get(name) for name in kept} == kept
    assert set(signed) == {*kept, "content-type", "accept", "authorization", "x-amz-date"}


@pytest.mark.parametrize(
    ("cloud", "switch"),
    [
        (BedrockSigner, "CLAUDE_CODE_SKIP_BEDROCK_AUTH"),
        (VertexSigner, "CLAUDE_CODE_SKIP_VERTEX_AUTH"),
    ],
)
async def test_a_gateway_that_signs_is_shown_its_token(
    cloud: type[BedrockSigner | VertexSigner], switch: str
):
    """It goes to the gateway alone: not to the cloud, nor where a header says who asks."""
    env = {switch: "1", "ANTHROPIC_AUTH_TOKEN": "of-the-gate", "AWS_REGION": "us-east-1"}
    env |= {"GOOGLE_CLOUD_PROJECT": "p"}
    own = (("authorization", "Bearer mine"),)
    body = (b'{"model":"x:m","max_tokens":1', b',"stream":true}')
    plain = OutboundRequest("POST", "http://x.test", own, body)
    bare = OutboundRequest("POST", "http://x.test", (), body)
    at_gate = cloud(resources(env, base_url="http://gate.test"))
    with_header = cloud(resources(env, base_url="http://gate.test", headers=own))
    at_cloud = cloud(resources(env))

    assert dict((await at_gate.sign(bare)).headers)["authorization"] == "Bearer of-the-gate"
    assert "of-the-gate" in at_gate.secrets
    assert dict((await with_header.sign(plain)).headers)["authorization"] == "Bearer mine"
    assert "authorization" not in dict((await at_cloud.sign(bare)).headers)


@pytest.mark.parametrize("api", ["bedrock", "vertex"])
async def test_a_header_that_says_who_asks_is_not_written_over(world: Worlds, google, api: str):
    """With an Authorization of one's own nothing is signed, and nobody looks for credentials."""
    async with world([say("never")], serving=SERVING, opens=False) as w:
        env = {"HOME": str(w.home), "AWS_REGION": "us-east-1", "GOOGLE_CLOUD_PROJECT": "p"}
        async with w.open(
            model=f"{api}:sonnet",
            env=env,
            base_url=w.server.url,
            headers={"Authorization": "Bearer of-the-gate"},
            settings='{"retry": {"tries": 1}}',
        ) as session:
            turn = await session.run("Go")

        assert turn.why == "error"
        assert "of-the-gate" not in turn.detail
        assert {record.headers["authorization"] for record in w.server.records} == {
            "Bearer of-the-gate"
        }


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"model": "local", "base_url": "http://x.test"}, "asks no server; leave --base-url"),
        ({"model": "local", "api": "responses"}, "asks no server; leave --api responses"),
        ({"model": "bedrock:sonnet", "api": "chat"}, "prefix means anthropic, --api means chat"),
        ({"model": "vertex:sonnet", "api_key": "k"}, "take no key of ours"),
        ({"model": "bedrock:sonnet", "base_url": "nowhere"}, "nowhere"),
    ],
)
def test_what_would_not_be_heeded_is_refused(tmp_path: Path, options: dict[str, Any], why: str):
    """An address, an API or a key beside a model that has no use for it stops the start."""
    env = {"HOME": str(tmp_path / "home")}
    here = look_around(Options(cwd=str(tmp_path), env=env, **options))

    with pytest.raises(BadInput, match=why):
        choose(here, options["model"])


def test_what_is_the_sessions_is_not_an_agents(tmp_path: Path):
    """An agent on this machine's engine, in a session at a server, has no use for its address."""
    env = {"HOME": str(tmp_path / "home"), "PRONG_BASE_URL": "http://other.test"}
    given: dict[str, Any] = {"base_url": "http://x.test", "api": "responses", "api_key": "k"}
    here = look_around(Options(cwd=str(tmp_path), env=env, model="m", **given))
    found = choose(here, "local")

    assert found.endpoint.backend == "local"
    assert found.recorded.base_url is None
    assert choose(here, None, found.recorded).endpoint.backend == "local"
