"""Finds the types of agents: built in, of packages, of files, of the session's caller.

Of two with one name the nearest is taken. A broken definition is reported with its line and hides
nothing else. A project's own types count only once the user trusts the folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from prong.agent.spec import INHERIT, AgentType, AgentTypes, TypeSource, built_in
from prong.config.agent_file import AgentPlace, read_agent_file
from prong.config.document import read_text
from prong.config.listing import list_files, name_some
from prong.config.type_option import NAME
from prong.errors import ConfigError, NotInstalled
from prong.extension import Extension, installed
from prong.system.path_form import real_path
from prong.tools.ground import Policy, why_unread

FOLDERS = (".prong/agents", ".claude/agents", ".agents/agents")

_LARGEST = 500_000


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
            same = real_path(other.path) == real_path(kind.path)
            if not same:
                hidden = f"agent type {kind.name!r} of {kind.path} is hidden by {other.origin}"
                self.warnings.append(hidden)

    def read(self, path: Path, source: TypeSource, place: AgentPlace | None = None) -> None:
        if self.policy and (why := why_unread(self.policy, real_path(path))):
            self.problems.append(ConfigError(path, f"is left out: {why}"))
            return
        content = read_text(path, limit=_LARGEST)
        if content is None or (path.name == "README.md" and not str(content).startswith("---")):
            return
        try:
            if isinstance(content, ConfigError):
                raise content
            read = read_agent_file(path, content, source, place)
        except ConfigError as error:
            self.problems.append(error)
            return
        for key, line in read.unknown.items():
            self.unknown.setdefault(key, f"{path}:{line}")
        self.add(read.kind if read.names_model else replace(read.kind, model=self.model))

    def found(self) -> FoundTypes:
        if self.unknown:
            named = [f"{key} ({where})" for key, where in sorted(self.unknown.items())]
            told = "keys of agent types that are not known, without effect"
            self.warnings.append(f"{told}: {name_some(named)}")
        odd = [kind for kind in self.taken.values() if kind.unheeded]
        if odd:
            named = [f"{kind.path}: {'; '.join(kind.unheeded)}" for kind in odd]
            told = "agent files of which something is left out ('prong agents show NAME')"
            self.warnings.append(f"{told}: {name_some(named)}")
        return FoundTypes(AgentTypes(self.taken), self.problems, self.warnings)


def find_types(  # noqa: PLR0913 - one keyword for each place that types come from
    home: str,
    root: str,
    cwd: str,
    *,
    trusted: bool,
    given: Sequence[AgentType] = (),
    bare: bool = False,
    policy: Policy | None = None,
    model: str = INHERIT,
    brought: Sequence[AgentPlace] = (),
) -> FoundTypes:
    """Find all types for a session in `cwd`; those that are `given` go before every file.

    `model` is that of types that name none. Files that plug-ins have `brought` come after others.
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
    for place in brought:
        search.read(place.path, "plug-in", place)
    if not bare:
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
    for base in dict.fromkeys([*(folder.as_posix() for folder in inside), home]):
        for kind in FOLDERS:
            within = None if base == home or trusted else root
            listed = list_files(Path(base) / kind, suffix=".md", within=within)
            problems += listed.problems
            yield from ((base, path) for path in listed.paths)


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
