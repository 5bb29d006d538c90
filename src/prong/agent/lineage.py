"""Where an agent comes from. A question of type, never of text."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from prong.ids import AgentPath
from prong.prompt import Prompt

Origin: TypeAlias = Literal["root", "coordinator", "fork", "typed"]

MAX_DEPTH = 3
"""How deep agents may nest."""

CONTAINED = frozenset(
    {"Agent", "AskUserQuestion", "MergeWorktrees", "EnterPlanMode", "ExitPlanMode"}
    | {"TeamCreate", "TeamSpawn", "TeamDelete"}
)
"""Tools by which an agent delegates, asks the user or changes how others work: not for a fork."""

_MODES = frozenset({"EnterPlanMode", "ExitPlanMode"})
"""Tools that change the mode of the whole tree: only its root may."""


class Lineage(msgspec.Struct, frozen=True):
    """How an agent came to be; set when it is made and untouched by anything after."""

    origin: Origin
    parent: AgentPath = AgentPath("")
    """The parent's path."""
    depth: int = 0
    base: str = ""
    """Digest of the fork base."""
    member: str = ""
    """Its name in a team, if it is a member of one."""
    type: str = ""
    """The name of its type, `fork` for a fork; empty for a main agent."""

    @property
    def is_fork(self) -> bool:
        """Whether this agent inherited another's conversation."""
        return self.origin == "fork"


ROOT = Lineage("root")

COORDINATOR = Lineage("coordinator")
"""A main agent that only gives work to others."""

COORDINATING = ("Agent", "SendMessage", "TaskStop", "subscribe_pr_activity")
"""The only tools of a coordinator."""


def told_by(prompt: Prompt) -> Lineage:
    """Tell the lineage of a conversation of which nothing else is known, by its typed entries.

    One that holds a directive is a fork's, whoever goes on with it. No text is looked at: a file
    or message that quotes the protocol changes nothing.
    """
    forked = any(node.kind == "directive" for node in prompt.nodes())
    return Lineage("fork", depth=1) if forked else ROOT


def contained(lineage: Lineage, tool: str) -> str | None:
    """Say why an agent of this lineage may not use a tool; None if it may."""
    if lineage.member and tool == "ExitPlanMode":
        # The plan is its own, and goes to the leader.
        return None
    if lineage.is_fork and tool in CONTAINED:
        return (
            f"You are a fork, and a fork never uses {tool}: it does its own part of the work and "
            f"nothing else. This is permanent; do not try again. Do the work with your other tools."
        )
    if lineage.origin == "coordinator" and tool not in COORDINATING:
        return (
            f"You coordinate, and a coordinator never uses {tool}: it only gives work to others. "
            f"This is permanent; do not try again. Have a worker do it."
        )
    if lineage.origin == "typed" and tool in _MODES:
        return (
            f"Only the main agent uses {tool}: the mode is that of all agents. This is permanent; "
            f"do not try again. Put what you would propose into your report."
        )
    return None
