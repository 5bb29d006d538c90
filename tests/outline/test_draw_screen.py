"""What a reader sees: whole screens and their parts, as text without any colour."""

from __future__ import annotations

import msgspec
import pytest
from inline_snapshot import snapshot
from msgspec.structs import replace

from prong.entry import CallId
from prong.event import (
    MAIN,
    AgentRested,
    AgentStarted,
    Envelope,
    Event,
    PermissionAsked,
    QuestionAsked,
    Todo,
)
from prong.face.draw.dialog import Picked, draw_question
from prong.face.draw.header import describe_work, draw_header, draw_keys
from prong.face.draw.placement import arrange, aspect_of
from prong.face.draw.row import pad
from prong.face.draw.todo_list import draw_todos
from prong.face.draw.transcript import Transcript
from prong.face.draw.tree import Aspect, draw_fan, draw_tree
from prong.face.task_list import list_tasks
from prong.ids import AgentPath, RequestId, TaskId
from prong.question import Choice, Question
from prong.view import AskedView, View, fold_all
from shared.drawing import DIFF, receipt, story, text, view_of

pytestmark = pytest.mark.spec("X2")

KEYS = (("Shift+Tab", "mode"), ("Ctrl+O", "plain"), ("?", "help"))
NOW = 140.0


def screen(view: View, columns: int, lines: int, unfolded: frozenset[int] = frozenset()) -> str:
    """Put a screen together, as whatever shows it would."""
    placement = arrange(columns, lines, count=len(view.agents) + 1)
    transcript = Transcript("main")
    width, height = placement.conversation
    transcript.show(view, width, now=NOW, unfolded=unfolded)
    rows = [pad(row, width) for row in transcript.bottom(height).rows]
    tree = draw_tree(view, aspect_of(placement, now=NOW))
    if placement.beside:
        tree += draw_fan(view, placement.agents[0])
        right = [row.text for row in tree] + [""] * len(rows)
        body = "\n".join(
            f"{row.text}|{beside}".rstrip() for row, beside in zip(rows, right, strict=False)
        )
    else:
        body = f"{text(rows)}\n{'-' * columns}\n{text(tree)}"
    top = draw_header(view, columns, now=NOW)
    foot = draw_keys(KEYS, columns, note=describe_work(view))
    return f"{top.text.rstrip()}\n{body}\n{foot.text.rstrip()}"


LIST = (
    Todo("Read the scheduler", "completed"),
    Todo("Write a test", "completed", "Writing a test"),
    Todo("Bound the wait", "in_progress", "Bounding the wait"),
    Todo("Run the tests", "pending"),
    Todo("Look for\nother retries", "pending"),
)


def test_todos() -> None:
    """A list is folded to the rows there are: what is at hand stays longest, the rest is counted."""
    assert text(draw_todos(LIST, 60, 9)) == snapshot("""\
todos 2 of 5 done
  [x] Read the scheduler
  [x] Write a test
  [~] Bounding the wait
  [ ] Run the tests
  [ ] Look for other retries\
""")
    assert text(draw_todos(LIST, 60, 4)) == snapshot("""\
todos 2 of 5 done, 2 not shown
  [~] Bounding the wait
  [ ] Run the tests
  [ ] Look for other retries\
""")
    assert text(draw_todos(LIST, 60, 2)) == snapshot("""\
todos 2 of 5 done, 4 not shown, 2 of them to do
  [~] Bounding the wait\
""")
    assert text(draw_todos(LIST, 40, 1)) == snapshot("todos 2 of 5 done · [~] Bounding the wa…")
    assert not draw_todos(LIST, 60, 0)
    assert not draw_todos(LIST[:2], 60, 9)


def test_agents_elsewhere() -> None:
    """Of an agent on another machine, or in a pane, its row and the list of tasks say where."""
    began = AgentStarted(kind="typed", model="m", parent=MAIN, task_id=TaskId("far"), target="box")
    member = AgentStarted(kind="main", model="m", parent=MAIN, task_id=TaskId("ann"), session="s2")
    below = replace(member, kind="fork", parent=AgentPath("main/ann"), task_id=TaskId("ann:f"))
    main = AgentStarted(kind="main", model="m")
    told: list[tuple[str, Event]] = [
        (MAIN, main),
        ("main/far", began),
        ("main/ann", member),
        ("main/ann", AgentRested()),
        ("main/ann/f", below),
    ]
    view = fold_all(
        Envelope(number, 0.0, AgentPath(path), event)
        for number, (path, event) in enumerate(told, 1)
    )
    assert text(draw_tree(view, Aspect(width=60))) == snapshot("""\
● main    0t                $0.00
├· far    0t                $0.00 on box: waits for its turn
└● ann    0t                $0.00 in its pane: sleeps
  └· f     0t                $0.00 waits for its turn\
""")
    assert list_tasks(view) == [
        "far  running   (on box)",
        "ann  running   (in its pane)",
        "ann:f  running  ",
    ]


@pytest.mark.parametrize("lines", range(4, 30))
@pytest.mark.parametrize("below", [2, 12])
def test_parts_do_not_overlap(lines: int, below: int) -> None:
    """However few lines there are, header, conversation, agents and the lower part have theirs."""
    placed = arrange(80, lines, count=7, below=below)
    agents = placed.agents[1] + bool(placed.agents[1])
    assert 1 + placed.conversation[1] + agents + below <= max(lines, 2 + below)


@pytest.mark.parametrize("columns", [80, 120, 200])
def test_an_agent_that_is_alone_takes_no_room(columns: int) -> None:
    """Without forks the conversation has the whole width; the second agent opens the list."""
    assert arrange(columns, 40, count=1).conversation == (columns, 37)
    assert arrange(columns, 40, count=1).agents[1] == 0
    assert arrange(columns, 40, count=2).agents[1] > 0


def test_140_columns() -> None:
    """The agents stand beside the conversation, with bars, and the last fan-out below them."""
    assert screen(view_of(story()), 140, 30) == snapshot("""\
prong  claude-sonnet-5-5 · default · main                                                           $0.37  saved $2.59  cache 99%  warm 3:14
> fix the scheduler                                                         |◐ main     2t ███████▉  99%  $0.31 writes
                                                                            |├◐ fork-1  1t ███████▉  99%  $0.02 Edit retry.py
▸ thought, 6 words                                                          |├? fork-2  1t ███████▉  99%  $0.02 asks: rm -rf build
▸ Read src/retry.py  1 import time (+2 lines)                               |├○ fork-3  1t ████▏     52%! $0.02 done, missed
▸ Edit src/retry.py  +2 -1  2 s                                             |└$ make test  1:47
                                                                            |fan-out 1: base 6,425 tok · read 52 %
I'll split this in three:                                                   |
                                                                            |
1. test                                                                     |
2. callers                                                                  |
◐ Agent fork: write the test  fork-1  running  2:06                         |
? Agent fork: list the callers  fork-2  waits for you  2:03                 |
▸ Agent fork: look for 漢字 in names  fork-3  completed  10 s               |
▸ fork-3, 1 missed !: shared 25,896 B, paid $0.03, saved $0.29 (90%)        |
                                                                            |
While they work I read a.py                                                 |
1 question, 1 in the background                                                                         Shift+Tab mode  Ctrl+O plain  ? help\
""")


def test_120_columns() -> None:
    """From 120 columns on both have room."""
    assert screen(view_of(story()), 120, 24) == snapshot("""\
prong  claude-sonnet-5-5 · default · main                                       $0.37  saved $2.59  cache 99%  warm 3:14
> fix the scheduler                                              |◐ main     2t ███████▉  99%  $0.31 writes
                                                                 |├◐ fork-1  1t ███████▉  99%  $0.02 Edit retry.py
▸ thought, 6 words                                               |├? fork-2  1t ███████▉  99%  $0.02 asks: rm -rf build
▸ Read src/retry.py  1 import time (+2 lines)                    |├○ fork-3  1t ████▏     52%! $0.02 done, missed
▸ Edit src/retry.py  +2 -1  2 s                                  |└$ make test  1:47
                                                                 |fan-out 1: base 6,425 tok · read 52 %
I'll split this in three:                                        |
                                                                 |
1. test                                                          |
2. callers                                                       |
◐ Agent fork: write the test  fork-1  running  2:06              |
? Agent fork: list the callers  fork-2  waits for you  2:03      |
▸ Agent fork: look for 漢字 in names  fork-3  completed  10 s    |
▸ fork-3, 1 missed !: shared 25,896 B, paid $0.03, saved $0.29 (…|
                                                                 |
While they work I read a.py                                      |
1 question, 1 in the background                                                     Shift+Tab mode  Ctrl+O plain  ? help\
""")


def test_119_columns() -> None:
    """With less the agents stand below, six rows at most."""
    assert screen(view_of(story()), 119, 24) == snapshot("""\
prong  claude-sonnet-5-5 · default · main                                      $0.37  saved $2.59  cache 99%  warm 3:14

▸ thought, 6 words
▸ Read src/retry.py  1 import time (+2 lines)
▸ Edit src/retry.py  +2 -1  2 s

I'll split this in three:

1. test
2. callers
◐ Agent fork: write the test  fork-1  running  2:06
? Agent fork: list the callers  fork-2  waits for you  2:03
▸ Agent fork: look for 漢字 in names  fork-3  completed  10 s
▸ fork-3, 1 missed !: shared 25,896 B, paid $0.03, saved $0.29 (90%)

While they work I read a.py
-----------------------------------------------------------------------------------------------------------------------
◐ main     2t ███████▉  99%  $0.31 writes
├◐ fork-1  1t ███████▉  99%  $0.02 Edit retry.py
├? fork-2  1t ███████▉  99%  $0.02 asks: rm -rf build
├○ fork-3  1t ████▏     52%! $0.02 done, missed
└$ make test  1:47
1 question, 1 in the background                                                    Shift+Tab mode  Ctrl+O plain  ? help\
""")


def test_80_columns() -> None:
    """In the smallest terminal each agent has one short row."""
    assert screen(view_of(story()), 80, 24) == snapshot("""\
prong  claude-sonnet-5-5 · default      $0.37  saved $2.59  cache 99%  warm 3:14

▸ thought, 6 words
▸ Read src/retry.py  1 import time (+2 lines)
▸ Edit src/retry.py  +2 -1  2 s

I'll split this in three:

1. test
2. callers
◐ Agent fork: write the test  fork-1  running  2:06
? Agent fork: list the callers  fork-2  waits for you  2:03
▸ Agent fork: look for 漢字 in names  fork-3  completed  10 s
▸ fork-3, 1 missed !: shared 25,896 B, paid $0.03, saved $0.29 (90%)

While they work I read a.py
--------------------------------------------------------------------------------
◐ main    99%  $0.31 writes
◐ fork-1  99%  $0.02 Edit retry.py
? fork-2  99%  $0.02 asks: rm -rf build
○ fork-3  52%! $0.02 done, missed
$ make test  1:47
1 question, 1 in the background             Shift+Tab mode  Ctrl+O plain  ? help\
""")


def test_unfolded() -> None:
    """Thinking, a diff, a result and a receipt unfold in their place."""
    view = view_of([*story(), ("main/fork-1", receipt("fork-1", read=6_400))])
    transcript = Transcript("main")
    transcript.show(view, 70, now=NOW, unfolded=frozenset({1, 2, 3, 8}))
    assert text(transcript.bottom(99).rows) == snapshot("""\
> fix the scheduler

▾ thought
  Where is it? Let me look.
▾ Read src/retry.py
  file_path: src/retry.py
  1 import time
  2 import os
  3
▾ Edit src/retry.py  +2 -1  2 s
  src/retry.py
   ⋮ def retry(call):
  10       for attempt in range(tries):
  11 -         wait = 2 ** attempt
  11 +         wait = min(60, 2 ** attempt)
  12 +         log(wait)
  13           sleep(wait)
  14       return None

I'll split this in three:

1. test
2. callers
◐ Agent fork: write the test  fork-1  running  2:06
? Agent fork: list the callers  fork-2  waits for you  2:03
▸ Agent fork: look for 漢字 in names  fork-3  completed  10 s
▾ fan-out of 2, 1 missed !: shared 25,896 B each, paid $0.07, saved $…
  · fork-3 completed: read 3,341 of 6,425 shared, $0.0325, saved
    $0.2900 (90%)
    ! the provider did not find the entry
  · fork-1 completed: read 6,400 of 6,425 shared, $0.0325, saved
    $0.2900 (90%)

While they work I read a.py\
""")


def test_a_fan_out_of_which_some_still_work() -> None:
    """It is as large as it was made; of how many the figures are is said until all have ended."""
    events = story()
    for name, told in (("fork-1", "of 3, 2 ended, 1 missed !:"), ("fork-2", "of 3, 1 missed !:")):
        events.append((f"main/{name}", receipt(name, read=6_400, siblings=3)))
        transcript = Transcript("main")
        transcript.show(view_of(events), 70, now=NOW, unfolded=frozenset())
        assert f"▸ fan-out {told} shared" in text(transcript.bottom(99).rows)


def test_the_tree_in_ascii() -> None:
    """Terminals without other letters get the same tree."""
    drawn = draw_tree(view_of(story()), Aspect(width=72, now=NOW, ascii=True))
    assert text(drawn) == snapshot("""\
* main     2t [#######.]  99%  $0.31 writes
|* fork-1  1t [#######.]  99%  $0.02 Edit retry.py
|? fork-2  1t [#######.]  99%  $0.02 asks: rm -rf build
|o fork-3  1t [####....]  52%! $0.02 done, missed
`$ make test  1:47\
""")
    assert all(row.text.isascii() for row in drawn)


def test_the_busiest_come_first() -> None:
    """Where there is little room, who asks is seen, and the rest is counted."""
    assert text(draw_tree(view_of(story()), Aspect(width=60, now=NOW, most=3))) == snapshot("""\
? fork-2  1t ███████▉  99%  $0.02 asks: rm -rf build
◐ main    2t ███████▉  99%  $0.31 writes
… 3 more: 2 working, 1 done\
""")


def dialog(asked: PermissionAsked | QuestionAsked, agent: str = "main/fork-2", **more) -> str:
    drawn = draw_question(AskedView(AgentPath(agent), asked, 0.0), 64, **more)
    return text([*drawn.head, *drawn.body.window(0, 99), *drawn.foot])


def test_a_request_for_leave() -> None:
    """Badge, the exact command with what was hidden in it, the rule, and how many wait."""
    [asked] = view_of(story()).questions.values()
    drawn = draw_question(asked, 64, waiting=3)
    rows = [*drawn.head, *drawn.body.window(0, 99), *drawn.foot]
    assert text(rows) == snapshot("""\
──  fork-2  may it? rm -rf build ─────────────────────── 1 of 3
    rm -rf build· && echo x
  no rule allows it
  [y] once
  [s] for this session: Bash(rm:*)
  [n] no, and say why\
""")
    assert [row.key for row in drawn.foot] == ["y", "s", "n"]


def ask(title: str = "Edit a.py", preview: str = "", plan: str = "") -> PermissionAsked:
    return PermissionAsked(
        request_id=RequestId("q"),
        call_id=CallId("c"),
        tool="Edit",
        title=title,
        why="no rule allows it",
        preview=preview,
        plan=plan,
    )


def test_a_request_with_a_diff() -> None:
    """What would be changed is shown as a diff."""
    assert dialog(ask(preview=DIFF)) == snapshot("""\
──  fork-2  may it? Edit a.py ──────────────────────────────────
  src/retry.py
   ⋮ def retry(call):
  10       for attempt in range(tries):
  11 -         wait = 2 ** attempt
  11 +         wait = min(60, 2 ** attempt)
  12 +         log(wait)
  13           sleep(wait)
  14       return None
  no rule allows it
  [y] once
  [n] no, and say why\
""")


def test_a_plan() -> None:
    """A plan is drawn as Markdown, with the four ways to answer it."""
    assert dialog(ask(title="The plan", plan="# Plan\n\n1. look\n2. *mend*"), "main") == snapshot("""\
──  main  has a plan The plan ──────────────────────────────────
Plan

1. look
2. mend
  [y] approve
  [a] approve and accept edits
  [e] edit
  [n] no, and say what to change\
""")


def test_a_question_with_choices() -> None:
    """Options have numbers and boxes; the cursor and what is marked can be seen."""
    asked = QuestionAsked(
        request_id=RequestId("q"),
        questions=(
            Question("Which one?", "Way", (Choice("Fast", "may break"), Choice("Slow"))),
            Question("What else?", "More", (Choice("Tests"), Choice("Docs")), multiple=True),
        ),
    )
    picked = Picked((1, 0), frozenset({(0, 1), (1, 1)}))
    assert dialog(asked, "main", picked=picked) == snapshot("""\
──  main  asks  ────────────────────────────────────────────────
  Way
  Which one?
  1. ( ) Fast - may break
  2. (x) Slow

  More
  What else?
> 1. [ ] Tests
  2. [x] Docs
  numbers or arrows, space marks, enter answers, or type your o…\
""")


@pytest.mark.parametrize("width", [20, 40, 60, 80, 200])
def test_a_header_drops_whole_figures(width: int) -> None:
    """What does not fit is left out, the cost last; nothing is cut in two."""
    row = draw_header(view_of(story()), width, now=NOW)
    assert row.width <= width
    figures = ["$0.37", "saved $2.59", "cache 99%", "warm 3:14"]
    shown = [figure for figure in figures if figure in row.text]
    assert shown[:1] == figures[:1]
    assert row.text.endswith(shown[-1])
    assert sum("$" in word for word in row.text.split()) == 1 + ("saved" in row.text)


@pytest.mark.parametrize("width", [60, 72, 80, 200])
def test_a_header_keeps_the_mode(width: int) -> None:
    """What may happen unasked stays in sight when figures have to go."""
    view = msgspec.structs.replace(view_of(story()), mode="bypassPermissions")
    assert " · bypassPermissions" in draw_header(view, width, now=NOW).text
