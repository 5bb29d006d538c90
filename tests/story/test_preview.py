"""What is shown to whoever is asked for leave, and what a turn says of its beginning."""

from __future__ import annotations

import json
from typing import Any

import pytest

from prong import Answer, PermissionAsked, QuestionAsked
from prong.event import ToolFinished, ToolStarted, TurnStarted
from prong.testing import Worlds, call, say

pytestmark = [pytest.mark.anyio, pytest.mark.spec("L5")]

CELL = {"id": "one", "cell_type": "code", "metadata": {}, "outputs": [], "source": "x = 1"}
BOOK = json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [CELL]})


@pytest.mark.parametrize(
    ("tool", "arguments", "wanted"),
    [
        ("Write", {"file_path": "new.py", "content": "y = 3\n"}, "+y = 3"),
        ("Write", {"file_path": "a.py", "content": "x = 2\n"}, "-x = 1\n+x = 2"),
        (
            "Edit",
            {"file_path": "a.py", "old_string": "x = 1", "new_string": "x = 2"},
            "-x = 1\n+x = 2",
        ),
        (
            "NotebookEdit",
            {"notebook_path": "n.ipynb", "cell_id": "one", "new_source": "x = 2"},
            "-x = 1\n+x = 2",
        ),
        ("Edit", {"file_path": "a.py", "old_string": "z", "new_string": "x"}, ""),
        ("Write", {"file_path": "n.txt", "content": "line\n" * 2_000}, "… 1003 more lines"),
    ],
)
async def test_a_change_is_shown_before_it_is_allowed(
    world: Worlds, tool: str, arguments: dict[str, Any], wanted: str
) -> None:
    """Write, Edit and NotebookEdit show a bounded diff; nothing has happened by then."""
    seen: list[str] = []
    files = {"a.py": "x = 1\n", "n.ipynb": BOOK}
    reading = [call("Read", {"file_path": name}) for name in files]

    async def respond(path: str, asked: PermissionAsked | QuestionAsked) -> Answer:
        assert isinstance(asked, PermissionAsked)
        seen.append(asked.preview)
        return Answer(asked.request_id, allow=False)

    script = [*reading, call(tool, arguments), say("Well.")]
    async with world(script, files=files, respond=respond) as w:
        await w.session.run("Go")
        (shown,) = seen
        assert wanted in shown if wanted else shown == ""
        assert len(shown.splitlines()) <= 1_001
        assert (w.root / "a.py").read_text() == "x = 1\n"
        last = w.told(ToolFinished)[-1]
        assert (last.refused, last.name) == (True, tool)
        assert last.title.startswith(tool)
        assert last.call_id not in {event.call_id for event in w.told(ToolStarted)}


async def test_a_turn_says_what_began_it(world: Worlds) -> None:
    """The event has the user's words, or what woke the agent instead."""
    command = {"command": "true", "run_in_background": True}
    script = [call("Bash", command), say("Started."), say("Ended.")]
    async with world(script, mode="bypassPermissions") as w:
        await w.session.run("Begin, please")
        first, *others = [event.text for event in w.told(TurnStarted)]
        assert first == "Begin, please"
        assert all("task-1" in text for text in others)
