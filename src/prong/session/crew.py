"""What the agents of a session can do, and whom they can start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from prong.agent.spec import AgentTypes
from prong.config.effort import unknown_efforts
from prong.config.model import unknown_models
from prong.config.place import Place
from prong.journal.note import ToolSet
from prong.prompt import Head
from prong.session.coordination import coordinate
from prong.session.foundation import Foundation
from prong.session.planning import Planner
from prong.session.toolbox import TeamRole, built_in, lacking, main_kit, make_kit
from prong.team.pull import Pulls
from prong.team.route import ForkMode
from prong.tools.filter import not_there
from prong.tools.kit import Kit
from prong.tools.mcp_search import SEARCH
from prong.tools.structured import StructuredOutput
from prong.tools.tool import Tool

if TYPE_CHECKING:
    # Loaded only where there are servers.
    from prong.session.mcp_servers import McpServers


class Crew(msgspec.Struct, frozen=True, kw_only=True):
    """Tools and types of agents, as they are before the first agent is made."""

    place: Place
    """The surroundings, with what servers and the main agent's role add to the prompt."""
    kit: Kit
    """The main agent's tools."""
    pool: Kit
    """All tools of the session; those of typed children are chosen from these."""
    types: AgentTypes
    forks: ForkMode
    own: tuple[Tool, ...]
    """The tools that every session has."""
    structured: StructuredOutput | None = None
    servers: McpServers | None = None
    coordinates: bool = False
    """Whether the main agent only leads others."""

    def fitted(self, head: Head) -> Crew:
        """Give the crew of a main agent that has this head, which may be an old one."""
        if self.servers is None or self.coordinates:
            return self
        from prong.session.mcp_servers import fitting

        kit = fitting(self.pool, head.spec.tools, self.servers)
        searches = self.servers if SEARCH in kit.names else None
        return replace(self, kit=_main_kit(self.place, kit, searches))

    def renewed(self) -> Crew:
        """Give the crew with the tools that servers have by now."""
        assert self.servers is not None
        place = replace(self.place, server_notes=self.servers.instructions())
        pool = _pool(place, self.own, self.servers, self.structured)
        kit = self.kit if self.coordinates else _main_kit(place, pool, self.servers)
        return replace(self, place=place, pool=pool, kit=kit)


def _unknown_targets(place: Place) -> list[str]:
    """Say which machines settings and types of agents name that there are not."""
    remote = place.settings.values.remote
    named = [("the setting remote.default", remote.default)]
    named += [
        (f"the agent type {kind.name}", kind.isolation.removeprefix("remote:"))
        for kind in place.types.values()
        if kind.isolation.startswith("remote:")
    ]
    there = ", ".join(sorted(remote.targets)) or "none"
    return [
        f"{who} names the remote target {name!r}, which remote.targets has not; there are: {there}"
        for who, name in named
        if name and name not in remote.targets
    ]


def _unknown_launchers(place: Place) -> list[str]:
    """Say which machines are to be reached by launchers that there are not; none is loaded."""
    targets = place.settings.values.remote.targets
    if not targets:
        return []
    # Most sessions have no other machines.
    from prong.host.launcher import launcher_fault

    faults = ((name, launcher_fault(target.launcher)) for name, target in targets.items())
    return [f"the remote target {name!r} cannot be used: {why}" for name, why in faults if why]


def make_crew(
    base: Foundation,
    servers: McpServers | None,
    planner: Planner,
    pulls: Pulls,
    workers: ToolSet | None,
    *,
    role: TeamRole,
    web: Sequence[Tool],
) -> Crew:
    """Find the tools and the types of agents; a coordinator has its own.

    Raises UsageError if a tool is asked for that there is not.
    """
    place, forks = base.place, _forks(base)
    if servers is not None:
        from prong.session.mcp_server import problems

        place.warn(*map(str, problems(servers.servers)))
        place = replace(place, server_notes=servers.instructions())
    own = tuple(built_in(place, planner, forks=forks.on, team=role, web=web))
    pool = _pool(place, own, servers, base.structured)
    absent = lacking(place, pool)
    place.warn(*absent.values(), *unknown_models(place), *unknown_efforts(place))
    place.warn(*_unknown_targets(place), *_unknown_launchers(place))
    # A server's tools may come later.
    gone = [name for name in absent if not name.lower().startswith("mcp__")]
    if gone and place.role is not None:
        prompt, more = place.role
        place = replace(place, role=(prompt, "\n\n".join(filter(None, (more, not_there(gone))))))
    crew = Crew(
        place=place,
        kit=_main_kit(place, pool, servers),
        pool=pool,
        types=place.types,
        forks=forks,
        own=own,
        structured=base.structured,
        servers=servers,
    )
    if workers is None:
        return crew
    team = coordinate(place, pool, base.policy, pulls, workers)
    return replace(
        crew,
        coordinates=True,
        place=replace(place, role=team.role),
        kit=team.kit,
        types=team.types,
        forks=ForkMode(on=False, why_off="a coordinator's workers start from nothing"),
    )


def _main_kit(place: Place, pool: Kit, servers: McpServers | None) -> Kit:
    return main_kit(place, pool, servers if servers is not None and servers.starting else None)


def _pool(
    place: Place,
    own: tuple[Tool, ...],
    servers: McpServers | None,
    structured: StructuredOutput | None,
) -> Kit:
    if servers is None:
        return make_kit(place, own, (), structured)
    late = servers if servers.starting else None
    return make_kit(place, own, servers.tools(), structured, late=late)


def _forks(base: Foundation) -> ForkMode:
    """Whether forks are on: somebody, or a rule, must be there to answer for them."""
    values, options = base.place.settings.values, base.place.options
    if not values.fork.enabled:
        return ForkMode(on=False, why_off="the setting fork.enabled is false")
    if not values.background:
        return ForkMode(on=False, why_off="the setting background is false, and forks need it")
    never_asks = base.policy.policy.mode in {"bypassPermissions", "dontAsk"}
    if base.questions.answerable or never_asks or options.allow:
        return ForkMode(on=True)
    why = "nobody is here to answer a fork's permission requests, and no policy was given"
    remedy = "choose the mode dontAsk, allow something by rules, or give somebody to respond"
    return ForkMode(on=False, why_off=why, remedy=remedy)
