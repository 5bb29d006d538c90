"""What is kept beside the conversations: one closed union of notes.

A note belongs to an agent; of each kind the latest counts, and of a kind with a key the latest of
each key. On disk its name is its tag, or `tag/key`. Its value is the note itself or, where the
class says `bare`, only its field `value`: a title is stored as a string and not as an object.
"""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

import msgspec

from prong.cost.budget import Bounds
from prong.cost.receipt import FanEstimate, Receipt
from prong.entry import CallId
from prong.errors import JournalError
from prong.event import Todo
from prong.foreign_json import NOT_JSON
from prong.host.worktree import Kept, Removed, Worktree
from prong.ids import AgentPath, TaskId
from prong.wire.raw import dump, raw

ToolSet: TypeAlias = Literal["simple", "full"]
"""What workers have: a shell and edits, or everything that an agent in the background may have."""

ChildStatus: TypeAlias = Literal["running", "completed", "failed", "killed"]


class _Note(msgspec.Struct, frozen=True):
    """What every note has."""

    tag: ClassVar[str]
    """Its name on disk: never changed, since old journals have it."""
    bare: ClassVar[bool] = False
    """Whether only the field `value` is stored."""

    @property
    def name(self) -> str:
        """Its name on disk, the key included."""
        return self.tag


class ModeSet(_Note, frozen=True):
    """The permission mode."""

    tag = "mode"
    bare = True
    value: str


class StoredRule(msgspec.Struct, frozen=True):
    """A permission rule, as a journal has it."""

    effect: str
    tool: str
    specifier: str | None
    source: str


class StoredPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What plan mode has to remember."""

    before: str
    """The mode to go back to."""
    file: str = ""
    """The plan file, once it has a name."""
    rules: tuple[StoredRule, ...] = ()
    """Allow rules that were put aside."""


class PlanKept(_Note, frozen=True):
    """Plan mode, while it is on; None once it is over."""

    tag = "plan"
    bare = True
    value: StoredPlan | None


class PullsSeen(_Note, frozen=True):
    """The pull requests that are watched, each with the keys of what was told of it."""

    tag = "pulls"
    bare = True
    value: dict[str, list[str]]


class CoordinatorSet(_Note, frozen=True):
    """The session is a coordinator's, and this is what its workers have."""

    tag = "coordinator"
    bare = True
    value: ToolSet


class ModelChosen(_Note, frozen=True):
    """Where the model is that answers; never its key."""

    tag = "endpoint"
    model: str
    """As the user named it."""
    base_url: str | None = None
    """None is the vendor's own."""
    api: str | None = None


class Titled(_Note, frozen=True):
    """The session's name; empty if it has none any more."""

    tag = "title"
    bare = True
    value: str


class Begun(_Note, frozen=True):
    """The first words of the user; the journal itself writes it."""

    tag = "about"
    bare = True
    value: str


class FilesRead(_Note, frozen=True):
    """Which files an agent has read: the digest of the bytes it knows, by path."""

    tag = "reads"
    bare = True
    value: dict[str, str] = {}


class TodosKept(_Note, frozen=True):
    """An agent's own list of things to do."""

    tag = "todos"
    bare = True
    value: tuple[Todo, ...] = ()


class FolderEntered(_Note, frozen=True):
    """The folder an agent's commands run in; empty for the session's own."""

    tag = "cwd"
    bare = True
    value: str = ""


class TurnSettled(_Note, frozen=True):
    """The digest of an agent's prompt when its last turn ended: what follows is unanswered."""

    tag = "settled"
    bare = True
    value: str = ""


class NoteChange(msgspec.Struct, frozen=True):
    """A change to the notes for later sessions of a project."""

    text: str = ""
    """The line as it is to be; empty if it goes."""
    before: str = ""
    """The line in whose place it comes; empty if it is new."""


class NotesAsked(_Note, frozen=True):
    """How far the conversation has been asked for what later sessions should know."""

    tag = "memory"
    digest: str = ""
    """Of the prompt that was asked about."""
    pending: tuple[NoteChange, ...] = ()
    """What the answer was, until it is in the file of notes."""


class MemberSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Which member of a team a child is."""

    team: str
    name: str
    colour: str = ""
    plan: bool = False
    """Whether it only reads until the leader has approved its plan."""


class MemberOf(_Note, frozen=True):
    """The team that a main agent is a member of: it works in a session of its own."""

    tag = "member_of"
    bare = True
    value: MemberSpec


class AskedByMember(msgspec.Struct, frozen=True, kw_only=True):
    """What a member in a session of its own may do only if its leader says so."""

    member: str
    request_id: str
    tool: str
    title: str
    why: str = ""
    suggestion: tuple[str, ...] = ()
    arguments: str = ""
    preview: str = ""


class TeamKept(_Note, frozen=True, kw_only=True):
    """The team that a main agent leads; noted from the start if it may lead one."""

    tag = "team"
    team: str = ""
    """Empty if there is none at present."""
    plans: dict[str, str] = {}
    """Plans that wait for an answer: the id of the request, by member."""
    asked: tuple[AskedByMember, ...] = ()
    """What members in sessions of their own wait for."""


class MemberKept(_Note, frozen=True, kw_only=True):
    """What a member of a team was asked, asked itself and has said."""

    tag = "member"
    planning: bool = False
    """Whether it only reads."""
    plan: tuple[str, str] = ("", "")
    """Its request to approve a plan, while that is open: the id and the plan."""
    settled: str = ""
    """The mail that answered the last such request."""
    shutdown: str = ""
    """The id of the request to end that it has not answered."""
    agreed: bool = False
    """Whether it has agreed to end."""
    idle: str = ""
    """The digest of its conversation when it last said that it has nothing to do."""
    idles: int = 0
    """How often it has said so."""
    offered: tuple[str, ...] = ()
    """The free tasks that it was told of."""


class ChildSpec(_Note, frozen=True, kw_only=True):
    """What a child is; stored when it starts, so that a resumed session can take it up again."""

    tag = "child"
    task_id: TaskId
    path: AgentPath
    parent: AgentPath
    kind: Literal["fork", "typed"]
    type: str
    description: str
    call_id: str = ""
    """The call it came of, if one did."""
    counted: bool = False
    """Whether its name is but a number of its kind, since the call gave none."""
    notify: bool = True
    """Whether its end becomes a notice for the parent."""
    base_depth: int = 0
    """How many entries of its prompt it shares with its siblings."""
    base: str = ""
    """Digest of that part."""
    model: str = ""
    """The model of a typed child, as it was named."""
    spawns: tuple[str, ...] | None = None
    """The only types of agents that it may start; None for any."""
    budget: Bounds = Bounds()
    """What was reserved for it."""
    files: tuple[str, ...] | None = None
    """Patterns of the files it may change; None if nothing was declared."""
    isolation: Literal["", "worktree", "remote"] = ""
    """Whether it works in a worktree of its own, or in one on another machine."""
    target: str = ""
    """That machine, as the settings name it."""
    node: str = ""
    """Which machine of a cluster its worktree is on."""
    lease: int = 0
    """The number of its latest worker there: one with a lower number has no say any more."""
    worktree: Worktree | None = None
    """That worktree, once it is made and for as long as it is there."""
    brief: str = ""
    """What it is to do, in the words of whoever started it."""
    member: MemberSpec | None = None
    """Which member of a team it is, if it is one: such a child does not end with its turn."""
    carrier: CallId | None = None
    """The call in whose result a fork is told so, if it cannot be told in plain text."""


class ReceiptOpened(_Note, frozen=True):
    """What a child that has begun should share."""

    tag = "opened"
    bare = True
    value: Receipt


class ReceiptClosed(_Note, frozen=True):
    """What a child that has ended shared and paid."""

    tag = "receipt"
    bare = True
    value: Receipt


class ChildEnded(_Note, frozen=True):
    """How often a child has ended, and how it did last."""

    tag = "ended"
    run: int = 0
    status: ChildStatus = "running"
    detail: str = ""
    tool_uses: int = 0
    outcome: Kept | Removed | None = None
    """What became of its worktree."""
    requests: int = 0
    """How many it had made by then, in all its runs; `tool_uses` likewise."""
    since: tuple[int, int] = (0, 0)
    """Requests and tool uses before that run."""


class ChildRun(_Note, frozen=True):
    """How often a child has been started; noted from the second time on."""

    tag = "run"
    bare = True
    value: int = 1


class MessagesUnread(_Note, frozen=True):
    """Messages that a child has not taken yet."""

    tag = "unread"
    bare = True
    value: list[str] = []


class FanPlanned(_Note, frozen=True):
    """What was known of a fan-out when it was dispatched; a note of the parent."""

    tag = "fan"
    bare = True
    key: str
    """Task id of the first of the siblings."""
    value: FanEstimate

    @property
    def name(self) -> str:
        """Its name on disk, the key included."""
        return f"{self.tag}/{self.key}"


Note: TypeAlias = (
    ModeSet
    | PlanKept
    | PullsSeen
    | CoordinatorSet
    | ModelChosen
    | Titled
    | Begun
    | FilesRead
    | TodosKept
    | FolderEntered
    | TurnSettled
    | NotesAsked
    | TeamKept
    | MemberOf
    | MemberKept
    | ChildSpec
    | ReceiptOpened
    | ReceiptClosed
    | ChildEnded
    | ChildRun
    | MessagesUnread
    | FanPlanned
)

AnyNote = TypeVar("AnyNote", bound=Note)


class MainNotes(msgspec.Struct, frozen=True, kw_only=True):
    """What was noted last of the main agent, of each kind; the defaults are a new session's."""

    model: ModelChosen | None = None
    mode: str | None = None
    plan: StoredPlan | None = None
    pulls: dict[str, list[str]] = {}
    worker_tools: ToolSet | None = None
    """What workers have, if it is a coordinator."""
    team: TeamKept | None = None
    """The team it leads, if it may lead one."""
    member_of: MemberSpec | None = None
    """The team it is in, if it is a member in a session of its own."""
    member: MemberKept | None = None
    """What it has as such."""
    reads: dict[str, str] = {}
    todos: tuple[Todo, ...] = ()
    cwd: str = ""
    settled: str = ""
    """The digest of the conversation when its last turn ended."""


class ChildNotes(msgspec.Struct, frozen=True, kw_only=True):
    """What was noted last of a child, of each kind but its spec; None where nothing was."""

    ended: ChildEnded = ChildEnded()
    runs: int = 1
    """How often it has been started."""
    receipt: Receipt | None = None
    unread: list[str] = []
    """Messages that it has not taken yet."""
    reads: dict[str, str] | None = None
    todos: tuple[Todo, ...] | None = None
    cwd: str | None = None
    member: MemberKept | None = None
    """What it has as a member of a team, if it is one."""


_BARE = "value"
"""The one field that is stored of a note which says so."""


def encode_note(note: Note) -> msgspec.Raw:
    """Give what is stored of a note beside its name."""
    return raw(getattr(note, _BARE) if note.bare else note)


def decode_note(kind: type[AnyNote], value: bytes, *, key: str | None = None) -> AnyNote:
    """Read a note of a kind; raises `JournalError` if the value is none."""
    try:
        return _decoder(kind).decode(_whole(kind, value, key))
    except NOT_JSON as error:
        raise JournalError(f"the note {kind.tag!r} cannot be read ({error})") from error


def _whole(kind: type[Note], value: bytes, key: str | None) -> bytes:
    if not kind.bare:
        return value
    named = b'"key":%s,' % dump(key) if key is not None else b""
    return b'{%s"value":%s}' % (named, value)


@cache
def _decoder(kind: type[Any]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)
