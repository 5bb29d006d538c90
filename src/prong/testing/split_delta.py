"""The pieces of a streamed reply in their normal form, with values that the stream has cut in two.

A model writes `/tmp/project/a.py` in pieces, `"/tmp/pro"` and then `"ject/a.py"`. No search finds
the folder in either. Here all of it goes to the piece in which it begins; events and pieces keep
their number and their order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise

import msgspec

from prong.provider.secret import HIDDEN
from prong.testing.placeholder import CLOSE, OPEN, pattern_of

_STRING = re.compile(
    rb'"(text|partial_json|thinking|delta|content|arguments|reasoning_content|refusal)"'
    rb':"((?:[^"\\]|\\.)+)"'
)
_INDEX = re.compile(rb'"(?:index|output_index|content_index|item_id)":("[^"]*"|\d+)')


class _DeltaString(msgspec.Struct, frozen=True):
    """A string of one event that goes on in the next."""

    line: int
    start: int
    text: bytes


def normal_pieces(
    pieces: Sequence[bytes], names: Mapping[str, str], secrets: Sequence[str] = ()
) -> tuple[bytes, ...]:
    """Put names in the place of values, and nothing readable in that of secrets.

    A stream may have cut either anywhere.
    """
    if not names and not secrets:
        return tuple(pieces)
    values = sorted(names, key=lambda value: (-len(value), value))
    wanted = (*map(re.escape, secrets), *map(pattern_of, values))
    either = re.compile("|".join(wanted).encode())
    named = {value.encode(): f"{OPEN}{name}{CLOSE}".encode() for value, name in names.items()}
    named |= {value.encode(): HIDDEN.encode() for value in secrets}

    def put(text: bytes) -> bytes:
        return either.sub(lambda found: named[found[0]], text)

    before = b"".join(pieces).split(b"\n")
    after = list(map(put, before))
    for run in _runs(before):
        for piece, text in zip(run, _moved(run, either, named), strict=True):
            line, end = before[piece.line], piece.start + len(piece.text)
            after[piece.line] = put(line[: piece.start]) + text + put(line[end:])
    return _cut(after, before, list(accumulate(map(len, pieces))))


def filled_pieces(pieces: Sequence[bytes], names: Mapping[str, str]) -> tuple[bytes, ...]:
    """Put values in the place of their names."""
    before = b"".join(pieces).split(b"\n")
    after = list(before)
    for value, name in names.items():
        stands, said = f"{OPEN}{name}{CLOSE}".encode(), value.encode()
        after = [line.replace(stands, said) for line in after]
    return _cut(after, before, list(accumulate(map(len, pieces))))


def _runs(lines: list[bytes]) -> list[list[_DeltaString]]:
    """Find the strings that go on from event to event, by what they belong to."""
    runs: dict[tuple[bytes, ...], list[_DeltaString]] = {}
    for number, line in enumerate(lines):
        found = list(_STRING.finditer(line)) if line.startswith(b"data:") else []
        if len(found) == 1:
            key = (found[0][1], *_INDEX.findall(line))
            runs.setdefault(key, []).append(_DeltaString(number, found[0].start(2), found[0][2]))
    return [run for run in runs.values() if len(run) > 1]


def _moved(
    run: list[_DeltaString], either: re.Pattern[bytes], named: Mapping[bytes, bytes]
) -> list[bytes]:
    """Give each string anew: a value is named where it begins, and gone from where it goes on."""
    joined = b"".join(piece.text for piece in run)
    parts: list[bytes] = []
    at = start = 0
    found = list(either.finditer(joined))
    for piece in run:
        end = start + len(piece.text)
        made = b""
        for one in found:
            if start <= one.start() < end:
                made += joined[at : one.start()] + named[one[0]]
                at = one.end()
        parts.append(made + joined[at:end])
        at = max(at, end)
        start = end
    return parts


def _cut(after: list[bytes], before: list[bytes], ends: list[int]) -> tuple[bytes, ...]:
    """Cut the new lines into pieces where the old ones were cut."""
    joined = b"\n".join(after)
    old = [0, *accumulate(len(line) + 1 for line in before)]
    new = [0, *accumulate(len(line) + 1 for line in after)]
    edges = [0]
    for end in ends:
        line = next(at for at in reversed(range(len(before))) if old[at] <= end)
        column = end - old[line]
        is_end = column >= len(before[line])
        edges.append(new[line] + (len(after[line]) if is_end else min(column, len(after[line]))))
    return tuple(joined[start:end] for start, end in pairwise(edges))
