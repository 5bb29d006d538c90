"""Rules that the user keeps for a project: added to its local settings, and to nothing else.

What they allow is the user's word, not the folder's. So in a folder that is not trusted each rule
is vouched for in the user's own file of decisions, and counts although the rest there does not.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

from prong.config.document import Document, parse_document
from prong.config.place import Place
from prong.config.secrecy import secrets
from prong.config.trust import Trust
from prong.errors import ConfigError
from prong.provider import Secrets
from prong.system.descriptor import is_link, sync
from prong.system.held_folder import HeldFolder

FOLDER, NAME = ".prong", "settings.local.json"

_LARGEST = 4_000_000
_TRIES, _PAUSE = 50, 0.02
"""How often, and after how many seconds, another process is waited for."""
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_UNTRACKED = f"{NAME}\n.gitignore\n"


class LocalRules:
    """Allow rules in the local settings of one project."""

    def __init__(self, root: str, trust: Trust, secrets: Secrets, *, trusted: bool) -> None:
        """Keep them for the project in a folder; `trusted` is what was decided about it."""
        self._root = root
        self._trust = trust
        self._secrets = secrets
        self._trusted = trusted

    @property
    def path(self) -> str:
        """The file they are kept in."""
        return Path(self._root, FOLDER, NAME).as_posix()

    def offer(self, rules: Sequence[str]) -> str:
        """Give the file that would keep such rules; empty if none can be kept.

        One that holds a key cannot, nor one for a worktree: another may have its name later.
        """
        from prong.host.worktree import FOLDER

        passing = any(f"/{FOLDER}/" in rule or self._secrets.mask(rule) != rule for rule in rules)
        return "" if passing or not rules else self.path

    def add(self, rules: Sequence[str]) -> None:
        """Keep rules; whatever else the file holds stays.

        Raises ConfigError if that is not possible: then the file is as it was.
        """
        if not self.offer(rules):
            raise ConfigError(self.path, "a rule with a key or for a worktree belongs in no file")
        try:
            with _opened(self._root, self.path) as folder:
                self._add(folder, rules)
        except OSError as error:
            why = f"cannot be written ({error.strerror}), so no rule was kept"
            raise ConfigError(self.path, why) from error

    def _add(self, folder: HeldFolder, rules: Sequence[str]) -> None:
        before = _read(folder, self.path)
        after = _added(_parsed(self.path, before), rules)
        if not self._trusted:
            # First: one that is vouched for and stands in no file allows nothing.
            self._trust.vouch(self._root, rules)
        if after is not None:
            _hide(folder)
            self._put(folder, before, after)

    def _put(self, folder: HeldFolder, before: bytes | None, after: bytes) -> None:
        """Put a whole file in the place of the one that was read."""
        fresh = f".{NAME}.{os.getpid()}.tmp"
        with suppress(FileNotFoundError):
            folder.remove(fresh)
        try:
            with os.fdopen(folder.open(fresh, _NEW), "wb") as file:
                file.write(after)
                file.flush()
                sync(file.fileno())
            # Editors take no lock.
            if _read(folder, self.path) != before:
                raise ConfigError(self.path, "was changed in this moment; no rule kept, try again")
            folder.replace(fresh, NAME)
            folder.sync()
        finally:
            with suppress(FileNotFoundError):
                folder.remove(fresh)


def local_rules(place: Place) -> LocalRules | None:
    """Give what keeps the rules of a place; None if it reads no settings."""
    if place.options.bare:
        return None
    return LocalRules(place.root, Trust(place.home), secrets(place), trusted=place.trusted)


@contextmanager
def _opened(root: str, path: str) -> Generator[HeldFolder]:
    """Hold the folder of settings, which must be one of the project's own, for oneself alone."""
    with HeldFolder(root, follow=True) as above:
        with suppress(FileExistsError):
            above.make(FOLDER, 0o700)
        found = above.find(FOLDER)
        if is_link(found) or not stat.S_ISDIR(found.st_mode):
            raise ConfigError(path, f"{FOLDER} is a link or no folder, so no rule was kept")
        folder = above.enter(FOLDER)
    with folder:
        _lock(folder, path)
        yield folder


def _lock(folder: HeldFolder, path: str) -> None:
    for _ in range(_TRIES):
        if folder.try_lock():
            return
        time.sleep(_PAUSE)
    raise ConfigError(path, "another process writes there; no rule was kept, try again")


def _read(folder: HeldFolder, path: str) -> bytes | None:
    """Read the file as it is; None if there is none."""
    try:
        descriptor = folder.open(NAME, os.O_RDONLY)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.EMLINK}:
            raise ConfigError(path, "is a link, so no rule was kept") from error
        raise
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
            raise ConfigError(path, "is a link or no plain file, so no rule was kept")
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise ConfigError(path, f"is larger than {_LARGEST:,} bytes, so no rule was kept")
    return data


def _parsed(path: str, data: bytes | None) -> Document:
    try:
        text = (data or b"").decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(path, "is not UTF-8 text, so no rule was kept") from error
    found = parse_document(path, text)
    if isinstance(found, ConfigError):
        raise found
    return found


def _added(document: Document, rules: Sequence[str]) -> bytes | None:
    """Write the document with the rules in it; None if it has all of them."""
    import json

    text = document.text
    whole: dict[str, Any] = {}
    if text.strip():
        whole = json.loads(text, object_pairs_hook=_once(document))
    permissions: object = whole.setdefault("permissions", {})
    if not isinstance(permissions, dict):
        raise document.problem("'permissions' must be an object; no rule was kept", "permissions")
    allowed: object = cast("dict[str, object]", permissions).setdefault("allow", [])
    if not isinstance(allowed, list):
        why = "'permissions.allow' must be a list of texts; no rule was kept"
        raise document.problem(why, "permissions", "allow")
    kept = cast("list[object]", allowed)
    missing = [rule for rule in dict.fromkeys(rules) if rule not in kept]
    if not missing:
        return None
    kept += missing
    return f"{json.dumps(whole, indent=2, ensure_ascii=False)}\n".encode()


def _once(document: Document) -> Any:
    """Make what refuses an object that has a key twice: writing it would lose one of them."""

    def take(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            raise document.problem("holds a key twice in one object; no rule was kept")
        return made

    return take


def _hide(folder: HeldFolder) -> None:
    """Have git ignore the file; a list that is there already stays as it is."""
    with suppress(OSError), os.fdopen(folder.open(".gitignore", _NEW, 0o644), "w") as f:
        f.write(_UNTRACKED)
