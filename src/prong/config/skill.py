"""Finds skills: `SKILL.md` folders and command files, near ones before far ones."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from prong.config.document import read_text
from prong.config.front import Front, read_front
from prong.config.listing import lies_in, list_entries, list_files, outside
from prong.errors import ConfigError
from prong.tools.ground import Policy, why_unread
from prong.tools.skill import Skill

_FOLDERS = (".prong/skills", ".claude/skills", ".agents/skills")
_COMMANDS = (".prong/commands", ".claude/commands")
_NAME = r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}"
_LARGEST = 500_000


class Found(msgspec.Struct):
    """The skills of a session, sorted by name, and what was wrong with others."""

    skills: tuple[Skill, ...] = ()
    problems: list[ConfigError] = []
    warnings: list[str] = []


def find_skills(
    home: str, root: str, cwd: str, *, trusted: bool, policy: Policy | None = None
) -> Found:
    """Find all skills for an agent in `cwd`; of two with one name the nearest is taken.

    What rules keep from being read is not taken in as a skill either.
    """
    found = Found()
    taken: dict[str, Skill] = {}
    for base, file, name in _files(home, root, cwd, found.problems, trusted=trusted):
        own = base == home or trusted
        try:
            skill = _read(file, name, within=None if own else root, policy=policy)
        except ConfigError as error:
            found.problems.append(error)
            continue
        if skill is None:
            continue
        if (other := taken.get(skill.name)) is not None:
            if os.path.realpath(other.path) != os.path.realpath(skill.path):
                hidden = f"skill {skill.name!r} of {skill.path} is hidden by {other.path}"
                found.warnings.append(hidden)
            continue
        if skill.allowed_tools and not own:
            found.warnings.append(
                f"{skill.path}: allowed-tools {', '.join(skill.allowed_tools)}: left out, because "
                "the folder is not trusted; run 'prong trust' in it to let it count"
            )
            skill = msgspec.structs.replace(skill, allowed_tools=())
        taken[skill.name] = skill
    found.skills = tuple(skill for _, skill in sorted(taken.items()))
    return found


def project_skill_grants(home: str, root: str) -> list[str]:
    """List what a project's own skills would allow without asking."""
    grants: list[str] = []
    for base, file, name in _files(home, root, root, [], trusted=False):
        try:
            skill = _read(file, name, within=root, policy=None) if base != home else None
        except ConfigError:
            continue
        if skill is not None and skill.allowed_tools:
            grants.append(f"skill {skill.name} allows {', '.join(skill.allowed_tools)}")
    return grants


def _files(
    home: str, root: str, cwd: str, problems: list[ConfigError], *, trusted: bool
) -> Iterator[tuple[str, Path, str]]:
    """Name every skill file with the folder it belongs to and its name, nearest first."""
    place = Path(cwd)
    chain = [place, *place.parents]
    inside = [folder for folder in chain if folder.is_relative_to(root)]
    bases = list(dict.fromkeys([*(str(folder) for folder in inside), home]))
    for base in bases:
        within = None if base == home or trusted else root
        for kind in _FOLDERS:
            listed = list_entries(Path(base) / kind, within=within)
            problems += listed.problems
            for folder in listed.paths:
                yield base, folder / "SKILL.md", folder.name
        for kind in _COMMANDS:
            listed = list_files(Path(base) / kind, suffix=".md", within=within)
            problems += listed.problems
            for path in listed.paths:
                parts = path.relative_to(Path(base) / kind).with_suffix("").parts
                yield base, path, ":".join(parts)


def _read(path: Path, name: str, *, within: str | None, policy: Policy | None) -> Skill | None:
    """Read one file; None if there is none.

    Raises ConfigError if it is broken, forbidden, or a link that leads out of the folder given.
    """
    if within is not None and not lies_in(path, within):
        raise outside(path)
    text = read_text(path, limit=_LARGEST)
    if text is None:
        return None
    if policy and (why := why_unread(policy, os.path.realpath(path))):
        raise ConfigError(path, f"is left out: {why}")
    if isinstance(text, ConfigError):
        raise text
    front = read_front(str(path), text.replace("\r\n", "\n"))
    given = front.text("name") or name
    if not re.fullmatch(_NAME, given):
        why = f"name {given!r} may have letters, digits, '-', '_', '.' and ':' only, 64 at most"
        raise ConfigError(path, why, line=front.lines.get("name", 1))
    if not front.body.strip():
        raise ConfigError(path, "has no instructions below the front matter", line=1)
    if (context := front.text("context")) not in ("", "fork", "inline"):
        why = f"context {context!r} is not known; it may be 'fork' or left out"
        raise ConfigError(path, why, line=front.lines.get("context", 1))
    return Skill(
        name=given,
        description=front.text("description") or _first_line(front),
        body=front.body,
        path=str(path),
        folder=str(path.parent),
        allowed_tools=front.list("allowed-tools"),
        fork=context == "fork",
        agent=front.text("agent"),
        model=front.text("model"),
        hint=front.text("argument-hint"),
        for_model=not front.flag("disable-model-invocation", default=False),
        for_user=front.flag("user-invocable", default=True),
    )


def _first_line(front: Front) -> str:
    lines = (line.strip(" #\t") for line in front.body.split("\n"))
    return next((line for line in lines if line), "")
