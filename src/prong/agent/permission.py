"""Permission for a call: what the gate, the hooks and the user say before it runs.

A hook may change a call. Then what it was changed to is read, decided on, shown and run in its
place, as if the model had sent it; the conversation keeps the call as the model wrote it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import msgspec

from prong.agent.agent import Agent, equip
from prong.agent.call_match import CallMatch
from prong.agent.gate import CheckedCall
from prong.agent.hook_payload import call_payload
from prong.agent.verdict import UNASKED, Verdict, settle
from prong.entry import Call
from prong.event import PermissionAsked
from prong.host.far_host import FarHost
from prong.host.sandbox import NONE
from prong.tools.access import Access, Reading, Running, Writing
from prong.tools.policy import Allow, Ask, Deny
from prong.tools.tool import Failed, Previewing, Tool

_PREVIEW_LINES = 1_000
_PREVIEW = 100_000
"""Lines and characters of a preview at most; faces show the beginning, and the rest if asked."""


_NOTHING: Mapping[str, Any] = {}

_Judged: TypeAlias = tuple[CheckedCall, Allow | Ask | Deny, Sequence[Access]]


async def ask_permission(agent: Agent, call: Call, tool: Tool, args: Any) -> CheckedCall:
    """Ask whether a call may run, and as what.

    Raises OSError if the tool cannot say what the call would touch.
    """
    checked = CheckedCall(call, tool, args)
    decision, accesses = _decide(agent, checked)
    if isinstance(decision, Deny):
        return _refuse(checked, decision.why)
    before = await consult_on(agent, "PreToolUse", checked)
    checked = msgspec.structs.replace(checked, notes=before.context)
    if before.block is not None:
        return _refuse(checked, before.block)
    if before.updated is not None:
        checked, decision, accesses = _changed(agent, checked, "PreToolUse", before.updated)
        if checked.refused is not None or isinstance(decision, Deny):
            return checked
    match settle("ask" if isinstance(decision, Ask) else "allow", before):
        case "deny":
            return _refuse(checked, before.reason or f"a hook refused this call of {call.name}")
        case "ask":
            asks = Ask(before.reason or "a hook asks for leave")
            ask = decision if isinstance(decision, Ask) else asks
            return await _questioned(agent, checked, accesses, ask, before)
        case "allow" if before is UNASKED and not agent.context.host.inherited:
            # Nothing was waited for, and no path means two places: it is decided already.
            return _held(agent, checked, accesses)
        case "allow":
            return _unless_denied(agent, checked, accesses)


def match_of(agent: Agent, checked: CheckedCall) -> CallMatch:
    """Give a call as the rules of hooks see it."""
    return CallMatch(checked.tool, checked.args, agent.context, agent.policy.policy)


async def consult_on(
    agent: Agent, event: str, checked: CheckedCall, outcome: Mapping[str, Any] = _NOTHING
) -> Verdict:
    """Tell the hooks of a call and its outcome, if any listen."""
    if not agent.hooks.listens(event):
        return UNASKED
    told = {**call_payload(agent, checked.call), **outcome}
    return await agent.consult(event, told, checked.call.name, match_of(agent, checked))


async def ask_outside(agent: Agent, checked: CheckedCall, why: str) -> CheckedCall | None:
    """Ask whether a call that failed for its sandbox may run again without one; None if not.

    It is asked every time, in every mode in which more than reading is possible.
    """
    if agent.policy.only_reads or agent.policy.policy.mode == "dontAsk":
        return None
    if not agent.questions.answerable:
        return None
    title = f"again, outside the sandbox: {checked.tool.title(checked.args)}"
    refused = await _asked(agent, checked.call, title, "", Ask(why), lambda: False)
    return None if refused is not None else msgspec.structs.replace(checked, profile=NONE)


def _refuse(checked: CheckedCall, why: str) -> CheckedCall:
    return msgspec.structs.replace(checked, refused=why)


def _decide(agent: Agent, checked: CheckedCall) -> tuple[Allow | Ask | Deny, Sequence[Access]]:
    accesses = checked.tool.access(checked.args, agent.context)
    if any(isinstance(access, Running) for access in accesses):
        equip(agent)
    resolve = agent.context.host.follow
    return agent.policy.decide(checked.call.name, accesses, resolve=resolve), accesses


def _changed(agent: Agent, checked: CheckedCall, event: str, updated: str) -> _Judged:
    """Read a call as a hook has changed it, and judge it anew; it does not run as it was."""
    if msgspec.json.decode(updated) != msgspec.json.decode(checked.call.arguments or "{}"):
        call = msgspec.structs.replace(checked.call, arguments=updated)
        note = f"[A {event} hook changed the input of this call. What counts is: {updated}]"
        checked = msgspec.structs.replace(checked, notes=(note, *checked.notes))
        parsed = agent.kit.parse(call)
        if isinstance(parsed, Failed):
            why = f"a {event} hook changed the input of this call, and then {parsed.why}"
            return _refuse(checked, why), Deny(why), ()
        checked = CheckedCall(call, *parsed, notes=checked.notes)
    decision, accesses = _decide(agent, checked)
    if isinstance(decision, Deny):
        checked = _refuse(checked, decision.why)
    return checked, decision, accesses


async def _questioned(
    agent: Agent, checked: CheckedCall, accesses: Sequence[Access], ask: Ask, before: Verdict
) -> CheckedCall:
    """Put the question to the hooks that answer such, and then to the user."""
    heard = await consult_on(agent, "PermissionRequest", checked)
    checked = msgspec.structs.replace(checked, notes=(*checked.notes, *heard.context))
    if heard.block is not None:
        return _refuse(checked, heard.block)
    if heard.updated is not None:
        checked, _, accesses = _changed(agent, checked, "PermissionRequest", heard.updated)
        if checked.refused is not None:
            return checked
    if heard.permission == "allow":
        return _unless_denied(agent, checked, accesses)
    call, tool, args = checked.call, checked.tool, checked.args

    def moot() -> bool:
        now = agent.policy.decide(call.name, accesses, resolve=agent.context.host.follow)
        return isinstance(now, Allow) and settle("allow", before) == "allow"

    shown = await _preview(agent, tool, args)
    if isinstance(shown, Failed):
        if _may_know(agent, accesses):
            return _refuse(checked, shown.why)
        shown = ""
    refused = await _asked(agent, call, tool.title(args), shown, ask, moot)
    if refused is not None:
        return _refuse(checked, refused.why)
    if list(tool.access(args, agent.context)) != list(accesses):
        why = "what the call touches has changed while it waited; look again"
        return _refuse(checked, why)
    return _unless_denied(agent, checked, accesses, approved=True)


def _unless_denied(
    agent: Agent, checked: CheckedCall, accesses: Sequence[Access], *, approved: bool = False
) -> CheckedCall:
    """Look for what forbids a call now: while it waited, the mode of the tree may have changed.

    What its processes are held to is decided in the same moment.
    """
    resolve = agent.context.host.resolve
    decision = agent.policy.decide(checked.call.name, accesses, resolve=resolve)
    if isinstance(decision, Deny):
        return _refuse(checked, decision.why)
    return _held(agent, checked, accesses, approved=approved)


def _held(
    agent: Agent, checked: CheckedCall, accesses: Sequence[Access], *, approved: bool = False
) -> CheckedCall:
    """Say what the processes of a call are held to."""
    for access in accesses:
        if isinstance(access, Running):
            follow = agent.context.host.follow
            profile = agent.policy.profile(access, approved=approved, resolve=follow)
            return msgspec.structs.replace(checked, profile=profile)
    return checked


def _may_know(agent: Agent, accesses: Sequence[Access]) -> bool:
    """Whether the agent may read what a call would write, and so may know why it would fail.

    Then nobody need be asked about a call that can do nothing.
    """
    files = [Reading(access.path) for access in accesses if isinstance(access, Writing)]
    resolve = agent.context.host.follow
    return isinstance(agent.policy.decide("Read", files, resolve=resolve), Allow)


async def _preview(agent: Agent, tool: Tool, args: Any) -> str | Failed:
    """Show what a call would change, to whoever decides on it."""
    if not isinstance(tool, Previewing) or not agent.questions.answerable:
        return ""
    if isinstance(agent.context.host, FarHost):
        # Its files cannot be looked at from here.
        return ""
    with suppress(OSError):
        found = await tool.preview(args, agent.context)
        if isinstance(found, Failed):
            return found
        lines = found.splitlines()
        kept = "\n".join(lines[:_PREVIEW_LINES])[:_PREVIEW].splitlines()
        more = len(lines) - len(kept)
        return "\n".join([*kept, *([f"… {more} more lines"] if more > 0 else [])])
    return ""


async def _asked(
    agent: Agent, call: Call, title: str, preview: str, ask: Ask, moot: Callable[[], bool]
) -> Failed | None:
    asked = PermissionAsked(
        request_id=agent.questions.number(),
        call_id=call.id,
        tool=call.name,
        title=title,
        why=ask.why,
        suggestion=ask.suggestion,
        file=agent.questions.file_for(ask.suggestion),
        arguments=call.arguments,
        preview=preview,
    )
    answer = await agent.questions.ask(agent.path, asked, agent.emit, moot=moot)
    if answer is None:
        rules = " or ".join(repr(rule) for rule in ask.suggestion) or repr(call.name)
        return Failed(
            f"{call.name} needs permission ({ask.why}) and nobody is here to give it; it can be "
            f"allowed beforehand by the rule {rules} or by a permission mode"
        )
    if not answer.allow:
        # A reason often names the way that is wanted: that one is not closed.
        said = f": {answer.text}; go by that, and" if answer.text else ";"
        return Failed(f"the user refused this call{said} do not try the same in another way")
    if answer.remember:
        for rule in ask.suggestion:
            agent.policy.allow_for_session(rule)
        # Siblings often ask the same: what the rule allows need not be answered once more.
        agent.questions.review()
    return None
