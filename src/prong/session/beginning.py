"""Brings a new or resumed session into a state from which it can go on."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import anyio.abc

from prong.agent import Agent
from prong.agent.answer import interrupted
from prong.config.model import left_out
from prong.cost.loss import Move
from prong.entry import Call, CallId, Reply, Results, ToolSpec, User
from prong.event import MAIN, EntryRecalled, RecalledCall, TitleChanged, TodosChanged, Warned
from prong.journal.note import Titled
from prong.journal.replay import Replay
from prong.session.end import tell_escaped
from prong.session.foundation import Foundation
from prong.session.git_state import git_state
from prong.session.hook_event import switch_told, tell_start, tell_switched
from prong.session.move import move
from prong.session.moving_cost import moving_cost, other_model
from prong.session.parts import Parts
from prong.session.preference import answer_schema
from prong.session.teaming import settle_team, take_up_team
from prong.system.bash_program import why_no_bash
from prong.team.announce import announce, tell_end
from prong.team.recovery import recover
from prong.tools.filter import is_function
from prong.tools.tool import Failed
from prong.wire.brief import needed_schema
from prong.wire.raw import raw


async def begin(parts: Parts, base: Foundation, group: anyio.abc.TaskGroup) -> None:
    """Take up what a resumed session left, and say to everybody that the session has begun."""
    agent, journal, options = parts.agent, base.journal, base.place.options
    warn = partial(_warn, agent)
    journal.note(MAIN, base.chosen.recorded)
    if options.name or (options.fork_session and journal.tally.title):
        # A copy is another session: the name goes on meaning the one it was given to.
        journal.note(MAIN, Titled(options.name or ""))
        agent.emit(TitleChanged(title=options.name or ""))
    if parts.leader is not None:
        await take_up_team(base, parts.leader)
    before = agent.conversation.prompt.head.model
    other = base.chosen.model != before
    switching = switch_told(agent, base.chosen.model) if other else {}
    running = _revive(parts, base, base.replay) if base.replay else set[str]()
    switched = agent.conversation.prompt.head.model != before
    if parts.leader is not None:
        await settle_team(parts.leader, running, warn)
    for lost in recover(parts.tasks, MAIN, base.replay, keep=running):
        warn(f"{lost} ended with the process that started it; its agent is told so")
    delivery, outbox = parts.tasks.delivery, parts.tasks.delivery.outbox
    delivery.subscribe(MAIN, agent.inbox, hold=parts.supervisor.held)
    await parts.memory.take_up()
    if base.replay is not None:
        group.start_soon(tell_escaped, parts, "which it started earlier, still runs")
    if outbox.damage:
        warn(
            f"{outbox.path} is damaged ({'; '.join(outbox.damage[:3])}); notices of finished "
            "commands may be missing, their output is in the folder beside it"
        )
    for warning in filter(None, (*base.place.warnings, why_no_bash())):
        warn(warning)
    if base.replay is None and not options.bare and options.member is None:
        parts.intake.note(await git_state(base.host, base.place.root, trusted=base.place.trusted))
    specs = [child.spec for child in parts.supervisor.children]
    spare = frozenset(spec.worktree.path for spec in specs if spec.worktree is not None)
    await parts.housekeeping.start(group, spare=spare)
    if switched:
        await tell_switched(parts, switching)
    source = "fork" if options.fork_session else "resume"
    await tell_start(parts, source if base.replay else "startup")


def _warn(agent: Agent, text: str) -> None:
    agent.emit(Warned(text=text))


def _revive(parts: Parts, base: Foundation, replay: Replay) -> set[str]:
    """Take up the agents of a resumed session where they were; gives the tasks that run again."""
    agent = parts.agent
    prompt = agent.conversation.prompt
    results = parts.supervisor.answered(replay, prompt) or interrupted(prompt)
    if results is not None:
        agent.conversation.append(results)
    if not parts.bus.began:
        _recall(agent)
    taken = parts.supervisor.resume(replay, run=not base.place.options.fork_session)
    for lost in taken.lost:
        _warn(agent, f"the notice of {lost} was lost; it is made up from the journal")
    if not parts.bus.began or parts.bus.mended:
        _introduce(parts)
    _compare(agent, base)
    return taken.running


def _introduce(parts: Parts) -> None:
    """Tell of children whose end no event has told, or not as the journal has it."""
    seen = parts.bus.view().agents
    for child in parts.supervisor.children:
        known = seen.get(child.spec.path)
        if child.status != "running" and (known is None or known.ended != child.status):
            announce(child, resumed=False)
            tell_end(child)


def _recall(agent: Agent) -> None:
    """Tell of a conversation that has no recorded events."""
    calls: dict[CallId, Call] = {}
    for kind, entry in agent.conversation.prompt.entries():
        match entry:
            case User(text=text) | Reply(text=text):
                agent.emit(EntryRecalled(kind=kind, text=text))
            case Results(results=results):
                for result in results:
                    call = _recalled_call(agent, calls.get(result.call_id), failed=result.failed)
                    agent.emit(EntryRecalled(kind=kind, text=result.text, call=call))
        if isinstance(entry, Reply):
            calls.update((call.id, call) for call in entry.calls)
    if agent.context.todos:
        agent.emit(TodosChanged(todos=agent.context.todos))


def _recalled_call(agent: Agent, call: Call | None, *, failed: bool) -> RecalledCall | None:
    """Tell of a call as its tool would; one that there is no more goes by its name."""
    if call is None:
        return None
    parsed = agent.kit.parse(call)
    title = "" if isinstance(parsed, Failed) else parsed[0].title(parsed[1])
    return RecalledCall(call.id, call.name, title, call.arguments, failed)


def _compare(agent: Agent, base: Foundation) -> None:
    """Keep the recorded head where it still serves; say so, or why a new one is needed."""
    place, chosen, head = base.place, base.chosen, agent.conversation.prompt.head
    if other_model(head, chosen):
        _tell_cost(agent, "model", chosen.model)
        move(agent, place, chosen, f"from {head.model} to {chosen.model}")
        return
    place.warn(*left_out(place.options, head.spec))
    if (kind := place.acts_as) is not None and kind.prompt not in head.spec.system:
        place.warn(f"the prompt of {kind.name!r} is left out: a resumed session keeps its own")
    specs = agent.kit.specs()
    if answer_schema(specs) not in (None, answer_schema(head.spec.tools)):
        _tell_cost(agent, "tools")
        move(agent, place, chosen, "the answer has a new schema", reason="tools")
        return
    if changed := _changed_functions(specs, head.spec.tools):
        _tell_cost(agent, "tools")
        move(agent, place, chosen, f"other parameters: {', '.join(changed)}", reason="tools")
        return
    now, then = set(agent.kit.shown), set(head.tools)
    # A member that is a fork has its leader's head, and fewer tools by design.
    if now != then and place.options.member is None and base.noted.member_of is None:
        changes = [
            *(f"+{n}" for n in sorted(now - then)),
            *(f"-{n}" for n in sorted(then - now)),
        ]
        place.warn(
            f"the tools have changed since this session began ({', '.join(changes)}); it goes "
            "on with the tools it had, so that its cache holds; a new session has the new ones"
        )


def _tell_cost(agent: Agent, why: Move, model: str = "") -> None:
    """Say what it costs that the conversation goes on under a new head."""
    if (loss := moving_cost(agent, why, model)) is not None:
        _warn(agent, loss.text)


def _changed_functions(now: Sequence[ToolSpec], then: Sequence[ToolSpec]) -> list[str]:
    """Name the functions that take something else than the recorded head says.

    Prong's own tools read what their older schemas asked for; a caller's function need not.
    """
    before = {tool.name: bytes(tool.schema) for tool in then if is_function(tool.name)}
    return [
        tool.name
        for tool in now
        if tool.name in before
        # A model that reads little was told less.
        and before[tool.name] not in (bytes(tool.schema), bytes(raw(needed_schema(tool))))
    ]
