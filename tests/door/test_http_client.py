from __future__ import annotations

import gzip
import shutil
import socket
import ssl
import subprocess
import zlib
from pathlib import Path

import anyio
import pytest

from prong.errors import BrokenReply, Unreachable, UsageError
from prong.provider import connection
from prong.provider.http import Http, HttpLimits
from prong.provider.transport import read

pytestmark = [pytest.mark.anyio, pytest.mark.door]

CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


async def echo(peer, _number):
    """Answer every request with its own body."""
    while True:
        _, body = await peer.request()
        await peer.answer(body)


async def post(http: Http, url: str, body: bytes = b"x", headers=()) -> bytes:
    async with http.request("POST", url, headers, body) as response:
        return await read(response)


async def test_a_finished_connection_is_used_again(serve):
    """Requests one after another share a connection; requests at once do not."""
    async with serve(echo) as server, Http(env={}) as http:
        assert [await post(http, server.url, b"%d" % n) for n in range(5)] == [
            b"0", b"1", b"2", b"3", b"4",
        ]  # fmt: skip
        assert server.connections == 1

        async with http.request("POST", server.url, (), b"held open") as response:
            await post(http, server.url)
            assert await read(response) == b"held open"
        assert server.connections == 2


async def test_the_request_arrives_as_it_was_given(serve):
    """Method, path, query, headers and a large body are on the wire byte for byte."""
    seen: list[tuple[str, bytes]] = []

    async def play(peer, _number):
        seen.append(await peer.request())
        await peer.answer(b"")

    body = bytes(range(256)) * 4_000
    async with serve(play) as server, Http(env={}) as http:
        await post(http, f"{server.url}/v1/x?beta=true", body, [("x-api-key", "käse")])

    [(head, sent)] = seen
    assert head.split("\r\n") == [
        "POST /v1/x?beta=true HTTP/1.1",
        f"host: 127.0.0.1:{server.port}",
        "accept-encoding: identity",
        f"content-length: {len(body)}",
        "x-api-key: käse",
    ]
    assert sent == body


@pytest.mark.spec("L10")
async def test_a_stale_connection_is_replaced_once(serve):
    """A kept connection that breaks before any byte of a response is tried anew on a fresh one."""

    async def play(peer, number):
        await peer.request()
        await peer.answer(b"%d" % number)
        if number == 1:
            await peer.request()

    async with serve(play) as server, Http(env={}) as http:
        assert await post(http, server.url) == b"1"
        assert await post(http, server.url) == b"2"


@pytest.mark.spec("L10")
async def test_a_fresh_connection_that_breaks_is_an_error(serve):
    """Nothing is sent twice over when the connection was new."""

    async def play(peer, _number):
        await peer.request()

    async with serve(play) as server, Http(env={}) as http:
        with pytest.raises(Unreachable, match="gave no reply"):
            await post(http, server.url)
        assert server.connections == 1


@pytest.mark.spec("L10")
async def test_cancelling_closes_the_socket(serve):
    """The server sees the end at once, whether the head or the body was awaited."""
    asked, begun, gone = anyio.Semaphore(0), anyio.Semaphore(0), anyio.Semaphore(0)

    async def play(peer, number):
        await peer.request()
        asked.release()
        if number == 2:
            await peer.send(CHUNKED + b"1\r\na\r\n")
        await peer.wait_gone()
        gone.release()

    async def ask() -> None:
        async with http.request("POST", server.url, (), b"x") as response:
            async for _ in response:
                begun.release()

    async with serve(play) as server, Http(env={}) as http:
        for number in (1, 2):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask)
                await (asked if number == 1 else begun).acquire()
                await anyio.wait_all_tasks_blocked()
                tasks.cancel_scope.cancel()
            with anyio.fail_after(50):
                await gone.acquire()


async def test_leaving_early_closes_unless_the_rest_was_settled(serve, monkeypatch):
    """A reader who has enough may let the response end, and the connection is used again."""
    may_end, ended = anyio.Semaphore(0), anyio.Semaphore(0)

    async def play(peer, _number):
        while True:
            await peer.request()
            await peer.send(CHUNKED + b"1\r\na\r\n")
            await may_end.acquire()
            await peer.send(b"1\r\nb\r\n0\r\n\r\n")
            ended.release()

    async def first(*, settle: bool) -> bytes:
        async with http.request("POST", server.url, (), b"x") as response:
            if settle:
                response.settle()
            return await anext(response)

    # However long the rest takes to come.
    monkeypatch.setattr(connection, "_SETTLE_SECONDS", 600.0)
    async with serve(play) as server, Http(env={}) as http:
        assert await first(settle=True) == b"a"
        may_end.release()
        await ended.acquire()
        (pool,) = http._pools.values()
        while not pool.free:
            await anyio.sleep(0.001)
        assert await first(settle=False) == b"a"
        assert server.connections == 1
        assert await first(settle=True) == b"a"
        assert server.connections == 2


@pytest.mark.spec("L10")
@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (CHUNKED + b"5\r\nhel", "ended in the middle"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhel", "ended in the middle"),
        (CHUNKED + b"3\r\nhelX", "longer than it said"),
    ],
)
async def test_a_truncated_body_is_never_taken_for_whole(serve, sent, why):
    """The reader is told that the body broke off, whatever its framing."""

    async def play(peer, _number):
        await peer.request()
        await peer.send(sent)

    async with serve(play) as server, Http(env={}) as http:
        with pytest.raises(BrokenReply, match=why):
            await post(http, server.url)


async def test_a_chunked_body_may_be_cut_anywhere(serve):
    """Every byte in a packet of its own makes the same body."""

    async def play(peer, _number):
        await peer.request()
        for byte in CHUNKED + b"5;x=y\r\nhello\r\n6\r\n world\r\n0\r\na: b\r\n\r\n":
            await peer.send(bytes([byte]))
            await anyio.sleep(0)

    async with serve(play) as server, Http(env={}) as http:
        assert await post(http, server.url) == b"hello world"


@pytest.mark.spec("L10")
@pytest.mark.parametrize("sent", [b"", CHUNKED + b"1\r\na\r\n"])
async def test_silence_ends_after_the_idle_limit(serve, sent):
    """A server that says nothing more is given up, before its head and after it."""
    seen = anyio.Event()

    async def play(peer, _number):
        seen.set()
        await peer.request()
        await peer.send(sent)
        await peer.wait_gone()

    async with serve(play) as server, Http(env={}, limits=HttpLimits(idle=0.1)) as http:
        with pytest.raises((Unreachable, BrokenReply), match=r"nothing came for 0\.1 s"):
            await post(http, server.url)
        # It may be given up before its server has had a turn.
        await seen.wait()
        assert server.connections == 1


async def test_a_slow_reader_stops_the_sender(serve):
    """The client holds a bounded part of a body that nobody reads, and loses none of it."""
    total = 64 << 20
    sent = 0

    async def play(peer, _number):
        nonlocal sent
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % total)
        for _ in range(total >> 16):
            await peer.send(b"z" * 65_536)
            sent += 65_536

    async with serve(play) as server, Http(env={}) as http:
        async with http.request("POST", server.url, (), b"x") as response:
            await anyio.sleep(0.2)
            assert sent < total // 2
            size = 0
            async for piece in response:
                size += len(piece)
        assert size == total


async def test_the_cap_makes_requests_wait_their_turn(serve):
    """No more connections are open than the cap allows, and all requests are answered."""
    async with serve(echo) as server, Http(env={}, limits=HttpLimits(connections=3)) as http:
        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(post, http, server.url)
        assert server.connections <= 3


async def test_an_early_refusal_is_read_although_the_body_was_not_sent(serve):
    """A server may answer and read no further: the answer counts, the connection does not."""
    done = anyio.Event()

    async def play(peer, number):
        if number == 2:
            await echo(peer, number)
        await peer.stream.receive(100)
        await peer.answer(b"too big", status="413 Too Large")
        await done.wait()

    async with serve(play) as server, Http(env={}) as http:
        async with http.request("POST", server.url, (), b"x" * (32 << 20)) as response:
            assert response.status == 413
            assert await read(response) == b"too big"
        with anyio.fail_after(50):
            assert await post(http, server.url, b"small") == b"small"
        done.set()


async def test_an_interim_response_does_not_stop_the_body(serve):
    """Early hints in the middle of an upload are passed over, and the rest is sent."""

    async def play(peer, _number):
        start = await peer.stream.receive(100)
        await peer.send(b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n")
        await anyio.sleep(0.05)
        peer.unread(start)
        _, body = await peer.request()
        await peer.answer(b"%d" % len(body))

    async with serve(play) as server, Http(env={}) as http:
        assert await post(http, server.url, b"x" * (32 << 20)) == b"%d" % (32 << 20)


def _raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize(
    ("coding", "pack"),
    [("gzip", gzip.compress), ("deflate", zlib.compress), ("Deflate", _raw_deflate)],
)
async def test_a_body_compressed_unasked_is_decoded(serve, coding, pack):
    """Gzip and both kinds of deflate are understood, cut anywhere; a torn one is an error."""
    text = b"a plain text, " * 50_000

    async def play(peer, number):
        await peer.request()
        data = pack(text)[: -9 if number == 2 else None]
        head = (
            f"HTTP/1.1 200 OK\r\ncontent-encoding: {coding}\r\ncontent-length: {len(data)}\r\n\r\n"
        )
        await peer.send(head.encode() + data[:1])
        await anyio.sleep(0.01)
        await peer.send(data[1:])

    async with serve(play) as server, Http(env={}) as http:
        assert await post(http, server.url) == text
        with pytest.raises(BrokenReply, match="compress"):
            await post(http, server.url)


@pytest.mark.parametrize(
    ("name", "value"),
    [("x", "a\r\nhost: evil"), ("x", "a\nb"), ("x\r\ny", "hush"), ("x", "\u20ac")],
)
async def test_a_header_cannot_smuggle_a_line(name, value):
    """A line break or foreign character in a header is refused, and its value is not shown."""
    async with Http(env={}) as http:
        with pytest.raises(UsageError) as caught:
            await post(http, "http://127.0.0.1:1/", b"", [(name, value)])
    assert value not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    ["ftp://x/", "http://a..b/", "http://", "http://x y/", "http://x/a b", "http://x/\r\n", "x", "http://x:99999/",
     "http://u:secret@x/"],
)  # fmt: skip
async def test_a_url_that_cannot_be_is_refused(url):
    """What is not plainly an http or https URL is an error of use, without the password."""
    async with Http(env={}) as http:
        with pytest.raises(UsageError) as caught:
            await post(http, url)
    assert "secret" not in str(caught.value)


async def test_an_ipv6_address_is_reached(serve):
    """The brackets of an IPv6 host are for the URL and the Host header only."""
    seen: list[str] = []

    async def play(peer, _number):
        seen.append((await peer.request())[0])
        await peer.answer(b"six")

    try:
        async with serve(play, host="::1") as server, Http(env={}) as http:
            assert await post(http, f"http://[::1]:{server.port}/") == b"six"
    except OSError:
        pytest.skip("this machine has no IPv6")
    assert f"host: [::1]:{server.port}" in seen[0]


@pytest.mark.spec("L10")
async def test_an_unreachable_server_is_named_with_what_to_check():
    """Nothing listening and no such name are told apart."""
    # Held, so that nobody else gets it, and not listened at.
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        await _cannot_be_reached(port)


async def _cannot_be_reached(port: int) -> None:
    async with Http(env={}) as http:
        with pytest.raises(
            Unreachable,
            match=rf"127\.0\.0\.1:{port} \(connection refused\); check that the server runs",
        ):
            await post(http, f"http://127.0.0.1:{port}/")
        with pytest.raises(Unreachable, match=r"no-such-host\.invalid cannot be resolved"):
            await post(http, "http://no-such-host.invalid/")


async def test_a_server_that_speaks_something_else_is_told_apart(serve):
    """A greeting of another protocol is not waited for, and is quoted."""

    async def play(peer, _number):
        await peer.send(b"220 mail.example ESMTP\r\n")
        await peer.wait_gone()

    async with serve(play) as server, Http(env={}) as http:
        with pytest.raises((Unreachable, BrokenReply)):
            await post(http, server.url)


async def test_a_plain_request_goes_through_a_proxy(serve):
    """With HTTP_PROXY the absolute URL and the proxy's password go to the proxy."""
    seen: list[str] = []

    async def proxy(peer, _number):
        seen.append((await peer.request())[0])
        await peer.answer(b"by proxy")

    async with serve(proxy) as server:
        env = {"HTTP_PROXY": f"http://user:p%40ss@127.0.0.1:{server.port}", "NO_PROXY": "b.test"}
        async with Http(env=env) as http:
            assert await post(http, "http://a.test/v1?x=1") == b"by proxy"
            with pytest.raises(Unreachable, match=r"b\.test"):
                await post(http, "http://b.test/")
    assert seen[0].startswith("POST http://a.test/v1?x=1 HTTP/1.1\r\nhost: a.test\r\n")
    assert "proxy-authorization: Basic dXNlcjpwQHNz" in seen[0]


@pytest.fixture(scope="module", name="certificate")
def _certificate(tmp_path_factory) -> Path:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-days", "2", "-subj", "/CN=a.test", "-addext",
         "subjectAltName=DNS:a.test,IP:127.0.0.1", "-keyout", folder / "key.pem",
         "-out", folder / "cert.pem"],
        check=True, capture_output=True,
    )  # fmt: skip
    return folder


@pytest.fixture(name="tls")
def _tls(certificate) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    return context


async def test_tls_trusts_what_ssl_cert_file_names_and_nothing_else(serve, tls, certificate):
    """A certificate of one's own works with SSL_CERT_FILE; without it the remedy is named."""
    body = b"y" * 400_000
    trusted = {"SSL_CERT_FILE": str(certificate / "cert.pem")}
    async with serve(echo, tls=tls) as server:
        async with Http(env=trusted) as http:
            assert await post(http, server.url, body) == body
            assert await post(http, server.url, body) == body
            assert server.connections == 1
            with pytest.raises(Unreachable, match="certificate"):
                await post(http, f"https://localhost:{server.port}/")
        async with Http(env={}) as http:
            with pytest.raises(Unreachable, match="set SSL_CERT_FILE") as caught:
                await post(http, server.url)
            assert not caught.value.retryable
        async with Http(env={"SSL_CERT_FILE": str(certificate / "none.pem")}) as http:
            with pytest.raises(UsageError, match="SSL_CERT_FILE"):
                await post(http, server.url)


async def test_tls_to_a_plain_server_says_so(serve):
    """An https URL for an http server fails with a hint."""

    async def play(peer, _number):
        await peer.stream.receive()
        await peer.answer(b"", status="400 Bad Request")

    async with serve(play) as server, Http(env={}) as http:
        with pytest.raises(Unreachable, match=r"no TLS connection .* begins with http://"):
            await post(http, f"https://127.0.0.1:{server.port}/")


async def test_tls_goes_through_a_proxy_by_connect(serve, tls, certificate):
    """CONNECT opens a tunnel that is kept; a proxy that refuses is named with its variable."""
    seen: list[str] = []

    async with serve(echo, tls=tls) as server:

        async def proxy(peer, number):
            seen.append((await peer.request())[0])
            if number == 2:
                await peer.answer(b"who are you?", status="407 Proxy Authentication Required")
                return
            await peer.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await _join(peer.stream, server.port)

        async with serve(proxy) as middle:
            env = {
                "https_proxy": f"127.0.0.1:{middle.port}",
                "SSL_CERT_FILE": str(certificate / "cert.pem"),
            }
            async with Http(env=env) as http:
                assert await post(http, "https://a.test/", b"through") == b"through"
                assert await post(http, "https://a.test/", b"again") == b"again"
            assert seen == ["CONNECT a.test:443 HTTP/1.1\r\nhost: a.test:443"]
            async with Http(env=env) as http:
                with pytest.raises(Unreachable, match=r"https_proxy.*407.*password"):
                    await post(http, "https://a.test/")


async def _join(near, port):
    """Carry bytes both ways until either end is gone."""
    async with await anyio.connect_tcp("127.0.0.1", port) as far, anyio.create_task_group() as both:

        async def carry(source, target):
            try:
                async for data in source:
                    await target.send(data)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                pass
            both.cancel_scope.cancel()

        both.start_soon(carry, near, far)
        both.start_soon(carry, far, near)
