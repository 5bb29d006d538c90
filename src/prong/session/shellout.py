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
_STOPPED = Failed("The user stopped it.")


async def run_shell(parts: Parts, line: str) -> Outcome:
    """Run a line in the shell of the main agent.

    Raises UsageError if a turn runs, or nothing is to be run.
    """
    parts.must_live()
    parts.must_be_idle("run a command")
    if not line.strip():
        raise BadInput("say what to run: !COMMAND")
    async with parts.life.hold() as scope:
        agent, outcome = parts.agent, _STOPPED
        agent.conversation.append(_entry("shell_begun", command=line))
        await parts.life.settle()
        try:
            outcome = await _run(agent, line)
        finally:
            with anyio.CancelScope(shield=True):
                agent.conversation.append(_entry("shell_ended", output=_text(outcome)))
                await parts.life.settle()
    return Refused("the command was stopped") if scope.cancelled_caught else Accepted()


async def _run(agent: Agent, line: str) -> ToolOutcome:
    bash, args = Bash(background=False), WaitedArguments(command=line, timeout=_LONGEST)
    call_id, title = CallId(f"shell-{uuid4().hex[:8]}"), f"!{bash.title(args)}"
    arguments = msgspec.json.encode({"command": line}).decode()
    agent.emit(ToolStarted(call_id=call_id, name=OWN_COMMAND, arguments=arguments, title=title))
    began, outcome, stopped = anyio.current_time(), _STOPPED, True
    try:
        outcome = await bash.run(call_id, args, agent.context)
        stopped = False
    finally:
        text = _text(outcome)
        agent.emit(
            ToolFinished(
                call_id=call_id,
                name=OWN_COMMAND,
                failed=isinstance(outcome, Failed),
                text=text,
                shown=text,
                duration=anyio.current_time() - began,
                interrupted=stopped,
                title=title,
            )
        )
    return outcome


def _text(outcome: ToolOutcome) -> str:
    return outcome.why if isinstance(outcome, Failed) else plain(outcome.parts)


def _entry(name: str, **values: str) -> User:
    text = load_text(name)
    for key, value in values.items():
        text = text.replace(f"{{{key}}}", value)
    return User((Text(text),), "reminder")
