"""Which model a session takes: short names, long windows, variables of gateways, other settings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from prong.agent.client import ModelClient
from prong.command import Refused, SetModel
from prong.config import alias_table
from prong.config.model import Chosen, choose, render_head
from prong.config.option import Options
from prong.config.place import Place, look_around
from prong.cost import Billing, Ledger, Prices, window
from prong.cost.budget import Budget
from prong.cost.fact import LONG_BETA
from prong.entry import Usage
from prong.errors import BadInput, UnknownName
from prong.journal.note import ModelChosen
from prong.provider import Providers
from prong.testing import Worlds, say
from prong.testing.alias_source import derive, rendered
from prong.testing.transport import NoTransport

pytestmark = pytest.mark.spec("L9")
KEY = {"ANTHROPIC_API_KEY": "a-key"}


def place(folder: Path, env: dict[str, str], **settings: object) -> Place:
    home = folder / "home"
    (home / ".prong").mkdir(parents=True, exist_ok=True)
    (home / ".prong/settings.json").write_text(json.dumps(settings))
    return look_around(Options(cwd=str(folder), env={"HOME": str(home), **env}))


def chosen(folder: Path, model: str | None, env: dict[str, str], **settings: object) -> Chosen:
    return choose(place(folder, env, **settings), model)


@pytest.mark.spec("K2")
def test_the_table_is_what_the_library_says():
    """Short names mean the newest models that the installed library lists."""
    aliases, bedrock = derive()

    assert (aliases, bedrock) == (alias_table.ALIASES, alias_table.BEDROCK), rendered()


@pytest.mark.parametrize(
    ("short", "env", "model"),
    [
        ("opus", KEY, "claude-opus-5-5"),
        ("sonnet", KEY, "claude-sonnet-5-5"),
        ("haiku", KEY, "claude-haiku-5-5"),
        ("fast", KEY, "claude-haiku-5-5"),
        ("best", KEY, "claude-opus-5-5"),
        ("fast", {"OPENAI_API_KEY": "k"}, "gpt-6-luna"),
        ("best", {"OPENAI_API_KEY": "k"}, "gpt-6-astra"),
        ("fast", {"GEMINI_API_KEY": "k"}, "gemini-3.8-flash"),
        (None, {"GOOGLE_API_KEY": "k"}, "gemini-4-argon"),
        ("opus", {**KEY, "ANTHROPIC_DEFAULT_OPUS_MODEL": "our-opus"}, "our-opus"),
        (None, {**KEY, "ANTHROPIC_MODEL": "opus"}, "claude-opus-5-5"),
        (None, {**KEY, "ANTHROPIC_MODEL": "opus", "PRONG_MODEL": "haiku"}, "claude-haiku-5-5"),
    ],
)
def test_a_short_name_means_a_model(
    tmp_path: Path, short: str | None, env: dict[str, str], model: str
):
    """What is sent, recorded and priced is the name in full."""
    if model == "our-opus":
        env = {**env, "PRONG_API": "anthropic"}
    found = chosen(tmp_path, short, env)

    assert (found.model, found.named, found.betas) == (model, model, ())


def test_the_users_own_short_names_go_first(tmp_path: Path):
    """The setting modelAliases counts for every way to name a model, known names included."""
    found = chosen(tmp_path, "opus", KEY, modelAliases={"opus": "claude-opus-5"})

    assert found.model == "claude-opus-5"


def test_a_short_name_of_ones_own_that_leads_nowhere_is_named(tmp_path: Path):
    """It is said which entry is wrong, and the same name is not proposed again."""
    with pytest.raises(UnknownName, match=r"'nosuch' does not say.*modelAliases has for 'mine'$"):
        chosen(tmp_path, "mine", KEY, modelAliases={"mine": "nosuch"})


@pytest.mark.parametrize(
    ("named", "why"),
    [
        ("nosuch", "does not say where the model is"),
        ("opsu", "did you mean opus?"),
        ("other:one", "no provider 'other' is installed"),
        ("gpt-6", "there is no key for"),
        ("azure:mine", "needs the address of the resource"),
    ],
)
@pytest.mark.parametrize("persist", [True, False])
@pytest.mark.anyio
async def test_what_only_a_start_takes_is_not_advised_alone_in_a_session(
    world: Worlds, named: str, why: str, *, persist: bool
) -> None:
    """Flags and variables cannot be given there: it is said how to go on with them."""
    async with world([say("One.")], opens=False) as w:
        env = {
            "HOME": str(w.home),
            "PATH": os.environ["PATH"],
            "ANTHROPIC_BASE_URL": w.server.url,
            "ANTHROPIC_API_KEY": "k",
        }
        async with w.open(base_url=None, api=None, env=env, persist=persist) as session:
            await session.run("Hi")
            outcome = await session.send(SetModel(named))
            assert isinstance(outcome, Refused)
            assert why in outcome.why
            assert "--base-url" in outcome.why
            ways = {
                True: f"leave, then 'prong --resume {session.id} --model {named}' with them)",
                False: "begin a new session with them)",
            }
            lead = " (flags and variables count from a start: name another model here, or "
            assert outcome.why.endswith(lead + ways[persist])
            plain = await session.send(SetModel("anthropic:"))
            assert plain == Refused("'anthropic:' names no model; write anthropic:NAME")


def test_an_unknown_short_name_is_refused_with_the_nearest(tmp_path: Path):
    """Nobody is led to another vendor's API, and what was meant is proposed."""
    with pytest.raises(UnknownName, match=r"'opsu' does not say where.*did you mean opus\?"):
        chosen(tmp_path, "opsu", KEY)
    with pytest.raises(UnknownName, match="--base-url") as caught:
        chosen(tmp_path, "grok-4", KEY)
    assert "anthropic:" not in str(caught.value)


@pytest.mark.parametrize(
    ("named", "model", "betas", "window"),
    [
        ("claude-sonnet-4-5[1m]", "claude-sonnet-4-5", (LONG_BETA,), 1_000_000),
        ("claude-sonnet-4-5", "claude-sonnet-4-5", (), 200_000),
        ("sonnet[1m]", "claude-sonnet-5-5", (), 1_000_000),
        ("claude-opus-4-6[1M]", "claude-opus-4-6", (), 1_000_000),
    ],
)
def test_a_long_window_is_asked_for(
    tmp_path: Path, named: str, model: str, betas: tuple[str, ...], window: int
):
    """`[1m]` is never sent: the header is, where the model needs one, and the window is that."""
    here = place(tmp_path, KEY)
    found = choose(here, named)
    head = render_head(here, found, (), cache_key="k")
    provider = found.connect(Providers(NoTransport(), env={}))
    client = ModelClient(
        provider=provider, billing=Billing(prices=Prices(), ledger=Ledger(), budget=Budget())
    )

    assert (found.model, head.spec.betas) == (model, betas)
    assert b"[1" not in head.data
    assert client.window(head) == window


def test_a_model_without_a_long_window_says_so(tmp_path: Path):
    """What cannot be had is refused before anything is sent."""
    with pytest.raises(BadInput, match=r"haiku-4-5 reads 200,000 tokens and has no window"):
        chosen(tmp_path, "claude-haiku-4-5[1m]", KEY)


def test_a_session_goes_on_with_the_model_it_had(tmp_path: Path):
    """A short name that means another model by now changes nothing for who resumes."""
    here = place(tmp_path, KEY)
    before = ModelChosen("claude-opus-5", "http://gate.test")
    found = choose(here, None, before)
    again = choose(here, "opus", choose(here, "opus").recorded)

    assert (found.model, found.endpoint.base_url) == ("claude-opus-5", "http://gate.test")
    assert again.recorded == ModelChosen("claude-opus-5-5")


@pytest.mark.parametrize(
    ("env", "model", "headers"),
    [
        (
            {"ANTHROPIC_BASE_URL": "http://gate.test", "ANTHROPIC_AUTH_TOKEN": "token"},
            "claude-sonnet-5-5",
            {"authorization": "Bearer token"},
        ),
        (
            {**KEY, "ANTHROPIC_BASE_URL": "http://gate.test", "ANTHROPIC_AUTH_TOKEN": "token"},
            "claude-sonnet-5-5",
            {"authorization": "Bearer token"},
        ),
        ({"ANTHROPIC_BASE_URL": "http://gate.test"}, "claude-sonnet-5-5", {}),
        ({"OPENAI_BASE_URL": "http://gate.test"}, "gpt-6.1-sol", {}),
        ({"OPENAI_BASE_URL": "http://gate.test", "OPENAI_MODEL": "qwen3"}, "qwen3", {}),
    ],
)
def test_a_gateway_needs_no_model_to_be_named(
    tmp_path: Path, env: dict[str, str], model: str, headers: dict[str, str]
):
    """Its variables are enough; it is given its own token, and never the vendor's key beside it."""
    found = chosen(tmp_path, None, env)
    sent = dict(found.endpoint.headers)
    sent.pop("anthropic-version", None)

    assert (found.model, found.endpoint.base_url) == (model, "http://gate.test")
    assert sent == headers


def test_a_deployment_at_azure_needs_no_model_to_be_named(tmp_path: Path):
    """Its variables are enough, and a vendor's own key without them goes on as before."""
    env = {
        "AZURE_OPENAI_ENDPOINT": "https://r.openai.azure.com",
        "AZURE_OPENAI_DEPLOYMENT": "my-gpt",
        "AZURE_OPENAI_API_KEY": "k",
    }
    found = chosen(tmp_path, None, env)

    assert (found.named, found.model) == ("azure:my-gpt", "my-gpt")
    assert chosen(tmp_path, None, {**env, **KEY}).model == "claude-sonnet-5-5"


def test_custom_headers_are_for_one_vendor(tmp_path: Path):
    """ANTHROPIC_CUSTOM_HEADERS reaches Anthropic's API alone, and options go before it."""
    env = {**KEY, "OPENAI_API_KEY": "k", "ANTHROPIC_CUSTOM_HEADERS": "X-Team: a:b\n\nX-Own: env"}
    claude = chosen(tmp_path, "opus", env, headers={"X-Own": "mine"}).endpoint.headers
    other = chosen(tmp_path, "gpt-6-sol", env).endpoint.headers

    assert dict(claude) | {"x-team": "a:b", "x-own": "mine"} == dict(claude)
    assert "x-team" not in dict(other)
    with pytest.raises(BadInput, match="ANTHROPIC_CUSTOM_HEADERS must be lines") as caught:
        chosen(tmp_path, "opus", {**KEY, "ANTHROPIC_CUSTOM_HEADERS": "my secret"})
    assert "secret" not in str(caught.value)


def foreign(folder: Path, model: str, env: dict[str, str]) -> Place:
    (folder / "home/.claude").mkdir(parents=True)
    (folder / "home/.claude/settings.json").write_text(json.dumps({"model": model}))
    return place(folder, env)


def test_another_programs_choice_of_a_model_counts(tmp_path: Path):
    """The model in ~/.claude/settings.json is taken, short names and long windows included."""
    assert choose(foreign(tmp_path, "opus[1m]", KEY), None).model == "claude-opus-5-5"
    (tmp_path / "home/.claude/settings.json").write_text('{"model": "default"}')
    usual = place(tmp_path, KEY)
    assert (choose(usual, None).model, usual.warnings) == ("claude-sonnet-5-5", [])


@pytest.mark.parametrize(
    ("model", "env", "why"),
    [
        ("opusplan", KEY, "is a short name of another program"),
        ("opus", {"OPENAI_API_KEY": "k"}, "there is no key for it; there is one for openai"),
        ("opus[1m]", {"OPENAI_API_KEY": "k"}, "there is no key for it; there is one for openai"),
    ],
)
def test_a_choice_that_cannot_be_taken_is_left_out_and_said(
    tmp_path: Path, model: str, env: dict[str, str], why: str
):
    """A short name nobody here knows, or no key for it: the usual model answers, and it is said."""
    here = foreign(tmp_path, model, env)

    assert choose(here, None).model in {"claude-sonnet-5-5", "gpt-6.1-sol"}
    assert [one for one in here.warnings if why in one]


@pytest.mark.spec("K2")
def test_what_people_ask_for_is_known():
    """Each of 58 names has a price, reaches its API and has its window."""
    script = Path(__file__).parents[2] / "bench/models.py"
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert done.stdout.count("58 of 58") == 3


@pytest.mark.spec("K2")
@pytest.mark.parametrize(
    "model", ["claude-opus-9", "gpt-9-sol", "bedrock:us.anthropic.claude-opus-9"]
)
def test_a_model_that_is_newer_than_the_price_list(tmp_path: Path, model: str):
    """It is asked by the right API with a careful window, and its price is unknown, never nothing."""
    env = {**KEY, "OPENAI_API_KEY": "k", "AWS_REGION": "us-east-1"}
    found = chosen(tmp_path, model, env)

    assert found.endpoint.dialect == ("responses" if model.startswith("gpt") else "anthropic")
    assert Prices().of(found.model) is None
    assert Prices().cost(found.model, Usage(uncached=10)) is None
    assert window(found.model) >= 200_000


@pytest.mark.anyio
async def test_the_models_to_choose_from(world: Worlds):
    """Short names come with those they mean, and none that there is no key for."""
    env = {"GEMINI_API_KEY": "k", "ANTHROPIC_API_KEY": "a"}
    async with world([], opens=False) as w:
        home = {"HOME": str(w.home)}
        async with w.open(model="opus", base_url=None, api=None, env={**home, **env}) as session:
            found = await session.records.models()

    assert found[0] == "claude-opus-5-5"
    assert {"opus", "haiku", "gemini-3.8-flash", "claude-sonnet-5-5"} <= set(found)
    assert not [name for name in found if name.startswith("gpt-")]
    assert len(found) == len(set(found))


@pytest.mark.anyio
async def test_a_model_that_nobody_knows_is_said_at_the_start(world: Worlds):
    """A slip in a setting or a type is not first seen when an agent is started hours later."""
    agents = '{"slip": {"description": "d", "prompt": "p", "model": "opsu"}}'
    env = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_MODEL": "opus"}
    async with world(opens=False) as w:
        given = {**env, "HOME": str(w.home), "ANTHROPIC_BASE_URL": w.server.url}
        settings = '{"exploreModel": "hiaku"}'
        async with w.open(
            model=None, base_url=None, api=None, env=given, agents=agents, settings=settings
        ):
            told = "\n".join(w.warnings)

        assert "the agent type slip names a model that cannot be asked" in told
        assert "did you mean opus?" in told
        assert "the setting exploreModel names a model that cannot be asked" in told
        with pytest.raises(UnknownName, match="did you mean haiku"):
            async with w.open(
                model=None, base_url=None, api=None, env=given, fallback_model="hiaku"
            ):
                pass
        assert not w.server.records
