"""A skill as a Markdown file gives it: `SKILL.md` in a folder, or the file of a command."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import msgspec

from prong.config.front import Front, read_front
from prong.errors import ConfigError
from prong.tools.rule import BadRule, Rule, parse_rule
from prong.tools.skill_text import Skill

KEYS = (
    "name",
    "description",
    "when_to_use",
    "argument-hint",
    "arguments",
    "allowed-tools",
    "disallowed-tools",
    "paths",
    "context",
    "agent",
    "model",
    "disable-model-invocation",
    "user-invocable",
    "hooks",
)
_UNUSED = frozenset({"effort", "shell"})
"""Keys that others make use of."""
_LONGEST = 64


class SkillFile(msgspec.Struct, frozen=True):
    """A skill that was read, and what of its file is left out."""

    skill: Skill
    unheeded: tuple[str, ...] = ()
    unused: Mapping[str, int] = {}
    """Keys that have no effect here, with their lines."""


def read_skill_file(
    path: Path, text: str, name: str, variables: Mapping[str, str] = MappingProxyType({})
) -> SkillFile:
    """Make a skill of a file; `name` is what it is called by.

    Raises ConfigError if that makes no sense.
    """
    front = read_front(str(path), text.replace("\r\n", "\n"), KEYS)

    def wrong(key: str, why: str) -> ConfigError:
        return ConfigError(path, why, line=front.lines.get(key, 1))

    called = skill_name(name) or skill_name(front.text("name"))
    if not called:
        raise wrong("", f"{name!r} can be no name; it needs letters or digits")
    if not front.body.strip():
        raise wrong("", "has no instructions below the front matter")
    if (context := front.text("context")) not in ("", "fork", "inline"):
        raise wrong("context", f"context {context!r} is not known; it may be 'fork' or left out")
    if front.nested("hooks") if "hooks" in front.values else False:
        raise wrong("hooks", "hooks of a skill are not supported; put them into the settings")
    rules = [
        parse_rule(rule, effect="allow", source="skill") for rule in front.words("allowed-tools")
    ]
    forbids = _forbids(front)
    if isinstance(forbids, str):
        raise wrong("disallowed-tools", forbids)
    model = front.text("model")
    skill = Skill(
        name=called,
        label=label if (label := front.text("name")) != called else "",
        description=_described(front),
        body=front.body,
        path=path.as_posix(),
        folder=path.parent.as_posix(),
        hint=" ".join(front.text("argument-hint").split()),
        parameters=front.words("arguments"),
        variables={"CLAUDE_SKILL_DIR": path.parent.as_posix(), **variables},
        allows=tuple(rule for rule in rules if isinstance(rule, Rule)),
        forbids=forbids,
        fork=context == "fork",
        agent=front.text("agent"),
        model="" if model == "inherit" else model,
        for_model=not front.flag("disable-model-invocation", default=False),
        for_user=front.flag("user-invocable", default=True),
    )
    return SkillFile(
        skill,
        tuple(_unheeded(front, rules)),
        {key: front.lines.get(key, 1) for key in _UNUSED & front.values.keys()},
    )


def skill_name(text: str) -> str:
    """Make what a skill is called by: what no command may hold becomes a hyphen."""
    words = re.sub(r"[^\w.:-]+", "-", text).strip("-.:")
    return words[:_LONGEST]


def _forbids(front: Front) -> tuple[Rule, ...] | str:
    """Give the rules by which a skill forbids tools, or why they cannot be kept."""
    words = front.words("disallowed-tools")
    if words and front.text("context") == "fork":
        return "disallowed-tools with context: fork are not supported; name a type in 'agent' there"
    found = [parse_rule(word, effect="deny", source="skill") for word in words]
    bad = next((rule for rule in found if isinstance(rule, BadRule)), None)
    if bad is not None:
        return f"disallowed-tools {bad.text!r} cannot be kept: {bad.why}"
    return tuple(rule for rule in found if isinstance(rule, Rule))


def _described(front: Front) -> str:
    lines = (line.strip(" #\t") for line in front.body.split("\n"))
    first = front.text("description") or next((line for line in lines if line), "")
    paths = ", ".join(front.list("paths"))
    bound = f"Only for work on files like {paths}." if paths else ""
    return " ".join(filter(None, (first, front.text("when_to_use"), bound)))


def _unheeded(front: Front, rules: list[Rule | BadRule]) -> list[str]:
    """Say what of a file is left out."""
    told = [
        f"allowed-tools {rule.text!r}: left out, because {rule.why}"
        for rule in rules
        if isinstance(rule, BadRule)
    ]
    if front.slack is not None:
        told.append(f"{front.slack.why}; it was read line by line")
    if front.text("agent") and front.text("context") != "fork":
        told.append("'agent' has no effect without 'context: fork'")
    return told
