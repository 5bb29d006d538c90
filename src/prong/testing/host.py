"""A host in memory: files are a dictionary, commands are answered from a table."""

from __future__ import annotations

import errno
import os
import posixpath
import shlex
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import anyio
import anyio.lowlevel
import msgspec

from prong.host import Finished, Host, Process, Stat


class Command(msgspec.Struct, frozen=True):
    """A command that the host was asked to run."""

    line: str
    """The bash command line, or the words of a program quoted for bash."""
    cwd: str
    env: dict[str, str] = {}
    stdin: bytes = b""


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
    ) -> None:
        """Hold files by path (relative ones lie below the root), links and read-only paths."""
        self._root, self._home = root, home
        self._commands: Commands = {} if commands is None else commands
        self._links = {self._absolute(k): v for k, v in (links or {}).items()}
        self._readonly = {self._absolute(path) for path in readonly}
        self._clock = 0
        self._pid = 1000
        self.files: dict[str, bytes] = {}
        """What the files hold, by absolute path."""
        self._times: dict[str, int] = {}
        self.commands: list[Command] = []
        """What was run or started, in order."""
        for path, data in (files or {}).items():
            self._put(self._absolute(path), data.encode() if isinstance(data, str) else data)

    @property
    def root(self) -> str:
        """The folder the agent works in."""
        return self._root

    @property
    def home(self) -> str:
        """The user's home folder."""
        return self._home

    def _absolute(self, path: str) -> str:
        if path == "~" or path.startswith("~/"):
            path = self._home + path[1:]
        return posixpath.normpath(posixpath.join(self._root, path))

    def _put(self, path: str, data: bytes) -> None:
        self._clock += 1
        self.files[path] = data
        self._times[path] = self._clock

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
        self._put(path, data)

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
        answer = self._answer(Command(shlex.join(argv), cwd or self._root, dict(env or {}), stdin))
        if limit is None:
            return answer
        cut = answer.cut or len(answer.output) > limit or len(answer.errors) > limit
        return msgspec.structs.replace(
            answer, output=answer.output[:limit], errors=answer.errors[:limit], cut=cut
        )

    async def start(
        self, command: str, *, cwd: str | None = None, env: Mapping[str, str] | None = None
    ) -> Process:
        """Answer a command line from the table; it has ended before it is looked at."""
        await anyio.lowlevel.checkpoint()
        self._pid += 1
        return MemoryProcess(
            self._pid, self._answer(Command(command, cwd or self._root, dict(env or {})))
        )

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


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)


if TYPE_CHECKING:
    _: Host = MemoryHost()
