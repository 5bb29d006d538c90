"""What there is to see of a session at one moment, as values that never change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

from prong.entry import CallId, EntryKind, StopReason, Usage
from prong.event import MAIN, PermissionAsked, QuestionAsked, Todo, WorkKept
from prong.ids import AgentPath, RequestId, TaskId
from prong.view.series import Series


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What a receipt says, as far as it is drawn; dollars are None where a price is unknown."""

    task_id: str = ""
    kind: str = ""
    status: str = ""
    fan: str = ""
    """Task id of the first of the siblings."""
    siblings: int = 0
    """How many there are; 0 where that is not known."""
    bytes_shared: int = 0
    tokens_shared: int = 0
    read: int = 0
    """Of its first request."""
    dispatch: str = ""
    requests: int = 0
    usage: Usage = Usage()
    cost: float | None = None
    uncached: float | None = None
    unshared: float | None = None
    miss: str = ""


class ReceiptView(msgspec.Struct, frozen=True):
    """A receipt, in one line, as JSON, and what is drawn of it."""

    text: str
    receipt: msgspec.Raw
    paid: Figures = Figures()


class Said(msgspec.Struct, frozen=True, tag_field="type", tag="said"):
    """Something that was put before the model; of another kind only if it was recalled."""

    at: float
    kind: EntryKind
    text: str


class Replied(msgspec.Struct, frozen=True, tag_field="type", tag="replied"):
    """A reply of the model."""

    at: float
    text: str
    thinking: str
    stop: StopReason
    usage: Usage
    cost: float | None


class PartialReply(msgspec.Struct, frozen=True, tag_field="type", tag="partial_reply"):
    """What had come of a reply when its request ended; people have seen it, no model will."""

    at: float
    text: str


class TurnEnded(msgspec.Struct, frozen=True, tag_field="type", tag="turn_ended"):
    """Why a turn has ended, where its last reply does not say it."""

    at: float
    why: str
    """As in `TurnFinished`."""
    detail: str


class Called(msgspec.Struct, frozen=True, tag_field="type", tag="called"):
    """A tool call, with its result once it has one."""

    at: float
    call_id: CallId
    name: str
    title: str
    arguments: str = ""
    state: Literal["running", "done", "failed", "refused", "interrupted"] = "running"
    text: str = ""
    """What the model saw of its result."""
    shown: str = ""
    """What people should see instead."""
    duration: float = 0.0


class Restarted(msgspec.Struct, frozen=True, tag_field="type", tag="restarted"):
    """From here on the model sees a new prompt."""

    at: float
    reason: str
    detail: str


class Accounted(msgspec.Struct, frozen=True, tag_field="type", tag="accounted"):
    """What the children of one fan-out have shared and paid, as far as they have ended."""

    at: float
    fan: str
    """Task id of the first of them."""
    receipts: tuple[ReceiptView, ...]


Item: TypeAlias = Said | Replied | PartialReply | Called | Restarted | Accounted | TurnEnded
"""One line of a transcript."""


class Live(msgspec.Struct, frozen=True):
    """What deltas have told so far; void as soon as an event says all of it."""

    text: str = ""
    thinking: str = ""
    writing: str = ""
    """The tool whose call is being written."""
    progress: tuple[str, int, int] | None = None
    """What a model on this machine is at, how far it is, and of how much."""
    outputs: Mapping[str, str] = {}
    """The last output of running calls, by their ids."""


class OpenRequest(msgspec.Struct, frozen=True):
    """A request on its way."""

    id: RequestId
    at: float
    sidecar: str = ""
    tries: int = 1
    void: str = ""
    """Why the last try was given up, if one was."""
    again_at: float = 0.0
    """When the next one is made, or was."""


State: TypeAlias = Literal["waiting", "idle", "working", "asking", "completed", "failed", "killed"]


class AgentView(msgspec.Struct, frozen=True, kw_only=True):
    """One agent."""

    path: AgentPath
    kind: Literal["main", "fork", "typed"] = "fork"
    agent_type: str = ""
    parent: AgentPath = AgentPath("")
    title: str = ""
    task_id: str = ""
    call_id: str = ""
    model: str = ""
    isolation: str = ""
    target: str = ""
    """The machine that it works on, if that is another."""
    node: str = ""
    """Which machine of that cluster, if it is one."""
    line: str = ""
    """What is the matter with what leads there; empty if nothing is."""
    session: str = ""
    """The session of its own that it works in, if that is not this one."""
    branch: str = ""
    """That of its worktree, for as long as that is there."""
    kept: bool = False
    """Whether there is work in it that stays."""
    away: bool = False
    """Whether its work has not come back from the machine that it worked on."""
    member: str = ""
    colour: str = ""
    """Its name in a team, if it is a member of one, and by what members are told apart."""
    rests: Literal["", "work", "plan", "end"] = ""
    """For what a member waits that sleeps: for something to do, or for its plan to be answered."""
    notify: bool = True
    run: int = 1
    started_at: float = 0.0
    ended_at: float | None = None
    ended: Literal["", "completed", "failed", "killed"] = ""
    """How its last run ended; empty while it can work."""
    detail: str = ""
    result: str = ""
    """What it gave back."""
    in_turn: bool = False
    asks: int = 0
    """Its questions without an answer."""
    requests: int = 0
    """Replies it has got, sidecars left out."""
    usage: Usage = Usage()
    cost: float | None = 0.0
    """In dollars; None when a price is unknown."""
    last: Usage = Usage()
    """What its last request used."""
    sent_at: float = 0.0
    """When its last request was sent: from then on the provider's cache holds what it read."""
    lives: float = 0.0
    """For how many seconds it does; 0 if the provider does not say."""
    moved_at: float = 0.0
    """When its prompt was begun anew, if it was: what is older is in no cache of use."""
    missed: str = ""
    """Why it read less from the cache than it should have, if it did."""
    todos: tuple[Todo, ...] = ()
    transcript: Series[Item] = Series()
    open_requests: tuple[OpenRequest, ...] = ()
    open_calls: Mapping[str, int] = {}
    """Where in the transcript the calls are that run, by their ids."""
    fans: Mapping[str, int] = {}
    """Where in it its fan-outs are accounted for, by the task id of the first child."""
    live: Live | None = None

    @property
    def state(self) -> State:
        """What it is at."""
        if self.ended:
            return self.ended
        if self.asks:
            return "asking"
        if self.kind == "main":
            return "working" if self.in_turn or self.open_requests else "idle"
        if self.rests:
            return "idle"
        return "working" if self.sent_at else "waiting"

    @property
    def cached(self) -> float | None:
        """The share of its input that was read from the cache; None if nothing is known of it."""
        return _share(self.usage)

    @property
    def last_cached(self) -> float | None:
        """The same of its last request."""
        return _share(self.last)

    @property
    def doing(self) -> str:
        """What it does now, in a few words; empty if nothing."""
        if self.ended:
            return ""
        if (call := self.open_call) is not None:
            return call.title or call.name
        if not self.open_requests:
            return ""
        if self.live is not None and self.live.writing:
            return f"writes {self.live.writing}"
        if self.live is not None and self.live.text:
            return "writes"
        if (request := self.retried) is not None:
            return f"tries again: {request.void}"
        return self.open_requests[-1].sidecar or "thinks"

    @property
    def doing_since(self) -> float | None:
        """When that began; None if it does nothing."""
        if (call := self.open_call) is not None:
            return call.at
        return self.open_requests[-1].at if self.open_requests else None

    @property
    def open_call(self) -> Called | None:
        """The call that was begun last of those that run."""
        calls = (self.transcript[index] for index in reversed(list(self.open_calls.values())))
        return next((call for call in calls if isinstance(call, Called)), None)

    @property
    def retried(self) -> OpenRequest | None:
        """The request that is tried again, as long as nothing has come of that."""
        request = self.open_requests[-1] if self.open_requests else None
        writes = self.live is not None and (self.live.writing or self.live.text)
        return request if request is not None and request.void and not writes else None


class TaskView(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of background work."""

    task_id: TaskId
    agent: AgentPath
    """The agent whose event told of it: of a child's own task the child, else who started it."""
    title: str
    kind: str
    output_file: str = ""
    state: Literal["running", "completed", "failed", "killed"] = "running"
    summary: str = ""
    started_at: float = 0.0
    ended_at: float | None = None


class AskedView(msgspec.Struct, frozen=True):
    """A question that waits for an answer."""

    agent: AgentPath
    asked: PermissionAsked | QuestionAsked
    at: float
    seq: int = 0
    """The number of the event that asked: ids of requests begin anew with each process."""


class QueuedView(msgspec.Struct, frozen=True):
    """A message of the user that waits for the next step of the turn."""

    message_id: str
    text: str
    at: float


class View(msgspec.Struct, frozen=True, kw_only=True):
    """A whole session at one moment."""

    seq: int = 0
    """The last event that is in it."""
    at: float = 0.0
    """When that was."""
    session_id: str = ""
    title: str = ""
    cwd: str = ""
    model: str = ""
    mode: str = ""
    tools: tuple[str, ...] = ()
    is_open: bool = False
    """Whether a process has the session open."""
    agents: Mapping[str, AgentView] = {}
    """By path, in the order in which they began."""
    tasks: Mapping[str, TaskView] = {}
    """By id, in the order in which they began; those that have ended too."""
    questions: Mapping[str, AskedView] = {}
    """By request id, in the order in which they came."""
    queued: Mapping[str, QueuedView] = {}
    """Messages that wait to be put before the model, by id, in the order in which they came."""
    receipts: Mapping[str, ReceiptView] = {}
    """By task id."""
    works: Mapping[str, WorkKept] = {}
    """Work that agents left, by the path of each."""
    warnings: Series[str] = Series()
    usage: Usage = Usage()
    """All tokens, sidecars included."""
    cost: float | None = 0.0
    """In dollars; None when a price is unknown."""
    saved: float | None = 0.0
    """What the cache has saved, in dollars; None when a price is unknown."""
    holes: int = 0
    """How often events were missing; what they told is missing here too."""

    @property
    def main(self) -> AgentView:
        """The session's first agent."""
        return self.agents.get(MAIN) or AgentView(path=MAIN, kind="main")

    @property
    def busy(self) -> bool:
        """Whether a turn runs."""
        return self.main.in_turn

    @property
    def running(self) -> list[TaskView]:
        """The background work that has not ended."""
        return [task for task in self.tasks.values() if task.state == "running"]

    def warm_until(self, path: str) -> float | None:
        """Say until when an agent's prompt can be read from the cache; None if that is not known.

        Its forks begin with it, so that their requests keep it warm too.
        """
        agent = self.agents.get(path)
        if agent is None or not (agent.sent_at and agent.lives):
            return None
        if agent.sent_at < agent.moved_at:
            # Nothing of the new prompt is in a cache until a request has left it there.
            return None
        used = agent.sent_at
        for child in self.agents.values():
            shares = child.kind == "fork" and child.parent == path
            if shares and child.started_at >= agent.moved_at:
                used = max(used, child.sent_at)
        return used + agent.lives

    def children(self, path: str) -> list[AgentView]:
        """Give the agents that an agent has started."""
        return [agent for agent in self.agents.values() if agent.parent == path]

    def child(self, task_id: str) -> AgentView | None:
        """Find a child by its task id."""
        found = (agent for agent in self.agents.values() if agent.task_id == task_id)
        return next(found, None) if task_id else None


def _share(usage: Usage) -> float | None:
    return usage.read / usage.input if usage.input and not usage.silent else None
