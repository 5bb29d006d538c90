"""Makes a view of events, one after the other; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from prong.event import (
    MAIN,
    AgentFinished,
    AgentRested,
    AgentStarted,
    CacheMissed,
    CallDelta,
    Delta,
    EntryRecalled,
    Envelope,
    Event,
    EventsSkipped,
    InputTaken,
    LineChanged,
    MessageQueued,
    MessageUnqueued,
    ModeChanged,
    PermissionAsked,
    Progressed,
    PromptMoved,
    QuestionAsked,
    RecalledCall,
    ReceiptIssued,
    ReplyDiscarded,
    ReplyFinished,
    RequestFailed,
    RequestSent,
    RequestSettled,
    SessionFinished,
    SessionStarted,
    TaskFinished,
    TaskStarted,
    TextDelta,
    ThinkingDelta,
    TitleChanged,
    TodosChanged,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    TurnFinished,
    TurnStarted,
    Warned,
    WorkKept,
    WorktreeEntered,
)
from prong.foreign_json import NOT_JSON
from prong.ids import parent_of
from prong.view.state import (
    Accounted,
    AgentView,
    AskedView,
    Called,
    Figures,
    Live,
    OpenRequest,
    PartialReply,
    QueuedView,
    ReceiptView,
    Replied,
    Restarted,
    Said,
    TaskView,
    TurnEnded,
    View,
)

_OUTPUT = 4_000
"""Characters kept of a running call's output."""


def fold(view: View, envelope: Envelope) -> View:
    """Take an event into a view; one that is in it already changes nothing."""
    event = envelope.event
    if isinstance(event, Delta):
        return _flow(view, envelope.agent, event)
    if isinstance(event, EventsSkipped):
        if event.until <= view.seq:
            return view
        return replace(view, seq=event.until, at=envelope.at, holes=view.holes + 1)
    if envelope.seq <= view.seq:
        return view
    view = _session(view, envelope, event)
    agent = view.agents.get(envelope.agent)
    known = agent or AgentView(path=envelope.agent, parent=parent_of(envelope.agent))
    changed = _agent(known, event, envelope.at)
    if changed is known:
        return replace(view, seq=envelope.seq, at=envelope.at)
    agents = _put(view.agents, envelope.agent, changed)
    return replace(view, seq=envelope.seq, at=envelope.at, agents=agents)


def fold_all(envelopes: Iterable[Envelope], view: View | None = None) -> View:
    """Take events into a view, or make one of them."""
    return reduce(fold, envelopes, view or View())


def settled(view: View) -> View:
    """Leave out what only deltas have told."""
    agents = {path: replace(agent, live=None) for path, agent in view.agents.items()}
    return replace(view, agents=agents)


def _session(view: View, envelope: Envelope, event: Event) -> View:
    """Take in what an event says of the session as a whole."""
    match event:
        case SessionStarted():
            return replace(
                view,
                session_id=event.session_id,
                title=event.title or view.title,
                cwd=event.cwd,
                model=event.model,
                mode=event.mode,
                tools=event.tools,
                is_open=True,
            )
        case SessionFinished():
            return replace(view, is_open=False)
        case ModeChanged(mode=mode):
            return replace(view, mode=mode)
        case TitleChanged(title=title):
            return replace(view, title=title)
        case Warned(text=text):
            return replace(view, warnings=view.warnings.add(text))
        case PromptMoved(model=model) if model and envelope.agent == MAIN:
            return replace(view, model=model)
        case ReplyFinished() | ReplyDiscarded() | RequestFailed():
            if envelope.agent in view.agents and view.agents[envelope.agent].session:
                # It is in the books of the session that it works in.
                return view
            return replace(
                view,
                usage=view.usage + event.usage,
                cost=_sum(view.cost, event.cost),
                saved=_sum(view.saved, _spared(event)),
            )
        case _:
            return _work(view, envelope, event)


def _work(view: View, envelope: Envelope, event: Event) -> View:
    """Take in what an event says of tasks, questions and what children leave."""
    match event:
        case TaskStarted():
            task = TaskView(
                task_id=event.task_id,
                agent=envelope.agent,
                title=event.title,
                kind=event.kind,
                output_file=event.output_file,
                started_at=envelope.at,
            )
            return replace(view, tasks=_put(view.tasks, event.task_id, task))
        case TaskFinished(task_id=task_id):
            unknown = TaskView(task_id=task_id, agent=envelope.agent, title="", kind="")
            task = replace(
                view.tasks.get(task_id, unknown),
                state=event.status,
                summary=event.summary,
                ended_at=envelope.at,
            )
            return replace(view, tasks=_put(view.tasks, task_id, task))
        case PermissionAsked() | QuestionAsked():
            asked = AskedView(envelope.agent, event, envelope.at, envelope.seq)
            return replace(view, questions=_put(view.questions, event.request_id, asked))
        case RequestSettled(request_id=request_id):
            return replace(view, questions=_without(view.questions, request_id))
        case MessageQueued(message_id=message_id, text=text):
            waiting = QueuedView(message_id, text, envelope.at)
            return replace(view, queued=_put(view.queued, message_id, waiting))
        case MessageUnqueued(message_id=message_id):
            return replace(view, queued=_without(view.queued, message_id))
        case ReceiptIssued():
            return _accounted(view, envelope, event)
        case WorkKept():
            return replace(view, works=_put(view.works, envelope.agent, event))
        case _:
            return view


def _accounted(view: View, envelope: Envelope, event: ReceiptIssued) -> View:
    """Put a receipt beside those of its siblings, into the transcript of whoever sent them out."""
    try:
        paid = msgspec.json.decode(event.receipt, type=Figures)
    except NOT_JSON:
        paid = Figures(task_id=event.task_id)
    receipt = ReceiptView(event.text, event.receipt, paid)
    view = replace(view, receipts=_put(view.receipts, event.task_id, receipt))
    child = view.agents.get(envelope.agent)
    parent = view.agents.get(child.parent) if child is not None else None
    if parent is None:
        return view
    fan = paid.fan or event.task_id
    place = parent.fans.get(fan)
    if place is None:
        item = Accounted(envelope.at, fan, (receipt,))
        fans = _put(parent.fans, fan, len(parent.transcript))
        changed = replace(parent, transcript=parent.transcript.add(item), fans=fans)
    else:
        item = parent.transcript[place]
        assert isinstance(item, Accounted)
        others = {one.paid.task_id: one for one in item.receipts} | {paid.task_id: receipt}
        item = replace(item, receipts=tuple(others.values()))
        changed = replace(parent, transcript=parent.transcript.put(place, item))
    return replace(view, agents=_put(view.agents, parent.path, changed))


def _agent(agent: AgentView, event: Event, at: float) -> AgentView:
    """Take in what an event says of the agent it speaks of."""
    match event:
        case AgentStarted():
            return _started(agent, event, at)
        case AgentFinished():
            return replace(
                agent,
                ended=event.status,
                detail=event.detail,
                result=event.result,
                ended_at=at,
                live=None,
                branch=agent.branch if agent.kept else "",
            )
        case TurnStarted():
            return replace(agent, in_turn=True, rests="")
        case AgentRested(waits=waits):
            return replace(agent, rests=waits)
        case TurnFinished():
            return _turned(agent, event, at)
        case EntryRecalled(call=RecalledCall() as call, text=text):
            state = "failed" if call.failed else "done"
            item = Called(at, call.call_id, call.name, call.title, call.arguments, state, text)
            return replace(agent, transcript=agent.transcript.add(item))
        case InputTaken(kind=kind, text=text) | EntryRecalled(kind=kind, text=text):
            return replace(agent, transcript=agent.transcript.add(Said(at, kind, text)))
        case PromptMoved():
            moved = Restarted(at, event.reason, event.detail)
            model = event.model or agent.model
            transcript = agent.transcript.add(moved)
            return replace(agent, model=model, moved_at=at, transcript=transcript)
        case _:
            return _noted(agent, event, at)


def _noted(agent: AgentView, event: Event, at: float) -> AgentView:
    """Take in what an event says of an agent in passing."""
    match event:
        case PermissionAsked() | QuestionAsked():
            return replace(agent, asks=agent.asks + 1)
        case RequestSettled():
            return replace(agent, asks=max(0, agent.asks - 1))
        case TodosChanged(todos=todos):
            return replace(agent, todos=todos)
        case WorktreeEntered(branch=branch, node=node):
            # Whatever was the matter with what leads there, the agent is there now.
            return replace(agent, branch=branch, kept=False, away=False, node=node, line="")
        case LineChanged(text=text):
            return replace(agent, line=text)
        case WorkKept(branch=branch, away=away):
            return replace(agent, branch=branch, kept=not away, away=away)
        case CacheMissed(why=why):
            return replace(agent, missed=why)
        case _:
            return _exchange(agent, event, at)


def _turned(agent: AgentView, event: TurnFinished, at: float) -> AgentView:
    """End a turn; that it ended otherwise than by a reply stays in the transcript."""
    # A reply that was cut off says so itself.
    if event.why == "cut_off" or (event.why == "done" and not event.detail):
        return replace(agent, in_turn=False)
    ended = TurnEnded(at, event.why, event.detail)
    return replace(agent, in_turn=False, transcript=agent.transcript.add(ended))


def _started(agent: AgentView, event: AgentStarted, at: float) -> AgentView:
    return replace(
        agent,
        kind=event.kind,
        agent_type=event.agent_type,
        parent=event.parent,
        title=event.title,
        task_id=event.task_id,
        call_id=event.call_id,
        model=event.model,
        isolation=event.isolation,
        target=event.target,
        session=event.session,
        member=event.member,
        colour=event.colour,
        rests="",
        notify=event.notify,
        run=event.run,
        started_at=at,
        ended_at=None,
        ended="",
        detail="",
        result="",
    )


def _exchange(agent: AgentView, event: Event, at: float) -> AgentView:
    """Take in what an event says of requests and calls."""
    match event:
        case RequestSent():
            sent = OpenRequest(event.request_id, at, event.sidecar)
            sent_at = agent.sent_at if event.sidecar else at
            lives = agent.lives if event.sidecar else event.lives
            opened = (*agent.open_requests, sent)
            return replace(agent, open_requests=opened, sent_at=sent_at, lives=lives)
        case ReplyDiscarded():
            tried = tuple(
                replace(one, tries=one.tries + 1, void=event.why, again_at=at + event.retry_in)
                if one.id == event.request_id
                else one
                for one in agent.open_requests
            )
            return replace(_paid(agent, event), open_requests=tried, live=None)
        case RequestFailed():
            return _given_up(_answered(_paid(agent, event), event), event, at)
        case ReplyFinished():
            return _replied(_answered(_paid(agent, event), event), event, at)
        case ToolStarted():
            call = Called(at, event.call_id, event.name, event.title, event.arguments)
            opened = _put(agent.open_calls, event.call_id, len(agent.transcript))
            return replace(agent, transcript=agent.transcript.add(call), open_calls=opened)
        case ToolFinished():
            return _returned(agent, event, at)
        case _:
            return agent


def _paid(agent: AgentView, event: ReplyFinished | ReplyDiscarded | RequestFailed) -> AgentView:
    return replace(agent, usage=agent.usage + event.usage, cost=_sum(agent.cost, event.cost))


def _answered(agent: AgentView, event: ReplyFinished | RequestFailed) -> AgentView:
    left = tuple(one for one in agent.open_requests if one.id != event.request_id)
    return replace(agent, open_requests=left, live=agent.live if event.sidecar else None)


def _given_up(agent: AgentView, event: RequestFailed, at: float) -> AgentView:
    """Keep what had come of a reply: whoever has read it may look for it."""
    if not event.text:
        return agent
    return replace(agent, transcript=agent.transcript.add(PartialReply(at, event.text)))


def _replied(agent: AgentView, event: ReplyFinished, at: float) -> AgentView:
    if event.sidecar:
        return agent
    said = Replied(at, event.text, event.thinking, event.stop, event.usage, event.cost)
    return replace(
        agent,
        requests=agent.requests + 1,
        last=event.usage,
        transcript=agent.transcript.add(said),
    )


def _returned(agent: AgentView, event: ToolFinished, at: float) -> AgentView:
    place = agent.open_calls.get(event.call_id)
    if place is None:
        # It never started: refused, or not understood.
        call = Called(at, event.call_id, event.name, event.title)
        return replace(agent, transcript=agent.transcript.add(_result(call, event)))
    call = agent.transcript[place]
    assert isinstance(call, Called)
    live = agent.live
    if live is not None and live.outputs:
        live = replace(live, outputs=_without(live.outputs, event.call_id))
    return replace(
        agent,
        transcript=agent.transcript.put(place, _result(call, event)),
        open_calls=_without(agent.open_calls, event.call_id),
        live=live,
    )


def _result(call: Called, event: ToolFinished) -> Called:
    if event.refused:
        state = "refused"
    elif event.interrupted:
        state = "interrupted"
    else:
        state = "failed" if event.failed else "done"
    return replace(call, state=state, text=event.text, shown=event.shown, duration=event.duration)


def _flow(view: View, path: str, event: Delta) -> View:
    """Take a delta in; of an agent that nobody knows it tells nothing."""
    agent = view.agents.get(path)
    if agent is None:
        return view
    live = agent.live or Live()
    match event:
        case TextDelta(text=text):
            live = replace(live, text=live.text + text, progress=None)
        case ThinkingDelta(text=text):
            live = replace(live, thinking=live.thinking + text, progress=None)
        case CallDelta(name=name):
            live = replace(live, writing=name)
        case ToolOutput(call_id=call_id, text=text):
            kept = (live.outputs.get(call_id, "") + text)[-_OUTPUT:]
            live = replace(live, outputs=_put(live.outputs, call_id, kept))
        case Progressed():
            live = replace(live, progress=(event.what, event.done, event.total))
    return replace(view, agents=_put(view.agents, path, replace(agent, live=live)))


def _spared(event: ReplyFinished | ReplyDiscarded | RequestFailed) -> float | None:
    """Say what the cache saved of a request's price."""
    if not event.usage.input:
        return 0.0
    if event.uncached is None or event.cost is None:
        return None
    return event.uncached - event.cost


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


_Value = TypeVar("_Value")


def _put(held: Mapping[str, _Value], key: str, value: _Value) -> dict[str, _Value]:
    return {**held, key: value}


def _without(held: Mapping[str, _Value], key: str) -> dict[str, _Value]:
    return {name: value for name, value in held.items() if name != key}
