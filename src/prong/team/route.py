"""What a call of the Agent tool means: a pure function of the call, the mode and the lineage."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TypeAlias

import msgspec

from prong.agent.lineage import MAX_DEPTH, Lineage
from prong.tools.delegate import AnyAgentArguments

FORK = "fork"
DEFAULT = "general-purpose"
WORKER = "worker"
"""The type of a coordinator's agents."""
NAME = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}"
"""What agents may be called: names become parts of paths and of notices."""


class ForkMode(msgspec.Struct, frozen=True):
    """Whether forks are on, and if not, why."""

    on: bool
    why_off: str = ""
    remedy: str = ""
    """What whoever opened the session can do about it; the model cannot."""


class ForkRoute(msgspec.Struct, frozen=True):
    """Split the caller."""


class TypedRoute(msgspec.Struct, frozen=True):
    """Start an agent of a type, from nothing."""

    type: str


class NoRoute(msgspec.Struct, frozen=True):
    """Do neither, and say why."""

    why: str


Route: TypeAlias = ForkRoute | TypedRoute | NoRoute


def route(
    args: AnyAgentArguments,
    mode: ForkMode,
    lineage: Lineage,
    types: Collection[str],
    *,
    model: str,
) -> Route:
    """Decide; an explicit type always wins, and nothing is honoured in part."""
    if lineage.is_fork:
        return NoRoute("a fork cannot start agents; this is permanent, do the work yourself")
    if lineage.depth >= MAX_DEPTH:
        return NoRoute(
            f"agents are nested {lineage.depth} deep already and may not go deeper; do it yourself"
        )
    default = WORKER if lineage.origin == "coordinator" else DEFAULT
    wanted = args.subagent_type or (FORK if mode.on else default)
    if wanted != FORK and wanted not in types:
        return NoRoute(_unknown(wanted, types))
    if args.name is not None and not re.fullmatch(NAME, args.name):
        return NoRoute(
            f"{args.name!r} is no name for an agent; use up to 64 letters, digits, '.', '_', '-'"
        )
    if wanted != FORK:
        return TypedRoute(wanted)
    if not mode.on:
        return NoRoute(f"forks are off: {mode.why_off}; name a subagent_type and write a brief")
    if args.model and args.model != model:
        return NoRoute(
            f"a fork runs on its parent's model ({model}), or it would share nothing with it; "
            f"leave `model` out, or use a subagent_type to have {args.model}"
        )
    return ForkRoute()


def _unknown(wanted: str, types: Collection[str]) -> str:
    return f"there is no agent type {wanted!r}; the types are: {', '.join(sorted(types)) or 'none'}"
