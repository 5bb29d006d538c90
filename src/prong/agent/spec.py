"""What a type of agent is, and the types that are always there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias, cast

import msgspec

from prong.text import load_text
from prong.tools.function import AnyFunctionTool, FunctionTool
from prong.tools.policy import Mode
from prong.tools.short_list import ShortList, shorten

TypeSource: TypeAlias = Literal["program", "flag", "project", "home", "plug-in", "built-in"]
"""Who defined a type, the nearest first."""

INHERIT = "inherit"
"""In place of a model's name: the parent's."""

_LISTED = 24_000
"""Characters of the list of types, which rides on every request."""

RESERVED = frozenset({"fork"})
"""Names that no type may have."""


class AgentType(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of agent that can be started with a brief."""

    name: str
    description: str
    """When to use it, for the model that chooses."""
    prompt: str
    """Its system prompt; facts about the surroundings are added."""
    tools: Sequence[str | Callable[..., Any]] | None = None
    """The only tools it may have, by name, and functions that are tools of it alone; None for all
    that agents of its kind may have."""
    disallowed_tools: Sequence[str] = ()
    model: str = INHERIT
    permission_mode: Mode = "acceptEdits"
    max_turns: int | None = None
    skills: Sequence[str] = ()
    """Skills whose text is put into its prompt."""
    mcp_servers: Sequence[str] | None = None
    """The only servers whose tools it gets; None for all."""
    servers: Mapping[str, Any] = {}
    """Servers of its own by name, each as in `.mcp.json`; no other agent has their tools."""
    hooks: Sequence[Any] = ()
    """Functions that are hooks, or commands of its file: for it alone, after the session's."""
    background: bool = False
    """Whether it always works in the background."""
    effort: str = ""
    isolation: str = ""
    """`worktree`, `remote`, or `remote:NAME` for a machine of the settings; empty for none."""
    initial_prompt: str = ""
    """Put before every brief."""
    omit_instructions: bool = False
    """Whether project instructions are left out, to save tokens."""
    source: TypeSource = "built-in"
    path: str = ""
    """The file or package it was defined in; Prong sets this and the source."""
    unheeded: Sequence[str] = ()
    """What its file says that is left out, a sentence each; Prong sets it."""

    @property
    def functions(self) -> tuple[AnyFunctionTool, ...]:
        """The functions that are tools of it alone."""
        return tuple(
            cast("AnyFunctionTool", one)
            for one in self.tools or ()
            if isinstance(one, FunctionTool)
        )

    @property
    def tool_names(self) -> tuple[str, ...] | None:
        """The only tools it may have, all by name; None for all."""
        if self.tools is None:
            return None
        own = tuple(tool.name for tool in self.functions)
        return (*(one for one in self.tools if isinstance(one, str)), *own)

    @property
    def custom(self) -> bool:
        """Whether somebody other than us defined it."""
        return self.source != "built-in"

    @property
    def origin(self) -> str:
        """Say who defined it and where."""
        return f"{self.source}, {self.path}" if self.path else self.source


class AgentTypes(Mapping[str, AgentType]):
    """The types of a session by name, in one order for its whole life."""

    def __init__(self, types: Mapping[str, AgentType]) -> None:
        """Take the types; the built-in ones come first, then the others by name."""
        self._types = dict(sorted(types.items(), key=lambda item: (item[1].custom, item[0])))

    def __getitem__(self, name: str) -> AgentType:
        """Find a type."""
        return self._types[name]

    def __iter__(self) -> Iterator[str]:
        """Go through the names in order."""
        return iter(self._types)

    def __len__(self) -> int:
        """Count the types."""
        return len(self._types)

    def listing(self, only: tuple[str, ...] | None = None) -> ShortList:
        """List the types for the model, a line each; `only` leaves out all others."""
        shown = [kind for kind in self.values() if only is None or kind.name in only]
        return shorten([(kind.name, kind.description) for kind in shown], limit=_LISTED)


_READING = ("Agent", "Edit", "Write", "NotebookEdit", "ExitPlanMode")
"""What an agent that only looks is denied."""


def built_in(model: str = INHERIT) -> dict[str, AgentType]:
    """Make the types that are always there; `model` is that of types that name none."""
    types = (
        AgentType(
            name="general-purpose",
            description="Any task of several steps: searching, changing, running.",
            prompt=load_text("agent/general-purpose"),
            model=model,
        ),
        AgentType(
            name="Explore",
            description="Finds things in the code and answers questions about it. It only reads. "
            "Say how thorough it should be: quick, medium or very thorough.",
            prompt=load_text("agent/Explore"),
            model=model,
            disallowed_tools=_READING,
            permission_mode="plan",
            omit_instructions=True,
        ),
        AgentType(
            name="Plan",
            description="Works out how to build something and names the files that matter. It "
            "only reads.",
            prompt=load_text("agent/Plan"),
            model=INHERIT,
            disallowed_tools=_READING,
            permission_mode="plan",
            omit_instructions=True,
        ),
        AgentType(
            name="worker",
            description="Does one part of a larger work by a whole brief, and reports.",
            prompt=load_text("agent/worker"),
            model=model,
        ),
    )
    return {kind.name: kind for kind in types}
