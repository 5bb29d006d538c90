"""What is left in a worktree, and the care with which it is removed.

Work is never deleted. Work is: a commit, also one that was given up again; a change; a new file; an
ignored file, unless it lies where programs keep what they can make again; a submodule that was
filled, because commits may be in there.
"""

from __future__ import annotations

import os
import re

import msgspec

from prong.host import owner
from prong.host.git import Git, legible, names
from prong.host.host import Host

_REMADE = (
    r"__pycache__|\.(?:pytest|mypy|ruff|parcel)[-_]cache|\.hypothesis|\.tox|\.nox|\.eggs|\.cache"
    r"|\.gradle|\.?venv|node_modules|target|build|dist|\.next|\.nuxt|\.turbo|htmlcov|\.?coverage"
    r"|\.DS_Store|.*\.(?:pyc|pyo|o|class|egg-info|tsbuildinfo)"
)
"""Names of folders and files that programs make again."""
_ASIDE = r"\.removed-([0-9a-f]{8}-[0-9]+)-[0-9a-f]{12}"
"""Names of worktrees' folders that are being removed."""


class Findings(msgspec.Struct, frozen=True):
    """What there is besides the snapshot."""

    why: str = ""
    """Why it has to be kept; empty if nothing speaks against removing it."""
    branch: str = ""
    commits: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    uncommitted: bool = False


async def examine(host: Host, path: str, branch: str, start: str, parent: str) -> Findings:
    """Look for work in the worktree of a branch that began with commit `start`.

    Raises GitFailed, for one if the folder is no worktree any more.
    """
    if await host.stat(path) is None:
        return await _without_folder(host, branch, start, parent)
    git = Git(host, path)
    head = await git.run("rev-parse", "HEAD")
    current = (await git.ask("symbolic-ref", "--quiet", "HEAD")).output.decode().strip()
    commits = (await git.run("rev-list", "--reverse", head, f"^{start}")).split()
    words = ("status", "--porcelain", "-z", "-uall", "--no-renames", "--ignored=matching")
    entries = names(await git.run(*words))
    changed = [entry[3:] for entry in entries if not entry.startswith("!! ")]
    ignored = [entry[3:] for entry in entries if entry.startswith("!! ")]
    differing = names(await git.run("diff", "--no-renames", "--name-only", "-z", start))
    why = (
        ("it has commits" if commits else "")
        or ("it has uncommitted changes" if changed else "")
        or (f"{current or head} is checked out in it" if current != f"refs/heads/{branch}" else "")
        or await _hidden(git, start)
        or await _kept_aside(git, ignored, parent)
    )
    return Findings(
        why=why,
        branch=current.removeprefix("refs/heads/") or head,
        commits=tuple(commits),
        files=tuple(sorted({legible(name) for name in (*differing, *changed)})),
        uncommitted=bool(changed),
    )


async def _kept_aside(git: Git, ignored: list[str], parent: str) -> str:
    """Find ignored files that no program makes again and that the parent does not have."""
    suspects = [path for path in ignored if not _is_remade(path)]
    if not suspects:
        return ""
    words = ("ls-files", "-o", "-i", "-z", "--exclude-standard", "--")
    for name in names(await git.run(*words, *(path.rstrip("/") for path in suspects))):
        if not _is_remade(name) and not await _is_copy(git, name, parent):
            return f"it has ignored files of its own, such as {legible(name)}"
    return ""


async def _is_copy(git: Git, name: str, parent: str) -> bool:
    host, here, there = git.host, f"{git.cwd}/{name}", f"{parent}/{name}"
    if host.resolve(here) == host.resolve(there):
        return True
    if host.resolve(here) != here:
        return False
    try:
        return await host.read(here) == await host.read(there)
    except OSError:
        return False


async def _without_folder(host: Host, branch: str, start: str, parent: str) -> Findings:
    """Judge by the branch alone: somebody removed the folder."""
    git = Git(host, parent)
    if not await git.find(f"refs/heads/{branch}"):
        return Findings()
    commits = (await git.run("rev-list", "--reverse", f"refs/heads/{branch}", f"^{start}")).split()
    return Findings("its branch has commits" if commits else "", branch, tuple(commits))


async def _hidden(git: Git, start: str) -> str:
    """Find work that shows in no file and on no branch."""
    log = (await git.run("log", "--walk-reflogs", "--format=%H", "HEAD", "--")).split()
    if log and await git.run("rev-list", "--max-count=1", *dict.fromkeys(log), f"^{start}"):
        return "it had commits that were given up"
    modules = await git.run("rev-parse", "--path-format=absolute", "--git-path", "modules")
    return "submodules were filled in it" if await git.host.stat(modules) is not None else ""


def _is_remade(path: str) -> bool:
    return any(re.fullmatch(_REMADE, part) for part in path.rstrip("/").split("/"))


async def remove_folder(git: Git, path: str) -> bool:
    """Remove a worktree's folder; False if it has changed files after all, or git would rather not.

    It is moved aside first, as a whole: killed in the midst of removing its files, what is missing
    would look like deletions that are work.
    """
    folder = path.rpartition("/")[0]
    await sweep_removed(git.host, folder)
    aside = f"{folder}/.removed-{owner.tag()}-{os.urandom(6).hex()}"
    if await git.host.stat(path) is not None:
        words = ("status", "--porcelain", "--ignore-submodules=none")
        seen = await Git(git.host, path).ask(*words)
        if seen.code != 0 or seen.output:
            return False
        if (await git.host.run(["mv", "--", path, aside])).code != 0:
            return False
    if (await git.ask("worktree", "remove", path)).code != 0:
        # It is locked: somebody takes it up again.
        await git.host.run(["mv", "--", aside, path])
        return False
    await git.host.run(["rm", "-rf", "--", aside])
    return True


async def sweep_removed(host: Host, folder: str) -> None:
    """Remove the folders that processes which have ended had moved aside."""
    if await host.stat(folder) is None:
        return
    stale = [
        f"{folder}/{name}"
        for name in await host.list(folder)
        if (found := re.fullmatch(_ASIDE, name)) and owner.is_gone_tag(found[1])
    ]
    if stale:
        await host.run(["rm", "-rf", "--", *stale])


async def remove(git: Git, path: str, branch: str, start: str) -> bool:
    """Remove an unchanged worktree and its branch; False if git would rather not."""
    if not await remove_folder(git, path):
        return False
    await free_name(git, branch.removeprefix("prong/"), start)
    return True


async def free_name(git: Git, name: str, start: str, *marks: str) -> None:
    """Give a worktree's name free: its branch, if that still is where it began, and then its base.

    Refs that mark it go in one step with its base: left alone, they would mark the next of that
    name. A branch that git could not remove, as another git held its lock, keeps its base: by that
    it is known for one without work, and removed by a later look.
    """
    ended = await git.ask("update-ref", "-d", f"refs/heads/prong/{name}", start)
    if ended.code != 0 and await git.find(f"refs/heads/prong/{name}"):
        return
    refs = (f"refs/prong/base/{name}", *marks)
    lines = [f"delete {ref} {start}\n" for ref in refs if await git.find(ref) == start]
    await git.ask("update-ref", "--stdin", stdin="".join(lines).encode())
