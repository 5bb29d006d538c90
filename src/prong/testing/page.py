"""What the demos print: plain lines of at most 80 columns, and the tree of agents as it stands."""

from __future__ import annotations

import sys
import textwrap
import time
from collections.abc import Callable

import anyio

from prong.entry import Usage
from prong.event import Envelope, Event, ReplyFinished, TaskFinished, TaskStarted
from prong.session import Session

WIDTH = 80
_DOING = 40


def put(line: str = "") -> None:
    """Print a line, cut to the width of a plain terminal."""
    sys.stdout.write(_cut(" ".join(line.split("\n")), WIDTH) + "\n")
    sys.stdout.flush()


def wrap(text: str, indent: str = "") -> None:
    """Print a text over as many lines as it needs."""
    for line in textwrap.wrap(
        text,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent,
        break_on_hyphens=False,
        break_long_words=False,
    ):
        put(line)


def heading(text: str) -> None:
    """Begin a part."""
    put()
    put(f"== {text}")


class Story:
    """Tells events as lines, and keeps what each agent does and what it has counted so far."""

    def __init__(
        self, said: Callable[[Event], str | None], *, told: Callable[[str], bool] = lambda _: True
    ) -> None:
        """Say events by a function that gives None for noise; `told` chooses whose get a line."""
        self._said, self._told = said, told
        self._start = time.monotonic()
        self._doing: dict[str, str] = {}
        self._used: dict[str, Usage] = {}
        self._drawn: list[str] = []

    def tell(self, envelope: Envelope) -> None:
        """Take an event in."""
        agent, event = envelope.agent.rpartition("/")[2], envelope.event
        if isinstance(event, ReplyFinished):
            self._used[agent] = self._used.get(agent, Usage()) + event.usage
        said = self._said(event)
        if said is None or self._doing.get(agent) == said:
            return
        self._doing[agent] = said
        if self._told(agent):
            self._put(f"{agent:<9} {said}")

    def tree(self) -> None:
        """Draw the tree, unless it is as it was drawn last."""
        rows = [self._row(agent) for agent in self._doing]
        if rows == self._drawn:
            return
        self._drawn = rows
        self._put(f"{'the tree now':<{_DOING + 13}}{'reused':>8}{'computed':>9}")
        for row in rows:
            put(" " * 10 + row)

    def _row(self, agent: str) -> str:
        name = agent if agent == "main" else f"+- {agent}"
        used = self._used.get(agent, Usage())
        doing = _cut(self._doing[agent], _DOING)
        counted = f"{used.read:>8,}{used.input - used.read:>9,}" if used.input else ""
        return f"{name:<12} {doing:<{_DOING}}{counted}".rstrip()

    def _put(self, text: str) -> None:
        put(f"{time.monotonic() - self._start:6.1f} s  {text}")


async def watch(session: Session, story: Story, size: int, pace: float) -> None:
    """Tell events as they come, and draw the tree when it changes while so many forks work."""
    running: set[str] = set()
    async with anyio.create_task_group() as group:

        async def draw() -> None:
            while running:
                story.tree()
                await anyio.sleep(pace)

        async for envelope in session.events():
            story.tell(envelope)
            match envelope.event:
                case TaskStarted(task_id=task_id):
                    running.add(task_id)
                    if len(running) == size:
                        group.start_soon(draw)
                case TaskFinished(task_id=task_id) if task_id in running:
                    running.remove(task_id)
                    if not running:
                        story.tree()
                case _:
                    pass


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
