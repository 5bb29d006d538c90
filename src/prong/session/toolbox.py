"""The tools of a session's main agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from prong.agent.spec import AgentType
from prong.config.package_tool import package_tools
from prong.config.place import Place
from prong.config.tool_choice import chosen_names, given_functions
from prong.errors import UnknownName
from prong.session.planning import Planner
from prong.system.bash_program import why_no_bash
from prong.team.typed import describe_agent_tool, offered, without_private
from prong.text import load_text
from prong.tools.filter import absent_tools, is_mcp, listed
from prong.tools.kit import Kit
from prong.tools.mcp import ServedTool, full_name
from prong.tools.mcp_search import CALL, SEARCH, LateServers, deferred, searchable
from prong.tools.structured import StructuredOutput
from prong.tools.tool import Tool

_LISTED = 100
TeamRole: TypeAlias = Literal["", "leader", "member"]
"""What an agent is in a team, if it is in one."""


def built_in(
    place: Place,
    planner: Planner | None,
    *,
    forks: bool,
    team: TeamRole = "",
    web: Sequence[Tool] = (),
) -> list[Tool]:
    """Make the tools that every session has, in the order in which the model sees them.

    With `team` come those of a leader, or of a member. Without a planner, which belongs to an open
    session, the tools of plan mode are left out; those for the web are the session's choice.
    """
    from prong.tools.ask_user import AskUserQuestion
    from prong.tools.background import TaskOutput, TaskStop
    from prong.tools.delegate import AgentTool, SendMessage
    from prong.tools.files import Edit, Glob, Grep, NotebookEdit, Read, Write
    from prong.tools.merge_worktrees import MergeWorktrees
    from prong.tools.plan import EnterPlanMode, ExitPlanMode
    from prong.tools.shell import Bash
    from prong.tools.skill import SkillTool
    from prong.tools.todo import TodoWrite

    background = place.settings.values.background
    targets = tuple(place.settings.values.remote.targets) if background else ()
    about = describe_agent_tool(
        place.types, forks=forks, only=None, background=background, targets=targets
    )
    tools: list[Tool] = [
        Read(),
        Write(),
        Edit(),
        NotebookEdit(),
        Glob(),
        Grep(),
        *([] if why_no_bash() else [Bash(background=background)]),
        TaskOutput(),
        TaskStop(),
        TodoWrite(),
        AskUserQuestion(),
        AgentTool(forks=forks, description=about, background=background, targets=targets),
        SendMessage(),
        MergeWorktrees(),
    ]
    tools += web
    if team:
        tools = _with_team(tools, forks=forks, leads=team == "leader")
    if planner is not None:
        tools += [EnterPlanMode(planner), ExitPlanMode(planner)]
    if any(skill.for_model for skill in place.skills):
        tools.append(SkillTool(place.skills, load_text("tool/Skill")))
    return tools


def _with_team(tools: list[Tool], *, forks: bool, leads: bool) -> list[Tool]:
    """Put the tools for a team in, each where an ordinary session has its like."""
    from prong.tools.team_task import SHARED_TASK_TOOLS
    from prong.tools.teamwork import TeamCreate, TeamDelete, TeamMessage, TeamSpawn

    said = TeamMessage()
    own = [tool if tool.name != said.name else said for tool in tools]
    listed: list[Tool] = [made() for made in SHARED_TASK_TOOLS]
    if not leads:
        return [*own, *listed]
    return [*own, TeamCreate(), TeamSpawn(forks=forks), *listed, TeamDelete()]


def built_in_names(place: Place) -> list[str]:
    """Name the tools that every session has."""
    from prong.tools.plan import EnterPlanMode, ExitPlanMode

    names = [tool.name for tool in built_in(place, None, forks=False)]
    values = place.settings.values.web
    web = ["WebFetch"] if values.fetch else []
    # Whether a provider searches is known once there is a model.
    web += ["WebSearch"] if values.search != "off" and values.search_url else []
    return [*names, *web, EnterPlanMode.name, ExitPlanMode.name]


def make_kit(
    place: Place,
    own: Sequence[Tool],
    served: Sequence[ServedTool],
    structured: StructuredOutput | None,
    *,
    late: LateServers | None = None,
) -> Kit:
    """Keep the tools that the options ask for, with the functions and what takes the answer.

    Those of servers have to be found if they are too many, and so have those of `late` servers.

    Raises UsageError if there is none of a name.
    """
    wanted, brought = chosen_names(place.options), package_tools(place.options)
    functions = sorted(
        (*given_functions(place.options), *brought.tools), key=lambda tool: tool.name
    )
    if wanted is not None:
        names = [tool.name for tool in (*own, *brought.tools, *served)]
        unknown = set(wanted).difference(names)
        # The server of a tool may only be away just now, which was said already.
        unknown -= {SEARCH, CALL}
        if away := sorted(name for name in unknown if is_mcp(name)):
            place.warnings.append(f"there is no tool {', '.join(away)}")
        if wrong := sorted(unknown.difference(away)):
            more = f" and {len(names) - _LISTED:,} more" if len(names) > _LISTED else ""
            listed = f"{', '.join(names[:_LISTED])}{more}"
            said = "".join(f"; {problem}" for problem in brought.problems)
            raise UnknownName(f"there is no tool {', '.join(wrong)}; the tools are {listed}{said}")
        own = [tool for tool in own if tool.name in wanted]
        served = [tool for tool in served if tool.name in wanted]
        late = late if any(is_mcp(name) for name in wanted) else None
    served = deferred(served, place.settings.values.mcp.search_above)
    last = [structured] if structured else []
    return Kit(searchable([*own, *functions, *served, *last], late))


def main_kit(place: Place, pool: Kit, late: LateServers | None) -> Kit:
    """Keep what the main agent may have, by its type if it is of one; also of what can be found."""
    kind = place.acts_as
    if kind is None and not place.servers.private:
        return pool
    choice = MainChoice(place.servers.private, kind)
    tools = list(pool) if kind is None else offered(pool, kind)
    kept = choice.keep([tool.name for tool in tools]) | {StructuredOutput.name}
    found = ChosenServers(late, choice) if late is not None else None
    return Kit(searchable((tool for tool in tools if tool.name in kept), found))


def lacking(place: Place, pool: Kit) -> dict[str, str]:
    """Give the tools that the main agent's type names and that are not there, each in words."""
    if (kind := place.acts_as) is None:
        return {}
    gone = absent_tools(kind.tool_names or (), [tool.name for tool in offered(pool, kind)])
    return {
        name: f"{kind.name}: the type names the tool {name!r}, which is not there" for name in gone
    }


class MainChoice(msgspec.Struct, frozen=True):
    """Which tools are the main agent's."""

    private: Mapping[str, str]
    """Servers of which only agents of one type have the tools."""
    kind: AgentType | None
    """The type that the main agent is of."""

    def keep(self, names: Sequence[str]) -> set[str]:
        """Give the names that are left."""
        kind = self.kind
        shared = without_private(names, self.private, kind.name if kind is not None else "")
        if kind is None:
            return set(shared)
        kept = listed(shared, kind.tool_names, tuple(kind.disallowed_tools))
        if kind.mcp_servers is None:
            return set(kept)
        leads = tuple(full_name(name, "") for name in kind.mcp_servers)
        return {name for name in kept if not is_mcp(name) or name.startswith(leads)}


class ChosenServers(msgspec.Struct, frozen=True):
    """Servers that are late, with those of their tools that are the main agent's."""

    late: LateServers
    choice: MainChoice

    @property
    def starting(self) -> tuple[str, ...]:
        """The names of those that are not there yet."""
        return self.late.starting

    async def wait_tools(self, seconds: float) -> Sequence[ServedTool]:
        """Wait for all of them; gives the tools that are chosen."""
        tools = await self.late.wait_tools(seconds)
        kept = self.choice.keep([tool.name for tool in tools])
        return [tool for tool in tools if tool.name in kept]
