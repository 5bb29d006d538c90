"""What looks on while a session lives: hooks are told when somebody is wanted, others may act."""

from __future__ import annotations

import math

import anyio
import anyio.abc

from prong.config.late_hook import LateHooks
from prong.entry import Text, User
from prong.event import (
    MAIN,
    Envelope,
    PermissionAsked,
    QuestionAsked,
    TurnFinished,
    TurnStarted,
    Warned,
)
from prong.session.parts import Parts

IDLE = 60.0
"""Seconds after the end of a turn in which nobody has said anything."""


async def attend(group: anyio.abc.TaskGroup, parts: Parts) -> None:
    """Look on for hooks of the session and of its agents, and for who acts from outside."""
    if parts.place.options.allow_actions:
        from prong.session.control_socket import serve_control

        parts.control.open(ask=False)
        # Whoever has opened the session so can count on it.
        await group.start(serve_control, parts)
    else:
        group.start_soon(_take_control, parts)
    if any(hook.event == "Notification" for hook in parts.hooks.hooks):
        group.start_soon(notify, parts)
    if parts.hooks.late is not None:
        group.start_soon(_wake, parts, parts.hooks.late)


async def _take_control(parts: Parts) -> None:
    """Take commands from other processes, once somebody here has opened the way."""
    await parts.control.wait_opened()
    from prong.session.control_socket import serve_control

    await serve_control(parts)


async def _wake(parts: Parts, late: LateHooks) -> None:
    """Put before agents what hooks object to that ran beside their work; who waits is woken.

    Of an agent that is over the main agent is told.
    """
    while True:
        for agent_id, why in await late.wait_objections():
            if parts.life.stopped:
                parts.agent.emit(Warned(text=f"{why} (no agent is told any more)"))
                continue
            at_work = (
                child.agent
                for child in parts.supervisor.children
                if child.spec.task_id == agent_id and child.status == "running"
            )
            agent = next(at_work, parts.agent)
            kind = "directive" if agent.lineage.is_fork else "reminder"
            agent.inbox.put(User((Text(why),), kind))


async def notify(parts: Parts, *, idle: float = IDLE) -> None:
    """Tell hooks until the session ends."""
    due = math.inf
    with parts.bus.subscribe(None) as events:
        while not parts.bus.closed:
            envelope = None
            with anyio.move_on_after(due - anyio.current_time()):
                envelope = await anext(events, None)
                if envelope is None:
                    return
            if envelope is None:
                due = math.inf
                await _tell(parts, "idle_prompt", "Prong is waiting for your input", "Waiting")
                continue
            match envelope.event:
                case TurnFinished() if envelope.agent == MAIN and parts.agent.questions.attended:
                    due = anyio.current_time() + idle
                case TurnStarted() if envelope.agent == MAIN:
                    due = math.inf
                case _:
                    await _asked(parts, envelope)


async def _asked(parts: Parts, envelope: Envelope) -> None:
    match envelope.event:
        case PermissionAsked(tool=tool, title=title):
            needs = f"{tool} needs your permission: {title}"
            await _tell(parts, "permission_prompt", needs, "Permission needed")
        case QuestionAsked(questions=questions):
            first = questions[0].question if questions else ""
            await _tell(parts, "agent_needs_input", first, "A question waits")
        case _:
            pass


async def _tell(parts: Parts, kind: str, message: str, title: str) -> None:
    told = {"message": message, "title": title, "notification_type": kind}
    await parts.agent.consult("Notification", told, matcher=kind, heeds=False)
