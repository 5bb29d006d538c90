"""The tools of a session's main agent."""

from __future__ import annotations

from prong.session.place import Place
from prong.session.planning import Planner
from prong.session.recruit import describe_agent_tool
from prong.session.text import text
from prong.tool.base import Tool


def built_in(place: Place, planner: Planner | None, *, forks: bool) -> list[Tool]:
    """Make the tools that every session has, in the order in which the model sees them.

    Without a planner, which belongs to an open session, the tools of plan mode are left out.
    """
    from prong.tool.delegate import Agent as AgentTool
    from prong.tool.delegate import SendMessage
    from prong.tool.files import Edit, Glob, Grep, NotebookEdit, Read, Write
    from prong.tool.merge import MergeWorktrees
    from prong.tool.plan import EnterPlanMode, ExitPlanMode
    from prong.tool.question import AskUserQuestion
    from prong.tool.shell import Bash
    from prong.tool.skill import SkillTool
    from prong.tool.task import TaskOutput, TaskStop
    from prong.tool.todo import TodoWrite

    about = describe_agent_tool(place.types, forks=forks, only=None)
    tools: list[Tool] = [
        Read(),
        Write(),
        Edit(),
        NotebookEdit(),
        Glob(),
        Grep(),
        Bash(),
        TaskOutput(),
        TaskStop(),
        TodoWrite(),
        AskUserQuestion(),
        AgentTool(forks=forks, description=about),
        SendMessage(),
        MergeWorktrees(),
    ]
    if planner is not None:
        tools += [EnterPlanMode(planner), ExitPlanMode(planner)]
    if any(skill.for_model for skill in place.skills):
        tools.append(SkillTool(place.skills, text("tool/Skill")))
    return tools


def built_in_names(place: Place) -> list[str]:
    """Name the tools that every session has."""
    from prong.tool.plan import EnterPlanMode, ExitPlanMode

    names = [tool.name for tool in built_in(place, None, forks=False)]
    return [*names, EnterPlanMode.name, ExitPlanMode.name]
