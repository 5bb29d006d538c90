"""What stands within a line of Markdown: emphasis, code, links, pictures."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from prong.face.draw.row import Span

if TYPE_CHECKING:
    from markdown_it.token import Token

_STYLES = {"strong": "strong", "em": "em", "s": "struck"}
_URL = re.compile(r"https?://[^\s<>\"'`]*[^\s<>\"'`.,;:!?)\]}]")


def inline_lines(tokens: Sequence[Token], style: str = "") -> list[list[Span]]:
    """Turn the tokens of a line into spans; what was written on several lines stays so."""
    lines: list[list[Span]] = [[]]
    styles = [style] if style else []
    links: list[tuple[str, int, int]] = []
    for token in tokens:
        name = token.type.removesuffix("_open").removesuffix("_close")
        if token.type in {"softbreak", "hardbreak"}:
            lines.append([])
        elif token.type == "link_open":
            links.append((str(token.attrGet("href") or ""), len(lines) - 1, len(lines[-1])))
        elif token.type == "link_close" and links:
            _end_link(lines, *links.pop())
        elif name in _STYLES:
            styles = [*styles, _STYLES[name]] if token.nesting > 0 else styles[:-1]
        else:
            lines[-1] += _spans(token, " ".join(styles), linked=bool(links))
    return lines


def _spans(token: Token, style: str, *, linked: bool) -> list[Span]:
    match token.type:
        case "code_inline":
            return [Span(token.content, f"{style} code.inline".strip())]
        case "image":
            source = str(token.attrGet("src") or "")
            named = f"[image: {token.content}]" if token.content else "[image]"
            return [Span(named, "link"), *_address(source)]
        case _ if linked:
            return [Span(token.content, f"{style} link".strip())]
        case _:
            return _with_urls(token.content, style)


def _with_urls(text: str, style: str) -> list[Span]:
    """Find addresses in plain text."""
    if "://" not in text:
        return [Span(text, style)]
    spans: list[Span] = []
    place = 0
    for found in _URL.finditer(text):
        spans += [Span(text[place : found.start()], style), Span(found[0], "link", found[0])]
        place = found.end()
    return [*spans, Span(text[place:], style)]


def _end_link(lines: list[list[Span]], href: str, line: int, place: int) -> None:
    """Say where a link leads, unless its text does: the text alone may lie."""
    linked = [*lines[line][place:], *(span for later in lines[line + 1 :] for span in later)]
    text = "".join(span.text for span in linked)
    target = href if href.startswith(("http://", "https://", "mailto:")) else ""
    for number in range(line, len(lines)):
        start = place if number == line else 0
        lines[number][start:] = [
            Span(span.text, span.style, target) for span in lines[number][start:]
        ]
    if href.removeprefix("mailto:") != text:
        lines[-1] += _address(href)


def _address(href: str) -> list[Span]:
    if not href:
        return []
    linked = href if href.startswith(("http://", "https://")) else ""
    return [Span(" ("), Span(href, "link.address", linked), Span(")")]
