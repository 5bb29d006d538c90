"""A working copy and a branch of its own for a child.

It starts from the parent's files as they are. Uncommitted changes are put into a commit that no
branch of the user's knows (the snapshot), by way of a second index: the user's index, stash, HEAD
and files are never touched. `refs/prong/base/<slug>` remembers the snapshot, so that what the child
did can be told apart from it at any later time, also after a crash.

All worktrees lie side by side in `.prong/worktrees`, which ignores itself by a `.gitignore` of its
own. A child's child goes there too: were it inside its parent's worktree, it would vanish with it.

Submodules stay as they are recorded: their folders are empty until `git submodule update --init`
fills them. Changes inside them that are not committed there are not seen.
"""

from __future__ import annotations

import time
from collections.abc import Container, Sequence
from typing import Literal, TypeAlias

import anyio
import msgspec

from prong.errors import GitFailed, NotPossibleNow
from prong.host import owner
from prong.host.extra import add_extras
from prong.host.git import Git, Repository, locate, names, sweep_indexes, working_index
from prong.host.host import Host
from prong.host.remains import Findings, examine, free_name, remove, sweep_removed
from prong.host.slug import check_slug, numbered

FOLDER = ".prong/worktrees"
BRANCHES = "refs/heads/prong/"
BASES = "refs/prong/base/"
REMOTES = "refs/prong/remote/"
"""Names of workspaces on other machines, whose work has not arrived."""
MAKING = "refs/prong/making/"
"""Names of worktrees that are not complete, by their maker: nobody has worked in them yet."""
_FORSAKEN = 3600.0
"""Seconds after which nobody is between taking a name and using it."""
_TRIES = 5
"""How often a name is asked for that is neither given nor anybody's."""
_MOST = 1000
"""Worktrees of one name at most."""

Base: TypeAlias = Literal["snapshot", "head"]


class Worktree(msgspec.Struct, frozen=True, kw_only=True):
    """A child's working copy."""

    slug: str
    path: str
    """Its root folder."""
    cwd: str
    """The folder in it that is, for the parent, the one it works in."""
    branch: str
    base_commit: str
    """The parent's HEAD; empty if it had none."""
    snapshot_commit: str
    """What the child starts from: the same, or a commit of the uncommitted changes on top of it."""
    parent: str
    """The root folder of the parent's working copy."""
    extras: tuple[str, ...] = ()
    """Ignored folders that were linked and ignored files that were copied into it."""


class Removed(msgspec.Struct, frozen=True, tag=True):
    """Nothing was changed, so worktree and branch are gone."""

    path: str
    branch: str


class Kept(msgspec.Struct, frozen=True, tag=True):
    """There is work in it."""

    path: str
    branch: str
    """What is checked out there: a branch, or a commit if the child left all branches."""
    commits: tuple[str, ...]
    """The child's own, the oldest first."""
    files: tuple[str, ...]
    """Paths that differ from the snapshot, committed or not."""
    uncommitted: bool
    why: str
    away: bool = False
    """Whether it has not come back from another machine, so that nothing else is known of it."""


class Leftover(msgspec.Struct, frozen=True):
    """A worktree that nobody is known to work in."""

    slug: str
    path: str
    branch: str
    crashed: bool
    """Its process ended without letting go of it; otherwise it was kept for its work."""
    missing: bool
    """The folder itself is gone."""
    unchanged: bool


async def create(
    host: Host,
    slug: str,
    *,
    base: Base = "snapshot",
    link: Sequence[str] = (),
    include: bool = True,
) -> Worktree:
    """Make a worktree and lock it for this process.

    `link` names heavy folders to share with the parent if git ignores them; `include` copies the
    ignored files that `.worktreeinclude` lists. If the name is taken, a number is added. The host
    is the parent's, and a plain one also if the parent is confined to a worktree itself.

    Raises UsageError or GitFailed.
    """
    check_slug(slug)
    parent = await locate(host)
    git = Git(host, parent.top)
    folder = await _home(host, parent.top)
    start = await _start(git, parent, slug, base)
    name = await _take_name(git, folder, slug, start, BASES, making())
    path = f"{folder}/{name}"
    cwd = f"{path}/{parent.prefix}".rstrip("/")
    try:
        await git.run(
            *("worktree", "add", "--quiet", "--lock", "--reason", owner.reason()),
            *("-b", f"prong/{name}", path, start),
        )
        if cwd != path:
            # Git keeps no empty folders, but the child has to start somewhere.
            await host.run(["mkdir", "-p", "--", cwd])
        extras = await add_extras(git, parent.top, path, link=link, include=include)
        await git.run("update-ref", "-d", making() + name)
    except BaseException:
        with anyio.CancelScope(shield=True):
            await abandon(git, path, making() + name)
        raise
    return Worktree(
        slug=name,
        path=path,
        cwd=cwd,
        branch=f"prong/{name}",
        base_commit=parent.head,
        snapshot_commit=start,
        parent=parent.top,
        extras=extras,
    )


async def reserve(host: Host, slug: str, *, base: Base = "snapshot") -> Worktree:
    """Take a name and make the commit for a workspace on another machine; it has no folder here.

    Raises UsageError or GitFailed.
    """
    check_slug(slug)
    parent = await locate(host)
    git = Git(host, parent.top)
    folder = await _home(host, parent.top)
    start = await _start(git, parent, slug, base)
    name = await _take_name(git, folder, slug, start, BASES)
    return Worktree(
        slug=name,
        path="",
        cwd="",
        branch=f"prong/{name}",
        base_commit=parent.head,
        snapshot_commit=start,
        parent=parent.top,
    )


async def _home(host: Host, top: str) -> str:
    """Give the folder for worktrees, made so that git does not see it."""
    folder = f"{main_folder(top)}/{FOLDER}"
    if host.resolve(folder) != folder:
        raise NotPossibleNow(f"{folder} is a link, or lies behind one: put a real folder there")
    ignored = f"{folder}/.gitignore"
    if await host.stat(ignored) is None:
        await host.write(ignored, b"*\n")
    return folder


async def _start(git: Git, parent: Repository, slug: str, base: Base) -> str:
    """Give the commit to start from."""
    if base == "head" and parent.head:
        return parent.head
    if base == "head":
        tree = await git.run("hash-object", "-t", "tree", "-w", "--stdin")
    else:
        async with working_index(git, parent) as index:
            tree = await git.run("write-tree", index=index)
    if parent.head and tree == await git.run("rev-parse", f"{parent.head}^{{tree}}"):
        return parent.head
    parents = [parent.head] if parent.head else []
    return await git.commit(tree, parents, f"Uncommitted changes, as prong/{slug} found them\n")


async def _take_name(git: Git, folder: str, slug: str, start: str, *kinds: str) -> str:
    """Take the first name that is free, by refs of these kinds; gives it."""
    for number in range(1, _MOST):
        name = numbered(slug, number)
        if await git.host.stat(f"{folder}/{name}") or await git.find(BRANCHES + name):
            continue
        if await _make_refs(git, [kind + name for kind in kinds], start):
            return name
    raise NotPossibleNow(f"there are {_MOST} worktrees named {slug}: choose another name")


async def _make_refs(git: Git, refs: Sequence[str], start: str) -> bool:
    """Make all of them; False if another was quicker. It is the one step that git makes atomic."""
    lines, why = "".join(f"create {ref} {start}\n" for ref in refs).encode(), b""
    for _ in range(_TRIES):
        ended = await git.ask("update-ref", "--stdin", stdin=lines)
        if ended.code == 0:
            return True
        if any([await git.find(ref) for ref in refs]):
            return False
        # Whoever had it has given it up meanwhile, or git cannot.
        why = ended.errors
    if b".lock': File exists" in why:
        # Another is about to take it, or git was killed when it did.
        return False
    raise GitFailed(f"git cannot make {refs[0]}: {why.decode(errors='replace')}")


def making() -> str:
    """Give how the refs begin that say what this process is making."""
    return f"{MAKING}{owner.tag()}/"


async def abandon(git: Git, path: str, ref: str) -> None:
    """Undo an addition that failed or was cut short."""
    await git.ask("worktree", "remove", "--force", "--force", path)
    if await git.host.stat(path) is not None:
        # Git does not know it for a worktree: not yet, or not any more.
        await git.host.run(["rm", "-rf", "--", path])
        await git.ask("worktree", "remove", "--force", "--force", path)
    if start := await git.find(ref):
        await free_name(git, ref.rpartition("/")[2], start, ref)


async def reopen(host: Host, worktree: Worktree) -> bool:
    """Take a worktree that was kept, or left by a crash, into use again; False if it is gone.

    Raises UsageError if another process works in it, or GitFailed.
    """
    if await host.stat(worktree.path) is None or await host.stat(worktree.parent) is None:
        return False
    git = Git(host, worktree.parent)
    place = next((one for one in await listed(git) if one.path == worktree.path), None)
    if place is None:
        return False
    if place.running and place.holder != owner.reason():
        raise NotPossibleNow(f"another process works in {worktree.path}: wait until it has ended")
    await git.ask("worktree", "unlock", worktree.path)
    await git.run("worktree", "lock", "--reason", owner.reason(), worktree.path)
    return True


async def finish(host: Host, worktree: Worktree) -> Kept | Removed:
    """Let go of a worktree: removed with its branch if nothing was done in it, kept otherwise.

    Raises GitFailed.
    """
    # From the main repository: the folder that is to vanish is no place to stand in.
    git = Git(host, worktree.parent)
    start = worktree.snapshot_commit
    found = await examine(host, worktree.path, worktree.branch, start, worktree.parent)
    await git.ask("worktree", "unlock", worktree.path)
    if found.why or not await remove(git, worktree.path, worktree.branch, start):
        return _kept(worktree, found)
    return Removed(worktree.path, worktree.branch)


def _kept(worktree: Worktree, found: Findings) -> Kept:
    return Kept(
        path=worktree.path,
        branch=found.branch or worktree.branch,
        commits=found.commits,
        files=found.files,
        uncommitted=found.uncommitted,
        why=found.why or "git did not remove it",
    )


async def leftovers(host: Host) -> list[Leftover]:
    """List the worktrees that nobody works in: kept ones, and those that a crash left behind.

    Raises UsageError or GitFailed.
    """
    parent = await locate(host)
    git = Git(host, parent.top)
    found: list[Leftover] = []
    begun = await unfinished(git)
    for place in await listed(git):
        slug = place.slug
        start = await git.find(BASES + slug) if slug and slug not in begun else ""
        if not start or place.running:
            continue
        branch = f"prong/{slug}"
        try:
            remains = await examine(host, place.path, branch, start, main_folder(place.path))
        except GitFailed as error:
            # One that git cannot read must not hide the others, nor be taken for empty.
            remains = Findings(why=str(error))
        found.append(
            Leftover(
                slug=slug,
                path=place.path,
                branch=branch,
                crashed=place.locked,
                missing=await host.stat(place.path) is None,
                unchanged=not remains.why,
            )
        )
    return found


async def sweep(host: Host, *, spare: Container[str] = ()) -> list[Leftover]:
    """Remove those left-overs of a crash in which nothing was done; gives what was removed.

    Folders in `spare` are about to be taken up again.

    Raises UsageError or GitFailed.
    """
    parent = await locate(host)
    await sweep_indexes(host, parent)
    await sweep_removed(host, f"{main_folder(parent.top)}/{FOLDER}")
    await _sweep_unfinished(Git(host, parent.top))
    swept: list[Leftover] = []
    for left in await leftovers(host):
        git = Git(host, main_folder(left.path))
        start = await git.find(BASES + left.slug)
        # What is kept has work in it: one that is unlocked and has none was just being removed.
        if not left.unchanged or left.path == parent.top or left.path in spare:
            continue
        await git.ask("worktree", "unlock", left.path)
        if await remove(git, left.path, left.branch, start):
            swept.append(left)
    await _sweep_names(Git(host, parent.top))
    return swept


async def unfinished(git: Git) -> dict[str, str]:
    """Give the names of worktrees that are being made, or whose making was cut short.

    What is in them looks like a change, and is none: files are still missing. With each name comes
    the ref that says so.
    """
    found = (await git.run("for-each-ref", "--format=%(refname)", MAKING)).split()
    return {ref.rpartition("/")[2]: ref for ref in found}


async def _sweep_unfinished(git: Git) -> None:
    """Remove what is there of worktrees whose maker has ended before they were complete."""
    for name, ref in (await unfinished(git)).items():
        maker = ref.removeprefix(MAKING).removesuffix(f"/{name}")
        if not owner.is_gone_tag(maker) or not (start := await git.find(ref)):
            continue
        # One alone may remove it: when it is gone, another worktree may have its name.
        lines = f"delete {ref} {start}\ncreate {making()}{name} {start}\n"
        if (await git.ask("update-ref", "--stdin", stdin=lines.encode())).code == 0:
            await abandon(git, f"{await _home(git.host, git.cwd)}/{name}", making() + name)


async def _sweep_names(git: Git) -> None:
    """Give names free that were taken for worktrees which then were not made.

    A name is its base and perhaps its branch. A branch that has gone on from its base is work, and
    one without a worktree is kept like any other.
    """
    taken = {place.slug for place in await listed(git)} | (await unfinished(git)).keys()
    away = (await git.run("for-each-ref", "--format=%(refname)", REMOTES)).split()
    taken |= {ref.removeprefix(REMOTES) for ref in away}
    fields = "--format=%(refname) %(objectname) %(worktreepath)"
    found = (await git.run("for-each-ref", fields, BASES, BRANCHES)).splitlines()
    refs = {name: rest for name, _, rest in (line.partition(" ") for line in found)}
    forsaken: list[str] = []
    for ref, rest in refs.items():
        name, base = ref.removeprefix(BASES), rest.strip()
        # With a path behind it the branch is checked out somewhere, and so is not the same.
        unused = refs.get(BRANCHES + name, base).strip() == base
        if ref.startswith(BASES) and name not in taken and unused and await _is_old(git, ref):
            branch = [BRANCHES + name] if BRANCHES + name in refs else []
            forsaken += [f"delete {one} {base}\n" for one in (*branch, ref)]
    if forsaken:
        await git.ask("update-ref", "--stdin", stdin="".join(forsaken).encode())


async def _is_old(git: Git, ref: str) -> bool:
    """Whether a ref was made long ago, as far as its file tells."""
    folder = await git.run("rev-parse", "--path-format=absolute", "--git-common-dir")
    for path in (f"{folder}/{ref}", f"{folder}/packed-refs"):
        if (file := await git.host.stat(path)) is not None:
            return time.time() - file.modified > _FORSAKEN
    return False


def main_folder(path: str) -> str:
    """Give the folder of the repository that a worktree of ours belongs to."""
    return path.partition(f"/{FOLDER}/")[0]


class WorktreeInfo(msgspec.Struct, frozen=True):
    """A worktree as git lists it."""

    path: str
    slug: str
    """Empty if it is none of ours."""
    locked: bool
    running: bool
    """Its process may still live."""
    holder: str
    """Who holds it, as it was written into the lock."""
    branch: str
    """The ref that is checked out; empty if none is."""


async def listed(git: Git) -> list[WorktreeInfo]:
    """List every worktree of a repository."""
    found: list[WorktreeInfo] = []
    output = await git.run("worktree", "list", "--porcelain", "-z")
    for record in output.split("\0\0"):
        fields: dict[str, str] = {}
        for line in names(record):
            key, _, value = line.partition(" ")
            fields[key] = value
        path = fields.get("worktree", "")
        main, inside, slug = path.partition(f"/{FOLDER}/")
        locked = "locked" in fields
        running = locked and not owner.is_gone(fields["locked"])
        holder = fields.get("locked", "")
        ours = slug if main and inside else ""
        found.append(WorktreeInfo(path, ours, locked, running, holder, fields.get("branch", "")))
    return found


def notice(worktree: Worktree, parent_root: str = "", *, base: Base = "snapshot") -> str:
    """Tell a fork in a worktree how its inherited conversation relates to it."""
    before = parent_root or worktree.parent
    held = "as they were when you were started, uncommitted changes included"
    if base == "head":
        held = "of the last commit, without changes that were not committed"
    return (
        f"You work in a git worktree of your own. Your root is {worktree.cwd}; its branch is "
        f"{worktree.branch}. It holds the files {held}. Every path in the conversation so far "
        f"refers to {before}, the folder of the agent that started you: use the same path below "
        "your own root instead, and never change anything there. Read a file again in your "
        "worktree before you edit it, also if it was read above. Commit what you change before "
        "you report."
    )
