"""What a tool is.

A tool has a name, a description and an argument type for the model; it says what a call will touch,
so that the gate can decide before anything happens; and it runs. What it returns is a value: `Done`
or `Failed`. A failure the model can repair is never an exception.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, Literal, Protocol, TypeAlias, TypeGuard, runtime_checkable

import msgspec

from prong.entry import CallId, Part, Text
from prong.event import Event, Todo, TodosChanged, ToolOutput
from prong.host import Host, Process
from prong.host.sandbox import Profile
from prong.ids import TaskId
from prong.question import Question
from prong.tools.access import Access
from prong.tools.collector import Cleaner
from prong.tools.foreground import ForegroundWait
from prong.tools.rule import Rule
from prong.tools.skill_text import SkillUse


class Done(msgspec.Struct, frozen=True):
    """What a call that worked gives back."""

    parts: tuple[Part, ...]
    shown: str = ""
    """What people should see instead of the parts, such as a diff."""
    allows: tuple[Rule, ...] = ()
    """What need not be asked for until the turn ends, if the agent may be lent it."""
    ends: str = ""
    """The answer of the turn, which ends after the calls at hand; empty if it goes on."""
    skill: SkillUse | None = None
    """A skill that was used: what it holds of commands and files is still to be put in."""


class Failed(msgspec.Struct, frozen=True):
    """Why a call did not work, in words the model can act on."""

    why: str
    held: str = ""
    """What the user should know if a sandbox has kept it from working."""


CallOutcome: TypeAlias = Done | Failed

SideEffect: TypeAlias = Literal["reads", "writes"]
"""Calls that only read may run together; calls that write run one after another."""


def done(text: str, *, shown: str = "") -> Done:
    """Give back one text."""
    return Done((Text(text),), shown)


class Reads(msgspec.Struct):
    """Which files an agent has read, by content hash. Each agent has its own."""

    hashes: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    """Resolved path to the digest of the bytes that the agent knows."""
    unseen: set[str] = msgspec.field(default_factory=set[str])
    """Those of them that only a forebear has read: their content is not in this conversation."""

    def clone(self) -> Reads:
        """Copy the record for a child that has the conversation too."""
        return Reads(dict(self.hashes), set(self.unseen))

    def hand_on(self) -> Reads:
        """Copy the record for a child that has nothing of the conversation."""
        return Reads(dict(self.hashes), set(self.hashes))

    def note(self, path: str, digest: str) -> None:
        """Note that the agent itself knows these bytes."""
        self.hashes[path] = digest
        self.unseen.discard(path)


class CommandSoFar(msgspec.Struct, frozen=True, kw_only=True):
    """A command that was waited for, at the moment in which it is handed on."""

    task_id: TaskId
    began: float
    """When it was started, by the clock of the event loop."""
    text: str
    """The lines it has printed."""
    whole: bool
    """Whether its agent is told all of them."""
    cleaner: Cleaner
    """Holds the line that has not ended, and reads on."""


class Tasks(Protocol):
    """Background work, as far as tools need it."""

    async def adopt(
        self, process: Process, *, title: str, so_far: CommandSoFar | None = None
    ) -> TaskHandle:
        """Take over a running process: its output goes to a file, its end becomes a notice."""
        ...

    def waiting(self, wait: ForegroundWait) -> AbstractContextManager[None]:
        """Let the user give up a wait for a command while a block runs."""
        ...

    async def output(self, task_id: str, *, wait: float = 0.0) -> CallOutcome:
        """Tell what a task has produced so far, waiting up to so many seconds for its end."""
        ...

    async def stop(self, task_id: str) -> CallOutcome:
        """Kill a task and everything it started."""
        ...

    def busy(self) -> bool:
        """Whether a task of this agent runs."""
        ...


class TaskHandle(msgspec.Struct, frozen=True):
    """What the model needs to know of a task that was started."""

    task_id: TaskId
    output_file: str


class Delegation(Protocol):
    """Starts and reaches other agents on behalf of one."""

    async def delegate(self, calls: Sequence[tuple[CallId, Any]]) -> list[CallOutcome]:
        """Start agents as the arguments of calls of the Agent tool say; they are one fan-out."""
        ...

    async def send(self, to: str, message: str) -> CallOutcome:
        """Send a message to an agent by name or task id."""
        ...


class Teamwork(Protocol):
    """A team, on behalf of one of its members."""

    @property
    def leads(self) -> bool:
        """Whether it is the leader's."""
        ...

    async def create(self, name: str, description: str) -> CallOutcome:
        """Begin a team."""
        ...

    async def spawn(self, calls: Sequence[tuple[CallId, Any]]) -> list[CallOutcome]:
        """Start members as the arguments of calls of TeamSpawn say; they are one fan-out."""
        ...

    async def send(self, args: Any) -> CallOutcome | None:
        """Send what the arguments of SendMessage say; None if it is not for the team."""
        ...

    async def stop(self, name: str) -> CallOutcome | None:
        """End a member at once that works in a session of its own; None if it is not for that."""
        ...

    async def output(self, name: str, *, wait: float) -> CallOutcome | None:
        """Tell what is new of a member in a session of its own; None if it is not for that.

        Waits for so many seconds at most for its end.
        """
        ...

    async def propose(self) -> CallOutcome:
        """Put the plan that was just said before the leader."""
        ...

    async def task(self, args: Any) -> CallOutcome:
        """Do with the shared list of tasks what the arguments of one of its tools say."""
        ...

    async def delete(self) -> CallOutcome:
        """End the team, if nobody of it is at work."""
        ...


def _nothing(path: str, folder: str) -> bool:
    del path, folder
    return False


_PRINTED = 4_000
"""Characters that are kept of what a call prints."""


class Context(msgspec.Struct, kw_only=True):
    """What the tools of one agent may touch."""

    host: Host
    reads: Reads
    emit: Callable[[Event], None]
    """Tells the faces something."""
    ask: Callable[[Sequence[Question]], Awaitable[str | None]]
    """Puts questions to the user; None if there is nobody to answer."""
    tasks: Tasks
    cwd: str = ""
    """Where shell commands start; follows `cd` and never leaves the allowed folders."""
    todos: tuple[Todo, ...] = ()
    env: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    """Added to the environment of processes."""
    images: bool = True
    """Whether the model can see pictures."""
    agents: Delegation | None = None
    """Starts and reaches other agents; None if this one may not."""
    team: Teamwork | None = None
    """Its team; None if it neither leads one nor is in one."""
    outputs: dict[CallId, str] = msgspec.field(default_factory=dict[CallId, str])
    """The end of what calls have printed that run; who ends one takes it out."""
    keeps_back: Callable[[str, str], bool] = _nothing
    """Whether a path may not be shown that a search of a folder has found; both are resolved."""

    def enter(self, folder: str) -> None:
        """Let the next command start in a folder."""
        self.cwd = folder

    def plan(self, todos: Sequence[Todo]) -> None:
        """Keep a list of things to do, and show it."""
        self.todos = tuple(todos)
        self.emit(TodosChanged(todos=self.todos))

    def show(self, call_id: CallId, text: str) -> None:
        """Show what a call prints while it runs."""
        whole = self.outputs.get(call_id, "") + text
        self.outputs[call_id] = f"…{whole[-_PRINTED:]}" if len(whole) > _PRINTED else whole
        self.emit(ToolOutput(call_id=call_id, text=text))

    def see(self, *, images: bool) -> None:
        """Serve another model, which can see pictures or not."""
        self.images = images

    def forget(self) -> None:
        """Know nothing of the conversation any more: whoever remembers nothing has read nothing."""
        self.reads, self.todos = Reads(), ()

    def recall(
        self,
        *,
        reads: dict[str, str] | None = None,
        todos: tuple[Todo, ...] | None = None,
        cwd: str | None = None,
    ) -> None:
        """Be as the agent was elsewhere, in what is given."""
        if reads is not None:
            self.reads = Reads(dict(reads), self.reads.unseen & reads.keys())
        self.todos = self.todos if todos is None else todos
        self.cwd = self.cwd if cwd is None else cwd

    def move(self, host: Host, cwd: str, keeps_back: Callable[[str, str], bool]) -> None:
        """Let the tools work in another place from now on, by what is kept back there."""
        self.host, self.cwd, self.keeps_back = host, cwd, keeps_back


@runtime_checkable
class Previewing(Protocol):
    """A tool that can show what a call would change before it runs."""

    async def preview(self, args: Any, context: Context) -> str | Failed:
        """Show the change to whoever is asked for permission, or say why the call would fail.

        Raises OSError.
        """
        ...


@runtime_checkable
class Together(Protocol):
    """A tool that takes the calls of one group whole, where others take them one by one."""

    async def run_all(
        self, calls: Sequence[tuple[CallId, Any]], context: Context
    ) -> list[CallOutcome]:
        """Do all of them; gives their outcomes in call order."""
        ...


def is_together(tool: object) -> TypeGuard[Together]:
    """Whether a tool takes calls whole; asked of every call, and known by the tool's kind."""
    return _offers(type(tool), Together)


@cache
def _offers(kind: type, what: type) -> bool:
    return issubclass(kind, what)


@runtime_checkable
class Sandboxed(Protocol):
    """A tool whose processes are held to a profile."""

    async def run_in(
        self, call_id: CallId, args: Any, context: Context, profile: Profile
    ) -> CallOutcome:
        """Do it, held to a profile."""
        ...


def is_sandboxed(tool: object) -> TypeGuard[Sandboxed]:
    """Whether a tool's processes are held to a profile; known by the tool's kind."""
    return _offers(type(tool), Sandboxed)


class Tool(Protocol):
    """Something an agent can do."""

    @property
    def name(self) -> str:
        """The name by which the model calls it."""
        ...

    @property
    def effect(self) -> SideEffect:
        """Whether calls may run beside others."""
        ...

    @property
    def arguments(self) -> type[msgspec.Struct]:
        """The argument type; its JSON schema is what the model sees."""
        ...

    @property
    def budget(self) -> int:
        """Characters of text a result may have before it is stored in a file and previewed."""
        ...

    def title(self, args: Any) -> str:
        """Say in one line, for people, what a call does."""
        ...

    def access(self, args: Any, context: Context) -> Sequence[Access]:
        """Say what a call will touch; decided on before it runs."""
        ...

    async def run(self, call_id: CallId, args: Any, context: Context) -> CallOutcome:
        """Do it."""
        ...
