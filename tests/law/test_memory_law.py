"""Notes for later sessions: whatever a model answers, the user's lines stay as they are."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prong.config.memory import MOST, NoteFile
from prong.journal.note import NoteChange
from prong.session.extraction import read_answer
from prong.testing.forgery_campaign import seen

pytestmark = pytest.mark.spec("F20")

WORD = st.sampled_from(
    ["make test", "ruff", "<system-reminder>", "\u202eevil", "a\x1b[2J", "é", "x" * 90]
)
NOTE = st.lists(WORD, min_size=1, max_size=6).map(" ".join)
NUMBER = st.integers(0, 6)
ANSWER = st.lists(
    st.one_of(
        NOTE.map("ADD: {}".format),
        st.tuples(NUMBER, NOTE).map(lambda pair: f"REPLACE {pair[0]}: {pair[1]}"),
        NUMBER.map("DROP {}".format),
        st.just("NONE"),
        st.text(max_size=40),
    ),
    max_size=8,
).map("\n".join)
LINE = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=20)


def take(notes: NoteFile, answer: str) -> tuple[NoteChange, ...]:
    """Apply an answer as a session does."""
    changes, _ = read_answer(answer, [line for line, ours in notes.lines() if ours])
    notes.apply(changes)
    return changes


@given(ANSWER, st.lists(LINE, max_size=4), ANSWER)
def test_the_users_lines_are_never_touched(first: str, own: list[str], second: str) -> None:
    """What the user wrote among the notes is there after any answer, in its order."""
    with tempfile.TemporaryDirectory() as folder:
        notes = NoteFile(Path(folder))
        take(notes, first)
        before = notes.path.read_text() if notes.path.exists() else ""
        mine = [f"mine {number} {line}" for number, line in enumerate(own)]
        notes.path.write_text("\n".join([*mine, before]))

        take(notes, second)

        kept = [line for line in notes.path.read_text().splitlines() if line.startswith("mine ")]
        assert kept == mine


@given(ANSWER, ANSWER)
def test_the_same_changes_twice_are_the_same_once(first: str, second: str) -> None:
    """A process that was killed after the file was written may apply its changes again."""
    with tempfile.TemporaryDirectory() as folder:
        notes = NoteFile(Path(folder))
        take(notes, first)
        changes = take(notes, second)
        once = notes.lines()

        notes.apply(changes)

        assert notes.lines() == once


@given(ANSWER)
def test_every_note_is_one_harmless_line(answer: str) -> None:
    """No control character, no tag, no second line, and not too long; ten at most."""
    changes, _ = read_answer(answer, ["- a", "- b"])

    assert len(changes) <= 10
    for change in changes:
        assert change.text.isprintable()
        assert len(change.text) <= 302
        assert "<system" not in seen(change.text)
        assert change.before in {"", "- a", "- b"}


@pytest.mark.parametrize(
    "text",
    [
        "The deploy key is ghp_0123456789abcdefghijABCDEFGHIJ.",
        "Log in with password: hunter22x.",
        "Use postgres://app:s3cret@db/prod for the tests.",
        "token = 8f14e45fceea167a",
        "-----BEGIN OPENSSH PRIVATE KEY-----",
    ],
)
def test_what_looks_like_a_secret_is_left_out(text: str) -> None:
    """It is counted, so that the user is told."""
    assert read_answer(f"ADD: {text}\nADD: The tests need tokens of the fixture.", []) == (
        (NoteChange("- The tests need tokens of the fixture."),),
        1,
    )


def test_a_deleted_line_does_not_come_back(tmp_path: Path) -> None:
    """What the user deleted is not written again, one by one or all."""
    notes = NoteFile(tmp_path)
    take(notes, "ADD: one\nADD: two")
    notes.path.write_text(notes.path.read_text().replace("- one\n", ""))
    take(notes, "ADD: one\nADD: three")
    assert [line for line, ours in notes.lines() if ours] == ["- two", "- three"]
    assert notes.clear()
    take(notes, "ADD: two\nADD: four")
    assert [line for line, ours in notes.lines() if ours] == ["- four"]


def test_a_line_that_the_user_changed_is_the_users(tmp_path: Path) -> None:
    """It has no number any more, and an answer to what it said before finds nothing."""
    notes = NoteFile(tmp_path)
    take(notes, "ADD: one")
    changes, _ = read_answer("REPLACE 1: other", ["- one"])
    notes.path.write_text(notes.path.read_text().replace("- one", "- one, but on Mondays two"))
    notes.apply(changes)
    assert notes.lines()[-1] == ("- one, but on Mondays two", False)


def test_a_line_of_the_user_cannot_be_named(tmp_path: Path) -> None:
    """A change that names a line which Prong has not written does nothing."""
    notes = NoteFile(tmp_path)
    notes.path.write_text("- mine\n")
    notes.apply([NoteChange("", "- mine"), NoteChange("- yours", "- mine")])
    assert notes.path.read_text() == "- mine\n"


def test_the_file_has_a_bound(tmp_path: Path) -> None:
    """When it is full nothing more is added, and how much was left out is known."""
    notes = NoteFile(tmp_path)
    changes = [NoteChange(f"- {number} {'x' * 250}") for number in range(60)]
    done = notes.apply(changes)
    assert done.full == 60 - len(done.added)
    assert MOST - 300 < len(notes.path.read_text()) <= MOST


def test_nobody_else_may_read_them(tmp_path: Path) -> None:
    """Folder and file are for their owner alone, and nothing else is left behind."""
    notes = NoteFile(tmp_path / "memory")
    take(notes, "ADD: one")
    assert notes.folder.stat().st_mode & 0o777 == 0o700
    assert notes.path.stat().st_mode & 0o777 == 0o600
    assert {path.name for path in notes.folder.iterdir()} == {"notes.md", ".written", ".lock"}
