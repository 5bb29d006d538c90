"""Finds skills: `SKILL.md` folders and command files, near ones before far ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import msgspec

from prong.config.document import read_text
from prong.config.listing import lies_in, list_entries, list_files, name_some, outside
from prong.config.skill_file import SkillFile, read_skill_file
from prong.errors import ConfigError
from prong.system.path_form import real_path
from prong.tools.ground import Policy, why_unread
from prong.tools.skill_text import Skill

_FOLDERS = (".prong/skills", ".claude/skills", ".agents/skills")
_COMMANDS = (".prong/commands", ".claude/commands")
_LARGEST = 500_000
_NOTHING: Mapping[str, str] = MappingProxyType({})


class SkillPlace(msgspec.Struct, frozen=True):
    """One file that may hold a skill, and what is known of it before it is read."""

    path: Path
    name: str
    """What it is called by, as its folder or file has it."""
    within: str | None = None
    """The folder that it may not lead out of; None if it may."""
    variables: Mapping[str, str] = _NOTHING


class Found(msgspec.Struct):
    """The skills of a session, sorted by name, and what was wrong with others."""

    skills: tuple[Skill, ...] = ()
    problems: list[ConfigError] = []
    warnings: list[str] = []
    unheeded: frozenset[str] = frozenset()
    """The files of which something is left out."""


def find_skills(
    home: str,
    root: str,
    cwd: str,
    *,
    trusted: bool,
    policy: Policy | None = None,
    brought: Sequence[SkillPlace] = (),
) -> Found:
    """Find all skills for an agent in `cwd`; of two with one name the nearest is taken.

    What rules keep from being read is not taken in as a skill either. Those that plug-ins have
    `brought` come last.
    """
    found = Found()
    search = _SkillSearch(policy)
    for base, place in _files(home, root, cwd, found.problems, trusted=trusted):
        search.read(place, grants=base == home or trusted)
    for place in brought:
        search.read(place, grants=True)
    found.problems += search.problems
    found.warnings += search.told()
    found.skills = tuple(skill for _, skill in sorted(search.taken.items()))
    found.unheeded = frozenset(search.unheeded)
    return found


def find_brought(brought: Sequence[SkillPlace], *, policy: Policy | None = None) -> Found:
    """Read the skills of plug-ins alone."""
    search = _SkillSearch(policy)
    for place in brought:
        search.read(place, grants=True)
    skills = tuple(skill for _, skill in sorted(search.taken.items()))
    return Found(skills, search.problems, search.told())


class _SkillSearch:
    """Collects skills, the nearest first."""

    def __init__(self, policy: Policy | None) -> None:
        self.taken: dict[str, Skill] = {}
        self.problems: list[ConfigError] = []
        self._policy = policy
        self._warnings: list[str] = []
        self.unheeded: dict[str, str] = {}
        self._unused: dict[str, str] = {}

    def read(self, place: SkillPlace, *, grants: bool) -> None:
        """Read one file; unless it `grants`, what it would allow is left out."""
        try:
            read = _read(place, self._policy)
        except ConfigError as error:
            self.problems.append(error)
            return
        if read is None:
            return
        skill = read.skill
        if (other := self.taken.get(skill.name)) is not None:
            if real_path(other.path) != real_path(skill.path):
                hidden = f"skill {skill.name!r} of {skill.path} is hidden by {other.path}"
                self._warnings.append(hidden)
            return
        if read.unheeded:
            self.unheeded[skill.path] = "; ".join(read.unheeded)
        if skill.allows and not grants:
            self._warnings.append(
                f"{skill.path}: allowed-tools {_listed(skill)}: left out, because "
                "the folder is not trusted; run 'prong trust' in it to let it count"
            )
            skill = msgspec.structs.replace(skill, allows=())
        self.taken[skill.name] = skill
        for key, line in read.unused.items():
            self._unused.setdefault(key, f"{skill.path}:{line}")

    def told(self) -> list[str]:
        """Say what was left out: one line for each kind of thing, however many files there are."""
        told = list(self._warnings)
        if self.unheeded:
            named = [f"{path}: {why}" for path, why in self.unheeded.items()]
            told.append(f"skills of which something is left out: {name_some(named)}")
        if self._unused:
            named = ", ".join(f"{key} ({where})" for key, where in sorted(self._unused.items()))
            told.append(f"keys of skills that are not used: {named}")
        return told


def project_skill_grants(home: str, root: str) -> list[str]:
    """Name what a project's own skills would allow without asking."""
    grants: list[str] = []
    for base, place in _files(home, root, root, [], trusted=False):
        try:
            read = _read(place, None) if base != home else None
        except ConfigError:
            continue
        if read is not None and read.skill.allows:
            grants.append(granted(read.skill))
    return grants


def granted(skill: Skill) -> str:
    """Say what a skill allows."""
    return f"skill {skill.name} allows {_listed(skill)} in the turn it is used in"


def _listed(skill: Skill) -> str:
    return ", ".join(str(rule) for rule in skill.allows)


def _files(
    home: str, root: str, cwd: str, problems: list[ConfigError], *, trusted: bool
) -> Iterator[tuple[str, SkillPlace]]:
    """Name every skill file with the folder it belongs to, nearest first."""
    place = Path(cwd)
    chain = [place, *place.parents]
    inside = [folder for folder in chain if folder.is_relative_to(root)]
    bases = list(dict.fromkeys([*(folder.as_posix() for folder in inside), home]))
    for base in bases:
        within = None if base == home or trusted else root
        for kind in _FOLDERS:
            for one in skill_folders(Path(base) / kind, problems, within=within):
                yield base, one
        for kind in _COMMANDS:
            for one in command_files(Path(base) / kind, problems, within=within):
                yield base, one


def skill_folders(
    folder: Path, problems: list[ConfigError], *, within: str | None
) -> Iterator[SkillPlace]:
    """Name the skills of a folder of folders."""
    listed = list_entries(folder, within=within)
    problems += listed.problems
    for one in listed.paths:
        yield SkillPlace(one / "SKILL.md", one.name, within)


def command_files(
    folder: Path, problems: list[ConfigError], *, within: str | None
) -> Iterator[SkillPlace]:
    """Name the commands below a folder; one in a folder further down has that in its name."""
    listed = list_files(folder, suffix=".md", within=within)
    problems += listed.problems
    for path in listed.paths:
        parts = path.relative_to(folder).with_suffix("").parts
        yield SkillPlace(path, ":".join(parts), within)


def _read(place: SkillPlace, policy: Policy | None) -> SkillFile | None:
    """Read one file; None if there is none.

    Raises ConfigError if it is broken, forbidden, or a link that leads out of its folder.
    """
    path = place.path
    if place.within is not None and not lies_in(path, place.within):
        raise outside(path)
    text = read_text(path, limit=_LARGEST)
    if text is None:
        return None
    if policy and (why := why_unread(policy, real_path(path))):
        raise ConfigError(path, f"is left out: {why}")
    if isinstance(text, ConfigError):
        raise text
    return read_skill_file(path, text, place.name, place.variables)
