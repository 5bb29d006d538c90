"""The page of a session, served by the real program."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import msgspec
from anyio.streams.buffered import BufferedByteReceiveStream

from prong.testing import Script, World, call, forks, report, say

PARTS = ("Part 1.", "Part 2.", "Part 3.")
HOSTILE = "<img src=x onerror=alert(1)></script><script>alert(2)</script>\u202e\x00"


class Unanswered(Exception):
    """The server hung up."""


class Reply(msgspec.Struct):
    """What the server answered."""

    status: int
    headers: dict[str, str]
    body: bytes


class Served(msgspec.Struct):
    """A page that is served."""

    address: str

    @property
    def port(self) -> int:
        return int(self.address.split(":")[2].split("/")[0])

    @property
    def secret(self) -> str:
        return self.address.partition("?")[2]

    @property
    def cookie(self) -> dict[str, str]:
        return {"cookie": f"prong-{self.port}={self.secret}"}

    async def ask(
        self, target: str, headers: Mapping[str, str] | None = None, *, method: str = "GET"
    ) -> Reply:
        """Send one request as it is given and nothing else, and read the answer."""
        given = {"host": f"127.0.0.1:{self.port}", **(headers or {}), "connection": "close"}
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {given[name]}" for name in given)]
        data = bytearray()
        async with await anyio.connect_tcp("127.0.0.1", self.port) as stream:
            await stream.send(("\r\n".join(lines) + "\r\n\r\n").encode())
            with anyio.fail_after(20):
                async for piece in stream:
                    data += piece
        if not data:
            raise Unanswered(target)
        head, _, body = bytes(data).partition(b"\r\n\r\n")
        first, *rest = head.decode().split("\r\n")
        found = dict(line.split(": ", 1) for line in rest)
        return Reply(int(first.split()[1]), found, body)

    async def get(self, target: str) -> Any:
        """Ask with the cookie, and read what comes as JSON."""
        reply = await self.ask(target, self.cookie)
        assert reply.status == 200, reply
        return msgspec.json.decode(reply.body)


@asynccontextmanager
async def served(program: Any, world: World, *words: str) -> AsyncGenerator[Served]:
    """Run `prong web` until the block is left."""
    process = await program.start(world, "web", "--no-open", *words)
    try:
        with anyio.fail_after(30):
            line = await BufferedByteReceiveStream(process.stdout).receive_until(b"\n", 1_000)
        yield Served(line.decode().strip())
    finally:
        process.terminate()
        with anyio.CancelScope(shield=True):
            await process.wait()
            await process.aclose()


def fan_script(text: str = "done") -> Script:
    """Script a session with three forks that call a tool and report."""
    steps = {part: [call("Bash", {"command": "true"}), report(f"{part} {text}")] for part in PARTS}
    return Script([forks(*PARTS), say(f"All of it. {text}")], steps, forever=say("ok"))
