from __future__ import annotations

from pathlib import Path

import pytest

from prong.config.instruction import Instructions, collect_instructions, find_root
from prong.tools.mention import find_mentions

pytestmark = pytest.mark.spec("L11")


class Place:
    def __init__(self, base: Path) -> None:
        self.home, self.root = base / "home", base / "home/work/project"
        self.home.mkdir()
        self.root.mkdir(parents=True)

    def write(self, name: str, text: str) -> Path:
        path = self.home / name[2:] if name.startswith("~/") else self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def collect(self, cwd: str = ".", *, trusted: bool = False) -> Instructions:
        folder = self.root / cwd
        return collect_instructions(str(self.home), str(self.root), str(folder), trusted=trusted)

    def texts(self, cwd: str = ".", *, trusted: bool = False) -> list[tuple[str, str]]:
        return [(item.label, item.text) for item in self.collect(cwd, trusted=trusted).items]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_order_is_far_to_near(place: Place) -> None:
    """The user's own come first, then the folders above, then the project down to the cwd."""
    place.write("sub/AGENTS.md", "near")
    place.write("CLAUDE.local.md", "mine")
    place.write("CLAUDE.md", "theirs")
    place.write("AGENTS.md", "project")
    place.write("~/work/AGENTS.md", "above")
    place.write("~/.claude/CLAUDE.md", "user two")
    place.write("~/.prong/AGENTS.md", "user")
    place.write("other/AGENTS.md", "elsewhere")
    assert place.texts("sub") == [
        ("~/.prong/AGENTS.md", "user"),
        ("~/.claude/CLAUDE.md", "user two"),
        ("~/work/AGENTS.md", "above"),
        ("AGENTS.md", "project"),
        ("CLAUDE.md", "theirs"),
        ("CLAUDE.local.md", "mine"),
        ("sub/AGENTS.md", "near"),
    ]


@pytest.mark.parametrize("how", ["import", "copy", "link"])
def test_claude_file_that_only_repeats_is_not_taken_twice(place: Place, how: str) -> None:
    """A CLAUDE.md that imports, copies or links to AGENTS.md adds nothing."""
    place.write("AGENTS.md", "rules\n")
    if how == "import":
        place.write("CLAUDE.md", "@AGENTS.md\n")
    elif how == "copy":
        place.write("CLAUDE.md", "rules")
    else:
        (place.root / "CLAUDE.md").symlink_to("AGENTS.md")
    assert place.texts() == [("AGENTS.md", "rules")]


def test_imports_follow_their_importer(place: Place) -> None:
    """Imported files come right after, relative to the importing file, each once."""
    place.write("AGENTS.md", "See @docs/style.md and @docs/test.md, too.")
    place.write("docs/style.md", "style, and @more.md")
    place.write("docs/more.md", "more")
    place.write("docs/test.md", "tests, again @more.md and back @../AGENTS.md")
    assert place.texts() == [
        ("AGENTS.md", "See @docs/style.md and @docs/test.md, too."),
        ("docs/style.md", "style, and @more.md"),
        ("docs/more.md", "more"),
        ("docs/test.md", "tests, again @more.md and back @../AGENTS.md"),
    ]


def test_imports_stop_at_five_deep(place: Place) -> None:
    """The sixth import in a row is left out and named with file and line."""
    place.write("AGENTS.md", "start @1.md")
    for number in range(1, 8):
        place.write(f"{number}.md", f"file {number}\n@{number + 1}.md")
    found = place.collect()
    assert [item.label for item in found.items] == ["AGENTS.md", *(f"{n}.md" for n in range(1, 6))]
    (problem,) = found.problems
    assert (Path(problem.path).name, problem.line) == ("5.md", 2)


def test_mentions_in_code_are_no_imports() -> None:
    """Fenced blocks, code spans and addresses are left alone; lines are counted."""
    text = (
        "mail me@here.md\n`@span.md` and ``a ` @b.md``\n```sh\n@fence.md\n```\n"
        "~~~\n```\n@tilde.md\n~~~\n@real.md and (@not.md)\n```x``` @after.md."
    )
    assert find_mentions(text) == [(10, "real.md"), (11, "after.md")]


def test_import_out_of_the_project_needs_trust(place: Place) -> None:
    """A project file may read outside the project only once the folder is trusted."""
    place.write("~/secret.md", "secret")
    place.write("AGENTS.md", "@~/secret.md @../../secret.md\nrules")
    found = place.collect()
    assert [item.text for item in found.items] == ["@~/secret.md @../../secret.md\nrules"]
    assert all("prong trust" in problem.why for problem in found.problems)
    assert len(found.problems) == 2
    assert ("~/secret.md", "secret") in place.texts(trusted=True)


def test_absolute_import_needs_trust(place: Place) -> None:
    """An absolute path in an untrusted project's file is not read, even a system file."""
    place.write("AGENTS.md", "x @/etc/hostname")
    found = place.collect()
    assert len(found.items) == 1
    assert "outside the project" in found.problems[0].why


def test_link_out_of_the_project_needs_trust(place: Place) -> None:
    """An AGENTS.md that is a link to a file outside is not read from an untrusted folder."""
    place.write("~/secret", "secret")
    (place.root / "AGENTS.md").symlink_to(place.home / "secret")
    found = place.collect()
    assert found.items == ()
    assert "outside the project" in found.problems[0].why


def test_users_own_files_may_import_anything(place: Place) -> None:
    """What the user wrote at home is theirs to extend."""
    place.write("~/notes/a.md", "notes")
    place.write("~/.prong/AGENTS.md", "@~/notes/a.md")
    assert place.texts() == [("~/notes/a.md", "notes")]


def test_missing_import_is_named_and_mentions_are_not(place: Place) -> None:
    """An import of a file that is not there is named by line; a person or package is not."""
    place.write("AGENTS.md", "ask @someone about @types/node\nsee @gone.md")
    (problem,) = place.collect().problems
    assert problem.line == 2
    assert "@gone.md" in problem.why


def test_nested_instructions_come_with_the_first_read(place: Place) -> None:
    """Folders below add theirs when a file in them is first read, once, far to near."""
    place.write("AGENTS.md", "project")
    place.write("a/AGENTS.md", "a")
    place.write("a/b/CLAUDE.md", "b")
    place.write("c/AGENTS.md", "c")
    found = place.collect()
    child = found.clone()
    read = str(place.root / "a/b/code.py")
    assert [item.text for item in found.nested_for(read)] == ["a", "b"]
    assert found.nested_for(read) == ()
    assert [item.text for item in child.nested_for(read)] == ["a", "b"]
    assert found.nested_for(str(place.home / "elsewhere.py")) == ()
    assert [item.text for item in place.collect("a").nested_for(str(place.root / "c/x"))] == ["c"]


def test_large_file_is_taken_with_a_warning(place: Place) -> None:
    """A very long file is taken whole, and its size is told."""
    place.write("AGENTS.md", "x" * 40_001)
    found = place.collect()
    assert found.items[0].size == 40_001
    assert "40,001 characters" in found.problems[0].why


def test_file_that_is_no_text_is_named(place: Place) -> None:
    """Binary content is left out and named; a folder of that name is passed over."""
    (place.root / "AGENTS.md").write_bytes(b"a\0b")
    (place.root / "CLAUDE.md").write_bytes(b"a\n\xff")
    (place.root / "CLAUDE.local.md").mkdir()
    found = place.collect()
    assert found.items == ()
    assert [problem.line for problem in found.problems] == [None, 2]


def test_same_files_give_the_same_result(place: Place) -> None:
    """Collecting twice gives equal values: nothing of the time or the session is in them."""
    place.write("AGENTS.md", "x @b.md")
    place.write("b.md", "b")
    assert place.collect().items == place.collect().items


def test_root_is_the_nearest_folder_with_git(place: Place) -> None:
    """A worktree's .git file counts as much as a folder; without one the folder itself is root."""
    place.write("a/b/x", "")
    assert find_root(str(place.root / "a/b")) == str((place.root / "a/b").resolve())
    place.write("a/.git", "gitdir: elsewhere")
    assert find_root(str(place.root / "a/b")) == str((place.root / "a").resolve())


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("a <!-- @x.md --> b", "a  b"),
        ("a\n<!-- one\n@x.md\n```\nthree -->\nb", "a\n\n\nb"),
        ("`<!-- code -->` <!-- not -->c", "`<!-- code -->` c"),
        ("```\n<!-- fenced -->\n```\nb", "```\n<!-- fenced -->\n```\nb"),
        ("a <!-- never closed @x.md", "a <!-- never closed @x.md"),
        ("<!-- a --><!-- b -->c\n-->", "c\n-->"),
    ],
)
def test_comments_are_left_out_and_import_nothing(place: Place, text: str, kept: str) -> None:
    """An HTML comment is for people who edit the file; in code it is code, unclosed it is text."""
    place.write("x.md", "imported")
    place.write("AGENTS.md", text)
    found = place.texts()
    assert found[0][1] == kept
    assert (("x.md", "imported") in found) == ("never closed" in text)


def test_a_blank_in_an_import_is_escaped(place: Place) -> None:
    """An escaped blank in `@path` is one of the name; a file of imports alone adds only these."""
    place.write("docs/with space.md", "spaced")
    place.write("AGENTS.md", "@docs/with\\ space.md")
    assert place.texts() == [("docs/with space.md", "spaced")]


RULES = {
    ".claude/rules/all.md": "---\ndescription: for all\n---\nall of it",
    ".claude/rules/deep/python.md": "---\npaths:\n  - '**/*.py'\n  - src/{a,b}/**\n---\nfor python",
    ".claude/rules/web.md": "---\npaths: web/**/*.ts, *.css\n---\nfor the web @../../web/more.md",
    "~/.claude/rules/mine.md": "---\npaths: ['*.py']\n---\nmine",
    "web/more.md": "more of the web",
    "sub/.claude/rules/sub.md": "of the folder",
}


def test_rules_hold_for_all_or_for_single_paths(place: Place) -> None:
    """Rules without paths come at the start; others with the first file they are for, once."""
    for name, text in RULES.items():
        place.write(name, text)
    found = place.collect()
    child = found.clone()

    def shown(name: str) -> list[str]:
        return [item.text for item in found.nested_for(str(place.root / name))]

    assert [item.text for item in found.items] == ["all of it"]
    assert shown("README.md") == []
    assert shown("src/a/deep/x.txt") == ["for python"]
    assert shown("web/x/app.ts") == ["for the web @../../web/more.md", "more of the web"]
    assert shown("y.py") == ["mine"]
    assert shown("sub/z.css") == ["of the folder"]
    assert shown("y.py") == []
    assert [i.text for i in child.nested_for(str(place.root / "y.py"))] == ["mine", "for python"]
    found.forget_nested()
    assert shown("src/a/x.py") == ["mine", "for python"]


def test_rules_that_lead_out_of_an_untrusted_project_are_left_out(place: Place) -> None:
    """A link from the rules to a file outside is not read before the folder is trusted."""
    place.write("~/secret", "---\npaths: '*.py'\n---\nsecret")
    (place.root / ".claude/rules").mkdir(parents=True)
    (place.root / ".claude/rules/x.md").symlink_to(place.home / "secret")
    found = place.collect()
    assert found.items == ()
    assert found.nested_for(str(place.root / "a.py")) == ()
    assert "outside the project" in found.problems[0].why
    assert [i.text for i in place.collect(trusted=True).nested_for(str(place.root / "a.py"))] == [
        "secret"
    ]
