"""Where the agent of a child runs: in this process, or in one of its own.

A runner lets an agent live: it runs its turns until `until` says that one was the last. All else
that happens to a child (hooks, worktree, turn in the fan-out, the look at its result, its notice)
is the same wherever it runs, and stays in `course`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias

from prong.agent import Agent, Turn
from prong.agent.life import Life

Until: TypeAlias = Callable[[Turn], Awaitable[bool]]
"""Says after a turn whether it was the last; it may put something before the agent."""


class Runner(Protocol):
    """Lets agents live somewhere."""

    async def live(self, agent: Agent, *, until: Until) -> Turn:
        """Run turns from where the agent stands to the last one, which is given back.

        What the agent says, stores, pays and asks for reaches this process as it happens, and
        everything that waits in its inbox reaches the agent. To cancel this stops the agent.

        Raises ProngError if it cannot run there, or was lost.
        """
        ...


class Inline:
    """Runs agents in this process."""

    async def live(self, agent: Agent, *, until: Until) -> Turn:
        """Run turns from where the agent stands to the last one, which is given back."""
        turn = await Life(agent).go_on(until=until)
        assert turn is not None, "nobody stops a child's life but by cancelling its task"
        return turn
