"""`prong mcp`: servers are added, listed, shown, tried and removed from a shell."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

from prong.config.trust import Trust
from prong.errors import ConfigError, UsageError
from prong.face.cli import main
from prong.face.mcp_command import run_mcp
from shared.served import MANY

pytestmark = [pytest.mark.door, pytest.mark.spec("L11")]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    (project / ".git").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(project)
    return home


def run(text: str, *rest: str) -> int:
    return run_mcp([*text.split(), *rest])


def test_servers_are_added_to_their_scope_and_removed(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each scope has its file; what else stands there stays; the user's files are theirs alone."""
    kept = home / ".prong/mcp.json"
    project = Path(".mcp.json")
    project.write_text('{"other": 1}')
    assert run("add one -e TOKEN=${T:-x} -- npx -y pkg --flag") == 0
    assert run("add two https://h.example/mcp -s user -t sse", "-H", "X-Key: a b") == 0
    assert run("add three -s project npx") == 0
    assert "prong trust" in capsys.readouterr().out
    stored = msgspec.json.decode(kept.read_bytes())
    root = str(Path.cwd())
    assert stored["projects"][root]["mcpServers"]["one"] == {
        "command": "npx",
        "args": ["-y", "pkg", "--flag"],
        "env": {"TOKEN": "${T:-x}"},
    }
    assert stored["mcpServers"]["two"] == {
        "type": "sse",
        "url": "https://h.example/mcp",
        "headers": {"X-Key": "a b"},
    }
    assert msgspec.json.decode(project.read_bytes())["other"] == 1
    assert kept.stat().st_mode & 0o777 == 0o600
    run("list")
    listed = capsys.readouterr().out
    assert "one  local  stdio  npx -y pkg --flag" in listed
    assert "two  user  sse  https://h.example/mcp" in listed
    assert "servers three left out" in listed
    Trust(str(home)).trust(root)
    run("get two")
    shown = capsys.readouterr().out
    assert "X-Key" in shown
    assert "a b" not in shown
    for name in ("one", "two", "three"):
        assert run(f"remove {name}") == 0
    assert msgspec.json.decode(kept.read_bytes())["mcpServers"] == {}
    run("list")
    assert "no MCP servers are configured" in capsys.readouterr().out


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("add one", "say what it is"),
        ("add a__b x", "cannot be a server's name"),
        ("add ../x y", "cannot be a server's name"),
        ("add one https://h -e A=b", "neither further words nor --env"),
        ("add one ftp://h -t http", "'url' must begin with http"),
        ("add one x -H A:b", "only an address has headers"),
        ("add one x -e A", "must be NAME=VALUE"),
        ("add-json one [", "no JSON object"),
        ("add-json one {}", "either a 'command'"),
        ("remove gone", "there is no MCP server 'gone'"),
        ("remove gone -s user", "has no server 'gone'"),
        ("get gone", "there is no MCP server 'gone'"),
        ("check gone", "there is no MCP server 'gone'"),
        ("login gone", "there is no MCP server 'gone'"),
    ],
)
def test_what_makes_no_sense_is_refused(words: str, why: str) -> None:
    """Each mistake is said in words, and nothing is written."""
    with pytest.raises(UsageError, match=why):
        run(words)
    assert not Path(".mcp.json").exists()


def test_a_name_is_taken_once_and_damage_is_left_alone(home: Path) -> None:
    """A second server of a name is refused; a file that is no JSON is not overwritten."""
    run("add one x")
    with pytest.raises(UsageError, match="already"):
        run("add one y")
    run("add one y -s user")
    with pytest.raises(UsageError, match="several scopes"):
        run("remove one")
    path = home / ".prong/mcp.json"
    path.write_text("{,")
    with pytest.raises(ConfigError, match="not valid JSON"):
        run("add two x")
    assert path.read_text() == "{,"


def test_servers_of_others_are_not_changed(home: Path) -> None:
    """What another program's file names is listed, and not removed from it."""
    text = '{"mcpServers": {"theirs": {"command": "x"}}}'
    (home / ".claude.json").write_text(text)
    with pytest.raises(UsageError, match="which Prong does not change"):
        run("remove theirs")
    assert (home / ".claude.json").read_text() == text


@pytest.mark.usefixtures("home")
def test_check_starts_servers_and_says_what_they_have(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of a server that works, tools and time are said; of one that does not, why; exit code 1."""
    run("add good --", sys.executable, MANY)
    run("add gone --", "no-such-program-here")
    capsys.readouterr()
    assert main(["mcp", "check"]) == 1
    told = capsys.readouterr().out
    assert "+ good  many" in told
    assert "1 prompt, resources, instructions" in told
    assert "! gone  no-such-program-here" in told
    assert main(["mcp", "check", "good", "--json"]) == 0
    (report,) = msgspec.json.decode(capsys.readouterr().out)
    assert (report["name"], report["state"], report["prompts"]) == (
        "good",
        "ready",
        ["mcp__good__review"],
    )
    assert "mcp__good__lookup" in report["tools"]
    assert run("logout good") == 0
    assert "there is no login" in capsys.readouterr().out
