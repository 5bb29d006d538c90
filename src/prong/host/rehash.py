"""Whether objects of git are what their names say.

An object's name is the hash of what it holds. Git believes the name: it reads whatever lies there,
and most of its commands look no further. Children in worktrees write single objects of the
repository that all share, and so can put something else in the place of one.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping

from prong.host.git import Git, names

_BATCH = 16 << 20
"""Bytes that are held at once; a larger object is read piece by piece."""
_LINK = "160000"
"""The mode of a submodule, whose commit is in another repository."""
# Who has replaced objects by leave means the others.
_ENV = ("GIT_NO_REPLACE_OBJECTS=1",)


async def brought(git: Git, base: str, tip: str) -> tuple[str, ...]:
    """Name the objects that come with a commit and not with the one it started from.

    Raises GitFailed, also if one of them cannot be read.
    """
    words = ("rev-list", "--objects", "--no-object-names", tip, f"^{base}")
    return tuple((await git.run(*words, env=_ENV)).split())


async def written(git: Git, old: str, new: str) -> tuple[str, ...]:
    """Name the objects in which one tree differs from another, wherever they were before.

    Raises GitFailed, also if one of them cannot be read.
    """
    words = ("diff-tree", "-r", "-t", "-z", "--raw", "--no-abbrev", "--no-renames", old, new)
    told = names(await git.run(*words, env=_ENV))[::2]
    # ":100644 100644 <old> <new> M"; of what is gone, the new one is all zeros.
    entries = (line.split(" ") for line in told)
    found = (one[3] for one in entries if one[1] != _LINK and one[3].strip("0"))
    return (new, *found) if old != new else ()


async def altered(git: Git, ids: Iterable[str]) -> tuple[str, ...]:
    """Name those objects that are gone or hold something else than their names say."""
    wanted = tuple(dict.fromkeys(ids))
    if not wanted:
        return ()
    known = await _sizes(git, wanted)
    good = set[str]()
    for batch in _batches(known):
        good.update([one async for one in _genuine(git, batch, known)])
    return tuple(one for one in wanted if one not in good)


async def _sizes(git: Git, wanted: Iterable[str]) -> dict[str, tuple[str, int]]:
    """Give kind and size of the objects that are there and can be read."""
    stdin = "\n".join(wanted).encode()
    ended = await git.ask("cat-file", "--batch-check", "--buffer", stdin=stdin, env=_ENV)
    told = (line.split(" ") for line in ended.output.decode().splitlines())
    return {one[0]: (one[1], int(one[2])) for one in told if len(one) == 3}


def _batches(known: Mapping[str, tuple[str, int]]) -> Iterator[list[str]]:
    """Put together what is read at once; what is too large for that is alone."""
    batch, held = list[str](), 0
    for one, (_, size) in known.items():
        if batch and held + size > _BATCH:
            yield batch
            batch, held = [], 0
        batch.append(one)
        held += size
    if batch:
        yield batch


async def _genuine(
    git: Git, batch: list[str], known: Mapping[str, tuple[str, int]]
) -> AsyncIterator[str]:
    """Yield those of a batch that are what their names say."""
    if known[batch[0]][1] > _BATCH:
        kind, size = known[batch[0]]
        digest = _begin(batch[0], kind, size)
        async for chunk in git.stream("cat-file", kind, batch[0], env=_ENV):
            digest.update(chunk)
        if digest.hexdigest() == batch[0]:
            yield batch[0]
        return
    ended = await git.ask(
        "cat-file", "--batch", "--buffer", stdin="\n".join(batch).encode(), env=_ENV
    )
    data, at = ended.output, 0
    for one in batch:
        kind, size = known[one]
        header = f"{one} {kind} {size}\n".encode()
        if not data.startswith(header, at):
            # It was put there since, or git has stopped at one that cannot be read.
            return
        at += len(header)
        digest = _begin(one, kind, size)
        digest.update(memoryview(data)[at : at + size])
        if digest.hexdigest() == one:
            yield one
        at += size + 1


def _begin(name: str, kind: str, size: int) -> hashlib._Hash:
    method = "sha1" if len(name) == 40 else "sha256"
    return hashlib.new(method, f"{kind} {size}\0".encode(), usedforsecurity=False)
