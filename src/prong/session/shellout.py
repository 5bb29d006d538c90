"""A command line that the user runs: it stands in the conversation before it runs.

Two entries tell the model of it: that the user runs it, and what it gave. The first is stored
before anything happens, so that a killed process leaves a conversation that says what was begun,
and no resumed one runs it again: nothing but the user starts such a command.
"""

from __future__ import annotations

from uuid import uuid4

import anyio
import msgspec

from prong.agent import Agent
from prong.command import OWN_COMMAND, Accepted, Outcome, Refused
from prong.entry import CallId, Text, User, plain
from prong.errors import BadInput
from prong.event import ToolFinished, ToolStarted
from prong.session.parts import Parts
from prong.text import load_text
from prong.tools.shell import Bash, WaitedArguments
from prong.tools.tool import CallOutcome as ToolOutcome
from prong.tools.tool import Failed

_LONGEST = 600_000
_STOPPED = "The user stopped it."


async def run_shell(parts: Parts, line: str) -> Outcome:
    """Run a line in the shell of the main agent.

    Raises UsageError if a turn runs, or nothing is to be run.
    """
    parts.must_live()
    parts.must_be_idle("run a command")
    if not line.strip():
        raise BadInput("say what to run: !COMMAND")
    async with parts.life.hold() as scope:
        command = _OwnCommand(parts.agent, line)
        parts.agent.conversation.append(_entry("shell_begun", command=line))
        await parts.life.settle()
        try:
            await command.run()
        finally:
            with anyio.CancelScope(shield=True):
                parts.agent.conversation.append(_entry("shell_ended", output=command.gave))
                await parts.life.settle()
    return Refused("the command was stopped") if scope.cancelled_caught else Accepted()


class _OwnCommand:
    """A command of the user's own, and what it gave, also if it was stopped."""

    def __init__(self, agent: Agent, line: str) -> None:
        self._agent = agent
        self._line = line
        self.gave = _STOPPED

    async def run(self) -> None:
        agent = self._agent
        bash, args = Bash(background=False), WaitedArguments(command=self._line, timeout=_LONGEST)
        call_id, title = CallId(f"shell-{uuid4().hex[:8]}"), f"!{bash.title(args)}"
        arguments = msgspec.json.encode({"command": self._line}).decode()
        agent.emit(ToolStarted(call_id=call_id, name=OWN_COMMAND, arguments=arguments, title=title))
        began, outcome = anyio.current_time(), None
        try:
            outcome = await bash.run(call_id, args, agent.context)
        finally:
            shown = agent.context.outputs.pop(call_id, "")
            if outcome is not None:
                shown = self.gave = _text(outcome)
            elif shown:
                self.gave = "\n".join([shown.removesuffix("\n"), _STOPPED])
            agent.emit(
                ToolFinished(
                    call_id=call_id,
                    name=OWN_COMMAND,
                    failed=outcome is None or isinstance(outcome, Failed),
                    text=self.gave,
                    shown=shown,
                    duration=anyio.current_time() - began,
                    interrupted=outcome is None,
                    title=title,
                )
            )


def _text(outcome: ToolOutcome) -> str:
    return outcome.why if isinstance(outcome, Failed) else plain(outcome.parts)


def _entry(name: str, **values: str) -> User:
    text = load_text(name)
    for key, value in values.items():
        text = text.replace(f"{{{key}}}", value)
    return User((Text(text),), "reminder")
