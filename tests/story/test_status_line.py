"""The user's own status line: what its command is told, and what is drawn of what it prints."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

from prong.command import Rename, SetMode
from prong.session import status_command
from prong.session.status_command import display_name
from prong.testing import Worlds, say
from shared.fullscreen import opened

pytestmark = [pytest.mark.anyio, pytest.mark.spec("X1", "X2")]


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no command be ended because the machine is slow."""
    monkeypatch.setattr(status_command, "_SECONDS", 60.0)


def line(command: str, **more: Any) -> str:
    """Give settings with a status line."""
    return json.dumps({"statusLine": {"type": "command", "command": command, **more}})


async def test_it_is_drawn_and_made_anew_after_a_reply(world: Worlds) -> None:
    """What the command prints stands below what is typed, in its colours, and goes with the time."""
    command = r"""printf '\033[31m%s\033[0m \033]0;evil\007used %s\nsecond\n' "$COLUMNS" """
    command += r""" "$(grep -o '"total_input_tokens":[0-9]*')" """
    settings = line(command, padding=2)
    async with (
        world([say("Hello.")], attended=True, settings=settings) as w,
        opened(w.session) as hands,
    ):
        before = await hands.see('  80 used "total_input_tokens":0', "second")
        await hands.type("Hi")
        after = await hands.see("Hello.", "80 used", without='_tokens":0')
        record = w.server.records[0]

    assert "evil" not in before + after
    assert "\x1b" not in after
    assert f'"total_input_tokens":{record.usage.input}' in after
    rows = after.splitlines()
    assert rows.index(">") < next(n for n, row in enumerate(rows) if "second" in row)


KEY = "sk-ant-0123456789"
AGENT = "---\nname: reviewer\ndescription: reviews\n---\nReview.\n"


async def test_what_the_command_is_told(world: Worlds) -> None:
    """The keys that such scripts read are there, and hold what is true of the session."""
    settings = line("cat > told.json; env > env.txt; [[ -n x ]] && echo shown")
    more: dict[str, Any] = {
        "name": "It",
        "mode": "acceptEdits",
        "effort": "high",
        "agent": "reviewer",
    }
    files = {"~/.claude/agents/reviewer.md": AGENT}
    async with world([say("Hello.")], files=files, settings=settings, opens=False) as w:
        beside = w.home / "beside"
        beside.mkdir()
        async with w.open(add_dirs=[str(beside)], **more) as session:
            await session.run("Hi")
            found = await session.records.status.run(100, 30)
            view = session.view()
        told = json.loads((w.root / "told.json").read_text())
        seen = (w.root / "env.txt").read_text().splitlines()
        usage = w.server.records[0].usage

    assert (found.text, found.problem) == ("shown\n", "")
    assert told["model"] == {"id": "claude-sonnet-5-5", "display_name": "Sonnet 5.5"}
    root = str(w.root)
    assert told["workspace"] == {
        "current_dir": root,
        "project_dir": root,
        "added_dirs": [str(beside)],
    }
    assert told["cwd"] == root
    assert (told["session_name"], told["permission_mode"]) == ("It", "acceptEdits")
    assert (told["effort"], told["agent"]) == ({"level": "high"}, {"name": "reviewer"})
    window = told["context_window"]
    assert window["current_usage"] == {
        "input_tokens": usage.uncached,
        "output_tokens": usage.output,
        "cache_creation_input_tokens": usage.written,
        "cache_read_input_tokens": usage.read,
    }
    assert usage.written != usage.read
    assert window["used_percentage"] + window["remaining_percentage"] == 100
    assert told["exceeds_200k_tokens"] is False
    assert told["cost"] == {
        "total_cost_usd": view.cost,
        "total_duration_ms": round(1000 * (view.at - view.main.started_at)),
    }
    assert told["cost"]["total_duration_ms"] > 0
    assert told["session_id"] in told["transcript_path"]
    sizes = {"COLUMNS=100", "LINES=30"}
    assert sizes | {f"PRONG_PROJECT_DIR={root}", f"CLAUDE_PROJECT_DIR={root}"} <= {*seen}


@pytest.mark.spec("L6")
async def test_no_key_is_in_its_environment(world: Worlds, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys of models are not given to it, wherever they were set; other variables are."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("SIZE", "large")
    settings = json.loads(line("env"))
    settings["env"] = {"COLOUR": "blue", "OPENAI_API_KEY": KEY}
    async with world(settings=json.dumps(settings), opens=False) as w:
        env = {"HOME": str(w.home), "ANTHROPIC_API_KEY": KEY}
        async with w.open(env=env) as session:
            seen = (await session.records.status.run(80, 24)).text

    assert {"COLOUR=blue", "SIZE=large"} <= {*seen.splitlines()}
    assert KEY not in seen


async def test_what_it_prints_is_bounded_and_anything(world: Worlds, monkeypatch: Any) -> None:
    """What is no text, too much or too late is cut, marked or said; a shell that is not there too."""
    async with world(settings=line("printf 'a\\377b'; head -c 100000 /dev/zero | tr '\\0' x")) as w:
        printed = await w.session.records.status.run(80, 24)
        monkeypatch.setattr(status_command, "bash_program", lambda: "/nowhere/bash")
        missing = await w.session.records.status.run(80, 24)

    assert printed.text.startswith("a\ufffdbx")
    assert len(printed.text) <= 16_384
    assert missing.problem.startswith("could not be started: ")


async def test_one_that_takes_too_long_is_ended(world: Worlds, monkeypatch: Any) -> None:
    """It is said how long it had."""
    monkeypatch.setattr(status_command, "_SECONDS", 0.2)
    async with world(settings=line("sleep 600")) as w:
        found = await w.session.records.status.run(80, 24)

    assert (found.text, found.problem) == ("", "took longer than 0.2 s")


async def test_what_is_of_the_past_is_given_up(world: Worlds, monkeypatch: Any) -> None:
    """One that still runs when there is something new is ended, and run anew."""
    monkeypatch.setattr(status_command, "_SECONDS", 600.0)
    settings = line("test -e begun && echo anew || { touch begun; sleep 600; }")
    async with (
        world([say("Hello.")], attended=True, settings=settings) as w,
        opened(w.session) as hands,
    ):
        while not (w.root / "begun").exists():
            await anyio.sleep(0.01)
        await hands.type("Hi")
        await hands.see("Hello.", "anew")


async def test_it_follows_mode_name_and_time(world: Worlds) -> None:
    """Another mode or name, and the interval if there is one, have it run anew."""
    command = """echo x >> runs; echo "run $(grep -c x runs)"; grep -oE '"(permission_mode|session_name)":"[a-zA-Z]*"'"""
    async with (
        world(attended=True, settings=line(command)) as w,
        opened(w.session, size=(80, 30)) as hands,
    ):
        await hands.see("run 1", '"permission_mode":"default"')
        await w.session.send(SetMode("plan"))
        await hands.see("run 2", '"permission_mode":"plan"')
        await w.session.send(Rename("odd"))
        await hands.see("run 3", '"session_name":"odd"')


async def test_it_is_run_at_intervals(world: Worlds) -> None:
    """With `refreshInterval` it is run again though nothing has happened."""
    command = "echo x >> runs; n=$(grep -c x runs); echo run $((n < 3 ? n : 3))"
    settings = line(command, refreshInterval=0.05)
    async with world(attended=True, settings=settings) as w, opened(w.session) as hands:
        await hands.see("run 3")


async def test_it_has_three_rows_of_the_width(world: Worlds) -> None:
    """More rows, and what is wider, are cut."""
    settings = line("printf '%0200d\\nsecond\\nthird\\nfourth\\n' 0")
    async with world(attended=True, settings=settings) as w, opened(w.session) as hands:
        shown = await hands.see("third", without="fourth")

    (wide,) = [row for row in shown.splitlines() if row.startswith("000")]
    assert len(wide) == 79


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("exit 3", "(the command of statusLine ended with exit code 3)"),
        ("no-such-program", "(the command of statusLine ended with exit code 127)"),
    ],
)
async def test_a_command_that_fails_says_so_in_its_place(
    world: Worlds, command: str, why: str
) -> None:
    """A line that is missing is not missed in silence."""
    async with (
        world(attended=True, settings=line(command)) as w,
        opened(w.session) as hands,
    ):
        await hands.see(why)


@pytest.mark.spec("L6")
async def test_a_folder_that_is_not_trusted_runs_nothing(world: Worlds) -> None:
    """A project's own status line is a command: it waits for trust, and is named with its line."""
    files = {".claude/settings.json": line("touch ran")}
    async with world(files=files, attended=True) as w:
        status = w.session.records.status

        assert not status.is_set
        assert any("statusLine runs touch ran" in one for one in w.warnings)
        assert not (w.root / "ran").exists()


async def test_what_is_no_command_is_named(world: Worlds) -> None:
    """A line of another type, or without a command, is said to be wrong and is not run."""
    async with world(opens=False) as w:
        own = w.home / ".claude/settings.json"
        own.parent.mkdir(parents=True, exist_ok=True)
        own.write_text('{"statusLine": {"type": "static", "text": "x"}}')
        async with w.open() as session:
            assert not session.records.status.is_set
        assert any("'statusLine.type' must be one of command" in one for one in w.warnings)


@pytest.mark.parametrize(
    ("model", "shown"),
    [
        ("claude-opus-5-5", "Opus 5.5"),
        ("bedrock:global.anthropic.claude-sonnet-5-20260101-v1:0", "Sonnet 5"),
        ("claude-haiku-4-5-20251001", "Haiku 4.5"),
        ("gpt-6-sol", "gpt-6-sol"),
        ("claude-next", "claude-next"),
    ],
)
def test_names_for_people(model: str, shown: str) -> None:
    """Claude's models go by family and version, all others by their names."""
    assert display_name(model) == shown
