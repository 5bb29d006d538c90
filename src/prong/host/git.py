"""Git, called for Prong's own purposes.

Our calls must not be felt: no hook of the user's runs, nothing is signed or asked for, the index is
not refreshed on the side, and variables that a surrounding git left in the environment (Prong may
have been started by a hook) do not point them at another repository.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext

import anyio
import msgspec

from prong.errors import GitFailed, NotInstalled, NotPossibleNow
from prong.host import owner
from prong.host.host import Finished, Host

INHERITED = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_PREFIX",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
)
"""Variables that bind git to one repository."""

_QUIET = (
    *("core.hooksPath=/dev/null", "core.fsmonitor=false", "core.splitIndex=false"),
    *("core.safecrlf=false", "commit.gpgSign=false", "submodule.recurse=false"),
    *("gc.auto=0", "maintenance.auto=false", "advice.detachedHead=false"),
    "checkout.workers=0",  # as many as there are cores; git itself takes one
)
_OPTIONS = tuple(word for option in _QUIET for word in ("-c", option))
_ENV = ("LC_ALL=C", "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0", "GIT_LITERAL_PATHSPECS=1")
_UNSET = tuple(word for name in INHERITED for word in ("-u", name))
_SECOND = r"prong-([0-9a-f]{8}-[0-9]+)-[0-9a-f]{12}\.index(?:\.lock|\.staged)?"
_NOBODY = tuple(
    f"GIT_{role}_{field}={value}"
    for role in ("AUTHOR", "COMMITTER")
    for field, value in (("NAME", "Prong"), ("EMAIL", "prong@localhost"))
)


class Repository(msgspec.Struct, frozen=True):
    """A working copy, as seen from a folder in it."""

    top: str
    """Its root folder."""
    folder: str
    """Its own git folder; of a linked worktree, the one inside the main repository's."""
    prefix: str
    """Where in it we are: empty, or a path that ends with a slash."""
    head: str
    """The commit that is checked out; empty on a branch without any."""


# Git does not guard its list of worktrees: whoever reads it while another process adds one may find
# half of an entry. So additions go one after the other here, and whoever still stumbles over an
# entry, of another program's making, looks again.
_adding = anyio.Lock()
_HALF_MADE = rb"(failed to read|unable to read|could not open).*/worktrees/"
_WAITS = (0.02, 0.05, 0.1, 0.2, 0.4)


class Git:
    """Git in one folder of a host."""

    def __init__(self, host: Host, cwd: str, *, env: Sequence[str] = ()) -> None:
        """Run in a folder; `env` are variables (NAME=value) for every call."""
        self.host = host
        self.cwd = cwd
        self.env = tuple(env)

    async def ask(
        self, *args: str, index: str = "", stdin: bytes = b"", env: Sequence[str] = ()
    ) -> Finished:
        """Run it, whatever comes of it; `index` stands in for the index file."""
        argv = self._argv(args, (*env, *([f"GIT_INDEX_FILE={index}"] if index else ())))
        for wait in _WAITS:
            async with _adding if args[0] == "worktree" else nullcontext():
                ended = await self._run(argv, stdin)
            if ended.code == 0 or not re.search(_HALF_MADE, ended.errors):
                return ended
            await anyio.sleep(wait)
        return await self._run(argv, stdin)

    async def stream(self, *args: str, env: Sequence[str] = ()) -> AsyncIterator[bytes]:
        """Run it and give what it prints piece by piece, complaints among it."""
        import shlex

        process = await self.host.start(shlex.join(self._argv(args, env)), cwd=self.cwd)
        try:
            async for chunk in process.output():
                yield chunk
        finally:
            await process.kill()

    def _argv(self, args: Sequence[str], env: Sequence[str]) -> tuple[str, ...]:
        return ("env", *_UNSET, *_ENV, *self.env, *env, "git", *_OPTIONS, *args)

    async def _run(self, argv: Sequence[str], stdin: bytes) -> Finished:
        try:
            ended = await self.host.run(argv, cwd=self.cwd, stdin=stdin)
        except OSError as error:
            raise NotPossibleNow(f"git cannot be run in {self.cwd}: {error.strerror}") from error
        if ended.code == 127:
            raise NotInstalled("git was not found: install it to work with worktrees")
        return ended

    async def run(
        self, *args: str, index: str = "", stdin: bytes = b"", env: Sequence[str] = ()
    ) -> str:
        """Run it and give what it prints, without the last line's end.

        Raises GitFailed.
        """
        return self.said(args[0], await self.ask(*args, index=index, stdin=stdin, env=env))

    def said(self, command: str, ended: Finished) -> str:
        """Give what a command printed, without the last line's end.

        Raises GitFailed.
        """
        if ended.code != 0:
            raise GitFailed(f"git {command} failed in {self.cwd}: {complaint(ended)}")
        return ended.output.decode(errors="surrogateescape").removesuffix("\n")

    async def find(self, name: str) -> str:
        """Give the commit that a name stands for; empty if none."""
        ended = await self.ask("rev-parse", "--verify", "--quiet", name + "^{commit}")
        return ended.output.decode().strip() if ended.code == 0 else ""

    async def commit(self, tree: str, parents: Sequence[str], message: str) -> str:
        """Make a commit without touching anything; signed by nobody if nobody is known."""
        words = [word for parent in parents for word in ("-p", parent)]
        text = message.encode(errors="surrogateescape")
        ended = await self.ask("commit-tree", tree, *words, stdin=text)
        if ended.code == 0:
            return ended.output.decode().strip()
        return await self.run("commit-tree", tree, *words, stdin=text, env=_NOBODY)


def complaint(ended: Finished) -> str:
    """Give git's own words about a failure."""
    text = (ended.errors or ended.output).decode(errors="replace").strip()
    return text or f"it ended with code {ended.code}"


def names(output: str) -> list[str]:
    """Split what was printed with NULs."""
    return [name for name in output.split("\0") if name]


def legible(name: str) -> str:
    """Write a path so that it can be shown, whatever its bytes are."""
    return name.encode(errors="surrogateescape").decode(errors="replace")


async def locate(host: Host, cwd: str = "") -> Repository:
    """Find the working copy that a folder belongs to.

    Raises UsageError if there is none.
    """
    git = Git(host, cwd or host.root)
    ended = await git.ask(
        "rev-parse", "--path-format=absolute", "--show-toplevel", "--git-dir", "--show-prefix"
    )
    if ended.code != 0:
        raise NotPossibleNow(_no_repository(git.cwd, complaint(ended)))
    lines = ended.output.decode(errors="surrogateescape").removesuffix("\n").split("\n")
    if len(lines) != 3:
        raise NotPossibleNow(f"{git.cwd}: a worktree needs a path without line breaks; move it")
    return Repository(lines[0], lines[1], lines[2], await git.find("HEAD"))


def _no_repository(cwd: str, why: str) -> str:
    if "not a git repository" in why:
        return f"{cwd} is not in a git repository: run 'git init' there, or work without worktrees"
    if "must be run in a work tree" in why:
        return f"{cwd} is in a bare repository or a .git folder: start in a working copy of it"
    return f"git cannot use {cwd}: {why}"


def second_index(repository: Repository) -> str:
    """Give a new name for an index beside the real one, by which a left-over is known."""
    import os

    return f"{repository.folder}/prong-{owner.tag()}-{os.urandom(6).hex()}.index"


@asynccontextmanager
async def working_index(git: Git, repository: Repository) -> AsyncGenerator[str, None]:
    """Lend a second index that holds the files as they are: changed, new, not ignored.

    It starts as a copy of the user's, so unchanged files are known by their times and not read
    again. The copy keeps its own time as well: git compares files with it that may have changed
    in the moment in which the index was written.
    """
    real = f"{repository.folder}/index"
    index = second_index(repository)
    try:
        if await git.host.stat(real) is not None:
            await must(git.host, "cp", "-p", "--", real, index)
        await _take_over(git, index)
        yield index
    finally:
        with anyio.CancelScope(shield=True):
            await git.host.run(["rm", "-f", "--", index, f"{index}.lock"])


async def sweep_indexes(host: Host, repository: Repository) -> None:
    """Remove the second indexes of processes that have ended without doing so."""
    stale = [
        f"{repository.folder}/{name}"
        for name in await host.list(repository.folder)
        if (found := re.fullmatch(_SECOND, name)) and owner.is_gone_tag(found[1])
    ]
    if stale:
        await host.run(["rm", "-f", "--", *stale])


async def _take_over(git: Git, index: str) -> None:
    """Bring an index up to date with the files; nothing is written if nothing changed.

    Files that git knows and files that it does not are looked at side by side.
    """
    looks = (
        ("diff-files", "--name-only", "-z", "--ignore-submodules=dirty"),
        ("ls-files", "-o", "-z", "--exclude-standard"),
    )
    seen: dict[str, Finished] = {}

    async def look(words: tuple[str, ...]) -> None:
        seen[words[0]] = await git.ask(*words, index=index)

    async with anyio.create_task_group() as group:
        for words in looks:
            group.start_soon(look, words)
    # A name that ends with a slash is a repository in its own right: not ours to take in.
    found = (name for words in looks for name in names(git.said(words[0], seen[words[0]])))
    changed = list(dict.fromkeys(name for name in found if not name.endswith("/")))
    if not changed:
        return
    update = ("update-index", "--add", "--remove", "--replace", "-z", "--stdin")
    listed = "".join(f"{name}\0" for name in changed).encode(errors="surrogateescape")
    if (await git.ask(*update, index=index, stdin=listed)).code == 0:
        return
    # A folder stands where a file was, for one: the slower way knows what to do.
    await git.run("add", "--sparse", "-u", "--", ".", index=index)
    new = names(await git.run("ls-files", "-o", "-z", "--exclude-standard", index=index))
    listed = "".join(f"{n}\0" for n in new if not n.endswith("/")).encode(errors="surrogateescape")
    await git.run(*update, index=index, stdin=listed)


async def must(host: Host, *argv: str) -> None:
    """Run a program that has to succeed.

    Raises GitFailed.
    """
    ended = await host.run(argv)
    if ended.code != 0:
        raise GitFailed(f"{argv[0]} failed: {complaint(ended)}")
