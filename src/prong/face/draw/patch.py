"""Unified diffs: file names, line numbers, and within a changed line the words that changed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from prong.face.draw.row import Row, Span, chop, crop_left, fit, split_lines

_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@(.*)")
_WORD = re.compile(r"\w+|\s+|.")
_PAIRS = 200
"""Pairs of lines that are compared word by word."""
_LONGEST = 400
"""Characters of a line up to which it is."""
_ALIKE = 0.4
_NO_LEAD = Span("")
_STYLES = {"+": "diff.add", "-": "diff.del", " ": "diff.same"}


class Changed(msgspec.Struct, frozen=True):
    """One line of a diff."""

    sign: str
    number: int
    text: str


def is_diff(text: str) -> bool:
    """Whether a text is a unified diff."""
    return text.startswith("--- ") and "\n+++ " in text[:4_000]


def diff_size(text: str) -> str:
    """Say how many lines a diff adds and takes away."""
    signs = [piece.sign for piece in _read(split_lines(text)) if isinstance(piece, Changed)]
    return f"+{signs.count('+')} -{signs.count('-')}"


def draw_diff(text: str, width: int, *, lead: Span = _NO_LEAD) -> list[Row]:
    """Draw a diff; lines that are no part of one are shown as they are."""
    lines = split_lines(text)
    digits = len(str(max([1, *_numbers(lines)])))
    rows: list[Row] = []
    block: list[Changed] = []
    pairs = _PAIRS
    for piece in _read(lines):
        if isinstance(piece, Changed) and piece.sign != " ":
            block.append(piece)
            continue
        pairs -= len(block)
        rows += _changes(block, width, digits, lead, worded=pairs > 0)
        block = []
        if isinstance(piece, Changed):
            rows += _line(piece, [Span(piece.text, "diff.same")], width, digits, lead)
        elif piece.startswith("@"):
            rows.append(fit([lead, Span(f"{'⋮':>{digits}}{piece[1:]}", "dim")], width))
        else:
            rows.append(fit([lead, Span(crop_left(piece[1:], width - 2), "diff.file")], width))
    return rows + _changes(block, width, digits, lead, worded=pairs > 0)


def _numbers(lines: Sequence[str]) -> Iterator[int]:
    for line in lines:
        if found := _HUNK.match(line):
            yield max(int(found[1]), int(found[3])) + len(lines)


class _Hunk:
    """Counts the lines of a hunk, so that one that looks like a file's name is not taken for it."""

    def __init__(self, found: re.Match[str]) -> None:
        self.old, self.new = max(1, int(found[1])), max(1, int(found[3]))
        self._old, self._new = int(found[2] or 1), int(found[4] or 1)

    def take(self, line: str) -> Changed | None:
        """Read a line of it; None if it is none, or the hunk is over."""
        sign = line[:1] or " "
        if sign not in _STYLES or (self._old <= 0 and self._new <= 0):
            return None
        number = self.old if sign == "-" else self.new
        if sign != "+":
            self.old, self._old = self.old + 1, self._old - 1
        if sign != "-":
            self.new, self._new = self.new + 1, self._new - 1
        return Changed(sign, number, line[1:])


def _read(lines: Sequence[str]) -> Iterator[Changed | str]:
    """Read lines; a name begins with a slash, a gap or a remark with an at sign."""
    hunk: _Hunk | None = None
    before = ""
    for line in lines:
        changed = hunk.take(line) if hunk is not None else None
        if changed is not None:
            yield changed
        elif line.startswith("--- "):
            before = line
        elif before and line.startswith("+++ "):
            yield f"/{_name(before, line)}"
            before, hunk = "", None
        elif found := _HUNK.match(line):
            if hunk is not None or found[5].strip():
                yield f"@{found[5].rstrip()}"
            hunk = _Hunk(found)
        else:
            yield f"@ {line}"


def _name(before: str, after: str) -> str:
    old, new = before[4:].split("\t", maxsplit=1)[0], after[4:].split("\t", maxsplit=1)[0]
    if new == "/dev/null":
        return f"{old} (deleted)"
    return new if old in {new, "/dev/null"} or old[2:] == new[2:] else f"{old} → {new}"


def _changes(
    block: Sequence[Changed], width: int, digits: int, lead: Span, *, worded: bool
) -> list[Row]:
    """Draw lines that were taken away, then those that came in their place."""
    gone = [line for line in block if line.sign == "-"]
    came = [line for line in block if line.sign == "+"]
    words: dict[int, list[Span]] = {}
    if worded:
        # Where lines were added or dropped too, the first of both sides are held together: those
        # that are not alike are left as they are.
        for one, other in zip(gone, came, strict=False):
            words[id(one)], words[id(other)] = _compared(one.text, other.text)
    rows: list[Row] = []
    for line in block:
        spans = words.get(id(line)) or [Span(line.text, _STYLES[line.sign])]
        rows += _line(line, spans, width, digits, lead)
    return rows


def _line(line: Changed, spans: Sequence[Span], width: int, digits: int, lead: Span) -> list[Row]:
    number = Span(f"{line.number:>{digits}} ", "dim")
    sign = Span(f"{line.sign} ", _STYLES[line.sign])
    below = Span(" " * (digits + 3), "dim")
    return chop(spans, width, first=[lead, number, sign], rest=[lead, below])


def _compared(old: str, new: str) -> tuple[list[Span], list[Span]]:
    """Set off the words in which two lines differ, if most of them are the same."""
    plain = [Span(old, "diff.del")], [Span(new, "diff.add")]
    if max(len(old), len(new)) > _LONGEST or old.strip() == "" or new.strip() == "":
        return plain
    from difflib import SequenceMatcher

    a, b = _WORD.findall(old), _WORD.findall(new)
    matcher = SequenceMatcher(None, a, b, autojunk=False)
    if matcher.real_quick_ratio() < _ALIKE or matcher.ratio() < _ALIKE:
        return plain
    gone: list[Span] = []
    came: list[Span] = []
    for kind, from_a, to_a, from_b, to_b in matcher.get_opcodes():
        more = "" if kind == "equal" else " diff.word"
        gone.append(Span("".join(a[from_a:to_a]), f"diff.del{more}"))
        came.append(Span("".join(b[from_b:to_b]), f"diff.add{more}"))
    return gone, came
