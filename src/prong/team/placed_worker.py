"""What Ray places on a machine of a cluster: room for a worker, and the worker once it is wanted.

It has no base of Ray's, and no agent, prompt or policy is known to it: it holds a process and
carries its bytes.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from importlib import import_module

from prong.host.held_process import HeldProcess
from prong.host.launcher import WORKER

_ALONE = 600.0
"""Seconds for which an actor lives on that nobody asks for anything, with a worker that runs."""

_EMPTY = 60.0
"""The same without: what leads there asks three times in that time, if it is there."""

_LOOK = 2.0


class PlacedWorker:
    """Room for one worker at a time, for the line that has attached last."""

    def __init__(self, python: str) -> None:
        """Take the Python that starts workers; empty for this one."""
        self._python = python or sys.executable
        self._owner, self._line = "", 0
        self._process: HeldProcess | None = None
        self._asked = time.monotonic()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        """End once nobody has asked for anything for long: the session is gone for good.

        A worker ends with its input, and the work in its workspaces stays where it is.
        """
        while time.monotonic() - self._asked < self.patience:
            time.sleep(_LOOK)
        os._exit(0)

    @property
    def patience(self) -> float:
        """Seconds for which it waits for somebody who asks for something.

        Others may want the room; only work that goes on is worth more of it.
        """
        return _ALONE if self._process is not None and self._process.running else _EMPTY

    async def node(self) -> str:
        """Give the name of the machine."""
        return str(import_module("ray").get_runtime_context().get_node_id())

    async def attach(self, owner: str, line: int, open_lines: tuple[int, ...]) -> str:
        """Let a line of a session's process have it, in place of one that is gone.

        A line is gone if its process is another, or if it is an earlier one of the same process
        that is not open any more. Gives the name of the machine; empty if a line has it.
        """
        self._asked = time.monotonic()
        if (owner, line) != (self._owner, self._line):
            if owner == self._owner and (self._line > line or self._line in open_lines):
                return ""
            self._owner, self._line = owner, line
            last, self._process = self._process, None
            if last is not None:
                await last.end()
        return await self.node()

    async def hold(self, owner: str, line: int) -> None:
        """Know that it is still wanted."""
        self._check(owner, line)

    async def push(self, owner: str, line: int, at: int, data: bytes) -> int:
        """Write to the worker."""
        return await self._of(owner, line).push(at, data)

    async def pull(
        self, owner: str, line: int, after: int, wait: float
    ) -> tuple[bytes, int | None, str]:
        """Read from the worker."""
        pulled = await self._of(owner, line).pull(after, wait)
        return pulled.data, pulled.code, pulled.errors

    async def end(self, owner: str, line: int) -> None:
        """End the worker."""
        await self._of(owner, line).end()

    async def leave(self, owner: str, line: int) -> None:
        """End itself, and give back what it holds of the cluster, if nobody has attached since."""
        # Nothing is waited for in between, so that nobody can attach to one that is about to end.
        if (owner, line) == (self._owner, self._line):
            import_module("ray").actor.exit_actor()

    def _check(self, owner: str, line: int) -> None:
        self._asked = time.monotonic()
        if (owner, line) != (self._owner, self._line):
            raise RuntimeError("a later line of the session has taken its place")

    def _of(self, owner: str, line: int) -> HeldProcess:
        """Give the worker, which is started when something is first wanted of it."""
        self._check(owner, line)
        if self._process is None:
            self._process = HeldProcess((self._python, *WORKER))
        return self._process
