"""A model that plays several members of a team, each by what it was told last.

Members run at the same time, so that no queue of steps fits: each has rules of its own, of which
each is used once, when what it waits for has come.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from prong.testing import Step, call, calls, say
from prong.testing.request import Request, block_text

Rules: TypeAlias = Sequence[tuple[str, Step]]

CREATE = call("TeamCreate", {"name": "crew"})


def spawn(*names: str, **more: Any) -> Step:
    """Start members, each with a directive that names it."""
    return calls(
        *(
            (
                "TeamSpawn",
                {"name": name, "description": "a part", "prompt": f"PART of {name}.", **more},
            )
            for name in names
        )
    )


def to(who: str, text: str, **more: Any) -> Step:
    """Send a message."""
    return call("SendMessage", {"to": who, "message": text, **more})


class Cast:
    """Plays every agent of a session; whoever has no rule for what it is told says `Ok.`"""

    def __init__(self, leader: Rules = (), **members: Rules) -> None:
        """Take the rules of the leader and of each member."""
        self.rules = {name: [*rules] for name, rules in {"leader": leader, **members}.items()}

    def add(self, name: str, *rules: tuple[str, Step]) -> None:
        """Add rules."""
        self.rules.setdefault(name, []).extend(rules)

    def __call__(self, request: Request) -> Step:
        """Give the step of whoever asks."""
        said = [b for b in request.blocks if b.section == "messages"]
        whole = "\n".join(block_text(block.raw) for block in said)
        names = [name for name in self.rules if f"You are {name} of the team" in whole]
        rules = self.rules[names[0] if names else "leader"]
        since = max((n for n, b in enumerate(said) if b.role == "assistant"), default=-1)
        fresh = "\n".join(block_text(block.raw) for block in said[since + 1 :])
        for number, (waits, step) in enumerate(rules):
            if waits in fresh:
                del rules[number]
                return step
        return say("Ok.")
