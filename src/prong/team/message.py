"""What a session and a process that runs agents of it say to each other.

A message is a frame: four bytes of length and four of a channel's number, most significant first,
then JSON. Channel 0 is the line's own: there both greet each other, there the ropes travel, record
by record, each record once. Every other channel is one agent's run or one workspace's, and begins
with the session's first word on it; in a run the worker then tells what happens, and asks. Nothing
in a message is a live object, and a worker has no word for what it may not do: on a channel it can
tell only of that agent, and only what an agent's loop has to tell.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, get_args

import msgspec

from prong.about import __version__
from prong.agent import Turn
from prong.cost import Charge
from prong.entry import CallId, Part
from prong.errors import WorkerFailed
from prong.event import (
    CallDelta,
    InputTaken,
    Progressed,
    ReplyDiscarded,
    ReplyFinished,
    RequestFailed,
    RequestSent,
    TaskFinished,
    TaskStarted,
    TextDelta,
    ThinkingDelta,
    TodosChanged,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    TurnFinished,
    TurnStarted,
    Warned,
)
from prong.foreign_json import NOT_JSON
from prong.host.sandbox import NONE, Profile
from prong.journal.note import FilesRead, FolderEntered, TodosKept, TurnSettled
from prong.journal.record import EntryRecord, HeadRecord
from prong.team.run import RunSpec, Waiting
from prong.tools.policy import Policy
from prong.wire.raw import dump

PROTOCOL = 5
"""The version of the protocol; two that differ do not talk."""

LARGEST = 64 * 1024 * 1024
"""Bytes that one frame may have."""

SHORT = 1_000
"""Characters of what is said before a worker's first word, which is shown and stored as it is."""

CONTROL = 0
"""The channel that is the line's own."""

LEAD = 8
"""Bytes of a frame before its JSON."""

_SIZE = 4

Speech: TypeAlias = (
    TurnStarted
    | TurnFinished
    | InputTaken
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
    | TodosChanged
    | TaskStarted
    | TaskFinished
    | Warned
)
"""The events that a worker may tell of its agent."""

SPEECH: tuple[type, ...] = get_args(Speech)

WorkerNote: TypeAlias = FilesRead | TodosKept | FolderEntered | TurnSettled
"""The notes that a worker may have stored."""

KEPT: dict[str, type[WorkerNote]] = {kind.tag: kind for kind in get_args(WorkerNote)}


class _Sentence(msgspec.Struct, frozen=True, kw_only=True, tag_field="m", tag=str.lower):
    """What every message has."""


class Hello(_Sentence, frozen=True):
    """The first word of the session."""

    version: int = PROTOCOL


class StartWorker(_Sentence, frozen=True):
    """A worker is wanted on the machine on which there is room for one; see `NodeChosen`."""


class HeadSent(_Sentence, frozen=True):
    """The head of a rope that was not sent before."""

    record: HeadRecord


class EntrySent(_Sentence, frozen=True):
    """An entry that no rope had before; from a worker, what its conversation has grown by."""

    record: EntryRecord


class Forget(_Sentence, frozen=True):
    """These prompts are not begun from any more."""

    digests: tuple[str, ...]


class CloseChannel(_Sentence, frozen=True):
    """What goes on in a channel is to end at once."""

    channel: int


class Credit(_Sentence, frozen=True):
    """So many bytes of a channel were taken: as many more may come."""

    channel: int
    size: int


class RunKeys(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker must know for a run, and nobody may see."""

    headers: tuple[tuple[str, str], ...] = ()
    """Of the model's endpoint; they hold its key."""
    env: dict[str, str] = {}
    """Proxies, whose addresses may hold a password, and certificates."""
    secrets: tuple[str, ...] = ()
    """Values that are masked."""


class Begin(_Sentence, frozen=True):
    """Run an agent, whose rope is whole over there."""

    spec: RunSpec
    keys: RunKeys = RunKeys()


class AskAnswered(_Sentence, frozen=True):
    """The answer to what the worker asked."""

    number: int
    value: msgspec.Raw


class Deliver(_Sentence, frozen=True):
    """Something to be put before the agent."""

    waiting: Waiting


class RulesSet(_Sentence, frozen=True):
    """The policy has changed."""

    policy: Policy


class EndNow(_Sentence, frozen=True):
    """The run is to end now."""


Down: TypeAlias = (
    Hello
    | StartWorker
    | HeadSent
    | EntrySent
    | Forget
    | CloseChannel
    | Credit
    | Begin
    | AskAnswered
    | Deliver
    | RulesSet
    | EndNow
)
"""What a session says."""


class Ready(_Sentence, frozen=True):
    """The first word of a worker."""

    version: int = PROTOCOL
    prong: str = __version__


class Queued(_Sentence, frozen=True):
    """There is no room for a worker yet; said by what leads to it, before its first word."""

    why: Annotated[str, msgspec.Meta(max_length=SHORT)]


class NodeChosen(_Sentence, frozen=True):
    """There is room for a worker on a machine of a cluster; said by what leads there.

    Nothing is started there before the session says so: it may have a worker on that machine.
    """

    node: Annotated[str, msgspec.Meta(min_length=1, max_length=SHORT)]


class Alive(_Sentence, frozen=True):
    """The worker is there, though nothing happens."""


class EventTold(_Sentence, frozen=True):
    """An event of the agent."""

    agent: str
    event: Speech


class Compacted(_Sentence, frozen=True):
    """The conversation was compacted: it goes on from these entries."""

    records: tuple[EntryRecord, ...]
    detail: str


class Noted(_Sentence, frozen=True):
    """A note of the agent, to be stored."""

    agent: str
    name: str
    value: msgspec.Raw


class ResponseBegan(_Sentence, frozen=True):
    """A response has begun."""


class RequestPaid(_Sentence, frozen=True):
    """A request has cost something."""

    row: Charge
    at: float
    diagnostics: bytes = b""


class Taken(_Sentence, frozen=True):
    """What waited stands in the conversation."""

    number: int


class Over(_Sentence, frozen=True):
    """The run has ended as it was asked to."""


class ChannelClosed(_Sentence, frozen=True):
    """Nothing goes on in a channel any more, and nothing more comes by it."""

    channel: int
    why: str = ""
    """What went wrong; empty if nothing did."""


class _Inquiry(_Sentence, frozen=True):
    """What every question of a worker has."""

    number: int


class MaySend(_Inquiry, frozen=True):
    """May the next request be sent? The answer is why not; empty if it may."""


class MayRun(_Inquiry, frozen=True):
    """May a call of the agent's last reply run, and as what?"""

    call_id: CallId
    cwd: str
    outside: str = ""
    """Why it should run a second time without its sandbox, which kept it from working."""
    links: dict[str, str] = {}
    """Where paths that it names lead over there, if they are not what they seem."""


class MayEnd(_Inquiry, frozen=True):
    """Was this turn the last?"""

    turn: Turn


FiredAfar: TypeAlias = Literal["PostToolUse", "PostToolUseFailure", "PreCompact"]
"""Events of which an agent elsewhere has the session tell its hooks."""


class Fire(_Inquiry, frozen=True):
    """Tell the hooks of an event; the answer is their verdict."""

    event: FiredAfar
    payload: dict[str, msgspec.Raw]
    matcher: str = ""


class Use(_Inquiry, frozen=True):
    """Run calls of a tool that the session has."""

    name: str
    calls: tuple[tuple[CallId, str], ...]
    """Ids and arguments."""


WorkerAsk: TypeAlias = MaySend | MayRun | MayEnd | Fire | Use
Up: TypeAlias = (
    Ready
    | Queued
    | NodeChosen
    | Alive
    | EventTold
    | EntrySent
    | Compacted
    | Noted
    | ResponseBegan
    | RequestPaid
    | Taken
    | Over
    | ChannelClosed
    | Credit
    | MaySend
    | MayRun
    | MayEnd
    | Fire
    | Use
)
"""What a worker says."""


class Granted(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `MayRun`."""

    arguments: str
    title: str
    refused: str | None = None
    notes: tuple[str, ...] = ()
    halted: str = ""
    """Why the turn ends after the calls at hand, if a hook wants it."""
    profile: Profile = NONE
    """What its processes are held to."""


class Used(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one call, in an answer to `Use`."""

    parts: tuple[Part, ...] = ()
    shown: str = ""
    failed: str | None = None


_decode_up = msgspec.json.Decoder(Up).decode
_decode_down = msgspec.json.Decoder(Down).decode


def frame(message: msgspec.Struct, channel: int = CONTROL) -> bytes:
    """Make the frame of a message.

    Raises WorkerFailed if it is too large.
    """
    data = dump(message)
    if len(data) > LARGEST:
        what = type(message).__name__.lower()
        raise WorkerFailed(f"a message ({what}) of {len(data)} bytes is too large for a frame")
    return len(data).to_bytes(_SIZE) + channel.to_bytes(LEAD - _SIZE) + data


class FrameTooLarge(WorkerFailed):
    """What came would be a frame larger than any may be, so it is none."""


def frame_size(lead: bytes | bytearray) -> int:
    """Give how many bytes a frame has after those that it begins with.

    Raises FrameTooLarge if that is more than any may have: it is not waited for.
    """
    size = int.from_bytes(lead[:_SIZE])
    if size > LARGEST:
        raise FrameTooLarge(
            f"it began a frame of {size} bytes, and {LARGEST} are allowed; what it sends is not of "
            "the protocol"
        )
    return size


class Frame(NamedTuple):
    """A message that came, not read yet."""

    channel: int
    data: bytes


class Frames:
    """Cuts what comes through a pipe into messages."""

    def __init__(self) -> None:
        """Nothing has come yet."""
        self._held = bytearray()

    @property
    def torn(self) -> bool:
        """Whether a frame has begun that is not whole."""
        return bool(self._held)

    @property
    def rest(self) -> bytes:
        """What has come and is no whole frame."""
        return bytes(self._held)

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Take what came, and give the frames that are whole by it.

        Raises FrameTooLarge if one is larger than any may be: it is not waited for.
        """
        self._held += data
        while len(self._held) >= _SIZE:
            size = frame_size(self._held[:_SIZE])
            if len(self._held) < LEAD + size:
                return
            channel = int.from_bytes(self._held[_SIZE:LEAD])
            whole = bytes(self._held[LEAD : LEAD + size])
            del self._held[: LEAD + size]
            yield Frame(channel, whole)


def read_up(data: bytes) -> Up:
    """Read a worker's message.

    Raises WorkerFailed if it is none.
    """
    return _read(_decode_up, data)


def read_down(data: bytes) -> Down:
    """Read a session's message.

    Raises WorkerFailed if it is none.
    """
    return _read(_decode_down, data)


def _read(decode: Any, data: bytes) -> Any:
    try:
        return decode(data)
    except NOT_JSON as error:
        raise WorkerFailed(f"it sent what is no message of the protocol ({error})") from error


def answered(ask: WorkerAsk, value: object) -> AskAnswered:
    """Answer a question."""
    return AskAnswered(number=ask.number, value=msgspec.Raw(dump(value)))
