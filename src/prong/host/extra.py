"""What a fresh worktree lacks because git ignores it: heavy folders, and files such as `.env`."""

from __future__ import annotations

import os.path
from collections.abc import Iterable, Sequence

from prong.errors import BadInput, GitFailed
from prong.host.git import Git, complaint, names
from prong.system.path_form import normal_path

LISTING = ".worktreeinclude"
_AT_ONCE = 200
"""Files given to one call of cp."""


async def add_extras(
    git: Git, top: str, path: str, *, link: Sequence[str], include: bool
) -> tuple[str, ...]:
    """Link folders and copy files from one working copy to another; gives what was added.

    Raises UsageError for a folder that leads out of the working copy, and GitFailed.
    """
    linked = await _link(git, top, path, [_checked(name) for name in link])
    if not include or await git.host.stat(f"{top}/{LISTING}") is None:
        return linked
    copied = await _included(git, top)
    free = [name for name in copied if not _is_below(name, linked)]
    await _copy(git, top, path, free)
    return (*linked, *free)


def _checked(name: str) -> str:
    plain = normal_path(name)
    if not name or plain in {".", ".."} or plain.startswith(("/", "../", "-")) or "\0" in plain:
        raise BadInput(f"worktree.symlinkDirectories: {name!r} is no folder inside the project")
    return plain


def _is_below(name: str, folders: Iterable[str]) -> bool:
    return any(name == folder or name.startswith(folder + "/") for folder in folders)


async def _ignored(git: Git, paths: Sequence[str]) -> list[str]:
    """Keep the paths that git ignores."""
    if not paths:
        return []
    # This command alone knows no literal paths: the dot keeps a leading colon from being magic.
    listed = "".join(f"./{path}\0" for path in paths).encode(errors="surrogateescape")
    words = ("check-ignore", "-z", "--stdin")
    ended = await git.ask(*words, stdin=listed, env=["GIT_LITERAL_PATHSPECS=0"])
    if ended.code not in {0, 1}:
        raise GitFailed(f"git check-ignore failed: {complaint(ended)}")
    return [n.removeprefix("./") for n in names(ended.output.decode(errors="surrogateescape"))]


async def _link(git: Git, top: str, path: str, wanted: Sequence[str]) -> tuple[str, ...]:
    host = git.host
    found: list[str] = []
    for name in wanted:
        there = await host.stat(f"{top}/{name}")
        if there is not None and there.kind == "folder":
            found.append(name)
    linked: list[str] = []
    for name in await _ignored(git, found):
        place = f"{path}/{name}"
        # A link in the way could lead out of the worktree.
        if host.resolve(place) != place or await host.stat(place) is not None:
            continue
        await _run(git, "mkdir", "-p", "--", os.path.dirname(place))  # noqa: PTH120 - plain text
        await _run(git, "ln", "-s", "--", f"{top}/{name}", place)
        linked.append(name)
    await _hide(Git(host, path), linked)
    return tuple(linked)


async def _hide(git: Git, linked: Sequence[str]) -> None:
    """Let git ignore the links as it does the folders.

    A pattern such as `node_modules/` is for folders alone and would leave the link to be committed.
    The list goes into the repository's own `info/exclude`, which is no file of the project.
    """
    hidden = set(await _ignored(git, linked))
    lines = [f"/{_quoted(name)}\n" for name in linked if name not in hidden]
    if not lines:
        return
    place = await git.run("rev-parse", "--path-format=absolute", "--git-path", "info/exclude")
    there = await git.host.stat(place) is not None
    old = await git.host.read(place) if there else b""
    gap = b"" if not old or old.endswith(b"\n") else b"\n"
    new = "".join(lines).encode(errors="surrogateescape")
    await git.host.write(place, old + gap + new)


def _quoted(name: str) -> str:
    return "".join(f"\\{char}" if char in "\\*?[ " else char for char in name)


async def _included(git: Git, top: str) -> list[str]:
    """List the files that the project wants copied; only what git ignores counts."""
    words = ("ls-files", "-o", "-i", "-z", f"--exclude-from={top}/{LISTING}")
    found = [name for name in names(await git.run(*words)) if not name.endswith("/")]
    return [n for n in await _ignored(git, found) if not n.startswith(".prong/worktrees/")]


async def _copy(git: Git, top: str, path: str, files: Sequence[str]) -> None:
    folders: dict[str, list[str]] = {}
    for name in files:
        folders.setdefault(name.rpartition("/")[0], []).append(name)
    for folder, held in folders.items():
        place = f"{path}/{folder}".rstrip("/")
        if git.host.resolve(place) != place:
            continue
        await _run(git, "mkdir", "-p", "--", place)
        for first in range(0, len(held), _AT_ONCE):
            sources = [f"{top}/{name}" for name in held[first : first + _AT_ONCE]]
            await _run(git, "cp", "-pP", "--", *sources, place)


async def _run(git: Git, *argv: str) -> None:
    ended = await git.host.run(argv)
    if ended.code != 0:
        raise GitFailed(f"{argv[0]} failed: {complaint(ended)}")
