"""What was said earlier, searching in it, and what a word can become."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prong.face.edit.buffer import Buffer
from prong.face.edit.complete import Proposal, Sources, accept, complete, find_files
from prong.face.edit.recall import HistorySearch, Recall
from prong.session.history import KEPT, LONGEST, InputHistory

pytestmark = pytest.mark.spec("X2")


def history(folder: Path, project: str = "/p") -> InputHistory:
    return InputHistory(
        folder / "home" / "history.jsonl", project, lambda text: text.replace("KEY", "*")
    )


def test_what_was_said_is_kept_over_sessions(tmp_path: Path) -> None:
    """Another process finds it, the latest first, its own project's before others', each once."""
    ours, other = history(tmp_path), history(tmp_path, "/q")
    for text in ("one", "two", "one"):
        assert ours.add(text)
    assert other.add("elsewhere")
    assert history(tmp_path).load() == ("one", "two", "elsewhere")
    assert other.load() == ("elsewhere", "one", "two")


def test_the_file_is_for_its_owner_alone_and_holds_no_keys(tmp_path: Path) -> None:
    """Its mode is 0600, that of a folder made for it 0700, and keys are masked."""
    kept = history(tmp_path)
    assert kept.add("use KEY")
    assert kept.load() == ("use *",)
    assert stat.S_IMODE(kept.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.path.parent.stat().st_mode) == 0o700


def test_damaged_lines_are_skipped(tmp_path: Path) -> None:
    """Garbage, foreign JSON and half a line cost only themselves."""
    kept = history(tmp_path)
    assert kept.add("first")
    with kept.path.open("ab") as file:
        file.write(b'\xff\xfe\n[1]\n{"at":1}\n{"at":1,"cwd":"/p","te')
    assert kept.add("second")
    assert kept.load() == ("second", "first")


def test_it_is_bounded(tmp_path: Path) -> None:
    """Old lines go, huge ones are not kept, and a folder that cannot be written is no failure."""
    kept = history(tmp_path)
    assert not kept.add("x" * (LONGEST + 1))
    assert not kept.add("  ")
    for number in range(2 * KEPT + 100):
        assert kept.add(f"{number} " + "x" * 90)
    said = kept.load()
    assert KEPT <= len(said) <= 2 * KEPT + 1
    assert said[0].startswith(f"{2 * KEPT + 99} ")
    (tmp_path / "file").touch()
    assert not InputHistory(tmp_path / "file" / "history.jsonl", "/p", str).add("x")


def test_going_back_and_coming_forward() -> None:
    """The draft is kept, and the ends hold."""
    recall = Recall(("new", "old"))
    assert recall.older("draft").text == "new"
    assert recall.older("draft").older("new").older("old").text == "old"
    assert recall.older("draft").newer().text == "draft"
    assert recall.newer().text == ""
    assert recall.add("old").said == ("old", "new")
    assert recall.add(" ").said == ("new", "old")


def test_searching() -> None:
    """All words must be there; the next one is further back, and less finds the latest again."""
    search = HistorySearch(("fix the parser", "Fix the lexer", "other"), before="x")
    assert search.found == ""
    assert search.typed("fix").found == "fix the parser"
    assert search.typed("fix").again().found == "Fix the lexer"
    assert search.typed("fix").again().again().found == "Fix the lexer"
    assert search.typed("the").typed(" lex").found == "Fix the lexer"
    assert search.typed("lexq").found == ""
    assert search.typed("lexq").erased().found == "Fix the lexer"


SOURCES = Sources(
    commands={"model": "change it", "mode": "the mode", "commit": "a skill"},
    arguments={"mode": "modes", "model": "models"},
    values={"modes": (Proposal("plan"), Proposal("default")), "models": ()},
    files=("src/a.py", "src/parser.py", "docs/parser.md", "tests/test_parser.py"),
    resources=(Proposal("docs:memo://today", "today"), Proposal("docs:memo://parser")),
)


def texts(line: str) -> list[str]:
    return [one.text for one in complete(Buffer().insert(line), SOURCES).candidates]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("/mo", ["model", "mode"]),
        ("/it", ["commit"]),
        ("/mode ", ["plan", "default"]),
        ("/mode pl", ["plan"]),
        ("/mode plan x", []),
        ("/model x", []),
        ("/nothing ", []),
        ("say /mo", []),
        ("look at @a.py", ["src/a.py"]),
        (
            "look at @parser",
            ["src/parser.py", "docs/parser.md", "tests/test_parser.py", "docs:memo://parser"],
        ),
        ("look at @docs:m", ["docs:memo://today", "docs:memo://parser"]),
        ("@docs", ["docs:memo://today", "docs:memo://parser", "docs/parser.md"]),
        ("@today", ["docs:memo://today"]),
        ("@tpr", ["tests/test_parser.py"]),
        ("/mode @a.p", ["src/a.py"]),
        ("mail a@b", []),
        ("plain", []),
    ],
)
def test_candidates(line: str, found: list[str]) -> None:
    """Commands at the beginning, what belongs to them behind, files and resources after an @."""
    assert texts(line) == found


def test_accepting() -> None:
    """One candidate is put in with a blank; of several what they have in common."""
    mo = Buffer().insert("/mo")
    assert accept(mo, complete(mo, SOURCES)).text == "/mode"
    assert accept(mo, complete(mo, SOURCES), Proposal("model")).text == "/model "
    one = Buffer().insert("see @a.p then").place(8)
    assert accept(one, complete(one, SOURCES)).text == "see @src/a.py then"
    none = Buffer().insert("@zzz")
    assert accept(none, complete(none, SOURCES)) == none


@given(st.text(max_size=8), st.lists(st.text(min_size=1, max_size=12), max_size=40))
def test_files_that_are_found_hold_the_letters(wanted: str, files: list[str]) -> None:
    """No file is invented, and each has all letters in order."""
    for path in find_files(wanted, files):
        assert path in files
        letters = iter(path.lower())
        assert all(c in letters for c in wanted.lower()) or not wanted.isascii()


def test_many_files() -> None:
    """Among a hundred thousand the one that is meant is found, and few are given."""
    files = [f"src/package_{n % 1000}/module_{n}.py" for n in range(100_000)] + ["src/needle.py"]
    assert find_files("needle", files)[0] == "src/needle.py"
    assert len(find_files("m", files)) == 12
