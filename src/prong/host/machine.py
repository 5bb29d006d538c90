"""Files and processes of the real machine.

`LocalHost` works on them freely, `ConfinedHost` within bounds; both are made of this.
"""

from __future__ import annotations

import errno
import os
import stat as modes
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import ParamSpec, TypeVar

import anyio
import anyio.to_thread

from prong.host import process
from prong.host.guardian import GUARDIAN
from prong.host.host import FileKind, Finished, Process, Stat
from prong.host.sandbox import NONE, Ability, Profile
from prong.host.sandbox.places import NAMING
from prong.host.sandbox.room import Room, allowed, dissolve, furnish
from prong.host.sandbox.starter import STARTER
from prong.host.storage import LocalStorage
from prong.system.descriptor import copy_rights, is_link, open_own, open_unlinked
from prong.system.path_form import from_shell, normal_path, real_path, user_home, why_refused

INLINE = 1 << 20
"""Bytes up to which files are handled on the spot: a thread costs more than it saves."""

P = ParamSpec("P")
T = TypeVar("T")


class Machine:
    """Files and processes of this machine, below a root."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        home: str | None = None,
        *,
        withhold: Collection[str] = (),
        storage: str = "",
        warn: Callable[[str], None] | None = None,
        ability: Ability | None = None,
    ) -> None:
        """Work in a folder; the home folder is the user's unless another is given.

        No process that is started here sees the environment variables to withhold. `storage` is a
        folder for what is too large for a conversation; without one it is cut. `warn` is told if
        what is started here would outlive a killed Prong. `ability` is what a sandbox shall use,
        if that is not all that this system has.
        """
        self._root = real_path(root)
        self._home = home or user_home()
        self.withheld = frozenset(withhold)
        """Environment variables that processes do not see."""
        self.warn = warn
        """Told if what is started here would outlive a killed Prong."""
        self._storage = LocalStorage(storage)
        self._ability = ability
        self._groups: list[process.Group] = []
        self._lingering: list[Room] = []
        GUARDIAN.hold(self)

    @property
    def root(self) -> str:
        """The folder the agent works in, absolute and resolved."""
        return self._root

    @property
    def home(self) -> str:
        """The user's home folder."""
        return self._home

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables that processes start with."""
        return _Environment(self.withheld)

    @property
    def storage(self) -> LocalStorage:
        """Where large results are kept."""
        return self._storage

    @property
    def ability(self) -> Ability:
        """What the profiles of commands are held to here, found out when it is first asked for."""
        if self._ability is None:
            # Most sessions never run a command.
            from prong.host.sandbox.ability import detect

            self._ability = detect()
        return self._ability

    def resolve(self, path: str) -> str:
        """Find the file that a path means: as it is, there is nothing to move here."""
        return self.follow(path)

    def follow(self, path: str) -> str:
        """Make a path absolute (`~` and the root applied) and follow symbolic links.

        A path that no file can have (a NUL in it) is only made absolute, and one that cannot be
        judged by its text (on Windows) stays as it is; using either raises OSError.
        """
        if path == "~" or path.startswith("~/"):
            path = self._home + path[1:]
        path = from_shell(path)
        if why_refused(path):
            return path
        whole = os.path.join(self._root, path)  # noqa: PTH118 - strings throughout
        try:
            return real_path(whole)
        except ValueError:
            return normal_path(whole)

    async def stat(self, path: str) -> Stat | None:
        """Say what is there; None if nothing is."""
        try:
            found = _checked(os.stat, _usable(self.resolve(path)))
        except (FileNotFoundError, NotADirectoryError):
            return None
        executable = modes.S_ISREG(found.st_mode) and bool(found.st_mode & 0o111)
        return Stat(_kind(found.st_mode), found.st_size, found.st_mtime, executable)

    async def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        """Read a file from byte `offset` on, at most `limit` bytes of it."""
        fd, size = _checked(_open, _usable(self.resolve(path)))
        try:
            if min(size - offset, size if limit is None else limit) <= INLINE:
                return _read(fd, offset, limit)
            return await anyio.to_thread.run_sync(_read, fd, offset, limit)
        finally:
            os.close(fd)

    async def write(self, path: str, data: bytes) -> None:
        """Replace a file in one step, keeping its permission bits; makes missing folders."""
        target = _usable(self.resolve(path))
        allowed(target)
        if len(data) <= INLINE:
            _checked(_replace, target, data)
        else:
            await anyio.to_thread.run_sync(lambda: _checked(_replace, target, data))

    async def list(self, path: str) -> list[str]:
        """Name what a folder holds, sorted."""
        return sorted(_checked(os.listdir, _usable(self.resolve(path))))

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
        """Run a program to its end, or for so many seconds; standard error is kept apart."""
        group, out, err = process.launch(
            argv, cwd=cwd or self._root, env=env, stdin=stdin, withhold=self.withheld
        )
        self._keep(group)
        return await process.collect(group, out, err, seconds=seconds, limit=limit)

    async def start(
        self,
        command: str,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        profile: Profile = NONE,
        at_exit: str = "",
    ) -> Process:
        """Start a bash command line in a process group of its own, standard input closed."""
        cwd = cwd or self._root
        if profile.name == "none" or not self.ability.some:
            started = process.start(
                command, cwd=cwd, env=env, withhold=self.withheld, at_exit=at_exit
            )
        else:
            own = env or {}
            sockets = {name: own.get(name, self.environment.get(name, "")) for name in NAMING}
            room = self._furnish(profile, cwd, sockets)
            own = {**own, **({"TMPDIR": room.temp} if room.temp else {})}
            started = process.start(
                command, cwd=cwd, env=own, withhold=self.withheld, room=room, at_exit=at_exit
            )
        self._keep(started.group)
        return started

    def _furnish(self, profile: Profile, cwd: str, env: Mapping[str, str]) -> Room:
        return furnish(
            profile,
            self.ability,
            cwd=cwd,
            env=env,
            home=self._home,
            aside=f"{self._storage.path or '/tmp'}/taken",  # noqa: S108 - as a last resort
            lingering=self._lingering,
        )

    def _keep(self, group: process.Group) -> None:
        GUARDIAN.hold(self)
        self._groups = [g for g in self._groups if not g.exited.is_set() or g.alive()]
        self._groups.append(group)

    async def close(self) -> None:
        """End every process group that was started here and still lives, and what left them."""
        async with anyio.create_task_group() as tasks:
            for group in self._groups:
                tasks.start_soon(group.kill)
        self._groups = []
        for text in await dissolve(self._lingering):
            if self.warn is not None:
                self.warn(text)
        GUARDIAN.release(self)
        if GUARDIAN.idle:
            STARTER.end()


class _Environment(Mapping[str, str]):
    """Our own environment as it is, less some variables."""

    def __init__(self, withheld: Collection[str]) -> None:
        self._withheld = withheld

    def __getitem__(self, name: str) -> str:
        if name in self._withheld:
            raise KeyError(name)
        return os.environ[name]

    def __iter__(self) -> Iterator[str]:
        return (name for name in os.environ if name not in self._withheld)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _kind(mode: int) -> FileKind:
    if modes.S_ISREG(mode):
        return "file"
    return "folder" if modes.S_ISDIR(mode) else "other"


def _checked(use: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call with a path that may hold what no path can hold.

    Raises OSError.
    """
    try:
        return use(*args, **kwargs)
    except ValueError as error:
        raise OSError(errno.EINVAL, f"not a possible path: {error}") from error


def _usable(path: str) -> str:
    """Give a path back that is about to be used.

    Raises OSError if nobody can tell by its text what it names.
    """
    if why := why_refused(path):
        raise OSError(errno.EINVAL, f"not used, as {why}", path)
    return path


def _open(path: str) -> tuple[int, int]:
    """Open a regular file without following a link or waiting for a pipe's writer."""
    _regular(path, os.lstat(path))
    fd = open_unlinked(path, os.O_RDONLY)
    try:
        found = os.fstat(fd)
        _regular(path, found)
    except BaseException:
        os.close(fd)
        raise
    return fd, found.st_size


def _regular(path: str, found: os.stat_result) -> None:
    if modes.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if is_link(found):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
    if not modes.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "Not a regular file", path)


def _read(fd: int, offset: int, limit: int | None) -> bytes:
    if offset:
        os.lseek(fd, offset, os.SEEK_SET)
    size = max(os.fstat(fd).st_size - offset, 0)
    chunks: list[bytes] = []
    left = limit
    # Until the end and not just the size: files under /proc have none, others may be growing.
    while left is None or left > 0:
        chunk = os.read(fd, min(left or INLINE, max(size + 1, 1 << 16)))
        if not chunk:
            break
        chunks.append(chunk)
        left = None if left is None else left - len(chunk)
    return b"".join(chunks)


def _replace(target: str, data: bytes) -> None:
    try:
        old = os.lstat(target)
    except FileNotFoundError:
        old = None
    if old is not None:
        # A replacement must respect what writing in place would have respected.
        _regular(target, old)
        if not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), target)
    folder = os.path.dirname(target)  # noqa: PTH120 - strings throughout
    os.makedirs(folder, exist_ok=True)  # noqa: PTH103 - strings throughout
    temporary = f"{folder}/.prong-{os.urandom(8).hex()}.tmp"
    fd = open_own(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(fd, "wb", buffering=0) as file:
            view = memoryview(data)
            while view:
                view = view[file.write(view) :]
            if old is not None:
                copy_rights(fd, old.st_mode, (old.st_uid, old.st_gid))
        os.replace(temporary, target)  # noqa: PTH105 - strings throughout
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)  # noqa: PTH108 - strings throughout
        raise
