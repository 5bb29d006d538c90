"""CPU of one streamed request in the client: ours, bare asyncio streams, and httpx2 if installed.

The clients take turns, and the lowest and highest of several rounds are shown: on a busy machine
one round says little. Run: python bench/http_client.py
"""

from __future__ import annotations

import asyncio
import importlib.util
import multiprocessing
import resource

import anyio

EVENT = (
    b"event: content_block_delta\ndata: "
    b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a word"}}\n\n'
)
CHUNK = b"%x\r\n%s\r\n" % (len(EVENT), EVENT)
HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
    b"transfer-encoding: chunked\r\nrequest-id: req_1\r\n\r\n"
)
HEADERS = [("content-type", "application/json"), ("x-api-key", "none")]
REQUESTS = 100
ROUNDS = 7


class Replier(asyncio.Protocol):
    """Answers each request with forty events in two bursts."""

    def connection_made(self, transport):
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.held = b""

    def data_received(self, data):
        self.held += data
        head, end, rest = self.held.partition(b"\r\n\r\n")
        if end and len(rest) >= int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0]):
            self.held = b""
            self.transport.write(HEAD + CHUNK * 20)
            loop = asyncio.get_running_loop()
            loop.call_later(0.002, self.transport.write, CHUNK * 20 + b"0\r\n\r\n")


def serve(ports):
    async def run():
        loop = asyncio.get_running_loop()
        server = await loop.create_server(Replier, "127.0.0.1", 0)
        ports.put(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


def cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def timed(one):
    await one()
    before = cpu()
    for _ in range(REQUESTS):
        size = await one()
        assert size == 40 * len(EVENT), size
    return (cpu() - before) / REQUESTS * 1e3


async def ours(port, body):
    from prong.provider import Http

    async with Http(env={}) as http:

        async def one():
            url = f"http://127.0.0.1:{port}/v1/messages"
            async with http.request("POST", url, HEADERS, body) as response:
                return sum([len(data) async for data in response])

        return await timed(one)


async def streams(port, body):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def one():
        writer.write(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body))
        writer.write(body)
        await writer.drain()
        await reader.readuntil(b"\r\n\r\n")
        size = 0
        while length := int(await reader.readline(), 16):
            await reader.readexactly(length + 2)
            size += length
        await reader.readline()
        return size

    try:
        return await timed(one)
    finally:
        writer.close()


async def library(port, body):
    import httpx2

    async with httpx2.AsyncClient() as client:

        async def one():
            url = f"http://127.0.0.1:{port}/v1/messages"
            async with client.stream("POST", url, headers=HEADERS, content=body) as response:
                return sum([len(data) async for data in response.aiter_raw()])

        return await timed(one)


def main():
    ports = multiprocessing.Queue()
    server = multiprocessing.Process(target=serve, args=(ports,), daemon=True)
    server.start()
    port = ports.get()
    clients = [("prong", ours), ("bare streams", streams)]
    if importlib.util.find_spec("httpx2"):
        clients.append(("httpx2", library))
    for size in (2_000, 400_000):
        rounds = [[anyio.run(run, port, b"x" * size) for _, run in clients] for _ in range(ROUNDS)]
        for (name, _), took in zip(clients, zip(*rounds, strict=True), strict=True):
            print(f"{size:>7} B body  {name:<12} {min(took):.3f} .. {max(took):.3f} ms CPU")
    server.terminate()


if __name__ == "__main__":
    main()
