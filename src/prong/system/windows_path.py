"""Which paths of Windows can be judged by their text, and what they look like to the rest of Prong.

Everywhere in Prong a path is a text with slashes, on Windows as well: `C:/work/a.txt`. One file of
Windows can be named in many ways that compare as different texts. Whatever is not the plain way, or
stands for something else than a file, is refused and not read any further: a rule that was written
for the plain name would not see it. All of this is text only, and can be tried on any system.
"""

from __future__ import annotations

import re

_DRIVE = re.compile(r"[A-Za-z]:")
_BASH_DRIVE = re.compile(r"\A/([A-Za-z])(?=/|\Z)")
_DEVICES = re.compile(
    r"(?:con|prn|aux|nul|conin\$|conout\$|clock\$|(?:com|lpt)[0-9\u00b9\u00b2\u00b3])(?:[ .:].*)?",
    re.IGNORECASE | re.DOTALL,
)
_SHORT = re.compile(r"~[0-9]")
_IMPOSSIBLE = re.compile(r'[<>"|?*\x00-\x1f]')


def with_slashes(path: str) -> str:
    """Give a path as the rest of Prong has it; bash's own way to name a drive is understood."""
    path = path.replace("\\", "/")
    found = _BASH_DRIVE.match(path)
    return f"{found[1].upper()}:{path[2:] or '/'}" if found else path


def has_root(path: str) -> bool:
    """Whether a path is absolute: it names its drive, and begins at its top."""
    return _DRIVE.match(path) is not None and path[2:3] in {"/", "\\"}


def why_unclear(path: str) -> str:
    """Say why a path cannot be judged by its text; empty if it can. It may be relative."""
    path = with_slashes(path)
    if path.startswith("//"):
        return "it names another machine or a device, and not a file of a drive"
    if path.startswith("/"):
        return "it names no drive"
    rest = path
    if _DRIVE.match(path):
        if not has_root(path):
            return "it is relative to wherever its drive stands"
        rest = path[3:]
    return next((why for part in rest.split("/") if (why := _why_unclear_part(part))), "")


def is_unclear_word(text: str) -> bool:
    """Whether a shell and the programs it starts may take a word for different paths."""
    return bool({":", "\\"} & set(text)) or text.startswith("/") or why_unclear(text) != ""


def _why_unclear_part(part: str) -> str:
    if part in {"", ".", ".."}:
        return ""
    if ":" in part:
        return "a colon names a stream beside a file"
    if part[-1] in ". ":
        return "Windows drops dots and blanks at the end of a name"
    if _DEVICES.fullmatch(part.lstrip(" ")):
        return f"{part} is a device"
    if _SHORT.search(part):
        return "~ and a digit may be the short form of another name"
    if _IMPOSSIBLE.search(part):
        return "no name can hold one of its characters"
    return ""
