"""Goes through a child's own conversation: for instructions put there for an agent, or as a text.

A child whose report is clean may still have been steered by a file or a page. So what its tools
gave it is looked at too, by the same rules. Most results hold no word that any rule needs: those
are passed over as bytes and never decoded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from prong.entry import Entry, Reply, Results, User, plain
from prong.prompt import Node, Prompt
from prong.team.handback import ORDERS, Finding, orders

_LOOKED_AT = 4_000_000
"""Bytes of a child's own conversation that are looked at, the latest first."""
_WRITTEN = 60_000
"""Characters of a transcript."""
_PIECE = 8_000
"""Characters of one piece in it."""
_REPEATED = 24
"""Letters that a passage needs in order to be known again."""

# Words of which everything that is looked for holds one.
_HINTS = (b"<", *(word.encode() for _, words in ORDERS for word in words))
# Escapes and foreign letters may stand for any of these words.
_ESCAPED = re.compile(rb"\\u|[\x80-\xff]")


def survey(prompt: Prompt, base: str, text: str) -> tuple[Finding, ...]:
    """Find instructions in what a child's tools gave it since its base, a digest or empty.

    The first that its report `text` repeats is named, in quotation marks or not; else the latest.
    """
    read: Finding | None = None
    said = ""
    for result in _results(prompt, base):
        for passage in orders(result):
            # Only now: most children have read nothing of the kind.
            said, letters = said or _letters(text), _letters(passage)
            if len(letters) >= _REPEATED and letters in said:
                what = "instructions that it read somewhere and repeats"
                return (Finding("echo", what, passage),)
            read = read or Finding("read", "instructions in what its tools gave it", passage)
    return () if read is None else (read,)


def transcript(prompt: Prompt, base: str) -> str:
    """Write down what a child read and said since its base, less its last reply.

    It is bounded: of a long piece the middle is left out, of a long conversation the beginning.
    """
    pieces: list[str] = []
    left = _WRITTEN
    for node in _own(prompt, base):
        if not pieces and node.kind == "reply" and node is prompt.tip:
            continue
        entry = prompt.head.dialect.read(node.role, node.data)
        piece = _written(entry)
        left -= len(piece)
        if left < 0:
            pieces.append("[what came before is left out]")
            break
        pieces.append(piece)
    return "\n\n".join(filter(None, reversed(pieces)))


def _written(entry: Entry | None) -> str:
    match entry:
        case Reply():
            calls = [f"{c.name} {_cut(c.arguments)}" for c in entry.calls]
            said = [f"It said: {_cut(entry.text)}"] if entry.text else []
            return "\n".join([*said, *(f"It called: {call}" for call in calls)])
        case Results():
            return "\n".join(f"It read: {_cut(plain(r.parts))}" for r in entry.results)
        case User():
            return f"It was told: {_cut(plain(entry.parts))}"
        case None:
            return ""


def _cut(text: str) -> str:
    if len(text) <= _PIECE:
        return text
    half = _PIECE // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[-half:]}"


def _results(prompt: Prompt, base: str) -> Iterator[str]:
    """Give the suspicious results of a conversation behind its base, the latest first."""
    left = _LOOKED_AT
    for node in _own(prompt, base):
        if node.kind != "results":
            continue
        left -= len(node.delta)
        if left < 0:
            return
        if not _ESCAPED.search(node.delta) and not _hinted(node.delta.lower()):
            continue
        entry = prompt.head.dialect.read(node.role, node.data)
        if isinstance(entry, Results):
            yield from (plain(result.parts) for result in entry.results)


def _hinted(data: bytes) -> bool:
    return any(word in data for word in _HINTS)


def _own(prompt: Prompt, base: str) -> Iterator[Node]:
    """Give a child's own nodes, the latest first; after a compaction all are its own."""
    node = prompt.tip
    while node is not None and node.digest.hex() != base:
        yield node
        node = node.parent


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text)).lower()
