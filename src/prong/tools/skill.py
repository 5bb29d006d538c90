"""Skills: instructions for a kind of work, put before the model when it asks for them."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from prong.entry import CallId, Text
from prong.event import Warned
from prong.text import load_text
from prong.tools.access import Access, Using
from prong.tools.rule import Rule
from prong.tools.tool import CallOutcome, Context, Done, Failed, SideEffect

_LONGEST = 400
"""Characters of a description that are listed: all of them ride on every request."""
_PLACE = r"\$(ARGUMENTS|[1-9])(?![0-9A-Za-z_])"


class Skill(msgspec.Struct, frozen=True, kw_only=True):
    """One skill, as its file gives it."""

    name: str
    description: str
    body: str
    path: str
    """The file it was read from."""
    folder: str
    """Where the files it speaks of lie."""
    allows: tuple[Rule, ...] = ()
    """Rules that allow uses of tools for the turn in which the skill is started."""
    fork: bool = False
    """It wants to run in a sub-agent (`context: fork`)."""
    for_model: bool = True
    for_user: bool = True


INIT = "init"
"""The skill that comes with the program; one of the user's of that name takes its place."""


def built_in() -> Skill:
    """Give the skill that writes a project's instructions; the model is never told of it."""
    return Skill(
        name=INIT,
        description="look at the project and write AGENTS.md, or mend the one that is there",
        body=load_text("init"),
        path="",
        folder="",
        for_model=False,
    )


def fill(body: str, arguments: str) -> str:
    """Put arguments into a body; appended at the end if the body has no place for them."""
    words = _split(arguments)

    def place(match: re.Match[str]) -> str:
        if match[1] == "ARGUMENTS":
            return arguments
        number = int(match[1])
        return words[number - 1] if number <= len(words) else ""

    filled, count = re.subn(_PLACE, place, body)
    if not count and arguments.strip():
        return f"{filled.rstrip()}\n\nArguments: {arguments}"
    return filled


def _split(arguments: str) -> list[str]:
    import shlex

    try:
        return shlex.split(arguments)
    except ValueError:
        return arguments.split()


def listing(skills: Sequence[Skill]) -> str:
    """List the skills the model may use, in an order that depends on nothing but their names."""
    lines: list[str] = []
    for skill in sorted(skills, key=lambda skill: skill.name):
        if skill.for_model:
            text = " ".join(skill.description.split())
            if len(text) > _LONGEST:
                text = f"{text[: _LONGEST - 1]}…"
            lines.append(f"- {skill.name}: {text}" if text else f"- {skill.name}")
    return "\n".join(lines) or "(none)"


class SkillArguments(msgspec.Struct, frozen=True):
    """What the model says to use a skill."""

    skill: str
    """The skill's name, from the list."""
    args: str = ""
    """Arguments for it, as one text."""


class SkillTool:
    """Gives the model the body of a skill."""

    name = "Skill"
    effect: SideEffect = "reads"
    arguments: type[msgspec.Struct] = SkillArguments
    budget = 100_000

    def __init__(self, skills: tuple[Skill, ...], text: str) -> None:
        """Take the skills, and the description in which `{skills}` stands for their list."""
        self.skills = skills
        self.description = text.replace("{skills}", listing(skills))

    def title(self, args: SkillArguments) -> str:
        """Name the skill."""
        return f"{args.skill} {args.args}".strip()

    def access(self, args: SkillArguments, context: Context) -> Sequence[Access]:
        """Rules speak of a skill by its name."""
        del context
        return (Using(args.skill.removeprefix("/")),)

    async def run(self, call_id: CallId, args: SkillArguments, context: Context) -> CallOutcome:
        """Give back the body, arguments filled in, and where its files are."""
        del call_id
        known = {skill.name: skill for skill in self.skills}
        skill = known.get(args.skill.removeprefix("/"))
        if skill is None:
            names = ", ".join(sorted(name for name, one in known.items() if one.for_model))
            return Failed(f"there is no skill {args.skill!r}; the skills are: {names or 'none'}")
        if not skill.for_model:
            return Failed(f"only the user may start the skill {skill.name!r}; ask them to")
        if skill.fork:
            context.emit(Warned(text=inline(skill)))
        return Done((Text(render(skill, args.args)),), f"skill {skill.name}", skill.allows)


def inline(skill: Skill) -> str:
    """Say that a skill does not run where it asks to."""
    return f"the skill {skill.name} asks to run in a sub-agent; it runs in this conversation"


def render(skill: Skill, arguments: str) -> str:
    """Say what the model should see of a skill that is used."""
    note = ""
    if skill.fork:
        note = (
            "This skill asks to run in a sub-agent; it runs here instead, in this conversation.\n"
        )
    if not skill.folder:
        return fill(skill.body, arguments).strip()
    return f"Base folder of this skill: {skill.folder}\n{note}\n{fill(skill.body, arguments)}"
