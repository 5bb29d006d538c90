"""The program that stands for others in tests."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from prong.testing import ProgramRecorder

pytestmark = pytest.mark.door


def run(program: ProgramRecorder, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(program.path), *words], input=stdin, capture_output=True, text=True, check=False
    )


def test_it_writes_down_how_it_was_called(tmp_path: Path):
    """Arguments and input are kept as they came, in order."""
    program = ProgramRecorder(tmp_path, "my program")
    program.answer()
    run(program, "a b", "$x;", "-v", "\n", stdin="in\nput")
    run(program)

    assert [call.words for call in program.calls] == [("a b", "$x;", "-v", "\n"), ()]
    assert program.calls[0].stdin == "in\nput"


def test_it_answers_in_order_by_the_longest_beginning(tmp_path: Path):
    """Each answer is used once, the last ever after, and another beginning has its own."""
    program = ProgramRecorder(tmp_path, "p")
    program.answer("list", output="one")
    program.answer("list", output="two", errors="late", code=3)
    program.answer("list", "--json", output="[]")
    said = [run(program, "list") for _ in range(3)]

    assert [done.stdout for done in said] == ["one", "two", "two"]
    assert (said[1].returncode, said[1].stderr) == (3, "late")
    assert run(program, "list", "--json", "x").stdout == "[]"


def test_what_it_was_not_told_fails(tmp_path: Path):
    """A call that nobody foresaw is no success; forgetting makes every call one."""
    program = ProgramRecorder(tmp_path, "p")
    program.answer("known")
    assert run(program, "known").returncode == 0
    unknown = run(program, "other", "words")
    program.forget()

    assert unknown.returncode == 1
    assert "no answer was given for: other words" in unknown.stderr
    assert program.calls == []
    assert run(program, "known").returncode == 1
