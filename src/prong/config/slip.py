"""Slips of the pen in guards: `bash` for Bash, `Deny` for deny, a key that stands twice.

Who writes a guard means to be held by it. One that nobody understands does nothing, and a warning
scrolls away; so what looks like a guard and is none is told apart here from what is merely unknown.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from prong.config.document import Document
from prong.tools.rule import TOOLS, BadRule, Effect, Rule, fits_use, parse_rule

_NEAR = 0.8
"""How alike two names are when one is taken for the other, from 0 to 1."""


_HOST = re.compile(
    r"[\w*?-]+(?:\.[\w*?-]+)*|[\da-f.]*:[\da-f.]*:[\da-f:.]*", re.ASCII | re.IGNORECASE
)
"""A host as WebFetch asks rules about it: without a scheme, a port or a path, all in ASCII."""


class RuleProblem(msgspec.Struct, frozen=True):
    """Why a rule cannot be kept."""

    why: str
    harmless: bool = False
    """Nothing is lost by it: there is no such tool, nor one that could be meant."""


def find_slip(name: str, known: Iterable[str], *, near: bool) -> str | None:
    """Give the known name that another one stands for by its letters, or is very much like."""
    names = sorted(known)
    if name in names:
        return None
    wanted = _bare(name)
    for one in names:
        if _bare(one) == wanted:
            return one
    if not near:
        return None
    from difflib import get_close_matches

    # In a short name two letters that have changed places already make it too unlike.
    for one in names:
        if sorted(_bare(one)) == sorted(wanted):
            return one
    found = get_close_matches(wanted, [_bare(one) for one in names], n=1, cutoff=_NEAR)
    return next((one for one in names if found and _bare(one) == found[0]), None)


def _bare(name: str) -> str:
    return re.sub(r"[\W_]", "", name).casefold()


def check_rule(
    text: str, effect: Effect, *, foreign: bool, functions: Container[str] = ()
) -> RuleProblem | None:
    """Say what is wrong with a rule; a foreign one may name tools that only its program has.

    The `functions` are tools that the session's caller gave it.
    """
    rule = parse_rule(text, effect=effect, source="flag")
    if isinstance(rule, BadRule):
        return RuleProblem(f"the {effect} rule {text!r} is wrong: {rule.why}")
    tool = rule.tool
    if tool == "McpCall":
        why = "calls by McpCall are judged as the tool that is meant; name that: mcp__server__tool"
        return RuleProblem(f"the {effect} rule {text!r} would have no effect: {why}")
    if why := _idle(tool, rule.specifier):
        # Other programs may read such a rule; what it allows there is merely asked for here.
        harmless = foreign and effect == "allow"
        return RuleProblem(f"the {effect} rule {text!r} would have no effect: {why}", harmless)
    if tool.startswith("mcp__") or tool in TOOLS or tool in functions:
        return None
    if "*" in tool:
        if tool == "*" or any(fnmatchcase(one, tool) for one in TOOLS):
            return None
        folded = [one for one in TOOLS if fnmatchcase(one.lower(), tool.lower())]
        meant = folded[0] if folded else None
    elif tool.lower().startswith("mcp_"):
        meant = f"mcp__{tool[4:].lstrip('_')}"
    else:
        meant = find_slip(tool, TOOLS, near=not foreign)
    if meant is None:
        return RuleProblem(f"the {effect} rule {text!r} names no tool there is", harmless=True)
    return RuleProblem(f"the {effect} rule {text!r} names no tool there is; did you mean {meant}?")


def _idle(tool: str, specifier: str | None) -> str:
    """Say why what stands in the brackets of a rule can match no page; empty if it can."""
    if specifier is None:
        return ""
    if tool == "WebSearch":
        return "searches are not told apart; write WebSearch"
    if tool == "WebFetch" and not _HOST.fullmatch(specifier.removeprefix("domain:")):
        return "after 'domain:' stands a host alone, in ASCII, as in WebFetch(domain:example.com)"
    if tool == "WebFetch" and not specifier.startswith("domain:"):
        return f"it speaks of hosts; write WebFetch(domain:{specifier})"
    return ""


def find_idle_guards(rules: Iterable[Rule], names: Mapping[str, Collection[str]]) -> list[str]:
    """Say which rules hold back nobody here, since by a slip they name no type or skill there is.

    The names are by tool. Elsewhere there may be one of that name, so that nothing is stopped.
    """
    said: list[str] = []
    for rule in rules:
        use, known = rule.specifier or "", names.get(rule.tool, ())
        if rule.effect == "allow" or not use or any(fits_use(rule, one) for one in known):
            continue
        if meant := find_slip(use, known, near=True):
            said.append(
                f"{rule.named} holds nothing back here: there is no {use!r}; did you mean "
                f"{rule.tool}({meant})?"
            )
    return said


def find_double(document: Document, *keys: str) -> str | None:
    """Give the first of these keys that an object holds twice: only the last would count."""
    import json

    if not any(document.text.count(f'"{key}"') > 1 for key in keys):
        return None
    doubled: list[str] = []

    def look(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        doubled.extend(key for key in keys if names.count(key) > 1)
        return dict(pairs)

    json.loads(document.text, object_pairs_hook=look)
    return doubled[0] if doubled else None
