"""Finds on the disk what a profile speaks of: files to hide, paths to keep, sockets of daemons."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache

from prong.host.sandbox.profile import Concealed

MOST = 200_000
"""Entries of folders that are looked at for one command at most."""

_DAEMONS = (
    "/run/docker.sock",
    "/var/run/docker.sock",
    "/run/podman",
    "/run/containerd",
    "/run/crio",
    "/run/dbus",
    "/run/systemd/private",
    "/run/snapd.socket",
    "/run/snapd-snap.socket",
    "/run/libvirt",
    "/run/screen",
    "/tmp/.X11-unix",  # noqa: S108 - where X has it
)
NAMING = ("SSH_AUTH_SOCK", "TMUX", "DOCKER_HOST")
"""Variables that say where services of the user can be reached."""
_OF_HOME = (".docker/run", ".docker/desktop", ".colima", ".orbstack/run")


_OWNERS = {
    ".npm": "npm",
    ".yarn": "yarn",
    ".gradle": "gradle",
    ".m2": "mvn",
    ".cargo/registry": "cargo",
    ".cargo/git": "cargo",
    "go/pkg": "go",
    ".cache": "",
}
"""Folders in which programs keep what they download, and who would make them."""
_OWNED = tuple(f"/{name}" for name in _OWNERS)


_OPENAT2, _HERE = 437, -100
_NO_LINKS = 4


class TooMany(OSError):
    """There are too many files to look through for those to hide."""


def outermost(paths: Sequence[str], between: Sequence[str] = ()) -> tuple[str, ...]:
    """Leave out what lies in another of the paths, unless something `between` parts them."""
    found: list[str] = []
    for path in sorted(set(paths), key=lambda one: one.rstrip("/") + "/"):
        above = [one for one in found if _inside(path, one)]
        if not above or any(_inside(path, part) and _inside(part, above[-1]) for part in between):
            found.append(path)
    return tuple(found)


def is_below(path: str, folders: Sequence[str]) -> bool:
    """Whether a path is one of others, or lies in one."""
    return any(_inside(path, folder) for folder in folders)


def _inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def find_hidden(patterns: Sequence[Concealed]) -> list[str]:
    """List the files and folders that patterns speak of.

    Raises TooMany.
    """
    found: set[str] = set()
    deep: dict[str, list[str]] = {}
    for one in patterns:
        if one.deep:
            deep.setdefault(one.base, []).append(one.regex)
        elif "*" in one.base:
            found.update(_matching(one.base, ()))
        elif os.path.lexists(one.base):
            found.add(os.path.realpath(one.base))
    left = MOST
    for base, regexes in deep.items():
        whole = re.compile("|".join(f"(?:{regex})" for regex in regexes), re.IGNORECASE | re.DOTALL)
        for path in _walk(base):
            left -= 1
            if left < 0:
                raise TooMany(f"more than {MOST} files would have to be looked at to hide some")
            if whole.fullmatch(path):
                found.add(os.path.realpath(path))
    return sorted(path for path in found if os.path.exists(path))  # noqa: PTH110 - strings throughout


def _walk(base: str) -> Iterator[str]:
    """Yield everything below a folder; links are not followed."""
    yield base
    waiting = [base]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    yield entry.path
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except OSError:
            continue


@cache
def _is_installed(program: str) -> bool:
    """Whether a program is there; looked for once, since every command asks."""
    import shutil

    return not program or shutil.which(program) is not None


def make_cache(path: str) -> None:
    """Make a folder for downloads that is not there, if the program is that uses it.

    It could not be made from inside: its place is open, the folder around it is not.
    """
    if not path.endswith(_OWNED):
        return
    for name, program in _OWNERS.items():
        if path.endswith(f"/{name}") and not os.path.lexists(path):
            if _is_installed(program):
                with suppress(OSError):
                    os.makedirs(path, mode=0o755)  # noqa: PTH103 - strings throughout
            return


def beside(hidden: Sequence[str]) -> Iterator[str]:
    """Yield everything that neither is hidden nor holds what is, by its topmost folders.

    Links are left out: what they lead to is yielded by itself, or is not to be. So is what is one
    of those under another name, by a mount: Landlock knows files by their numbers.
    """
    leading = {parent for path in hidden for parent in _parents(path)}
    numbers = {number(path) for path in (*leading, *hidden)}
    for folder in sorted(leading):
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_symlink() or number(entry.path) in numbers:
                        continue
                    yield entry.path
        except OSError:
            continue


def number(path: str) -> tuple[int, int] | None:
    """Give the device and the inode of a path; None if nothing is there."""
    try:
        found = os.stat(path)  # noqa: PTH116 - for each command
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _parents(path: str) -> Iterator[str]:
    while path != "/":
        path = os.path.dirname(path)  # noqa: PTH120 - strings throughout
        yield path


def _of_user(user: int) -> list[str]:
    """List what services of one user have opened, but for the agent that signs commits."""
    folder = f"/run/user/{user}"
    try:
        return [f"{folder}/{name}" for name in os.listdir(folder) if name != "gnupg"]  # noqa: PTH208
    except OSError:
        return []


@cache
def _linkless() -> Callable[[bytes], bool | None]:
    """Give a function that says whether a path without links is there; None if it has some."""
    assert sys.platform == "linux"
    # Most sessions never run a command.
    import ctypes
    import errno
    import struct

    call = ctypes.PyDLL(None, use_errno=True).syscall
    call.argtypes = (
        *(ctypes.c_long, ctypes.c_int, ctypes.c_char_p),
        *(ctypes.c_char_p, ctypes.c_size_t),
    )
    call.restype = ctypes.c_long
    how = struct.pack("=QQQ", os.O_PATH | os.O_CLOEXEC, 0, _NO_LINKS)

    def look(path: bytes) -> bool | None:
        place = call(_OPENAT2, _HERE, path, how, len(how))
        if place >= 0:
            os.close(place)
            return True
        return False if ctypes.get_errno() == errno.ENOENT else None

    return look


def real(path: str) -> str | None:
    """Give the path of what a path leads to, links followed; None if nothing is there.

    The kernel says it in a fraction of the time that it takes to look at each part.
    """
    if sys.platform != "linux":
        return os.path.realpath(path) if os.path.exists(path) else None  # noqa: PTH110
    if path.startswith("/") and os.path.normpath(path) == path and "\0" not in path:
        # Most paths hold no link, or lead nowhere, which shows without an exception.
        found = _linkless()(os.fsencode(path))
        if found is not None:
            return path if found else None
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.readlink(f"/proc/self/fd/{place}")  # noqa: PTH115 - strings throughout
    except OSError:
        return os.path.realpath(path)
    finally:
        os.close(place)


def find_kept(
    paths: Sequence[str], spared: Collection[str] = ()
) -> tuple[dict[str, bool], list[str]]:
    """Tell the paths that are there, links followed, from those that are not; `*` is any name.

    Those that are there are given with whether they were named, and not found by a pattern; of
    what a pattern finds, the spared are left out.
    """
    there: dict[str, bool] = {}
    absent: list[str] = []
    for path in paths:
        if "*" in path:
            there |= {one: there.get(one, False) for one in _matching(path, spared)}
        elif (one := real(path)) is not None:
            there[one] = True
        else:
            absent.append(path)
    return there, absent


def _matching(path: str, spared: Collection[str]) -> Iterator[str]:
    """Yield what is there, by the names in one folder in the place of the only `*`."""
    folder, _, rest = path.partition("/*")
    base = real(folder)
    if base is None:
        return
    with suppress(OSError), os.scandir(base) as entries:
        for entry in entries:
            if f"{folder}/{entry.name}{rest}" in spared:
                continue
            if rest or entry.is_symlink():
                found = real(f"{entry.path}{rest}")
                if found is not None:
                    yield found
            else:
                yield entry.path


def daemon_sockets(
    env: Mapping[str, str], home: str, user: int, *, agents: bool = False
) -> list[str]:
    """List the sockets by which services of the user or the system do things outside.

    Of the environment, what is `NAMING` is looked at.

    With `agents`, those that sign commits and log in by ssh for the user are left out.
    """
    named = [f"/tmp/tmux-{user}", *_DAEMONS, *_of_user(user)]  # noqa: S108 - where tmux has it
    named += [f"{home}/{one}" for one in _OF_HOME]
    ssh = env.get("SSH_AUTH_SOCK", "")
    named += [env.get("TMUX", "").partition(",")[0], *(() if agents else (ssh,))]
    named = [one for one in named if not (agents and ssh and one == ssh)]
    docker = env.get("DOCKER_HOST", "")
    named += [docker.removeprefix("unix://")] if docker.startswith("unix://") else []
    # Hardly any is there, which is the quickest to find out so.
    there = (one for one in named if one and os.access(one, os.F_OK))
    return sorted({found for one in there if (found := real(one)) is not None})
