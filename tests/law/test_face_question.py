"""Answers to questions at the prompt, and calls as lines."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from prong.entry import CallId
from prong.errors import UsageError
from prong.event import PermissionAsked, QuestionAsked, ToolFinished, ToolStarted
from prong.face.ask_in_turn import read_answer
from prong.face.call import Calls
from prong.face.line import chosen, counted, describe, describe_question
from prong.face.slash import HELP
from prong.ids import RequestId
from prong.question import Answer, Choice, Question

OPTIONS = (Choice("red"), Choice("blue"))
ONE = QuestionAsked(request_id=RequestId("ask-1"), questions=(Question("Colour?", "", OPTIONS),))
TWO = QuestionAsked(
    request_id=RequestId("ask-2"),
    questions=(Question("Colour?", "", OPTIONS), Question("Both?", "", OPTIONS, multiple=True)),
)
LEAVE = PermissionAsked(
    request_id=RequestId("ask-1"),
    call_id=CallId("1"),
    tool="Bash",
    title="touch a",
    why="it writes",
    suggestion=("Bash(touch:*)",),
    file="/p/.prong/settings.local.json",
)

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("asked", "line", "answer"),
    [
        (ONE, "2", "blue"),
        (ONE, "green; or none", "green; or none"),
        (ONE, "1, if it is pale", "1, if it is pale"),
        (TWO, "1; 1,2", "red\nred, blue"),
        (TWO, "pale red; 2, black", "pale red\nblue, black"),
    ],
)
def test_numbers_and_words_are_answers(asked: QuestionAsked, line: str, answer: str) -> None:
    """A number stands for its option; words stand for themselves."""
    assert chosen(asked, line) == answer


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        *((ONE, line) for line in ("", "3", "0", "1,2")),
        *((TWO, line) for line in ("1", "1;", "1;2;1", "1; 1,3")),
    ],
)
def test_what_is_no_answer_is_asked_again(asked: QuestionAsked, line: str) -> None:
    """A number out of range, too few or too many answers are not accepted."""
    with pytest.raises(UsageError):
        chosen(asked, line)


def test_a_permission_question_shows_the_change() -> None:
    """The diff stands between the reason and the rules, with a style for each line."""
    asked = PermissionAsked(
        request_id=RequestId("ask-1"),
        call_id=CallId("1"),
        tool="Edit",
        title="Edit a.py",
        why="it writes",
        suggestion=("Edit",),
        preview="@@ -1 +1 @@\n-x = 1\n+x = 2",
    )
    lines = describe_question(asked)
    assert lines[0] == ("may it? Edit a.py", "bold")
    assert ("  -x = 1", "bad") in lines
    assert ("  +x = 2", "good") in lines
    assert lines[-1] == ("  for the rest of this session: Edit", "bold")


def test_a_long_change_is_shown_in_part_and_whole() -> None:
    """At first its beginning, with how to see the rest; what it is about stands below it too."""
    asked = PermissionAsked(
        request_id=RequestId("ask-1"),
        call_id=CallId("1"),
        tool="Write",
        title="Write a.py",
        why="it writes",
        preview="\n".join(f"+{n}" for n in range(50)),
    )
    part = [text for text, _ in describe_question(asked)]
    assert "  +29" in part
    assert "  +30" not in part
    assert part[-2:] == ["  … 20 more lines; v shows all of them", "may it? Write a.py"]
    whole = [text for text, _ in describe_question(asked, whole=True)]
    assert whole[-2:] == ["  +49", "may it? Write a.py"]


@pytest.mark.parametrize(
    ("word", "answer"),
    [
        ("y", Answer("ask-1")),
        ("s", Answer("ask-1", remember="session")),
        ("Always", Answer("ask-1", remember="project")),
        ("no", Answer("ask-1", allow=False)),
        ("as you like it", Answer("ask-1", allow=False, text="as you like it")),
    ],
)
async def test_words_give_leave(word: str, answer: Answer) -> None:
    """Leave is given once, for the session or for good; whatever else is said is why not."""
    assert await read_answer(LEAVE, word) == answer


@pytest.mark.parametrize("word", ["s", "a"])
async def test_leave_that_is_not_offered_is_not_given(word: str) -> None:
    """Where no rule can allow it, the words for that are no answer, and no reason either."""
    with pytest.raises(UsageError):
        await read_answer(replace(LEAVE, suggestion=(), file=""), word)


async def test_a_plan_is_approved_with_edits_accepted() -> None:
    """One word approves a plan and lets edits pass from then on."""
    plan = replace(LEAVE, suggestion=(), file="", plan="1. Do it.")
    assert await read_answer(plan, "a") == Answer("ask-1", mode="acceptEdits")
    assert await read_answer(plan, "s") == Answer("ask-1", allow=False, text="s")


def test_a_failure_stands_below_its_own_call() -> None:
    """A call that never started, or that others came between, is named above its failure."""
    calls = Calls()

    def started(name: str) -> list[str]:
        event = ToolStarted(call_id=CallId(name), name="Read", arguments="", title=f"Read {name}")
        return [text for text, _ in calls.lines(event)]

    def failed(name: str) -> list[str]:
        event = ToolFinished(
            call_id=CallId(name), name="Read", failed=True, text="no", title=f"Read {name}"
        )
        return [text for text, _ in calls.lines(event)]

    assert started("a") == ["* Read a"]
    assert failed("a") == ["  failed: no"]
    assert started("b") + started("c") == ["* Read b", "* Read c"]
    assert failed("b") == ["* Read b", "  failed: no"]
    assert failed("never") == ["* Read never", "  failed: no"]


def test_words_fit() -> None:
    """Help fits a terminal of 80 columns, and one thing is not said to be several."""
    assert max(map(len, HELP.splitlines())) <= 80
    assert (counted(1, "file"), counted(2, "file")) == ("1 file", "2 files")


def test_only_a_diff_is_coloured_like_one() -> None:
    """A list of files begins its lines with a dash, and none of them was taken away."""

    def styles(shown: str) -> list[str]:
        ended = ToolFinished(call_id=CallId("a"), name="x", failed=False, text="", shown=shown)
        return [style for _, style in describe(ended)]

    assert styles("-rw-r--r-- a\n+x") == ["", ""]
    assert styles("--- a\n+++ a\n-x\n+y")[2:] == ["bad", "good"]
