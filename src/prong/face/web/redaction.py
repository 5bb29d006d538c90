"""A session without what was said in it: fit to be shown to somebody else.

By a list of what stays, never by one of what goes: a field that comes later is left out until it is
put down here. What stays is shape: kinds, sizes, times, tokens, prices, digests, names of tools,
models and agents.
"""

from __future__ import annotations

from typing import Any

_SESSION = ["id", "model", "live", "broken", "recorded", "holes", "cost", "saved", "at"]
_AGENT = [
    "path",
    "kind",
    "parent",
    "model",
    "task",
    "state",
    "requests",
    "cost",
    "cached",
    "last_cached",
    "started",
    "ended",
    "warm_until",
    "items",
]
_ITEM = [
    "type",
    "at",
    "kind",
    "stop",
    "usage",
    "cost",
    "call_id",
    "name",
    "state",
    "duration",
    "fan",
    "why",
    "reason",
]
_TEXTS = ["text", "thinking", "arguments", "shown"]
_SPAN = ["key", "kind", "agent", "name", "at", "parent", "failed", "first"]
_MISS = ["agent", "digest", "read", "predicted"]
_WORDS = frozenset(["model", "sidecar", "digest", "stop", "status", "outcome", "answered_by"])
"""Details that are words of ours, or of a provider."""


def redacted(change: dict[str, Any]) -> dict[str, Any]:
    """Give a session's state without its texts; each is told by its length."""
    damage = change["session"]["damage"]
    session = _kept(change["session"], _SESSION)
    session |= {"title": "", "cwd": "", "damage": damage.partition(":")[0]}
    whole = ("revision", "stretches", "requests", "prices", "links", "counts")
    return {
        **{name: change[name] for name in whole},
        "session": session,
        "questions": [],
        "agents": [
            _kept(agent, _AGENT)
            | {"title": "", "doing": "", "detail": "", "type": "", "target": ""}
            | {"missed": "yes" if agent["missed"] else ""}
            for agent in change["agents"]
        ],
        "items": [[path, place, _item(item)] for path, place, item in change["items"]],
        "spans": [
            {"opened": _span(span["opened"]), "closed": span["closed"] and _span(span["closed"])}
            for span in change["spans"]
        ],
        "misses": {
            **change["misses"],
            "rows": [_kept(missed, _MISS) | {"why": ""} for missed in change["misses"]["rows"]],
        },
        "marks": {
            **change["marks"],
            "rows": [mark | {"details": _details(mark)} for mark in change["marks"]["rows"]],
        },
    }


def _kept(value: dict[str, Any], names: list[str]) -> dict[str, Any]:
    return {name: value[name] for name in names if name in value}


def _item(item: dict[str, Any]) -> dict[str, Any]:
    told = _kept(item, _ITEM) | {"title": "", "detail": ""}
    for name in _TEXTS:
        if name in item:
            told[name] = f"({len(item[name]):,} characters)" if item[name] else ""
    if "receipts" in item:
        told["receipts"] = [{"text": _receipt(one["paid"])} for one in item["receipts"]]
    return told


def _receipt(paid: dict[str, Any]) -> str:
    return (
        f"{paid['kind']} {paid['status']}: shared {paid['bytes_shared']:,} bytes, "
        f"read {paid['read']:,} tokens, {paid['requests']} requests"
    )


def _span(half: dict[str, Any]) -> dict[str, Any]:
    told = _kept(half, _SPAN) | {"details": _details(half)}
    # The name of a background command is what it runs, and that of a typed agent the user's.
    return told | {"name": half["kind"]} if half.get("kind") in {"task", "agent"} else told


def _details(half: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in half["details"].items()
        if name in _WORDS or not isinstance(value, str)
    }
