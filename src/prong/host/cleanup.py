"""Taking away the worktrees and branches of children whose work is in the user's branches.

Work is in if the branch's last commit is part of a branch of the user's, if the commit that a merge
made of it is, or if the current branch has all its changes anyway. Everything else stays, with
the reason: what is not merged, not committed, ignored but nowhere else, in use, or checked out.

The folder goes first, and git looks for itself once more; then all refs at once, each only if it is
still where it was seen, and with them what the last merge could be taken back by, if the child is
in it. Whatever strikes in between, the next time goes on from there.
"""

from __future__ import annotations

import msgspec

from prong.errors import GitFailed
from prong.host import threeway
from prong.host.away_work import find_away, remedy_away
from prong.host.git import Git, Repository, locate
from prong.host.host import Host
from prong.host.merge import APPLIED, MERGED, UNDO, ChildBranch, children
from prong.host.remains import examine, remove_folder, sweep_removed
from prong.host.worktree import (
    BASES,
    BRANCHES,
    FOLDER,
    WorktreeInfo,
    listed,
    main_folder,
    unfinished,
)


class Cleared(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one child's worktree and branch."""

    slug: str
    branch: str
    path: str
    """Its worktree; empty if there was none."""
    removed: bool
    """Whether both are gone, or would be."""
    why: str


class Cleanup(msgspec.Struct, frozen=True, kw_only=True):
    """What was removed and what was kept."""

    items: tuple[Cleared, ...]
    undo: str = ""
    """The commit before the last merge, if that can no longer be taken back by itself."""


async def clean(host: Host, *, dry_run: bool = False) -> Cleanup:
    """Remove the worktrees and branches of children that have ended and whose work is merged.

    Those of sessions that are long gone too. A dry run only says what would be done.

    Raises UsageError or GitFailed.
    """
    repository = await locate(host)
    git = Git(host, repository.top)
    if not dry_run:
        await sweep_removed(host, f"{main_folder(repository.top)}/{FOLDER}")
    places = await listed(git)
    items: list[Cleared] = []
    undo = ""
    found = await children(git)
    away = await find_away(git)
    for child in found:
        merged = await _merged(git, repository, child)
        kept = await _reason(git, repository, child, places, merged=bool(merged))
        if child.slug in away:
            kept = kept or remedy_away(child.slug, away[child.slug])
        if not kept and not dry_run:
            record, before = await _last_merge(git, child)
            if not await _remove(git, child, places, record):
                kept = "git did not remove it"
            elif before:
                undo = before
        items.append(_cleared(child, kept or merged, removed=not kept))
    known = {child.slug for child in found}
    begun = await unfinished(git)
    for place in places:
        if place.slug and place.slug not in known:
            why = "its branch is gone; look at it, and 'git worktree remove' throws it away"
            if place.slug in begun:
                why = "it is being made, or a crash came before its end: sessions remove those"
            branch = f"prong/{place.slug}"
            lost = Cleared(slug=place.slug, branch=branch, path=place.path, removed=False, why=why)
            items.append(lost)
    return Cleanup(items=tuple(items), undo=undo)


def _cleared(child: ChildBranch, why: str, *, removed: bool) -> Cleared:
    branch = f"prong/{child.slug}"
    return Cleared(slug=child.slug, branch=branch, path=child.path, removed=removed, why=why)


async def _reason(
    git: Git,
    repository: Repository,
    child: ChildBranch,
    places: list[WorktreeInfo],
    *,
    merged: bool,
) -> str:
    """Say why a child's worktree and branch have to stay; empty if they need not."""
    ref = BRANCHES + child.slug
    own = next((place for place in places if place.slug == child.slug), None)
    if own is not None and own.running:
        return "an agent works in it, or it is locked"
    if own is not None and own.path == repository.top:
        return "you are in it"
    others = [one.path for one in places if one.branch == ref and one is not own]
    if others:
        return f"{child.slug} is checked out in {others[0]}"
    if not merged:
        return "it has commits that are in no branch of yours; 'prong merge' brings them in"
    if not child.path:
        return ""
    try:
        main = main_folder(child.path)
        remains = await examine(git.host, child.path, f"prong/{child.slug}", child.tip, main)
    except GitFailed as error:
        return f"it cannot be looked through: {error}"
    if remains.uncommitted:
        return f"{remains.why}; 'prong merge' brings them in"
    return remains.why


async def _merged(git: Git, repository: Repository, child: ChildBranch) -> str:
    """Say in what way a child's commits are in the user's branches; empty if they are not."""
    start = await git.find(BASES + child.slug) or child.base
    if child.tip == start:
        return "nothing was committed on it"
    if await _is_in(git, child.tip):
        return "merged"
    if await git.find(MERGED + child.slug) == child.tip:
        applied = await git.find(APPLIED + child.slug)
        if applied and await _is_in(git, applied):
            return "merged"
    if not repository.head:
        return ""
    trees = [await git.run("rev-parse", f"{one}^{{tree}}") for one in (start, "HEAD", child.tip)]
    blended = await threeway.blend(git, trees[0], trees[1], trees[2])
    same = not blended.conflicts and blended.tree == trees[1]
    return "all its changes are in the current branch" if same else ""


async def _is_in(git: Git, commit: str) -> bool:
    """Whether a commit is part of the current branch or of another one that is no child's."""
    if (await git.ask("merge-base", "--is-ancestor", commit, "HEAD")).code == 0:
        return True
    words = ("for-each-ref", "--format=%(refname)", f"--contains={commit}", "refs/heads")
    return any(not ref.startswith(BRANCHES) for ref in (await git.run(*words)).split())


async def _remove(git: Git, child: ChildBranch, places: list[WorktreeInfo], record: str) -> bool:
    own = next((place for place in places if place.slug == child.slug), None)
    if own is not None:
        if own.locked:
            # By a process that has ended. A new one locks it anew, and git then refuses.
            await git.ask("worktree", "unlock", own.path)
        if not await remove_folder(git, own.path):
            return False
    lines = [f"delete {BRANCHES}{child.slug} {child.tip}"]
    refs = [prefix + child.slug for prefix in (BASES, MERGED, APPLIED)]
    at = {ref: await git.find(ref) for ref in refs}
    if record:
        at[UNDO] = record
    lines += [f"delete {ref} {commit}" for ref, commit in at.items() if commit]
    text = "".join(f"{line}\n" for line in lines).encode()
    return (await git.ask("update-ref", "--stdin", stdin=text)).code == 0


async def _last_merge(git: Git, child: ChildBranch) -> tuple[str, str]:
    """Give the record of the last merge and what was before it; nothing if the child is not in it.

    Were it taken back without the child's branch, the work would be nowhere.
    """
    record = await git.find(UNDO)
    told = (await git.run("log", "-1", "--format=%b", record)).split("\n") if record else []
    if child.slug not in {line.partition(" ")[0] for line in told}:
        return "", ""
    return record, (await git.run("log", "-1", "--format=%P", record)).split()[0]
