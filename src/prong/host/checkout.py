"""Taking the user's files, index and refs from one state to another, or leaving all as they are."""

from __future__ import annotations

from collections.abc import Sequence

from prong.errors import GitFailed, NotPossibleNow
from prong.host.git import Git, Repository, complaint, legible, names
from prong.host.threeway import UserTrees


async def read_state(git: Git, repository: Repository, index: str) -> UserTrees:
    """Read what the user has; the real index is copied before git may write to it."""
    commit = await git.run("rev-parse", f"{repository.head}^{{tree}}")
    files = await git.run("write-tree", index=index)
    copy = f"{index}.staged"
    try:
        await git.host.run(["cp", "-p", "--", f"{repository.folder}/index", copy])
        ended = await git.ask("write-tree", index=copy)
    finally:
        await git.host.run(["rm", "-f", "--", copy])
    if ended.code != 0:
        raise NotPossibleNow(f"the index cannot be used ({complaint(ended)}): resolve that first")
    return UserTrees(commit, ended.output.decode().strip(), files)


async def move(git: Git, index: str, old: UserTrees, new: UserTrees) -> None:
    """Take files and index from one state to another, or leave both as they are.

    Git refuses, before it changes anything, if a file is not what the second index says.
    """
    await _make_sure(git, old.files, new.files)
    ended = await git.ask("read-tree", "-m", "-u", old.files, new.files, index=index)
    if ended.code != 0:
        raise GitFailed(f"nothing was merged, git would lose files: {complaint(ended)}")
    ended = await git.ask("read-tree", "-i", "-m", old.index, new.index)
    if ended.code != 0:
        await git.ask("read-tree", "-m", "-u", new.files, old.files, index=index)
        raise GitFailed(f"nothing was merged, the index is in use: {complaint(ended)}")
    await git.ask("update-index", "-q", "--refresh")


async def _make_sure(git: Git, old: str, new: str) -> None:
    """Refuse to write over files that git ignores: it would do so without a word."""
    words = ("diff-tree", "-r", "-z", "--name-only", "--no-renames")
    gone = set(names(await git.run(*words, "--diff-filter=D", old, new)))
    folders: set[str] = set()
    for name in names(await git.run(*words, "--diff-filter=A", old, new)):
        place = f"{git.cwd}/{name}"
        if await git.host.stat(place) is not None or git.host.resolve(place) != place:
            raise NotPossibleNow(_in_the_way(name))
        while name := name.rpartition("/")[0]:
            folders.add(name)
    for name in folders - gone:
        found = await git.host.stat(f"{git.cwd}/{name}")
        if found is not None and found.kind != "folder":
            raise NotPossibleNow(_in_the_way(name))


def _in_the_way(name: str) -> str:
    return f"nothing was changed: {legible(name)} is in the way; move it, or merge other branches"


async def change_refs(
    git: Git, lines: Sequence[str], told: str, index: str, back: tuple[UserTrees, UserTrees]
) -> None:
    """Change refs together; if they cannot be, put files and index back."""
    text = "".join(f"{line}\n" for line in lines).encode()
    ended = await git.ask("update-ref", "-m", told, "--stdin", stdin=text)
    if ended.code != 0:
        await move(git, index, *back)
        raise GitFailed(
            f"nothing was changed, HEAD or a branch has moved meanwhile: {complaint(ended)}"
        )
