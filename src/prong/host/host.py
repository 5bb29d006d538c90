"""The door to files and processes.

An agent touches the world only through its host: a root folder, files, processes. A worktree is a
host with another root, a test uses one in memory. Paths are absolute strings; `resolve` follows
symbolic links, so that what is checked is what is used.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Literal, Protocol, TypeAlias

import msgspec

from prong.host.sandbox import NONE, Ability, Profile

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

    def exit_output(self) -> str:
        """Give what its shell printed `at_exit`, the first time that it is asked."""
        ...

    def leave(self) -> Sequence[str]:
        """See to what is left after its end; gives what a sandbox had to undo, a sentence each."""
        ...


class Sink(Protocol):
    """A file that grows."""

    @property
    def path(self) -> str:
        """Where it is, for the host to read."""
        ...

    def write(self, data: bytes) -> None:
        """Add to it.

        Raises OSError.
        """
        ...

    def close(self) -> None:
        """Let go of it; the file stays.

        Raises OSError.
        """
        ...


class Storage(Protocol):
    """The session's own folder, outside the project, for what is too large for a conversation."""

    @property
    def path(self) -> str:
        """Where it is; empty if there is none."""
        ...

    def write(self, name: str, data: bytes) -> str:
        """Keep a file under a name, in place of one that was there; gives its path.

        Raises OSError.
        """
        ...

    def create(self, prefix: str) -> Sink:
        """Begin a text file with a name of its own that begins so.

        Raises OSError.
        """
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

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables that processes start with, before any are added."""
        ...

    @property
    def storage(self) -> Storage:
        """Where large results are kept; `read` reads them."""
        ...

    @property
    def ability(self) -> Ability:
        """What the profiles of commands are held to here."""
        ...

    @property
    def inherited(self) -> tuple[str, ...]:
        """Folders of forebears: a path in one of them means the same place below the bounds."""
        ...

    def at(
        self,
        root: str,
        *,
        bounds: str = "",
        inherited: Sequence[str] = (),
        folders: Sequence[str] = (),
    ) -> Host:
        """Give a host that works in `root` and writes below `bounds` (default: the root) alone.

        A path in one of the `inherited` folders is moved there; `folders` and the storage may be
        written too. It has this one's home, and withholds what this one does.
        """
        ...

    def unconfined(self) -> Host:
        """Give a host of the same root without bounds: itself, if it has none."""
        ...

    async def close(self) -> None:
        """End everything that was started here and still runs."""
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
        self,
        command: str,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        profile: Profile = NONE,
        at_exit: str = "",
    ) -> Process:
        """Start a bash command line in a process group of its own, standard input closed.

        It is held to a profile as far as `ability` says, for all that it starts. `at_exit` is run
        by its shell when that ends by itself; what it prints is kept apart for `exit_output`.

        Raises OSError if it cannot be started, or not be held so far.
        """
        ...
