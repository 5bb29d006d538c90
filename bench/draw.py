"""Drawing a conversation: streamed Markdown beside rich's, long transcripts, large results."""

from __future__ import annotations

import io
import time
import tracemalloc
from collections.abc import Iterator

from measure import Row, at_least, ms, race, show, under

from prong.entry import CallId, Usage
from prong.event import MAIN
from prong.face.draw.markdown import Flow, draw_markdown
from prong.face.draw.toolcall import Company, draw_call
from prong.face.draw.transcript import Transcript
from prong.view import AgentView, Called, Item, Replied, Said, Series, View

PART = """\
## Step {0}

The scheduler retries *every* call, also those that **cannot** succeed; see `retry.py` and
[the notes](https://example.com/notes/{0}). Three things have to change:

- the limit of tries, which is read in two places
- the wait between them
  - at most a minute
- the log

```python
def retry(call, tries={0}):
    for attempt in range(tries):
        wait = min(60, 2 ** attempt)  # seconds
        log.info("waiting %s", wait)
```

| place | before | after |
|---|---|---|
| `retry.py` | 3 tries | {0} tries |
| `log.py` | none | each wait is written down with its cause |

"""
REPLY = "".join(PART.format(number) for number in range(12))
PIECES = 300
NONE = frozenset[int]()


def rows() -> Iterator[Row]:
    yield from markdown()
    yield from long_conversation()
    yield from large_result()


def markdown() -> Iterator[Row]:
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console(width=80, file=io.StringIO(), force_terminal=True)
    size = len(REPLY) // PIECES + 1
    texts = [REPLY[: size * number] for number in range(1, PIECES + 1)]

    def stream() -> None:
        flow = Flow(80)
        for text in texts:
            flow.show(text)

    def rich() -> None:
        console.render_lines(Markdown(REPLY))

    def rich_stream() -> None:
        for text in texts[:: PIECES // 20]:
            console.render_lines(Markdown(text))

    whole, streamed, theirs, their_stream = race(
        [lambda: draw_markdown(REPLY, 80), stream, rich, rich_stream], rounds=3
    )
    kilobytes = len(REPLY) / 1e3
    yield at_least(
        f"draw: a reply of {kilobytes:.0f} kB, beside rich's Markdown",
        theirs / whole,
        1,
        f"{ms(whole)}, rich {ms(theirs)}",
    )
    each, rich_each = streamed / PIECES, their_stream / 20
    yield at_least(
        "draw: a flush of the same reply, streamed in 300 pieces",
        rich_each / each,
        10,
        f"{ms(each)}, rich again from the beginning {ms(rich_each)}",
    )
    yield under("draw: worst flush of it", worst_flush(texts) * 1e3, 50, "bar of a frame", " ms")


def worst_flush(texts: list[str]) -> float:
    worst = [0.0] * len(texts)
    for turn in range(3):
        flow = Flow(80)
        for number, text in enumerate(texts):
            start = time.process_time()
            flow.show(text)
            took = time.process_time() - start
            worst[number] = took if not turn else min(worst[number], took)
    return max(worst)


def conversation(replies: int) -> View:
    items: list[Item] = []
    for number in range(replies):
        call_id = CallId(f"c{number}")
        items += [
            Said(0.0, "user", f"message {number}"),
            Called(0.0, call_id, "Read", "Read a.py", "{}", "done", "line\n" * 50, "", 1.0),
            Replied(0.0, PART.format(number) * 2, "some thought", "end", Usage(), 0.0),
        ]
    agent = AgentView(path=MAIN, kind="main", transcript=Series(items))
    return View(agents={"main": agent})


def long_conversation() -> Iterator[Row]:
    view = conversation(1_000)

    def focus() -> Transcript:
        made = Transcript("main")
        made.show(view, 80, now=0.0, unfolded=NONE)
        made.bottom(40)
        return made

    made = focus()
    total = made.total
    resized = iter(range(60, 1_000))

    def resize() -> None:
        made.show(view, 60 + next(resized) % 60, now=0.0, unfolded=NONE)
        made.bottom(40)

    tops = iter(range(total - 200, 0, -997))
    scrolled = focus()

    def jump() -> None:
        scrolled.window(next(tops), 40)

    focused, resizing, jumping = race([focus, resize, jump], rounds=12)
    yield under("draw: focus on an agent of 1,000 replies", focused * 1e3, 5, "best of 12", " ms")
    yield under("draw: resize of it", resizing * 1e3, 20, "best of 12", " ms")
    yield under("draw: a jump to anywhere in it", jumping * 1e3, 20, "best of 12", " ms")
    yield memory()


def memory() -> Row:
    """Scroll through everything, and count what drawing holds beside the conversation itself."""
    view = conversation(2_300)
    tracemalloc.start()
    made = Transcript("main")
    made.show(view, 80, now=0.0, unfolded=NONE)
    made.bottom(40)
    top = made.total
    while top > 0:
        top = made.window(max(0, top - 400), 400).top
    held = tracemalloc.get_traced_memory()[0] / 1e6
    tracemalloc.stop()
    assert made.total >= 100_000, made.total
    return under(f"draw: memory of {made.total:,} rows, all seen", held, 60, "drawing alone", " MB")


def large_result() -> Iterator[Row]:
    large = Called(0.0, CallId("c"), "Bash", "cat", "{}", "done", "a line of output\n" * 60_000)
    small = Called(0.0, CallId("c"), "Bash", "cat", "{}", "done", "a line of output\n" * 6)

    def folded(call: Called) -> None:
        for _ in range(100):
            draw_call(call, 80, Company(), unfolded=False)

    def unfolded() -> None:
        opened = draw_call(large, 80, Company(), unfolded=True)
        opened.window(30_000, 30_040)

    one, other, whole = race([lambda: folded(large), lambda: folded(small), unfolded], rounds=5)
    detail = f"{one * 1e4:.0f} us, of six lines {other * 1e4:.0f} us"
    yield under("draw: a folded result of 1 MB", one * 10, 1, detail, " ms")
    yield under("draw: the same unfolded, 40 rows of its middle", whole * 1e3, 50, "once", " ms")


if __name__ == "__main__":
    raise SystemExit(show(rows()))
