"""Answers of a hostile server: without end, out of proportion, or without content.

Each flood goes on until the client hangs up, and counts what it sent: how much a client took before
it had enough is what a test can assert. `spoil` changes an honest stream by chance.
"""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import Literal, TypeAlias, get_args

from prong.testing.http import Exchange

Flood: TypeAlias = Literal[
    "line",
    "event",
    "text",
    "events",
    "pings",
    "bomb",
    "headers",
    "interim",
    "body",
    "error",
    "drip",
]
"""What never ends:

    line      one line of one event
    event     the lines of one event
    text      the reply's text, in large pieces
    events    events that say nothing
    pings     keep-alives, with the step's pause between them
    bomb      a compressed body that is a thousand times as long
    headers   the headers of the response
    interim   interim responses before the real one
    body      a body that is not streamed
    error     the body of an error
    drip      the headers again, byte by byte, with the step's pause between them
"""
FLOODS: tuple[Flood, ...] = get_args(Flood)

_PIECE = 65_536
_PACKED = 1 << 20


async def pour(
    flood: Flood,
    exchange: Exchange,
    events: Sequence[bytes],
    headers: Mapping[str, str],
    pause: Callable[[], Awaitable[None]],
    count: Callable[[int], None],
) -> None:
    """Send such an answer; `events` is the beginning of an honest one, the last is repeated.

    Returns never: a client that hangs up ends it with an exception.
    """
    async for data in _raw(flood, events, headers, pause):
        await exchange.send_raw(data)
        count(len(data))


async def _raw(
    flood: Flood,
    events: Sequence[bytes],
    headers: Mapping[str, str],
    pause: Callable[[], Awaitable[None]],
) -> AsyncGenerator[bytes]:
    match flood:
        case "headers" | "drip" | "interim":
            async for data in _heads(flood, pause):
                yield data
        case "body" | "error":
            status = "200 OK" if flood == "body" else "500 Internal Server Error"
            yield _head(status, {**headers, "content-type": "application/json"})
            while True:
                yield _chunk(b" " * _PIECE)
        case "bomb":
            yield _head("200 OK", {**headers, "content-encoding": "gzip"})
            packer = zlib.compressobj(9, zlib.DEFLATED, 31)
            yield _chunk(packer.compress(b"") + packer.flush(zlib.Z_FULL_FLUSH))
            # After a full flush a block stands for itself, so it can be sent again and again.
            block = packer.compress(b"data: 0\n" * (_PACKED // 8))
            block += packer.flush(zlib.Z_FULL_FLUSH)
            while True:
                yield _chunk(block)
        case _:
            yield _head("200 OK", headers)
            yield _chunk(b"".join(events[:-1]))
            while True:
                yield _chunk(_more(flood, events[-1]))
                await pause()


async def _heads(flood: Flood, pause: Callable[[], Awaitable[None]]) -> AsyncGenerator[bytes]:
    if flood != "interim":
        yield b"HTTP/1.1 200 OK\r\n"
    while True:
        match flood:
            case "interim":
                yield b"HTTP/1.1 102 Processing\r\n\r\n"
            case "drip":
                yield b"x"
                await pause()
            case _:
                yield b"x-more: more and more\r\n"


def _more(flood: Flood, event: bytes) -> bytes:
    match flood:
        case "line":
            return b"x" * _PIECE
        case "event":
            return b"data: x\n" * (_PIECE // 8)
        case "events":
            return b"data: {}\n\n" * (_PIECE // 10)
        case "pings":
            return b": still here\n\n"
        case _:
            return event * max(1, _PIECE // len(event))


def _head(status: str, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status}", "transfer-encoding: chunked"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data) if data else b""


_VALUES = [
    *[b"null", b"true", b"-1", b"1e999", b"99999999999999999999999", b'""', b'"\\ud800"', b"[]"],
    *[b"{}", b"[" * 2000 + b"]" * 2000, b'{"a":' * 50 + b"1" + b"}" * 50, b'"<system-reminder>"'],
    *[b'"end_turn"', b'"tool_calls"', b'"function_call"', b'"text"', b"NaN", b'"\\u0000"'],
]
_NOISE = [
    b"\n",
    b"\n\n",
    b"\r",
    b"\x00",
    b"\xff\xfe",
    b"data: ",
    b"data: [DONE]\n\n",
    b": x\n",
    b"}",
    b'"',
]
_VALUE = re.compile(rb'(?<=":)(?:"(?:[^"\\]|\\.)*"|[-\w.]+)')
_NAME = re.compile(rb'"(\w+)"(?=:)')


def spoil(events: Sequence[bytes], seed: int) -> list[bytes]:
    """Change the events of a stream: bytes, values, names, whole events; the same for each seed."""
    rng = random.Random(seed)  # noqa: S311 - the same stream for the same seed
    spoilt = list(events)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        at = rng.randrange(len(spoilt))
        match rng.randrange(10):
            case 0 if len(spoilt) > 1:
                del spoilt[at]
            case 1:
                spoilt.insert(rng.randrange(len(spoilt) + 1), spoilt[at])
            case 2:
                spoilt.append(spoilt.pop(at))
            case 3 if at:
                del spoilt[at:]
            case _:
                spoilt[at] = _spoilt(spoilt[at], rng)
    return spoilt


def _spoilt(event: bytes, rng: random.Random) -> bytes:
    if not event:
        return event
    at = rng.randrange(len(event))
    match rng.randrange(6):
        case 0:
            return event[:at] + bytes([event[at] ^ (1 << rng.randrange(8))]) + event[at + 1 :]
        case 1:
            return event[:at]
        case 2:
            return event[:at] + rng.choice(_NOISE) + event[at:]
        case 3:
            return _replaced(event, _NAME, b'"x"', rng)
        case _:
            return _replaced(event, _VALUE, rng.choice(_VALUES), rng)


def _replaced(event: bytes, what: re.Pattern[bytes], by: bytes, rng: random.Random) -> bytes:
    places = list(what.finditer(event))
    if not places:
        return event
    place = rng.choice(places)
    return event[: place.start()] + by + event[place.end() :]
