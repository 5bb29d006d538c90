"""What later sessions of a project should know: notes in files of the user's own.

They are kept in the store, `projects/<slug of the project>/memory/*.md`, and never in the project:
a repository that was cloned brings none along. Prong writes `notes.md`, a line for each note; the
user may change and delete lines, whole files too, and put other files beside it.

Only lines that Prong wrote, and that nobody has changed since, are ever replaced or dropped, and a
line that the user has deleted is not written again. Which lines those are is known by their digests
in `.written`. To apply the same changes twice is to apply them once.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

import msgspec

from prong.config.document import read_text
from prong.config.option import Options
from prong.config.setting import Settings
from prong.errors import ConfigError
from prong.host import make_private
from prong.journal import store
from prong.journal.note import NoteChange
from prong.system.descriptor import open_own, sync
from prong.system.path_form import real_path

MOST = 8_000
"""Characters of the file to which Prong adds nothing more: every later request carries them."""
_FILE = "notes.md"
_WRITTEN = ".written"
_REMEMBERED = 2_000
"""Lines whose digests are kept."""
_PATIENCE = 10
"""Seconds to wait for another session that writes."""
_HEAD = (
    "Notes that Prong kept from earlier sessions. They may be out of date, and what people wrote "
    "elsewhere goes before them. Change or delete any line."
)


class Applied(msgspec.Struct, frozen=True, kw_only=True):
    """What changes have come to."""

    added: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    """As they are now."""
    dropped: tuple[str, ...] = ()
    full: int = 0
    """How many found no room."""


class MemoryState(msgspec.Struct, frozen=True, kw_only=True):
    """Whether notes are kept for later sessions, where, and which there are."""

    on: bool
    path: str
    """The file that Prong writes."""
    files: tuple[tuple[str, str], ...]
    """All files of notes that are read, each with its text."""


class NoteFile(msgspec.Struct, frozen=True):
    """The notes of one project."""

    folder: Path

    @property
    def path(self) -> Path:
        """The file that Prong writes."""
        return self.folder / _FILE

    def files(self) -> list[Path]:
        """Name all files of notes, in the order in which they are read."""
        with suppress(OSError):
            return sorted(path for path in self.folder.glob("*.md") if path.is_file())
        return []

    def state(self, *, on: bool) -> MemoryState:
        """Read all notes, each file with its text or what is wrong with it."""
        found = ((path, read_text(path)) for path in self.files())
        texts = tuple((str(path), str(text)) for path, text in found if text is not None)
        return MemoryState(on=on, path=str(self.path), files=texts)

    def lines(self) -> tuple[tuple[str, bool], ...]:
        """Give the lines of the file, each with whether it is Prong's own, unchanged.

        Raises ConfigError if the file cannot be read.
        """
        written = self._written()
        found = self._text().splitlines()
        return tuple((line, _digest(line) in written) for line in found if line.strip())

    def apply(self, changes: Sequence[NoteChange]) -> Applied:
        """Change the file, one process at a time; what the user has written stays.

        Raises ConfigError if it cannot be read or written: then it is as it was.
        """
        from filelock import FileLock, Timeout

        try:
            make_private(self.folder)
            with FileLock(str(self.folder / ".lock"), timeout=_PATIENCE):
                return self._apply(changes)
        except Timeout as error:
            raise ConfigError(self.path, "another session writes there; nothing kept") from error
        except OSError as error:
            raise ConfigError(self.path, f"cannot be written ({error.strerror})") from error

    def _apply(self, changes: Sequence[NoteChange]) -> Applied:
        while True:
            before, written = self._text(), self._written()
            revision = _Revision(before, written)
            done = revision.apply(changes)
            # Editors take no lock.
            if self._text() == before:
                break
        if revision.text != before:
            _write(self.path, revision.text)
        # After the file: what stands here and not there counts as deleted by the user.
        _write(self.folder / _WRITTEN, "\n".join(revision.written[-_REMEMBERED:]) + "\n")
        return done

    def clear(self) -> bool:
        """Delete what Prong has written; gives whether there was anything.

        Raises ConfigError if that is not possible.
        """
        try:
            self.path.unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise ConfigError(self.path, f"cannot be deleted ({error.strerror})") from error
        return True

    def _text(self) -> str:
        text = read_text(self.path)
        if isinstance(text, ConfigError):
            raise text
        return text or ""

    def _written(self) -> list[str]:
        text = read_text(self.folder / _WRITTEN)
        return text.split() if isinstance(text, str) else []


class _Revision:
    """A file's text while it is being changed."""

    def __init__(self, text: str, written: Sequence[str]) -> None:
        self._lines = text.splitlines()
        self._given = text
        self._changed = False
        self.written = list(written)

    @property
    def text(self) -> str:
        """The text as it is to be."""
        return "\n".join(self._lines) + "\n" if self._changed else self._given

    def apply(self, changes: Sequence[NoteChange]) -> Applied:
        added: list[str] = []
        replaced: list[str] = []
        dropped: list[str] = []
        full = 0
        for change in changes:
            if change.before and self._put(change.before, change.text):
                (replaced if change.text else dropped).append(change.text or change.before)
            elif not change.before and self._is_new(change.text):
                if self._size() + len(change.text) > MOST:
                    full += 1
                    continue
                self._add(change.text)
                added.append(change.text)
        return Applied(
            added=tuple(added), replaced=tuple(replaced), dropped=tuple(dropped), full=full
        )

    def _put(self, before: str, text: str) -> bool:
        """Put a line in the place of another, or nothing, if Prong wrote that as it stands."""
        if before not in self._lines or _digest(before) not in self.written:
            return False
        if text and not self._is_new(text):
            return False
        place = self._lines.index(before)
        self._lines[place : place + 1] = [text] if text else []
        if text:
            self.written.append(_digest(text))
        self._changed = True
        return True

    def _is_new(self, line: str) -> bool:
        # One that was written and is not there any more has been deleted.
        digest = _digest(line)
        return digest not in self.written and all(digest != _digest(one) for one in self._lines)

    def _add(self, line: str) -> None:
        if not any(one.strip() for one in self._lines):
            self._lines = [_HEAD, ""]
        self._lines.append(line)
        self.written.append(_digest(line))
        self._changed = True

    def _size(self) -> int:
        return sum(len(line) + 1 for line in self._lines)


def note_file(root: str, folder: Path) -> NoteFile:
    """Find the notes of a project in a store."""
    return NoteFile(store.project(real_path(root), folder) / "memory")


def remembers(options: Options, settings: Settings) -> bool:
    """Whether notes are kept for later sessions, and those of earlier ones are read."""
    if options.memory is not None:
        return options.memory
    return not options.bare and settings.values.memory


def _digest(line: str) -> str:
    return blake2b(" ".join(line.split()).encode(errors="replace"), digest_size=8).hexdigest()


def _write(path: Path, text: str) -> None:
    """Put a whole file in the place of another, for its owner alone."""
    target = Path(real_path(path))
    fresh = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    descriptor = open_own(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            sync(file.fileno())
        fresh.replace(target)
    finally:
        fresh.unlink(missing_ok=True)
