from __future__ import annotations

from collections.abc import Iterator, Sequence

CONTEXT = 3
LARGEST = 2000
"""Changed lines up to which a diff is worked out; comparing takes the square of it."""


def unified(path: str, old: str, new: str) -> str:
    """Compare two texts line by line, for people."""
    if old == new:
        return ""
    a, b = old.splitlines(), new.splitlines()
    start = _alike(a, b)
    end = min(_alike(a[::-1], b[::-1]), len(a) - start, len(b) - start)
    head = [f"--- {path}", f"+++ {path}"]
    if len(a) - start - end > LARGEST or len(b) - start - end > LARGEST:
        return "\n".join([*head, f"@@ {len(a)} lines before, {len(b)} lines after @@"])
    # Only what lies between the common beginning and end is compared, with a little around it.
    first = max(start - CONTEXT, 0)
    tail = max(end - CONTEXT, 0)
    hunks = _hunks(a[first : len(a) - tail], b[first : len(b) - tail], first)
    return "\n".join([*head, *hunks])


def _alike(a: Sequence[str], b: Sequence[str]) -> int:
    return next(
        (i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b))
    )


def _hunks(a: list[str], b: list[str], shift: int) -> Iterator[str]:
    from difflib import SequenceMatcher

    for group in SequenceMatcher(None, a, b, autojunk=False).get_grouped_opcodes(CONTEXT):
        (_, a1, _, b1, _), (_, _, a2, _, b2) = group[0], group[-1]
        yield f"@@ -{_span(a1, a2, shift)} +{_span(b1, b2, shift)} @@"
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                yield from (f" {line}" for line in a[i1:i2])
                continue
            yield from (f"-{line}" for line in a[i1:i2])
            yield from (f"+{line}" for line in b[j1:j2])


def _span(start: int, end: int, shift: int) -> str:
    length = end - start
    # By convention an empty range names the line before it.
    line = start + shift + (1 if length else 0)
    return f"{line}" if length == 1 else f"{line},{length}"
