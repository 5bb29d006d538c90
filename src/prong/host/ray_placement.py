"""Where on a Ray cluster a worker is to be, as a value: the one argument of what leads there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from prong.foreign_number import whole_number

NAMESPACE = "prong"
"""The namespace of all our actors."""


CUT = 75
"""The code with which what leads to a worker ends when nothing has got through for too long."""


class RayPlacement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is asked of a cluster for one worker."""

    address: str
    """As `ray.init` takes it."""
    actor: str
    """What the names of actors begin with: the session's and the target's. Its process and the line
    follow."""
    owner: str
    """The process of the session."""
    line: int
    """The number of the line among those of that process."""
    open_lines: tuple[int, ...] = ()
    """The earlier ones that are still held: what they have is theirs."""
    node: str = ""
    """The machine that it must be on, as `name_node` says it; empty if Ray may choose."""
    resources: dict[str, float] = {}
    labels: dict[str, str] = {}
    python: str = ""
    tries: int = 0
    """How often it was tried in vain to connect to the cluster."""
    since: float = 0.0
    """When that was first tried, by a clock of this machine that all its programs share."""

    @property
    def name(self) -> str:
        """The name of the actor that is made for it: nobody else can make one of that name."""
        return f"{self.actor}:{self.owner}:{self.line}"

    def is_left(self, name: str) -> bool:
        """Whether the actor of a name is this session's, and of no line that is still held."""
        owner, _, text = name.removeprefix(f"{self.actor}:").partition(":")
        line = whole_number(text)
        if not name.startswith(f"{self.actor}:") or line is None:
            return False
        held = line >= self.line or line in self.open_lines
        return owner != self.owner or not held


def name_node(number: str, address: str) -> str:
    """Name a machine of a cluster, for a session that comes back to it.

    Ray's number for it is another one whenever Ray was started anew, so its address goes with it.
    """
    return f"{number}@{address}" if address else number


def find_node(name: str, nodes: Iterable[Mapping[str, Any]], labels: Mapping[str, str]) -> str:
    """Find the machine of a name among those that Ray knows; gives Ray's number for it.

    Where Ray was started anew, that is a machine with the address and the labels that are asked
    for. Empty if there is none.
    """
    number, _, address = name.partition("@")
    alive = [one for one in nodes if one["Alive"]]
    if any(one["NodeID"] == number for one in alive):
        return number
    near = [one for one in alive if address and one["NodeManagerAddress"] == address]
    fit = [one for one in near if labels.items() <= one["Labels"].items()]
    return str(fit[0]["NodeID"]) if fit else ""
