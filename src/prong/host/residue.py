"""What a child left uncommitted in its worktree, made into a commit of its branch.

First the commit alone is made, of the files as they are, by way of a second index: a preview ends
here. In a merge the child's own index follows, before its branch moves: should the process die in
between, the child's work is found staged, and never as a change that takes it back.

Git is pointed at the user's own repository with the child's folder as its files. So no setting that
the child gave its worktree counts, and not its `.git` file, which says where settings are.
"""

from __future__ import annotations

import posixpath
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import anyio
import msgspec

from prong.errors import GitFailed
from prong.host.git import (
    Git,
    Repository,
    complaint,
    legible,
    must,
    names,
    second_index,
    sweep_indexes,
    working_index,
)

UNDER_WAY = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply")
"""Files in a git folder that tell of something half done."""


class Residue(msgspec.Struct, frozen=True):
    """What a child left, as a commit that no branch knows yet."""

    place: Repository
    """The child's working copy; its head is where the branch stands."""
    commit: str
    tree: str
    files: tuple[str, ...]


class Unfit(msgspec.Struct, frozen=True):
    """What was left cannot simply be committed."""

    remedy: str
    files: tuple[str, ...] = ()


async def gather(
    git: Git, repository: Repository, path: str, slug: str, tip: str
) -> Residue | Unfit | None:
    """Make a commit on top of `tip` of the files in a child's folder; None if they are the same.

    Changes neither refs nor the child's index.

    Raises GitFailed.
    """
    place = Repository(path, (await own_folder(git, path))[0], "", tip)
    child = _in_folder(git, repository, path)
    if (unfit := await _half_done(child, place)) is not None:
        return unfit
    await sweep_indexes(git.host, place)
    async with working_index(child, place) as index:
        if missed := await _missed(child, index):
            remedy = f"these are repositories of their own: commit or move them in {path} first"
            return Unfit(remedy, missed)
        tree = await child.run("write-tree", index=index)
    words = ("diff-tree", "-r", "-z", "--name-only", "--no-renames", tip, tree)
    files = tuple(legible(name) for name in names(await git.run(*words)))
    if not files:
        return None
    commit = await git.commit(tree, [tip], f"Work of prong/{slug}, as it was left\n")
    return Residue(place, commit, tree, files)


def _in_folder(git: Git, repository: Repository, path: str) -> Git:
    return Git(git.host, path, env=(f"GIT_DIR={repository.folder}", f"GIT_WORK_TREE={path}"))


async def own_folder(git: Git, path: str) -> tuple[str, str]:
    """Find the git folder of a worktree, by what the repository says and not the worktree.

    Gives it, and that of the repository. Raises GitFailed.
    """
    host = git.host
    common = await git.run("rev-parse", "--path-format=absolute", "--git-common-dir")
    for name in await host.list(f"{common}/worktrees"):
        folder = f"{common}/worktrees/{name}"
        if await host.stat(f"{folder}/gitdir") is None:
            continue
        told = (await host.read(f"{folder}/gitdir")).decode(errors="surrogateescape")
        if posixpath.normpath(posixpath.join(folder, told.removesuffix("\n"))) == f"{path}/.git":
            return folder, common
    raise GitFailed(f"git does not know the worktree {path}: run 'git worktree repair' first")


async def _half_done(child: Git, place: Repository) -> Unfit | None:
    for name in UNDER_WAY:
        if await child.host.stat(f"{place.folder}/{name}") is not None:
            return Unfit(f"git is in the middle of something ({name}) in {place.top}: end it first")
    index = f"{place.folder}/index"
    if await child.host.stat(index) is None:
        return None
    unmerged = names(await child.run("ls-files", "-u", "-z", index=index))
    if unmerged:
        files = dict.fromkeys(legible(line.partition("\t")[2]) for line in unmerged)
        return Unfit(f"resolve the conflicts in {place.top} first", tuple(files))
    return None


async def _missed(child: Git, index: str) -> tuple[str, ...]:
    """Name what an index cannot take over: repositories, and changes inside submodules."""
    changed = names(await child.run("diff-files", "--name-only", "-z", index=index))
    new = names(await child.run("ls-files", "-o", "-z", "--exclude-standard", index=index))
    return tuple(legible(name) for name in (*changed, *new))


@asynccontextmanager
async def followed(
    git: Git, repository: Repository, residues: Sequence[Residue]
) -> AsyncGenerator[None, None]:
    """Bring the children's indexes to their new commits; put them back if the inside fails.

    Raises GitFailed if one of them is in use.
    """
    saved: dict[str, str] = {}
    try:
        for one in residues:
            saved |= await _follow(_in_folder(git, repository, one.place.top), one)
        yield
    except BaseException:
        with anyio.CancelScope(shield=True):
            for index, copy in saved.items():
                await git.host.run(["mv", "-f", "--", copy, index])
        raise
    finally:
        with anyio.CancelScope(shield=True):
            if saved:
                await git.host.run(["rm", "-f", "--", *saved.values()])


async def _follow(child: Git, residue: Residue) -> dict[str, str]:
    """Bring one index to its commit; gives it with the copy of how it was, if there was one."""
    index, copy = f"{residue.place.folder}/index", second_index(residue.place)
    there = await child.host.stat(index) is not None
    if there:
        await must(child.host, "cp", "-p", "--", index, copy)
    ended = await child.ask("read-tree", "-i", "-m", residue.tree, index=index)
    if ended.code != 0:
        # Whoever holds the index may be about to replace it: it is left alone.
        await child.host.run(["rm", "-f", "--", copy])
        where = residue.place.top
        raise GitFailed(f"nothing was merged, the index of {where} is in use: {complaint(ended)}")
    await child.ask("update-index", "-q", "--refresh", index=index)
    return {index: copy} if there else {}
