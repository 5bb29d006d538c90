"""Plan mode from outside: the command line and the plain terminal, as processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from prong.face.edit.external import following
from prong.testing import Script, World, Worlds, call, say

pytestmark = [pytest.mark.anyio, pytest.mark.door]


async def prong(
    program: Any, w: World, *words: str, stdin: str = "", **env: str
) -> tuple[int, str, str]:
    ran = await program.run(w, *words, stdin=stdin.encode(), **env)
    return ran.returncode, ran.stdout.decode(), ran.stderr.decode()


def planned(root: Path, *after: str) -> Script:
    path = str(root / ".prong" / "plans" / "go.md")
    return Script(
        [
            call("Bash", {"command": "touch early"}),
            call("Write", {"file_path": path, "content": "1. Touch it.\n"}),
            call("ExitPlanMode"),
            *(call("Bash", {"command": f"touch {name}"}) for name in after),
            say("It is done."),
        ]
    )


@pytest.mark.spec("P1", "P4")
async def test_headless(world: Worlds, program: Any, tmp_path: Path) -> None:
    """`--permission-mode plan` prints the plan, and `--continue` in another mode works by it."""
    async with world(planned(tmp_path / "project", "late"), opens=False) as w:
        code, out, _ = await prong(program, w, "-p", "Go", "--permission-mode", "plan")
        assert (code, out) == (0, "1. Touch it.\n")
        assert [p.name for p in w.root.iterdir()] == [".prong"]
        code, out, _ = await prong(
            program, w, "-c", "-p", "Do", "--permission-mode", "bypassPermissions"
        )
        assert (code, out) == (0, "It is done.\n")
        assert (w.root / "late").exists()


@pytest.mark.spec("P1", "P4")
async def test_plain_face(world: Worlds, program: Any, tmp_path: Path) -> None:
    """`/plan` plans, the plan is shown, words reject it and `y` approves it."""
    script = planned(tmp_path / "project", "late")
    again = call("ExitPlanMode")
    script.steps.insert(3, again)
    async with world(script, opens=False) as w:
        lines = "/mode bypassPermissions\n/plan Go\nshorter please\ny\n/mode\n"
        code, out, err = await prong(program, w, "--plain", stdin=lines)
        assert (code, err) == (0, "")
        assert out.count("1. Touch it.") >= 2
        assert "shorter please" in w.server.records[3].request.last_text
        assert "It is done." in out
        assert out.rstrip().endswith("bypassPermissions\n>")
        assert (w.root / "late").exists()
        assert not (w.root / "early").exists()


@pytest.mark.spec("P4")
async def test_edited_before_approval(world: Worlds, program: Any, tmp_path: Path) -> None:
    """`e` opens the user's editor, and what they leave there is the approved plan."""
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\necho "2. Mine." >> "$1"\n')
    editor.chmod(0o755)
    async with world(planned(tmp_path / "project"), opens=False) as w:
        lines = "/plan Go\ne\n"
        code, _, err = await prong(program, w, "--plain", stdin=lines, EDITOR=str(editor))
        assert (code, err) == (0, "")
        assert "1. Touch it.\n2. Mine." in w.server.records[3].request.last_text


@pytest.mark.spec("P4")
async def test_a_program_answers(world: Worlds, program: Any, tmp_path: Path) -> None:
    """Over stream-json the plan is an event, and an answer with a text approves it as edited."""
    async with world(planned(tmp_path / "project"), opens=False) as w:
        async with await program.start(
            w,
            *("-p", "--permission-mode", "plan"),
            *("--input-format", "stream-json", "--output-format", "stream-json"),
        ) as process:
            await process.stdin.send(b'{"type":"say","text":"Go"}\n')
            told = b""
            async for data in process.stdout:
                told += data
                *lines, told = told.split(b"\n")
                events = [msgspec.json.decode(line).get("event", {}) for line in lines]
                for event in events:
                    if event.get("plan"):
                        assert event["plan"] == "1. Touch it."
                        answer = {
                            "type": "answer",
                            "request_id": event["request_id"],
                            "text": "1. Nothing.",
                        }
                        await process.stdin.send(msgspec.json.encode(answer) + b"\n")
                        await process.stdin.aclose()
            assert await process.wait() == 0
        assert "1. Nothing." in w.server.records[3].request.last_text


async def test_the_key_goes_round(world: Worlds, program: Any) -> None:
    """`/mode next`, which Shift+Tab types, goes through the modes and comes back."""
    async with world([], opens=False) as w:
        _, out, _ = await prong(program, w, "--plain", stdin="/mode next\n" * 4)
        shown = [line.removeprefix("> ") for line in out.splitlines() if line.startswith("> ")]
        assert following("bypassPermissions") == "default"
        seen = [word for word in out.split() if word in {"acceptEdits", "plan", "auto", "default"}]
        modes = list(dict.fromkeys(seen))
        assert modes == ["default", "acceptEdits", "plan", "auto"], shown
