"""Killed while children are merged, a merge is taken back, or what is merged is removed."""

from __future__ import annotations

from pathlib import Path

from prong.errors import NotPossibleNow
from prong.host import LocalHost
from prong.host.cleanup import clean
from prong.host.merge import merge, undo
from prong.host.worktree import create, finish
from prong.testing.repository import Repo
from prong.testing.step_ground import StepGround, StepOperation

_LINES = ["one", "two", "three", "four", "five", "six", "seven"]
_MERGED = ("plain", "left", "late")
"""The children that fit together."""


def _text(**said: str) -> str:
    return "".join(f"{said.get(line, line)}\n" for line in _LINES)


async def _child(repo: Repo, slug: str, files: dict[str, str], left: dict[str, str]) -> None:
    """Let a child commit some files, leave others uncommitted, and end."""
    host = LocalHost(repo.path)
    made = await create(host, slug)
    place = Repo(Path(made.path))
    for name, text in files.items():
        place.write(name, text)
    repo.commit(f"{slug} did it", cwd=made.path)
    for name, text in left.items():
        place.write(name, text)
    await finish(host, made)


async def _committed(repo: Repo) -> None:
    await _children(repo, left=False)


async def _uncommitted(repo: Repo) -> None:
    await _children(repo, left=True)


async def _children(repo: Repo, *, left: bool) -> None:
    await _child(repo, "plain", {"a.txt": _text(one="plain"), "plain.txt": "p\n"}, {})
    await _child(repo, "left", {"l/1.txt": "l\n"}, {"l/2.txt": "l\n"} if left else {})
    repo.write("src/b.txt", "staged\n")
    repo.git("add", "src/b.txt")
    repo.write("a.txt", _text(four="mine"))
    repo.write("untracked.txt", "u\n")
    late = _text(four="mine", seven="late")
    await _child(repo, "late", {"a.txt": late}, {"late.txt": "l\n"} if left else {})


async def _merged(repo: Repo) -> None:
    await _uncommitted(repo)
    await _merge(repo)


async def _merged_and_open(repo: Repo) -> None:
    await _merged(repo)
    await _child(repo, "open", {"open.txt": "o\n"}, {"more.txt": "m\n"})


async def _merge(repo: Repo) -> None:
    await merge(LocalHost(repo.path), _MERGED)


async def _merge_committed(repo: Repo) -> None:
    await merge(LocalHost(repo.path), _MERGED, commit=False)


async def _undo(repo: Repo) -> None:
    await undo(LocalHost(repo.path))


async def _clean(repo: Repo) -> None:
    await clean(LocalHost(repo.path))


def _user(repo: Repo) -> dict[str, str]:
    """Tell what the user has, without times and names of commits."""
    found = {k: v.split()[0] for k, v in repo.fingerprint().items() if k.startswith("/")}
    found["staged"], found["plain"] = repo.git("diff", "--cached"), repo.git("diff")
    found["status"] = repo.git("status", "--porcelain", "-uall")
    found["history"] = repo.git("log", "--first-parent", "--format=%T %s")
    return found


def _works(repo: Repo) -> dict[str, str]:
    """Tell what is in the worktrees of children."""
    places = sorted((repo.path / ".prong/worktrees").rglob("*"))
    return {str(p): p.read_text() for p in places if p.is_file() and p.name != ".git"}


class _Ends:
    """What the user has before a merge and after it, and what children have."""

    def __init__(self, ground: StepGround, before: str, after: str) -> None:
        ground.save("killed")
        ground.restore(before)
        self.first, self.head = _user(ground.repo), ground.repo.git("rev-parse", "HEAD")
        self.works = _works(ground.repo)
        ground.restore(after)
        self.last = _user(ground.repo)
        ground.restore("killed")


async def _judge_merge(ground: StepGround) -> str:
    return await _judge(ground, _Ends(ground, "start", "end"))


async def _judge_undo(ground: StepGround) -> str:
    return await _judge(ground, _Ends(ground, "end", "start"))


async def _judge(ground: StepGround, ends: _Ends) -> str:
    """Merge again, and take back; then, from where the kill was, take back and merge."""
    if _works(ground.repo) != ends.works:
        return "the kill changed what children have"
    if wrong := await _forward(ground, ends):
        return f"merged again: {wrong}"
    ground.restore("killed")
    wrong = await _back(ground, ends)
    return f"taken back: {wrong}" if wrong else ""


async def _forward(ground: StepGround, ends: _Ends) -> str:
    repo = ground.repo
    await _merge(repo)
    if wrong := _differing(_user(repo), ends.last):
        return f"not merged: {wrong}"
    await _undo(repo)
    if repo.git("rev-parse", "HEAD") != ends.head:
        return "HEAD is not what it was"
    if wrong := _differing(_user(repo), ends.first):
        return f"and not taken back: {wrong}"
    found = [one.name for one in (repo.path / ".git").rglob("prong-*.index*")]
    return f"left: {found}" if found else ""


async def _back(ground: StepGround, ends: _Ends) -> str:
    repo = ground.repo
    try:
        await _undo(repo)
    except NotPossibleNow as error:
        if "no merge to take back" not in str(error):
            raise
    if wrong := _differing(_user(repo), ends.first):
        return wrong
    if repo.git("for-each-ref", "refs/prong/undo", "refs/prong/merged", "refs/prong/applied"):
        return "refs of a merge that was taken back"
    await _merge(repo)
    wrong = _differing(_user(repo), ends.last)
    return f"not merged after that: {wrong}" if wrong else ""


def _differing(found: dict[str, str], wanted: dict[str, str]) -> str:
    keys = sorted(key for key in found | wanted if found.get(key) != wanted.get(key))
    return "; ".join(f"{key}: {found.get(key)!r}, not {wanted.get(key)!r}" for key in keys)


async def _judge_clean(ground: StepGround) -> str:
    repo, ends = ground.repo, _Ends(ground, "start", "start")
    if wrong := _differing(_user(repo), ends.last):
        return wrong
    gone = [one for one in _MERGED if not repo.git("branch", "--list", f"prong/{one}")]
    try:
        await _undo(repo)
    except NotPossibleNow:
        if not gone:
            return "it cannot be taken back, although all branches are there"
    else:
        if gone:
            return f"it was taken back, and the work of {gone} is nowhere"
    ground.restore("killed")
    await _clean(repo)
    refs = repo.git("for-each-ref", "--format=%(refname)", "refs/prong", "refs/heads/prong")
    if refs.split() != ["refs/heads/prong/open", "refs/prong/base/open"]:
        return f"there are {refs.split()}"
    left = {k: v for k, v in ends.works.items() if "/worktrees/open/" in k}
    places = {one.name for one in (repo.path / ".prong/worktrees").glob("*")}
    if places != {".gitignore", "open"} or _works(repo).items() < left.items():
        return f"there are the folders {places}"
    return _differing(_user(repo), ends.last)


OPERATIONS = {
    "merge": StepOperation(_uncommitted, _merge, _judge_merge),
    "merge-committed": StepOperation(_committed, _merge_committed, _judge_merge),
    "undo": StepOperation(_merged, _undo, _judge_undo),
    "clean": StepOperation(_merged_and_open, _clean, _judge_clean),
}
"""All of them by name."""
