"""Leave for a call: what the gate, the hooks and the user say before it runs.

A hook may change a call. Then what it was changed to is read, decided on, shown and run in its
place, as if the model had sent it; the conversation keeps the call as the model wrote it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from prong.agent.agent import Agent
from prong.agent.hook import Verdict, settle
from prong.entry import Call
from prong.event import PermissionAsked
from prong.tools.access import Access
from prong.tools.base import Failed, Previewing, Tool
from prong.tools.policy import Allow, Ask, Deny

_PREVIEW_LINES = 40


class Leave(msgspec.Struct, frozen=True):
    """A call as it is to run, or why it must not."""

    call: Call
    tool: Tool
    args: Any
    refused: str | None = None
    """Why it must not run, in words for the model; None if it may."""
    notes: tuple[str, ...] = ()
    """What the model is told beside the result."""


def payload(call: Call) -> dict[str, Any]:
    """Give what hooks are told of a call."""
    return {"tool_name": call.name, "tool_input": msgspec.Raw(call.arguments.encode() or b"{}")}


async def ask_leave(agent: Agent, call: Call, tool: Tool, args: Any) -> Leave:
    """Ask whether a call may run, and as what.

    Raises OSError if the tool cannot say what the call would touch.
    """
    leave = Leave(call, tool, args)
    decision, accesses = _decide(agent, leave)
    if isinstance(decision, Deny):
        return _refuse(leave, decision.why)
    before = agent.heed(await agent.hooks.fire("PreToolUse", payload(call), matcher=call.name))
    leave = msgspec.structs.replace(leave, notes=before.context)
    if before.block is not None:
        return _refuse(leave, before.block)
    if before.updated is not None:
        leave = _changed(agent, leave, before.updated)
        if leave.refused is not None:
            return leave
        decision, accesses = _decide(agent, leave)
        if isinstance(decision, Deny):
            return _refuse(leave, decision.why)
    why = await _settled(agent, leave, accesses, decision, before)
    return leave if why is None else _refuse(leave, why.why)


def _refuse(leave: Leave, why: str) -> Leave:
    return msgspec.structs.replace(leave, refused=why)


def _decide(agent: Agent, leave: Leave) -> tuple[Allow | Ask | Deny, Sequence[Access]]:
    accesses = leave.tool.access(leave.args, agent.context)
    resolve = agent.context.host.follow
    return agent.policy.decide(leave.call.name, accesses, resolve=resolve), accesses


def _changed(agent: Agent, leave: Leave, updated: str) -> Leave:
    """Read a call as a hook has changed it; it does not run as it was."""
    if msgspec.json.decode(updated) == msgspec.json.decode(leave.call.arguments or "{}"):
        return leave
    call = msgspec.structs.replace(leave.call, arguments=updated)
    note = f"[A PreToolUse hook changed the input of this call. What counts is: {updated}]"
    notes = (note, *leave.notes)
    parsed = agent.kit.parse(call)
    if isinstance(parsed, Failed):
        why = f"a PreToolUse hook changed the input of this call, and then {parsed.why}"
        return msgspec.structs.replace(leave, refused=why, notes=notes)
    return Leave(call, *parsed, notes=notes)


async def _settled(
    agent: Agent, leave: Leave, accesses: Sequence[Access], decision: Allow | Ask, before: Verdict
) -> Failed | None:
    """Join what the gate and the hooks say, and ask the user if that is a question."""
    call, tool, args = leave.call, leave.tool, leave.args
    match settle("ask" if isinstance(decision, Ask) else "allow", before):
        case "deny":
            return Failed(before.reason or f"a hook refused this call of {call.name}")
        case "ask":
            ask = (
                decision
                if isinstance(decision, Ask)
                else Ask(before.reason or "a hook asks for leave")
            )

            def moot() -> bool:
                now = agent.policy.decide(call.name, accesses, resolve=agent.context.host.follow)
                return isinstance(now, Allow) and settle("allow", before) == "allow"

            shown = await _preview(agent, tool, args)
            refused = await _asked(agent, call, tool.title(args), shown, ask, moot)
            if refused is None and list(tool.access(args, agent.context)) != list(accesses):
                return Failed("what the call touches has changed while it waited; look again")
            return refused or _denied(agent, call, accesses)
        case "allow":
            return _denied(agent, call, accesses)


def _denied(agent: Agent, call: Call, accesses: Sequence[Access]) -> Failed | None:
    """Say what forbids a call now: while it waited, the mode of the tree may have changed."""
    decision = agent.policy.decide(call.name, accesses, resolve=agent.context.host.resolve)
    return Failed(decision.why) if isinstance(decision, Deny) else None


async def _preview(agent: Agent, tool: Tool, args: Any) -> str:
    """Show what a call would change, to whoever decides on it."""
    if not isinstance(tool, Previewing) or not agent.desk.answerable:
        return ""
    with suppress(OSError):
        lines = (await tool.preview(args, agent.context)).splitlines()
        more = len(lines) - _PREVIEW_LINES
        return "\n".join([*lines[:_PREVIEW_LINES], *([f"… {more} more lines"] if more > 0 else [])])
    return ""


async def _asked(
    agent: Agent, call: Call, title: str, preview: str, ask: Ask, moot: Callable[[], bool]
) -> Failed | None:
    asked = PermissionAsked(
        request_id=agent.desk.number(),
        call_id=call.id,
        tool=call.name,
        title=title,
        why=ask.why,
        suggestion=ask.suggestion,
        arguments=call.arguments,
        preview=preview,
    )
    answer = await agent.desk.ask(agent.path, asked, agent.emit, moot=moot)
    if answer is None:
        rules = " or ".join(repr(rule) for rule in ask.suggestion) or repr(call.name)
        return Failed(
            f"{call.name} needs permission ({ask.why}) and nobody is here to give it; it can be "
            f"allowed beforehand by the rule {rules} or by a permission mode"
        )
    if not answer.allow:
        why = f": {answer.text}" if answer.text else ""
        return Failed(f"the user refused this call{why}; do not try the same in another way")
    if answer.always:
        for rule in ask.suggestion:
            agent.policy.allow_for_session(rule)
        # Siblings often ask the same: what the rule allows need not be answered once more.
        agent.desk.review()
    return None
