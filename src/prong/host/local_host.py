"""The real machine as a host: as free as the user, or confined to a worktree.

A child in a worktree works there, and writes nowhere else. It inherits a conversation full of its
parent's paths. A path in the parent's folder is taken to mean the same place in the worktree, so
that nothing of the parent's is read by mistake for the child's own, let alone written. What leads
elsewhere may be read, if the policy has it so, but not written, save in folders that are named.

Links are followed before the check. Between check and use nothing may change the meaning of a path:
a file is reached from the worktree's own folder, part by part, without following any link.

Paths are compared exactly. Where case does not matter, a path in another case is refused and not
let out.
"""

from __future__ import annotations

import errno
import os
import stat as modes
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

import anyio.to_thread

from prong.host.git import INHERITED
from prong.host.host import Finished, Host, Process, Stat
from prong.host.machine import INLINE, Machine
from prong.host.sandbox import NONE, Ability, Profile
from prong.host.write_bounds import WriteBounds, is_inside
from prong.system.descriptor import copy_rights
from prong.system.held_folder import HeldFolder
from prong.system.path_form import normal_path, real_path, why_refused


class LocalHost(Machine):
    """Files and processes of this machine, as free as the user."""

    @property
    def inherited(self) -> tuple[str, ...]:
        """Folders whose paths mean places elsewhere: none here."""
        return ()

    def at(
        self,
        root: str,
        *,
        bounds: str = "",
        inherited: Sequence[str] = (),
        folders: Sequence[str] = (),
    ) -> ConfinedHost:
        """Give a host that works in `root` and writes below `bounds` and in `folders` alone."""
        return ConfinedHost(
            root,
            bounds=bounds,
            inherited=inherited,
            folders=folders,
            home=self.home,
            withhold=self.withheld,
            storage=self.storage.path,
            ability=self._ability,
        )

    def unconfined(self) -> LocalHost:
        """Give itself: it has no bounds."""
        return self


class ConfinedHost(LocalHost):
    """Files and processes of this machine, for a child that writes below its bounds alone."""

    def __init__(
        self,
        root: str,
        *,
        bounds: str = "",
        inherited: Sequence[str] = (),
        folders: Sequence[str] = (),
        home: str | None = None,
        withhold: Collection[str] = (),
        storage: str = "",
        ability: Ability | None = None,
    ) -> None:
        """Work in `root`, which lies in the worktree `bounds` (default: is it).

        `inherited` are the root folders of the working copies of all its forebears; `folders` are
        places outside that may be written; the session's storage is one of them.
        """
        super().__init__(root, home, withhold=withhold, storage=storage, ability=ability)
        opened = (*((storage,) if storage else ()), *folders)
        self._bounds = WriteBounds.of(
            real_path(bounds or root),
            [real_path(folder) for folder in inherited],
            [real_path(folder) for folder in opened],
        )
        assert is_inside(self._root, self._bounds.root)

    @property
    def inherited(self) -> tuple[str, ...]:
        """The root folders of the working copies of its forebears."""
        return self._bounds.inherited

    @property
    def bounds(self) -> str:
        """The root folder of its worktree."""
        return self._bounds.root

    @property
    def folders(self) -> tuple[str, ...]:
        """Places outside that may be written."""
        return self._bounds.folders

    def unconfined(self) -> LocalHost:
        """Give a host without bounds, to make worktrees with: they lie side by side."""
        return LocalHost(
            self.root,
            self.home,
            withhold=self.withheld,
            storage=self.storage.path,
            ability=self._ability,
        )

    def resolve(self, path: str) -> str:
        """Make a path absolute, follow links, and move a forebear's path into the worktree."""
        real = self.follow(path)
        moved = self._bounds.moved(real)
        # Once: what a link in the worktree shares with the parent stays the parent's.
        return real if moved == real else self.follow(moved)

    def _used(self, path: str) -> str:
        """Resolve a path that is about to be used.

        Raises PermissionError if it was checked as one in the worktree and now leads out of it.
        """
        return self._bounds.hold(normal_path(path), self.resolve(path))

    async def stat(self, path: str) -> Stat | None:
        """Say what is there; None if nothing is."""
        return await super().stat(self._used(path))

    async def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        """Read a file from byte `offset` on, at most `limit` bytes of it."""
        return await super().read(self._used(path), offset=offset, limit=limit)

    async def list(self, path: str) -> list[str]:
        """Name what a folder holds, sorted."""
        return await super().list(self._used(path))

    async def write(self, path: str, data: bytes) -> None:
        """Replace a file in one step, keeping its permission bits; makes missing folders.

        Raises OSError, also if it lies outside.
        """
        target = self._used(path)
        if why := why_refused(target):
            raise OSError(errno.EINVAL, f"not used, as {why}", target)
        place = self._bounds.hold_written(target)
        if "\0" in target:
            raise OSError(errno.EINVAL, "not a possible path", target)
        parts = target[len(place.rstrip("/")) + 1 :].split("/")
        if len(data) <= INLINE:
            _replace(place, parts, data)
        else:
            await anyio.to_thread.run_sync(_replace, place, parts, data)

    def _start(self, cwd: str | None) -> str:
        return self._bounds.hold_start(self._used(cwd) if cwd else self._root)

    async def run(
        self,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        seconds: float | None = None,
        limit: int | None = None,
    ) -> Finished:
        """Run a program to its end in the worktree; standard error is kept apart."""
        return await super().run(
            argv, cwd=self._start(cwd), env=env, stdin=stdin, seconds=seconds, limit=limit
        )

    async def start(
        self,
        command: str,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        profile: Profile = NONE,
        at_exit: str = "",
    ) -> Process:
        """Start a bash command line in the worktree, standard input closed."""
        # Prong may run inside a git hook: these would lead the child's git to the parent's folder.
        bound = [name for name in INHERITED if name in os.environ]
        if bound:
            command = f"unset {' '.join(bound)}\n{command}"
        return await super().start(
            command, cwd=self._start(cwd), env=env, profile=profile, at_exit=at_exit
        )


if TYPE_CHECKING:
    _: tuple[Host, Host] = LocalHost("/"), ConfinedHost("/")


def _replace(place: str, parts: Sequence[str], data: bytes) -> None:
    """Write a file below a folder, reached part by part from there without following a link."""
    with ExitStack() as held:
        folder = held.enter_context(HeldFolder(place))
        for part in parts[:-1]:
            with suppress(FileExistsError):
                folder.make(part)
            folder = held.enter_context(folder.enter(part))
        _put(folder, parts[-1], data)


def _put(folder: HeldFolder, name: str, data: bytes) -> None:
    mode = None
    with suppress(FileNotFoundError):
        # Opened for writing, so that what may not be written is not replaced either.
        held = folder.open(name, os.O_WRONLY)
        mode = os.fstat(held).st_mode
        os.close(held)
        if not modes.S_ISREG(mode):
            raise OSError(errno.EINVAL, "Not a regular file", name)
    temporary = f".prong-{os.urandom(8).hex()}.tmp"
    fd = folder.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            if mode is not None:
                copy_rights(fd, mode)
        folder.replace(temporary, name)
    except BaseException:
        with suppress(FileNotFoundError):
            folder.remove(temporary)
        raise
