"""A host in memory: files are a dictionary, commands are answered from a table."""

from __future__ import annotations

import errno
import itertools
import os
import posixpath
import shlex
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import anyio
import anyio.lowlevel
import msgspec

from prong.host import Finished, Host, Process, Stat, Storage
from prong.host.sandbox import NONE, Ability, Profile
from prong.host.write_bounds import WriteBounds


class Command(msgspec.Struct, frozen=True):
    """A command that the host was asked to run."""

    line: str
    """The bash command line, or the words of a program quoted for bash."""
    cwd: str
    env: dict[str, str] = {}
    stdin: bytes = b""
    profile: Profile = NONE
    """What it is to be held to."""


Answer: TypeAlias = Finished | bytes | str
"""How a command ends; plain output stands for success."""
Commands: TypeAlias = Mapping[str, Answer] | Callable[[Command], Answer]


class MemoryHost:
    """Files and processes that exist only in a test."""

    def __init__(
        self,
        files: Mapping[str, bytes | str] | None = None,
        commands: Commands | None = None,
        *,
        root: str = "/project",
        home: str = "/home/user",
        links: Mapping[str, str] | None = None,
        readonly: Iterable[str] = (),
        ability: Ability | None = None,
    ) -> None:
        """Hold files by path (relative ones lie below the root), links and read-only paths.

        `ability` is what it says that it holds commands to: nothing, unless it is given.
        """
        self._ability = ability or Ability()
        self._root, self._home = root, home
        self._commands: Commands = {} if commands is None else commands
        self._links = {self._absolute(k): v for k, v in (links or {}).items()}
        self._readonly = {self._absolute(path) for path in readonly}
        self._clock = itertools.count(1)
        self._pids = itertools.count(1001)
        self.files: dict[str, bytes] = {}
        """What the files hold, by absolute path."""
        self._times: dict[str, int] = {}
        self.commands: list[Command] = []
        """What was run or started, in order."""
        self._storage = MemoryStorage(self)
        for path, data in (files or {}).items():
            self.put(path, data)

    @property
    def root(self) -> str:
        """The folder the agent works in."""
        return self._root

    @property
    def home(self) -> str:
        """The user's home folder."""
        return self._home

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables that commands start with: none."""
        return {}

    @property
    def storage(self) -> MemoryStorage:
        """Where large results are kept: among the files."""
        return self._storage

    @property
    def ability(self) -> Ability:
        """What commands are said to be held to."""
        return self._ability

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
    ) -> ConfinedMemoryHost:
        """Give a host of the same files that works in `root` and writes below `bounds` alone."""
        return ConfinedMemoryHost(self, root, bounds or root, inherited, folders)

    def unconfined(self) -> MemoryHost:
        """Give itself: it has no bounds."""
        return self

    async def close(self) -> None:
        """Do nothing: whatever ran here has ended."""

    def _absolute(self, path: str) -> str:
        if path == "~" or path.startswith("~/"):
            path = self._home + path[1:]
        return posixpath.normpath(posixpath.join(self._root, path))

    def put(self, path: str, data: bytes | str) -> None:
        """Place a file, whatever the bounds; a relative path lies below the root."""
        path = self._absolute(path)
        self.files[path] = data.encode() if isinstance(data, str) else data
        self._times[path] = next(self._clock)

    def resolve(self, path: str) -> str:
        """Find the file that a path means: as it is, there is nothing to move here."""
        return self.follow(path)

    def follow(self, path: str) -> str:
        """Make a path absolute and follow symbolic links; a loop of links stays as it is."""
        todo = self._absolute(path).split("/")[:0:-1]
        done, hops = "", 0
        while todo:
            part = todo.pop()
            if part in {"", "."}:
                continue
            done = posixpath.dirname(done) if part == ".." else f"{done.rstrip('/')}/{part}"
            if done in self._links and hops < 40:
                hops += 1
                target = self._links[done]
                todo += target.split("/")[::-1]
                done = "" if target.startswith("/") else posixpath.dirname(done)
        return done or "/"

    def _folder(self, path: str) -> bool:
        below = path.rstrip("/") + "/"
        known = (*self.files, *self._links, self._root + "/", self._home + "/")
        return path == "/" or any(each.startswith(below) for each in known)

    async def stat(self, path: str) -> Stat | None:
        """Say what is there; None if nothing is."""
        path = self._usable(path)
        if path in self.files:
            return Stat("file", len(self.files[path]), float(self._times[path]))
        return Stat("folder", 0, 0.0) if self._folder(path) else None

    def _usable(self, path: str) -> str:
        """Resolve a path that is about to be used.

        Raises OSError.
        """
        path = self.resolve(path)
        if "\0" in path:
            raise _error(errno.EINVAL, path)
        if path in self._links:
            raise _error(errno.ELOOP, path)
        return path

    async def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        """Read a file from byte `offset` on, at most `limit` bytes of it."""
        path = self._usable(path)
        if path not in self.files:
            raise _error(self._why_not(path), path)
        return self.files[path][offset:][:limit]

    def _why_not(self, path: str) -> int:
        if self._folder(path):
            return errno.EISDIR
        return errno.ENOTDIR if self._file_above(path) else errno.ENOENT

    def _file_above(self, path: str) -> bool:
        parents = path.split("/")[1:-1]
        return any("/" + "/".join(parents[: i + 1]) in self.files for i in range(len(parents)))

    async def write(self, path: str, data: bytes) -> None:
        """Replace a file; folders are implied."""
        path = self._usable(path)
        if path not in self.files and self._folder(path):
            raise _error(errno.EISDIR, path)
        if self._file_above(path):
            raise _error(errno.ENOTDIR, path)
        if path in self._readonly:
            raise _error(errno.EACCES, path)
        self.put(path, data)

    async def list(self, path: str) -> list[str]:
        """Name what a folder holds, sorted."""
        path = self._usable(path)
        if path in self.files:
            raise _error(errno.ENOTDIR, path)
        if not self._folder(path):
            raise _error(errno.ENOENT, path)
        below = path.rstrip("/") + "/"
        inside = (each for each in (*self.files, *self._links) if each.startswith(below))
        return sorted({each[len(below) :].split("/")[0] for each in inside})

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
        """Answer a program from the table; time plays no part."""
        del seconds
        await anyio.lowlevel.checkpoint()
        answer = self._answer(Command(shlex.join(argv), self._start(cwd), dict(env or {}), stdin))
        if limit is None:
            return answer
        cut = answer.cut or len(answer.output) > limit or len(answer.errors) > limit
        return msgspec.structs.replace(
            answer, output=answer.output[:limit], errors=answer.errors[:limit], cut=cut
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
        """Answer a command line from the table; it has ended before it is looked at."""
        del at_exit
        await anyio.lowlevel.checkpoint()
        asked = Command(command, self._start(cwd), dict(env or {}), profile=profile)
        return MemoryProcess(next(self._pids), self._answer(asked))

    def _start(self, cwd: str | None) -> str:
        return cwd or self._root

    def _answer(self, command: Command) -> Finished:
        self.commands.append(command)
        if callable(self._commands):
            answer = self._commands(command)
        elif command.line in self._commands:
            answer = self._commands[command.line]
        else:
            raise OSError(errno.ENOENT, f"this host in memory has no answer for {command.line!r}")
        match answer:
            case str():
                return Finished(0, answer.encode())
            case bytes():
                return Finished(0, answer)
            case _:
                return answer


class ConfinedMemoryHost(MemoryHost):
    """The files of a host in memory, for a child that writes below its bounds alone."""

    def __init__(
        self,
        whole: MemoryHost,
        root: str,
        bounds: str,
        inherited: Sequence[str],
        folders: Sequence[str],
    ) -> None:
        """See the files and commands of `whole`; see `Host.at` for the rest."""
        vars(self).update(vars(whole))
        self._whole = whole
        self._root = root
        self._bounds = WriteBounds.of(bounds, inherited, (whole.storage.path, *folders))

    @property
    def inherited(self) -> tuple[str, ...]:
        """The folders of forebears."""
        return self._bounds.inherited

    def unconfined(self) -> MemoryHost:
        """Give a host of the same files and root without bounds."""
        made = MemoryHost()
        vars(made).update(vars(self._whole), _root=self._root)
        return made

    def resolve(self, path: str) -> str:
        """Find the file that a path means; a forebear's is moved below the bounds."""
        real = self.follow(path)
        moved = self._bounds.moved(real)
        return real if moved == real else self.follow(moved)

    def _usable(self, path: str) -> str:
        return self._bounds.hold(posixpath.normpath(path), super()._usable(path))

    def _start(self, cwd: str | None) -> str:
        return self._bounds.hold_start(self._usable(cwd) if cwd else self._root)

    async def write(self, path: str, data: bytes) -> None:
        """Replace a file below the bounds."""
        self._bounds.hold_written(self._usable(path))
        await super().write(path, data)


class MemorySink:
    """A file in memory that grows."""

    def __init__(self, host: MemoryHost, path: str) -> None:
        """Begin it, empty."""
        self._host, self._path = host, path
        host.put(path, b"")

    @property
    def path(self) -> str:
        """Where it is."""
        return self._path

    def write(self, data: bytes) -> None:
        """Add to it."""
        self._host.put(self._path, self._host.files[self._path] + data)

    def close(self) -> None:
        """Do nothing: it stays."""


class MemoryStorage:
    """Large results, kept among the files of a host in memory."""

    def __init__(self, host: MemoryHost, path: str = "/storage") -> None:
        """Keep them below a folder."""
        self._host, self._path = host, path
        self._numbers = itertools.count(1)

    @property
    def path(self) -> str:
        """Where it is."""
        return self._path

    def write(self, name: str, data: bytes) -> str:
        """Keep a file under a name; gives its path."""
        path = f"{self._path}/{name}"
        self._host.put(path, data)
        return path

    def create(self, prefix: str) -> MemorySink:
        """Begin a text file with a name of its own."""
        return MemorySink(self._host, f"{self._path}/{prefix}{next(self._numbers)}.txt")


class MemoryProcess:
    """A process whose end was known from the start."""

    def __init__(self, pid: int, finished: Finished) -> None:
        """Tell of an end."""
        self._pid = pid
        self._finished = finished
        self._left = finished.output + finished.errors

    @property
    def pid(self) -> int:
        """A number that no other process of its host has."""
        return self._pid

    async def output(self) -> AsyncIterator[bytes]:
        """Stream the output in one piece, once."""
        await anyio.lowlevel.checkpoint()
        left, self._left = self._left, b""
        if left:
            yield left

    async def wait(self) -> int:
        """Give the exit code."""
        await anyio.lowlevel.checkpoint()
        return self._finished.code

    async def kill(self) -> None:
        """Do nothing: it has ended."""
        await anyio.lowlevel.checkpoint()

    def exit_output(self) -> str:
        """Give nothing: there was no shell."""
        return ""

    def leave(self) -> list[str]:
        """Do nothing: nothing was made."""
        return []


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)


if TYPE_CHECKING:
    _: tuple[Host, Storage] = MemoryHost(), MemoryStorage(MemoryHost())
