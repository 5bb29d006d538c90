"""A child in a worktree is kept there by its policy."""

from __future__ import annotations

import posixpath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prong.tools.access import Access, Reading, Running, Writing
from prong.tools.policy import Allow, Ask, Deny, Ground, Mode, Policy
from prong.tools.policy_box import PolicyBox
from prong.tools.rule import Rule, parse_rule

pytestmark = pytest.mark.spec("W3")

REPO, HOME = "/home/me/repo", "/home/me"
TREE = f"{REPO}/.prong/worktrees/x"
GROUND = Ground(TREE, TREE, (REPO,))
RANK = {Allow: 0, Ask: 1, Deny: 2}
MODES: list[Mode] = ["default", "acceptEdits", "plan", "auto", "dontAsk", "bypassPermissions"]


def rule(text: str) -> Rule:
    parsed = parse_rule(text, effect="allow", source="user")
    assert isinstance(parsed, Rule)
    return parsed


def box(mode: Mode = "default", *rules: str, folders: tuple[str, ...] = ()) -> PolicyBox:
    made = Policy(
        root=REPO,
        home=HOME,
        mode=mode,
        rules=tuple(rule(text) for text in rules),
        folders=folders,
        scratchpad="/tmp/pad",
    )
    return PolicyBox(made)


PARTS = st.lists(st.sampled_from(["..", ".", "src", "a", ".prong", "worktrees", "x", "y", ".git"]))
PATHS = st.builds(
    lambda start, parts: posixpath.normpath("/".join([start, *parts])),
    st.sampled_from([TREE, REPO, HOME, "/", "/tmp/pad", "/data"]),
    PARTS,
)


@settings(max_examples=300, deadline=None)
@given(PATHS, st.sampled_from(MODES), st.booleans())
def test_no_file_outside_is_ever_written(path: str, mode: Mode, opened: bool) -> None:
    """Whatever rules and modes allow the parent, a write out of the worktree is denied."""
    folders = ("/data", REPO, HOME) if opened else ()
    child = box(mode, "Edit", "Write", "Edit(//**)", folders=folders).narrow(ground=GROUND)
    free = [TREE, "/tmp/pad", *(["/data"] if opened else [])]
    inside = any(path == f or path.startswith(f + "/") for f in free)

    verdict = child.decide("Edit", [Writing(path)])

    assert inside or isinstance(verdict, Deny)
    if inside and mode == "bypassPermissions":
        assert not isinstance(verdict, Deny)


LINES = st.sampled_from(
    [f"rm {REPO}/a", "ls", "cat src/a", "cd ../../.. && make", "npm test", f"cat {TREE}/a", "rm a"]
)
CALLS: st.SearchStrategy[tuple[str, Access]] = st.one_of(
    PATHS.map(lambda path: ("Read", Reading(path))),
    PATHS.map(lambda path: ("Edit", Writing(path))),
    LINES.map(lambda line: ("Bash", Running(line, TREE))),
)
RULES = st.lists(st.sampled_from(["Bash", "Edit(/src/**)", "Bash(npm test)", "Read(//**)"]))


@settings(max_examples=300, deadline=None)
@given(CALLS, st.sampled_from(MODES), st.sampled_from([*MODES, "bubble"]), RULES)
def test_a_worktree_makes_nothing_laxer(
    call: tuple[str, Access], mode: Mode, own: Mode, rules: list[str]
) -> None:
    """Below the project, a child in a worktree is never allowed more than its parent."""
    tool, access = call
    top = box(mode, *rules)

    before, after = (
        top.decide(tool, [access]),
        top.narrow(mode=own, ground=GROUND).decide(tool, [access]),
    )

    assert RANK[type(after)] >= RANK[type(before)]


NAMING = [
    f"cat {REPO}/src/a",
    f"rm -rf {REPO}",
    f"cd {REPO} && make",
    "cd ../../.. && make",
    "touch ../../../src/a",
    "git -C ../../.. status",
    f"git --git-dir={REPO}/.git log",
    f"python -c \"open('{REPO}/a', 'w')\"",
    f"echo x > {REPO}/a",
    "make -C ~/repo",
    'sh -c "cd $HOME/repo; make"',
    f"cp a {REPO}/.prong/worktrees/xy/a",
    f"rm -r {HOME}",
]
STAYING = ["make", "cat src/a", f"cat {TREE}/a", "touch a/../b", "echo /home/me/repository", "ls"]


@pytest.mark.parametrize("mode", ["bypassPermissions", "acceptEdits", "auto"])
@pytest.mark.parametrize("line", NAMING)
def test_commands_that_name_the_parents_folder_are_asked_about(line: str, mode: Mode) -> None:
    """In every mode and whatever is allowed, such a command needs a yes."""
    child = box(mode, "Bash").narrow(ground=GROUND)
    assert isinstance(child.decide("Bash", [Running(line, TREE)]), Ask)
    quiet = box("dontAsk", "Bash").narrow(ground=GROUND)
    assert isinstance(quiet.decide("Bash", [Running(line, TREE)]), Deny)


@pytest.mark.parametrize("line", STAYING)
def test_commands_that_stay_are_not(line: str) -> None:
    """What names only the worktree is decided as for anyone else."""
    child = box("bypassPermissions").narrow(ground=GROUND)
    assert isinstance(child.decide("Bash", [Running(line, TREE)]), Allow)


def test_a_link_may_be_read_through_but_not_written_through() -> None:
    """A command that may write into the parent's folder by way of a link is asked about."""
    links = {f"{TREE}/node_modules": f"{REPO}/node_modules"}

    def follow(path: str) -> str:
        plain = posixpath.normpath(path)
        return links.get(plain, plain)

    child = box("bypassPermissions").narrow(ground=GROUND)
    reading = child.decide("Bash", [Running("ls node_modules", TREE)], resolve=follow)
    writing = child.decide("Bash", [Running("rm -r node_modules", TREE)], resolve=follow)
    assert isinstance(reading, Allow)
    assert isinstance(writing, Ask)


def test_reading_in_the_parents_folder_is_as_free_as_for_the_parent() -> None:
    """Dependencies that are linked can be read."""
    child = box().narrow(ground=GROUND)
    assert isinstance(child.decide("Read", [Reading(f"{REPO}/node_modules/p")]), Allow)
    assert isinstance(child.decide("Read", [Reading("/etc/passwd")]), Ask)


def test_a_childs_child_writes_in_its_own_worktree_alone() -> None:
    """The worktree below is granted by those above, and theirs are closed to it."""
    other = f"{REPO}/.prong/worktrees/y"
    child = box("acceptEdits").narrow(ground=GROUND)
    inner = child.narrow(ground=Ground(other, other, (TREE, REPO)))
    assert isinstance(inner.decide("Edit", [Writing(f"{other}/a")]), Allow)
    assert isinstance(inner.decide("Edit", [Writing(f"{TREE}/a")]), Deny)
    assert isinstance(child.decide("Edit", [Writing(f"{other}/a")]), Deny)
    assert isinstance(inner.decide("Bash", [Running(f"touch {TREE}/a", other)]), Ask)


def test_a_subfolder_is_the_project_and_the_worktree_the_bounds() -> None:
    """A child of a parent in a subfolder may edit there as its parent may in its own."""
    top = PolicyBox(Policy(root=f"{REPO}/src", home=HOME, mode="acceptEdits"))
    child = top.narrow(ground=Ground(f"{TREE}/src", TREE, (REPO,)))
    assert isinstance(child.decide("Edit", [Writing(f"{TREE}/src/a")]), Allow)
    assert isinstance(child.decide("Edit", [Writing(f"{REPO}/src/a")]), Deny)
