"""What faces see.

Every face reads one stream of `Envelope`s and sends commands (`prong.command`); none reaches into
the loop. An envelope carries the path of the agent it speaks of (`main`, `main/fork-1`), so a
child's event is the same event in another envelope. Events that wait for an answer carry a request
id; the answer is a command with the same id.

Whatever starts ends, also if it fails, is cancelled, or dies with the process:

    session_started   session_finished
    agent_started     agent_finished                       by the envelope's agent
    turn_started      turn_finished                        by the envelope's agent
    request_sent      reply_finished | request_failed      by request_id; reply_discarded is no end
    tool_started      tool_finished                        by call_id
    task_started      task_finished                        by task_id
    permission_asked, question_asked   request_settled     by request_id
    message_queued    message_unqueued                     by message_id

What a process could not end because it was killed is ended by the next that takes up the session,
before its own `session_started`.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from prong.entry import CallId, EntryKind, StopReason, Usage
from prong.ids import AgentPath, RequestId, TaskId
from prong.question import Question

MAIN = AgentPath("main")
"""The path of a session's first agent."""


class _Event(msgspec.Struct, frozen=True, tag_field="type", kw_only=True):
    """What all events share."""


class SessionStarted(_Event, tag="session_started", frozen=True):
    """First event of a session, and of each process that takes it up again."""

    session_id: str
    model: str
    cwd: str
    tools: tuple[str, ...]
    mode: str
    title: str = ""
    """Its name, if it has one already."""
    resumed: bool = False


class AgentStarted(_Event, tag="agent_started", frozen=True):
    """An agent begins to work, or is there to be talked to; the envelope has its path."""

    kind: Literal["main", "fork", "typed"]
    model: str
    parent: AgentPath = AgentPath("")
    """The path of the agent that started it; empty for the main agent."""
    agent_type: str = ""
    """The type of a typed agent."""
    title: str = ""
    """What it is to do, in a few words."""
    task_id: TaskId = TaskId("")
    """The task that it runs as; empty for the main agent."""
    call_id: str = ""
    """The call of the parent that it came of; empty if somebody started it by hand."""
    isolation: Literal["", "worktree", "remote"] = ""
    target: str = ""
    """The machine that it works on, if that is another; as the settings name it."""
    member: str = ""
    colour: str = ""
    """Its name in a team, if it is a member of one, and by what members are told apart."""
    notify: bool = True
    """Whether its end becomes a notice for the parent."""
    run: int = 1
    """How often it has begun: a message to an agent that has ended lets it go on."""
    resumed: bool = False
    """Whether it goes on from where an earlier process left it."""
    session: str = ""
    """The session of its own that it works in; what it costs is in the books there."""


class AgentFinished(_Event, tag="agent_finished", frozen=True):
    """An agent has ended this run."""

    status: Literal["completed", "failed", "killed"]
    detail: str = ""
    """Why, where that needs words."""
    result: str = ""
    """What it gives back; of a fork's report the result alone."""


class AgentRested(_Event, tag="agent_rested", frozen=True):
    """A member of a team sleeps until there is something to do, or its plan is answered."""

    waits: Literal["work", "plan", "end"] = "work"
    """`end` if it has agreed to end, and waits for that alone."""


class InputTaken(_Event, tag="input_taken", frozen=True):
    """Something was put before the model: a user's message, a notice, a directive."""

    kind: EntryKind
    text: str


class MessageQueued(_Event, tag="message_queued", frozen=True):
    """The user has said something while a turn runs; it waits for the turn's next step."""

    message_id: str
    text: str


class MessageUnqueued(_Event, tag="message_unqueued", frozen=True):
    """A message waits no longer."""

    message_id: str
    outcome: Literal["taken", "withdrawn", "lost"]
    """Whether it was put before the model, taken back, or the session ended before either."""


class RecalledCall(msgspec.Struct, frozen=True):
    """A call as a conversation tells it."""

    call_id: CallId
    name: str
    title: str
    arguments: str
    failed: bool


class EntryRecalled(_Event, tag="entry_recalled", frozen=True):
    """An entry that stood in the conversation before its events were recorded.

    Told when a session is taken up that has no record of its own yet: one that is older than
    records are, or a copy.
    """

    kind: EntryKind
    text: str
    call: RecalledCall | None = None
    """What gave the text, if it is the result of a call that stands there."""


class TurnStarted(_Event, tag="turn_started", frozen=True):
    """The agent begins to work on something: a message, or notices that woke it."""

    text: str = ""
    """What the user said; if it was not the user, what woke the agent."""


class RequestSent(_Event, tag="request_sent", frozen=True):
    """A request is on its way; its end is `ReplyFinished` or `RequestFailed`, never both."""

    request_id: RequestId
    model: str
    digest: str
    """Identifies the prompt."""
    bytes: int
    entries: int
    sidecar: str = ""
    """What for, if this request does not belong to the conversation itself."""
    lives: float = 0.0
    """Seconds from now for which the provider keeps what it caches of it; 0 if it does not say."""


class Progressed(_Event, tag="progressed", frozen=True):
    """A model on this machine is being loaded, or reads a long prompt; the reply comes after."""

    what: Literal["load", "prompt"]
    done: int
    total: int
    """Per cent of a load, tokens of a prompt."""


class TextDelta(_Event, tag="text_delta", frozen=True):
    """More of the reply's text."""

    text: str


class ThinkingDelta(_Event, tag="thinking_delta", frozen=True):
    """More of the reply's thinking."""

    text: str


class CallDelta(_Event, tag="call_delta", frozen=True):
    """A tool call is being written; for faces that show progress."""

    call_id: CallId
    name: str
    size: int


class ReplyDiscarded(_Event, tag="reply_discarded", frozen=True):
    """What was streamed of this reply is void: the request is sent once more."""

    request_id: RequestId
    why: str
    retry_in: float
    """Seconds until the next try."""
    attempt: int
    usage: Usage = Usage()
    """What the lost try was billed for."""
    cost: float | None = 0.0
    uncached: float | None = None
    """In dollars, as billed and without a cache; None when the model's price is unknown."""


class RequestFailed(_Event, tag="request_failed", frozen=True):
    """A request has ended without a whole reply; what was streamed of it is void."""

    request_id: RequestId
    why: str
    error: str
    """The name of the error; `cancelled` if somebody stopped it."""
    text: str = ""
    """What had come of its text by then: people have seen it, no conversation has it."""
    sidecar: str = ""
    latency: float = 0.0
    """Seconds from the request, or its last try, to the failure."""
    usage: Usage = Usage()
    """What the last try was billed for."""
    cost: float | None = 0.0
    uncached: float | None = None
    """In dollars, as billed and without a cache; None when the model's price is unknown."""


class ReplyFinished(_Event, tag="reply_finished", frozen=True):
    """A whole reply has come; unless it is a sidecar's it joins the conversation."""

    request_id: RequestId
    text: str
    thinking: str
    stop: StopReason
    stop_detail: str
    usage: Usage
    cost: float | None
    """In dollars; None when the model's price is unknown."""
    model: str
    latency: float
    first_event: float
    """Seconds from the request to the end of the reply, and to its first event."""
    response_id: str = ""
    sidecar: str = ""
    """What for, if this request does not belong to the conversation itself."""
    uncached: float | None = None
    """What the same tokens would have cost without a cache; None if that is not known."""


class ToolStarted(_Event, tag="tool_started", frozen=True):
    """A tool call begins to run; permission has been given."""

    call_id: CallId
    name: str
    arguments: str
    title: str
    """One line for people."""


class ToolOutput(_Event, tag="tool_output", frozen=True):
    """More output of a running tool."""

    call_id: CallId
    text: str


class ToolFinished(_Event, tag="tool_finished", frozen=True):
    """A tool call has its result; one that was refused never started, and has this event alone."""

    call_id: CallId
    name: str
    failed: bool
    text: str
    """What the model will see, as text."""
    shown: str = ""
    """What people should see instead: a diff, say, or what it had printed when it was cut off."""
    duration: float = 0.0
    """Seconds since it began to run; 0 if it never did."""
    refused: bool = False
    interrupted: bool = False
    """Whether it was not allowed to run, or was cut off, by somebody or by a failure of ours."""
    title: str = ""
    """One line for people, where arguments could be read."""
    arguments: str = ""
    """Those of a call that was refused, as they came; of others `ToolStarted` has them."""


class PermissionAsked(_Event, tag="permission_asked", frozen=True):
    """A tool call waits for permission; answer with `Answer`."""

    request_id: RequestId
    call_id: CallId
    tool: str
    title: str
    why: str
    suggestion: tuple[str, ...] = ()
    """Rules that would allow it for the rest of the session."""
    file: str = ""
    """The settings file that would keep these rules for later sessions; empty if none can."""
    arguments: str = ""
    """The call's arguments as JSON, for faces that show what would be done."""
    plan: str = ""
    """A plan that waits for approval; `Answer.text` may hold an edited one, or why not."""
    preview: str = ""
    """What the call would change, as a diff of at most 1,000 lines; empty if it cannot say."""


class QuestionAsked(_Event, tag="question_asked", frozen=True):
    """The model asks the user; answer with `Answer`."""

    request_id: RequestId
    questions: tuple[Question, ...]


class RequestSettled(_Event, tag="request_settled", frozen=True):
    """A permission request or question has been answered or is moot."""

    request_id: RequestId
    outcome: str


class Todo(msgspec.Struct, frozen=True):
    """One item of the agent's own list."""

    content: str
    status: Literal["pending", "in_progress", "completed"]
    active: str = ""


class TodosChanged(_Event, tag="todos_changed", frozen=True):
    """The agent's list of things to do changed."""

    todos: tuple[Todo, ...]


class TaskStarted(_Event, tag="task_started", frozen=True):
    """Background work began."""

    task_id: TaskId
    title: str
    kind: str
    output_file: str = ""


class TaskFinished(_Event, tag="task_finished", frozen=True):
    """Background work ended; its notice follows at the next turn boundary."""

    task_id: TaskId
    status: Literal["completed", "failed", "killed"]
    summary: str


class WorktreeEntered(_Event, tag="worktree_entered", frozen=True):
    """A child works in a worktree of its own from now on."""

    path: str
    branch: str
    node: str = ""
    """The machine of a cluster that it is on."""


class LineChanged(_Event, tag="line_changed", frozen=True):
    """What leads to the machine on which an agent works is in another state."""

    state: Literal["queued", "cut", "open"]
    text: str = ""
    """Why it is not open."""


class WorkKept(_Event, tag="work_kept", frozen=True):
    """A child has ended, and its worktree stays because there is work in it."""

    task_id: TaskId
    path: str
    """Its folder; `NAME:FOLDER` on another machine, empty if its branch came back from one."""
    branch: str
    """What is checked out there: a branch, or a commit if the child left all branches."""
    commits: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    """The child's own, the oldest first, and the paths that it changed, committed or not."""
    uncommitted: bool = False
    """Whether some of it is not committed."""
    away: bool = False
    """Whether it is still on the other machine: nothing else is known of it then."""


class CacheMissed(_Event, tag="cache_missed", frozen=True):
    """A request read less from the cache than it should have."""

    predicted: int
    """Tokens."""
    read: int
    why: str
    """The likely cause."""


class ReceiptIssued(_Event, tag="receipt_issued", frozen=True):
    """A child has ended, and this is its receipt."""

    task_id: TaskId
    receipt: msgspec.Raw
    """As JSON; see `prong.Receipt`."""
    text: str
    """In one line, for people."""


class ModeChanged(_Event, tag="mode_changed", frozen=True):
    """The permission mode changed."""

    mode: str


class PromptMoved(_Event, tag="prompt_moved", frozen=True):
    """A new prompt was started, so the cache of the old one is of no more use."""

    reason: Literal["compaction", "model", "tools", "clear"]
    detail: str
    before: int
    """Bytes of the old prompt."""
    after: int
    model: str = ""
    """The model that answers from now on."""


class TitleChanged(_Event, tag="title_changed", frozen=True):
    """The session has a name, or another one."""

    title: str


class MemoryKept(_Event, tag="memory_kept", frozen=True):
    """The conversation was asked for what later sessions should know, and this was kept of it."""

    path: str
    """The file of notes."""
    added: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    """As they are now."""
    dropped: tuple[str, ...] = ()
    cost: float | None = None
    """Of the question, in dollars; None when the model's price is unknown."""
    left_out: str = ""
    """What was not kept, and why."""


class ControlChanged(_Event, tag="control_changed", frozen=True):
    """Another process may act in this session from now on, or no longer."""

    pid: int
    code: str
    """What it showed to its user when it was let in."""
    acts: bool


class CommandTaken(_Event, tag="command_taken", frozen=True):
    """Another process has sent a command, and it was carried out; who typed here sends no such."""

    pid: int
    command: str
    """Its name: `say`, `tell`, `answer`, `interrupt`, `stop`."""
    target: str = ""
    """For whom or what it was: the agent or task, or the request that was answered, and how."""
    text: str = ""
    """What was said by it."""


class Warned(_Event, tag="warned", frozen=True):
    """Something the user should know; work goes on."""

    text: str


class TurnFinished(_Event, tag="turn_finished", frozen=True):
    """The agent has nothing more to do for now."""

    text: str
    why: Literal["done", "interrupted", "limit", "budget", "refused", "cut_off", "loop", "error"]
    detail: str = ""
    turns: int = 0
    """Requests made in this turn."""


class EventsSkipped(_Event, tag="events_skipped", frozen=True):
    """The reader was too slow, or the record has a hole: events are missing here.

    Of this reader alone, and never recorded. It can go on from `session.view()`, or read again
    with `session.events(since=...)`.
    """

    until: int
    """The last number that is missing."""


class SessionFinished(_Event, tag="session_finished", frozen=True):
    """Last event of a session, or of a process that had it open."""

    cost: float | None
    usage: Usage


Event: TypeAlias = (
    SessionStarted
    | AgentStarted
    | AgentRested
    | InputTaken
    | MessageQueued
    | MessageUnqueued
    | EntryRecalled
    | TurnStarted
    | RequestSent
    | Progressed
    | TextDelta
    | ThinkingDelta
    | CallDelta
    | ReplyDiscarded
    | RequestFailed
    | ReplyFinished
    | ToolStarted
    | ToolOutput
    | ToolFinished
    | PermissionAsked
    | QuestionAsked
    | RequestSettled
    | TodosChanged
    | TaskStarted
    | TaskFinished
    | WorktreeEntered
    | LineChanged
    | WorkKept
    | CacheMissed
    | ReceiptIssued
    | ModeChanged
    | PromptMoved
    | TitleChanged
    | MemoryKept
    | ControlChanged
    | CommandTaken
    | Warned
    | TurnFinished
    | AgentFinished
    | EventsSkipped
    | SessionFinished
)

Delta: TypeAlias = TextDelta | ThinkingDelta | CallDelta | ToolOutput | Progressed
"""What only shows how something goes on; its end says all of it once more."""


class Envelope(msgspec.Struct, frozen=True):
    """An event, when it happened, and whom it speaks of."""

    seq: int
    """Its number, without a gap from 1 over all processes of a session; 0 for a `Delta`."""
    at: float
    """Seconds since the epoch, on the session's clock."""
    agent: AgentPath
    event: Event
