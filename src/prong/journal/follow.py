"""Reads a session that may still be written to: what is there, and later what has come since.

Both files only ever grow, so each look reads what lies behind the last whole line. Nobody is asked
and nothing is locked: the writer, in whatever process, does not know that somebody looks on.
"""

from __future__ import annotations

from pathlib import Path

from prong.event import Envelope
from prong.journal.eventlog import NAME, read_envelope, skipped
from prong.journal.replay import Damage, Replay, examine, take_more


class FollowedJournal:
    """A journal, as far as it has been written."""

    def __init__(self, path: Path) -> None:
        """Read what is there; raises as `examine` does."""
        self.path = path
        self.replay: Replay
        self.damage: Damage | None
        self.replay, self.damage = examine(path)

    def refresh(self) -> bool:
        """Read what was written since the last look; gives whether there was anything.

        Nothing is read behind a damaged line.
        """
        if self.damage is not None:
            return False
        data = _behind(self.path, self.replay.length)
        before = self.replay.lines
        if data:
            self.damage = take_more(self.replay, data)
        return self.replay.lines != before or self.damage is not None


class FollowedEvents:
    """The recorded events of the session of a journal, as far as they have been written."""

    def __init__(self, journal: Path) -> None:
        """Begin before the first of them."""
        self.path = journal.with_suffix("") / NAME
        self.seq = 0
        """The last number that was read."""
        self._length = 0

    def refresh(self) -> list[Envelope]:
        """Read the events that were recorded since the last look."""
        data = _behind(self.path, self._length)
        whole = data.rfind(b"\n") + 1
        self._length += whole
        found: list[Envelope] = []
        for line in data[:whole].split(b"\n"):
            envelope = read_envelope(line) if line else None
            if envelope is None or envelope.seq <= self.seq:
                continue
            if envelope.seq > self.seq + 1:
                found.append(skipped(envelope.seq - 1, envelope.at))
            self.seq = envelope.seq
            found.append(envelope)
        return found


def _behind(path: Path, length: int) -> bytes:
    """Give the bytes of a file behind a place; none if there is no such file any more."""
    try:
        with path.open("rb") as file:
            file.seek(length)
            return file.read()
    except OSError:
        return b""
