"""A project folder and the tools of one agent in it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import msgspec

from prong.entry import CallId, plain
from prong.host import LocalHost, Process
from prong.question import Question
from prong.tools.foreground import ForegroundWait
from prong.tools.tool import (
    CallOutcome,
    CommandSoFar,
    Context,
    Done,
    Failed,
    Reads,
    TaskHandle,
    Tool,
)


class NoTasks:
    """Background work that these tools have no use for."""

    async def adopt(
        self, process: Process, *, title: str, so_far: CommandSoFar | None = None
    ) -> TaskHandle:
        raise AssertionError

    def waiting(self, wait: ForegroundWait) -> AbstractContextManager[None]:
        return nullcontext()

    async def output(self, task_id: str, *, wait: float = 0.0) -> CallOutcome:
        raise AssertionError

    async def stop(self, task_id: str) -> CallOutcome:
        raise AssertionError

    def busy(self) -> bool:
        return False


async def nobody(questions: Sequence[Question]) -> str | None:
    return None


class Workbench:
    """Runs tools in a folder; `dash_x` is an argument `-x`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.context = Context(
            host=LocalHost(root, home=str(root)),
            reads=Reads(),
            emit=lambda event: None,
            ask=nobody,
            tasks=NoTasks(),
        )

    async def __call__(self, tool: Tool, **arguments: Any) -> CallOutcome:
        named = {k.replace("dash_", "-"): v for k, v in arguments.items()}
        args = msgspec.convert(named, tool.arguments)
        return await tool.run(CallId("c"), args, self.context)

    async def text(self, tool: Tool, **arguments: Any) -> str:
        outcome = await self(tool, **arguments)
        assert isinstance(outcome, Done), outcome
        return plain(outcome.parts)

    async def lines(self, tool: Tool, **arguments: Any) -> list[str]:
        return (await self.text(tool, **arguments)).split("\n")

    async def why(self, tool: Tool, **arguments: Any) -> str:
        outcome = await self(tool, **arguments)
        assert isinstance(outcome, Failed), outcome
        return outcome.why

    def access(self, tool: Tool, **arguments: Any) -> list[Any]:
        return list(tool.access(msgspec.convert(arguments, tool.arguments), self.context))
