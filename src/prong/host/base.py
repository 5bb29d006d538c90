"""The door to files and processes.

An agent touches the world only through its host: a root folder, files, processes. A worktree is a
host with another root, a test uses one in memory. Paths are absolute strings; `resolve` follows
symbolic links, so that what is checked is what is used.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Literal, Protocol, TypeAlias

import msgspec

FileKind: TypeAlias = Literal["file", "folder", "other"]


class Stat(msgspec.Struct, frozen=True):
    """What a path is."""

    kind: FileKind
    size: int
    modified: float
    executable: bool = False


class Finished(msgspec.Struct, frozen=True):
    """How a process that was waited for ended."""

    code: int
    """Exit code; negative for the signal that ended it."""
    output: bytes
    """Standard output and, unless they were kept apart, standard error, in order of arrival."""
    errors: bytes = b""
    timed_out: bool = False
    cut: bool = False
    """There was more output than was asked for."""


class Process(Protocol):
    """A running process and everything it started."""

    @property
    def pid(self) -> int:
        """The id of the process, which leads its own process group."""
        ...

    def output(self) -> AsyncIterator[bytes]:
        """Stream what it prints, both streams together."""
        ...

    async def wait(self) -> int:
        """Wait until it has ended; gives the exit code."""
        ...

    async def kill(self) -> None:
        """End it and its whole group: asked first, forced after a moment."""
        ...


class Host(Protocol):
    """Files and processes below a root."""

    @property
    def root(self) -> str:
        """The folder the agent works in, absolute and resolved."""
        ...

    @property
    def home(self) -> str:
        """The user's home folder."""
        ...

    def resolve(self, path: str) -> str:
        """Make a path absolute (`~` and the root applied) and follow symbolic links.

        A host may move a path that means a place elsewhere, as for a child in a worktree.
        """
        ...

    def follow(self, path: str) -> str:
        """Make a path absolute and follow symbolic links, as a process would, and no more."""
        ...

    async def stat(self, path: str) -> Stat | None:
        """Say what is there; None if nothing is.

        Raises OSError if it cannot be told (no leave, for one).
        """
        ...

    async def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        """Read a file from byte `offset` on, at most `limit` bytes of it.

        Raises OSError, also for what is no regular file: a pipe or device could block for ever.
        """
        ...

    async def write(self, path: str, data: bytes) -> None:
        """Replace a file in one step, keeping its permission bits; makes missing folders.

        Raises OSError.
        """
        ...

    async def list(self, path: str) -> list[str]:
        """Name what a folder holds, sorted.

        Raises OSError.
        """
        ...

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
        """Run a program to its end, or for so many seconds; standard error is kept apart.

        It starts in `cwd` or the root, with `env` added to the environment. What it prints past
        `limit` bytes is read and dropped.

        Raises OSError if it cannot be started.
        """
        ...

    async def start(
        self, command: str, *, cwd: str | None = None, env: Mapping[str, str] | None = None
    ) -> Process:
        """Start a bash command line in a process group of its own, standard input closed.

        Raises OSError if it cannot be started.
        """
        ...
