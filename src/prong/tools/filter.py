"""Which tools an agent gets: four layers, each of which can only take away.

A layer sees what the one before it left. No definition, however it is worded, can bring a tool back
that a layer took, because nothing here ever adds one. Names are compared by what they come down to:
`taskstop` and `Task_Stop` are TaskStop.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias

from msgspec import Struct

from prong.tools.rule import OWN

FilterLayer: TypeAlias = Literal["every agent", "custom types", "background", "own lists"]
"""The layers, in order."""

NEVER = frozenset(
    {
        "EnterPlanMode",
        "ExitPlanMode",
        "AskUserQuestion",
        "TaskOutput",
        "TaskStop",
        "StructuredOutput",
        "MergeWorktrees",
        "TeamCreate",
        "TeamSpawn",
        "TeamDelete",
    }
)
"""Tools that only the main agent has: they speak to the user or rule over others' work."""

TEAM_TASKS = frozenset({"TeamTaskCreate", "TeamTaskGet", "TeamTaskList", "TeamTaskUpdate"})
"""The shared list of tasks, which only members of a team have."""

NOT_CUSTOM = frozenset[str]()
"""Tools that types of others may not have, as they change what the whole session works on: no tool
does that at present but those that no agent may have."""

IN_BACKGROUND = frozenset(
    {
        "Read",
        "Grep",
        "Glob",
        "Edit",
        "Write",
        "NotebookEdit",
        "Bash",
        "Skill",
        "TodoWrite",
        "McpSearch",
        "McpCall",
        "WebFetch",
        "WebSearch",
    }
)
"""The only tools of an agent that nobody waits for."""

REPLACED = frozenset(
    {
        "LS",
        "MultiEdit",
        "NotebookRead",
        "BashOutput",
        "KillShell",
        "KillBash",
        "TodoRead",
        "SlashCommand",
    }
)
"""Tools of other programs whose work one of ours does: who asks for them misses nothing."""

TEAMMATE = frozenset({"Agent", "SendMessage"}) | TEAM_TASKS
"""What an in-process teammate gains in the background: agents it waits for, messages, tasks."""

_ALIASES = {"task": "agent"}


class Request(Struct, frozen=True, kw_only=True):
    """For whom a kit is filtered."""

    custom: bool = False
    """Whether the type is somebody else's than ours."""
    background: bool = False
    plan: bool = False
    """Whether it works in plan mode."""
    usable: frozenset[str] | None = None
    """The tools of servers, and the functions, that can be used at all; None if all can."""
    teammate: bool = False
    """Whether it is a member of a team."""
    allow: tuple[str, ...] | None = None
    """The type's own list of tools; None is no list."""
    deny: tuple[str, ...] = ()


class RemovedTool(Struct, frozen=True):
    """A tool that was taken away."""

    tool: str
    layer: FilterLayer
    why: str


class Filtered(Struct, frozen=True):
    """What is left of a kit."""

    kept: tuple[str, ...]
    removed: tuple[RemovedTool, ...]
    spawns: tuple[str, ...] | None = None
    """The only types of agents that may be started; None for any."""


def filter_kit(names: Iterable[str], request: Request) -> Filtered:
    """Take from a kit what an agent may not have, and say which layer took what."""
    kept: list[str] = []
    removed: list[RemovedTool] = []
    for name in names:
        for layer, look in _LAYERS:
            if (why := look(name, request)) is not None:
                removed.append(RemovedTool(name, layer, why))
                break
        else:
            kept.append(name)
    return Filtered(tuple(kept), tuple(removed), _spawns(request.allow))


def listed(names: Iterable[str], allow: tuple[str, ...] | None, deny: tuple[str, ...]) -> list[str]:
    """Give the names that a type's own lists leave: what else agents may not have is not asked."""
    request = Request(allow=allow, deny=deny)
    return [name for name in names if _own_lists(name, request) is None]


def problems(texts: Sequence[str]) -> list[str]:
    """Say what is wrong with a type's list of tools."""
    wrong = [text for text in texts if _split(text) is None]
    return [f"{text!r} is not the name of a tool" for text in wrong]


def unmatched(texts: Sequence[str], names: Sequence[str]) -> list[str]:
    """Give the entries of a list that speak of no tool; of servers' tools nothing is known here."""
    parts = [(text, found[0]) for text in texts if (found := _split(text)) is not None]
    return [
        text
        for text, tool in parts
        if not tool.lower().startswith("mcp__") and not any(_matches(tool, name) for name in names)
    ]


def absent_tools(texts: Sequence[str], names: Sequence[str]) -> list[str]:
    """Give the entries of a list that no tool of a kit answers to, or stands in for."""
    served = [text for text in texts if text.lower().startswith("mcp__")]
    gone = [text for text in served if not any(_matches(text.strip(), name) for name in names)]
    lost = [text for text in unmatched(texts, names) if not _among(text, REPLACED)]
    return [*lost, *gone]


def not_there(absent: Sequence[str]) -> str:
    """Tell an agent which tools it may have been promised and does not have."""
    return f"These tools are not there, whatever is said of them: {', '.join(absent)}."


def is_mcp(name: str) -> bool:
    """Whether a name is that of a server's tool: both parts must be there."""
    return re.fullmatch(r"mcp__(?!_)[^*]+?__(?!_)[^*]+", name) is not None


def is_own(name: str) -> bool:
    """Whether a name is that of a tool of ours, however it is spelt."""
    return _canonical(name) in _OURS


def is_function(name: str) -> bool:
    """Whether a name is that of a function that the session's caller gave it."""
    return not name.lower().startswith("mcp__") and not is_own(name)


def is_brought(name: str) -> bool:
    """Whether a tool comes from elsewhere: a server, or the session's caller."""
    return is_mcp(name) or is_function(name)


def is_same(one: str, other: str) -> bool:
    """Whether two names come down to one."""
    return _canonical(one) == _canonical(other)


def denied_uses(deny: Sequence[str]) -> list[str]:
    """Give the entries of a deny list that forbid single uses and not a whole tool."""
    return [text for text in deny if (parts := _split(text)) and parts[1] is not None]


def _every_agent(name: str, request: Request) -> str | None:
    if is_brought(name):
        if request.usable is None or name in request.usable:
            return None
        if is_function(name):
            return "only reading is possible, and it is not read_only"
        return "only reading is possible, and no rule of the user's allows it"
    if _among(name, TEAM_TASKS) and not request.teammate:
        return "only members of a team have it"
    if not _among(name, NEVER) or _shows_plan(name, request):
        return None
    return "only the main agent has it"


def _shows_plan(name: str, request: Request) -> bool:
    """Whether this is a teammate's way to put its plan before whoever leads it."""
    return request.plan and request.teammate and name == "ExitPlanMode"


def _custom_types(name: str, request: Request) -> str | None:
    if not request.custom or is_mcp(name) or not _among(name, NOT_CUSTOM):
        return None
    return "types that are not built in may not have it"


def _background(name: str, request: Request) -> str | None:
    # What lets a tool pass is compared to the letter, what takes it away by what names come to.
    if not request.background or is_brought(name) or name in IN_BACKGROUND:
        return None
    if _shows_plan(name, request):
        return None
    if request.teammate and name in TEAMMATE:
        return None
    return "an agent in the background may not have it"


def _own_lists(name: str, request: Request) -> str | None:
    for text in request.deny:
        parts = _split(text)
        if parts is not None and parts[1] is None and _matches(parts[0], name):
            return f"the type denies it ({text})"
    if request.allow is None or _allowed(name, request.allow):
        return None
    narrowed = next((t for t in request.allow if (p := _split(t)) and _matches(p[0], name)), None)
    if narrowed is not None:
        return f"the type's list narrows it to {narrowed}, which is not possible; name it alone"
    return "the type's list of tools does not name it"


def _allowed(name: str, allow: Sequence[str]) -> bool:
    parts = [found for text in allow if (found := _split(text)) is not None]
    # A bracket narrows what a tool may do. Only Agent's is understood here; to keep another tool
    # with its bracket ignored would widen what was asked for.
    named = [tool for tool, bracket in parts if bracket is None or is_same(tool, "Agent")]
    if is_mcp(name) and not any(tool.lower().startswith("mcp__") for tool in named):
        return True
    return any(_matches(tool, name) for tool in named)


def _spawns(allow: Sequence[str] | None) -> tuple[str, ...] | None:
    """Read `Agent(worker, researcher)`; an entry without a bracket lifts the bound."""
    found: list[str] = []
    bounded = False
    for text in allow or ():
        parts = _split(text)
        if parts is None or not _matches(parts[0], "Agent"):
            continue
        if parts[1] is None:
            return None
        bounded = True
        found += [name.strip() for name in parts[1].split(",") if name.strip()]
    return tuple(dict.fromkeys(found)) if bounded else None


def _split(text: str) -> tuple[str, str | None] | None:
    match = re.fullmatch(r"\s*([\w*?:.-]+)\s*(?:\((.*)\))?\s*", text, re.DOTALL)
    return (match[1], match[2]) if match else None


def _matches(pattern: str, name: str) -> bool:
    if "*" in pattern or "?" in pattern:
        return fnmatchcase(name.lower(), pattern.lower())
    if pattern.lower().startswith("mcp__"):
        low, wanted = name.lower(), pattern.lower()
        return low == wanted or low.startswith(f"{wanted}__")
    return is_same(pattern, name)


def _canonical(name: str) -> str:
    plain = re.sub(r"[\W_]", "", name).casefold()
    return _ALIASES.get(plain, plain)


_OURS = frozenset(_canonical(name) for name in OWN)


def _among(name: str, names: frozenset[str]) -> bool:
    return _canonical(name) in {_canonical(each) for each in names}


_LAYERS: tuple[tuple[FilterLayer, Callable[[str, Request], str | None]], ...] = (
    ("every agent", _every_agent),
    ("custom types", _custom_types),
    ("background", _background),
    ("own lists", _own_lists),
)
