"""Looking around: which part of the screen keys are for, and which agent is looked at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from prong.command import Background, Command, Interrupt, Stop
from prong.event import MAIN
from prong.face.draw.tree import Aspect, draw_tree
from prong.face.edit.key import PASTE, TEXT, KeyPress
from prong.face.full.reader import ConversationReader
from prong.view import View

Zone: TypeAlias = Literal["line", "conversation", "agents"]


class Looked(msgspec.Struct, frozen=True):
    """A key has done its work."""


class Wanted(msgspec.Struct, frozen=True):
    """A command is to be sent."""

    command: Command


class Addressed(msgspec.Struct, frozen=True):
    """The next message is for a child, or with no name for the main agent."""

    task_id: str


class Preferred(msgspec.Struct, frozen=True):
    """A question is to be put before the others."""

    request_id: str


Glance: TypeAlias = Looked | Wanted | Addressed | Preferred


class Looking:
    """Where somebody looks."""

    def __init__(self) -> None:
        """Look at the main agent's conversation, with the keys in the line."""
        self.zone: Zone = "line"
        self.selected = MAIN
        """The path or task id of the row that is marked among the agents."""
        self.reader = ConversationReader()

    def press(self, view: View, key: KeyPress) -> Glance | None:
        """Take a key outside of the line; None if it is not for here."""
        match key.name:
            case "tab":
                self.go_on(view)
                return Looked()
            case "escape":
                self.come_back(view)
                return Looked()
            case "up" | "down":
                self._move(view, -1 if key.name == "up" else 1)
                return Looked()
            case "enter":
                self._enter(view)
                return Looked()
            case "end" if self.zone == "conversation":
                self.reader.end()
                return Looked()
            case _:
                found = self._of_agent(view, key) if self.zone == "agents" else None
                if found is None and key.name in {TEXT, PASTE}:
                    # Whoever types goes on in the line.
                    self.enter("line", view)
                return found

    def come_back(self, view: View) -> None:
        """Look at the main agent again, with the keys in the line."""
        self.enter("line", view)
        self.select(MAIN, view)

    def select(self, key: str, view: View) -> None:
        """Mark an agent or command; an agent's conversation is shown."""
        self.selected = key
        if (agent := view.agents.get(key)) is not None:
            self.reader.open(agent.path)

    def enter(self, zone: Zone, view: View) -> None:
        """Let keys be for the line, the conversation or the agents."""
        self.zone = zone
        self.reader.unmark()
        if zone == "conversation":
            self.reader.mark(view, -1)

    def go_on(self, view: View) -> None:
        """Go on to the next zone."""
        order: list[Zone] = ["line", "agents", "conversation"]
        if len(lines_of(view)) < 2:
            order.remove("agents")
        at = order.index(self.zone) if self.zone in order else 0
        self.enter(order[(at + 1) % len(order)], view)

    def _enter(self, view: View) -> None:
        if self.zone == "conversation":
            self.reader.fold_marked()
        else:
            self.enter("line", view)

    def _move(self, view: View, step: int) -> None:
        if self.zone == "conversation":
            self.reader.mark(view, step)
            return
        keys = lines_of(view)
        at = keys.index(self.selected) if self.selected in keys else 0
        self.select(keys[max(0, min(len(keys) - 1, at + step))], view)

    def _of_agent(self, view: View, key: KeyPress) -> Glance | None:
        """Do something with the agent or command that is marked."""
        agent = view.agents.get(self.selected)
        task = self.selected if agent is None else agent.task_id
        match key.text if key.name == TEXT else "":
            case "m" if agent is not None:
                self.enter("line", view)
                return Addressed(task)
            case "x":
                return Wanted(Stop(task) if task else Interrupt())
            case "b":
                return Wanted(Background(task or None))
            case "a":
                asked = [one for one in view.questions.values() if one.agent == self.selected]
                if asked:
                    self.enter("line", view)
                    return Preferred(asked[0].asked.request_id)
                return Looked()
            case _:
                return None


def lines_of(view: View) -> Sequence[str]:
    """Give the paths of agents and the ids of commands, as they stand among the agents."""
    return [row.key for row in draw_tree(view, Aspect(width=40)) if row.key]
