"""Putting a child's changes on top of what the user has, as trees alone.

The user has three trees: the commit, the index, the files. A child's changes are the way from its
snapshot to its tip. They are merged into each of the three by itself, with the snapshot as the base
each time. So the commit gains the child's changes and nothing else, the files gain the same, and
what was uncommitted before is uncommitted afterwards: neither lost nor committed along the way.
"""

from __future__ import annotations

import msgspec

from prong.errors import GitFailed
from prong.host.git import Git, complaint, legible, names


class UserTrees(msgspec.Struct, frozen=True):
    """What a user has, as trees."""

    commit: str
    """The tree of HEAD."""
    index: str
    files: str
    """All files: changed, new, not ignored."""


class Blend(msgspec.Struct, frozen=True):
    """What a three-way merge of trees gave."""

    tree: str
    conflicts: tuple[str, ...] = ()


async def blend(git: Git, base: str, ours: str, theirs: str) -> Blend:
    """Merge two trees that come from a third."""
    if theirs in {base, ours}:
        return Blend(ours)
    if ours == base:
        return Blend(theirs)
    # This git finds the base for itself, from commits: so it is given some.
    root = await git.commit(base, [], "base\n")
    left = await git.commit(ours, [root], "ours\n")
    right = await git.commit(theirs, [root], "theirs\n")
    ended = await git.ask(
        "merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", left, right
    )
    if ended.code not in {0, 1}:
        raise GitFailed(f"git merge-tree failed: {complaint(ended)}")
    tree, *files = names(ended.output.decode(errors="surrogateescape"))
    return Blend(tree.strip(), tuple(dict.fromkeys(map(legible, files))) if ended.code else ())


class Added(msgspec.Struct, frozen=True):
    """The user's trees with a child's changes, or what speaks against it."""

    state: UserTrees | None
    conflicts: tuple[str, ...] = ()
    uncommitted: bool = False
    """Only changes that are not committed are in the way."""


async def add(git: Git, state: UserTrees, base: str, tip: str) -> Added:
    """Put the changes from tree `base` to tree `tip` on top of what the user has."""
    blends: dict[str, Blend] = {}
    for tree in dict.fromkeys((state.commit, state.index, state.files)):
        blends[tree] = await blend(git, base, tree, tip)
    commit, index, files = (blends[t] for t in (state.commit, state.index, state.files))
    conflicts = {path for one in (commit, index, files) for path in one.conflicts}
    if not conflicts:
        return Added(UserTrees(commit.tree, index.tree, files.tree))
    # If commit and files disagree about a conflict, what differs between them is the cause.
    alike = bool(commit.conflicts) and bool(files.conflicts)
    return Added(None, tuple(sorted(conflicts)), uncommitted=not alike)


async def changed(git: Git, base: str, tip: str) -> tuple[str, ...]:
    """Name the files in which two trees differ."""
    words = ("diff-tree", "-r", "-z", "--name-only", "--no-renames", base, tip)
    return tuple(legible(name) for name in names(await git.run(*words)))
