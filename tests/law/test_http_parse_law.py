"""The response parser against h11, which serves as the oracle."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import h11
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from prong.provider.parse import HEAD_LIMIT, Malformed, Parser, Truncated


class Read(NamedTuple):
    status: int
    fields: list[tuple[bytes, bytes]]
    body: bytes


TOKEN = st.text("abcXYZ019-_!~", min_size=1, max_size=12).map(str.encode)
VALUE = st.text([chr(c) for c in (*range(0x21, 0x7F), 0xE9, 0xFF, 0x20, 0x09)], max_size=20).map(
    lambda s: s.encode("latin-1").strip(b" \t")
)
SPACE = st.sampled_from([b"", b" ", b"\t ", b"  "])
FRAMING = (b"content-length", b"transfer-encoding")
CUTS = st.lists(st.integers(0, 600), max_size=12)


@st.composite
def fields(draw: st.DrawFn) -> bytes:
    pairs = draw(st.lists(st.tuples(TOKEN, SPACE, VALUE, SPACE), max_size=4))
    return b"".join(b"%s:%s%s%s\r\n" % pair for pair in pairs)


@st.composite
def chunked(draw: st.DrawFn, body: bytes) -> bytes:
    out, at = b"", 0
    while at < len(body):
        size = draw(st.integers(1, len(body) - at))
        extension = draw(st.sampled_from([b"", b";a=b", b';q="x y"', b" "]))
        digits = draw(st.sampled_from([b"%x", b"%X", b"000%x"])) % size
        out += digits + extension + b"\r\n" + body[at : at + size] + b"\r\n"
        at += size
    return out + b"0\r\n" + draw(fields()) + b"\r\n"


@st.composite
def responses(draw: st.DrawFn) -> bytes:
    early = b"".join(
        b"HTTP/1.1 %d Early\r\n%s\r\n" % (draw(st.sampled_from([100, 102, 103])), draw(fields()))
        for _ in range(draw(st.integers(0, 2)))
    )
    status = draw(st.sampled_from([200, 201, 204, 301, 304, 400, 429, 529, 999]))
    reason = draw(st.sampled_from([b"", b" ", b" OK", b" Not \xe9 here"]))
    body = draw(st.binary(max_size=80))
    framing = draw(st.sampled_from(["length", "twice", "chunked", "close"]))
    head = b"HTTP/1.1 %d%s\r\n" % (status, reason) + draw(fields())
    if draw(st.booleans()):
        option = draw(st.sampled_from([b"close", b"keep-alive", b"x, Close"]))
        head += b"Connection: %s\r\n" % option
    if status in {204, 304}:
        return early + head + b"\r\n"
    if framing == "chunked":
        return early + head + b"Transfer-Encoding: chunked\r\n\r\n" + draw(chunked(body))
    if framing == "close":
        return early + head + b"\r\n" + body
    length = b"Content-Length: %d\r\n" % len(body) * (2 if framing == "twice" else 1)
    return early + head + length + b"\r\n" + body


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    at = [0, *sorted(c for c in cuts if c < len(data)), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(at) if a < b]


def ours(data: bytes, cuts: list[int]) -> tuple[Read, Parser]:
    parser = Parser()
    body = b"".join(piece for cut in pieces(data, cuts) for piece in parser.feed(cut))
    if not parser.done:
        parser.eof()
    # h11 shows a repeated length once.
    found = list(dict.fromkeys(f for f in parser.fields if f[0] == b"content-length"))
    rest = [f for f in parser.fields if f[0] != b"content-length"]
    return Read(parser.status, sorted(found + rest), body), parser


def theirs(data: bytes) -> tuple[Read, bool]:
    peer = h11.Connection(h11.CLIENT, max_incomplete_event_size=1 << 20)
    headers = [("host", "x"), ("content-length", "0")]
    peer.send(h11.Request(method="POST", target="/", headers=headers))
    peer.send(h11.EndOfMessage())
    peer.receive_data(data)
    peer.receive_data(b"")
    status, found, body = 0, list[tuple[bytes, bytes]](), b""
    while True:
        event = peer.next_event()
        match event:
            case h11.Response():
                status, found = event.status_code, list(event.headers)
            case h11.InformationalResponse():
                assert event.status_code != 101
            case h11.Data():
                body += bytes(event.data)
            case h11.EndOfMessage():
                # h11 leaves it to its user to notice that the end of the connection was the end.
                framed = status in {204, 304} or any(name in FRAMING for name, _ in found)
                return Read(status, sorted(found), body), framed and peer.their_state is h11.DONE
            case other:
                raise h11.RemoteProtocolError(f"no end: {other}")


@pytest.mark.spec("L10")
@given(data=responses(), cuts=CUTS)
def test_a_sound_response_is_read_as_h11_reads_it_wherever_it_is_cut(data: bytes, cuts: list[int]):
    """Status, headers, body and reuse agree with h11, whatever the cuts."""
    read, parser = ours(data, cuts)
    expected, reusable = theirs(data)

    assert read == expected
    assert parser.keep_alive == reusable


@pytest.mark.spec("L10")
@given(data=responses(), junk=st.binary(min_size=1, max_size=3), at=st.floats(0, 1), cuts=CUTS)
@example(data=b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n", junk=b"\n", at=0.8, cuts=[])
def test_what_is_accepted_of_damaged_bytes_means_the_same_to_h11(
    data: bytes, junk: bytes, at: float, cuts: list[int]
):
    """The parser is never more lenient than h11, nor does it ever read something else."""
    place = int(at * len(data))
    damaged = data[:place] + junk + data[place + len(junk) :]
    try:
        read, parser = ours(damaged, cuts)
    except Malformed:
        return
    expected, reusable = theirs(damaged)

    assert read == expected
    assert reusable or not parser.keep_alive


@given(data=responses(), at=st.floats(0, 0.999))
def test_a_response_cut_off_is_never_whole(data: bytes, at: float):
    """Unless the end of the connection is the end of the body, a prefix is truncated."""
    parser, whole = Parser(), Parser()
    whole.feed(data)
    assume(whole.done)
    parser.feed(data[: int(at * len(data))])

    assert not parser.done
    with pytest.raises(Truncated):
        parser.eof()


OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/2 200 OK\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 101 Switching\r\nupgrade: x\r\n\r\n",
        OK + b"content-length: 3\r\ncontent-length: 4\r\n\r\n",
        OK + b"content-length: -1\r\n\r\n",
        OK + b"content-length: +1\r\n\r\n",
        OK + b"content-length: 9999999999999999999\r\n\r\n",
        OK + b"transfer-encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
        OK + b"a: b\r\n c\r\n\r\n",
        OK + b"a : b\r\n\r\n",
        OK + b"a: b\x00\r\n\r\n",
        OK + b"a: b\nx: y\r\n\r\n",
        OK + b"a: " + b"b" * HEAD_LIMIT,
        CHUNKED + b"5\r\nhelloX",
        CHUNKED + b"0x5\r\nhello",
        CHUNKED + b"0" * 5_000,
        CHUNKED + b"0\r\ncontent-length: 5\r\n\r\n",
        CHUNKED + b"0\r\n" + b"a: b\r\n" * 20_000,
    ],
    ids=lambda data: repr(data[-30:]),
)
def test_bytes_that_could_be_read_in_two_ways_are_refused(data: bytes):
    """Ambiguous framing, foreign protocols and endless heads are errors at once."""
    with pytest.raises(Malformed):
        Parser().feed(data)


def test_bytes_after_the_end_forbid_reuse():
    """An answer to a question nobody asked makes the connection useless."""
    parser = Parser()
    parser.feed(OK + b"content-length: 1\r\n\r\naHTTP/1.1 200")

    assert parser.done
    assert parser.excess
    assert not parser.keep_alive
