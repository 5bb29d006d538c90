"""One run of an agent as a value: all that another process needs to know to take it over.

Two things are not in it, and travel by themselves: the rope, as its recorded entries, and the keys.
"""

from __future__ import annotations

import msgspec

from prong.agent.client import ModelSettings
from prong.agent.lineage import Lineage
from prong.cost.budget import Bounds
from prong.cost.price import Price
from prong.entry import Usage, User
from prong.event import Todo
from prong.host.bundle import Shipment
from prong.host.workplace import Workplace
from prong.ids import AgentPath, TaskId
from prong.provider import Endpoint, HttpLimits, Patience
from prong.tools.policy import Policy
from prong.tools.tool import SideEffect

HERE = frozenset(
    (
        "Bash",
        "Edit",
        "Glob",
        "Grep",
        "NotebookEdit",
        "Read",
        "TaskOutput",
        "TaskStop",
        "TodoWrite",
        "Write",
    )
)
"""The tools that a worker runs, those for files and commands; the session runs all others."""


class ToolRow(msgspec.Struct, frozen=True, kw_only=True):
    """One tool of the agent."""

    name: str
    effect: SideEffect
    budget: int
    here: bool
    """Whether the worker runs it; the session runs the others, to which it has the connections."""
    together: bool = False
    """Whether it takes the calls of a reply together."""


class LastSent(msgspec.Struct, frozen=True, kw_only=True):
    """The last request of the agent that was answered."""

    depth: int = -1
    """How many entries of its prompt it ended after; -1 if nothing of it is in the prompt."""
    usage: Usage = Usage()
    length: int = 0
    response_id: str = ""
    at: float = 0.0


class Beside(msgspec.Struct, frozen=True, kw_only=True):
    """What the agent has beside its conversation."""

    cwd: str
    todos: tuple[Todo, ...]
    reads: dict[str, str]
    unseen: tuple[str, ...]
    env: dict[str, str]
    images: bool
    storage: str
    scratch: str
    """Folder for the output of the commands that it leaves running."""


class Spending(msgspec.Struct, frozen=True, kw_only=True):
    """What the agent may spend, and has spent."""

    name: str
    bounds: Bounds
    tokens: int = 0
    usd: float = 0.0
    turns: int = 0
    max_turns: int | None = None
    prices: dict[str, Price] = {}
    """The user's own."""


class ModelAccess(msgspec.Struct, frozen=True, kw_only=True):
    """How the agent's model is reached, but for the keys."""

    endpoint: Endpoint
    patience: Patience
    limits: HttpLimits
    settings: ModelSettings


class Waiting(msgspec.Struct, frozen=True):
    """Something that waits for the agent."""

    number: int
    entry: User


class RemoteRun(msgspec.Struct, frozen=True, kw_only=True):
    """What a run on another machine holds to there."""

    folder: str
    shipment: Shipment
    lease: int
    """Its number: a worker that hears of a higher one stops."""


class RunSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One run of an agent: all that another process needs to know, beside its rope and its keys."""

    path: AgentPath
    lineage: Lineage
    task_id: TaskId
    digest: str
    """Of the prompt that it goes on from."""
    base: int | None = None
    """How many entries it shares with its siblings, if it is a fork."""
    last: LastSent = LastSent()
    model: ModelAccess
    place: Workplace
    beside: Beside
    tools: tuple[ToolRow, ...]
    policy: Policy
    """By which searches keep paths back; calls are decided on by the session."""
    spending: Spending
    ahead: float = 0.0
    """Seconds by which the session's clock is ahead of the machine's."""
    inbox: tuple[Waiting, ...] = ()
    remote: RemoteRun | None = None
    """The workspace that it works in, if that is on another machine than the session."""
