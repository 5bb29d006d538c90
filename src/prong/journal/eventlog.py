"""The recorded events of a session: `events.jsonl` in the folder beside its journal.

One envelope a line, deltas left out. The file is for readers (a face that comes later, a trace);
nothing of the session depends on it, so it is written in blocks and never synced, and who writes it
may give it up. What a kill takes is the end that was not yet written; a line that was written in
part is cut off by the next writer.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

import msgspec

from prong.errors import JournalFull
from prong.event import (
    MAIN,
    AgentFinished,
    Envelope,
    EventsSkipped,
    InputTaken,
    PermissionAsked,
    QuestionAsked,
    ReplyFinished,
    SessionFinished,
    SessionStarted,
    ToolStarted,
    TurnFinished,
)
from prong.foreign_json import NOT_JSON
from prong.foreign_number import whole_number
from prong.system.descriptor import open_own
from prong.wire.raw import dump

NAME = "events.jsonl"
_BLOCK = 65_536
_KEPT = 1_000
"""Events that are kept for readers when they cannot be recorded."""
_RECENT = 16
"""Events that are kept for readers who come just after them."""
_FLUSHES = frozenset(
    (
        SessionStarted,
        AgentFinished,
        ReplyFinished,
        PermissionAsked,
        QuestionAsked,
        TurnFinished,
        SessionFinished,
    )
)
"""After these somebody may have to wait, or has got something worth keeping."""
_MAIN_FLUSHES = frozenset((InputTaken, ToolStarted))
"""The same of the main agent, which people talk to; children are many, and begin together."""


@cache
def _decoder() -> msgspec.json.Decoder[Envelope]:
    # Made when it is needed: a start need not wait for it.
    return msgspec.json.Decoder(Envelope)


class EventLog:
    """Writes and reads the recorded events of one session; has one writer."""

    def __init__(self, path: Path) -> None:
        """Look at what an earlier process has left."""
        self.path = path
        self.last: Envelope | None = None
        """The last event that is there."""
        self.seq = 0
        """The last number that was given away."""
        self.problem = ""
        """Why nothing can be recorded."""
        self._length = 0
        self._held: list[bytes] = []
        self._recent: deque[Envelope] = deque(maxlen=_RECENT)
        self._size = 0
        self._fd = -1
        self._closed = False
        try:
            self._look()
        except FileNotFoundError:
            pass
        except OSError as error:
            self._closed, self.problem = True, self._why("read", error)

    def _look(self) -> None:
        """Find the last event; damaged lines after it had numbers too."""
        lost = 0
        self._length = _whole(self.path)
        for line in _backwards(self.path, self._length):
            self.last = read_envelope(line)
            if self.last is not None:
                break
            lost += 1
        self.seq = lost + (self.last.seq if self.last else 0)

    def write(self, envelope: Envelope) -> None:
        """Record an event, in a while.

        Raises JournalFull if that is not possible; nothing is recorded from then on.
        """
        self.seq = envelope.seq
        self._recent.append(envelope)
        line = dump(envelope)
        self._held.append(line)
        if self._closed:
            # What the file does not get is there for readers a little while.
            del self._held[:-_KEPT]
            return
        self._size += len(line) + 1
        if self._size > _BLOCK or _counts(envelope):
            self.flush()

    def flush(self) -> None:
        """Write what is held.

        Raises JournalFull if that is not possible; nothing is recorded from then on.
        """
        if not self._held or self._closed:
            return
        data = b"\n".join([*self._held, b""])
        try:
            if self._fd < 0:
                self._open()
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._fd, rest) :]
        except OSError as error:
            with suppress(OSError):
                os.truncate(self.path, self._length)
            self.close()
            raise JournalFull(self._why("written", error)) from error
        self._held, self._size = [], 0
        self._length += len(data)

    def replay(self, since: int, until: int) -> Iterator[Envelope]:
        """Read the events after number `since` up to number `until`.

        Where some are missing an `EventsSkipped` stands in their place.
        """
        expected = since + 1
        if self._recent and self._recent[0].seq <= expected:
            # Whoever comes first wants the beginning, and need not wait for what reads a file.
            yield from [each for each in self._recent if since < each.seq <= until]
            return
        for line in self._lines(since):
            envelope = read_envelope(line)
            if envelope is None or not since < envelope.seq <= until:
                continue
            if envelope.seq > expected:
                yield skipped(envelope.seq - 1, envelope.at)
            expected = envelope.seq + 1
            yield envelope
            if envelope.seq == until:
                return
        if expected <= until:
            yield skipped(until, self.last.at if self.last else 0.0)

    def _why(self, verb: str, error: OSError) -> str:
        return (
            f"{self.path} cannot be {verb} ({error.strerror}): what happens from here on is not "
            "recorded for later; the conversation itself is in the journal"
        )

    def close(self) -> None:
        """Write no more."""
        self._closed = True
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _open(self) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._fd = open_own(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.ftruncate(self._fd, self._length)

    def _lines(self, since: int) -> Iterator[bytes]:
        with suppress(OSError), self.path.open("rb") as file:
            for line in file:
                # Most lines of a long file are behind a reader that comes back: a look will do.
                if _number(line) > since:
                    yield line
        # A reader sees at once what the file gets in a while.
        yield from list(self._held)


def _counts(envelope: Envelope) -> bool:
    """Whether an event must not wait for others before it is written."""
    kind = type(envelope.event)
    return kind in _FLUSHES or (envelope.agent == MAIN and kind in _MAIN_FLUSHES)


def skipped(until: int, at: float) -> Envelope:
    """Tell a reader that events are missing."""
    return Envelope(0, at, MAIN, EventsSkipped(until=until))


def read_envelope(line: bytes) -> Envelope | None:
    """Read a line; None if it holds no event."""
    try:
        return _decoder().decode(line)
    except NOT_JSON:
        return None


def _number(line: bytes) -> int:
    """Give the number of a line without reading the rest of it."""
    head = line[7:27].partition(b",")[0]
    return whole_number(head) or 0


def _whole(path: Path) -> int:
    """Count the bytes of a file up to the end of its last whole line."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        while end > 0:
            start = max(0, end - _BLOCK)
            file.seek(start)
            found = file.read(end - start).rfind(b"\n")
            if found >= 0:
                return start + found + 1
            end = start
    return 0


def _backwards(path: Path, length: int) -> Iterator[bytes]:
    """Give the whole lines of a file, the last first."""
    if not length:
        return
    with path.open("rb") as file:
        end, held = length, b""
        while end > 0:
            start = max(0, end - _BLOCK)
            file.seek(start)
            first, *lines = (file.read(end - start) + held).split(b"\n")
            yield from (line for line in reversed(lines) if line)
            end, held = start, first
        if held:
            yield held
