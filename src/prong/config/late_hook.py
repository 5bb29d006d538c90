"""Hooks that nobody waits for: they run beside the work, and are heard when something is next told.

They belong to the session's task group. When the session ends they have a moment to come to their
end, since most of them only tell somebody else that it has.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import anyio.abc

from prong.agent.verdict import Verdict
from prong.config.hook_output import join

_PATIENCE = 5.0
"""Seconds that the end of a session waits for them."""


class LateHooks:
    """Runs hooks beside the work, and keeps what they say for the agent that they were told of."""

    def __init__(self, group: anyio.abc.TaskGroup) -> None:
        """Nothing runs yet."""
        self._group = group
        self._running = 0
        self._none_runs = anyio.Event()
        self._said: dict[str, list[Verdict]] = {}
        self._objected: list[tuple[str, str]] = []
        self._any_objected = anyio.Event()

    def start(self, agent: str, run: Callable[[], Awaitable[Verdict]]) -> None:
        """Run a hook."""
        self._running += 1
        if self._none_runs.is_set():
            self._none_runs = anyio.Event()
        self._group.start_soon(self._run, agent, run)

    async def _run(self, agent: str, run: Callable[[], Awaitable[Verdict]]) -> None:
        try:
            said = await run()
            if said != Verdict():
                self._said.setdefault(agent, []).append(said)
        finally:
            self._running -= 1
            if not self._running:
                self._none_runs.set()

    def object(self, agent: str, why: str) -> None:
        """Have an agent told that a hook objects to what has happened."""
        self._objected.append((agent, why))
        self._any_objected.set()

    async def wait_objections(self) -> list[tuple[str, str]]:
        """Wait until hooks object; gives the ids of agents and what each is to be told."""
        await self._any_objected.wait()
        self._any_objected = anyio.Event()
        found, self._objected = self._objected, []
        return found

    def take(self, agent: str) -> Verdict | None:
        """Give what they have said since, once; None if they have said nothing."""
        said = self._said.pop(agent, None)
        return None if said is None else join(said)

    async def end(self) -> Verdict:
        """Wait a moment for those that still run; gives what was said and not yet told."""
        with anyio.move_on_after(_PATIENCE) as scope:
            while self._running:
                await self._none_runs.wait()
        said = [one for every in self._said.values() for one in every]
        unheard = [f"{why} (nobody was told any more)" for _, why in self._objected]
        said.append(Verdict(warnings=tuple(unheard)))
        self._said.clear()
        if scope.cancelled_caught:
            left = f"{self._running} hooks that ran beside the work did not end, and are stopped"
            said.append(Verdict(warnings=(left,)))
        return join(said)
