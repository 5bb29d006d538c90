"""`prong doctor`: what is protected here and what is not, each with its remedy."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

import msgspec

from prong.face.command_grammar import parser_of
from prong.face.output import printable, show, show_json
from prong.session import Checkup, diagnose

_WIDTH = 80
_SIGNS = {"good": "+", "limited": "~", "broken": "!"}


def run_doctor(words: list[str]) -> int:
    """Say what was found; gives 1 if something is broken."""
    args = parser_of("doctor").parse_args(words)
    found = diagnose(args.cwd, settings=args.settings)
    if args.json:
        show_json(msgspec.json.format(msgspec.json.encode(found)))
    else:
        show("\n".join(describe_findings(found)))
    return int(any(one.state == "broken" for one in found))


def describe_findings(found: Iterable[Checkup]) -> list[str]:
    """Say each finding in a line or more, and what to do in one of its own."""
    lines: list[str] = []
    for one in found:
        head = f"{_SIGNS[one.state]} {one.topic}: "
        lines += _folded(head, one.text)
        if one.remedy:
            lines += _folded("    -> ", one.remedy)
    return lines


def _folded(head: str, text: str) -> list[str]:
    indent = "    " if not head.startswith(" ") else "       "
    return textwrap.wrap(
        printable(head + text), _WIDTH, subsequent_indent=indent, break_on_hyphens=False
    )
