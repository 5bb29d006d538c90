"""One item of a transcript as rows, and a guess of how many they will be."""

from __future__ import annotations

import re
from typing import assert_never

import msgspec

from prong.entry import EntryKind
from prong.face.draw.markdown import draw_markdown
from prong.face.draw.phrase import dollars
from prong.face.draw.row import EMPTY, Row, Span, fit, split_lines, wrap
from prong.face.draw.stack import Drawn, RowSource, Stack
from prong.face.draw.toolcall import Company, draw_call
from prong.face.line import BROKEN_OFF, counted, describe_end
from prong.view import (
    Accounted,
    Called,
    Figures,
    Item,
    PartialReply,
    Replied,
    Restarted,
    Said,
    TurnEnded,
)

_INDENT = Span("  ")
_SUMMARY = re.compile(r"^<summary>(.*?)</summary>$", re.DOTALL | re.MULTILINE)
_MAIL = re.compile(r'^<teammate-message from="([^"]*)"[^>\n]*>\n(.*)$', re.MULTILINE)
_LOOKED_AT = 20_000
"""Characters of a notice that are looked through for what it is about."""
_LONG = 12
"""Lines of a message that are shown before it is unfolded."""
_TASK = 3
"""Lines at the end of a long directive, where it says what is to be done."""
_NAMES: dict[EntryKind, str] = {
    "notice": "notice",
    "summary": "summary of what was before",
    "reminder": "reminder",
    "results": "results",
}


class Setting(msgspec.Struct, frozen=True):
    """What an item is drawn with."""

    width: int
    first: bool = False
    """Whether nothing stands above it."""
    unfolded: bool = False
    company: Company = Company()


def draw_item(item: Item, setting: Setting) -> RowSource:
    """Draw an item."""
    match item:
        case Called():
            return draw_call(item, setting.width, setting.company, unfolded=setting.unfolded)
        case Replied():
            return draw_reply(item, setting, draw_markdown(item.text, setting.width))
        case Said():
            rows = _said(item, setting)
        case Accounted():
            return Drawn(_accounted(item, setting))
        case PartialReply():
            rows = [*draw_markdown(item.text, setting.width), _broken_off(setting.width)]
        case TurnEnded():
            style = "dim" if item.why == "done" else "bad"
            rows = wrap([Span(describe_end(item.why, item.detail), style)], setting.width)
        case Restarted():
            told = f"new prompt, {item.reason}: {item.detail}"
            rows = wrap([Span(told, "dim")], setting.width, first=[Span("── ", "dim")])
        case _:
            assert_never(item)
    return Drawn([EMPTY, *rows] if rows and not setting.first else rows)


def is_foldable(item: Item) -> bool:
    """Whether there is more of an item than is shown at first."""
    match item:
        case Called() | Accounted():
            return True
        case Replied(thinking=thinking):
            return bool(thinking)
        case Said(kind="user" | "directive", text=text):
            return len(split_lines(text.rstrip("\n"))) > _LONG
        case Said(kind=kind):
            return kind in _NAMES
        case PartialReply() | Restarted() | TurnEnded():
            return False


def guess_height(item: Item, width: int, *, unfolded: bool = False) -> int:
    """Guess how many rows an item takes, without drawing it."""
    # Thousands of them are guessed at once.
    if isinstance(item, Called):
        return _lines(item.shown or item.text, width) + 1 if unfolded else 1
    if isinstance(item, (Replied, Said, PartialReply)):
        return _lines(item.text, width) if item.text else 1
    return 1 if isinstance(item, Accounted) else 2


def _lines(text: str, width: int) -> int:
    return text.count("\n") + 2 + len(text) // width


def draw_reply(item: Replied, setting: Setting, body: list[Row]) -> RowSource:
    """Draw a reply whose text has been drawn already."""
    head = draw_thinking(item.thinking, setting) if item.thinking else []
    above = [EMPTY] if (head or body) and not setting.first else []
    cut = "(cut off at the output limit)" if item.stop == "length" else ""
    below = [fit([Span(cut, "bad")], setting.width)] if cut else []
    return Stack(Drawn([*above, *head]), Drawn(body), Drawn(below))


def draw_thinking(text: str, setting: Setting) -> list[Row]:
    """Draw what a model thought: how much it was, and unfolded all of it."""
    if not setting.unfolded:
        told = f"▸ thought, {counted(len(text.split()), 'word')}"
        return [fit([Span(told, "thinking")], setting.width)]
    rows = [fit([Span("▾ thought", "thinking")], setting.width)]
    for line in split_lines(text.strip()):
        rows += wrap([Span(line, "thinking")], setting.width, first=[_INDENT], rest=[_INDENT])
    return rows


def _broken_off(width: int) -> Row:
    return fit([Span(BROKEN_OFF, "dim")], width)


def _said(item: Said, setting: Setting) -> list[Row]:
    match item.kind:
        case "reply":
            return draw_markdown(item.text, setting.width)
        case "user" | "directive":
            mark = Span("> " if item.kind == "user" else "» ", "user")
            return _message(item.text, mark, setting, ends=item.kind == "directive")
        case _:
            return _folded(_NAMES[item.kind], item.text, setting)


def _message(text: str, mark: Span, setting: Setting, *, ends: bool) -> list[Row]:
    """Draw a message; of a long one, until it is unfolded, what it `ends` with or both ends."""
    lines = _trimmed(split_lines(text.rstrip("\n")))
    whole = setting.unfolded or len(lines) <= _LONG
    # What is asked about something that was pasted stands most often below it.
    above, below = (lines, []) if whole else ([], lines[-_TASK:])
    if not whole and not ends:
        above, below = lines[: _LONG - 2], lines[-1:]
    below = _trimmed(below)
    hidden = len(lines) - len(above) - len(below)
    told = f"  ▸ {counted(hidden, 'more line' if above else 'earlier line')}"
    rows: list[Row] = []
    for line in above:
        rows += wrap([Span(line, "user")], setting.width, first=[mark], rest=[_INDENT])
        mark = _INDENT
    if hidden:
        rows.append(fit([Span(told, "dim")], setting.width, lead=2))
    for line in below:
        rows += wrap([Span(line, "user")], setting.width, first=[mark], rest=[_INDENT])
        mark = _INDENT
    return rows


def _trimmed(lines: list[str]) -> list[str]:
    """Leave out empty lines at the beginning."""
    while len(lines) > 1 and not lines[0].strip():
        lines = lines[1:]
    return lines


def _folded(name: str, text: str, setting: Setting) -> list[Row]:
    if not setting.unfolded:
        return [fit([Span(f"▸ {name}: {_gist(text)}", "dim")], setting.width, lead=2)]
    rows = [fit([Span(f"▾ {name}", "dim")], setting.width, lead=2)]
    for line in split_lines(text):
        rows += wrap([Span(line, "dim")], setting.width, first=[_INDENT], rest=[_INDENT])
    return rows


def _gist(text: str) -> str:
    """Say what a text for the model is about: its summaries and messages, or its first line."""
    found = _SUMMARY.findall(text[:_LOOKED_AT])
    found += [f"{sender}: {said}" for sender, said in _MAIL.findall(text[:_LOOKED_AT])]
    if found:
        return "; ".join(" ".join(one.split()) for one in found)
    return next((line.strip() for line in split_lines(text[:400]) if line.strip()), "")


def _accounted(item: Accounted, setting: Setting) -> list[Row]:
    """Say what a fan-out shared, paid and saved."""
    paid = [receipt.paid for receipt in item.receipts]
    missed = sum(bool(one.miss) for one in paid)
    glyph = "▾" if setting.unfolded else "▸"
    size = max(len(paid), *(one.siblings for one in paid))
    of = f"fan-out of {size}" if size > 1 else paid[0].task_id or "agent"
    of += f", {len(paid)} ended" if len(paid) < size else ""
    told = Span(f", {missed} missed !" if missed else "", "bad")
    spans = [Span(f"{glyph} ", "bad" if missed else "good"), Span(of), told, Span(_sums(paid))]
    rows = [fit(spans, setting.width, lead=2)]
    if not setting.unfolded:
        return rows
    for receipt in item.receipts:
        lead = Span("  · ", "dim")
        rows += wrap([Span(receipt.text)], setting.width, first=[lead], rest=[Span("    ")])
        if receipt.paid.miss:
            told = [Span(f"! {receipt.paid.miss}", "bad")]
            rows += wrap(told, setting.width, first=[Span("    ")], rest=[Span("      ")])
    return rows


def _sums(paid: list[Figures]) -> str:
    shared = max((one.bytes_shared for one in paid), default=0)
    parts = [f"shared {shared:,} B{' each' if len(paid) > 1 else ''}"] if shared else []
    cost, uncached = _sum([one.cost for one in paid]), _sum([one.uncached for one in paid])
    parts.append(f"paid {dollars(cost)}")
    if cost is not None and uncached:
        saved = uncached - cost
        parts.append(f"saved {dollars(saved)} ({saved / uncached:.0%})")
    return f": {', '.join(parts)}"


def _sum(amounts: list[float | None]) -> float | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if len(known) == len(amounts) else None
