"""The calls of one reply: read, permitted, run, answered.

Calls that only read run together, calls that write run one after another, and results always come
in call order. Whatever happens here (a failure, an interrupt, a crash of a tool) every call gets a
result, so the stored conversation stays valid.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence

import anyio

from prong.agent.agent import Agent
from prong.agent.answer import INTERRUPTED
from prong.agent.leave import Leave, ask_leave, payload
from prong.agent.lineage import contained
from prong.entry import Call, Result, Results, Text, plain
from prong.errors import Contained
from prong.event import ToolFinished, ToolStarted
from prong.tools.base import Done, Failed, Outcome

_HEAD_SHARE = 0.7
_TRIES = 3
"""Identical refused calls after which an agent is stopped."""


class _Refused(Failed, frozen=True):
    """A call that was not allowed to run."""


class _Repeated(_Refused, frozen=True):
    """A call that came too often."""


async def answer(agent: Agent, calls: Sequence[Call]) -> None:
    """Run calls and append their results."""
    results: list[Result | None] = [None] * len(calls)
    agent.repeats.begin_reply()

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
    if (why := agent.repeats.refuse(call)) is not None:
        return _finish(agent, call, _Repeated(why), "", 0.0, 0)
    parsed = agent.kit.parse(call)
    if isinstance(parsed, Failed):
        return _finish(agent, call, parsed, "", 0.0, 0)
    if agent.halted:
        return _finish(agent, call, _Refused(f"not run: {agent.halted}"), "", 0.0, 0)
    tool, args = parsed
    start = time.monotonic()
    try:
        leave = await ask_leave(agent, call, tool, args)
    except OSError as error:
        return _finish(agent, call, Failed(f"{call.name}: {error}"), tool.title(args), 0.0, 0)
    outcome = await _attempt(agent, leave)
    seconds = time.monotonic() - start
    return _finish(agent, call, outcome, tool.title(leave.args), seconds, tool.budget)


async def _attempt(agent: Agent, leave: Leave) -> Outcome:
    """Run a call that may run, and let hooks have their say afterwards."""
    if leave.refused is not None:
        return _Refused("\n\n".join([leave.refused, *leave.notes]))
    call, tool, args = leave.call, leave.tool, leave.args
    title = tool.title(args)
    agent.emit(ToolStarted(call_id=call.id, name=call.name, arguments=call.arguments, title=title))
    try:
        outcome = await tool.run(call.id, args, agent.context)
    except OSError as error:
        return _with_notes(Failed(f"{call.name}: {error}"), leave.notes)
    response = plain(outcome.parts) if isinstance(outcome, Done) else outcome.why
    told = payload(call) | {"tool_response": response}
    after = agent.heed(await agent.hooks.fire("PostToolUse", told, matcher=call.name))
    objection = () if after.block is None else (f"A hook objects: {after.block}",)
    return _with_notes(outcome, (*leave.notes, *after.context, *objection))


def _contained(agent: Agent, call: Call, why: str) -> Failed:
    """Refuse for good; one who keeps trying is stopped."""
    agent.refusals[call.name, call.arguments] += 1
    if agent.refusals[call.name, call.arguments] >= _TRIES:
        raise Contained(
            f"{agent.path} was stopped: it repeated a call of {call.name} that is closed to it"
        )
    return _Refused(why)


def _with_notes(outcome: Outcome, notes: Sequence[str]) -> Outcome:
    if not notes:
        return outcome
    if isinstance(outcome, Failed):
        return Failed("\n\n".join([outcome.why, *notes]))
    return Done((*outcome.parts, *(Text(note) for note in notes)), outcome.shown)


def _finish(
    agent: Agent, call: Call, outcome: Outcome, title: str, seconds: float, budget: int
) -> Result:
    if not isinstance(outcome, _Repeated):
        tool = agent.kit.get(call.name)
        writes = tool is not None and tool.effect == "writes"
        outcome = agent.repeats.told(call, outcome, seconds=seconds, writes=writes)
    failed = isinstance(outcome, Failed)
    parts = (Text(outcome.why),) if failed else outcome.parts
    if budget:
        parts = tuple(
            Text(fit(agent, call.id, part.text, budget)) if isinstance(part, Text) else part
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


def fit(agent: Agent, call_id: str, text: str, budget: int) -> str:
    """Store a text that is over its budget in a file and leave a preview in its place."""
    if len(text) <= budget:
        return text
    folder = os.path.join(agent.context.storage, "results")  # noqa: PTH118 - a host's path
    safe = "".join(c if c.isalnum() or c in "-_" else "_" for c in call_id)
    path = os.path.join(folder, f"{safe}.txt")  # noqa: PTH118 - a host's path
    try:
        os.makedirs(folder, exist_ok=True)  # noqa: PTH103 - a host's path
        with open(path, "w", encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - likewise
            file.write(agent.secrets.mask(text))
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
