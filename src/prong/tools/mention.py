"""`@path` in texts that people write: found outside of code and of comments; pure."""

from __future__ import annotations

import re

_FENCE = r" {0,3}(`{3,}|~{3,})"
_SPAN = r"(`+)(?!`).*?(?<!`)\1(?!`)"
_MENTION = r"(?:^|(?<=\s))@((?:\\ |[^\s@])+)"
_COMMENT = rf"{_SPAN}|<!--.*?-->|(?P<open><!--.*)"
_TRAIL = ".,;:!?)'\""


class _FenceScan:
    """Goes through the lines of a Markdown text, and knows which of them are code."""

    def __init__(self) -> None:
        self._fence = ""

    def is_code(self, line: str) -> bool:
        match = re.match(_FENCE, line)
        # Backticks again on the line make it a code span, not a fence.
        if match and (match[1][0] == "~" or "`" not in line[match.end() :]):
            if not self._fence:
                self._fence = match[1]
            elif match[1].startswith(self._fence) and not line.strip(" `~"):
                self._fence = ""
            return True
        return bool(self._fence)


def find_mentions(text: str) -> list[tuple[int, str]]:
    r"""Find `@path` outside of code, with the line it stands on; `\ ` is a blank in a path."""
    scan = _FenceScan()
    found: list[tuple[int, str]] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not scan.is_code(line):
            bare = re.sub(_SPAN, " ", line)
            found += [(number, match[1].rstrip(_TRAIL)) for match in re.finditer(_MENTION, bare)]
    return [(number, name.replace("\\ ", " ")) for number, name in found if name]


def blank_comments(text: str) -> str:
    """Take HTML comments out of Markdown and leave the lines; those in code are part of it.

    One that is not closed is no comment: nobody meant to hide the rest.
    """
    if "<!--" not in text:
        return text
    lines = text.split("\n")
    last = max((number for number, line in enumerate(lines) if "-->" in line), default=-1)
    scan = _CommentScan()
    return "\n".join(scan.bare(line, closes=number < last) for number, line in enumerate(lines))


class _CommentScan:
    """Goes through the lines of a Markdown text, and takes comments out."""

    def __init__(self) -> None:
        self._fences = _FenceScan()
        self._inside = False
        self._closes = False

    def bare(self, line: str, *, closes: bool) -> str:
        """Give what is left of a line; `closes`, whether a comment may end further down."""
        self._closes = closes
        if self._inside:
            _, end, line = line.partition("-->")
            if not end:
                return ""
            self._inside = False
        return line if self._fences.is_code(line) else re.sub(_COMMENT, self._replace, line)

    def _replace(self, match: re.Match[str]) -> str:
        if match["open"] is not None:
            self._inside = self._closes
            return "" if self._inside else match[0]
        return "" if match[0].startswith("<!--") else match[0]
