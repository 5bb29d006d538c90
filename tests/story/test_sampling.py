"""How a model picks its words: where that may be said, who gets it, and where it is refused."""

from __future__ import annotations

from typing import Any

import pytest

from prong.command import Refused, SetModel
from prong.errors import UsageError
from prong.testing import Script, Worlds, forks, report, say
from shared.typed import agent

pytestmark = pytest.mark.anyio

APIS = ("anthropic", "responses", "chat")
FORK = Script([forks("Look.")], {"Look.": [report()]}, forever=say("Done."))


def sent(bodies: list[Any], name: str = "temperature") -> set[Any]:
    return {body.get(name) for body in bodies}


@pytest.mark.spec("F3")
@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("way", ["option", "setting"])
async def test_every_request_has_the_temperature(world: Worlds, api: str, way: str) -> None:
    """An option or a setting reaches every API, forks included, in bytes that siblings share."""
    given = {"temperature": 0.25} if way == "option" else {"settings": '{"temperature": 0.25}'}
    async with world(FORK, api=api, mode="dontAsk", **given) as w:
        await w.session.run("Go")
        heads = {id(child.agent.conversation.prompt.head) for child in w.parts.supervisor.children}

        assert sent(w.bodies()) == {0.25}
        assert heads == {id(w.parts.agent.conversation.prompt.head)}
        assert "temperature 0.25" in w.session.records.outline()


async def test_an_option_goes_before_a_setting(world: Worlds) -> None:
    """A flag wins over files, and a caller's own field over a setting."""
    settings = '{"temperature": 0.25}'
    async with world([say("1"), say("2")], opens=False, settings=settings) as w:
        async with w.open(temperature=0) as session:
            await session.run("Hi")
        async with w.open(extra={"temperature": 1}) as session:
            await session.run("Hi")

        assert [body["temperature"] for body in w.bodies()] == [0, 1]


async def test_a_seed_is_sent_where_it_is_known(world: Worlds) -> None:
    """The chat API takes a seed, 0 too."""
    async with world([say("1")], api="chat", settings='{"seed": 0}', temperature=1.5) as w:
        await w.session.run("Hi")

        assert sent(w.bodies(), "seed") == {0}
        assert sent(w.bodies()) == {1.5}


@pytest.mark.parametrize(
    ("api", "given", "why"),
    [
        ("anthropic", {"temperature": 1.5}, "--temperature is 1.5, and the anthropic API takes"),
        ("anthropic", {"temperature": -1.0}, "--temperature is -1, and"),
        ("chat", {"temperature": float("nan")}, "--temperature is nan, and"),
        ("responses", {"temperature": 2.5}, "the responses API takes a temperature from 0 to 2"),
        ("anthropic", {"temperature": 0.5, "thinking": True}, "a model that thinks takes no other"),
        ("anthropic", {"temperature": 0.5, "thinking": 2000}, "a model that thinks takes no other"),
        ("anthropic", {"seed": 3}, "--seed is 3, and the anthropic API takes no seed"),
        ("responses", {"seed": 3}, "the responses API takes no seed"),
        ("chat", {"seed": -3}, "--seed is -3; it must not be below 0"),
        ("anthropic", {"settings": '{"temperature": 2}'}, "the setting temperature of --settings"),
        ("chat", {"temperature": 1.0, "extra": {"temperature": 0}}, "and extra something else"),
    ],
)
async def test_what_an_api_does_not_take_is_refused(
    world: Worlds, api: str, given: dict[str, Any], why: str
) -> None:
    """Nothing is left out silently: the session is not opened, and leaves nothing."""
    async with world(opens=False, api=api) as w:
        with pytest.raises(UsageError) as raised:
            async with w.open(**given):
                pass

        assert why in str(raised.value)
        assert not list(w.store.rglob("*.jsonl"))


@pytest.mark.moves_prefix("two sessions, each with its own head")
async def test_thinking_allows_a_temperature_of_one(world: Worlds) -> None:
    """With thinking the one value that the API takes passes; without, any."""
    async with world([say("1"), say("2")], opens=False) as w:
        for temperature, thinking in ((1, True), (0, False)):
            async with w.open(temperature=temperature, thinking=thinking) as session:
                assert (await session.run("Hi")).ok


@pytest.mark.spec("L7")
async def test_a_resumed_session_keeps_its_temperature(world: Worlds) -> None:
    """It is in the journal; without a word it stays, and another value is left out and told."""
    async with world([say("1"), say("2"), say("3")], opens=False) as w:
        async with w.open(temperature=0.25, effort="low") as session:
            await session.run("Hi")
        async with w.open(continue_last=True, temperature=0.25) as session:
            await session.run("More")
            assert w.warnings == []
        async with w.open(continue_last=True, temperature=0.5) as session:
            await session.run("More")
            assert any("--temperature is left out" in text for text in w.warnings)

        assert sent(w.bodies()) == {0.25}


@pytest.mark.spec("L7")
@pytest.mark.moves_prefix("another model reads the conversation anew")
async def test_another_model_gets_what_the_session_had(world: Worlds) -> None:
    """After a resume, a change of model and a typed child still have temperature and effort."""
    script = Script(
        [say("1"), agent("BRIEF", "general-purpose"), say("2")],
        {"BRIEF": [say("Found.")]},
    )
    async with world(script, opens=False) as w:
        async with w.open(temperature=0.25, effort="low", extra={"top_k": 5}) as session:
            await session.run("Hi")
        async with w.open(continue_last=True) as session:
            await session.send(SetModel("claude-opus-5"))
            await session.run("More")

        assert len(w.bodies()) == 4
        assert sent(w.bodies()) == {0.25}
        assert sent(w.bodies(), "top_k") == {5}
        assert {body["output_config"]["effort"] for body in w.bodies()} == {"low"}


@pytest.mark.spec("L7")
async def test_a_model_that_cannot_be_asked_so_changes_nothing(world: Worlds) -> None:
    """A change of model that would have to drop the temperature is refused as a whole."""
    script, other = [say("1"), say("2"), say("3")], "anthropic:claude-opus-5"
    async with world(script, api=None, model="chat:gpt-4.1", temperature=1.5, name="it") as w:
        await w.session.run("Hi")
        outcome = await w.session.send(SetModel(other))
        assert (await w.session.run("More")).ok

        assert isinstance(outcome, Refused)
        assert "the anthropic API takes a temperature from 0 to 1" in outcome.why
        assert w.session.model == "gpt-4.1"
    async with world([say("3")], folder=w.folder / "again", opens=False) as again:
        again.given = {**again.given, "store": str(w.store), "cwd": str(w.root), "api": None}
        with pytest.raises(UsageError, match="takes a temperature from 0 to 1"):
            async with again.open(resume="it", model=other):
                pass
        again.given = {**again.given, "model": None}
        async with again.open(resume="it") as session:
            assert (await session.run("More")).ok
            assert session.model == "gpt-4.1"
