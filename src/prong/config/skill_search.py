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
from prong.tools.rule import BadRule, Rule, parse_rule
from prong.tools.skill import Skill

_FOLDERS = (".prong/skills", ".claude/skills", ".agents/skills")
_COMMANDS = (".prong/commands", ".claude/commands")
_NAME = r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}"
_LARGEST = 500_000
_UNUSED = frozenset({"agent", "argument-hint", "model"})
"""Keys that others make use of."""


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
    unused: dict[str, str] = {}
    for base, file, name in _files(home, root, cwd, found.problems, trusted=trusted):
        own = base == home or trusted
        try:
            front = _front(file, within=None if own else root, policy=policy)
            if front is None:
                continue
            skill = _skill(file, name, front)
        except ConfigError as error:
            found.problems.append(error)
            continue
        if (other := taken.get(skill.name)) is not None:
            if os.path.realpath(other.path) != os.path.realpath(skill.path):
                hidden = f"skill {skill.name!r} of {skill.path} is hidden by {other.path}"
                found.warnings.append(hidden)
            continue
        found.warnings += _wrong_rules(skill, front)
        if skill.allows and not own:
            found.warnings.append(
                f"{skill.path}: allowed-tools {_listed(skill)}: left out, because "
                "the folder is not trusted; run 'prong trust' in it to let it count"
            )
            skill = msgspec.structs.replace(skill, allows=())
        taken[skill.name] = skill
        for key in _UNUSED & front.values.keys():
            unused.setdefault(key, f"{skill.path}:{front.lines.get(key, 1)}")
    if unused:
        named = ", ".join(f"{key} ({where})" for key, where in sorted(unused.items()))
        found.warnings.append(f"keys of skills that are not used: {named}")
    found.skills = tuple(skill for _, skill in sorted(taken.items()))
    return found


def _wrong_rules(skill: Skill, front: Front) -> list[str]:
    """Say what of a skill's allowed-tools is no rule."""
    return [
        f"{skill.path}: allowed-tools {rule.text!r}: left out, because {rule.why}"
        for rule in _allowed(front)
        if isinstance(rule, BadRule)
    ]


def project_skill_grants(home: str, root: str) -> list[str]:
    """List what a project's own skills would allow without asking."""
    grants: list[str] = []
    for base, file, name in _files(home, root, root, [], trusted=False):
        try:
            front = _front(file, within=root, policy=None) if base != home else None
            skill = None if front is None else _skill(file, name, front)
        except ConfigError:
            continue
        if skill is not None and skill.allows:
            grants.append(f"skill {skill.name} allows {_listed(skill)} in the turn it is used in")
    return grants


def _listed(skill: Skill) -> str:
    return ", ".join(str(rule) for rule in skill.allows)


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


def _front(path: Path, *, within: str | None, policy: Policy | None) -> Front | None:
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
    return read_front(str(path), text.replace("\r\n", "\n"))


def _skill(path: Path, name: str, front: Front) -> Skill:
    """Make a skill of a file.

    Raises ConfigError if that makes no sense.
    """
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
        allows=tuple(rule for rule in _allowed(front) if isinstance(rule, Rule)),
        fork=context == "fork",
        for_model=not front.flag("disable-model-invocation", default=False),
        for_user=front.flag("user-invocable", default=True),
    )


def _allowed(front: Front) -> list[Rule | BadRule]:
    listed = front.list("allowed-tools")
    return [parse_rule(text, effect="allow", source="skill") for text in listed]


def _first_line(front: Front) -> str:
    lines = (line.strip(" #\t") for line in front.body.split("\n"))
    return next((line for line in lines if line), "")
