"""Rules of file tools are about files: they hold however a call comes at them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from prong.tools.access import Reading, Running, Writing
from prong.tools.ground import find_below, find_rule, keeps_back
from prong.tools.policy import Allow, Ask, Deny, Mode, Policy, decide
from prong.tools.rule import READING, WRITING, Rule
from shared.gate import MODES, policy, rule, run

pytestmark = pytest.mark.spec("L5")

READERS = ("Read", "Grep", "Glob")
WRITERS = ("Edit", "Write", "NotebookEdit")


@pytest.mark.parametrize("text", [".env", "./.env", "././.env", ".//.env", "**/.env"])
@pytest.mark.parametrize("path", ["/r/.env", "/r/sub/.env", "/r/a/b/.ENV", "/r/.env/x"])
@pytest.mark.parametrize("effect", ["deny", "ask"])
def test_a_forbidden_name_is_forbidden_at_any_depth(text: str, path: str, effect: str) -> None:
    """`./x` and `x` mean the same where they forbid: every x of the project."""
    value = policy(
        "bypassPermissions", rule("deny" if effect == "deny" else "ask", f"Read({text})")
    )
    verdict = decide(value, "Read", [Reading(path)])

    assert isinstance(verdict, Deny if effect == "deny" else Ask)


def test_an_allowed_name_with_a_dot_is_that_very_file() -> None:
    """`Edit(./notes.md)` allows the one in the project's folder, and no other."""
    value = policy("default", rule("allow", "Edit(./notes.md)"))

    assert isinstance(decide(value, "Edit", [Writing("/r/notes.md")]), Allow)
    assert isinstance(decide(value, "Edit", [Writing("/r/sub/notes.md")]), Ask)


@pytest.mark.parametrize(
    ("text", "path", "fits"),
    [
        ("./sub/.env", "/r/sub/.env", True),
        ("./sub/.env", "/r/x/sub/.env", False),
        ("./secrets/", "/r/x/secrets/a", True),
        ("./secrets/**", "/r/x/secrets/a", False),
        ("./", "/r/a", True),
        ("/.env", "/r/sub/.env", False),
        (".env", "/s/.env", False),
        (".env", "/extra/sub/.env", True),
        ("/docs/**", "/extra/docs/a", True),
    ],
)
def test_where_forbidden_paths_are_looked_for(text: str, path: str, fits: bool) -> None:
    """A slash in the middle fixes the folder; folders opened to the project count as the project."""
    base = policy("bypassPermissions", rule("deny", f"Read({text})"))
    value = Policy(
        root=base.root, home=base.home, mode=base.mode, rules=base.rules, folders=("/extra",)
    )

    assert isinstance(decide(value, "Read", [Reading(path)]), Deny) == fits


WAYS_TO_WRITE = [
    "echo x > docs/a.md",
    "echo x >> docs/a.md",
    "cp a docs/a.md",
    "cp a docs",
    "mv a docs/",
    "tee docs/a.md < b",
    "sed -i s/a/b/ docs/a.md",
    "rm docs/a.md",
    "touch docs/new",
    "cd docs && touch new",
    "dd of=docs/a.md if=b",
    "cp -r a/docs .",
    "cp -t . b/docs",
    "mv --target-directory=. b/docs",
]


@pytest.mark.parametrize("tool", sorted(WRITING))
@pytest.mark.parametrize("mode", MODES)
def test_a_path_denied_to_one_writer_is_denied_to_all(tool: str, mode: Mode) -> None:
    """`Write(docs/**)` and its like stop every tool and every command that writes there."""
    value = policy(mode, rule("deny", f"{tool}(docs/**)"))

    for writer in WRITERS:
        assert isinstance(decide(value, writer, [Writing("/r/docs/a.md")]), Deny), writer
    for command in WAYS_TO_WRITE:
        assert isinstance(run(value, command), Deny), command
    assert not isinstance(decide(value, "Read", [Reading("/r/docs/a.md")]), Deny)
    assert not isinstance(run(value, "cat docs/a.md"), Deny)


@pytest.mark.parametrize("tool", sorted(WRITING))
def test_a_path_to_ask_for_is_asked_for_by_all(tool: str) -> None:
    """The same with ask: no other tool goes through, not even where permissions are bypassed."""
    value = policy("bypassPermissions", rule("ask", f"{tool}(docs/**)"))

    for writer in WRITERS:
        assert isinstance(decide(value, writer, [Writing("/r/docs/a.md")]), Ask), writer
    for command in WAYS_TO_WRITE:
        assert isinstance(run(value, command), Ask), command


@pytest.mark.parametrize("tool", sorted(READING))
@pytest.mark.parametrize("mode", MODES)
def test_a_path_denied_to_one_reader_is_denied_to_all(tool: str, mode: Mode) -> None:
    """`Grep(.env)` stops Read and `cat`, and nobody writes what may not be read."""
    value = policy(mode, rule("deny", f"{tool}(.env)"))

    for reader in READERS:
        assert isinstance(decide(value, reader, [Reading("/r/sub/.env")]), Deny), reader
    for writer in WRITERS:
        assert isinstance(decide(value, writer, [Writing("/r/.env")]), Deny), writer
    for command in ("cat .env", "cat < sub/.env", "grep x .env", "cp .env b", "echo > .env"):
        assert isinstance(run(value, command), Deny), command


@pytest.mark.parametrize("tool", ["Edit", "Write"])
def test_to_deny_all_writing_is_to_deny_it_in_commands(tool: str) -> None:
    """Without a path the rule stops all file tools that write, redirects and file commands."""
    value = policy("bypassPermissions", rule("deny", tool))

    for writer in WRITERS:
        assert isinstance(decide(value, writer, [Writing("/r/a")]), Deny), writer
    for command in ("echo x > a", "touch a", "cp a b", "cat a | tee b"):
        assert isinstance(run(value, command), Deny), command
    assert isinstance(run(value, "cat a > /dev/null"), Allow)
    assert isinstance(run(value, "npm test"), Allow)


def test_a_rule_for_every_path_hides_none_for_a_single_one() -> None:
    """A rule without a path before one with a path takes nothing away from it."""
    value = policy("bypassPermissions", rule("deny", "Edit"), rule("deny", "Edit(docs/**)"))

    assert isinstance(run(value, "python x.py docs/a"), Deny)
    assert isinstance(run(value, "python x.py a"), Allow)


def test_a_single_tool_that_is_denied_takes_no_other_with_it() -> None:
    """`Grep` and `NotebookEdit` alone are those tools; files can be read and edited."""
    value = policy("acceptEdits", rule("deny", "Grep"), rule("deny", "NotebookEdit"))

    assert isinstance(decide(value, "Grep", [Reading("/r/a")]), Deny)
    assert isinstance(decide(value, "NotebookEdit", [Writing("/r/a")]), Deny)
    assert isinstance(decide(value, "Read", [Reading("/r/a")]), Allow)
    assert isinstance(decide(value, "Edit", [Writing("/r/a")]), Allow)
    assert isinstance(run(value, "grep x a"), Allow)
    assert isinstance(run(value, "echo > a"), Allow)


@pytest.mark.parametrize(
    "command",
    [
        "grep -r SECRET .",
        "grep -rn SECRET",
        "grep --recursive SECRET src",
        "grep --recurs SECRET",
        "grep -d recurse SECRET .",
        "grep --directories=recurse SECRET .",
        "egrep -R x .",
        "rg --hidden ''",
        "rg -uuu x",
        "rg x",
        "git grep --no-index x",
        "git grep x",
        "git -C . grep x",
        "git diff --no-index . a",
        "diff -rN . a",
        "diff -N . a",
        "cp -r . copy",
        "cp -a src copy",
        "tar cf - .",
        "zip -r x.zip .",
        "true | grep -r x && true",
        "cd sub && grep -r x .",
    ],
)
@pytest.mark.parametrize("mode", MODES)
def test_what_goes_through_folders_is_asked_where_a_file_in_them_is_denied(
    mode: Mode, command: str
) -> None:
    """Whether the denied file is read cannot be told, so it never just runs."""
    value = policy(mode, rule("deny", "Read(.env)"), rule("allow", "Bash(grep:*)"))

    assert not isinstance(run(value, command), Allow)


@pytest.mark.parametrize(
    "command", ["grep -r x src", "rg x src/a.py", "diff src/a src/b", "grep x README.md", "ls -R"]
)
def test_folders_that_no_rule_points_into_are_free(command: str) -> None:
    """A rule for one folder does not make searching another a question."""
    value = policy("default", rule("deny", "Read(/secrets/**)"))

    assert isinstance(run(value, command), Allow)


@pytest.mark.parametrize(
    "command",
    [
        "rg -L x",
        "rg --follow x",
        "grep -R x .",
        "grep --dereference-recursive x .",
        "diff -r a b",
        "find -L . -name x",
        "find . -follow",
        "fd -L x",
        "tree -l",
        "du -L",
        "jq -n -L .. 'import \"x\" as $d; $d'",
        'jq -n \'import "x" as $d {search: "/"}; $d\'',
        "jq -n 'include \"x\"; y'",
        "jq -f filter.jq a.json",
        "jq --library-path .. . a.json",
        "sort --files0-from=list",
        "sort --files0=list",
        "wc --files0-from=list",
        "du --files0-from=list",
        "file -f list",
        "cd -P link/.. && cat .ssh/id_rsa",
        "cd -P link && cd .. && cat x",
        "cd -LP link/.. && cat x",
        "set -P; cd link/.. && cat x",
        "set -o physical; cd link/.. && cat x",
    ],
)
@pytest.mark.parametrize("mode", ["default", "acceptEdits", "dontAsk", "plan"])
def test_what_may_follow_links_out_of_the_project_is_asked(mode: Mode, command: str) -> None:
    """Where links are followed that nobody has named, nobody can tell what is read."""
    assert not isinstance(run(policy(mode), command), Allow)


@pytest.mark.parametrize(
    "command", ["diff -r --no-dereference a b", "grep -r x .", "cd sub && cat x", "jq . a.json"]
)
def test_what_stays_in_the_project_is_still_free(command: str) -> None:
    """Searching without following links needs no leave."""
    assert isinstance(run(policy("plan"), command), Allow)


@pytest.mark.parametrize("command", ["cp settings.json .claude", "mv -t .claude a/settings.json"])
def test_what_lands_on_a_protected_file_is_asked(command: str) -> None:
    """A file that comes to lie under a protected name in a folder counts as written there."""
    assert isinstance(run(policy("acceptEdits"), command), Ask)


@given(
    st.lists(st.sampled_from(["a", "b", "**", "*", ".env", "a*"]), min_size=1, max_size=4),
    st.sampled_from(["", "/", "./", "//r/", "//", "~/"]),
    st.lists(st.sampled_from(["a", "b", ".env", "ab"]), max_size=4),
    st.integers(0, 4),
)
def test_a_folder_that_holds_a_forbidden_file_is_known_for_it(
    parts: list[str], start: str, names: list[str], depth: int
) -> None:
    """Whenever a rule forbids a path, every folder above it is one that the rule points into."""
    forbidding = rule("deny", f"Read({start}{'/'.join(parts)})")
    value = policy("default", forbidding)
    assume(forbidding.specifier is not None)
    for base in ("/r", "/home/u", ""):
        path = "/".join([base, *names])
        if path and find_rule(value, "deny", "Read", path, writing=False):
            above = path.rsplit("/", min(depth, path.count("/")))[0] or "/"
            assert find_below(value, "deny", above, writing=False) == forbidding


def test_what_a_search_finds_is_held_to_the_rules_of_each_file() -> None:
    """Denied files, those to ask for and secrets are kept back, unless they were what was asked for."""
    rules = (rule("deny", "Read(.env)"), rule("ask", "Read(/private/**)"))
    value = policy("bypassPermissions", *rules)

    assert keeps_back(value, "/r/sub/.env", within="/r")
    assert keeps_back(value, "/r/sub/.env", within="/r/sub/.env")
    assert keeps_back(value, "/r/private/a", within="/r")
    assert not keeps_back(value, "/r/private/a", within="/r/private")
    assert keeps_back(value, "/home/u/.ssh/id_rsa", within="/home/u")
    assert not keeps_back(value, "/home/u/.ssh/id_rsa", within="/home/u/.ssh")
    assert not keeps_back(value, "/elsewhere/a", within="/elsewhere")


def test_a_physical_cd_does_not_read_outside(tmp_path: Path) -> None:
    """The folder behind a link is never taken for the one that has the link."""
    root, outside = tmp_path / "project", tmp_path / "outside/inner"
    root.mkdir()
    outside.mkdir(parents=True)
    (root / "link").symlink_to(outside)
    value = Policy(root=str(root), home="/home/u")
    running = [Running("cd -P link/.. && cat secret", str(root))]

    assert isinstance(decide(value, "Bash", running, resolve=os.path.realpath), Ask)


def test_rules_name_what_they_are() -> None:
    """A refusal names the rule that is behind it, as it was written."""
    verdict = decide(
        policy("default", rule("deny", "Write(docs/**)")), "Edit", [Writing("/r/docs/a")]
    )

    assert isinstance(verdict, Deny)
    assert "`Write(docs/**)` (deny rule, user settings)" in verdict.why
    assert isinstance(rule("deny", "Write(docs/**)"), Rule)


@pytest.mark.spec("L5")
@pytest.mark.parametrize(
    ("text", "command", "allowed"),
    [
        ("touch:*", "touch x", True),
        ("touch:*", "touch x && touch y", True),
        ("touch:*", "echo a; touch x", True),
        ("touch:*", "for i in 1 2; do touch z$i; done", False),
        ("touch:*", "for i in 1 2; do touch z; done", False),
        ("touch:*", "while true; do touch z; done", False),
        ("touch:*", "if true; then touch z; fi", False),
        ("touch:*", "case a in a) touch z;; esac", False),
        ("touch:*", "f() { touch z; }", False),
        ("touch:*", "cd sub && touch x", False),
        ("touch:*", "cd sub; touch x", False),
        ("touch:*", "pushd sub && touch x", False),
        ("touch:*", "(cd sub && touch x)", False),
        ("touch x", "cd sub && touch x", False),
        ("npm test:*", "cd sub && npm test", True),
        ("npm test:*", "for i in a b; do npm test $i; done", False),
        ("make:*", "cd ../other && make", False),
        ("make:*", "cd $DIR && make", False),
        ("make:*", "cd /tmp && make", False),
        ("cd sub && touch x", "cd sub && touch x", True),
        ("grep:*", "find . -name x | xargs grep y", True),
    ],
)
def test_a_rule_allows_single_commands_where_they_stand(
    text: str, command: str, allowed: bool
) -> None:
    """In loops, branches and functions, and after cd, what changes files is asked for."""
    value = policy("default", rule("allow", f"Bash({text})"))
    verdict = decide(value, "Bash", [Running(command, "/r")])

    assert isinstance(verdict, Allow if allowed else Ask), verdict
