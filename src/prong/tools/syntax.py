"""The bash parser, and the doubts about what it says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from prong.tools.word import Muddled

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

_LIMIT = 100_000
_MANY = 2_000
_ODD = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f\x85\xa0\u1680\u2000-\u200f\u2028-\u202f\u205f\u3000\ufeff]"
)
_SPLICED = re.compile(r"(?<![\s\\])(?:\\\\)*\\\n(?!\s)")
_LONELY = re.compile(r"(?:^|\n)[ \t]*\\\n")
_CRASHING = re.compile(r"(?:\{[0-9.]*|-[A-Za-z]*|[$?])[^\x00-\xff]*[\U00010000-\U0010ffff]")
"""Where the parser looks a character up in a table of 256, and so reads far behind its end."""
_GAP = re.compile(r"(?:[ \t\n]|\\\n)*\Z")


@cache
def _parser() -> Parser:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def parse_text(text: str) -> Node:
    """Parse a command line.

    Raises:
        Muddled: the text is no valid bash, or bash may read it otherwise than the parser does.

    """
    _check_text(text)
    raw = text.encode()
    root = _parser().parse(raw).root_node
    _check_tree(root, raw)
    return root


def leaves(root: Node, *, whole: str = "") -> Iterator[Node]:
    """Yield the leaves in order; nodes of the kind `whole` are taken for leaves."""
    cursor = root.walk()
    while True:
        node = cursor.node
        assert node is not None
        if node.type == whole or not cursor.goto_first_child():
            yield node
            while not cursor.goto_next_sibling():
                if not cursor.goto_parent():
                    return


_TOGETHER = frozenset(
    [
        *["pipeline", "while_statement", "for_statement", "c_style_for_statement"],
        *["function_definition", "process_substitution", "&"],
    ]
)


def runs_together(root: Node) -> bool:
    """Whether parts of a line may run at the same time, more than once, or later."""
    cursor = root.walk()
    while True:
        node = cursor.node
        assert node is not None
        if node.type in _TOGETHER:
            return True
        if cursor.goto_first_child():
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return False


def _check_text(text: str) -> None:
    if len(text) > _LIMIT or any(p.search(text) for p in (_ODD, _SPLICED, _LONELY, _CRASHING)):
        raise Muddled
    if "<<" in text and text.count("$") > _MANY:
        # In a here-document each of them costs the parser as much as all before it.
        raise Muddled
    if any("\ud800" <= char <= "\udfff" for char in text):
        raise Muddled


def _check_tree(root: Node, raw: bytes) -> None:
    """Refuse a tree that leaves out text, or sees comments where bash sees words."""
    if root.has_error:
        raise Muddled
    at = root.start_byte if root.parent else 0
    for leaf in leaves(root, whole="heredoc_body"):
        gap = raw[at : leaf.start_byte]
        if gap and not _GAP.match(gap.decode(errors="replace")):
            raise Muddled
        for child in leaf.named_children:
            _check_tree(child, raw)
        if leaf.type == "comment":
            before = raw[max(0, leaf.start_byte - 2) : leaf.start_byte]
            if before[-1:] not in b" \t\n;&|()" or before == b"\\\n":
                raise Muddled
        at = max(at, leaf.end_byte)
    if not root.parent and not _GAP.match(raw[at:].decode(errors="replace")):
        raise Muddled


def check_apart(node: Node, start: int, end: int) -> None:
    """Refuse two words of one command that bash would join, or would take for two commands."""
    if start < 0:
        return
    gap = (node.text or b"")[start - node.start_byte : end - node.start_byte]
    gap = gap.replace(b"\\\n", b"")
    if not gap or b"\n" in gap:
        raise Muddled
