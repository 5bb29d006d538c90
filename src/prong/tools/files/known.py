"""Which bytes of a file an agent knows: read first, then write, and never over another's change."""

from __future__ import annotations

import errno
import hashlib

import anyio.lowlevel

from prong.host import Host, Stat
from prong.tools.tool import Context, Failed

LOADED = 16 << 20
"""Bytes of a file that may be held in memory at once."""
HASHED = 1 << 30
"""Bytes up to which a file is hashed at all."""
PIECE = 1 << 20


def digest(data: bytes) -> str:
    """Name bytes by their content."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


async def streamed_digest(host: Host, path: str) -> str:
    """Name the bytes of a file without holding them all.

    Raises OSError.
    """
    state, offset = hashlib.blake2b(digest_size=16), 0
    while piece := await host.read(path, offset=offset, limit=PIECE):
        await anyio.lowlevel.checkpoint()
        state.update(piece)
        offset += len(piece)
    return state.hexdigest()


def shown_path(host: Host, path: str) -> str:
    """Write a path as people do: relative if it is below the root."""
    below = host.root.rstrip("/") + "/"
    return path.removeprefix(below) if path.startswith(below) else path


def unusable(name: str, error: OSError) -> Failed:
    """Say in words for the model why a file could not be used."""
    reasons = {
        errno.ENOENT: "there is no such file",
        errno.ENOTDIR: "a part of the path is not a folder",
        errno.EACCES: "permission denied",
        errno.EPERM: "not permitted",
        errno.ELOOP: "too many symbolic links, or it became one just now",
        errno.EISDIR: "it is a folder",
        errno.ENAMETOOLONG: "the name is too long",
        errno.ENOSPC: "the disk is full",
        errno.EROFS: "the file system is read-only",
    }
    why = reasons.get(error.errno or 0) or error.strerror or str(error)
    return Failed(f"{name}: {why}")


def not_a_file(name: str, found: Stat | None) -> Failed | None:
    """Refuse what is there but is no regular file."""
    if found is None or found.kind == "file":
        return None
    if found.kind == "folder":
        return Failed(f"{name} is a folder, not a file; use Glob to see what it holds")
    return Failed(f"{name} is a device, pipe or socket; only regular files can be used")


def stale(context: Context, path: str, current: str, *, unseen: bool = False) -> Failed | None:
    """Refuse to change a file whose bytes the agent does not know.

    With `unseen` it is enough that a forebear knows them: for a change that names what it replaces.
    """
    name, reads = shown_path(context.host, path), context.reads
    known = reads.hashes.get(path)
    if known is None or (path in reads.unseen and not unseen):
        return Failed(f"{name} has not been read yet; read it before changing it")
    if known != current:
        return Failed(f"{name} changed since it was read; read it again")
    return None


async def load(context: Context, path: str, *, unseen: bool = False) -> bytes | Failed:
    """Read a whole file that is to be changed and that the agent must know as it is now.

    With `unseen` it is enough that a forebear knows it.
    """
    name = shown_path(context.host, path)
    try:
        found = await context.host.stat(path)
        if found is None:
            return Failed(f"{name}: there is no such file; use Write to make one")
        if (refused := not_a_file(name, found)) is not None:
            return refused
        if found.size > LOADED:
            return Failed(f"{name} is too large to edit ({found.size:,} bytes); use Bash")
        data = await context.host.read(path)
    except OSError as error:
        return unusable(name, error)
    return stale(context, path, digest(data), unseen=unseen) or data


async def store(context: Context, path: str, data: bytes) -> Failed | None:
    """Write a file and note that the agent knows it."""
    try:
        await context.host.write(path, data)
    except OSError as error:
        return unusable(shown_path(context.host, path), error)
    context.reads.note(path, digest(data))
    return None
