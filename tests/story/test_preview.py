"""What is shown to whoever is asked for leave, and what a turn says of its beginning."""

from __future__ import annotations

import json
from pathlib import Path
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
        assert wanted in shown
        assert len(shown.splitlines()) <= 1_001
        assert (w.root / "a.py").read_text() == "x = 1\n"
        last = w.told(ToolFinished)[-1]
        assert (last.refused, last.name) == (True, tool)
        assert last.title.startswith(tool)
        assert last.call_id not in {event.call_id for event in w.told(ToolStarted)}


@pytest.mark.parametrize(
    ("tool", "arguments", "why"),
    [
        ("Edit", {"file_path": "a.py", "old_string": "z", "new_string": "x"}, "was not found"),
        ("Edit", {"file_path": "b.py", "old_string": "y = 1", "new_string": "x"}, "not been read"),
        ("Write", {"file_path": "b.py", "content": "y"}, "has not been read"),
        ("NotebookEdit", {"notebook_path": "n.ipynb", "new_source": "x"}, "has not been read"),
    ],
)
async def test_nobody_is_asked_about_a_change_that_cannot_be_made(
    world: Worlds, tool: str, arguments: dict[str, Any], why: str
) -> None:
    """A call that would fail is answered with the reason, and the user is left in peace."""
    files = {"a.py": "x = 1\n", "b.py": "y = 1\n", "n.ipynb": BOOK}

    async def respond(path: str, asked: PermissionAsked | QuestionAsked) -> Answer:
        raise AssertionError(f"{path} was asked for {asked}")

    script = [call("Read", {"file_path": "a.py"}), call(tool, arguments), say("Well.")]
    async with world(script, files=files, respond=respond) as w:
        turn = await w.session.run("Go")
        last = w.told(ToolFinished)[-1]
        assert (turn.text, last.name, last.refused) == ("Well.", tool, True)
        assert why in last.text


async def test_why_a_change_fails_is_not_told_of_what_may_not_be_read(
    world: Worlds, tmp_path: Path
) -> None:
    """Of a file that the agent may not read it learns nothing before the user has agreed."""
    secret = tmp_path / "secret.txt"
    secret.write_text("hidden   words\n")
    asked_for: list[str] = []

    async def respond(path: str, asked: PermissionAsked | QuestionAsked) -> Answer:
        assert isinstance(asked, PermissionAsked)
        asked_for.append(asked.preview)
        return Answer(asked.request_id, allow=False)

    arguments = {"file_path": str(secret), "old_string": "hidden words", "new_string": "x"}
    async with world([call("Edit", arguments), say("Well.")], respond=respond) as w:
        await w.session.run("Go")
        (last,) = w.told(ToolFinished)
    assert asked_for == [""]
    assert "refused" in last.text
    assert "read" not in last.text


async def test_a_turn_says_what_began_it(world: Worlds) -> None:
    """The event has the user's words, or what woke the agent instead."""
    command = {"command": "true", "run_in_background": True}
    script = [call("Bash", command), say("Started."), say("Ended.")]
    async with world(script, mode="bypassPermissions") as w:
        await w.session.run("Begin, please")
        first, *others = [event.text for event in w.told(TurnStarted)]
        assert first == "Begin, please"
        assert all("task-1" in text for text in others)
