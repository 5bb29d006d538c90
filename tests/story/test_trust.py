from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from prong.config.trust import Trust, needs_trust
from prong.errors import ConfigError

pytestmark = pytest.mark.spec("L11")


@pytest.fixture
def trust(tmp_path: Path) -> Trust:
    (tmp_path / "home").mkdir()
    return Trust(str(tmp_path / "home"))


def folder(tmp_path: Path, name: str) -> str:
    (tmp_path / name).mkdir(parents=True, exist_ok=True)
    return str(tmp_path / name)


def test_trust_reaches_down_and_can_be_taken_back(trust: Trust, tmp_path: Path) -> None:
    """A folder's trust holds for what is in it, not above; a nearer decision comes first."""
    top, inner, deep = (folder(tmp_path, name) for name in ("a", "a/b", "a/b/c"))
    assert not trust.is_trusted(top)
    trust.trust(top)
    assert trust.is_trusted(top)
    assert trust.is_trusted(deep)
    assert not trust.is_trusted(str(tmp_path))
    assert not trust.is_trusted(folder(tmp_path, "ab"))
    trust.distrust(inner)
    assert trust.is_trusted(top)
    assert not trust.is_trusted(deep)
    trust.trust(top)
    assert trust.is_trusted(deep)


def test_links_are_followed(trust: Trust, tmp_path: Path) -> None:
    """Trust belongs to the folder itself, whatever name leads to it."""
    real = folder(tmp_path, "real")
    link = tmp_path / "link"
    link.symlink_to(real)
    trust.trust(str(link))
    assert trust.is_trusted(real)
    link.unlink()
    link.symlink_to(folder(tmp_path, "other"))
    assert not trust.is_trusted(str(link))


@pytest.mark.parametrize(
    ("text", "line"), [("{", 1), ('{"folders":\n[]}', 2), ('{"folders": {\n"/": "yes"}}', 2)]
)
def test_damaged_file_trusts_nothing_and_is_kept(
    trust: Trust, tmp_path: Path, text: str, line: int
) -> None:
    """A damaged file of decisions trusts nobody, is named by line, and is never overwritten."""
    trust.path.parent.mkdir()
    trust.path.write_text(text)
    assert not trust.is_trusted(str(tmp_path))
    problem = trust.problem()
    assert problem is not None
    assert (problem.path, problem.line) == (str(trust.path), line)
    with pytest.raises(ConfigError):
        trust.trust(str(tmp_path))
    assert trust.path.read_text() == text


@pytest.mark.door
def test_processes_that_decide_together_lose_nothing(trust: Trust, tmp_path: Path) -> None:
    """Decisions of several processes at once are all kept."""
    code = (
        "import sys; from prong.config.trust import Trust\n"
        "for n in range(5): Trust(sys.argv[1]).trust(f'{sys.argv[2]}/{n}')"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", code, trust.home, f"{tmp_path}/p{number}"])
        for number in range(3)
    ]
    assert [process.wait() for process in running] == [0, 0, 0]
    kept = msgspec.json.decode(trust.path.read_bytes())["folders"]
    assert len(kept) == 15
    assert all(kept.values())


def test_question_lists_what_the_folder_wants(trust: Trust, tmp_path: Path) -> None:
    """Hooks, rules, variables, servers, agents and skills' grants are listed, one line each."""
    root = Path(folder(tmp_path, "p"))
    assert needs_trust(trust.home, str(root)) == []
    for name, text in {
        ".claude/settings.json": '{"hooks": {"Stop": [{"hooks": [{"command": "make"}]}]},'
        '"permissions": {"allow": ["Bash"], "deny": ["Read(x)"]}, "env": {"A": "1"}}',
        ".mcp.json": '{"mcpServers": {"db": {"command": "npx", "args": ["${UNSET_HERE}"]}}}',
        ".claude/agents/rev.md": "---\nname: rev\n---\nReview.",
        ".prong/skills/go/SKILL.md": "---\nallowed-tools: Bash(make:*)\n---\nGo.",
        ".prong/skills/harmless/SKILL.md": "Read things.",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    assert needs_trust(trust.home, str(root)) == [
        "permissions.allow Bash",
        "hook Stop runs make",
        "env A",
        "server db runs npx ${UNSET_HERE}",
        "agent .claude/agents/rev.md",
        "skill go allows Bash(make:*) in the turn it is used in",
    ]
