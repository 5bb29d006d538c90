"""`prong agents`, run as a user runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.door, pytest.mark.spec("S7")]


def prong(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "home").mkdir(exist_ok=True)
    (tmp_path / "project").mkdir(exist_ok=True)
    return subprocess.run(
        [sys.executable, "-m", "prong", *words],
        cwd=tmp_path / "project",
        env={**os.environ, "HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=False,
    )


def test_types_are_listed_with_their_source(tmp_path: Path):
    """Each type begins a line, folded to 80 columns; what is wrong goes to standard error."""
    folder = tmp_path / "home/.prong/agents"
    folder.mkdir(parents=True)
    (folder / "mine.md").write_text("---\ndescription: My own\n---\nYou are mine.")
    (folder / "bad.md").write_text("---\nname: bad\n")
    done = prong(tmp_path, "agents")
    lines = done.stdout.splitlines()

    assert done.returncode == 0
    assert [line.split()[0] for line in lines if not line.startswith(" ")] == [
        "Explore",
        "Plan",
        "general-purpose",
        "worker",
        "mine",
    ]
    assert f"(home, {folder / 'mine.md'})" in lines[-1]
    assert all(len(line) <= 80 for line in lines[:-1])
    assert len(lines) > 6
    assert "bad.md:1: front matter is not closed" in done.stderr


def test_a_type_is_shown_with_the_layer_that_took_each_tool(tmp_path: Path):
    """Prompt, model, mode, tools, and for every missing tool its layer and why."""
    flag = (
        '{"solo": {"description": "Alone", "prompt": "You work alone.", "model": "gpt-6.1-sol",'
        ' "tools": "Read, Bash, TaskStop", "permissionMode": "plan"}}'
    )
    done = prong(tmp_path, "agents", "show", "solo", "--agents", flag)

    assert done.returncode == 0, done.stderr
    for expected in (
        "solo: Alone",
        "source       flag, --agents",
        "model        gpt-6.1-sol",
        "mode         plan",
        "  Read, Bash\n",
        "  - TaskStop: layer 'every agent'",
        "  - Write: layer 'own lists'",
        "  - Agent: layer 'background'",
        "You work alone.",
    ):
        assert expected in done.stdout


def test_what_a_type_asks_for_beside_tools_is_shown(tmp_path: Path):
    """Isolation, effort, forbidden uses and names of no tool are lines of their own."""
    flag = (
        '{"solo": {"description": "Alone", "prompt": "You work alone.", "isolation": "worktree",'
        ' "effort": "high", "tools": "Raed, Agent(Explore)", "disallowedTools": "Bash(rm:*)"}}'
    )
    done = prong(tmp_path, "agents", "show", "solo", "--agents", flag)
    plain, background = done.stdout.split("Tools in the background:")

    for expected in (
        "isolation    worktree\n",
        "effort       high\n",
        "forbidden    Bash(rm:*)\n",
        "! there is no tool Raed\n",
        "  agents it may start: Explore\n",
    ):
        assert expected in plain
    assert "agents it may start" not in background


def test_an_unknown_type_is_refused_with_the_known_ones(tmp_path: Path):
    """A wrong name ends with code 2 and the list of names."""
    done = prong(tmp_path, "agents", "show", "Nobody")

    assert done.returncode == 2
    assert "the types are: Explore, Plan, general-purpose, worker" in done.stderr


def test_half_a_command_is_refused(tmp_path: Path):
    """`show` without a name, or a name without `show`, is an error of use."""
    assert prong(tmp_path, "agents", "show").returncode == 2
    assert prong(tmp_path, "agents", "Explore").returncode == 2


def test_a_built_in_type_fits_a_terminal(tmp_path: Path):
    """What Prong says of a type is folded to 80 columns; the prompt is shown as it is sent."""
    done = prong(tmp_path, "agents", "show", "general-purpose")
    said, _, sent = done.stdout.partition("\nPrompt:\n")

    assert sent
    assert all(len(line) <= 80 for line in said.splitlines())
    assert "  Read, Write, Edit," in said


@pytest.mark.spec("S6")
@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("general-purpose", "of the session"),
        ("loose", "of the session"),
        ("tight", "dontAsk"),
        ("Plan", "plan"),
    ],
)
def test_a_type_that_follows_the_session_says_so(tmp_path: Path, name: str, mode: str):
    """Only a mode that forbids is a type's own; others are the session's, whatever a file says."""
    flag = (
        '{"loose": {"description": "d", "prompt": "p", "permissionMode": "acceptEdits"},'
        ' "tight": {"description": "d", "prompt": "p", "permissionMode": "dontAsk"}}'
    )
    done = prong(tmp_path, "agents", "show", name, "--agents", flag)

    assert f"\nmode         {mode}\n" in done.stdout
