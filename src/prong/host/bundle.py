"""Commits on their way to another machine and back, as git bundles.

What goes is what the other side has not; what comes back becomes the branch of a child. The user's
index, files and HEAD are never touched, and what comes is checked by git before any ref knows it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from prong.errors import GitFailed, NotPossibleNow
from prong.host.away_work import AWAY, AwayWork, repository_key, write_note
from prong.host.git import Git, Repository, legible, must, names
from prong.host.stale_lock import free_locks
from prong.host.worktree import BASES, BRANCHES, REMOTES, Worktree

RESULTS = "refs/prong/result/"
"""What a workspace has to give back, by slug; there alone."""

_OFFERED = 500
"""Commits of which the other side is asked whether it has them."""


class Shipment(msgspec.Struct, frozen=True, kw_only=True):
    """What of a repository another machine has to know to make a workspace of it."""

    key: str
    """Names the repository: the same for all children of one."""
    slug: str
    prefix: str
    """The folder in it that the parent works in."""
    start: str
    """The commit to begin with."""
    format: str
    """Git's format of objects."""
    author: tuple[str, str]
    """In whose name commits are made, as here."""


async def check_sendable(git: Git) -> None:
    """Look for what keeps a repository from being sent, or work from coming back to it.

    Raises NotPossibleNow with the remedy.
    """
    if await git.find(BRANCHES.removesuffix("/")):
        raise NotPossibleNow(
            "a branch is named 'prong', and git has none below the name of another, such as "
            "prong/fork-1: rename it, 'git branch -m prong NAME'"
        )
    if await git.run("rev-parse", "--is-shallow-repository") == "true":
        raise NotPossibleNow(
            "this repository is shallow, so its commits cannot be sent: run 'git fetch --unshallow'"
        )
    words = ("ls-files", "-c", "-o", "--exclude-standard", "-z", "--", ":(attr:filter=lfs)")
    ended = await git.ask(*words, env=("GIT_LITERAL_PATHSPECS=0",))
    if found := names(git.said("ls-files", ended)):
        raise NotPossibleNow(
            f"files here are kept by git LFS, such as {legible(found[0])}, and another machine "
            'would see their pointers alone: use isolation "worktree"'
        )


async def mark_away(git: Git, worktree: Worktree, work: AwayWork) -> None:
    """Keep a workspace's name for as long as it is elsewhere, which whoever asked has stored.

    Its base too, which a sweep may have taken for one that nobody uses. Whoever looks for the work
    finds a note of where it is.

    Raises NotPossibleNow if the name is another's by now, GitFailed.
    """
    slug, start = worktree.slug, worktree.snapshot_commit
    if await git.find(BASES + slug) not in {"", start}:
        raise NotPossibleNow(f"prong/{slug} is another agent's by now: start this one anew")
    common = await _free_refs(git, slug)
    note = await write_note(git, slug, start, common, work)
    refs = {REMOTES: start, BASES: start, AWAY: note}
    lines = "".join(f"update {kind}{slug} {commit}\n" for kind, commit in refs.items())
    await git.run("update-ref", "--stdin", stdin=lines.encode())


async def _free_refs(git: Git, slug: str) -> str:
    """Let the refs of a workspace be changed again, after a git that was killed as it did so.

    Gives the folder that they are in.
    """
    common = await git.run("rev-parse", "--path-format=absolute", "--git-common-dir")
    kinds = (BRANCHES, BASES, REMOTES, AWAY)
    await free_locks(git.host, [f"{common}/{kind}{slug}.lock" for kind in kinds])
    return common


async def write_bundle(git: Git, file: str, lines: Sequence[str]) -> None:
    """Write a bundle of what these lines name; the file is the caller's alone.

    Raises GitFailed.
    """
    # A git that was killed at this leaves a lock.
    await must(git.host, "rm", "-f", "--", file, f"{file}.lock")
    given = "".join(f"{line}\n" for line in lines).encode()
    await git.run("bundle", "create", "--quiet", file, "--stdin", stdin=given)


async def ship(git: Git, repository: Repository, worktree: Worktree) -> Shipment:
    """Say what the other side has to know; it begins where the child's branch stands, if it does.

    Raises GitFailed.
    """
    common = await git.run("rev-parse", "--path-format=absolute", "--git-common-dir")
    start = await git.find(BRANCHES + worktree.slug) or worktree.snapshot_commit
    name, mail = [await git.ask("config", f"user.{key}") for key in ("name", "email")]
    return Shipment(
        key=repository_key(common),
        slug=worktree.slug,
        prefix=repository.prefix,
        start=start,
        format=await git.run("rev-parse", "--show-object-format"),
        author=(
            name.output.decode(errors="replace").strip(),
            mail.output.decode(errors="replace").strip(),
        ),
    )


async def offer(git: Git, start: str) -> tuple[str, ...]:
    """Name commits that the other side may have: those before the start, and earlier snapshots."""
    before = (await git.run("rev-list", f"--max-count={_OFFERED}", start)).split()
    earlier = (await git.run("for-each-ref", "--format=%(objectname)", BASES)).split()
    return tuple(dict.fromkeys((*before, *earlier[-_OFFERED:])))


async def pack(git: Git, slug: str, start: str, known: Sequence[str], file: str) -> bool:
    """Write what leads to the start, but for what is known there; False if nothing is missing.

    Whatever is known there is one of the commits that were offered.

    Raises GitFailed.
    """
    if start in known:
        return False
    branch = await git.find(BRANCHES + slug)
    ref = BRANCHES + slug if branch == start else BASES + slug
    await write_bundle(git, file, [ref, *(f"^{one}" for one in known)])
    return True


async def unpack(git: Git, worktree: Worktree, file: str, tip: str) -> None:
    """Let the child's branch have what came back; nothing else changes.

    Raises GitFailed.
    """
    slug, start = worktree.slug, worktree.snapshot_commit
    await _free_refs(git, slug)
    checks = ("-c", "fetch.fsckObjects=true")
    quiet = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance")
    await git.run(*checks, "fetch", *quiet, file, f"{RESULTS}{slug}:{BRANCHES}{slug}")
    if await git.find(BRANCHES + slug) != tip:
        raise GitFailed(f"what came back for prong/{slug} is not what was announced ({tip[:12]})")
    await git.run("update-ref", BASES + slug, start)


async def note_arrival(git: Git, worktree: Worktree) -> None:
    """Forget that work is elsewhere: all of it is here, also if its workspace stays there."""
    await git.ask("update-ref", "-d", AWAY + worktree.slug)


async def settle(git: Git, worktree: Worktree, *, unchanged: bool) -> None:
    """Forget that a workspace is elsewhere; its name is free again if nothing was done there."""
    await note_arrival(git, worktree)
    await git.ask("update-ref", "-d", REMOTES + worktree.slug)
    if unchanged and not await git.find(BRANCHES + worktree.slug):
        await git.ask("update-ref", "-d", BASES + worktree.slug, worktree.snapshot_commit)
