"""Tells hooks when somebody is wanted at the terminal: a question waits, or nothing goes on."""

from __future__ import annotations

import math

import anyio

from prong.event import MAIN, Envelope, PermissionAsked, QuestionAsked, TurnFinished, TurnStarted
from prong.session.parts import Parts

IDLE = 60.0
"""Seconds after the end of a turn in which nobody has said anything."""


async def notify(parts: Parts, *, idle: float = IDLE) -> None:
    """Look on until the session ends; without a hook that wants to know, not at all."""
    if all(hook.event != "Notification" for hook in parts.hooks.hooks):
        return
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
    await parts.agent.inform("Notification", told, matcher=kind)
