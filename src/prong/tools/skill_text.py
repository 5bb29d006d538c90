"""What a skill says once it is used: its text with arguments, variables and places to fill; pure.

Arguments are put into a text that was taken apart before: what stands in them is never taken for a
command or a file that the skill itself names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from prong.tools.mention import find_mentions
from prong.tools.rule import Rule

# Patterns are texts: they are compiled for the first skill, which many sessions never use.
_COMMAND = r"(?ms)(?:^|(?<=[\s(]))!`([^`\n]+)`|^```!\s*\n(.*?)\n```[ \t]*$"
_PLACE = (
    r"\\\$(?=[A-Z0-9{a-z_])"
    r"|\$\{(?P<variable>[A-Z][A-Z0-9_]*)\}"
    r"|\$ARGUMENTS\[(?P<index>\d{1,4})\]"
    r"|\$(?P<whole>ARGUMENTS)(?![0-9A-Za-z_])"
    r"|\$(?P<number>\d)(?![0-9A-Za-z_]|\.\d)"
    r"|\$(?P<name>[a-z_][0-9A-Za-z_]*)"
)


class Skill(msgspec.Struct, frozen=True, kw_only=True):
    """One skill, as its file gives it."""

    name: str
    """What it is called by: its folder, or the name of its file."""
    description: str
    body: str
    path: str
    """The file it was read from."""
    folder: str
    """Where the files it speaks of lie."""
    label: str = ""
    """What its file calls it."""
    hint: str = ""
    """What may follow its name, for people."""
    parameters: tuple[str, ...] = ()
    """Names for its arguments, in their order."""
    variables: Mapping[str, str] = {}
    """What is known of it wherever it is used: its folder, and that of its plug-in."""
    allows: tuple[Rule, ...] = ()
    """Rules that allow uses of tools for the turn in which the skill is started."""
    forbids: tuple[Rule, ...] = ()
    """Rules that forbid uses of tools in that turn, to whoever works in it."""
    fork: bool = False
    """It runs in a sub-agent (`context: fork`)."""
    agent: str = ""
    """The type of that sub-agent; empty for a fork of the conversation."""
    model: str = ""
    """The model that it asks for; empty for the one that is there."""
    for_model: bool = True
    for_user: bool = True


class SkillUse(msgspec.Struct, frozen=True):
    """A skill that is used, with what it is used on."""

    skill: Skill
    arguments: str = ""


class EmbeddedCommand(msgspec.Struct, frozen=True):
    """A command line in a skill's text, whose output goes there."""

    line: str


Piece: TypeAlias = str | EmbeddedCommand


def pieces(use: SkillUse, variables: Mapping[str, str]) -> list[Piece]:
    """Take a skill's text apart, arguments and variables filled in.

    Arguments for which there is no place come at the end.
    """
    filling = _Filling(use, variables)
    found: list[Piece] = []
    at, body = 0, use.skill.body
    for match in re.finditer(_COMMAND, body):
        found.append(filling.fill(body[at : match.start()]))
        found.append(EmbeddedCommand(filling.fill(match[1] or match[2])))
        at = match.end()
    found.append(filling.fill(body[at:]))
    if not filling.used and use.arguments.strip():
        found.append(f"\n\nArguments: {use.arguments}")
    return found


def mentions(skill: Skill) -> list[str]:
    """Name the files that a skill's own text mentions by `@path`, each once."""
    named = (name for _, name in find_mentions(skill.body) if "$" not in name)
    return list(dict.fromkeys(named))


def has_commands(skill: Skill) -> bool:
    """Whether there are commands in a skill's text."""
    return "!`" in skill.body or "```!" in skill.body


def plain_text(use: SkillUse, variables: Mapping[str, str]) -> str:
    """Give the text with its commands as they are written, for whoever cannot run them."""
    parts = (
        f"!`{one.line}`" if not isinstance(one, str) else one for one in pieces(use, variables)
    )
    return "".join(parts)


def undone(skill: Skill) -> str:
    """Say what of a skill was not done for an agent in another process; empty if all was."""
    left = [
        *(["commands in it were not run"] if has_commands(skill) else []),
        *(["files that it mentions were not read"] if mentions(skill) else []),
        *(["it asks for an agent of its own, and runs here"] if skill.fork else []),
    ]
    return f"[Of this skill: {'; '.join(left)}. Do yourself what matters.]" if left else ""


def preloaded(skill: Skill) -> str:
    """Give a skill's text for a system prompt: nothing of it is run, and it has no arguments."""
    known = skill.variables
    return re.sub(_PLACE, lambda match: known.get(match["variable"] or "", match[0]), skill.body)


def headed(skill: Skill, text: str) -> str:
    """Say where a skill's files are, and then what it says."""
    if not skill.folder:
        return text.strip()
    return f"Base folder of this skill: {skill.folder}\n\n{text}"


class _Filling:
    """Puts arguments and variables into texts; `used` says whether there was a place for any."""

    def __init__(self, use: SkillUse, variables: Mapping[str, str]) -> None:
        self.used = False
        self._arguments = use.arguments
        self._words = split_arguments(use.arguments)
        self._names = use.skill.parameters
        self._variables = {**variables, **use.skill.variables}

    def fill(self, text: str) -> str:
        return re.sub(_PLACE, self._place, text)

    def _place(self, match: re.Match[str]) -> str:
        if match[0] == "\\$":
            return "$"
        if (variable := match["variable"]) is not None:
            return self._variables.get(variable, match[0])
        if match["whole"]:
            self.used = True
            return self._arguments
        if (number := match["index"] or match["number"]) is not None:
            return self._word(int(number))
        if match["name"] in self._names:
            return self._word(self._names.index(match["name"]))
        return match[0]

    def _word(self, number: int) -> str:
        self.used = True
        return self._words[number] if number < len(self._words) else ""


def split_arguments(arguments: str) -> list[str]:
    """Take arguments apart as a shell would, or at blanks where a shell could not."""
    import shlex

    try:
        return shlex.split(arguments)
    except ValueError:
        return arguments.split()
