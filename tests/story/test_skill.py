from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from prong.config.skill_search import Found, find_skills
from prong.entry import CallId, Text
from prong.text import load_text
from prong.tools.access import Using
from prong.tools.rule import Rule
from prong.tools.skill import SkillArguments, SkillTool, find_skill, listing
from prong.tools.skill_text import Skill, SkillUse, plain_text
from prong.tools.tool import Done, Failed
from shared.workbench import Workbench

pytestmark = [pytest.mark.anyio, pytest.mark.spec("L11", "L2")]

NOBODY = cast("Any", None)


class Place:
    def __init__(self, base: Path) -> None:
        self.home, self.root = base / "home", base / "project"
        self.home.mkdir()
        self.root.mkdir()

    def write(self, name: str, content: str) -> str:
        path = self.home / name[2:] if name.startswith("~/") else self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        return str(path)

    def find(self, cwd: str = ".", *, trusted: bool = True) -> Found:
        folder = str(self.root / cwd)
        return find_skills(str(self.home), str(self.root), folder, trusted=trusted)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def skill(name: str, **more: Any) -> Skill:
    fields: dict[str, Any] = {
        "description": f"does {name}",
        "body": "do it",
        "path": "/s/SKILL.md",
        "folder": "/s",
    }
    return Skill(name=name, **(fields | more))


def test_skills_are_found_in_all_places_and_sorted(place: Place) -> None:
    """Skills of project and home, and command files, are found; the order is that of names."""
    place.write(".prong/skills/zeta/SKILL.md", "---\ndescription: last\n---\nZ")
    place.write(".claude/skills/alpha/SKILL.md", "---\nname: first\ndescription: one\n---\nA")
    place.write(".agents/skills/beta/SKILL.md", "# Beta work\n\nB")
    place.write(".claude/commands/git/tidy.md", "Tidy up $ARGUMENTS")
    place.write("~/.prong/commands/mine.md", "---\ndescription: my own\n---\nM")
    found = place.find()
    assert found.problems == []
    assert [(one.name, one.description) for one in found.skills] == [
        ("alpha", "one"),
        ("beta", "Beta work"),
        ("git:tidy", "Tidy up $ARGUMENTS"),
        ("mine", "my own"),
        ("zeta", "last"),
    ]


def test_a_skill_is_called_by_its_folder_and_found_by_its_own_name(place: Place) -> None:
    """The folder is the name, the file's own name finds it too; blanks become hyphens."""
    place.write(".claude/skills/alpha/SKILL.md", "---\nname: First One\n---\nA")
    place.write(".claude/commands/review pr.md", "R")
    place.write(".claude/commands/big team/ship it!.md", "S")
    skills = place.find().skills
    assert [one.name for one in skills] == ["alpha", "big-team:ship-it", "review-pr"]
    found = find_skill(skills, "First One")
    assert found is not None
    assert found.name == "alpha"
    assert find_skill(skills, "nothing") is None


def test_hints_are_written_in_brackets(place: Place) -> None:
    """`argument-hint: [a] [b]` is a text, however it looks; nothing is said about it."""
    place.write(".claude/commands/a.md", "---\nargument-hint: [file] [branch]\n---\nx")
    place.write(".claude/commands/b.md", '---\nargument-hint: "<file>"\n---\nx')
    found = place.find()
    assert [one.hint for one in found.skills] == ["[file] [branch]", "<file>"]
    assert (found.problems, found.warnings) == ([], [])


def test_every_field_is_read(place: Place) -> None:
    """All front matter fields reach the value, as comma text or list."""
    path = place.write(
        ".prong/skills/full/SKILL.md",
        "---\n"
        "name: full\n"
        'description: "Reviews: all of it"\n'
        "allowed-tools: Bash(git log:*, x), Read\n"
        "context: fork\n"
        "agent: Explore\n"
        "model: m-1\n"
        "disable-model-invocation: true\n"
        "user-invocable: false\n"
        "argument-hint: <file>\n"
        "arguments: file branch\n"
        "when_to_use: on Mondays\n"
        "---\n\nBody\n",
    )
    assert place.find().skills == (
        Skill(
            name="full",
            description="Reviews: all of it on Mondays",
            body="Body\n",
            path=path,
            folder=str(Path(path).parent),
            hint="<file>",
            parameters=("file", "branch"),
            variables={"CLAUDE_SKILL_DIR": str(Path(path).parent)},
            allows=(
                Rule("allow", "Bash", "git log:*, x", "skill"),
                Rule("allow", "Read", None, "skill"),
            ),
            fork=True,
            agent="Explore",
            model="m-1",
            for_model=False,
            for_user=False,
        ),
    )


def test_keys_that_nobody_uses_are_named_once(place: Place) -> None:
    """What a file sets in vain, and what is no rule, is said; the rest of the skill holds."""
    for name in ("a", "b"):
        place.write(
            f".prong/skills/{name}/SKILL.md",
            "---\neffort: high\nagent: Explore\nallowed-tools: Read, Bash Edit a/b\n---\nx",
        )
    found = place.find()
    left, unused = found.warnings

    assert left.count("allowed-tools 'a/b': left out") == 2
    assert left.count("'agent' has no effect without 'context: fork'") == 2
    assert unused.startswith("keys of skills that are not used: effort (")
    assert "a/SKILL.md:2" in unused
    assert "b/SKILL.md" not in unused
    allowed = [[str(rule) for rule in one.allows] for one in found.skills]
    assert allowed == [["Read", "Bash", "Edit"]] * 2


def test_nearest_skill_wins_and_the_other_is_named(place: Place) -> None:
    """Of two skills with one name the nearest is taken: cwd, root, home; each hidden one is told."""
    place.write("sub/.claude/skills/x/SKILL.md", "near")
    place.write(".prong/skills/x/SKILL.md", "root")
    place.write("~/.claude/skills/x/SKILL.md", "home")
    found = place.find("sub")
    assert [one.body for one in found.skills] == ["near"]
    assert len(found.warnings) == 2
    assert all("is hidden by" in warning for warning in found.warnings)
    assert [one.body for one in place.find().skills] == ["root"]


@pytest.mark.parametrize(
    ("content", "line", "why"),
    [
        ("---\nname: a\n", 1, "not closed"),
        ("---\nname: a\nname: b\n---\nx", 3, "stands twice"),
        ("---\nhooks:\n  Stop: []\n---\nx", 2, "hooks of a skill"),
        ("---\nname: a\n\ncontext: knife\n---\nx", 4, "'fork' or left out"),
        ("---\nname: a\n---\n  \n", 1, "no instructions"),
        ("---\nname: a\nhooks: {a: [}\n---\nx", 3, "not valid YAML"),
        ("---\njust words\n---\nx", 2, "'key: value'"),
    ],
)
def test_broken_skill_is_named_and_the_others_work(
    place: Place, content: str, line: int, why: str
) -> None:
    """A broken file is a problem with file and line, and hides no other skill."""
    path = place.write(".prong/skills/bad/SKILL.md", content)
    place.write(".prong/skills/good/SKILL.md", "fine")
    found = place.find()
    assert [one.name for one in found.skills] == ["good"]
    (problem,) = found.problems
    assert (problem.path, problem.line) == (path, line)
    assert why in problem.why


def test_loose_front_matter_is_read_by_its_known_keys(place: Place) -> None:
    """What is no YAML is read line by line, and that is said; a guard in it is not guessed at."""
    path = place.write(
        ".prong/skills/loose/SKILL.md",
        "---\nname: a\nmetadata: {a: [}\ndescription: |\n\tTabs: here\nallowed-tools: Read\n---\nx",
    )
    found = place.find()
    (one,) = found.skills
    assert (one.label, one.description) == ("a", "Tabs: here")
    assert [str(rule) for rule in one.allows] == ["Read"]
    assert path in found.warnings[0]
    assert "it was read line by line" in found.warnings[0]


def test_yaml_front_matter_is_read_where_needed(place: Place) -> None:
    """Folded texts and nested keys, which the line reader does not know, go through YAML."""
    place.write(
        ".prong/skills/y/SKILL.md",
        "---\ndescription: >\n  folded\n  text\nmetadata:\n  author: x\nallowed-tools:\n"
        "  - Read\n  - Grep\n---\nx",
    )
    (one,) = place.find().skills
    assert one.description.strip() == "folded text"
    assert [str(rule) for rule in one.allows] == ["Read", "Grep"]


def test_untrusted_projects_skills_grant_nothing(place: Place) -> None:
    """A project's skill is usable without trust, but what it would allow is left out and told."""
    content = "---\nallowed-tools: Bash\n---\nx"
    place.write(".prong/skills/p/SKILL.md", content)
    place.write("~/.prong/skills/u/SKILL.md", content)
    found = place.find(trusted=False)
    assert [(one.name, [*map(str, one.allows)]) for one in found.skills] == [
        ("p", []),
        ("u", ["Bash"]),
    ]
    assert len(found.warnings) == 1
    assert "prong trust" in found.warnings[0]


def test_link_out_of_an_untrusted_project_is_no_skill(place: Place) -> None:
    """A project's SKILL.md that leads to a file outside is read only once the folder is trusted."""
    place.write("~/secret", "secret")
    (place.root / ".prong/skills/x").mkdir(parents=True)
    (place.root / ".prong/skills/x/SKILL.md").symlink_to(place.home / "secret")
    found = place.find(trusted=False)
    assert found.skills == ()
    assert "leads out of the project" in found.problems[0].why
    assert [one.body for one in place.find(trusted=True).skills] == ["secret"]


def fill(body: str, arguments: str, **more: Any) -> str:
    known = {"CLAUDE_SESSION_ID": "s-1", "CLAUDE_PROJECT_DIR": "/p"}
    return plain_text(SkillUse(skill("a", body=body, **more), arguments), known)


@pytest.mark.parametrize(
    ("body", "arguments", "filled"),
    [
        ("do $ARGUMENTS", "a 'b c'", "do a 'b c'"),
        ("$0|$1|$2|$10|$X", "a 'b c'", "a|b c||$10|$X"),
        ("$ARGUMENTS[1]|$ARGUMENTS[0]|$ARGUMENTS[12]", "a 'b c'", "b c|a|"),
        ("do", "a", "do\n\nArguments: a"),
        ("do", "", "do"),
        ("$0", "it's", "it's"),
        ("$ARGUMENTS", "$1 ${CLAUDE_SESSION_ID}", "$1 ${CLAUDE_SESSION_ID}"),
        ("it costs $1.50 or \\$1", "", "it costs $1.50 or $1"),
        ("${CLAUDE_SESSION_ID} ${CLAUDE_PROJECT_DIR} ${CLAUDE_SKILL_DIR}", "", "s-1 /p /s"),
        ("${HOME} ${CLAUDE_OTHER} $HOME", "", "${HOME} ${CLAUDE_OTHER} $HOME"),
        ("from $branch to $1, not $brancher", "x y", "from x to y, not $brancher"),
        ("!`ls $0` and !`pwd`", "a", "!`ls a` and !`pwd`"),
    ],
)
def test_arguments_and_variables_are_filled_in(body: str, arguments: str, filled: str) -> None:
    """Words are counted from 0; what is no place stays; what has no place comes at the end."""
    more = {"parameters": ("branch",), "variables": {"CLAUDE_SKILL_DIR": "/s"}}
    assert fill(body, arguments, **more) == filled


async def test_skill_tool_gives_body_and_folder(tmp_path: Path) -> None:
    """The model gets the filled body and the folder."""
    tool = SkillTool((skill("a", body="do $0"), skill("f", label="b")), "")
    context = Workbench(tmp_path).context
    outcome = await tool.run(CallId("1"), SkillArguments("a", "this"), context)
    assert isinstance(outcome, Done)
    assert outcome.parts == (Text("Base folder of this skill: /s\n\ndo this"),)
    for name in ("a", "/a"):
        assert tool.access(SkillArguments(name), NOBODY) == (Using("a"),)
    assert tool.access(SkillArguments("b"), NOBODY) == (Using("f"),)


async def test_unknown_and_user_only_skills_fail() -> None:
    """An unknown name lists the known ones; a skill for the user alone is refused to the model."""
    tool = SkillTool((skill("a"), skill("u", for_model=False)), "")
    unknown = await tool.run(CallId("1"), SkillArguments("x"), NOBODY)
    assert unknown == Failed("there is no skill 'x'; the skills are: a")
    refused = await tool.run(CallId("1"), SkillArguments("u"), NOBODY)
    assert isinstance(refused, Failed)
    assert "only the user" in refused.why


def test_description_lists_skills_by_name_alone() -> None:
    """The tool's description holds the list, in the same order however they were found."""
    one, two, hidden = skill("a"), skill("b", description="x" * 500), skill("u", for_model=False)
    assert listing((two, hidden, one)) == listing((one, two, hidden))
    description = SkillTool((two, hidden, one), load_text("tool/Skill")).description
    assert description.endswith(f"Skills:\n- a: does a\n- b: {'x' * 399}…")
    assert SkillTool((), load_text("tool/Skill")).description.endswith("(none)")


def test_a_long_list_is_bounded_and_says_so() -> None:
    """Many skills get shorter descriptions, very many none, and names left out are counted."""
    some = listing([skill(f"s{n}", description="word " * 60) for n in range(150)])
    many = listing([skill(f"s{n:04}", description="word " * 60) for n in range(5_000)])
    assert (some.text.count("\n- "), len(some.text) < 24_200) == (149, True)
    assert "descriptions were cut to 120 characters" in some.text
    assert len(many.text) < 24_200
    assert many.text.endswith(f"({many.cut}.)")
    assert "of 5,000 are not listed" in many.cut
