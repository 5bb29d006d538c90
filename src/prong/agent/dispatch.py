"""The calls of one reply: read, permitted, run, answered.

Calls that only read run together, calls that write run one after another, and results always come
in call order. Whatever happens here (a failure, an interrupt, a crash of a tool) every call gets a
result, so the stored conversation stays valid.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import anyio
import msgspec

from prong.agent.agent import Agent
from prong.agent.answer import INTERRUPTED
from prong.agent.hook import Verdict, settle
from prong.agent.lineage import contained
from prong.entry import Call, Result, Results, Text, plain
from prong.errors import Contained
from prong.event import PermissionAsked, ToolFinished, ToolStarted, Warned
from prong.tools.access import Access
from prong.tools.base import Done, Failed, Outcome, Previewing, Tool
from prong.tools.policy import Allow, Ask, Deny

_HEAD_SHARE = 0.7
_PREVIEW_LINES = 40
_TRIES = 3
"""Identical refused calls after which an agent is stopped."""


class _Refused(Failed, frozen=True):
    """A call that was not allowed to run."""


async def answer(agent: Agent, calls: Sequence[Call]) -> None:
    """Run calls and append their results."""
    results: list[Result | None] = [None] * len(calls)

    async def perform(index: int) -> None:
        results[index] = await _perform(agent, calls[index])

    try:
        for group in _groups(agent, calls):
            if len(group) == 1:
                await perform(group[0])
                continue
            try:
                async with anyio.create_task_group() as running:
                    for index in group:
                        running.start_soon(perform, index)
            except BaseExceptionGroup as failures:
                # As if the call that failed had run alone.
                raise failures.exceptions[0] from failures
    finally:
        filled = (
            result or Result(call.id, (Text(INTERRUPTED),), failed=True)
            for call, result in zip(calls, results, strict=True)
        )
        agent.append(Results(tuple(filled)))


def _groups(agent: Agent, calls: Sequence[Call]) -> Iterator[list[int]]:
    group: list[int] = []
    for index, call in enumerate(calls):
        tool = agent.kit.get(call.name)
        if tool is not None and tool.effect == "reads":
            group.append(index)
            continue
        if group:
            yield group
            group = []
        yield [index]
    if group:
        yield group


async def _perform(agent: Agent, call: Call) -> Result:
    if (why := contained(agent.lineage, call.name)) is not None:
        return _finish(agent, call, _contained(agent, call, why), "", 0.0, 0)
    parsed = agent.kit.parse(call)
    if isinstance(parsed, Failed):
        return _finish(agent, call, parsed, "", 0.0, 0)
    tool, args = parsed
    start = time.monotonic()
    outcome = await _attempt(agent, call, tool, args)
    seconds = time.monotonic() - start
    return _finish(agent, call, outcome, tool.title(args), seconds, tool.budget)


async def _attempt(agent: Agent, call: Call, tool: Tool, args: Any) -> Outcome:
    """Ask for leave, run the call, and let hooks have their say before and after."""
    payload = {"tool_name": call.name, "tool_input": msgspec.Raw(call.arguments.encode() or b"{}")}
    try:
        refused = await _refusal(agent, call, tool, args, payload)
        if refused is not None:
            return _Refused(refused.why)
        title = tool.title(args)
        agent.emit(
            ToolStarted(call_id=call.id, name=call.name, arguments=call.arguments, title=title)
        )
        outcome = await tool.run(call.id, args, agent.context)
    except OSError as error:
        return Failed(f"{call.name}: {error}")
    response = plain(outcome.parts) if isinstance(outcome, Done) else outcome.why
    after = await agent.hooks.fire(
        "PostToolUse", payload | {"tool_response": response}, matcher=call.name
    )
    return _with_context(outcome, _warn(agent, after))


async def _refusal(
    agent: Agent, call: Call, tool: Tool, args: Any, payload: dict[str, Any]
) -> Failed | None:
    """Say why a call may not run; None if it may."""
    accesses = tool.access(args, agent.context)
    decision = agent.policy.decide(call.name, accesses, resolve=agent.context.host.follow)
    if isinstance(decision, Deny):
        return Failed(decision.why)
    before = _warn(agent, await agent.hooks.fire("PreToolUse", payload, matcher=call.name))
    match settle("ask" if isinstance(decision, Ask) else "allow", before):
        case "deny":
            why = before.block or before.reason
            return Failed(why or f"a hook refused this call of {call.name}")
        case "ask":
            ask = (
                Ask(before.reason or "a hook asks for leave")
                if isinstance(decision, Allow)
                else decision
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


def _contained(agent: Agent, call: Call, why: str) -> Failed:
    """Refuse for good; one who keeps trying is stopped."""
    agent.refusals[call.name, call.arguments] += 1
    if agent.refusals[call.name, call.arguments] >= _TRIES:
        raise Contained(
            f"{agent.path} was stopped: it repeated a call of {call.name} that is closed to it"
        )
    return _Refused(why)


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


def _warn(agent: Agent, verdict: Verdict) -> Verdict:
    for text in verdict.warnings:
        agent.emit(Warned(text=text))
    return verdict


def _with_context(outcome: Outcome, verdict: Verdict) -> Outcome:
    notes = list(verdict.context)
    if verdict.block is not None:
        notes.append(f"A hook objects: {verdict.block}")
    if not notes:
        return outcome
    if isinstance(outcome, Failed):
        return Failed("\n\n".join([outcome.why, *notes]))
    return Done((*outcome.parts, *(Text(note) for note in notes)), outcome.shown)


def _finish(
    agent: Agent, call: Call, outcome: Outcome, title: str, seconds: float, budget: int
) -> Result:
    failed = isinstance(outcome, Failed)
    parts = (Text(outcome.why),) if failed else outcome.parts
    if budget:
        parts = tuple(
            Text(_fit(agent, call, part.text, budget)) if isinstance(part, Text) else part
            for part in parts
        )
    agent.emit(
        ToolFinished(
            call_id=call.id,
            name=call.name,
            failed=failed,
            text=plain(parts),
            shown="" if failed else outcome.shown,
            duration=seconds,
            refused=isinstance(outcome, _Refused),
            title=title,
        )
    )
    return Result(call.id, parts, failed=failed)


def _fit(agent: Agent, call: Call, text: str, budget: int) -> str:
    """Store a text that is over its budget in a file and leave a preview in its place."""
    if len(text) <= budget:
        return text
    folder = os.path.join(agent.context.storage, "results")  # noqa: PTH118 - a host's path
    safe = "".join(c if c.isalnum() or c in "-_" else "_" for c in call.id)
    path = os.path.join(folder, f"{safe}.txt")  # noqa: PTH118 - a host's path
    try:
        os.makedirs(folder, exist_ok=True)  # noqa: PTH103 - a host's path
        with open(path, "w", encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - likewise
            file.write(text)
        where = f"is in {path}: read the part you need"
    except OSError as error:
        where = f"could not be stored ({error}): ask for less of it"
    head = int(budget * _HEAD_SHARE)
    tail = budget - head
    dropped = len(text) - head - tail
    return (
        f"{text[:head]}\n\n[{dropped} characters left out here; the whole result of {len(text)} "
        f"characters {where}]\n\n{text[-tail:]}"
    )
