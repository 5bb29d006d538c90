"""A conversation that is there already, as the updates that an editor would have been sent."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import msgspec

from prong.face.acp.call_content import (
    STARTS_AGENT,
    CallFolder,
    intended,
    kind_of_tool,
    locations_of,
    raw_arguments,
    read_arguments,
    resulting,
)
from prong.face.acp.child_update import (
    call_id_of,
    report_content,
    started_by,
    starting_meta,
)
from prong.face.acp.event_update import plan_update
from prong.face.acp.session_update import (
    CallStart,
    CallStatus,
    SessionUpdate,
    TextBlock,
    UserChunk,
    reply_text,
    thought_text,
)
from prong.face.line import describe_end
from prong.view import (
    AgentView,
    Called,
    Item,
    PartialReply,
    Replied,
    Restarted,
    Said,
    TurnEnded,
    View,
)

_STATUS: dict[str, CallStatus] = {"running": "in_progress", "done": "completed"}


def past_updates(view: View, agent: AgentView, folder: CallFolder) -> Iterator[SessionUpdate]:
    """Tell an agent's conversation from its beginning; the folder is where it works."""
    numbers = count(1)
    for item in agent.transcript:
        if isinstance(item, Called):
            yield _call(view, agent, item, folder)
        else:
            yield from _item(item, f"past-{next(numbers)}")
    if agent.todos:
        yield plan_update(agent.todos)


def _item(item: Item, name: str) -> Iterator[SessionUpdate]:
    match item:
        case Said(kind="user" | "directive", text=text):
            yield UserChunk(content=TextBlock(text=text), message_id=name)
        case Said(kind="reply", text=text) | PartialReply(text=text):
            yield reply_text(text, name)
        case Replied(text=text, thinking=thinking):
            if thinking:
                yield thought_text(thinking, f"{name}-thought")
            if text:
                yield reply_text(text, name)
        case Restarted(reason=reason, detail=detail):
            yield reply_text(f"*(new prompt, {reason}: {detail})*", name)
        case TurnEnded(why=why, detail=detail):
            yield reply_text(f"*{describe_end(why, detail)}*", name)
        case _:
            # Notices, results and reminders are the model's; receipts stand with their calls.
            return


def _call(view: View, agent: AgentView, call: Called, folder: CallFolder) -> CallStart:
    arguments = read_arguments(call.arguments)
    content = resulting(call.name, call.shown, call.text, folder)
    status, meta = _STATUS.get(call.state, "failed"), msgspec.UNSET
    started = started_by(view, agent.path, call.call_id)
    if call.name in STARTS_AGENT and started is not None:
        content, meta = report_content(view, started), starting_meta(view, started)
        status = status if started.ended else _STATUS["running"]
    return CallStart(
        tool_call_id=call_id_of(agent.path, call.call_id),
        title=call.title or call.name,
        name=call.name,
        kind=kind_of_tool(call.name),
        status=status,
        content=content or intended(call.name, arguments),
        locations=locations_of(arguments, folder),
        raw_input=raw_arguments(call.arguments),
        meta=meta,
    )
