"""A child's workspace on the machine that it was sent to, made of bundles and given back as one.

Of each repository that was sent here there is one copy, without files of its own, which knows every
commit that has come; so each next child costs what has changed. Workspaces are worktrees of it,
laid out like those of a project at home, and work in them is never deleted before it has arrived.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import msgspec

from prong.errors import BadInput, NotPossibleNow
from prong.host import owner
from prong.host.bundle import RESULTS, Shipment, write_bundle
from prong.host.git import Git, legible, locate, must, names
from prong.host.lease import RunLease
from prong.host.local_host import LocalHost
from prong.host.private import make_private
from prong.host.remains import examine, remove_folder
from prong.host.residue import Unfit, followed, gather, own_folder
from prong.host.slug import check_slug
from prong.host.stale_lock import free_locks
from prong.host.worktree import (
    BASES,
    BRANCHES,
    FOLDER,
    WorktreeInfo,
    abandon,
    listed,
    making,
    unfinished,
)
from prong.system.descriptor import open_own
from prong.system.file_lock import try_lock
from prong.system.identity import user_id

_PATIENCE = 30.0
"""Seconds until a worker that has lost its lease must have ended."""

_NOTICED = 5.0
"""Seconds until it must have noticed, if it cannot be seen from here."""

_FORSAKEN = 3600.0
"""Seconds after which nobody goes on writing a pack."""


class PlacedWorkspace(msgspec.Struct, frozen=True, kw_only=True):
    """A workspace that is there."""

    path: str
    cwd: str
    parent: str
    """The copy of the repository that it is a worktree of."""
    git: str
    """Its own part of that."""
    common: str
    storage: str
    """For what is too large for a conversation."""
    fresh: bool
    """Whether it was made just now."""


class Harvest(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to give back."""

    tip: str
    """Empty if nothing was done."""
    commits: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    why: str = ""
    """Why the workspace is kept all the same; empty if it may go once all has arrived."""


class RemoteWorkspace:
    """One workspace, wherever it is on its way."""

    def __init__(self, folder: str, home: str, shipment: Shipment) -> None:
        """Take the folder for all copies; `~` in it is the home folder.

        Raises BadInput if a name could not be one of ours, NotPossibleNow if the folder is not
        ours to write in, OSError if there can be none.
        """
        if not re.fullmatch(r"[0-9a-f]{16}", shipment.key):
            raise BadInput(f"{shipment.key!r} does not name a repository")
        slug = check_slug(shipment.slug)
        base = home + folder[1:] if folder.startswith("~/") else folder
        top = Path(base, shipment.key)
        try:
            make_private(top)
        except PermissionError as error:
            raise NotPossibleNow(
                f"user {user_id()} there cannot write in {base}: let it be that user's"
            ) from error
        self._top = str(top.resolve())
        self._shipment = shipment
        self.host = LocalHost(self._top, home)
        self._git = Git(self.host, self._top, env=("GIT_LFS_SKIP_SMUDGE=1",))
        self._path = f"{self._top}/{FOLDER}/{slug}"
        self.bundle = f"{self._top}/.prong/{slug}.bundle"
        """The file for what comes and goes."""

    def lease(self, number: int) -> RunLease:
        """Give the lease of the workspace, not yet taken."""
        return RunLease(f"{self._top}/.prong/lease/{self._shipment.slug}", number)

    @asynccontextmanager
    async def alone(self) -> AsyncGenerator[None, None]:
        """Be the only process that changes the copy of the repository.

        Siblings that come together wait here for the first, and find what it was sent.
        """
        folder = f"{self._top}/.prong"
        await must(self.host, "mkdir", "-p", "--", folder)
        lock = open_own(f"{folder}/lock", os.O_RDWR | os.O_CREAT)
        try:
            while not try_lock(lock):  # noqa: ASYNC110 - another process tells nobody
                await anyio.sleep(0.05)
            yield
        finally:
            os.close(lock)

    async def open(self, offered: Sequence[str]) -> tuple[str, ...]:
        """Make the copy of the repository if there is none; gives which commits it knows.

        Raises GitFailed.
        """
        git, given = self._git, self._shipment
        if await self.host.stat(f"{self._top}/.git/HEAD") is None:
            # Elsewhere first, so that a kill leaves none that is half made.
            fresh = f"{self._top}/.prong/fresh"
            await must(self.host, "rm", "-rf", "--", fresh, f"{self._top}/.git")
            kind = f"--object-format={given.format}"
            await git.run("init", "--quiet", "--template=", kind, "--", fresh)
            await must(self.host, "mv", "--", f"{fresh}/.git", self._top)
        await free_locks(self.host, self._locks())
        self._drop_packs()
        for key, value in zip(("name", "email"), given.author, strict=True):
            if value:
                await git.run("config", f"user.{key}", value)
        await must(self.host, "mkdir", "-p", "--", f"{self._top}/{FOLDER}")
        # Not every object that lies here is whole; what refs lead to is.
        there = set((await git.run("rev-list", "--all")).split())
        return tuple(one for one in offered if one in there)

    async def place(self, *, bundled: bool) -> PlacedWorkspace:
        """Make the workspace, or find it as it was left.

        Raises GitFailed.
        """
        git, given = self._git, self._shipment
        slug, start = given.slug, given.start
        fresh = await self._is_free()
        if bundled:
            quiet = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance")
            (line,) = (await git.run("bundle", "list-heads", self.bundle)).splitlines()
            ref = line.partition(" ")[2]
            await git.run("fetch", *quiet, self.bundle, f"+{ref}:{BASES}{slug}")
        else:
            # Also of one that is found: what it had done before has arrived, and it is told apart
            # from another child's by where it began.
            await git.run("update-ref", BASES + slug, start)
        if fresh:
            # Whoever had locked it has no folder to work in any more.
            await git.ask("worktree", "unlock", self._path)
            await git.ask("worktree", "prune")
            add = ("worktree", "add", "--quiet", "-B", f"prong/{slug}")
            await git.run("update-ref", making() + slug, start)
            await git.run(*add, self._path, start)
            await git.run("update-ref", "-d", making() + slug)
        await must(self.host, "mkdir", "-p", "--", self.cwd)
        own, common = await own_folder(git, self._path)
        storage = f"{self._top}/.prong/storage/{slug}"
        make_private(Path(storage))
        return PlacedWorkspace(
            path=self._path,
            cwd=self.cwd,
            parent=self._top,
            git=own,
            common=common,
            storage=storage,
            fresh=fresh,
        )

    async def _is_free(self) -> bool:
        """Whether there is no workspace of this child yet; an unused one of another makes way.

        Raises NotPossibleNow if another's is in the way and there is work in it.
        """
        git, slug, start = self._git, self._shipment.slug, self._shipment.start
        if begun := (await unfinished(git)).get(slug):
            await abandon(git, self._path, begun)
            if slug in await unfinished(git):
                # Were it made anew, it would count as not complete again.
                raise NotPossibleNow(f"what is left of {self._path} cannot be removed")
        if await self.host.stat(f"{self._path}/.git") is None:
            return True
        base = await git.find(BASES + slug)
        if start in {base, await Git(self.host, self._path).find("HEAD")}:
            return False
        found = await examine(self.host, self._path, f"prong/{slug}", base, self._top)
        if found.why or not await remove_folder(git, self._path):
            raise NotPossibleNow(
                f"{self._path} holds what another child left there ({found.why}): look at it, and "
                "remove it by 'git worktree remove'"
            )
        return True

    def _locks(self, own: str = "") -> list[str]:
        """Name the locks that may stand on the copy, and on what is this workspace's in it.

        Workspaces change the same files, as their children use git, but never for long. Those in
        its own git folder, if that is given, are nobody's but its holder's.
        """
        folder = Path(self._top, ".git")
        names = ("config", "packed-refs", "shallow", "HEAD", BRANCHES + self._shipment.slug)
        ours = (folder / "refs/prong").rglob("*.lock")
        inside = Path(own).glob("*.lock") if own else ()
        return [*(f"{folder}/{name}.lock" for name in names), *map(str, (*ours, *inside))]

    def _drop_packs(self) -> None:
        """Remove what was received of packs by a git that was killed long ago."""
        for file in Path(self._top, ".git/objects/pack").glob("tmp_*"):
            with suppress(FileNotFoundError):
                if time.time() - file.stat().st_mtime > _FORSAKEN:
                    file.unlink()

    @property
    def cwd(self) -> str:
        """The folder in it that the parent worked in."""
        return f"{self._path}/{self._shipment.prefix}".rstrip("/")

    @asynccontextmanager
    async def held(self) -> AsyncGenerator[None, None]:
        """Be the only one that works there, in this process and in all others of this machine.

        Raises NotPossibleNow if another does not end, or the workspace is gone.
        """
        folder = Path(self._top, ".prong", "held")
        make_private(folder)
        lock = open_own(folder / self._shipment.slug, os.O_RDWR | os.O_CREAT)
        try:
            with anyio.move_on_after(_PATIENCE) as scope:
                while not try_lock(lock):  # noqa: ASYNC110 - another process tells nobody
                    await anyio.sleep(0.05)
            if scope.cancelled_caught:
                raise NotPossibleNow(f"an earlier run works in {self._path} and does not end")
            await self._enter()
            try:
                yield
            finally:
                # This process may live on, and git's lock names the process.
                with anyio.CancelScope(shield=True):
                    await self._git.ask("worktree", "unlock", self._path)
        finally:
            os.close(lock)

    async def _enter(self) -> None:
        """Wait until no process elsewhere works there, and let it be known that this one does.

        Raises NotPossibleNow if another does not end, or the workspace is gone.
        """
        begun = anyio.current_time()
        while (waited := anyio.current_time() - begun) < _PATIENCE:
            place = await self._find()
            # One on another machine, or in another container, has lost its lease by now.
            stranger = owner.is_elsewhere(place.holder) and waited > _NOTICED
            if not place.running or stranger or place.holder == owner.reason():
                await self._git.ask("worktree", "unlock", self._path)
                lock = ("worktree", "lock", "--reason", owner.reason())
                await self._git.run(*lock, self._path)
                own, _ = await own_folder(self._git, self._path)
                await free_locks(self.host, self._locks(own))
                return
            await anyio.sleep(0.2)
        raise NotPossibleNow(f"another process works in {self._path} and does not end")

    async def _find(self) -> WorktreeInfo:
        """Look at the workspace; one that was being removed is not there, whatever is left of it.

        Raises NotPossibleNow.
        """
        places = [one for one in await listed(self._git) if one.path == self._path]
        begun = self._shipment.slug in await unfinished(self._git)
        if not places or begun or await self.host.stat(self._path) is None:
            raise NotPossibleNow(f"the workspace {self._path} is not there any more")
        return places[0]

    async def harvest(self, since: str) -> Harvest:
        """Commit what was left, and bundle what was done since a commit that the session has.

        Raises GitFailed.
        """
        git, slug = self._git, self._shipment.slug
        inside = Git(self.host, self._path)
        tip = await inside.run("rev-parse", "HEAD")
        repository = await locate(self.host, self._top)
        left, why = await gather(git, repository, self._path, slug, tip), ""
        if isinstance(left, Unfit):
            why = left.remedy
        elif left is not None:
            async with followed(git, repository, [left]):
                moves = ("update-ref", "--no-deref", "HEAD", left.commit, tip)
                if (await inside.ask("symbolic-ref", "--quiet", "HEAD")).code == 0:
                    moves = ("update-ref", "HEAD", left.commit, tip)
                await inside.run(*moves)
            tip = left.commit
        branch = f"prong/{slug}"
        why = why or (await examine(self.host, self._path, branch, tip, self._top)).why
        await git.run("update-ref", RESULTS + slug, tip)
        commits = (await git.run("rev-list", "--reverse", tip, f"^{since}")).split()
        if not commits and tip == since:
            return Harvest(tip="", why=why)
        changed = ("diff", "--no-renames", "--name-only", "-z", since, tip)
        files = tuple(legible(name) for name in names(await git.run(*changed)))
        await write_bundle(git, self.bundle, [RESULTS + slug, f"^{since}"])
        return Harvest(tip=tip, commits=tuple(commits), files=files, why=why)

    async def leave(self, *, remove: bool) -> bool:
        """Let go of the workspace, whose work has arrived; gives whether it is gone."""
        git, slug = self._git, self._shipment.slug
        await git.ask("worktree", "unlock", self._path)
        await must(self.host, "rm", "-f", "--", self.bundle)
        if not remove or not await remove_folder(git, self._path):
            return False
        for ref in (BRANCHES + slug, RESULTS + slug):
            await git.ask("update-ref", "-d", ref)
        own = [f"{self._top}/.prong/{kind}/{slug}" for kind in ("storage", "held")]
        await self.host.run(["rm", "-rf", "--", *own])
        return True

    async def destroy(self) -> None:
        """Remove the copy of the repository and all that is in it: it was made for a trial."""
        await must(self.host, "rm", "-rf", "--", self._top)
