"""Options that cannot be obeyed, a session that has ended, and a caller's own mistakes."""

from __future__ import annotations

from typing import Any

import pytest

from prong.errors import ConfigError, UsageError
from prong.question import Answer
from prong.testing import Worlds, call, say
from prong.tools.structured import StructuredOutput

pytestmark = pytest.mark.anyio

WRITE = call("Write", {"file_path": "new.txt", "content": "x"})
SCHEMA = '{"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}'


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"max_turns": -1}, "--max-turns is -1; it must be above 0"),
        ({"max_turns": 0}, "--max-turns is 0; it must be above 0"),
        ({"max_usd": -1.0}, "--max-budget-usd is -1; it must be an amount"),
        ({"max_usd": float("nan")}, "--max-budget-usd is nan"),
        ({"compact_at": 5.0}, "compact_at is 5; it must be a share"),
        ({"add_dirs": ("/nonexistent",)}, "--add-dir '/nonexistent' is not a folder"),
        ({"tools": ("Read", "Nope")}, "there is no tool Nope; the tools are Read, Write"),
        ({"allow": "Bash"}, "the option allow must be a list of texts"),
        ({"allow": [3]}, "each item of the option allow must be a text"),
        ({"max_turns": "3"}, "the option max_turns must be a whole number"),
        ({"headers": {"a": 3}}, "each item of the option headers must be a text"),
        ({"cache_ttl": "2h"}, "the option cache_ttl must be 5m or 1h"),
        ({"model": 4}, "the option model must be a text"),
    ],
)
async def test_a_wrong_option_is_refused_and_leaves_nothing(
    world: Worlds, given: dict[str, Any], why: str
) -> None:
    """The error names the option and what it must be; no journal is left behind."""
    async with world(opens=False) as w:
        with pytest.raises(UsageError) as caught:
            async with w.open(**given):
                pass
        assert str(caught.value).startswith(why)
        assert [*w.store.rglob("*.jsonl")] == []


@pytest.mark.parametrize(
    "given",
    [
        {"settings": "{nope"},
        {"settings": "/nonexistent.json"},
        {"settings": '{"fork": {"enabled": "no"}}'},
        {"mcp_config": ("{nope",)},
        {"mcp_config": ("/nonexistent.json",)},
    ],
)
async def test_a_wrong_flag_file_stops_the_start(world: Worlds, given: dict[str, Any]) -> None:
    """What the caller named must be there and right; nothing goes on without it."""
    async with world(opens=False) as w:
        with pytest.raises(ConfigError):
            async with w.open(**given):
                pass


async def test_lists_and_paths_are_taken_as_they_are_meant(world: Worlds) -> None:
    """A list serves where a tuple is declared, and a path where a text is."""
    async with world([WRITE, say("Done.")], opens=False) as w:
        given: dict[str, Any] = {"allow": ["Write"], "cwd": w.root}
        async with w.open(**given) as session:
            turn = await session.run("Go")
        assert turn.ok
        assert (w.root / "new.txt").read_text() == "x"


@pytest.mark.parametrize("directives", ["do it", [], [""], ["fine", "  "], [3], None])
async def test_forks_need_a_list_of_directives(world: Worlds, directives: Any) -> None:
    """Anything but a list of texts is refused before a fork is made."""
    async with world([say("Hello.")]) as w:
        await w.session.run("Hi")
        with pytest.raises(UsageError, match="a list of directives"):
            await w.session.fork(directives)
        with pytest.raises(UsageError, match="a list of directives"):
            await w.session.start_forks(directives)
        assert len(w.bodies()) == 1


async def test_a_session_that_has_ended_takes_nothing_more(world: Worlds) -> None:
    """To speak to it is an error at once, and never a wait."""
    async with world([say("Hello.")], opens=False) as w:
        async with w.open() as session:
            await session.run("Hi")
        for late in (
            session.run("More"),
            session.fork(["More"]),
            session.aside("More"),
        ):
            with pytest.raises(UsageError, match="the session has ended"):
                await late
        assert "the session has ended" in str(await session.say("More"))


async def test_a_failing_respond_function_is_named(world: Worlds) -> None:
    """The turn says that the caller's function failed and how, and blames nobody else."""

    async def respond(path: str, asked: object) -> Answer | None:
        del path, asked
        raise KeyError("gone")

    async with world([WRITE], respond=respond) as w:
        turn = await w.session.run("Go")
        assert turn.why == "error"
        assert turn.detail == "the respond function failed: KeyError: 'gone'"


async def test_a_respond_function_must_give_an_answer(world: Worlds) -> None:
    """What is no Answer is told to whoever wrote the function."""

    async def respond(path: str, asked: object) -> Any:
        del path, asked
        return True

    async with world([WRITE], respond=respond) as w:
        turn = await w.session.run("Go")
        assert (turn.why, "it gave True" in turn.detail) == ("error", True)


async def test_no_answer_of_the_schema_is_no_success(world: Worlds) -> None:
    """A model that never gives the object has not done what was asked, however it ends."""
    async with world([say("No.")] * 4, json_schema=SCHEMA) as w:
        turn = await w.session.run("How many?")
        assert (turn.why, turn.ok, turn.text) == ("error", False, "No.")
        assert "JSON schema" in turn.detail
        assert turn.structured is None


async def test_an_answer_of_the_schema_is_one(world: Worlds) -> None:
    """With the object the same run is done."""
    script = [call(StructuredOutput.name, {"n": 3}), say("")]
    async with world(script, json_schema=SCHEMA) as w:
        turn = await w.session.run("How many?")
        assert (turn.why, turn.structured) == ("done", b'{"n":3}')


async def test_a_setting_that_is_not_a_boolean_turns_forks_off(world: Worlds) -> None:
    """`fork.enabled: "no"` was meant to turn them off; it does, and is complained about."""
    files = {"~/.prong/settings.json": '{"fork": {"enabled": "no"}}'}
    async with world(files=files, attended=True) as w:
        assert not w.parts.supervisor.settings.forks.on
        assert any("'fork.enabled' must be true or false" in text for text in w.warnings)
