"""Finds the types of agents: built in, of packages, of files, of the session's caller.

Of two with one name the nearest is taken. A broken definition is reported with its line and hides
nothing else. A project's own types count only once the user trusts the folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from prong.agent.spec import INHERIT, AgentType, AgentTypes, TypeSource, built_in
from prong.config.document import Document, read_text
from prong.config.front import Front, read_front
from prong.config.listing import list_files
from prong.config.type_option import NAME, check_name, unkept
from prong.errors import BadInput, ConfigError, NotInstalled
from prong.extension import Extension, installed
from prong.host.target import read_isolation
from prong.tools import filter as tool_filter
from prong.tools.ground import Policy, why_unread

FOLDERS = (".prong/agents", ".claude/agents", ".agents/agents")

_LARGEST = 500_000
_KEYS = (
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
    "initialPrompt",
    "omitInstructions",
)
_MODES = ("default", "acceptEdits", "plan", "auto", "dontAsk", "bypassPermissions", "bubble")


class FoundTypes(msgspec.Struct):
    """The types of a session, and what was wrong with others."""

    types: AgentTypes
    problems: list[ConfigError] = []
    warnings: list[str] = []


class _Search:
    """Collects types, the nearest first."""

    def __init__(self, policy: Policy | None, model: str) -> None:
        self.policy = policy
        self.model = model
        """Of a type that names none."""
        self.taken: dict[str, AgentType] = {}
        self.problems: list[ConfigError] = []
        self.warnings: list[str] = []
        self.unknown: dict[str, str] = {}

    def add(self, kind: AgentType) -> None:
        other = self.taken.setdefault(kind.name, kind)
        if other is not kind and kind.custom:
            same = os.path.realpath(other.path) == os.path.realpath(kind.path)
            if not same:
                hidden = f"agent type {kind.name!r} of {kind.path} is hidden by {other.origin}"
                self.warnings.append(hidden)

    def read(self, path: Path, source: TypeSource) -> None:
        if self.policy and (why := why_unread(self.policy, os.path.realpath(path))):
            self.problems.append(ConfigError(path, f"is left out: {why}"))
            return
        content = read_text(path, limit=_LARGEST)
        if content is None:
            return
        try:
            if isinstance(content, ConfigError):
                raise content
            front = read_front(str(path), content.replace("\r\n", "\n"))
            for key in front.values.keys() - set(_KEYS):
                self.unknown.setdefault(key, f"{path}:{front.lines.get(key, 1)}")
            kind = _from_front(str(path), front, source, content)
            self.add(kind if front.text("model") else replace(kind, model=self.model))
        except ConfigError as error:
            self.problems.append(error)

    def found(self) -> FoundTypes:
        if self.unknown:
            named = ", ".join(f"{key} ({where})" for key, where in sorted(self.unknown.items()))
            self.warnings.append(f"keys of agent types that are not known, without effect: {named}")
        return FoundTypes(AgentTypes(self.taken), self.problems, self.warnings)


def find_types(
    home: str,
    root: str,
    cwd: str,
    *,
    trusted: bool,
    given: Sequence[AgentType] = (),
    bare: bool = False,
    policy: Policy | None = None,
    model: str = INHERIT,
) -> FoundTypes:
    """Find all types for a session in `cwd`; those that are `given` go before every file.

    `model` is that of types that name none.
    """
    search = _Search(policy, model)
    for kind in given:
        names_none = not kind.model or (kind.source == "program" and kind.model == INHERIT)
        search.add(replace(kind, model=model) if names_none else kind)
    if not bare:
        withheld = 0
        for base, path in _files(home, root, cwd, search.problems, trusted=trusted):
            if base != home and not trusted:
                withheld += 1
            else:
                search.read(path, "home" if base == home else "project")
        if withheld:
            search.warnings.append(
                f"{withheld} agent type(s) of this folder left out, because it is not trusted; "
                "run 'prong trust' in it to let them count"
            )
        for kind in _plugged(search.warnings):
            search.add(replace(kind, model=model) if kind.model == INHERIT else kind)
    for kind in built_in(model).values():
        search.add(kind)
    return search.found()


def _files(
    home: str, root: str, cwd: str, problems: list[ConfigError], *, trusted: bool
) -> Iterator[tuple[str, Path]]:
    """Name every file with the folder it belongs to, nearest first."""
    place = Path(cwd)
    inside = [folder for folder in (place, *place.parents) if folder.is_relative_to(root)]
    for base in dict.fromkeys([*(str(folder) for folder in inside), home]):
        for kind in FOLDERS:
            within = None if base == home or trusted else root
            listed = list_files(Path(base) / kind, suffix=".md", within=within)
            problems += listed.problems
            yield from ((base, path) for path in listed.paths)


def _from_front(path: str, front: Front, source: TypeSource, content: str) -> AgentType:
    name = front.text("name") or Path(path).stem
    check_name(name, path, front.lines.get("name", 1))
    if not front.text("description"):
        raise ConfigError(path, "has no 'description'; say when to use this agent", line=1)
    if not front.body.strip():
        raise ConfigError(path, "has no prompt below the front matter", line=1)

    def wrong(key: str, why: str) -> ConfigError:
        return ConfigError(path, why, line=front.lines.get(key, 1))

    for key in ("tools", "disallowedTools"):
        for why in tool_filter.problems(front.list(key)):
            raise wrong(key, why)
    for why in unkept(front.list("disallowedTools")):
        raise wrong("disallowedTools", why)
    turns = front.text("maxTurns")
    if turns and not (turns.isdecimal() and int(turns) > 0):
        raise wrong("maxTurns", f"maxTurns {turns!r} must be a whole number above 0")
    mode = front.text("permissionMode") or "acceptEdits"
    if mode not in _MODES:
        known = ", ".join(_MODES)
        raise wrong("permissionMode", f"there is no permission mode {mode!r}; they are {known}")
    isolation = front.text("isolation")
    try:
        read_isolation(isolation)
    except BadInput as error:
        raise wrong("isolation", str(error)) from error
    has_servers = "mcpServers" in front.values
    return AgentType(
        name=name,
        description=front.text("description"),
        prompt=front.body.strip(),
        # An empty list is a list: it allows nothing.
        tools=front.list("tools") if "tools" in front.values else None,
        disallowed_tools=front.list("disallowedTools"),
        model=front.text("model") or INHERIT,
        permission_mode=mode,
        max_turns=int(turns) if turns else None,
        skills=front.list("skills"),
        mcp_servers=front.list("mcpServers") if has_servers else None,
        hooks=_hooks(path, front, content) if "hooks" in front.values else (),
        background=_flag(front, "background", wrong),
        effort=front.text("effort"),
        isolation=isolation,
        initial_prompt=front.text("initialPrompt"),
        omit_instructions=_flag(front, "omitInstructions", wrong),
        source=source,
        path=path,
    )


def _flag(front: Front, key: str, wrong: Any) -> bool:
    value = front.text(key).lower()
    if value not in {"", "true", "false", "yes", "no", "on", "off"}:
        raise wrong(key, f"{key} {value!r} must be true or false")
    return front.flag(key, default=False)


def _hooks(path: str, front: Front, content: str) -> tuple[Any, ...]:
    """Read hooks, the one key that is nested."""
    import yaml

    from prong.config.hook import parse_hooks

    line = front.lines.get("hooks", 1)
    head = content.replace("\r\n", "\n").split("\n---", 1)[0]
    value = cast("dict[str, Any]", yaml.safe_load(head.removeprefix("---")) or {}).get("hooks")
    if value is None:
        return ()
    declared = parse_hooks(Document(path, "{}", {"hooks": value}), foreign=True)
    for problem in declared.problems:
        raise ConfigError(path, problem.why, line=line)
    return declared.hooks


def _plugged(warnings: list[str]) -> Iterator[AgentType]:
    """Load the types that installed packages bring; looks at nothing else of them."""
    for found in installed("prong.agents"):
        try:
            yield from package_types(found)
        except NotInstalled as error:
            warnings.append(str(error))


def package_types(found: Extension) -> list[AgentType]:
    """Load the types of one entry point, each under the entry point's name and its own.

    Raises NotInstalled if it brings anything else, or cannot be loaded.
    """
    loaded: Any = found.load()
    try:
        given: Any = loaded() if callable(loaded) else loaded
        kinds = [given] if isinstance(given, AgentType) else list(cast("Iterable[Any]", given))
    except Exception as error:
        raise found.wrong(f"cannot be loaded: {error!r}") from error
    for kind in kinds:
        if not isinstance(kind, AgentType) or not re.fullmatch(NAME, kind.name):
            raise found.wrong(f"bring no agent type: {kind!r}")
    return [
        replace(kind, name=f"{found.name}:{kind.name}", source="plug-in", path=found.package)
        for kind in kinds
    ]
