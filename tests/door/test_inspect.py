"""The commands that look at sessions."""

from __future__ import annotations

import json
import stat
from typing import Any

import pytest

from prong.testing import Worlds, call, say

pytestmark = [pytest.mark.anyio, pytest.mark.door]


@pytest.mark.spec("L8", "K1")
async def test_sessions_verify_cost_and_show(world: Worlds, program: Any) -> None:
    """A session is listed, checked, priced and drawn, for people and for programs."""
    script = [call("Read", {"file_path": "a"}), say("\x1b[31mAlpha.")]
    async with world(script, files={"a": "alpha\n"}, opens=False) as w:
        none = await program.run(w, "sessions")
        assert (none.returncode, none.stdout) == (0, b"")
        assert b"no sessions here" in none.stderr
        await program.run(w, "-p", "What is in a?", "--name", "my work")
        listed = await program.run(w, "sessions")
        assert b"my work" in listed.stdout
        (info,) = json.loads((await program.run(w, "sessions", "--json")).stdout)
        for wanted in ([], [info["id"]], [info["path"]], ["my work"]):
            checked = await program.run(w, "verify", *wanted)
            assert checked.returncode == 0, checked.stderr
            assert b"2 requests good" in checked.stdout
        cost = await program.run(w, "cost")
        assert b"main: $0.0" in cost.stdout
        lines = json.loads((await program.run(w, "cost", "--json")).stdout)
        assert lines[-1]["requests"] == 2
        assert lines[-1]["cost"] == pytest.approx(info["cost"])
        shown = await program.run(w, "show")
        assert b"Alpha." in shown.stdout
        assert b"\x1b" not in shown.stdout
        missing = await program.run(w, "verify", "nonsense")
        assert missing.returncode == 1
        assert b"nonsense" in missing.stderr


@pytest.mark.spec("L8")
async def test_damage_is_told_with_its_place(world: Worlds, program: Any) -> None:
    """A changed byte is found, named, refused on resume, and got around by a fork."""
    async with world([say("One."), say("Two.")], opens=False) as w:
        await program.run(w, "-p", "First")
        (path,) = (w.store / "projects").glob("*/*.jsonl")
        data = path.read_bytes().replace(b"One.", b"0ne.", 1)
        path.write_bytes(data)
        checked = await program.run(w, "verify")
        assert checked.returncode == 1
        assert b"damaged at line" in checked.stdout
        resumed = await program.run(w, "-p", "Second", "--continue")
        assert resumed.returncode == 1
        assert b"--fork-session" in resumed.stderr
        w.server.moves_prefix = "the damaged reply is gone"
        forked = await program.run(w, "-p", "Second", "--continue", "--fork-session")
        assert forked.stdout == b"Two.\n", forked.stderr


@pytest.mark.spec("L11")
async def test_trust(world: Worlds, program: Any) -> None:
    """Trust is shown, given and taken back; only a trusted folder's hook runs."""
    hook = {"hooks": {"SessionStart": [{"hooks": [{"command": "touch ran"}]}]}}
    async with world([say("One."), say("Two."), say("Three.")], opens=False) as w:
        w.server.moves_prefix = "three sessions"
        w.write(".prong/settings.json", json.dumps(hook))
        first = await program.run(w, "-p", "Hi")
        assert b"trust" in first.stderr
        assert not (w.root / "ran").exists()
        listed = await program.run(w, "trust", "--list")
        assert b"touch ran" in listed.stdout
        assert b"not trusted" in listed.stdout
        given = await program.run(w, "trust")
        assert b"touch ran" in given.stdout
        assert b"what is listed above may run" in given.stdout
        await program.run(w, "-p", "Hi")
        (w.root / "ran").unlink()
        await program.run(w, "trust", "--remove")
        await program.run(w, "-p", "Hi")
        assert not (w.root / "ran").exists()


@pytest.mark.spec("L8")
async def test_advice_fits_the_command(world: Worlds, program: Any) -> None:
    """Where there is no session, a command that looks at one says how to name one."""
    async with world(opens=False) as w:
        for words in (["cost"], ["verify"], ["receipt"], ["explain"], ["show"]):
            done = await program.run(w, *words)
            assert done.returncode in {1, 2}
            assert b"prong sessions --all" in done.stderr, words
            assert b"--continue" not in done.stderr
        trusted = await program.run(w, "trust", "/nonexistent")
        assert trusted.returncode == 2
        assert b"'/nonexistent' is not a folder" in trusted.stderr
        harmless = await program.run(w, "trust")
        assert b"nothing in it needs that" in harmless.stdout
        assert b"listed above" not in harmless.stdout


async def test_wrong_flags_end_with_2_and_leave_nothing(world: Worlds, program: Any) -> None:
    """The command line is at fault, so nothing is sent and no session is left."""
    async with world(opens=False) as w:
        for words in (
            ["--settings", "{nope"],
            ["--settings", "/nonexistent.json"],
            ["--mcp-config", "/nonexistent.json"],
            ["--max-turns", "-1"],
            ["--tools", "Nope"],
        ):
            done = await program.run(w, "-p", "Hi", *words)
            assert (done.returncode, done.stdout) == (2, b""), words
            assert done.stderr.startswith(b"prong: ")
        assert [*w.store.rglob("*.jsonl")] == []


@pytest.mark.spec("K1")
async def test_what_was_paid_is_never_below_the_least(world: Worlds, program: Any) -> None:
    """A cache that an earlier session wrote makes a session cheaper than it could be alone."""
    async with world([say("One."), say("Two.")], opens=False) as w:
        text = "word " * 20_000
        await program.run(w, "-p", text)
        await program.run(w, "-p", text)
        (told,) = [
            line
            for line in json.loads((await program.run(w, "cost", "--json")).stdout)
            if line["kind"] == "session"
        ]
        assert told["usage"]["read"] > 0
        assert told["least"] <= told["cost"]
        assert b"least possible $" in (await program.run(w, "cost")).stdout


async def test_an_unknown_option_is_named_in_sight(world: Worlds, program: Any) -> None:
    """What is wrong stands in a few lines, beside the way to the list of options."""
    async with world(opens=False) as w:
        done = await program.run(w, "--modle", "local")
        assert done.returncode == 2
        assert b"there is no option --modle" in done.stderr
        assert b"prong --help" in done.stderr
        assert len(done.stderr.splitlines()) < 6


@pytest.mark.spec("X6")
async def test_a_trace_is_written_after_the_fact(world: Worlds, program: Any) -> None:
    """`prong trace` writes the timeline of a stored session; a session without events is told so."""
    async with world([say("One."), say("Two.")], opens=False) as w:
        await program.run(w, "-p", "First", "--name", "my work")
        told = await program.run(w, "trace")
        assert told.returncode == 0, told.stderr
        assert b"1 agent, 1 request" in told.stdout
        (path,) = w.root.glob("trace-*.json")
        assert {one["ph"] for one in json.loads(path.read_bytes())["traceEvents"]} >= {
            "M",
            "X",
            "C",
        }
        printed = await program.run(w, "trace", "my work", "--output", "-")
        assert json.loads(printed.stdout) == json.loads(path.read_bytes())
        nowhere = await program.run(w, "trace", "--output", "no/such/folder/t.json")
        assert nowhere.returncode == 2
        assert b"name another file" in nowhere.stderr
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, "it has commands and names of files"
        before = path.read_bytes()
        again = await program.run(w, "trace")
        assert again.stdout.startswith(f"{path.stem}-2.json: ".encode()), again.stderr
        assert (w.root / f"{path.stem}-2.json").read_bytes() == before
        named = await program.run(w, "trace", "-o", path.name)
        assert named.returncode == 2, "no file is replaced"
        assert b"is there already; name another file, or remove that one first" in named.stderr
        assert path.read_bytes() == before
        other = await program.run(w, "trace", "-o", "later.json")
        assert other.returncode == 0, other.stderr
        (events,) = w.store.glob("projects/*/*/events.jsonl")
        events.unlink()
        old = await program.run(w, "trace")
        assert old.returncode == 2
        assert b"has recorded no events" in old.stderr
