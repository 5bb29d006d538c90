"""Options that cannot be obeyed, a session that has ended, and a caller's own mistakes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from prong.errors import BadInput, ConfigError, UsageError
from prong.question import Answer
from prong.testing import Worlds, call, say
from prong.tools.structured import StructuredOutput
from shared.served import patient

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


class Number(msgspec.Struct):
    n: int


@pytest.mark.spec("B3")
@pytest.mark.parametrize(
    "given",
    [
        {"settings": {"permissions": {"deny": ["Write"]}}},
        {"settings": Path("given.json")},
        {"settings": {"permissions": {"deny": ["Write"]}}, "bare": True},
    ],
    ids=["mapping", "path", "bare"],
)
async def test_settings_can_be_values(
    world: Worlds, given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mapping means what a file with that content does, without any other file too."""
    files = {"given.json": '{"permissions": {"deny": ["Write"]}}'}
    async with world([WRITE, say("No.")], files=files, opens=False) as w:
        monkeypatch.chdir(w.root)
        async with w.open(**given, mode="bypassPermissions") as session:
            await session.run("Go")
        assert not (w.root / "new.txt").exists()


async def test_without_the_surroundings_what_was_given_counts(world: Worlds) -> None:
    """With `bare` nothing is read of home and project, and nothing that was given is dropped."""
    files = {"~/.prong/settings.json": '{"permissions": {"deny": ["Write"]}}'}
    servers = {"mcpServers": {"gone": {"command": "/nonexistent"}}}
    settings = {"fork": {"enabled": False}, **patient()}
    given: dict[str, Any] = {"bare": True, "mcp_config": servers, "settings": settings}
    async with world([WRITE, say("ok")], files=files, mode="bypassPermissions", **given) as w:
        await w.session.run("Go")
        assert (w.root / "new.txt").exists()
        assert [one.name for one in w.session.records.servers] == ["gone"]
        assert any("gone" in text for text in w.warnings)
        with pytest.raises(UsageError, match=r"fork\.enabled"):
            await w.session.fork(["x"])


@pytest.mark.parametrize("servers", ["mapping", "list", "path"])
async def test_servers_can_be_values(world: Worlds, servers: str) -> None:
    """A mapping, several, or a path mean what a file with that content does."""
    told = {"mcpServers": {"gone": {"command": "/nonexistent", "args": ["a"]}}}
    async with world(opens=False) as w:
        w.write("given.json", msgspec.json.encode(told))
        forms: dict[str, Any] = {"mapping": told, "list": [told], "path": [w.root / "given.json"]}
        async with w.open(mcp_config=forms[servers]) as session:
            assert [one.summary for one in session.records.servers] == ["/nonexistent a"]


@pytest.mark.parametrize("form", [Number, msgspec.json.decode(SCHEMA), SCHEMA])
async def test_a_schema_can_be_a_type(world: Worlds, form: Any) -> None:
    """A type, a mapping or JSON says what the answer must be."""
    wrong = call(StructuredOutput.name, {"n": "x"})
    right = call(StructuredOutput.name, {"n": 3})
    async with world([wrong, right, say("")], json_schema=form) as w:
        turn = await w.session.run("Go")
        assert turn.structured is not None
        assert msgspec.json.decode(turn.structured) == {"n": 3}


@pytest.mark.parametrize("reference", ["#/$defs/other", "FILE", "#/$defs/away"])
def test_a_schema_holds_what_it_refers_to(tmp_path: Path, reference: str) -> None:
    """A part that is not there is named at the start; no address or file is ever opened for it."""
    (tmp_path / "part.json").write_text('{"type": "string"}')
    elsewhere = (tmp_path / "part.json").as_uri()
    schema = {
        "properties": {"a": {"$ref": reference.replace("FILE", elsewhere)}},
        "$defs": {"away": {"items": {"$ref": elsewhere}}} if reference.endswith("away") else {},
    }
    missing = reference if reference.endswith("other") else elsewhere
    with pytest.raises(BadInput, match=re.escape(f"refers to '{missing}', which it does not hold")):
        StructuredOutput(json.dumps(schema))


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"$ref": "#/$defs/text"}}, "$defs": {"text": {"type": "string"}}},
        {"properties": {"a": {"$ref": "#t"}}, "$defs": {"x": {"$anchor": "t", "type": "string"}}},
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "properties": {"a": {"$ref": "#/definitions/text"}},
            "definitions": {"text": {"type": "string"}},
        },
        {"properties": {"$ref": {"type": "object"}, "a": {"type": "string"}}},
    ],
)
def test_what_a_schema_holds_can_be_referred_to(schema: dict[str, Any]) -> None:
    """Parts are found by place, by name and as older drafts have them."""
    answer = StructuredOutput(json.dumps(schema))
    assert answer.decode('{"a": "x"}') == {"a": "x"}
    with pytest.raises(msgspec.ValidationError, match="not of type 'string'"):
        answer.decode('{"a": 3}')


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"settings": {"hooks": {"Stop": [print]}}}, "the option settings holds what JSON cannot"),
        ({"settings": 3}, "the option settings must be a text"),
        ({"mcp_config": [{"mcpServers": {"x": {"command": object()}}}]}, "the option mcp_config"),
        ({"mcp_config": "x.json"}, "the option mcp_config must be a list"),
        ({"json_schema": Path}, "the option json_schema"),
        ({"json_schema": {"type": object()}}, "the option json_schema holds what JSON cannot"),
        ({"add_dirs": [3]}, "each item of the option add_dirs must be a text"),
        ({"cwd": 3}, "the option cwd must be a text"),
    ],
)
async def test_a_value_that_no_file_could_hold_is_refused(
    world: Worlds, given: dict[str, Any], why: str
) -> None:
    """The error names the option, and no journal is left behind."""
    async with world(opens=False) as w:
        with pytest.raises(UsageError) as caught:
            async with w.open(**given):
                pass
        assert str(caught.value).startswith(why)
        assert [*w.store.rglob("*.jsonl")] == []


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
