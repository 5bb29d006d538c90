"""Processor time of our HTTP client for one request, against httpx2."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator

import anyio
import httpx2
from measure import Row

from prong.provider import Http
from prong.provider.transport import read

REQUESTS, ROUNDS = 150, 6
BODY = b'{"messages":[' + b"x" * 100_000

_SERVER = """
import socket
answer = b"data: " + b"y" * 120 + b"\\n\\n"
chunk = b"%x\\r\\n%s\\r\\n" % (len(answer), answer)
reply = b"HTTP/1.1 200 OK\\r\\nContent-Type: text/event-stream\\r\\n"
reply += b"Transfer-Encoding: chunked\\r\\n\\r\\n" + chunk * 40 + b"0\\r\\n\\r\\n"
with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1], flush=True)
    while True:
        connection, _ = server.accept()
        with connection, connection.makefile("rb") as source:
            while line := source.readline():
                length = 0
                while line.strip():
                    name, _, value = line.partition(b":")
                    length = int(value) if name.lower() == b"content-length" else length
                    line = source.readline()
                source.read(length)
                connection.sendall(reply)
"""


async def _timed(send: Callable[[], Awaitable[int]]) -> float:
    start = time.process_time()
    for _ in range(REQUESTS):
        assert await send() == 40 * 128
    return (time.process_time() - start) / REQUESTS


async def _ours(url: str) -> float:
    async with Http(env={}) as http:

        async def send() -> int:
            async with http.request("POST", url, [("content-type", "text/plain")], BODY) as reply:
                return len(await read(reply))

        return await _timed(send)


async def _theirs(url: str) -> float:
    async with httpx2.AsyncClient(trust_env=False) as client:

        async def send() -> int:
            headers = {"content-type": "text/plain"}
            async with client.stream("POST", url, headers=headers, content=BODY) as reply:
                return len(b"".join([piece async for piece in reply.aiter_bytes()]))

        return await _timed(send)


async def _race(url: str) -> tuple[float, float]:
    turns = [(await _ours(url), await _theirs(url)) for _ in range(ROUNDS)]
    return min(own for own, _ in turns), min(other for _, other in turns)


def rows() -> Iterator[Row]:
    with subprocess.Popen(
        [sys.executable, "-c", _SERVER], stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        try:
            port = int(server.stdout.readline())
            own, other = anyio.run(_race, f"http://127.0.0.1:{port}/v1/messages")
        finally:
            server.kill()
    detail = f"{own * 1e6:.0f} µs to {other * 1e6:.0f} µs; 100 kB out, 40 events in"
    yield Row(
        f"processor time of a request, against httpx2 {httpx2.__version__}",
        f"{other / own:.1f}x less ({detail})",
    )
