"""The calls of one reply: read, permitted, run, answered.

Calls that only read run together, calls that write run one after another, and results always come
in call order. Whatever happens here (a failure, an interrupt, a crash of a tool) every call gets a
result, so the stored conversation stays valid.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import partial
from typing import Any

import anyio
import msgspec

from prong.agent.agent import Agent
from prong.agent.answer import INTERRUPTED
from prong.agent.gate import CheckedCall
from prong.agent.hook_payload import outcome_payload
from prong.agent.lineage import contained
from prong.agent.permission import ask_outside, ask_permission, consult_on
from prong.agent.skill_use import delegated, put_together
from prong.entry import Call, Image, Part, Result, Results, Text, plain
from prong.errors import Contained
from prong.event import ToolFinished, ToolStarted, Warned
from prong.tools.mcp_search import meant
from prong.tools.tool import CallOutcome, Done, Failed, Together, Tool, is_sandboxed, is_together

_HEAD_SHARE = 0.7
_TRIES = 3
"""Identical refused calls after which an agent is stopped."""
_PARTING = 3.0
"""Seconds that telling hooks of a call that was cut off may hold up its end."""


class _NotAllowed(Failed, frozen=True):
    """A call that was not allowed to run."""


class _Repeated(_NotAllowed, frozen=True):
    """A call that came too often."""


async def answer(agent: Agent, calls: Sequence[Call]) -> None:
    """Run calls and append their results."""
    results: dict[int, Result] = {}
    calls = [meant(call) for call in calls]
    tools = [agent.kit.get(call.name) for call in calls]
    agent.run.repeats.begin_reply()

    async def perform(index: int) -> None:
        results[index] = await _perform(agent, calls[index])

    async def perform_together(tool: Together, indexes: list[int]) -> None:
        done = await _perform_together(agent, tool, [calls[index] for index in indexes])
        results.update(zip(indexes, done, strict=True))

    try:
        for group in _groups(tools):
            alone, together = _parted(tools, group)
            works = [partial(perform, index) for index in alone]
            works += [partial(perform_together, *whole) for whole in together]
            await _run_beside(works)
    finally:
        filled = (results.get(index) or _interrupted(call) for index, call in enumerate(calls))
        agent.conversation.append(Results(tuple(filled)))


async def _run_beside(works: Sequence[Callable[[], Coroutine[Any, Any, None]]]) -> None:
    """Do all of them at the same time; one that is alone needs no task of its own."""
    if len(works) == 1:
        await works[0]()
        return
    try:
        async with anyio.create_task_group() as running:
            for work in works:
                running.start_soon(work)
    except BaseExceptionGroup as failures:
        # As if the call that failed had run alone.
        raise failures.exceptions[0] from failures


def _interrupted(call: Call) -> Result:
    return Result(call.id, (Text(INTERRUPTED),), failed=True)


def _parted(
    tools: Sequence[Tool | None], group: list[int]
) -> tuple[list[int], list[tuple[Together, list[int]]]]:
    """Tell the calls of a group that run by themselves from those that a tool takes together."""
    alone: list[int] = []
    together: dict[int, tuple[Together, list[int]]] = {}
    for index in group:
        tool = tools[index]
        if is_together(tool):
            together.setdefault(id(tool), (tool, []))[1].append(index)
        else:
            alone.append(index)
    return alone, list(together.values())


def _groups(tools: Sequence[Tool | None]) -> Iterator[list[int]]:
    """Give the places of calls that run together: those that only read, as far as they adjoin."""
    group: list[int] = []
    for index, tool in enumerate(tools):
        if tool is not None and tool.effect == "reads":
            group.append(index)
            continue
        if group:
            yield group
            group = []
        yield [index]
    if group:
        yield group


class _Lost(Failed, frozen=True):
    """A call that was cut off."""


class _Admitted(msgspec.Struct, frozen=True):
    """A call that may run, and what faces call it."""

    checked: CheckedCall
    title: str
    begun: float
    """When it began to run: whoever waited for an answer has not made it slow."""


async def _perform(agent: Agent, call: Call) -> Result:
    admitted = await _admit(agent, call)
    if isinstance(admitted, Result):
        return admitted
    try:
        try:
            outcome = await _run(agent, admitted.checked)
        except OSError as error:
            outcome = Failed(f"{call.name}: {error}")
        return await _conclude(agent, admitted, outcome)
    except BaseException:
        await _see_off(agent, [admitted])
        raise


async def _run(agent: Agent, checked: CheckedCall) -> CallOutcome:
    """Run a call, held to its profile; once more without, if the user wants that."""
    call, tool = checked.call, checked.tool
    if not is_sandboxed(tool):
        return await tool.run(call.id, checked.args, agent.context)
    outcome = await tool.run_in(call.id, checked.args, agent.context, checked.profile)
    if not isinstance(outcome, Failed) or not outcome.held:
        return outcome
    gate = agent.gate
    ask = ask_outside if gate is None else gate.outside
    freed = await ask(agent, checked, outcome.held)
    if freed is None:
        agent.emit(Warned(text=f"{checked.tool.title(checked.args)}: {outcome.held}"))
        return outcome
    again = await tool.run_in(call.id, checked.args, agent.context, freed.profile)
    note = "[It failed in the sandbox first; the user let it run again outside.]"
    return _with_notes(again, (note,))


async def _perform_together(agent: Agent, tool: Together, calls: Sequence[Call]) -> list[Result]:
    """Run calls that a tool takes whole, once it is known of each of them whether it may run."""
    found: list[_Admitted | Result] = [_interrupted(call) for call in calls]

    async def admit(index: int) -> None:
        found[index] = await _admit(agent, calls[index])

    async with anyio.create_task_group() as asking:
        for index in range(len(calls)):
            asking.start_soon(admit, index)
    admitted = [one for one in found if isinstance(one, _Admitted)]
    given = [(one.checked.call.id, one.checked.args) for one in admitted]
    results: dict[str, Result] = {}
    try:
        outcomes = await tool.run_all(given, agent.context) if given else []
        for one, outcome in zip(admitted, outcomes, strict=True):
            results[one.checked.call.id] = await _conclude(agent, one, outcome)
    except BaseException:
        await _see_off(agent, [one for one in admitted if one.checked.call.id not in results])
        raise
    return [one if isinstance(one, Result) else results[one.checked.call.id] for one in found]


async def _see_off(agent: Agent, lost: Sequence[_Admitted]) -> None:
    """Say of calls that were cut off that they ended: whoever saw them start sees that."""
    for one in lost:
        seconds = time.monotonic() - one.begun
        _finish(agent, one.checked.call, _Lost(INTERRUPTED), one.title, seconds)
    with anyio.move_on_after(_PARTING, shield=True):
        for one in lost:
            await _tell_lost(agent, one)


async def _tell_lost(agent: Agent, admitted: _Admitted) -> None:
    """Tell hooks of a call that was cut off; they run beside what comes, and decide nothing."""
    checked = admitted.checked
    ran = time.monotonic() - admitted.begun
    outcome = outcome_payload(_Lost(INTERRUPTED), ran, interrupted=True)
    await consult_on(agent, "PostToolUseFailure", checked, outcome)


async def _admit(agent: Agent, call: Call) -> _Admitted | Result:
    """Read a call and ask for permission; gives its result if it may not run."""
    if (why := contained(agent.lineage, call.name)) is not None:
        return _finish(agent, call, _contained(agent, call, why))
    if (why := agent.run.repeats.refuse(call)) is not None:
        return _finish(agent, call, _Repeated(why))
    parsed = agent.kit.parse(call)
    if isinstance(parsed, Failed):
        return _finish(agent, call, parsed)
    if halted := agent.run.halted:
        return _finish(agent, call, _NotAllowed(f"not run: {halted}"))
    tool, args = parsed
    try:
        checked = await _check(agent, call, tool, args)
    except OSError as error:
        return _finish(agent, call, Failed(f"{call.name}: {error}"), tool.title(args))
    title = tool.title(checked.args)
    if checked.refused is not None:
        refused = _NotAllowed("\n\n".join([checked.refused, *checked.notes]))
        return _finish(agent, call, refused, title, tool=tool)
    run = checked.call
    agent.emit(ToolStarted(call_id=run.id, name=run.name, arguments=run.arguments, title=title))
    return _Admitted(checked, title, time.monotonic())


async def _check(agent: Agent, call: Call, tool: Tool, args: Any) -> CheckedCall:
    if agent.gate is not None:
        return await agent.gate.check(agent, call, tool, args)
    return await ask_permission(agent, call, tool, args)


async def _conclude(agent: Agent, admitted: _Admitted, outcome: CallOutcome) -> Result:
    """Let hooks have their say on an outcome, and tell of it."""
    checked = admitted.checked
    call = checked.call
    outcome, lent = await _with_skill(agent, call, outcome)
    event = "PostToolUseFailure" if isinstance(outcome, Failed) else "PostToolUse"
    ran = time.monotonic() - admitted.begun
    after = await consult_on(agent, event, checked, outcome_payload(outcome, ran))
    objection = () if after.block is None else (f"A hook objects: {after.block}",)
    if isinstance(outcome, Done) and outcome.ends:
        agent.run.end_with(outcome.ends)
    if isinstance(outcome, Done) and after.output is not None:
        outcome = msgspec.structs.replace(outcome, parts=(Text(after.output),), shown="")
    outcome = _with_notes(outcome, (*checked.notes, *lent, *after.context, *objection))
    seconds = time.monotonic() - admitted.begun
    return _finish(agent, call, outcome, admitted.title, seconds, checked.tool)


async def _with_skill(
    agent: Agent, call: Call, outcome: CallOutcome
) -> tuple[CallOutcome, tuple[str, ...]]:
    """Put together the skill that a call has used, or have an agent of its own work on it.

    Also gives what to tell the model of what the call allows: to the turn, if it goes on here.
    """
    if not isinstance(outcome, Done) or outcome.skill is None:
        return outcome, _lend(agent, outcome)
    forbids = outcome.skill.skill.forbids
    if forbids and agent.gate is not None:
        # Whoever decides on its calls is elsewhere, and would not know.
        why = "forbids tools (disallowed-tools), which cannot be held for an agent in a process of"
        return Failed(f"the skill {outcome.skill.skill.name} {why} its own; it is not used"), ()
    own = msgspec.structs.replace(agent, policy=agent.policy.lending(outcome.allows))
    text = await put_together(own, call.id, outcome.skill, partial(_perform, own))
    asked = delegated(agent, outcome.skill, text)
    if asked is None:
        agent.policy.bar(forbids)
        return Done((Text(text),), outcome.shown), _lend(agent, outcome)
    return (asked if isinstance(asked, Failed) else await _delegate(agent, call, asked)), ()


async def _delegate(agent: Agent, call: Call, asked: Call) -> CallOutcome:
    """Start the agent that a skill asks for, if it may be."""
    # The call that is answered is the skill's: by its id the agent is known when a process dies.
    asked = msgspec.structs.replace(asked, id=call.id)
    parsed = agent.kit.parse(asked)
    if isinstance(parsed, Failed):
        return parsed
    checked = await _check(agent, asked, *parsed)
    if checked.refused is not None:
        return _NotAllowed("\n\n".join([checked.refused, *checked.notes]))
    return await checked.tool.run(call.id, checked.args, agent.context)


async def perform_call(agent: Agent, call: Call) -> Result:
    """Run a call that no reply has made, by all that holds for one; it is not stored."""
    return await _perform(agent, call)


def _lend(agent: Agent, outcome: CallOutcome) -> tuple[str, ...]:
    """Let an agent have what a call allows; gives what to tell the model if it may not."""
    rules = outcome.allows if isinstance(outcome, Done) else ()
    if not rules or agent.policy.lend(rules):
        return ()
    named = ", ".join(str(rule) for rule in rules)
    return (f"[What this allows without asking ({named}) is for the main agent alone.]",)


def _contained(agent: Agent, call: Call, why: str) -> Failed:
    """Refuse for good; one who keeps trying is stopped."""
    if agent.run.repeats.refuse_for_good(call) >= _TRIES:
        raise Contained(
            f"{agent.path} was stopped: it repeated a call of {call.name} that is closed to it"
        )
    return _NotAllowed(why)


def _with_notes(outcome: CallOutcome, notes: Sequence[str]) -> CallOutcome:
    if not notes:
        return outcome
    if isinstance(outcome, Failed):
        return Failed("\n\n".join([outcome.why, *notes]))
    return Done((*outcome.parts, *(Text(note) for note in notes)), outcome.shown)


def _finish(
    agent: Agent,
    call: Call,
    outcome: CallOutcome,
    title: str = "",
    seconds: float = 0.0,
    tool: Tool | None = None,
) -> Result:
    """Tell of a call's end and give its result, which has to fit the tool's budget, if it ran."""
    if not isinstance(outcome, _Repeated):
        writes = tool is not None and tool.effect == "writes"
        outcome = agent.run.repeats.told(call, outcome, seconds=seconds, writes=writes)
    lost = isinstance(outcome, _Lost)
    refused = isinstance(outcome, _NotAllowed)
    failed = isinstance(outcome, Failed)
    printed = agent.context.outputs.pop(call.id, "")
    parts = (Text(outcome.why),) if failed else tuple(map(_shown, outcome.parts))
    if tool is not None and tool.budget:
        parts = tuple(
            Text(fit(agent, call.id, part.text, tool.budget)) if isinstance(part, Text) else part
            for part in parts
        )
    agent.emit(
        ToolFinished(
            call_id=call.id,
            name=call.name,
            failed=failed,
            text=plain(parts),
            shown=printed if lost else "" if failed else outcome.shown,
            duration=seconds,
            refused=refused,
            interrupted=lost,
            title=title,
            arguments=call.arguments if refused else "",
        )
    )
    return Result(call.id, parts, failed=failed)


def _shown(part: Part) -> Part:
    """Give a part of a result; in the place of a picture that no provider takes, why it is not."""
    if not isinstance(part, Image):
        return part
    from prong.tools.files.picture import check_image

    found = check_image(part)
    return Text(f"[a picture was left out: {found}]") if isinstance(found, str) else found


def fit(agent: Agent, call_id: str, text: str, budget: int) -> str:
    """Store a text that is over its budget in a file and leave a preview in its place."""
    if len(text) <= budget:
        return text
    safe = "".join(c if c.isalnum() or c in "-_" else "_" for c in call_id)
    data = agent.conversation.secrets.mask(text).encode(errors="replace")
    try:
        path = agent.context.host.storage.write(f"results/{safe}.txt", data)
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
