"""File sets: what they cover, when they overlap, and who has to wait for whom."""

from __future__ import annotations

import os.path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prong.ids import TaskId
from prong.team.claim import Claims, FileBox, writes
from prong.team.fileset import BadSet, FileSet, read_set
from prong.tools.access import Running, Writing
from prong.tools.policy import Deny, Policy
from prong.tools.policy_box import PolicyBox
from prong.tools.rule import Rule
from shared.gate import rule

pytestmark = pytest.mark.spec("C4")

ROOT = "/r"
NAMES = st.text("ab.", min_size=1, max_size=3).filter(lambda name: name not in {".", ".."})
PATHS = st.lists(NAMES, min_size=1, max_size=4).map(lambda parts: "/".join([ROOT, *parts]))
PARTS = st.one_of(st.just("**"), st.text("ab.*?", min_size=1, max_size=3))
PATTERNS = st.lists(PARTS.filter(lambda part: part not in {".", ".."}), min_size=1, max_size=4).map(
    lambda parts: "/".join([ROOT, *parts])
)
SETS = st.lists(PATTERNS, max_size=3).map(lambda patterns: FileSet(tuple(patterns)))


def resolve(path: str) -> str:
    return os.path.normpath(os.path.join(ROOT, path))  # noqa: PTH118 - pure text


def files(*patterns: str) -> FileSet:
    found = read_set(patterns, root=ROOT, resolve=resolve)
    assert isinstance(found, FileSet), found
    return found


@given(SETS, SETS, PATHS)
def test_sets_that_cover_one_path_overlap(one: FileSet, two: FileSet, path: str):
    """If two sets cover one path, they overlap: what the runtime leans on."""
    if one.covers(path) and two.covers(path):
        assert one.overlaps(two)


@given(SETS, SETS)
def test_overlapping_is_mutual(one: FileSet, two: FileSet):
    """Who comes first makes no difference, and a set overlaps itself unless it is empty."""
    assert one.overlaps(two) == two.overlaps(one)
    assert one.overlaps(one) == bool(one.patterns)


@given(PATHS, PATHS)
def test_plain_paths_overlap_only_when_one_holds_the_other(one: str, two: str):
    """Paths without wildcards overlap exactly if they are the same or one is in the other."""
    nested = one == two or one.startswith(f"{two}/") or two.startswith(f"{one}/")
    assert FileSet((one,)).overlaps(FileSet((two,))) == nested


@pytest.mark.parametrize(
    ("one", "two", "overlap"),
    [
        ("src/a.py", "src/b.py", False),
        ("src/a.py", "./src/../src/a.py", True),
        ("src", "src/a.py", True),
        ("src/", "srcs", False),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/*.md", False),
        ("src/*.py", "src/a*", True),
        ("src/a?.py", "src/*b.py", True),
        ("**/*.py", "docs/*.md", False),
        ("**/test_*", "src/deep/test_x.py", True),
        ("**", "anything", True),
        ("src/A.py", "src/a.py", True),
        ("app/[id]/page.tsx", "app/i/page.tsx", False),
        ("app/[id]/page.tsx", "app/[id]", True),
    ],
)
def test_sets_as_models_write_them(one: str, two: str, overlap: bool):
    """Names, folders and wildcards mean what they seem to."""
    assert files(one).overlaps(files(two)) == overlap


@pytest.mark.parametrize(
    "text", ["", " ", "../x", "/etc/passwd", "a\0b", "src/*/../../..", "src/{a,b}.py", "~/../../x"]
)
def test_what_is_no_set_is_refused(text: str):
    """Paths out of the project, and what is not understood, are refused with the reason."""
    found = read_set([text], root=ROOT, resolve=resolve)
    assert isinstance(found, BadSet) or found.patterns == (resolve(text),)
    if not isinstance(found, BadSet):
        assert found.patterns[0].startswith("/r/")


@pytest.mark.anyio
@given(st.lists(SETS, max_size=6), st.randoms(use_true_random=False))
async def test_nobody_works_on_overlapping_files_and_everybody_gets_their_turn(sets, random):
    """However they end, admitted sets never overlap, and nobody waits for ever."""
    claims = Claims()
    waiting: dict[str, FileSet] = {}
    for number, declared in enumerate(sets):
        claims.enter(TaskId(str(number)), declared)
        waiting[str(number)] = declared
    while waiting:
        working = [name for name in waiting if is_in(claims, name)]
        assert working, "everybody waits"
        for one in working:
            assert not any(waiting[one].overlaps(waiting[two]) for two in working if two != one)
        ended = random.choice(working)
        claims.leave(ended)
        del waiting[ended]


def is_in(claims: Claims, name: str) -> bool:
    return claims._claims[name].admitted.is_set()  # pyright: ignore[reportPrivateUsage] # no other sees it without waiting


@pytest.mark.anyio
async def test_a_worker_waits_for_what_another_has_written():
    """Files that an undeclared worker wrote are its own until it ends."""
    claims = Claims()
    assert claims.enter(TaskId("free"), None) == []
    claims.write(TaskId("free"), "/r/a.py")
    assert claims.holder(TaskId("other"), "/r/a.py") == "free"
    assert claims.enter(TaskId("late"), files("a.py")) == ["free"]
    assert claims.enter(TaskId("later"), files("b.py")) == []
    claims.leave(TaskId("free"))
    with anyio.fail_after(50):
        await claims.admit(TaskId("late"))


def box(claims: Claims, name: str, declared: FileSet | None) -> FileBox:
    policy = Policy(root=ROOT, home="/home/u", mode="bypassPermissions", scratchpad="/s/pad")
    return FileBox(PolicyBox(policy), claims, TaskId(name), declared)


def test_writing_outside_the_files_is_denied():
    """Only the files and the scratchpad can be written, whatever the mode."""
    claims = Claims()
    claims.enter(TaskId("one"), files("src/*.py"))
    one = box(claims, "one", files("src/*.py"))
    for path, allowed in [
        ("/r/src/a.py", True),
        ("/r/src/deep/a.py", False),
        ("/r/b.py", False),
        ("/s/pad/x", True),
        ("/s/padding", False),
    ]:
        assert isinstance(one.decide("Write", [Writing(path)]), Deny) != allowed, path


def test_a_worker_without_files_keeps_away_from_those_of_others():
    """What another has declared or written is refused, and what is free is taken."""
    claims = Claims()
    claims.enter(TaskId("one"), files("src"))
    claims.enter(TaskId("two"), None)
    claims.enter(TaskId("three"), None)
    two, three = box(claims, "two", None), box(claims, "three", None)
    assert isinstance(two.decide("Edit", [Writing("/r/src/a.py")]), Deny)
    assert not isinstance(two.decide("Edit", [Writing("/r/b.py")]), Deny)
    assert isinstance(three.decide("Edit", [Writing("/r/b.py")]), Deny)
    claims.leave(TaskId("two"))
    assert not isinstance(three.decide("Edit", [Writing("/r/b.py")]), Deny)


@pytest.mark.parametrize("rules", [(), (rule("allow", "Bash"), rule("allow", "Write"))])
def test_a_skill_lends_a_worker_nothing(rules: tuple[Rule, ...]):
    """What a skill runs for a worker is held to the worker's files and to its tree like a call."""
    claims, own = Claims(), files("src/*.py")
    claims.enter(TaskId("one"), own)
    tree = PolicyBox(Policy(root=ROOT, home="/home/u"))
    one = FileBox(tree.narrow(mode="bubble"), claims, TaskId("one"), own)
    for path in ("/r/src/a.py", "/r/b.py"):
        calls = [("Write", Writing(path)), ("Bash", Running(f"echo x > {path}", ROOT))]
        for tool, access in calls:
            assert one.lending(rules).decide(tool, [access]) == one.decide(tool, [access])


@pytest.mark.parametrize(
    ("command", "paths"),
    [
        ("echo x > a", ["/r/a"]),
        ("cat a | tee b c", ["/r/b", "/r/c"]),
        ("cd sub && rm -f x", ["/r/sub/x"]),
        ("cp a b", ["/r/b"]),
        ("mv a b", ["/r/a", "/r/b"]),
        ("sed -i s/x/y/ a", ["/r/a"]),
        ("sed s/x/y/ a", []),
        ("pytest tests > /dev/null", []),
        ("grep x a", []),
    ],
)
def test_what_a_command_is_known_to_write(command: str, paths: list[str]):
    """Redirects and the common file commands are seen; reading is not taken for writing."""
    policy = Policy(root=ROOT, home="/home/u")
    assert list(writes([Running(command, ROOT)], policy, os.path.normpath)) == paths
