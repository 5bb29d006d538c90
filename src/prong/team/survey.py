"""Looks through what a child has read, for instructions that somebody put there for an agent.

A child whose report is clean may still have been steered by a file or a page. So what its tools
gave it is looked at too, by the same rules. Most results hold no word that any rule needs: those
are passed over as bytes and never decoded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from prong.entry import Results, plain
from prong.prompt import Node, Prompt
from prong.team.handback import ORDERS, Finding, orders

_LOOKED_AT = 4_000_000
"""Bytes of a child's own conversation that are looked at, the latest first."""
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
