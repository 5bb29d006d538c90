"""Runs the full screen on a session that somebody else has opened, and will close."""

from __future__ import annotations

import os
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from typing import cast, get_args

import anyio

from prong.face.draw.theme import ThemeName
from prong.face.full.app import Full
from prong.face.full.control import Control
from prong.face.full.driver import adapt_driver
from prong.face.full.press import know_alt_enter
from prong.face.handover import FaceStart, Handover, Left, Swapped
from prong.face.output import flat, tell
from prong.session import Session, Subscription
from prong.system.stop_signal import received, stop_signals

_WORDS, _FRAMES = 300, 5
"""Characters of an error and places in the program that are told of a failure."""
QUIET = 0.5
"""Seconds without a key after which a question takes one for its answer."""


async def run_full(
    session: Session,
    events: Subscription,
    start: FaceStart,
    *,
    taken_over: bool = False,
) -> Handover:
    """Talk on the full screen until the user leaves, or wants another session or face."""
    left: Handover | None = None
    typed = start.draft
    failure: BaseException | None = None
    async with anyio.create_task_group() as group:
        hands = Control(session, events, group, draft=start.draft, quiet=QUIET)
        if start.note:
            hands.tell([(start.note, "dim")])
        theme = chosen_theme(session.records.theme)
        app = Full(session, hands, theme, start.first, taken_over=taken_over)
        group.start_soon(_heed_signals, app)
        know_alt_enter()
        adapt_driver()
        try:
            with _measured():
                left = await app.run_async()
        finally:
            typed, failure = hands.line.editor.buffer, app.failure
            group.cancel_scope.cancel()
    if left is None:
        # The session has lost nothing and goes on.
        why = session.records.mask(short_trace(failure)) if failure is not None else ""
        tell(f"the full screen failed; going on line by line\n{why}".rstrip())
        return Swapped(typed)
    return left


def short_trace(error: BaseException) -> str:
    """Say what went wrong and where, without the values that were at hand: they may be secret."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    told = flat(f"{type(error).__name__}: {error}")[:_WORDS]
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    places = ["/".join(one.filename.split("/")[-3:]) for one in frames]
    where = [
        f"  {place}:{one.lineno} in {one.name}" for place, one in zip(places, frames, strict=True)
    ]
    return "\n".join([told, *where])


@contextmanager
def _measured() -> Generator[None]:
    """Let the terminal say how large it is: what a shell has exported goes stale with a resize."""
    stale = {name: os.environ.pop(name) for name in ("COLUMNS", "LINES") if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(stale)


async def _heed_signals(app: Full) -> None:
    """Leave when the terminal is gone or the system ends, so that all is stored."""
    with received(*stop_signals()) as signals:
        async for _ in signals:
            app.exit(Left(asked=False))


def chosen_theme(wanted: str) -> ThemeName:
    """Choose colours: what settings say, none where none are wanted, else the terminal's own."""
    if os.environ.get("NO_COLOR"):
        return "none"
    for name in get_args(ThemeName):
        if name == wanted:
            return name
    return "ansi"
