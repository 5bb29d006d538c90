"""Hooks in a session: what cannot be honoured, and what changes a call."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from prong.errors import ConfigError
from prong.event import ToolFinished
from prong.testing import Worlds, call, say

pytestmark = [pytest.mark.anyio, pytest.mark.spec("L11")]


def settings(event: str, *entries: dict[str, Any], matcher: str = "") -> str:
    """Make settings with the hooks of one event."""
    group: dict[str, Any] = {
        "matcher": matcher,
        "hooks": [{"type": "command", **e} for e in entries],
    }
    return json.dumps({"hooks": {event: [group]}}, indent=1)


@pytest.mark.spec("L5")
async def test_text_of_a_model_is_never_run_by_a_hook(world: Worlds) -> None:
    """A guard in exec form runs as it is written, in plan mode too, and stops the call."""
    guard = {"command": "bash", "args": ["-c", "exit 2"]}
    files = {".claude/settings.json": settings("PreToolUse", guard, matcher="Bash|Read")}
    step = call("Read", {"file_path": "x$(touch PWNED)`touch PWNED`"})
    async with world([step, say("I see.")], files=files, trusted=True, mode="plan") as w:
        await w.session.run("Go")
        assert w.told(ToolFinished)[0].refused
        assert not list(w.root.glob("**/PWNED"))


@pytest.mark.parametrize("place", ["~/.claude/settings.json", ".prong/settings.json"])
async def test_a_guard_that_cannot_be_honoured_stops_the_start(world: Worlds, place: str) -> None:
    """No session begins with such a guard; file and line are named, and the line is the key's."""
    entry = {"command": "./guard.sh", "if": "Bash(git *)"}
    files = {place: settings("PreToolUse", entry)}
    async with world([], files=files, trusted=True, opens=False) as w:
        with pytest.raises(ConfigError, match="'if'") as caught:
            async with w.open():
                pass
        assert caught.value.path.endswith("settings.json")
        text = Path(caught.value.path).read_text().splitlines()
        assert caught.value.line is not None
        assert '"if"' in text[caught.value.line - 1]


async def test_hooks_of_an_untrusted_folder_stop_nothing(world: Worlds) -> None:
    """What is wrong with hooks that would not run anyway is a warning."""
    files = {".claude/settings.json": settings("PreToolUse", {"command": "x", "async": True})}
    async with world([say("Hello.")], files=files) as w:
        assert (await w.session.run("Hi")).text == "Hello."
        assert any("'async'" in warning for warning in w.session.warnings)
