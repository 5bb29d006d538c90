"""What is told of work on another machine: each that came back, and what is still over there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from prong.testing import Script, Worlds, call, forks, report, say
from shared.remote import prepare_repository, remote_settings

pytestmark = [pytest.mark.anyio, pytest.mark.spec("R4")]

MADE = call("Write", {"file_path": "new.txt", "content": "made\n"})


async def test_the_object_names_all_that_came_back(
    world: Worlds, program: Any, tmp_path: Path
) -> None:
    """Work that has no folder here is listed for every fork that did it."""
    play = Script(
        [forks("P1", "P2", isolation="remote"), say("Started.")],
        {"Directive:\nP1": [MADE, report()], "Directive:\nP2": [MADE, report()]},
        forever=say("Done."),
    )
    free = ("--permission-mode", "bypassPermissions", "--output-format", "json")
    async with world(play, opens=False) as w:
        prepare_repository(w.root)
        given = ("--settings", remote_settings(tmp_path / "far"))
        done = await program.run(w, "-p", "Go", *given, *free)

        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)["worktrees"]
        assert sorted((one["task_id"], one["path"]) for one in found) == [
            ("fork-1", ""),
            ("fork-2", ""),
        ]
