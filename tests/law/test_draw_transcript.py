"""A conversation seen through windows: the same rows from everywhere, and none drawn for nothing."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prong.entry import CallId, Usage
from prong.event import MAIN
from prong.face.draw import transcript as module
from prong.face.draw.height import Heights
from prong.face.draw.patch import diff_size, draw_diff
from prong.face.draw.row import Row, Span
from prong.face.draw.stack import Drawn, Plain, Stack
from prong.face.draw.toolcall import Company, draw_call
from prong.face.draw.transcript import Transcript, rows_of
from prong.view import (
    AgentView,
    Called,
    Item,
    Live,
    PartialReply,
    Replied,
    Restarted,
    Said,
    Series,
    TurnEnded,
    View,
)

pytestmark = pytest.mark.spec("X2")

TEXTS = st.text(st.sampled_from("ab \n\n*`-#漢\x1b"), max_size=200)
ITEMS: st.SearchStrategy[Item] = st.one_of(
    st.builds(Said, st.just(0.0), st.sampled_from(["user", "notice", "directive"]), TEXTS),
    st.builds(Replied, st.just(0.0), TEXTS, TEXTS, st.just("end"), st.just(Usage()), st.just(0.0)),
    st.builds(
        Called,
        st.just(0.0),
        st.uuids().map(lambda one: CallId(str(one))),
        st.just("Bash"),
        TEXTS,
        st.just('{"command": "a"}'),
        st.sampled_from(["done", "failed", "refused"]),
        TEXTS,
    ),
    st.builds(Restarted, st.just(0.0), st.just("clear"), TEXTS),
    st.builds(PartialReply, st.just(0.0), TEXTS),
    st.builds(TurnEnded, st.just(0.0), st.sampled_from(["done", "interrupted", "error"]), TEXTS),
)


def seen(items: Sequence[Item], live: Live | None = None) -> View:
    agent = AgentView(path=MAIN, kind="main", transcript=Series(items), live=live)
    return View(agents={"main": agent})


def drawn(view: View, width: int, unfolded: frozenset[int] = frozenset()) -> list[Row]:
    made = Transcript("main")
    made.show(view, width, now=0.0, unfolded=unfolded)
    return rows_of(made)


@given(
    st.lists(ITEMS, max_size=12),
    st.integers(5, 40),
    st.integers(1, 9),
    st.frozensets(st.integers(0, 12)),
    TEXTS,
)
def test_windows_are_parts_of_the_whole(
    items: list[Item], width: int, height: int, unfolded: frozenset[int], text: str
) -> None:
    """From wherever a reader scrolls, each window is a part of the same rows, at its own place."""
    view = seen(items, Live(text=text))
    whole = drawn(view, width, unfolded)
    assert all(row.width <= width for row in whole)
    made = Transcript("main")
    made.show(view, width, now=0.0, unfolded=unfolded)
    window = made.bottom(height)
    assert list(window.rows) == whole[-height:]
    while window.top > 0:
        above = made.window(window.top - 1, height)
        # The row that was on top is now the second: nothing jumps while a reader scrolls up.
        # At the very top a guess may have promised a row that is not there.
        assert above.rows[1:] == window.rows[:-1] or (above.rows, above.top) == (window.rows, 0)
        window = above
    assert made.total == len(whole)
    for top in range(len(whole)):
        part = made.window(top, height)
        assert list(part.rows) == whole[part.top : part.top + height]
        assert len(part.rows) == min(height, len(whole))


@given(st.lists(ITEMS, min_size=1, max_size=8), st.integers(10, 40), st.data())
def test_what_changes_is_drawn_anew(items: list[Item], width: int, data: st.DataObject) -> None:
    """After items came, changed or unfolded, the rows are those of a transcript made just now."""
    made = Transcript("main")
    series = Series(items[:1])
    unfolded = frozenset[int]()
    for item in items[1:]:
        if data.draw(st.booleans()):
            series = series.add(item)
        else:
            series = series.put(data.draw(st.integers(0, len(series) - 1)), item)
        if data.draw(st.booleans()):
            unfolded ^= {data.draw(st.integers(0, 9))}
        width = data.draw(st.sampled_from([width, width, 17]))
        view = View(agents={"main": AgentView(path=MAIN, transcript=series)})
        made.show(view, width, now=0.0, unfolded=unfolded)
        made.bottom(5)
        assert rows_of(made) == drawn(view, width, unfolded)


@given(st.lists(TEXTS, min_size=1, max_size=5), st.integers(5, 40))
def test_a_reply_stays_as_it_was_streamed(pieces: list[str], width: int) -> None:
    """When a reply is whole, its rows are those that were there while it was written."""
    made = Transcript("main")
    text = ""
    for piece in pieces:
        text += piece
        made.show(seen([Said(0.0, "user", "go")], Live(text=text)), width, now=0.0, unfolded=NONE)
        made.bottom(9)
    done = [Said(0.0, "user", "go"), Replied(0.0, text, "", "end", Usage(), 0.0)]
    made.show(seen(done), width, now=0.0, unfolded=NONE)
    assert rows_of(made) == drawn(seen(done), width)


NONE = frozenset[int]()


def test_only_what_is_seen_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a thousand replies those in the window are drawn, once each, and when shown again none."""
    count = 0
    draw_item = module.draw_item

    def counting(*given):
        nonlocal count
        count += 1
        return draw_item(*given)

    monkeypatch.setattr(module, "draw_item", counting)
    items = [Replied(0.0, f"reply {n}\n\nmore", "", "end", Usage(), 0.0) for n in range(1_000)]
    made = Transcript("main")
    view = seen(items)
    made.show(view, 80, now=0.0, unfolded=NONE)
    assert count == 0
    made.bottom(40)
    first = count
    assert 0 < first <= 14
    made.show(view, 80, now=1.0, unfolded=NONE)
    made.bottom(40)
    assert count == first
    assert made.item_at(made.total - 1) == 999
    assert made.item_at(made.row_of(500)) == 500
    assert made.item_at(made.total) is None


def test_rows_long_unseen_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """However far a reader scrolls, only so many rows are held, and they come back the same."""
    monkeypatch.setattr(module, "_HELD", 100)
    items = [Replied(0.0, f"reply {n}", "", "end", Usage(), 0.0) for n in range(300)]
    made = Transcript("main")
    made.show(seen(items), 80, now=0.0, unfolded=NONE)
    before = made.bottom(20)
    for top in range(0, made.total, 20):
        made.window(top, 20)
    assert made._held <= 100
    assert made.bottom(20).rows == before.rows


@given(st.lists(st.integers(0, 5), max_size=400), st.data())
def test_heights_add_up(heights: list[int], data: st.DataObject) -> None:
    """Each row belongs to the thing that lies there, after any change."""
    made = Heights(heights)
    for _ in range(3):
        index = data.draw(st.integers(0, len(heights)))
        height = data.draw(st.integers(0, 5))
        heights = [*heights[:index], height, *heights[index + 1 :]]
        made.put(index, height)
    assert made.total == sum(heights)
    owners = [(index, place) for index, size in enumerate(heights) for place in range(size)]
    assert [made.find(row) for row in range(made.total)] == owners
    assert made.find(made.total) == (len(heights), 0)
    assert [made.start(index) for index in range(len(heights))] == [
        sum(heights[:index]) for index in range(len(heights))
    ]


@given(st.lists(TEXTS, max_size=4), st.integers(4, 30), st.integers(0, 40), st.integers(0, 40))
def test_a_part_of_a_long_text(texts: list[str], width: int, start: int, size: int) -> None:
    """Rows that are drawn when wanted are the same as if all had been."""
    parts = [Plain(text, width, lead=Span("  ")) for text in texts]
    stack = Stack(*parts, Drawn([Row()]))
    whole = stack.window(0, len(stack))
    assert len(whole) == len(stack)
    assert stack.window(start, start + size) == whole[start : start + size]
    assert all(row.width <= width for row in whole)


def test_a_large_result_is_not_looked_at_until_unfolded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A folded call reads the beginning of its result; unfolded, a window draws its own rows."""
    made = list[str]()
    create = Span.__post_init__

    def noting(span: Span) -> None:
        made.append(span.text)
        create(span)

    monkeypatch.setattr(Span, "__post_init__", noting)
    call = Called(0.0, CallId("c"), "Bash", "cat big", "{}", "done", "0123456789\n" * 100_000)
    folded = draw_call(call, 80, Company(), unfolded=False)
    assert len(folded) == 1
    assert sum(map(len, made)) < 1_000
    made.clear()
    rows = draw_call(call, 80, Company(), unfolded=True)
    assert len(rows) == 100_001
    assert [row.text for row in rows.window(50_000, 50_003)] == ["  0123456789"] * 3
    assert sum(map(len, made)) < 1_000


def test_states_of_calls() -> None:
    """A call says how it went; one that runs for how long, and the last that it wrote."""
    call = Called(10.0, CallId("c"), "Bash", "make test", "{}", "failed", "error 2\nmore", "", 3.0)

    def line(one: Called, **company) -> str:
        return draw_call(one, 60, Company(**company), unfolded=False).window(0, 1)[0].text

    replace = msgspec.structs.replace
    assert line(call) == "✗ make test  failed  3 s  error 2 (+1 line)"
    assert line(replace(call, state="refused")) == "✗ make test  refused  3 s  error 2 (+1 line)"
    assert line(replace(call, state="done", text="")) == "▸ make test  3 s"
    running = replace(call, state="running", text="")
    assert line(running, now=75, output="one\ntwo\n") == "◐ make test  running  1:05  two"
    long = replace(call, title="x" * 99)
    assert "…  failed  3 s" in line(long)


@given(st.text(st.sampled_from("+- @ab\n1,\\"), max_size=120), st.integers(8, 40))
def test_any_text_can_be_drawn_as_a_diff(text: str, width: int) -> None:
    """What only looks like a diff is drawn too, and no row is too wide."""
    for source in (text, f"--- a\n+++ b\n@@ -1,3 +1,3 @@\n{text}"):
        rows = draw_diff(source, width)
        assert all(row.width <= width for row in rows)
        assert diff_size(source).startswith("+")


def test_a_diff_sets_off_the_words_that_changed() -> None:
    """Within a changed line only what differs is set off; a line that looks like a name is none."""
    diff = "--- a.sql\n+++ a.sql\n@@ -1,2 +1,2 @@\n--- old comment\n+-- new comment\n x"
    rows = draw_diff(diff, 40)
    assert [row.text for row in rows] == [
        "a.sql",
        "1 - -- old comment",
        "1 + -- new comment",
        "2   x",
    ]
    assert [(span.text, span.style) for span in rows[1].spans[1:]] == [
        ("- -- ", "diff.del"),
        ("old", "diff.del diff.word"),
        (" comment", "diff.del"),
    ]
    assert diff_size(diff) == "+1 -1"


def test_lines_that_are_not_alike_are_left_whole() -> None:
    """Of lines that have little in common no word is set off, also where some were added."""
    diff = "--- a\n+++ a\n@@ -1,2 +1,3 @@\n-wait = 2 ** n\n-x\n+wait = min(60, 2 ** n)\n+log(y)\n+z"
    found = {
        span.text: span.style
        for row in draw_diff(diff, 40)
        for span in row.spans
        if "word" in span.style
    }
    assert found == {" min(60,": "diff.add diff.word", ")": "diff.add diff.word"}
