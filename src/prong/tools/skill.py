"""Skills: instructions for a kind of work, put before the model when it asks for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from prong.entry import CallId, Text
from prong.host.escape import MARK
from prong.text import load_text
from prong.tools.access import Access, Using
from prong.tools.short_list import ShortList, shorten
from prong.tools.skill_text import Skill, SkillUse, has_commands, headed, plain_text
from prong.tools.tool import CallOutcome, Context, Done, Failed, SideEffect

_LONGEST = 400
"""Characters of a description that are listed: all of them ride on every request."""
_LISTED = 24_000
"""Characters of the whole list."""


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


def listing(skills: Sequence[Skill]) -> ShortList:
    """List the skills the model may use, in an order that depends on nothing but their names."""
    shown = sorted((skill for skill in skills if skill.for_model), key=lambda skill: skill.name)
    items = [(skill.name, skill.description) for skill in shown]
    return shorten(items, limit=_LISTED, longest=_LONGEST)


def find_skill(skills: Iterable[Skill], name: str) -> Skill | None:
    """Find a skill by what it is called by, or else by what its own file calls it.

    One of a plug-in is found without the plug-in's name, if only one is called so.
    """
    known = list(skills)
    named = [skill for skill in known if name in (skill.name, skill.label)]
    if named:
        return min(named, key=lambda skill: skill.name != name)
    inner = [skill for skill in known if skill.name.partition(":")[2] == name]
    return inner[0] if len(inner) == 1 else None


class SkillArguments(msgspec.Struct, frozen=True):
    """What the model says to use a skill."""

    skill: str
    """The skill's name, from the list."""
    args: str = ""
    """Arguments for it, as one text."""


class SkillTool:
    """Gives the model the body of a skill."""

    name = "Skill"
    arguments: type[msgspec.Struct] = SkillArguments
    budget = 100_000

    def __init__(self, skills: tuple[Skill, ...], text: str) -> None:
        """Take the skills, and the description in which `{skills}` stands for their list."""
        self.skills = skills
        # Commands in a text run with the call that uses it, and so does the start of an agent.
        acts = any(skill.fork or has_commands(skill) for skill in skills)
        self.effect: SideEffect = "writes" if acts else "reads"
        self.description = text.replace("{skills}", listing(skills).text or "(none)")

    def title(self, args: SkillArguments) -> str:
        """Name the skill."""
        return f"{args.skill} {args.args}".strip()

    def access(self, args: SkillArguments, context: Context) -> Sequence[Access]:
        """Rules speak of a skill by its name."""
        del context
        name = args.skill.removeprefix("/")
        skill = find_skill(self.skills, name)
        return (Using(name if skill is None else skill.name),)

    async def run(self, call_id: CallId, args: SkillArguments, context: Context) -> CallOutcome:
        """Give back the text, arguments filled in, and where its files are.

        Whoever has called runs the commands in it and reads the files; where that cannot be, they
        stand in the text as they are written.
        """
        del call_id
        skill = find_skill(self.skills, args.skill.removeprefix("/"))
        if skill is None:
            names = ", ".join(sorted(one.name for one in self.skills if one.for_model))
            return Failed(f"there is no skill {args.skill!r}; the skills are: {names or 'none'}")
        if not skill.for_model:
            return Failed(f"only the user may start the skill {skill.name!r}; ask them to")
        use = SkillUse(skill, args.args)
        text = headed(skill, plain_text(use, known_variables(context)))
        return Done((Text(text),), f"skill {skill.name}", skill.allows, skill=use)


def known_variables(context: Context) -> dict[str, str]:
    """Give what texts of skills may name of the session by `${...}`."""
    known = {
        "CLAUDE_SESSION_ID": context.env.get(MARK, ""),
        "CLAUDE_PROJECT_DIR": context.host.root,
    }
    return {name: value for name, value in known.items() if value}
