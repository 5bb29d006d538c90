from __future__ import annotations

import re

from prong.errors import BadInput

LONGEST = 64
_SHORT = 40
"""Characters that are taken of a text to make a name of it."""

_SHAPE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")


def check_slug(text: str) -> str:
    """Give a worktree's name back if it can be a folder's and a branch's too.

    Raises UsageError.
    """
    if why := _fault(text):
        raise BadInput(
            f"{text[:80]!r} cannot name a worktree: {why}; use 1 to {LONGEST} letters, digits, "
            "'.', '_' or '-', such as fix-parser"
        )
    return text


def _fault(text: str) -> str:
    if not text:
        return "it is empty"
    if len(text) > LONGEST:
        return f"it has {len(text)} characters"
    if ".." in text or text.startswith(".") or text.endswith("."):
        return "dots may only stand one by one between other characters"
    if text.startswith("-"):
        return "it begins with '-'"
    if not _SHAPE.fullmatch(text):
        return "it holds other characters"
    # Both are git's own: the first for its lock files, the second as a short form of HEAD.
    if text.lower().endswith(".lock") or text == "HEAD":
        return "git keeps that name for itself"
    return ""


def slug_from(text: str) -> str:
    """Make a worktree's name of any text: the text itself if it can be one."""
    if not _fault(text):
        return text
    plain = re.sub(r"[^A-Za-z0-9_]+", "-", text.lower()).strip("-")[:_SHORT].strip("-")
    return plain or "work"


def numbered(slug: str, number: int) -> str:
    """Give the name for the second, third, ... worktree of one slug, no longer than allowed."""
    if number == 1:
        return slug
    tail = f"-{number}"
    return slug[: LONGEST - len(tail)].rstrip(".") + tail
