"""The one step of a merge, or of taking it back, that changes what the user has.

Files, index and refs cannot change in one moment. So what is about to be done is written down
first, as a commit under `refs/prong/moving/`, one for each working copy, and that ref goes with the
last change of refs, in one transaction. Whoever finds it, with its process gone, puts files and
index back by it: each path that has its new content gets its old one; what the user has changed
since stays. If HEAD has moved already, so have files and index, and only refs are missing.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Literal, TypeAlias

import anyio
import msgspec

from prong.errors import GitFailed, NotPossibleNow
from prong.host import owner
from prong.host.checkout import change_refs, move, read_state
from prong.host.git import (
    Git,
    Repository,
    complaint,
    legible,
    locate,
    names,
    second_index,
    sweep_indexes,
    working_index,
)
from prong.host.host import Host
from prong.host.threeway import UserTrees

_MOVING = "refs/prong/moving/"

MoveKind: TypeAlias = Literal["merge", "undo"]


class UserMove(msgspec.Struct, frozen=True, kw_only=True):
    """A way from one state of the user's to another."""

    kind: MoveKind
    slugs: tuple[str, ...]
    """The children it is about."""
    before: str
    """The commit that is checked out."""
    after: str
    old: UserTrees
    new: UserTrees
    lines: tuple[str, ...]
    """How refs change, besides HEAD, in the words of `git update-ref --stdin`."""


class Recovered(msgspec.Struct, frozen=True):
    """What became of a move that was cut short."""

    kind: MoveKind
    slugs: tuple[str, ...]
    complete: bool
    """It was brought to its end, as nothing but refs was missing; otherwise it was taken back."""
    restored: tuple[str, ...] = ()
    """Files that have their old content again."""
    kept: tuple[str, ...] = ()
    """Files that it would have changed, and that somebody has changed since: left as they are."""


class _HeldMove(msgspec.Struct, frozen=True):
    """A move, as it was written down."""

    holder: str
    move: UserMove


def _ref(repository: Repository) -> str:
    text = repository.folder.encode(errors="surrogateescape")
    return f"{_MOVING}{zlib.crc32(text):08x}"


async def carry_out(git: Git, repository: Repository, index: str, way: UserMove) -> None:
    """Change files, index and refs; what has begun is not broken off.

    Raises GitFailed, and NotPossibleNow; nothing is changed then.
    """
    told = f"prong merge: {'undo' if way.kind == 'undo' else ', '.join(way.slugs)}"
    with anyio.CancelScope(shield=True):
        ref = _ref(repository)
        note = await _write(git, way)
        made = await git.ask("update-ref", "--stdin", stdin=f"create {ref} {note}\n".encode())
        if made.code != 0:
            raise NotPossibleNow(f"nothing was changed, another merge is under way here: {ref}")
        try:
            await move(git, index, way.old, way.new)
            head = f"update HEAD {way.after} {way.before}"
            lines = (*way.lines, head, f"delete {ref} {note}")
            await change_refs(git, lines, told, index, (way.new, way.old))
        except BaseException:
            await git.ask("update-ref", "-d", ref, note)
            raise


async def _write(git: Git, way: UserMove) -> str:
    trees = (way.old.index, way.old.files, way.new.index, way.new.files)
    kept = [await git.commit(tree, [], "state\n") for tree in trees]
    text = msgspec.json.encode(_HeldMove(owner.reason(), way)).decode()
    return await git.commit(way.old.commit, [way.before, way.after, *kept], f"{text}\n")


async def _read(git: Git, note: str) -> _HeldMove:
    return msgspec.json.decode(await git.run("log", "-1", "--format=%B", note), type=_HeldMove)


def _named(way: UserMove) -> str:
    return "a merge" if way.kind == "merge" else "taking a merge back"


def _cut_short(way: UserMove) -> str:
    return (
        f"{_named(way)} was cut short here: 'prong merge' puts your files back and merges again, "
        "'prong merge --undo' only takes it back"
    )


async def cut_short(host: Host) -> str:
    """Say what a killed process left in the working copy of a host; empty if nothing is.

    Raises UsageError or GitFailed.
    """
    repository = await locate(host)
    git = Git(host, repository.top)
    note = await git.find(_ref(repository))
    noted = await _read(git, note) if note else None
    return _cut_short(noted.move) if noted is not None and owner.is_gone(noted.holder) else ""


async def recover(git: Git, repository: Repository, *, dry_run: bool = False) -> Recovered | None:
    """Put right what a killed process left in this working copy; None if nothing is.

    Raises NotPossibleNow if that cannot be done, or must not in a dry run; GitFailed.
    """
    if not dry_run:
        await sweep_indexes(git.host, repository)
    ref = _ref(repository)
    note = await git.find(ref)
    if not note:
        return None
    noted = await _read(git, note)
    way, what = noted.move, _named(noted.move)
    if not owner.is_gone(noted.holder):
        raise NotPossibleNow(f"{what} is under way here ({noted.holder}): wait until it has ended")
    if dry_run:
        raise NotPossibleNow(_cut_short(way))
    if repository.head == way.after:
        return await _complete(git, ref, note, way)
    if repository.head != way.before:
        raise NotPossibleNow(
            f"{what} ({', '.join(way.slugs)}) was cut short here, and HEAD has moved since: look "
            f"with 'git status' whether files of it are there; 'git update-ref -d {ref}' forgets it"
        )
    found = await _put_back(git, repository, way)
    await git.run("update-ref", "-d", ref, note)
    return found


async def _complete(git: Git, ref: str, note: str, way: UserMove) -> Recovered:
    """Change the refs that are not where they should be."""
    lines: list[str] = []
    for line in way.lines:
        verb, name, *values = line.split()
        wanted = values[0] if verb == "update" else ""
        if await git.find(name) != wanted:
            lines.append(line)
    text = "".join(f"{line}\n" for line in (*lines, f"delete {ref} {note}")).encode()
    ended = await git.ask("update-ref", "--stdin", stdin=text)
    if ended.code != 0:
        raise GitFailed(f"what a merge was killed at cannot be ended: {complaint(ended)}")
    return Recovered(way.kind, way.slugs, complete=True)


async def _put_back(git: Git, repository: Repository, way: UserMove) -> Recovered:
    async with working_index(git, repository) as index:
        now = await read_state(git, repository, index)
        back, kept = await _sorted(git, now.files, way.old.files, way.new.files)
        files = await _edited(git, repository, now.files, way.old.files, back)
        staged, _ = await _sorted(git, now.index, way.old.index, way.new.index)
        entries = await _edited(git, repository, now.index, way.old.index, staged)
        await move(git, index, now, UserTrees(now.commit, entries, files))
    shown = (tuple(map(legible, sorted(paths))) for paths in (back, kept))
    return Recovered(way.kind, way.slugs, False, *shown)


async def _differing(git: Git, one: str, other: str) -> set[str]:
    words = ("diff-tree", "-r", "-z", "--name-only", "--no-renames")
    return set(names(await git.run(*words, one, other)))


async def _sorted(git: Git, now: str, old: str, new: str) -> tuple[set[str], set[str]]:
    """Tell paths that a move has changed from those that somebody has changed since."""
    moved = await _differing(git, old, new) & await _differing(git, old, now)
    others = moved & await _differing(git, new, now)
    torn = {name for name in others if await _is_torn(git, name, now, (old, new))}
    return (moved - others) | torn, others - torn


async def _is_torn(git: Git, name: str, now: str, whole: Sequence[str]) -> bool:
    """Whether a file is the beginning of what it should be: git was killed when it wrote it."""
    ended = await git.ask("cat-file", "blob", f"{now}:{name}")
    if ended.code != 0:
        return True
    texts = [(await git.ask("cat-file", "blob", f"{tree}:{name}")).output for tree in whole]
    return any(text.startswith(ended.output) for text in texts)


async def _edited(git: Git, repository: Repository, tree: str, source: str, paths: set[str]) -> str:
    """Give a tree in which some paths are as they are in another."""
    if not paths:
        return tree
    index = second_index(repository)
    try:
        await git.run("read-tree", tree, index=index)
        words = ("diff-tree", "-r", "-z", "--no-renames", tree, source)
        fields = names(await git.run(*words))
        gone: list[str] = []
        added: list[str] = []
        for raw, path in zip(fields[::2], fields[1::2], strict=True):
            _, mode, _, name, status = raw.split()
            if path in paths:
                (gone if status == "D" else added).append(f"{mode} {name}\t{path}\0")
        text = "".join((*gone, *added)).encode(errors="surrogateescape")
        await git.run("update-index", "-z", "--index-info", index=index, stdin=text)
        return await git.run("write-tree", index=index)
    finally:
        await git.host.run(["rm", "-f", "--", index, f"{index}.lock"])
