"""`prong doctor`: one page, for people and for programs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from prong.face.doctor import describe_findings
from prong.host.sandbox import Ability
from prong.session import Checkup, diagnose
from prong.session.diagnosis import sandbox_findings

pytestmark = [pytest.mark.door, pytest.mark.spec("L13")]


def doctor(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "ANTHROPIC_API_KEY": "sk-secret-1234567",
    }
    command = [sys.executable, "-m", "prong", "doctor", "-C", str(folder), *words]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


def test_a_page_names_everything_and_no_secret(tmp_path: Path) -> None:
    """Sandbox, terminal, tmux, git, keys, engine and MCP stand there, and the key does not."""
    ended = doctor(tmp_path)

    assert ended.returncode == 0, ended.stderr
    for topic in ("sandbox", "terminal", "tmux", "git", "keys", "engine", "MCP"):
        assert f" {topic}" in ended.stdout
    assert "ANTHROPIC_API_KEY" in ended.stdout
    assert "sk-secret" not in ended.stdout
    assert max(map(len, ended.stdout.splitlines())) <= 80


def test_programs_read_the_same(tmp_path: Path) -> None:
    """As JSON each finding has topic, state, text and remedy."""
    found = json.loads(doctor(tmp_path, "--json").stdout)

    assert {"topic", "state", "text", "remedy"} == {*found[0]}
    assert {one["state"] for one in found} <= {"good", "limited", "broken"}


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        (".mcp.json", '{"mcpServers": {"gone": {"command": "no-such-program-here"}}}', "not found"),
        (".prong/settings.json", '{"sandbox": {"mode": "of"}}', "one of on, off, required"),
    ],
)
def test_what_is_broken_is_an_exit_code(tmp_path: Path, name: str, text: str, says: str) -> None:
    """A server that cannot start and settings that cannot be read give 1 and their remedy."""
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    words = ("--settings", '{"enableAllProjectMcpServers": true}') if "mcp" in name else ()
    subprocess.run(
        [sys.executable, "-m", "prong", "trust", str(tmp_path)],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        check=False,
        capture_output=True,
    )
    ended = doctor(tmp_path, *words)

    assert ended.returncode == 1, ended.stdout
    assert says in " ".join(ended.stdout.split())
    assert "->" in ended.stdout


def test_settings_that_let_something_out_are_told(tmp_path: Path) -> None:
    """Every exception from the sandbox stands on the page."""
    given = '{"sandbox": {"writable": ["/opt/x"], "outside": ["docker:*"], "network": "always"}}'
    (told,) = [one for one in diagnose(str(tmp_path), settings=given) if "exceptions" in one.topic]

    assert "/opt/x" in told.text
    assert "docker:*" in told.text
    assert "network" in told.text


@pytest.mark.parametrize(
    ("mode", "state"), [("on", "limited"), ("off", "limited"), ("required", "broken")]
)
def test_no_sandbox(mode: str, state: str) -> None:
    """Where there is none, that is a limit; where one is required, it is broken."""
    (found,) = sandbox_findings(Ability(), mode)

    assert found.state == state
    assert found.remedy


def test_lines_carry_no_control_characters() -> None:
    """What a folder names cannot control the terminal."""
    lines = describe_findings([Checkup(topic="MCP: \x1b[2J", state="good", text="x\x07")])

    assert "\x1b" not in "".join(lines)
