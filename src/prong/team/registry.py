"""The children of a session by name: those in memory, and those the journal alone still has."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from msgspec import Struct, field

from prong.agent import Agent
from prong.config.listing import name_some
from prong.cost import Prices
from prong.cost.receipt import Receipt
from prong.ids import AgentPath, TaskId
from prong.journal.note import ChildSpec
from prong.team.archive import KEPT, Archive
from prong.team.child import Child
from prong.team.task import TaskBoard


class Registry(Struct, kw_only=True):
    """Finds children, names new ones, and lets go of those that ended a while ago."""

    board: TaskBoard
    prices: Prices
    agents: dict[str, Agent] = field(default_factory=dict[str, Agent])
    """Every agent in memory by its path, the main agent included."""
    _children: dict[str, Child] = field(default_factory=dict[str, Child])
    _archive: Archive = field(default_factory=Archive)
    _numbers: dict[str, int] = field(default_factory=dict[str, int])
    """The last number that was given to each kind."""

    def __iter__(self) -> Iterator[Child]:
        """Go through those in memory, in the order in which they began."""
        return iter(list(self._children.values()))

    def __len__(self) -> int:
        """Count all that there ever were."""
        return len(self._children) + len(self._archive)

    def get(self, name: str) -> Child | None:
        """Find one in memory by its name, or by the id of the call that started it."""
        return self._children.get(self.board.ids.id_of(name))

    def at(self, path: str) -> Child | None:
        """Find one in memory by its path."""
        return next((c for c in self._children.values() if c.spec.path == path), None)

    def archived(self, name: str) -> ChildSpec | None:
        """Say what a child was that only the journal still has."""
        return self._archive.spec(self.board.ids.id_of(name))

    def tell_of(self, parent: AgentPath) -> str:
        """Name those that an agent has started and how each stands, the ones at work first."""
        own = [one for one in self if one.spec.parent == parent]
        own.sort(key=lambda one: one.status != "running")
        told = name_some([f"{one.spec.task_id} ({one.status})" for one in own])
        return f"yours are: {told}" if told else "you have started none"

    def has(self, name: str | None) -> bool:
        """Whether there is or was a child of that name."""
        return name in self._children or name in self._archive

    def is_free(self, name: str) -> bool:
        """Whether no other agent has a name, and no task had it."""
        return not self.has(name) and not self.board.ids.knows(name)

    def numbered(self, kind: str) -> TaskId:
        """Give the next name of a kind that is free: fork-1, fork-2."""
        if kind not in self._numbers:
            self._numbers[kind] = self.board.ids.highest(kind)
        for number in count(self._numbers[kind] + 1):
            if not self.has(name := f"{kind}-{number}"):
                self._numbers[kind] = number
                return TaskId(name)
        raise AssertionError("numbers do not end")

    def add(self, child: Child) -> None:
        """Take a child in."""
        self._archive.drop(child.spec.task_id)
        self._children[child.spec.task_id] = child
        self.agents[child.spec.path] = child.agent

    def remove(self, child: Child) -> None:
        """Take a child out."""
        self._children.pop(child.spec.task_id, None)
        self.agents.pop(child.spec.path, None)

    def retire(self, ended: Child) -> None:
        """Leave all but the last finished children to the journal, so that agents can be freed.

        One that ended while others of its fan-out run frees nobody: they are held until then.
        """
        fan = ended.account.fan
        if len(self._children) <= KEPT or (fan is not None and len(fan.running) > 1):
            return
        over = [child for child in self._children.values() if self._is_over(child)]
        for child in over[: max(0, len(over) - KEPT)]:
            self.remove(child)
            self._archive.put(child.spec, self.receipt(child))

    def _is_over(self, child: Child) -> bool:
        # While a sibling runs, a child's notice may be held.
        ended = child.status != "running" and not self.board.runs(child.spec.task_id)
        return ended and not is_held(child)

    def holds(self, task_id: str) -> bool:
        """Whether a task is a child in memory whose notice waits for its siblings."""
        child = self._children.get(task_id)
        return child is not None and is_held(child)

    def receipt(self, child: Child) -> Receipt:
        """Settle a child's receipt by what it has paid so far."""
        return child.account.settled(
            child.status, self.prices.of(child.agent.conversation.prompt.head.model)
        )

    def receipts(self) -> list[Receipt]:
        """Give the receipts of all children."""
        return [*self._archive.receipts(), *map(self.receipt, self._children.values())]


class Held(Struct, frozen=True):
    """The tasks of children whose notices wait for their siblings."""

    registry: Registry

    def __contains__(self, task_id: object) -> bool:
        """Whether a task's notice has to wait."""
        return isinstance(task_id, str) and self.registry.holds(task_id)


def is_held(child: Child) -> bool:
    """Whether a child's siblings are still at work, and it has to wait for their end.

    Nobody can wait for the end of members of a team.
    """
    fan = child.account.fan
    return child.spec.member is None and fan is not None and bool(fan.running)
