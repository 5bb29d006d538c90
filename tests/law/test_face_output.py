"""What reaches a terminal: no text of somebody else can take control of it."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from unicodedata import category

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import prong.face
from prong.errors import ConfigError
from prong.event import Warned
from prong.face import output
from prong.face.cli import main
from prong.face.line import describe
from prong.face.screen import Screen

pytestmark = pytest.mark.spec("L12")

FACE = Path(prong.face.__file__).parent
WAYS_OUT = {"output.py", "screen.py"}
"""The files through which everything goes."""

EVIL = "x\x1b]0;owned\x07\x1b[2J\x9b31m\u202etxt\r\x08\x7f\u200b"


def dangerous(text: str) -> list[str]:
    return [c for c in text if category(c) in {"Cc", "Cf", "Cs"} and c not in "\n\t"]


def test_nothing_in_the_faces_prints_by_itself() -> None:
    """Only the screen and the one module for output write to the terminal."""
    found: list[str] = []
    for path in sorted(FACE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            called = node.func if isinstance(node, ast.Call) else None
            bare = isinstance(called, ast.Name) and called.id in {"print", "input"}
            named = ast.unparse(called) if isinstance(called, ast.Attribute) else ""
            writes = named in {"os.write", "sys.stdout.write", "sys.stderr.write"}
            raw = isinstance(node, ast.Attribute) and ast.unparse(node).endswith("stdout.buffer")
            if (bare or writes or raw) and path.name not in WAYS_OUT:
                found.append(f"{path.name}:{getattr(node, 'lineno', 0)}")
    assert found == []


@given(st.text())
def test_what_is_printable_has_no_control(text: str) -> None:
    """Every control and format character is replaced, whatever it stands in; length is kept."""
    assert dangerous(output.printable(text)) == []
    assert len(output.printable(text)) == len(text)
    assert "\n" not in output.flat(text)


@given(st.text())
def test_json_keeps_its_value_without_what_a_terminal_should_not_see(text: str) -> None:
    """The escapes mean the same to whoever reads the JSON."""
    data = msgspec.json.encode({"text": text.encode(errors="ignore").decode()})
    shown = output._escaped(data.decode())
    assert json.loads(shown) == json.loads(data)
    assert not [c for c in dangerous(shown) if c < "\U00010000"]


def test_each_way_out_is_clean(capsys: pytest.CaptureFixture[str]) -> None:
    """Lines, sentences, bars and prompts go out without what was hidden in them."""
    output.show(EVIL)
    output.tell(f"{EVIL}\nprong: all is well")
    output.show_json(msgspec.json.encode(EVIL))
    screen = Screen()
    screen.line(EVIL, style="bad")
    screen.text(EVIL)
    screen.ask(EVIL)
    screen.notice(EVIL)
    for text, style in describe(Warned(text=EVIL)):
        screen.line(text, style=style)
    out, err = capsys.readouterr()
    assert dangerous(out + err) == []
    assert "\nprong: all is well" not in err
    output.draw(EVIL)
    assert dangerous(capsys.readouterr().err.removeprefix("\r\x1b[K")) == []


def test_errors_are_clean(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder's file that is refused cannot speak to the terminal by the refusal."""
    (tmp_path / ".prong").mkdir()
    rule = json.dumps({"permissions": {"deny": [f"Bash({EVIL}"]}})
    (tmp_path / ".prong/settings.json").write_text(rule)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    for words in (["trust"], ["agents"]):
        assert main(words) == 2
        out, err = capsys.readouterr()
        assert "settings.json:1" in err
        assert dangerous(out + err) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (".claude/settings.json", json.dumps({"model": EVIL, "baseUrl": EVIL})),
        (".claude/settings.json", json.dumps({"permissions": {"allow": [EVIL, f"Bash({EVIL})"]}})),
        (".prong/settings.json", json.dumps({EVIL: 1})),
        (".mcp.json", json.dumps({"mcpServers": {"x": {"command": EVIL, "args": [EVIL]}}})),
        (f".claude/agents/{EVIL[1:12]}.md", "---\nname: x\n---\n"),
        (".claude/skills/a/SKILL.md", f"---\nname: a\nallowed-tools: Bash({EVIL})\n---\nx\n"),
    ],
)
def test_what_a_folder_wants_is_clean(
    name: str,
    text: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before anybody trusts a folder, its words are listed without their controls, a line each."""
    path = tmp_path / "project" / name
    path.parent.mkdir(parents=True)
    path.write_text(text)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path / "project")
    assert main(["trust", "--list"]) == 0
    assert main(["agents"]) == 0
    out, err = capsys.readouterr()
    assert dangerous(out + err) == []


def test_an_error_is_told_with_its_file() -> None:
    """The error itself keeps the text as it was: only the way out changes it."""
    assert EVIL in str(ConfigError("f", EVIL))
