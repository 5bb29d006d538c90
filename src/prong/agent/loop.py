"""The loop: send, stream, append the reply, run its calls, append the results, repeat.

It ends on a reply without calls, a limit, calls that only repeat themselves, or an interrupt. An
interrupt is a cancellation: it may strike at any await, and wherever it strikes the stored
conversation is valid, because a reply is appended whole or not at all and its calls are answered in
a `finally`.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from prong.agent.agent import Agent, spent_by
from prong.agent.answer import interrupted
from prong.agent.compact import compact_if_due, shrink
from prong.agent.dispatch import answer
from prong.agent.request import request
from prong.entry import Text, User
from prong.errors import ContextOverflow
from prong.wire import Ended

LoopEnd: TypeAlias = Literal["done", "limit", "budget", "refused", "cut_off", "loop"]
_SILENT = "the last reply had no text"


class Stopped(msgspec.Struct, frozen=True):
    """How a run of the loop ended."""

    text: str
    """The text of the last reply."""
    why: LoopEnd
    detail: str = ""
    turns: int = 0
    """Requests that were made."""


async def run(agent: Agent) -> Stopped:
    """Work until there is nothing more to do.

    Raises ProviderError when the model cannot be reached, JournalFull when nothing can be stored.
    """
    turns, text = 0, ""
    agent.run.begin()
    while True:
        agent.take_inbox()
        if spent := spent_by(agent, turns):
            return Stopped(text, spent.why, spent.detail, turns)
        await compact_if_due(agent)
        ended = await _request(agent)
        turns += 1
        reply = ended.reply
        if reply.blocks:
            agent.conversation.append(reply)
        text = reply.text or text
        if reply.stop == "refusal":
            return _refused(agent, ended, text, turns)
        if reply.calls:
            agent.run.refusals.worked()
            await answer(agent, reply.calls)
            if (stopped := _called_off(agent, text, turns)) is not None:
                return stopped
        elif reply.stop == "length":
            return Stopped(text, "cut_off", "the reply reached the output limit", turns)
        elif reply.stop != "pause" and not agent.inbox and await _may_stop(agent, text):
            return Stopped(text, "done", "" if reply.text.strip() else _SILENT, turns)


def _called_off(agent: Agent, text: str, turns: int) -> Stopped | None:
    """Say how the run ends after its calls: a hook or a tool wants it to, or they only repeat."""
    run, stuck = agent.run, agent.run.repeats.stuck
    if run.halted:
        return Stopped(text, "refused", f"a hook ended the turn: {run.halted}", turns)
    if run.finale:
        return Stopped(run.finale, "done", "", turns)
    return Stopped(text, "loop", stuck, turns) if stuck else None


async def _may_stop(agent: Agent, text: str) -> bool:
    """Ask the hooks whether the work may end; if not, the model is told why."""
    if agent.lineage.parent:
        # A child's end is its supervisor's: hooks are asked there, by another name.
        return True
    refusals = agent.run.refusals
    told = {"stop_hook_active": refusals.active, "last_assistant_message": text}
    why = refusals.refusal(await agent.consult("Stop", told), agent.emit)
    if why is not None:
        agent.conversation.append(User((Text(why),), "reminder"))
    return why is None


def _refused(agent: Agent, ended: Ended, text: str, turns: int) -> Stopped:
    if (unrun := interrupted(agent.conversation.prompt)) is not None:
        agent.conversation.append(unrun)
    # Some providers repeat here that it is a refusal, which the reason says already.
    detail = ended.stop_detail.removeprefix("refusal").lstrip(": ")
    return Stopped(text, "refused", detail or "the model refused", turns)


async def _request(agent: Agent) -> Ended:
    """Send the conversation; while it is too long, make it shorter."""
    while True:
        try:
            return await request(agent.client, agent.conversation)
        except ContextOverflow as error:
            await shrink(agent, error)
