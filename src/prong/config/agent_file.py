"""A type of agent as a Markdown file gives it.

Files are written for several programs and read leniently: what means nothing here is left out and
said. What would hold the agent back is not: a mode, a bound or something forbidden that cannot be
honoured keeps the whole type out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from prong.agent.spec import INHERIT, AgentType, TypeSource
from prong.config.document import Document
from prong.config.front import Front, read_front, split_words
from prong.config.type_option import check_name, unkept
from prong.errors import BadInput, ConfigError
from prong.foreign_number import whole_number
from prong.host.target import read_isolation
from prong.tools import filter as tool_filter

KEYS = (
    "name",
    "description",
    "tools",
    "disallowedTools",
    "model",
    "permissionMode",
    "maxTurns",
    "skills",
    "mcpServers",
    "hooks",
    "background",
    "effort",
    "isolation",
    "color",
    "initialPrompt",
    "omitInstructions",
)
_MODES = ("default", "acceptEdits", "plan", "auto", "dontAsk", "bypassPermissions", "bubble")


_SLIPS = {key.lower(): key for key in ("disallowedTools", "permissionMode", "maxTurns")}
"""Keys that hold an agent back, by how they come down: to pass one over would let it loose."""


class AgentPlace(msgspec.Struct, frozen=True):
    """A file of a plug-in that holds a type."""

    path: Path
    prefix: str
    """Put before the type's name."""
    variables: Mapping[str, str] = {}
    """What its prompt may name by `${...}`."""


class AgentFile(msgspec.Struct, frozen=True):
    """A type that was read, and which keys of its file mean nothing, with their lines."""

    kind: AgentType
    names_model: bool
    unknown: Mapping[str, int]


def read_agent_file(
    path: Path, text: str, source: TypeSource, place: AgentPlace | None = None
) -> AgentFile:
    """Read a file; `place` is what a plug-in knows of it.

    Raises ConfigError if it gives no type that could be used as it is meant.
    """
    front = read_front(str(path), text.replace("\r\n", "\n"), KEYS)
    kind = _AgentReader(path, front).read(source, place.prefix if place is not None else "")
    for name, value in place.variables.items() if place is not None else ():
        kind = msgspec.structs.replace(kind, prompt=kind.prompt.replace(f"${{{name}}}", value))
    unknown = {key: front.lines.get(key, 1) for key in front.values.keys() - set(KEYS)}
    return AgentFile(kind, bool(front.text("model")), unknown)


class _AgentReader:
    """One file in the making."""

    def __init__(self, path: Path, front: Front) -> None:
        self._path = path
        self._front = front
        self._unheeded: list[str] = []
        if front.slack is not None:
            self._unheeded.append(f"{front.slack.why}; it was read line by line")

    def read(self, source: TypeSource, prefix: str) -> AgentType:
        front = self._front
        name = self._name()
        for key in front.values.keys() - set(KEYS):
            if (meant := _SLIPS.get(re.sub(r"[-_ ]", "", key).lower())) is not None:
                raise self._wrong(key, f"there is no key {key!r}; did you mean {meant!r}?")
        if not front.text("description"):
            raise self._wrong("", "has no 'description'; say when to use this agent")
        if not front.body.strip():
            raise self._wrong("", "has no prompt below the front matter")
        turns = front.text("maxTurns")
        most = whole_number(turns)
        if turns and not most:
            raise self._wrong("maxTurns", f"maxTurns {turns!r} must be a whole number above 0")
        # An empty list is a list: it allows nothing.
        tools = tuple(self._tools()) if "tools" in front.values else None
        named, own = self._servers()
        return AgentType(
            name=f"{prefix}{name}",
            description=front.text("description"),
            prompt=front.body.strip(),
            tools=tools,
            disallowed_tools=tuple(self._denied()),
            model=front.text("model") or INHERIT,
            permission_mode=cast("Any", self._choice("permissionMode", _MODES) or "acceptEdits"),
            max_turns=most,
            skills=front.list("skills"),
            mcp_servers=named,
            servers=own,
            hooks=self._hooks() if "hooks" in front.values else (),
            background=self._flag("background"),
            effort=front.text("effort"),
            isolation=self._isolation(),
            initial_prompt=front.text("initialPrompt"),
            omit_instructions=self._flag("omitInstructions"),
            source=source,
            path=self._path.as_posix(),
            unheeded=tuple(self._unheeded),
        )

    def _wrong(self, key: str, why: str) -> ConfigError:
        return ConfigError(self._path, why, line=self._front.lines.get(key, 1))

    def _name(self) -> str:
        """Give the name; what no name may hold becomes a hyphen."""
        given = " ".join(self._front.text("name").split())
        stem = self._path.name.removesuffix(".md").removesuffix(".agent")
        name = as_name(given) or as_name(stem)
        check_name(name, str(self._path), self._front.lines.get("name", 1))
        if given and name != given:
            self._unheeded.append(f"the name {given!r} is {name!r} here")
        return name

    def _tools(self) -> Iterator[str]:
        """Give the tools that can be meant; one with an odd name is none of ours."""
        for text in self._front.list("tools"):
            words = split_words(text)
            if len(words) > 1 and all(_is_own(word) for word in words):
                yield from words
            elif tool_filter.problems((text,)):
                self._unheeded.append(f"there is no tool {text!r}")
            else:
                yield text

    def _denied(self) -> Iterator[str]:
        """Give what is forbidden; what may be meant for a tool of ours has to be understood."""
        for text in self._front.list("disallowedTools"):
            words = split_words(text)
            if len(words) > 1 and all(_is_own(word) for word in words):
                yield from words
            elif not tool_filter.problems((text,)):
                yield text
            elif any(_is_own(word) for word in re.findall(r"\w+", text)):
                raise self._wrong("disallowedTools", tool_filter.problems((text,))[0])
            else:
                self._unheeded.append(f"there is no tool {text!r} to forbid")
        for why in unkept(self._front.list("disallowedTools")):
            raise self._wrong("disallowedTools", why)

    def _choice(self, key: str, known: tuple[str, ...]) -> str:
        value = self._front.text(key)
        if value and value not in known:
            listed = ", ".join(known)
            raise self._wrong(key, f"{key} {value!r} is not known; it may be one of {listed}")
        return value

    def _isolation(self) -> str:
        text = self._front.text("isolation")
        try:
            read_isolation(text)
        except BadInput as error:
            raise self._wrong("isolation", str(error)) from error
        return text

    def _flag(self, key: str) -> bool:
        value = self._front.text(key).lower()
        if value not in {"", "true", "false", "yes", "no", "on", "off"}:
            raise self._wrong(key, f"{key} {value!r} must be true or false")
        return self._front.flag(key, default=False)

    def _servers(self) -> tuple[tuple[str, ...] | None, dict[str, Any]]:
        """Give the servers it may use by name, and those that it defines itself."""
        if "mcpServers" not in self._front.values:
            return None, {}
        value: object = self._front.nested("mcpServers")
        if isinstance(value, str):
            return self._front.list("mcpServers"), {}
        named: list[str] = []
        own: dict[str, Any] = {}
        items = cast("list[object]", value) if isinstance(value, list) else [value]
        for item in items:
            if isinstance(item, dict):
                own |= {str(name): one for name, one in cast("dict[object, Any]", item).items()}
            elif item is not None:
                named.append(str(item))
        return (*named, *own), own

    def _hooks(self) -> tuple[Any, ...]:
        from prong.config.hook import parse_hooks

        value = self._front.nested("hooks")
        if value is None:
            return ()
        document = Document(str(self._path), "{}", {"hooks": value})
        declared = parse_hooks(document, foreign=True)
        for problem in declared.problems:
            raise self._wrong("hooks", problem.why)
        # The end of such an agent has a name of its own.
        return tuple(
            msgspec.structs.replace(one, event="SubagentStop" if one.event == "Stop" else one.event)
            for one in declared.hooks
        )


def as_name(text: str) -> str:
    """Make a name of a text; empty if nothing of it can be one."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text).strip("-._")[:64]


def _is_own(word: str) -> bool:
    return tool_filter.is_own(word.partition("(")[0])
