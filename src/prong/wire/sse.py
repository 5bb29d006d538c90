"""Server-sent events: bytes cut anywhere to payloads, and the frame of every streamed response."""

from __future__ import annotations

from typing import Final

import msgspec

from prong.wire.dialect import (
    BOUNDS,
    CallBegan,
    CallPiece,
    Ended,
    Fault,
    ResponseBounds,
    TextPiece,
    ThinkingPiece,
    WireEvent,
)

_BOM: Final = b"\xef\xbb\xbf"
_PIECES: Final = (TextPiece, ThinkingPiece, CallPiece)


class Excess(Exception):
    """A response holds more than it may."""


class Payload(msgspec.Struct, frozen=True, gc=False):
    """One event of the stream: its name, empty if it has none, and its data."""

    name: str
    data: bytes


class Splitter:
    """Cuts a byte stream into payloads.

    What has no blank line cannot end an event, so it is only put aside: a long event that comes in
    many pieces is joined once.
    """

    __slots__ = ("_aside", "_fresh", "_limit", "_size")

    def __init__(self, limit: int = BOUNDS.event) -> None:
        self._aside: list[bytes] = []
        self._size = 0
        self._limit = limit
        self._fresh = True

    def feed(self, data: bytes) -> list[Payload]:
        """Take more bytes and give the payloads they complete.

        Raises:
            Excess: an event has more bytes than it may.

        """
        before = self._aside[-1][-1:] if self._aside else b""
        self._aside.append(data)
        self._size += len(data)
        found: list[Payload] = []
        if _may_end(before + data):
            found = self._split(b"".join(self._aside))
            self._size = sum(map(len, self._aside))
        if self._size > self._limit:
            raise Excess(f"one of its events is longer than {self._limit} bytes")
        return found

    def close(self) -> list[Payload]:
        """Give the last payload, if the stream ended without the blank line behind it."""
        rest = b"".join(self._aside)
        self._aside.clear()
        return self._split(rest + b"\n\n") if rest else []

    def _split(self, data: bytes) -> list[Payload]:
        if self._fresh:
            if len(data) < len(_BOM) and _BOM.startswith(data):
                self._aside = [data]
                return []
            data = data.removeprefix(_BOM)
            self._fresh = False
        held = b""
        if b"\r" in data:
            # A final CR may be half of a CRLF, so it waits for the byte behind it.
            if data.endswith(b"\r"):
                data, held = data[:-1], b"\r"
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *events, rest = data.split(b"\n\n")
        self._aside = [rest + held]
        return [payload for event in events if (payload := _payload(event)) is not None]


def _may_end(data: bytes) -> bool:
    """Say whether two line ends of any kind stand together, which only a blank line needs."""
    return b"\n\n" in data or b"\n\r" in data or b"\r\r" in data


def _payload(event: bytes) -> Payload | None:
    first, _, rest = event.partition(b"\n")
    if first.startswith(b"event: ") and rest.startswith(b"data: ") and b"\n" not in rest:
        # What nearly all of them look like.
        return Payload(first[7:].decode("utf-8", "replace"), rest[6:])
    name = ""
    data: list[bytes] = []
    for line in event.split(b"\n"):
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.removeprefix(b" ").decode("utf-8", "replace")
    if not data:
        return None
    return Payload(name, data[0] if len(data) == 1 else b"\n".join(data))


class Stream:
    """The frame of a decoder: one response, ended by one `Ended` or one `Fault` and then silent."""

    __slots__ = (
        "_bounds",
        "_bytes",
        "_called",
        "_events",
        "_lines",
        "_out",
        "_over",
        "_parts",
        "_text",
    )

    def __init__(self, bounds: ResponseBounds = BOUNDS) -> None:
        self._bounds = bounds
        self._lines = Splitter(bounds.event)
        self._out: list[WireEvent] = []
        self._over = False
        self._bytes = self._events = self._parts = self._text = self._called = 0

    def feed(self, data: bytes) -> list[WireEvent]:
        """Take more bytes of a streamed response."""
        if not self._over:
            self._bytes += len(data)
            try:
                _hold(self._bytes, self._bounds.response, "bytes")
                self._run(self._lines.feed(data))
            except Excess as error:
                self._end(_excessive(error))
        return self._drain()

    def close(self) -> list[WireEvent]:
        """Say that no more comes; a reply that is not whole is a `Fault`."""
        if not self._over:
            # What is left may be cut off in the middle: that is an early end, not bad JSON.
            try:
                self._run(self._lines.close(), fault="truncated")
            except Excess as error:
                self._end(_excessive(error))
        if not self._over:
            try:
                self._finish()
            except (ValueError, RecursionError) as error:
                self._end(broken("malformed", f"the reply cannot be put together: {error}"))
        return self._drain()

    def whole(self, body: bytes) -> list[WireEvent]:
        """Decode a response that was not streamed."""
        if not self._over:
            try:
                _hold(len(body), self._bounds.response, "bytes")
                self._whole(body)
            except Excess as error:
                self._end(_excessive(error))
            except (ValueError, RecursionError) as error:
                self._end(broken("malformed", f"the response is not what was asked for: {error}"))
        return self._drain()

    def _run(self, payloads: list[Payload], *, fault: str = "malformed") -> None:
        self._events += len(payloads)
        _hold(self._events, self._bounds.events, "events")
        for payload in payloads:
            try:
                self._take(payload)
            except (ValueError, RecursionError) as error:
                self._end(broken(fault, f"an event of the stream is malformed: {error}"))
            if self._over:
                return

    def _end(self, event: Ended | Fault) -> None:
        self._out.append(event)
        self._over = True

    def _begin_part(self) -> None:
        """Count a block, an item or an element: each takes much more room than its bytes.

        Raises:
            Excess: there are more than there may be.

        """
        self._parts += 1
        _hold(self._parts, self._bounds.parts, "parts")

    def _drain(self) -> list[WireEvent]:
        out = self._out
        self._out = []
        try:
            self._count(out)
        except Excess as error:
            # What came together with too much is void like all the rest.
            self._over = True
            return [_excessive(error)]
        return out

    def _count(self, events: list[WireEvent]) -> None:
        for event in events:
            if isinstance(event, _PIECES):
                self._text += len(event.text)
            elif isinstance(event, CallBegan):
                self._called += 1
            elif isinstance(event, Ended):
                reply = event.reply
                self._text = max(self._text, len(reply.text) + len(reply.thinking))
                self._called = max(self._called, len(reply.calls))
        _hold(self._text, self._bounds.text, "characters")
        _hold(self._called, self._bounds.calls, "calls")

    def _take(self, payload: Payload) -> None:
        raise NotImplementedError

    def _finish(self) -> None:
        raise NotImplementedError

    def _whole(self, body: bytes) -> None:
        raise NotImplementedError


def _hold(count: int, limit: int, what: str) -> None:
    if count > limit:
        raise Excess(f"it has more than {limit} {what}")


def _excessive(error: Excess) -> Fault:
    """Make the fault of a response without end; to ask again would bring another."""
    return Fault("too_large", f"{error}, which no model writes", retryable=False)


def broken(kind: str, message: str) -> Fault:
    """Make the fault of a response that ended early or makes no sense; it may be asked again."""
    return Fault(kind, message, retryable=True)
