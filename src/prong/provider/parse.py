"""One HTTP/1.1 response from bytes that may be cut anywhere. Pure: no I/O.

The parser takes the narrow reading of the grammar throughout: CRLF line ends, no folded headers, no
control characters, one framing. Whatever it accepts, a lenient parser reads in the same way; that
is what keeps two requests on one connection from being taken for each other.
"""

from __future__ import annotations

import re
from collections.abc import Callable

HEAD_LIMIT = 65_536
"""Bytes that a status line with its headers, or the trailers, may take."""
LINE_LIMIT = 4_096
"""Bytes that the line before a chunk may take."""

INTERIM_LIMIT = 32
"""How many interim responses (100 to 199) may come before the real one."""

_MORE = -1
_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9][0-9])(?: [\t\x20-\x7e\x80-\xff]*)?")
_FIELD = re.compile(
    rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*((?:[\x21-\x7e\x80-\xff]+(?:[ \t]+(?=[^ \t]))?)*)[ \t]*"
)
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,15})(?:;[\t\x20-\x7e\x80-\xff]*)?[ \t]*")
_LENGTH = re.compile(rb"[0-9]{1,18}")
_FRAMING = (b"content-length", b"transfer-encoding")


class Malformed(ValueError):
    """The bytes are not an HTTP response that can be trusted."""


class Truncated(Malformed):
    """The connection ended before the response did."""


def _field(line: bytes) -> tuple[bytes, bytes]:
    found = _FIELD.fullmatch(line)
    if found is None:
        raise Malformed(f"the header line {line[:80]!r} is malformed")
    return found[1].lower(), found[2]


class Parser:
    """Reads one response; `feed` gives the pieces of its body."""

    __slots__ = (
        "_held",
        "_interim",
        "_left",
        "_method",
        "_state",
        "done",
        "excess",
        "fields",
        "keep_alive",
        "status",
    )

    def __init__(self, method: str = "POST") -> None:
        """Expect the response to a request of that method."""
        self.status = 0
        """The status, or 0 while the head is not complete."""
        self.fields: list[tuple[bytes, bytes]] = []
        """The headers in order, their names in lower case."""
        self.keep_alive = False
        """Whether the connection may carry another request once this response is done."""
        self.done = False
        self.excess = False
        """Whether bytes came after the end, which nobody asked for."""
        self._method = method
        self._held = b""
        self._interim = 0
        self._left = 0
        # Stored as a plain function, not as a bound method: a parser must not be a reference cycle.
        self._state: Callable[[Parser, bytes, int, list[bytes]], int] = Parser._head

    def feed(self, data: bytes) -> list[bytes]:
        """Take more bytes and give what they add to the body.

        Raises:
            Malformed: the response cannot be trusted; the connection must be closed.

        """
        pieces: list[bytes] = []
        if self._held:
            data = self._held + data
            self._held = b""
        at, end = 0, len(data)
        while at < end:
            if self.done:
                self.excess = True
                self.keep_alive = False
                break
            after = self._state(self, data, at, pieces)
            if after == _MORE:
                self._held = data[at:]
                break
            at = after
        return pieces

    def eof(self) -> None:
        """Say that the connection has ended.

        Raises:
            Truncated: the response was not complete.

        """
        if self._state is Parser._until_close and not self.done:
            self.done = True
        elif not self.done:
            what = "in the middle of a response" if self.status else "before a response"
            raise Truncated(f"the connection ended {what}")

    def _head(self, data: bytes, at: int, _pieces: list[bytes]) -> int:
        end = data.find(b"\r\n\r\n", at)
        if (len(data) if end < 0 else end) - at > HEAD_LIMIT:
            raise Malformed(f"the response head is longer than {HEAD_LIMIT} bytes")
        if end < 0:
            if not b"HTTP/1.".startswith(data[at : at + 7]):
                raise Malformed(f"the server does not speak HTTP/1.1: {data[at : at + 40]!r}")
            return _MORE
        first, *lines = data[at:end].split(b"\r\n")
        found = _STATUS.fullmatch(first)
        if found is None:
            raise Malformed(f"the status line {first[:80]!r} is malformed")
        status = int(found[2])
        if status == 101:
            raise Malformed("the server switched protocols, which nobody asked for")
        fields = [_field(line) for line in lines]
        if status >= 200:
            self.status = status
            self.fields = fields
            self._frame(modern=found[1] == b"1")
        else:
            self._interim += 1
            if self._interim > INTERIM_LIMIT:
                raise Malformed(f"more than {INTERIM_LIMIT} interim responses came")
        return end + 4

    def _frame(self, *, modern: bool) -> None:
        codings = [value.lower() for name, value in self.fields if name == b"transfer-encoding"]
        lengths = self._lengths()
        options = [value.lower() for name, value in self.fields if name == b"connection"]
        closes = any(word.strip() == b"close" for value in options for word in value.split(b","))
        self.keep_alive = modern and not closes and not (codings and lengths)
        if codings and (codings != [b"chunked"] or not modern):
            raise Malformed(f"the transfer-encoding {codings[0][:40]!r} is not understood")
        if self._bodyless():
            self.done = True
        elif codings:
            self._state = Parser._chunk_size
        elif lengths:
            self._left = lengths.pop()
            self._state = Parser._until_length
            self.done = self._left == 0
        else:
            self.keep_alive = False
            self._state = Parser._until_close

    def _bodyless(self) -> bool:
        tunnel = self._method == "CONNECT" and self.status < 300
        return tunnel or self._method == "HEAD" or self.status in {204, 304}

    def _lengths(self) -> set[int]:
        found: set[int] = set()
        for name, value in self.fields:
            if name == b"content-length":
                words = [word.strip() for word in value.split(b",")]
                if not all(_LENGTH.fullmatch(word) for word in words):
                    raise Malformed(f"the content-length {value[:40]!r} is malformed")
                found.update(map(int, words))
        if len(found) > 1:
            raise Malformed("the response has two different lengths")
        return found

    def _until_length(self, data: bytes, at: int, pieces: list[bytes]) -> int:
        piece = data[at : at + self._left]
        pieces.append(piece)
        self._left -= len(piece)
        self.done = self._left == 0
        return at + len(piece)

    def _until_close(self, data: bytes, at: int, pieces: list[bytes]) -> int:
        pieces.append(data[at:])
        return len(data)

    def _chunk_size(self, data: bytes, at: int, _pieces: list[bytes]) -> int:
        end = data.find(b"\r\n", at)
        if (len(data) if end < 0 else end) - at > LINE_LIMIT:
            raise Malformed(f"a chunk line is longer than {LINE_LIMIT} bytes")
        if end < 0:
            return _MORE
        found = _CHUNK.fullmatch(data, at, end)
        if found is None:
            raise Malformed(f"the chunk line {data[at:end][:40]!r} is malformed")
        self._left = int(found[1], 16)
        self._state = Parser._chunk if self._left else Parser._trailer
        return end + 2

    def _chunk(self, data: bytes, at: int, pieces: list[bytes]) -> int:
        piece = data[at : at + self._left]
        pieces.append(piece)
        self._left -= len(piece)
        if not self._left:
            self._state = Parser._chunk_end
        return at + len(piece)

    def _chunk_end(self, data: bytes, at: int, _pieces: list[bytes]) -> int:
        end = data[at : at + 2]
        if not b"\r\n".startswith(end):
            raise Malformed("a chunk is longer than it said")
        if len(end) < 2:
            return _MORE
        self._state = Parser._chunk_size
        return at + 2

    def _trailer(self, data: bytes, at: int, _pieces: list[bytes]) -> int:
        # `_left` has come down to 0 and now counts the trailer bytes.
        end = data.find(b"\r\n", at)
        if self._left + (len(data) if end < 0 else end) - at > HEAD_LIMIT:
            raise Malformed(f"the trailers are longer than {HEAD_LIMIT} bytes")
        if end < 0:
            return _MORE
        if end == at:
            self.done = True
        elif _field(data[at:end])[0] in _FRAMING:
            raise Malformed("a trailer speaks of the framing")
        self._left += end + 2 - at
        return end + 2
