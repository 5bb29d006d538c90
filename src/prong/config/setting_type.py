"""What a single setting may hold, and how it is said to the user when it holds something else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias, cast

import msgspec

from prong.errors import BadInput
from prong.foreign_number import is_number
from prong.host.target import read_target

ValueKind: TypeAlias = Literal[
    "text", "whole", "count", "number", "amount", "share", "flag", "texts", "map", "object"
]
ValueType: TypeAlias = ValueKind | tuple[str, ...]
"""A kind of value, or the words to choose from."""

WANTED: dict[ValueKind, str] = {
    "text": "a text",
    "whole": "a whole number above 0",
    "count": "a whole number, not below 0",
    "number": "a number, not below 0",
    "amount": "a number above 0",
    "share": "a number from 0 to 1",
    "flag": "true or false",
    "texts": "a list of texts",
    "map": "an object of texts",
    "object": "an object",
}

CHOICES: dict[str, tuple[str, ...]] = {
    "api": (
        "anthropic",
        "responses",
        "chat",
        "gemini",
        "openai",
        "openai-responses",
        "openai-chat",
    ),
    "cacheTtl": ("5m", "1h", "30m", "12h"),
    "workerTools": ("simple", "full"),
    "ui": ("full", "line"),
    "theme": ("ansi", "dark", "light", "none"),
}
"""Settings that are one of a few words."""

_BUDGET: dict[str, ValueType] = {
    "tokens": "whole",
    "usd": "amount",
    "turns": "whole",
    "seconds": "amount",
}

INSIDE: dict[str, dict[str, ValueType]] = {
    "fork": {
        "enabled": "flag",
        "dispatch": ("auto", "keep", "drop"),
        "schedule": ("auto", "at_once", "leader", "prewarm"),
        "breakEven": ("off", "warn", "choose"),
        "turns": "whole",
        "wake": ("each", "all"),
    },
    "worktree": {"base": ("snapshot", "head"), "symlinkDirectories": "texts"},
    "retry": {
        "tries": "whole",
        "connect": "whole",
        "first": "number",
        "longest": "number",
        "limit": "number",
        "idle": "amount",
        "progress": "amount",
    },
    "sessionBudget": _BUDGET,
    "taskBudget": _BUDGET,
    "handback": {"model": "text"},
    "telemetry": {"enabled": "flag", "content": "flag", "oldCacheName": "flag"},
    "sandbox": {
        "mode": ("on", "off", "required"),
        "network": ("none", "working", "always"),
        "unixSockets": "flag",
        "writable": "texts",
        "caches": "texts",
        "outside": "texts",
    },
    "statusLine": {
        "type": ("command",),
        "command": "text",
        "padding": "count",
        "refreshInterval": "amount",
    },
    "mcp": {"wait": "number", "searchAbove": "count"},
    "agents": {
        "backend": ("inline", "process"),
        "model": "text",
        "permissionMode": ("default", "acceptEdits"),
    },
    "team": {"enabled": "flag", "backend": "text", "window": "count", "command": "texts"},
    "remote": {"default": "text", "targets": "object"},
    "web": {
        "fetch": "flag",
        "privateHosts": "texts",
        "search": ("auto", "provider", "off"),
        "searchUrl": "text",
        "searchHeaders": "map",
    },
}
"""The keys of settings that are objects."""

BINDING = frozenset({"maxTurns", "maxBudgetUsd", "sessionBudget", "taskBudget"})
"""Settings that bound what is spent: to go on without a wrong one would be to spend unbounded."""


class BadKey(msgspec.Struct, frozen=True):
    """A key inside of a setting that cannot be used."""

    key: str
    why: str
    unknown: bool = False
    """Nobody knows the key, so it has no effect."""


def fits(shape: ValueType, value: object) -> bool:
    """Say whether a value is of a shape."""
    match shape:
        case "text":
            return isinstance(value, str) and bool(value.strip())
        case "whole" | "count":
            least = 1 if shape == "whole" else 0
            return is_number(value) and isinstance(value, int) and value >= least
        case "number" | "amount" | "share":
            return _measures(shape, value)
        case "flag":
            return isinstance(value, bool)
        case "texts":
            texts = cast("list[object]", value) if isinstance(value, list) else [None]
            return all(isinstance(text, str) for text in texts)
        case "map":
            pairs = cast("dict[str, object]", value) if isinstance(value, dict) else {"": None}
            return all(isinstance(text, str) for text in pairs.values())
        case "object":
            return isinstance(value, dict)
        case words:
            return value in words


def _measures(shape: ValueType, value: object) -> bool:
    if not is_number(value):
        return False
    if shape == "amount":
        return value > 0
    return 0 <= value <= 1 if shape == "share" else value >= 0


def wanted(shape: ValueType) -> str:
    """Say what a shape is."""
    return f"one of {', '.join(shape)}" if isinstance(shape, tuple) else WANTED[shape]


def inspect(key: str, value: Mapping[str, object]) -> tuple[dict[str, object], list[BadKey]]:
    """Take over what an object may hold, and say what is wrong with the rest.

    What is null counts as not given.
    """
    known = INSIDE.get(key)
    if known is None:
        return dict(value), []
    kept: dict[str, object] = {}
    found: list[BadKey] = []
    for name, one in value.items():
        if name not in known:
            found.append(BadKey(name, f"'{key}' has no key {name!r}", unknown=True))
        elif one is not None and not fits(known[name], one):
            why = f"'{key}.{name}' must be {wanted(known[name])}"
            if (key, name) == ("fork", "enabled"):
                # Whoever wrote something there did not mean to leave it as it is.
                kept[name] = False
                why += "; until then forks are off"
            found.append(BadKey(name, why))
        elif one is not None and (key, name) == ("remote", "targets"):
            kept[name], wrong = _targets(cast("Mapping[str, object]", one))
            found += [BadKey(name, why) for why in wrong]
        elif one is not None:
            kept[name] = one
    return kept, found


def _targets(given: Mapping[str, object]) -> tuple[dict[str, object], list[str]]:
    """Take over the remote targets that can be used, and say what is wrong with the others."""
    kept: dict[str, object] = {}
    wrong: list[str] = []
    for name, one in given.items():
        if not isinstance(one, dict):
            wrong.append(f"the remote target {name!r} must be an object")
            continue
        try:
            read_target(name, cast("dict[str, object]", one))
        except BadInput as error:
            wrong.append(str(error))
        else:
            kept[name] = one
    return kept, wrong
