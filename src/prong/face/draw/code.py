"""Code as lines of spans, coloured by its language."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from prong.face.draw.row import Span, split_lines

if TYPE_CHECKING:
    from pygments.lexer import Lexer

COLOURED = 10_000
"""Characters; more than this is shown without colours, since lexers can be slow."""

_STYLES = {
    "Comment": "code.comment",
    "Keyword": "code.keyword",
    "Operator.Word": "code.keyword",
    "Literal.String": "code.string",
    "Literal.Number": "code.number",
    "Name.Function": "code.name",
    "Name.Class": "code.name",
    "Name.Decorator": "code.name",
    "Name.Tag": "code.keyword",
    "Name.Attribute": "code.name",
    "Name.Builtin": "code.builtin",
    "Generic.Inserted": "diff.add",
    "Generic.Deleted": "diff.del",
    "Generic.Heading": "code.comment",
    "Generic.Subheading": "code.comment",
}


def highlight(text: str, language: str) -> list[tuple[Span, ...]]:
    """Cut code into lines of spans; a language that nobody knows gives no colours."""
    lexer = _lexer(language) if language and len(text) <= COLOURED else None
    lines = split_lines(text)
    if lexer is None:
        return [(Span(line, "code"),) for line in lines]
    found: list[list[Span]] = [[]]
    for kind, value in lexer.get_tokens("\n".join(lines)):
        style = _style(str(kind))
        first, *others = value.split("\n")
        if first:
            found[-1].append(Span(first, style))
        found += [[Span(other, style)] if other else [] for other in others]
    if len(found) == len(lines) + 1 and not found[-1]:
        found.pop()
    # A lexer that loses or adds a character must not change what the reader sees.
    read = ["".join(span.text for span in line) for line in found]
    if read != [Span(line).text for line in lines]:
        return [(Span(line, "code"),) for line in lines]
    return [tuple(line) for line in found]


def known(language: str) -> bool:
    """Whether a name is that of a language, and no more."""
    return _lexer(language) is not None


@lru_cache(64)
def _lexer(language: str) -> Lexer | None:
    from pygments.lexers import find_lexer_class_by_name
    from pygments.util import ClassNotFound

    try:
        made = find_lexer_class_by_name(language)
    except ClassNotFound:
        return None
    return made(stripnl=False, ensurenl=False)


@lru_cache(256)
def _style(kind: str) -> str:
    name = kind.removeprefix("Token.")
    while name:
        if name in _STYLES:
            return _STYLES[name]
        name = name.rpartition(".")[0]
    return "code"
