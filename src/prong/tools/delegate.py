"""The tools by which an agent gives work to other agents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from prong.entry import CallId
from prong.tools.access import Access, Using
from prong.tools.schema import schema
from prong.tools.tool import CallOutcome, Context, Failed, SideEffect

Isolation = Annotated[str, Meta(extra_json_schema={"enum": ["remote", "worktree"]})]
"""`worktree`, `remote` or `remote:NAME`; who starts the agent reads it, and knows the names."""

_SEVERAL = 2
"""Machines from which on a call may want to name one."""


class AgentArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What Agent takes while forks are on: every agent then works in the background."""

    description: Annotated[str, Meta(description="3 to 5 words, for the user")]
    prompt: str
    subagent_type: Annotated[str, Meta(description="Leave it out to fork")] | None = None
    model: Annotated[str, Meta(description="Another model; not for forks")] | None = None
    name: str | None = None
    isolation: Isolation | None = None

    @property
    def background(self) -> bool:
        """Whether the parent goes on at once."""
        return True


class PlainAgentArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What Agent takes while forks are off."""

    description: Annotated[str, Meta(description="3 to 5 words, for the user")]
    prompt: str
    subagent_type: Annotated[str, Meta(description="Else general-purpose")] | None = None
    model: Annotated[str, Meta(description="Another model")] | None = None
    run_in_background: Annotated[bool, Meta(description="Go on without waiting for it")] = False
    name: str | None = None
    isolation: Isolation | None = None

    @property
    def background(self) -> bool:
        """Whether the parent goes on at once."""
        return self.run_in_background


class WaitedAgentArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What Agent takes where every agent is waited for."""

    description: Annotated[str, Meta(description="3 to 5 words, for the user")]
    prompt: str
    subagent_type: Annotated[str, Meta(description="Else general-purpose")] | None = None
    model: Annotated[str, Meta(description="Another model")] | None = None
    name: str | None = None
    isolation: Isolation | None = None

    @property
    def background(self) -> bool:
        """Whether the parent goes on at once."""
        return False


class WorkerArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What Agent takes for a coordinator, whose workers are always in the background.

    Their model is the user's choice, so there is no field for it.
    """

    description: Annotated[str, Meta(description="3 to 5 words, for the user")]
    prompt: str
    files: (
        Annotated[
            tuple[str, ...],
            Meta(description="What it will change: paths, folders, patterns; [] for nothing"),
        ]
        | None
    ) = None
    subagent_type: Annotated[str, Meta(description="Always worker")] | None = None
    name: str | None = None
    isolation: Isolation | None = None

    @property
    def model(self) -> None:
        """Another model: never."""

    @property
    def background(self) -> bool:
        """Whether the parent goes on at once."""
        return True


class SpawnArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What TeamSpawn takes: a member works beside all others until it is asked to end."""

    name: Annotated[str, Meta(description="Lower-case letters, digits, hyphens")]
    description: Annotated[str, Meta(description="3 to 5 words, for the user")]
    prompt: str
    subagent_type: Annotated[str, Meta(description="Leave it out to fork")] | None = None
    model: Annotated[str, Meta(description="Another model; not for forks")] | None = None
    isolation: Isolation | None = None
    plan: Annotated[bool, Meta(description="It only reads until you approve its plan")] = False
    backend: Annotated[str, Meta(description="Where it runs, if the user asks")] | None = None

    @property
    def background(self) -> bool:
        """Whether the parent goes on at once."""
        return True


AnyAgentArguments = (
    AgentArguments | PlainAgentArguments | WaitedAgentArguments | WorkerArguments | SpawnArguments
)


class AgentTool:
    """Starts another agent."""

    name = "Agent"
    # Starting one touches nothing itself, so the calls of a fan-out start together.
    effect: SideEffect = "reads"
    budget = 50_000

    default = "general-purpose"
    """The type of an agent for which none is named, while forks are off."""

    def __init__(
        self,
        *,
        forks: bool,
        description: str = "",
        background: bool = True,
        targets: Sequence[str] = (),
    ) -> None:
        """Say whether forks are on, and work in the background: the schema depends on it.

        It also names the machines, where there are several. The description lists the types; both
        are made once, and then stand in the cached prefix.
        """
        self.forks = forks
        self.targets = tuple(targets)
        self.background = background
        self.description = description
        plain = PlainAgentArguments if background else WaitedAgentArguments
        self.arguments: type[msgspec.Struct] = AgentArguments if forks else plain

    @property
    def raw_schema(self) -> msgspec.Raw | None:
        """The schema of its arguments, with the machines if there are several; else None."""
        if len(self.targets) < _SEVERAL:
            return None
        made: dict[str, Any] = msgspec.json.decode(schema(self.arguments))
        named = [f"remote:{name}" for name in sorted(self.targets)]
        made["properties"]["isolation"]["enum"] = ["remote", *named, "worktree"]
        return msgspec.Raw(msgspec.json.encode(made))

    def title(self, args: AnyAgentArguments) -> str:
        """Name the kind of agent and its work."""
        return f"Agent {self._kind(args)}: {args.description}"

    def access(self, args: AnyAgentArguments, context: Context) -> Sequence[Access]:
        """Rules speak of an agent by its type."""
        del context
        return (Using(self._kind(args)),)

    def _kind(self, args: AnyAgentArguments) -> str:
        return args.subagent_type or ("fork" if self.forks else self.default)

    async def run(self, call_id: CallId, args: AnyAgentArguments, context: Context) -> CallOutcome:
        """Start it."""
        (outcome,) = await self.run_all([(call_id, args)], context)
        return outcome

    async def run_all(
        self, calls: Sequence[tuple[CallId, AnyAgentArguments]], context: Context
    ) -> list[CallOutcome]:
        """Start all agents of a reply, as one fan-out."""
        if context.agents is None:
            return [Failed("this agent cannot start others") for _ in calls]
        return await context.agents.delegate(calls)


class WorkerAgent(AgentTool):
    """Starts a worker for a coordinator."""

    default = "worker"

    def __init__(self, *, description: str, targets: Sequence[str] = ()) -> None:
        """Take the description, and the machines that there are."""
        super().__init__(forks=False, description=description, targets=targets)
        self.arguments = WorkerArguments


class SendMessageArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What SendMessage takes."""

    to: Annotated[str, Meta(description="Its name or task id")]
    message: str


class SendMessage:
    """Sends a message to another agent."""

    name = "SendMessage"
    effect: SideEffect = "writes"
    arguments: type[msgspec.Struct] = SendMessageArguments
    budget = 10_000

    def title(self, args: SendMessageArguments) -> str:
        """Name the agent."""
        return f"SendMessage to {args.to}"

    def access(self, args: SendMessageArguments, context: Context) -> Sequence[Access]:
        """Touch nothing: the other agent's own calls are decided on."""
        del args, context
        return ()

    async def run(
        self, call_id: CallId, args: SendMessageArguments, context: Context
    ) -> CallOutcome:
        """Send it."""
        del call_id
        if context.agents is None:
            return Failed("this agent cannot reach others")
        return await context.agents.send(args.to, args.message)
