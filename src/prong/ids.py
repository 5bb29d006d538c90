"""Names of agents, tasks and requests, and how an agent's path is taken apart.

A path says where an agent stands in the tree of a session: `main`, `main/a1`, `main/a1/a2`. Each
part below the main agent is the id of the task in which the agent runs. On disk and in events all
of these are plain strings.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NewType

AgentPath = NewType("AgentPath", str)
TaskId = NewType("TaskId", str)
RequestId = NewType("RequestId", str)
"""Of a request to a model, or of one to the user."""


def below(parent: AgentPath, task: TaskId) -> AgentPath:
    """Give the path of the agent that a task of another runs."""
    return AgentPath(f"{parent}/{task}")


def parent_of(path: AgentPath) -> AgentPath:
    """Give the path of the agent that started this one; empty for the main agent."""
    return AgentPath(path.rpartition("/")[0])


def root_of(path: AgentPath) -> AgentPath:
    """Give the path of the main agent above this one."""
    return AgentPath(path.partition("/")[0])


def task_of(path: AgentPath) -> TaskId:
    """Give the id of the task in which an agent runs; the main agent's is its name."""
    return TaskId(path.rpartition("/")[2])


def depth_of(path: AgentPath) -> int:
    """Say how many agents are above it."""
    return path.count("/")


def is_below(path: AgentPath, above: AgentPath) -> bool:
    """Whether an agent was started by another, or by one that is below it."""
    return path.startswith(f"{above}/")


def upwards(path: AgentPath) -> Iterator[AgentPath]:
    """Give the agent and all above it, the main agent last."""
    while path:
        yield path
        path = parent_of(path)
