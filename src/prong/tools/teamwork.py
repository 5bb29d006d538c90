"""The tools by which a main agent leads a team, and by which its members talk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from prong.entry import CallId
from prong.text import load_text
from prong.tools.access import Access, Using
from prong.tools.delegate import SendMessage, SpawnArguments
from prong.tools.tool import CallOutcome, Context, Failed, SideEffect

NO_TEAM = "you are in no team"


class TeamCreateArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What TeamCreate takes."""

    name: Annotated[str, Meta(description="Lower-case letters, digits, hyphens")]
    description: str = ""


class TeamCreate:
    """Begins a team, which its caller leads."""

    name = "TeamCreate"
    effect: SideEffect = "writes"
    arguments: type[msgspec.Struct] = TeamCreateArguments
    budget = 10_000

    def title(self, args: TeamCreateArguments) -> str:
        """Name the team."""
        return f"TeamCreate {args.name}"

    def access(self, args: TeamCreateArguments, context: Context) -> Sequence[Access]:
        """Touch nothing of the project."""
        del args, context
        return ()

    async def run(
        self, call_id: CallId, args: TeamCreateArguments, context: Context
    ) -> CallOutcome:
        """Begin it."""
        del call_id
        if context.team is None:
            return Failed(NO_TEAM)
        return await context.team.create(args.name, args.description)


class TeamSpawn:
    """Starts a member of the team."""

    name = "TeamSpawn"
    # As for agents: it touches nothing itself, so the calls of one reply start together.
    effect: SideEffect = "reads"
    arguments: type[msgspec.Struct] = SpawnArguments
    budget = 10_000

    def __init__(self, *, forks: bool) -> None:
        """Say whether forks are on: then a member without a type is one."""
        self._default = "fork" if forks else "general-purpose"

    def title(self, args: SpawnArguments) -> str:
        """Name the member and its work."""
        return f"TeamSpawn {args.name}: {args.description}"

    def access(self, args: SpawnArguments, context: Context) -> Sequence[Access]:
        """Rules speak of a member by its type."""
        del context
        return (Using(args.subagent_type or self._default),)

    async def run(self, call_id: CallId, args: SpawnArguments, context: Context) -> CallOutcome:
        """Start it."""
        (outcome,) = await self.run_all([(call_id, args)], context)
        return outcome

    async def run_all(
        self, calls: Sequence[tuple[CallId, SpawnArguments]], context: Context
    ) -> list[CallOutcome]:
        """Start all members of a reply, as one fan-out."""
        if context.team is None:
            return [Failed(NO_TEAM) for _ in calls]
        return await context.team.spawn(calls)


class TeamMessageArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What SendMessage takes where there may be a team."""

    to: Annotated[str, Meta(description="A member, leader, * for all, or an agent's task id")]
    message: str = ""
    request_id: Annotated[str, Meta(description="Of the request you answer")] | None = None
    approve: Annotated[bool, Meta(description="Your answer to it")] | None = None
    shutdown: Annotated[bool, Meta(description="Leader: ask the member to end")] = False


class TeamMessage:
    """SendMessage where there may be a team: to one of its members, or to an agent as ever."""

    name = SendMessage.name
    effect: SideEffect = "writes"
    arguments: type[msgspec.Struct] = TeamMessageArguments
    budget = 10_000

    def __init__(self) -> None:
        """Be described by what can be done in a team."""
        self.description = load_text("tool/TeamMessage")

    def title(self, args: TeamMessageArguments) -> str:
        """Name whom it is for."""
        return f"SendMessage to {'all' if args.to == '*' else args.to}"

    def access(self, args: TeamMessageArguments, context: Context) -> Sequence[Access]:
        """Touch nothing: the other agent's own calls are decided on."""
        del args, context
        return ()

    async def run(
        self, call_id: CallId, args: TeamMessageArguments, context: Context
    ) -> CallOutcome:
        """Send it."""
        del call_id
        sent = await context.team.send(args) if context.team is not None else None
        if sent is not None:
            return sent
        if args.approve is not None or args.request_id or args.shutdown:
            return Failed(f"{args.to!r} is no member of your team; only members ask and are asked")
        if context.agents is None:
            return Failed("this agent cannot reach others")
        return await context.agents.send(args.to, args.message)


class TeamDeleteArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What TeamDelete takes: nothing, since there is one team at most."""


class TeamDelete:
    """Ends a team whose members have all ended."""

    name = "TeamDelete"
    effect: SideEffect = "writes"
    arguments: type[msgspec.Struct] = TeamDeleteArguments
    budget = 10_000

    def title(self, args: TeamDeleteArguments) -> str:
        """Say what ends."""
        del args
        return "TeamDelete"

    def access(self, args: TeamDeleteArguments, context: Context) -> Sequence[Access]:
        """Touch nothing of the project."""
        del args, context
        return ()

    async def run(
        self, call_id: CallId, args: TeamDeleteArguments, context: Context
    ) -> CallOutcome:
        """End it."""
        del call_id, args
        return Failed(NO_TEAM) if context.team is None else await context.team.delete()
