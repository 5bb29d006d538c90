"""Conversations printed for good: into the terminal's own scrollback."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable

from prong.event import MAIN
from prong.face.draw.ansi import styled
from prong.face.draw.row import Row
from prong.face.draw.transcript import Transcript, rows_of
from prong.face.output import control
from prong.view import Item, Said, Series, View


def print_conversation(view: View, first: int = 0, *, now: float, last_turn: bool = False) -> None:
    """Print the main agent's conversation from an item on; of the last turn only, if so wanted."""
    items = view.main.transcript
    if last_turn:
        first = max(first, _last_message(items))
    columns = shutil.get_terminal_size().columns
    transcript = Transcript(MAIN)
    transcript.show(view, max(20, columns - 1), now=now, unfolded=frozenset())
    rows = rows_of(transcript)
    _print(rows[transcript.row_of(first) :])


def _last_message(items: Series[Item]) -> int:
    """Find the user's last message; behind the end if there is none."""
    places = range(len(items) - 1, -1, -1)
    return next((place for place in places if _of_user(items[place])), len(items))


def _of_user(item: Item) -> bool:
    return isinstance(item, Said) and item.kind == "user"


def _print(rows: Iterable[Row]) -> None:
    plain = bool(os.environ.get("NO_COLOR"))
    text = "".join(f"{row.text if plain else styled(row)}\n" for row in rows)
    control(text)
