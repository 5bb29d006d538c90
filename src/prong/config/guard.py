"""The hooks of a session: the user's commands, and what Prong itself watches for."""

from __future__ import annotations

import os.path
from typing import Any

import msgspec

from prong.agent import Hooks, Verdict
from prong.agent.call_match import CallMatch
from prong.config.instruction import Instructions
from prong.foreign_json import NOT_JSON
from prong.tools.structured import StructuredOutput

_REMINDERS = 3
_TOUCHED = frozenset({"PostToolUse", "PostToolUseFailure"})
_TOUCHING = frozenset({"Read", "Edit", "Write", "NotebookEdit"})


class _Paths(msgspec.Struct):
    file_path: str = ""
    notebook_path: str = ""


class Guard(msgspec.Struct, kw_only=True):
    """Runs the user's hooks, shows nested instructions, and sees to a structured answer."""

    hooks: Hooks
    cwd: str
    """What relative paths start from."""
    instructions: Instructions | None = None
    structured: StructuredOutput | None = None
    reminded: int = 0

    def clone(self, hooks: Hooks | None = None, *, instructed: bool = True) -> Guard:
        """Make the guard of a child: its own record of instructions, if it has any, no schema.

        It has the same hooks, unless others are given.
        """
        seen = self.instructions.clone() if self.instructions and instructed else None
        return Guard(hooks=hooks or self.hooks, cwd=self.cwd, instructions=seen)

    def listens(self, event: str) -> bool:
        """Whether there are hooks, or instructions that a call may come upon."""
        return self.hooks.listens(event) or (event in _TOUCHED and self.instructions is not None)

    async def fire(
        self,
        event: str,
        payload: dict[str, Any],
        matcher: str = "",
        call: CallMatch | None = None,
    ) -> Verdict:
        """Let the user's hooks speak first."""
        verdict = await self.hooks.fire(event, payload, matcher, call)
        if event == "PreCompact" and self.instructions is not None:
            # What a summary leaves of them is not enough; they are shown again when they apply.
            self.instructions.forget_nested()
        if event in _TOUCHED and matcher in _TOUCHING and self.instructions is not None:
            return self._nested(self.instructions, payload, verdict)
        if event == "Stop" and verdict.block is None and self._unanswered():
            self.reminded += 1
            why = "Give the final answer now by calling StructuredOutput."
            return msgspec.structs.replace(verdict, block=why)
        return verdict

    def _unanswered(self) -> bool:
        wanted = self.structured is not None and self.structured.answer is None
        return wanted and self.reminded < _REMINDERS

    def _nested(
        self, instructions: Instructions, payload: dict[str, Any], verdict: Verdict
    ) -> Verdict:
        try:
            paths = msgspec.json.decode(payload["tool_input"], type=_Paths)
        except NOT_JSON:
            return verdict
        path = os.path.join(self.cwd, paths.file_path or paths.notebook_path)  # noqa: PTH118 - strings
        found = instructions.nested_for(path)
        texts = tuple(f"Instructions for this folder ({one.label}):\n\n{one.text}" for one in found)
        return msgspec.structs.replace(verdict, context=(*verdict.context, *texts))
