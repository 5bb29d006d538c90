"""The keys by which members of a team prove who they are."""

from __future__ import annotations

import os
import time
from pathlib import Path

from prong.errors import BadInput, NotPossibleNow
from prong.mail.authority import LEADER, OUTSIDE, check_name
from prong.mail.locked_file import COARSE_CLOCK, open_file, write_whole
from prong.mail.signed_line import Unsound, claimed_sender, is_signed
from prong.system.descriptor import is_open_to_others

KEY_LENGTH = 32


class Keyring:
    """The folder of a team's keys."""

    def __init__(self, path: Path) -> None:
        """Use a folder."""
        self.path = path
        self._held: dict[str, tuple[tuple[int, ...], bytes]] = {}
        """Keys that were read, each with what its file then was."""

    def make(self, name: str) -> None:
        """Make a key, unless that name has one.

        A name that comes back keeps its key: what it has signed may still be unread.
        """
        for torn in self.path.glob(f".{name}.*"):
            torn.unlink(missing_ok=True)
        if self.key(name) is None:
            write_whole(self.path / name, os.urandom(KEY_LENGTH))

    def key(self, name: str) -> bytes | None:
        """Give the key of whoever has one; raises NotPossibleNow if others could read it."""
        if (held := self._held.get(name)) and held[0] == _state(f"{self.path}/{name}"):
            return held[1]
        try:
            if name not in {LEADER, OUTSIDE}:
                check_name(name)
            path = self.path / name
            state = _state(path)
            fd = open_file(path, os.O_RDONLY)
        except (BadInput, FileNotFoundError):
            return None
        try:
            if is_open_to_others(os.fstat(fd)):
                raise NotPossibleNow(
                    f"{path} is open to others, who may have read it; delete the team and create "
                    f"it anew, or chmod 600 the file if nobody has"
                )
            data = os.read(fd, KEY_LENGTH + 1)
        finally:
            os.close(fd)
        if len(data) != KEY_LENGTH:
            return None
        if state:
            self._held[name] = (state, data)
        return data


def _state(path: Path | str) -> tuple[int, ...]:
    """Tell a file from whatever takes its place, and from itself with another mode.

    Empty as long as another may look the same.
    """
    try:
        found = os.lstat(path)
    except OSError:
        return ()
    if abs(time.time_ns() - found.st_ctime_ns) < COARSE_CLOCK:
        return ()
    return (found.st_dev, found.st_ino, found.st_ctime_ns, found.st_size)


class Verifier:
    """Tells who wrote the lines of one file; each key is read once."""

    def __init__(self, keys: Keyring, *, team: str, place: str) -> None:
        """Say of which team, and which file of it."""
        self._keys = keys
        self._team = team
        self._place = place
        self._held: dict[str, bytes | None] = {}

    def sender(self, line: bytes) -> str:
        """Give who wrote a line, its newline left out; raises Unsound if that is not proved."""
        name = claimed_sender(line)
        if name not in self._held:
            self._held[name] = self._keys.key(name)
        key = self._held[name]
        if key is None:
            raise Unsound(f"it names {name[:40]!r} as its sender, who was never in the team")
        if not is_signed(line, key=key, team=self._team, place=self._place):
            raise Unsound(f"it is not signed by {name}, whom it names as its sender")
        return name
