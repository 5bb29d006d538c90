"""What a folder's own files may bring in: nothing from outside of it, nothing that rules forbid."""

from __future__ import annotations

from pathlib import Path

import pytest

from prong.config.agents import find_types
from prong.config.instruction import collect_instructions
from prong.config.listing import DEEPEST, MOST, list_files
from prong.config.skill_search import find_skills
from prong.config.trust import Trust, needs_trust
from prong.testing import Worlds, say
from prong.tools.ground import Policy
from prong.tools.rule import Rule, parse_rule

pytestmark = pytest.mark.spec("L5", "L11")

SKILL = "---\nname: greet\ndescription: greet\n---\nTOKEN\n"
AGENT = "---\nname: helper\ndescription: helps\n---\nTOKEN\n"


class Place:
    def __init__(self, base: Path) -> None:
        self.home, self.root = base / "home", base / "home/work/project"
        self.root.mkdir(parents=True)

    def write(self, name: str, text: str) -> Path:
        path = self.home / name[2:] if name.startswith("~/") else self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def link(self, name: str, target: Path) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)

    def policy(self, *denied: str) -> Policy:
        rules = [parse_rule(text, effect="deny", source="user") for text in denied]
        kept = tuple(rule for rule in rules if isinstance(rule, Rule))
        return Policy(root=str(self.root), home=str(self.home), rules=kept)

    def read(self, *denied: str, trusted: bool = False, cwd: str = "") -> tuple[str, str]:
        """Give all that reaches the model, and all complaints."""
        where = (str(self.home), str(self.root), str(self.root / cwd))
        policy = self.policy(*denied)
        told = collect_instructions(*where, trusted=trusted, policy=policy)
        skills = find_skills(*where, trusted=trusted, policy=policy)
        types = find_types(*where, trusted=trusted, policy=policy)
        texts = [one.text for one in told.items]
        texts += [one.body for one in skills.skills]
        texts += [kind.prompt for kind in types.types.values()]
        problems = [*told.problems, *skills.problems, *types.problems]
        return "\n".join(texts), "\n".join(map(str, problems))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize(
    "name", ["AGENTS.md", "CLAUDE.md", ".claude/CLAUDE.md", "CLAUDE.local.md", "~/work/AGENTS.md"]
)
def test_imports_obey_the_rules(place: Place, name: str, trusted: bool) -> None:
    """An `@import` of a denied file is left out and said, whoever is trusted."""
    secret = place.write(".env", "TOKEN")
    place.write(name, f"See @{secret}")

    told, problems = place.read("Read(./.env)", trusted=trusted)

    assert "TOKEN" not in told
    assert "See" in told
    if trusted or not name.startswith("~"):
        assert "reading it is under `Read(./.env)`" in problems


@pytest.mark.parametrize(
    "name",
    [
        "AGENTS.md",
        ".claude/CLAUDE.md",
        ".claude/skills/greet/SKILL.md",
        ".claude/commands/greet.md",
        ".prong/agents/helper.md",
    ],
)
@pytest.mark.parametrize("trusted", [True, False])
def test_links_to_denied_files_are_not_taken_in(place: Place, name: str, trusted: bool) -> None:
    """A denied file does not reach the model as an instruction, a skill or a type either."""
    place.link(name, place.write("hidden/.env", AGENT if "agents" in name else SKILL))

    told, problems = place.read("Read(.env)", trusted=trusted)

    assert "TOKEN" not in told
    if trusted or "agents" not in name:
        assert "is left out: reading it is under `Read(.env)`" in problems


def test_secrets_are_not_imported(place: Place) -> None:
    """Keys in the home are not taken in, even by a folder that is trusted."""
    place.write("~/.ssh/id_rsa", "TOKEN")
    place.write("AGENTS.md", "See @~/.ssh/id_rsa")

    assert "TOKEN" not in place.read(trusted=True)[0]


def test_a_file_above_the_project_imports_nothing_from_elsewhere(place: Place) -> None:
    """An unpacked folder is no project of its own, and its files no more the user's than others."""
    place.write("~/notes/private.md", "TOKEN")
    place.write("~/work/AGENTS.md", "See @~/notes/private.md and @near.md")
    place.write("~/work/near.md", "NEAR")

    told, problems = place.read()
    assert "NEAR" in told
    assert "TOKEN" not in told
    assert "private.md, outside the project" in problems
    Trust(str(place.home)).trust(str(place.home / "work"))
    assert "TOKEN" in place.read()[0]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (".claude/commands", SKILL),
        (".prong/commands", SKILL),
        (".claude/skills", SKILL),
        (".agents/skills", SKILL),
        (".claude/agents", AGENT),
        (".prong/agents", AGENT),
    ],
)
def test_a_linked_folder_is_not_walked(place: Place, tmp_path: Path, kind: str, text: str) -> None:
    """A folder that leads out of an untrusted project is left out whole, with one complaint."""
    inner = "greet/SKILL.md" if kind.endswith("skills") else "a/b.md"
    for number in range(3):
        path = tmp_path / f"elsewhere/{number}{inner}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    place.link(kind, tmp_path / "elsewhere")

    told, problems = place.read()
    assert "TOKEN" not in told
    assert problems.count("leads out of the project") == 1
    assert "TOKEN" in place.read(trusted=True)[0]


@pytest.mark.parametrize("kind", [".claude/commands", ".claude/agents"])
@pytest.mark.parametrize("trusted", [True, False])
def test_a_link_to_everything_ends(place: Place, kind: str, trusted: bool) -> None:
    """`commands -> /` is not walked to its end by anybody, nor by the question of trust."""
    place.link(kind, Path("/"))

    assert place.read(trusted=trusted)[1]
    assert len(needs_trust(str(place.home), str(place.root))) <= MOST


def test_a_walk_has_an_end(tmp_path: Path) -> None:
    """So many names, so many levels; what is left out is said."""
    many, deep = tmp_path / "many", tmp_path / "deep"
    many.mkdir()
    for number in range(MOST + 5):
        (many / f"{number}.md").touch()
    (deep / "/".join("d" * DEEPEST)).mkdir(parents=True)
    (deep / "/".join("d" * DEEPEST) / "a.md").touch()
    (deep / "b.md").touch()

    listed = list_files(many, suffix=".md")
    assert (len(listed.paths), len(listed.problems)) == (MOST, 1)
    listed = list_files(deep, suffix=".md")
    assert [path.name for path in listed.paths] == ["b.md"]
    assert "the rest is left out" in str(listed.problems[0])
    assert list_files(tmp_path / "none", suffix=".md").problems == ()


def test_a_word_that_is_no_name_is_no_import(place: Place) -> None:
    """A word too long for a file's name is a word."""
    place.write("AGENTS.md", "See @" + "x" * 5000)

    assert place.read()[0].startswith("See @")


@pytest.mark.anyio
async def test_a_session_starts_without_the_denied_import(world: Worlds) -> None:
    """Flags and settings are known before instructions are read; what is left out is warned of."""
    files = {"AGENTS.md": "Be kind. @.env @sub/.env", ".env": "TOKEN-1", "sub/.env": "TOKEN-2"}
    async with world([say("Hi.")], files=files, deny=("Read(./.env)",)) as w:
        await w.session.run("Go")
        sent = w.server.records[0].body.decode()
        assert "Be kind." in sent
        assert "TOKEN-1" not in sent
        assert "TOKEN-2" not in sent
        assert sum("reading it is under" in one for one in w.warnings) == 2
