"""Server-sent events: bytes cut anywhere to payloads, and the frame of every streamed response."""

from __future__ import annotations

from typing import Final

import msgspec

from prong.wire.base import Ended, Event, Fault

_BOM: Final = b"\xef\xbb\xbf"


class Payload(msgspec.Struct, frozen=True, gc=False):
    """One event of the stream: its name, empty if it has none, and its data."""

    name: str
    data: bytes


class Splitter:
    """Cuts a byte stream into payloads.

    What has no line end cannot end an event, so it is only put aside: a long event that comes in
    many pieces is joined once.
    """

    __slots__ = ("_aside", "_fresh")

    def __init__(self) -> None:
        self._aside: list[bytes] = []
        self._fresh = True

    def feed(self, data: bytes) -> list[Payload]:
        """Take more bytes and give the payloads they complete."""
        self._aside.append(data)
        if b"\n" not in data and b"\r" not in data:
            return []
        return self._split(b"".join(self._aside))

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

    __slots__ = ("_lines", "_out", "_over")

    def __init__(self) -> None:
        self._lines = Splitter()
        self._out: list[Event] = []
        self._over = False

    def feed(self, data: bytes) -> list[Event]:
        """Take more bytes of a streamed response."""
        if not self._over:
            self._run(self._lines.feed(data))
        return self._drain()

    def close(self) -> list[Event]:
        """Say that no more comes; a reply that is not whole is a `Fault`."""
        if not self._over:
            # What is left may be cut off in the middle: that is an early end, not bad JSON.
            self._run(self._lines.close(), fault="truncated")
        if not self._over:
            try:
                self._finish()
            except (ValueError, RecursionError) as error:
                self._end(broken("malformed", f"the reply cannot be put together: {error}"))
        return self._drain()

    def whole(self, body: bytes) -> list[Event]:
        """Decode a response that was not streamed."""
        if not self._over:
            try:
                self._whole(body)
            except (ValueError, RecursionError) as error:
                self._end(broken("malformed", f"the response is not what was asked for: {error}"))
        return self._drain()

    def _run(self, payloads: list[Payload], *, fault: str = "malformed") -> None:
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

    def _drain(self) -> list[Event]:
        out = self._out
        self._out = []
        return out

    def _take(self, payload: Payload) -> None:
        raise NotImplementedError

    def _finish(self) -> None:
        raise NotImplementedError

    def _whole(self, body: bytes) -> None:
        raise NotImplementedError


def broken(kind: str, message: str) -> Fault:
    """Make the fault of a response that ended early or makes no sense; it may be asked again."""
    return Fault(kind, message, retryable=True)
