"""Bringing the children's branches into the current one.

Everything is worked out on trees first, child by child; only then files, index and HEAD move, once,
to where the last child that fits has brought them. So there is never half a merge to clean up. Each
child becomes one commit: a merge of its branch, or, if it began from uncommitted changes, a plain
commit of its own changes, since its branch also holds the snapshot of what was not committed.
What a child has left uncommitted becomes a commit of its branch first, unless that is not wanted.

`refs/prong/merged/<slug>` remembers how far a branch was taken over, `refs/prong/applied/<slug>`
the commit that did so, `refs/prong/undo` the state before the last merge and after it. What a kill
in that one move leaves is put right by the next merge, or by taking back.
"""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Mapping, Sequence
from typing import Literal, TypeAlias

import anyio
import msgspec

from prong.errors import GitFailed, NotPossibleNow, UnknownName
from prong.host import rehash, threeway
from prong.host.away_work import AwayWork, find_away, remedy_away
from prong.host.checkout import read_state
from prong.host.git import Git, Repository, legible, locate, names, working_index
from prong.host.host import Host
from prong.host.residue import UNDER_WAY, Residue, Unfit, followed, gather
from prong.host.slug import check_slug
from prong.host.threeway import UserTrees
from prong.host.user_move import Recovered, UserMove, carry_out, recover
from prong.host.worktree import BASES, BRANCHES, listed, unfinished

MERGED = "refs/prong/merged/"
APPLIED = "refs/prong/applied/"
UNDO = "refs/prong/undo"

MergeStatus: TypeAlias = Literal[
    "merged",
    "would merge",
    "conflict",
    "in the way",
    "uncommitted",
    "running",
    "damaged",
    "away",
    "nothing new",
]

_FINE: frozenset[MergeStatus] = frozenset(["merged", "would merge", "nothing new"])


class ChildBranch(msgspec.Struct, frozen=True):
    """A branch of a child."""

    slug: str
    base: str
    """The commit its new changes start from."""
    tip: str
    path: str
    """Its worktree; empty if that is gone."""
    running: bool
    checked_out: bool
    """Its worktree is on its branch."""
    residue: Residue | None = None
    """What it left uncommitted, if that is merged too; the tip is then the commit of it."""


class MergeStep(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one child."""

    slug: str
    branch: str
    status: MergeStatus
    files: tuple[str, ...] = ()
    uncommitted: tuple[str, ...] = ()
    """Those which the child had left uncommitted, if they are merged too."""
    conflicts: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    """Whose changes are in the way: branches, or the user's own."""
    commit: str = ""
    remedy: str = ""


class MergeReport(msgspec.Struct, frozen=True):
    """What a merge did, or would do."""

    steps: tuple[MergeStep, ...]
    before: str
    after: str
    stopped: bool
    """Not every child could be merged."""
    recovered: Recovered | None = None
    """What a merge that was killed had left, and what became of it before this one."""


class _Fitted(msgspec.Struct, frozen=True):
    """A child that is merged."""

    child: ChildBranch
    files: tuple[str, ...]
    commit: str
    """The commit that holds its changes; empty in a dry run."""


class _MergeRun(msgspec.Struct):
    """A merge in the making."""

    git: Git
    repository: Repository
    head: str
    state: UserTrees
    first: UserTrees
    applied: list[_Fitted]


async def children(git: Git) -> list[ChildBranch]:
    """List the branches of children by name, as people count: fork-2 comes before fork-10.

    When they were worked on says nothing: a merge itself commits what one of them has left.
    """
    places = {place.slug: place for place in await listed(git) if place.slug}
    begun = await unfinished(git)
    # The tip as the branch has it: whether it can be read is seen when it is to be merged.
    form = "--format=%(objectname) %(refname)"
    words = ("for-each-ref", "--sort=version:refname", form)
    found: list[ChildBranch] = []
    for line in (await git.run(*words, BRANCHES)).splitlines():
        tip, ref = line.split(" ", 1)
        slug = ref.removeprefix(BRANCHES)
        base = await git.find(MERGED + slug) or await git.find(BASES + slug)
        if base and slug not in begun:
            place = places.get(slug)
            path = place.path if place and await git.host.stat(place.path) is not None else ""
            running = place is not None and place.running
            home = place is not None and place.branch == ref
            found.append(ChildBranch(slug, base, tip, path, running, home))
    return found


async def merge(
    host: Host, slugs: Sequence[str] = (), *, dry_run: bool = False, commit: bool = True
) -> MergeReport:
    """Merge children into the current branch, in the order given, up to the first that conflicts.

    Without names, all that have something new and do not run. A dry run looks at every one. What a
    child left uncommitted becomes a commit of its branch, if it is merged; without `commit` such a
    child is not. Of work that is still on another machine that is said, after all others.

    Raises UsageError or GitFailed; nothing is changed then.
    """
    repository = await _ready(host)
    git = Git(host, repository.top)
    recovered = await recover(git, repository, dry_run=dry_run)
    noted = await find_away(git)
    away = _away(noted, slugs)
    wanted = await _wanted(git, slugs, noted)
    async with working_index(git, repository) as index:
        state = await read_state(git, repository, index)
        course = _MergeRun(git, repository, repository.head, state, state, [])
        steps: list[MergeStep] = []
        for child in wanted:
            step = await _one(course, child, dry_run=dry_run, commit=commit)
            steps.append(step)
            if step.status not in _FINE and not dry_run:
                break
        if course.applied and not dry_run:
            await _carry_out(course, index)
    steps += away
    bad = any(step.status not in _FINE for step in steps)
    after = repository.head if dry_run else course.head
    return MergeReport(tuple(steps), repository.head, after, bad, recovered)


async def _ready(host: Host) -> Repository:
    repository = await locate(host)
    if not repository.head:
        raise NotPossibleNow("there is no commit yet to merge into: commit something first")
    for name in UNDER_WAY:
        if await host.stat(f"{repository.folder}/{name}") is not None:
            raise NotPossibleNow(
                f"git is in the middle of something else ({name}): finish or abort that first"
            )
    return repository


def _away(found: Mapping[str, AwayWork | None], slugs: Sequence[str]) -> list[MergeStep]:
    """Say of which of these children, or of all, there is work on other machines."""
    given = dict.fromkeys(slug.removeprefix("prong/") for slug in slugs) if slugs else found
    return [
        MergeStep(
            slug=slug,
            branch=f"prong/{slug}",
            status="away",
            remedy=remedy_away(slug, found[slug]),
        )
        for slug in given
        if slug in found
    ]


async def _wanted(git: Git, slugs: Sequence[str], away: Collection[str]) -> list[ChildBranch]:
    found = await children(git)
    if not slugs:
        return [child for child in found if child.tip != child.base or child.path]
    by_name = {child.slug: child for child in found}
    given = [check_slug(slug.removeprefix("prong/")) for slug in slugs]
    for name in given:
        if name not in by_name and name not in away:
            known = ", ".join(dict.fromkeys((*by_name, *away))) or "none"
            if await git.find(BRANCHES + name):
                raise UnknownName(
                    f"the branch prong/{name} was not made by a child: where its changes start is "
                    f"not known; merge it with 'git merge prong/{name}'. Children's are: {known}"
                )
            raise UnknownName(f"there is no branch prong/{name} of a child; there are: {known}")
    return [by_name[name] for name in dict.fromkeys(given) if name in by_name]


async def _one(course: _MergeRun, child: ChildBranch, *, dry_run: bool, commit: bool) -> MergeStep:
    """Add one child to the course, or say why not."""
    git = course.git
    found = await _whole(course, child, commit=commit)
    if isinstance(found, MergeStep):
        return found
    child = found
    # Before anything of it is read: git gives out what it finds under a name.
    if (
        damaged := await _damage(git, child, rehash.brought(git, child.base, child.tip))
    ) is not None:
        return damaged
    base = await git.run("rev-parse", f"{child.base}^{{tree}}")
    tip = await git.run("rev-parse", f"{child.tip}^{{tree}}")
    files = await threeway.changed(git, base, tip)
    if not files:
        return _step(child, "nothing new")
    added = await threeway.add(git, course.state, base, tip)
    if added.state is None:
        return await _conflict(course, child, (base, tip), files, added)
    new = _taken_over(git, course.state, added.state)
    if (damaged := await _damage(git, child, new)) is not None:
        return damaged
    course.state = added.state
    if dry_run:
        course.applied.append(_Fitted(child, files, ""))
        return _step(child, "would merge", files=files)
    course.head = await _commit(git, course.head, added.state.commit, child)
    course.applied.append(_Fitted(child, files, course.head))
    return _step(child, "merged", files=files, commit=course.head)


def _step(child: ChildBranch, status: MergeStatus, **fields: object) -> MergeStep:
    left = child.residue.files if child.residue else ()
    named = {"slug": child.slug, "branch": f"prong/{child.slug}", "status": status}
    given = {**named, "uncommitted": left, **fields}
    return msgspec.convert(given, MergeStep)


async def _taken_over(git: Git, old: UserTrees, new: UserTrees) -> list[str]:
    """Name what is new in the user's trees, also what was there before under another path."""
    pairs = {(old.commit, new.commit), (old.index, new.index), (old.files, new.files)}
    return [one for pair in sorted(pairs) for one in await rehash.written(git, *pair)]


async def _damage(
    git: Git, child: ChildBranch, incoming: Awaitable[Sequence[str]]
) -> MergeStep | None:
    """Say which of the objects that would come in is not what its name says, if one is not."""
    try:
        bad = await rehash.altered(git, await incoming)
    except GitFailed as error:
        return _step(child, "damaged", remedy=f"what would come in cannot be read: {error}")
    if not bad:
        return None
    first, *more = bad
    also = f", and {len(more)} more" if more else ""
    remedy = (
        f"git's object {first[:12]}, which would come in, is gone or not what its name says{also}; "
        "'git fsck' names all such: put them back from another copy, or let the work be done again"
    )
    return _step(child, "damaged", remedy=remedy)


async def _whole(course: _MergeRun, child: ChildBranch, *, commit: bool) -> ChildBranch | MergeStep:
    """Give a child with all of its work, or say why it cannot be had."""
    if child.running:
        remedy = "wait until it has ended"
        return _step(child, "running", remedy=remedy)
    if not child.path:
        return child
    takes = child.checked_out and child.path != course.repository.top
    if commit and takes:
        found = await gather(course.git, course.repository, child.path, child.slug, child.tip)
        if isinstance(found, Unfit):
            return _step(child, "uncommitted", files=found.files, remedy=found.remedy)
        if found is None:
            return child
        return msgspec.structs.replace(child, tip=found.commit, residue=found)
    words = ("status", "--porcelain", "-z", "-uall", "--no-renames")
    output = await Git(course.git.host, child.path).run(*words)
    files = tuple(legible(line[3:]) for line in names(output))
    if files:
        remedy = f"commit or discard the changes in {child.path} first"
        if takes:
            remedy += ", or merge without --no-commit"
        elif not child.checked_out:
            remedy += f": it is not on its branch prong/{child.slug}"
        return _step(child, "uncommitted", files=files, remedy=remedy)
    return child


async def _conflict(
    course: _MergeRun,
    child: ChildBranch,
    trees: tuple[str, str],
    files: tuple[str, ...],
    added: threeway.Added,
) -> MergeStep:
    """Say with whom a child conflicts: the user, or children before it."""
    fields = {"files": files, "conflicts": added.conflicts}
    # Git itself merges only what is committed, and nothing of this child is by us.
    first = f"commit the changes in {child.path}; " if child.residue else ""
    alone = await threeway.add(course.git, course.first, *trees)
    if alone.state is not None:
        met = [one for one in course.applied if set(one.files) & set(added.conflicts)]
        against = tuple(f"prong/{rival.child.slug}" for rival in met or course.applied)
        remedy = (
            f"{first}after the others, run 'git merge prong/{child.slug}' and resolve it by hand"
        )
        if not await _is_plain(course.git, child.base, course.head):
            remedy = f"{first}after the others, run '{_by_hand(child)}' and resolve it by hand"
        return _step(child, "conflict", against=against, remedy=remedy, **fields)
    if alone.uncommitted:
        remedy = "commit your changes to these files first, then merge again"
        against = ("your uncommitted changes",)
        return _step(child, "in the way", against=against, remedy=remedy, **fields)
    remedy = f"{first}run '{_by_hand(child)}' and resolve it by hand"
    return _step(child, "conflict", against=("your branch",), remedy=remedy, **fields)


def _by_hand(child: ChildBranch) -> str:
    return f"git cherry-pick {child.base[:12]}..prong/{child.slug}"


async def _is_plain(git: Git, base: str, head: str) -> bool:
    """Whether a child began from a commit of the current branch, with nothing uncommitted."""
    return (await git.ask("merge-base", "--is-ancestor", base, head)).code == 0


async def _commit(git: Git, head: str, tree: str, child: ChildBranch) -> str:
    branch = f"prong/{child.slug}"
    if await _is_plain(git, child.base, head):
        return await git.commit(tree, [head, child.tip], f"Merge branch '{branch}'\n")
    told = await git.run("log", "--reverse", "--format=%B", child.tip, f"^{child.base}")
    return await git.commit(tree, [head], f"Apply {branch}\n\n{told.strip()}\n")


async def _carry_out(course: _MergeRun, index: str) -> None:
    """Move files, indexes and refs, once; what has begun is not broken off."""
    git = course.git
    way = await _way(course)
    residues = [one.child.residue for one in course.applied if one.child.residue]
    with anyio.CancelScope(shield=True):
        async with followed(git, course.repository, residues):
            await carry_out(git, course.repository, index, way)


async def _way(course: _MergeRun) -> UserMove:
    """Say how HEAD and the children's branches move, and what remembers how to go back."""
    git, repository, lines, slugs = course.git, course.repository, list[str](), list[str]()
    for one in course.applied:
        child = one.child
        if child.residue:
            known = child.residue.place.head
            lines.append(f"update {BRANCHES}{child.slug} {child.tip} {known}")
        old = await git.find(MERGED + child.slug)
        slugs.append(f"{child.slug} {old or '-'}")
        lines.append(f"update {MERGED}{child.slug} {child.tip}")
        lines.append(f"update {APPLIED}{child.slug} {one.commit}")
    kept = [
        await git.commit(tree, [], f"{name}\n")
        for name, tree in (
            ("index before", course.first.index),
            ("files before", course.first.files),
            ("index after", course.state.index),
            ("files after", course.state.files),
        )
    ]
    tree = course.first.commit
    parents = [repository.head, course.head, *kept]
    undo = await git.commit(tree, parents, "\n".join(["prong merge", "", *slugs, ""]))
    return UserMove(
        kind="merge",
        slugs=tuple(one.child.slug for one in course.applied),
        before=repository.head,
        after=course.head,
        old=course.first,
        new=course.state,
        lines=(*lines, f"update {UNDO} {undo}"),
    )


async def undo(host: Host) -> tuple[str, ...]:
    """Take the last merge back, exactly; gives the names of the children it had merged.

    If it was killed, what it had done so far. What was committed on a child's own branch stays
    there: it is the child's work.

    Raises UsageError if anything has changed since.
    """
    repository = await locate(host)
    git = Git(host, repository.top)
    found = await recover(git, repository)
    if found and (found.kind == "undo") == found.complete:
        return found.slugs
    record = await git.find(UNDO)
    if not record:
        raise NotPossibleNow("there is no merge to take back")
    before, after, *kept = (await git.run("log", "-1", "--format=%P", record)).split()
    told = (await git.run("log", "-1", "--format=%b", record)).split("\n")
    trees = [await git.run("rev-parse", f"{c}^{{tree}}") for c in (before, after, *kept)]
    old, new = UserTrees(trees[0], trees[2], trees[3]), UserTrees(trees[1], trees[4], trees[5])
    async with working_index(git, repository) as index:
        if repository.head != after or await read_state(git, repository, index) != new:
            raise NotPossibleNow(
                "there were changes or commits since the merge, so it is not taken back; commit "
                f"or stash them, and go back yourself with 'git reset --keep {before[:12]}'"
            )
        pairs = [line.split() for line in told if line]
        lines = [f"delete {UNDO}"]
        for slug, earlier in pairs:
            gone = earlier == "-"
            lines.append(f"delete {MERGED}{slug}" if gone else f"update {MERGED}{slug} {earlier}")
            lines.append(f"delete {APPLIED}{slug}")
        slugs = tuple(slug for slug, _ in pairs)
        way = UserMove(
            kind="undo",
            slugs=slugs,
            before=after,
            after=before,
            old=new,
            new=old,
            lines=tuple(lines),
        )
        await carry_out(git, repository, index, way)
    return slugs
