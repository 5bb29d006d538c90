"""Makes updates for an editor of a session's events, one after the other.

An update goes to the session of the agent that it is about. A child has one of its own below its
parent's where the editor knows such sessions, or has loaded this one; elsewhere a child's tool
calls go to the session itself, tagged with the call that started it, and what it says is left to
its report.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import msgspec

from prong.event import (
    MAIN,
    AgentFinished,
    AgentStarted,
    CacheMissed,
    Envelope,
    Event,
    EventsSkipped,
    InputTaken,
    MemoryKept,
    PermissionAsked,
    PromptMoved,
    ReceiptIssued,
    ReplyDiscarded,
    ReplyFinished,
    RequestSent,
    TextDelta,
    ThinkingDelta,
    TitleChanged,
    TodosChanged,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    Warned,
    WorkKept,
    WorktreeEntered,
)
from prong.face.acp.call_content import (
    STARTS_AGENT,
    CallFolder,
    intended,
    kind_of_tool,
    locations_of,
    output_so_far,
    raw_arguments,
    read_arguments,
    resulting,
)
from prong.face.acp.child_update import (
    call_id_of,
    call_update,
    child_id,
    started_by,
    starting_call,
    state_update,
)
from prong.face.acp.editor_value import EditorAbility
from prong.face.acp.session_update import (
    CallStart,
    CallUpdate,
    CompactionUpdate,
    Meta,
    NoticeUpdate,
    PlanEntry,
    PlanUpdate,
    SessionUpdate,
    TextBlock,
    TitleUpdate,
    UserChunk,
    reply_text,
    thought_text,
)
from prong.face.line import describe_kept, describe_retry, describe_work
from prong.face.output import flat
from prong.ids import AgentPath, task_of, upwards
from prong.view import AgentView, Called, View

SentUpdate: TypeAlias = tuple[str, SessionUpdate]
"""An update, and the id of the session that it goes to."""

_OUTPUT = 4_000
"""Characters that are shown of what a running call has printed."""


def plan_update(todos: Iterable[Any]) -> PlanUpdate:
    """Give the list of things to do; all are of one weight."""
    return PlanUpdate(
        entries=tuple(
            PlanEntry(content=todo.content, priority="medium", status=todo.status) for todo in todos
        )
    )


class _Saying(msgspec.Struct):
    """What an editor has been sent of the reply that an agent is writing."""

    message_id: str
    text: str = ""
    thinking: str = ""
    torn: bool = False
    """Whether pieces of it were missed."""


class EventUpdates:
    """Remembers what an editor has been told of a session, and tells the rest."""

    def __init__(self, session_id: str, client: EditorAbility) -> None:
        """Tell an editor of a session."""
        self._id = session_id
        self._client = client
        self._saying: dict[str, _Saying] = {}
        self._calls: set[str] = set()
        """The tool calls that the editor has heard of, by the ids it has."""
        self._running: dict[str, AgentPath] = {}
        """Calls that run, by the ids that the editor has, with whose they are."""
        self._printed: dict[str, str] = {}
        self._loaded: set[str] = set()
        self._worktrees: dict[str, str] = {}
        """Working copies that agents have to themselves, by their paths in the tree."""

    def load(self, path: str) -> None:
        """Take note that the editor shows a child in a session of its own from now on."""
        self._loaded.add(path)

    def has_session(self, path: str) -> bool:
        """Whether an agent's updates go to a session of its own."""
        return path == MAIN or self._client.children or path in self._loaded

    def session_of(self, path: str) -> str:
        """Give the id of the session that an agent's updates go to."""
        return child_id(self._id, path) if self.has_session(path) else self._id

    def asking_session(self, path: str) -> str:
        """Give the id of the session on which an agent asks: its own only if editors expect it."""
        return child_id(self._id, path) if self._client.children else self._id

    def folder_of(self, view: View, path: str) -> CallFolder:
        """Say where an agent works: in a copy of its own, or where the one above it does."""
        for one in upwards(AgentPath(path)):
            agent = view.agents.get(one)
            if agent is not None and agent.isolation == "remote":
                return CallFolder("")
            if one in self._worktrees:
                return CallFolder.inside(self._worktrees[one], view.cwd)
        return CallFolder(view.cwd)

    def tag(self, view: View, path: str) -> Meta:
        """Say beside an update which child it is about, where its session does not."""
        if self.has_session(path):
            return msgspec.UNSET
        meta: dict[str, Any] = {"prong": {"agent": path}}
        if call := starting_call(view, path):
            meta["claudeCode"] = {"parentToolUseId": call}
        return meta

    def of(self, envelope: Envelope, view: View) -> list[SentUpdate]:
        """Give the updates that an event calls for."""
        path, event = envelope.agent, envelope.event
        match event:
            case RequestSent(sidecar=""):
                self._saying[path] = _Saying(f"{task_of(path)}-{envelope.seq}")
                return []
            case TextDelta() | ThinkingDelta():
                return self._saying_more(path, event)
            case ReplyFinished(sidecar=""):
                return self._said(path, event, f"{task_of(path)}-{envelope.seq}")
            case EventsSkipped():
                return self._missed(view, envelope.at)
            case ToolStarted() | ToolOutput() | ToolFinished():
                return self._called(path, event, view)
            case PermissionAsked():
                return [*self._pending(path, event, view), *self._child(path, event, view)]
            case _:
                noted = self._noted(path, event, envelope.seq)
                return [*self._child(path, event, view), *noted]

    def _saying_more(self, path: str, event: TextDelta | ThinkingDelta) -> list[SentUpdate]:
        saying = self._saying.get(path)
        if saying is None or saying.torn or not self.has_session(path):
            # What follows a gap comes with the end of the reply.
            return []
        to = self.session_of(path)
        if isinstance(event, TextDelta):
            saying.text += event.text
            return [(to, reply_text(event.text, saying.message_id))]
        saying.thinking += event.text
        return [(to, thought_text(event.text, f"{saying.message_id}-thought"))]

    def _said(self, path: str, event: ReplyFinished, name: str) -> list[SentUpdate]:
        """Tell what of a reply was missed, or came all at once."""
        saying = self._saying.pop(path, None) or _Saying(name)
        if not self.has_session(path):
            return []
        to, updates = self.session_of(path), list[SentUpdate]()
        if not saying.text and (thought := _rest(event.thinking, saying.thinking)):
            updates.append((to, thought_text(thought, f"{saying.message_id}-thought")))
        if rest := _rest(event.text, saying.text):
            updates.append((to, reply_text(rest, saying.message_id)))
        return updates

    def _missed(self, view: View, at: float) -> list[SentUpdate]:
        """Say that the editor read too slowly, and end the calls whose end it has missed."""
        text = "the editor has read too slowly, so that not everything is shown; load it again"
        updates = [*self._note(text, f"missed-{at:.0f}", "warning")]
        for saying in self._saying.values():
            saying.torn = True
        for call_id, path in [*self._running.items()]:
            agent = view.agents.get(path)
            own = call_id if path == MAIN else call_id.partition(":")[2]
            if agent is not None and own not in agent.open_calls:
                del self._running[call_id]
                ended = CallUpdate(tool_call_id=call_id, status="completed")
                updates.append((self.session_of(path), ended))
        return updates

    def _called(
        self, path: AgentPath, event: ToolStarted | ToolOutput | ToolFinished, view: View
    ) -> list[SentUpdate]:
        call_id, to = call_id_of(path, event.call_id), self.session_of(path)
        match event:
            case ToolStarted():
                self._running[call_id] = path
                folder = self.folder_of(view, path)
                update = self._started(call_id, event, folder, self.tag(view, path))
            case ToolOutput():
                text = (self._printed.get(call_id, "") + event.text)[-_OUTPUT:]
                self._printed[call_id] = text
                update = CallUpdate(
                    tool_call_id=call_id, content=output_so_far(text), meta=self.tag(view, path)
                )
            case ToolFinished():
                update = self._finished(path, call_id, event, view)
        return [(to, update)]

    def _started(
        self, call_id: str, event: ToolStarted, folder: CallFolder, meta: Meta
    ) -> CallStart | CallUpdate:
        arguments = read_arguments(event.arguments)
        fields: dict[str, Any] = {
            "tool_call_id": call_id,
            "title": flat(event.title or event.name),
            "name": event.name,
            "kind": kind_of_tool(event.name),
            "status": "in_progress",
            "content": intended(event.name, arguments),
            "locations": locations_of(arguments, folder),
            "raw_input": raw_arguments(event.arguments),
            "meta": meta,
        }
        return self._heard(call_id, fields)

    def _heard(self, call_id: str, fields: dict[str, Any]) -> CallStart | CallUpdate:
        """Begin a call for the editor, or go on with one that it has heard of."""
        if call_id in self._calls:
            return CallUpdate(**fields)
        self._calls.add(call_id)
        return CallStart(**fields)

    def _pending(self, path: str, event: PermissionAsked, view: View) -> list[SentUpdate]:
        """Tell of a call that waits for permission."""
        call_id, arguments = call_id_of(path, event.call_id), read_arguments(event.arguments)
        fields: dict[str, Any] = {
            "tool_call_id": call_id,
            "title": flat(event.title),
            "name": event.tool,
            "kind": kind_of_tool(event.tool),
            "status": "pending",
            "locations": locations_of(arguments, self.folder_of(view, path)),
            "raw_input": raw_arguments(event.arguments),
            "meta": self.tag(view, path),
        }
        return [(self.session_of(path), self._heard(call_id, fields))]

    def _finished(
        self, path: str, call_id: str, event: ToolFinished, view: View
    ) -> CallStart | CallUpdate:
        self._printed.pop(call_id, None)
        self._running.pop(call_id, None)
        meta = self.tag(view, path)
        bad = event.failed or event.refused or event.interrupted
        if event.name in STARTS_AGENT and not bad:
            # The agent that it has started may work on, and then ends the call when it ends.
            self._calls.add(call_id)
            started = started_by(view, path, event.call_id)
            if started is not None and started.ended:
                return self._on_call(view, started, AgentFinished(status=started.ended))
            return CallUpdate(tool_call_id=call_id, status="in_progress", meta=meta)
        fields: dict[str, Any] = {
            "tool_call_id": call_id,
            "status": "failed" if bad else "completed",
            "content": resulting(event.name, event.shown, event.text, self.folder_of(view, path)),
            "meta": meta,
        }
        if call_id not in self._calls:
            fields |= {"title": flat(event.title or event.name), "name": event.name}
            fields["kind"] = kind_of_tool(event.name)
        return self._heard(call_id, fields)

    def _child(self, path: AgentPath, event: Event, view: View) -> Iterator[SentUpdate]:
        """Tell of a child on its parent's session, and on the call that has started it."""
        child = view.agents.get(path)
        if child is None or path == MAIN:
            return
        to = self.session_of(child.parent)
        if self._client.children and (state := state_update(self._id, path, event)) is not None:
            yield to, state
        match event:
            case AgentStarted() | AgentFinished() | ReceiptIssued() if child.call_id:
                yield to, self._on_call(view, child, event)
            case ReceiptIssued():
                yield from self._note(event.text, f"receipt-{event.task_id}", "info")
            case _:
                return

    def _on_call(
        self, view: View, child: AgentView, event: AgentStarted | AgentFinished | ReceiptIssued
    ) -> CallUpdate:
        """Tell of a child on the call that has started it, which may be a child's in its turn."""
        update, tag = call_update(view, child, event), self.tag(view, child.parent)
        if isinstance(tag, dict) and isinstance(update.meta, dict):
            return msgspec.structs.replace(update, meta={**tag, **update.meta})
        return update

    def _noted(self, path: str, event: Event, seq: int) -> Iterator[SentUpdate]:
        """Tell what an event says in passing."""
        own = self.has_session(path)
        to = self.session_of(path)
        match event:
            case TodosChanged(todos=todos) if own:
                yield to, plan_update(todos)
            case InputTaken(kind="directive" | "user", text=text) if own and path != MAIN:
                chunk = UserChunk(content=TextBlock(text=text), message_id=f"input-{seq}")
                yield to, chunk
            case WorktreeEntered():
                self._worktrees[path] = event.path
            case TitleChanged(title=title):
                yield self._id, TitleUpdate(title=title or None)
            case PromptMoved(reason="compaction") if own and self._client.compactions:
                yield to, CompactionUpdate(compaction_id=f"compaction-{seq}", status="completed")
            case _:
                if isinstance(event, ReplyDiscarded) and path in self._saying:
                    # Nothing of the reply counts: the next try is another message.
                    before = self._saying[path].message_id
                    self._saying[path] = _Saying(f"{before}-{event.attempt}")
                if (note := _note_of(event, compactions=self._client.compactions)) is not None:
                    badge = "" if path == MAIN else f"[{task_of(AgentPath(path))}] "
                    yield from self._note(f"{badge}{note[0]}", f"note-{seq}", note[1])

    def _note(self, text: str, message_id: str, severity: Any) -> Iterator[SentUpdate]:
        yield self._id, note_update(text, message_id, severity, self._client)


def note_update(text: str, message_id: str, severity: Any, client: EditorAbility) -> SessionUpdate:
    """Tell the user something: as a notice, or where there are none as a message of its own."""
    if client.notices:
        return NoticeUpdate(severity=severity, title=text)
    return reply_text(f"\n*prong: {text}*\n\n", message_id)


def _note_of(event: Event, *, compactions: bool) -> tuple[str, str] | None:
    """Give what an event says to the user, and how grave it is."""
    match event:
        case Warned(text=text):
            return text, "warning"
        case ReplyDiscarded():
            return f"what was written of this reply is void: {describe_retry(event)}", "warning"
        case CacheMissed(why=why):
            return f"cache missed: {why}", "warning"
        case PromptMoved(reason=reason, detail=detail):
            return (
                None
                if reason == "compaction" and compactions
                else (f"new prompt, {reason}: {detail}", "info")
            )
        case WorkKept():
            return describe_work(event), "info"
        case MemoryKept():
            return describe_kept(event), "info"
        case _:
            return None


def _rest(whole: str, sent: str) -> str:
    """Give what of a text has not been sent."""
    return whole[len(sent) :] if whole.startswith(sent) else ""


def open_call(view: View, path: str, name: str) -> str:
    """Give the id of the call of a tool that an agent waits for; empty if there is none."""
    agent = view.agents.get(path)
    for call_id, place in agent.open_calls.items() if agent is not None else ():
        call = agent.transcript[place] if agent is not None else None
        if isinstance(call, Called) and call.name == name:
            return call_id
    return ""
