"""The page of a session, served by the real program."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

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
    given: str = ""
    """The cookie, once somebody has entered."""
    key: str = ""

    @property
    def port(self) -> int:
        return int(self.address.split(":")[2].split("/")[0])

    @property
    def secret(self) -> str:
        return self.address.partition("?")[2]

    @property
    def cookie(self) -> dict[str, str]:
        """What the page sends with each request."""
        return {"cookie": self.given, "x-prong-key": self.key}

    async def enter(self) -> Reply:
        """Come in by the address, as a browser does."""
        entered = await self.ask(f"/enter?{self.secret}", {"sec-fetch-site": "none"})
        assert entered.status == 303, entered
        self.given = entered.headers["set-cookie"].partition(";")[0]
        self.key = entered.headers["location"].partition("#")[2]
        return entered

    async def ask(
        self,
        target: str,
        headers: Mapping[str, str] | None = None,
        *,
        method: str = "GET",
        body: bytes = b"",
    ) -> Reply:
        """Send one request as it is given and nothing else, and read the answer."""
        given = {"host": f"127.0.0.1:{self.port}", **(headers or {}), "connection": "close"}
        if body:
            given["content-length"] = str(len(body))
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {given[name]}" for name in given)]
        data = bytearray()
        async with await anyio.connect_tcp("127.0.0.1", self.port) as stream:
            await stream.send(("\r\n".join(lines) + "\r\n\r\n").encode() + body)
            with anyio.fail_after(40):
                async for piece in stream:
                    data += piece
        if not data:
            raise Unanswered(target)
        head, _, body = bytes(data).partition(b"\r\n\r\n")
        first, *rest = head.decode().split("\r\n")
        found = dict(line.split(": ", 1) for line in rest)
        return Reply(int(first.split()[1]), found, body)

    @property
    def own(self) -> dict[str, str]:
        """What a page of ours sends with what it does."""
        origin = f"http://127.0.0.1:{self.port}"
        kind = {"content-type": "application/json"}
        return {**self.cookie, **kind, "origin": origin, "sec-fetch-site": "same-origin"}

    async def act(self, command: Any, *, asked: int = 0, order: str = "") -> Any:
        """Do something as a page does, and read what came of it."""
        sent = {"id": order or uuid4().hex, "command": command, "asked": asked}
        body = msgspec.json.encode(sent)
        reply = await self.ask("/api/act", self.own, method="POST", body=body)
        assert reply.status == 200, reply
        return msgspec.json.decode(reply.body)

    async def control(self) -> Any:
        """Press the button that asks to be let in."""
        reply = await self.ask("/api/control", self.own, method="POST", body=b"{}")
        assert reply.status == 200, reply
        return msgspec.json.decode(reply.body)

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
        with anyio.fail_after(40):
            line = await BufferedByteReceiveStream(process.stdout).receive_until(b"\n", 1_000)
        page = Served(line.decode().strip())
        await page.enter()
        yield page
    finally:
        process.terminate()
        with anyio.CancelScope(shield=True):
            await process.wait()
            await process.aclose()


def fan_script(text: str = "done") -> Script:
    """Script a session with three forks that call a tool and report."""
    steps = {part: [call("Bash", {"command": "true"}), report(f"{part} {text}")] for part in PARTS}
    return Script([forks(*PARTS), say(f"All of it. {text}")], steps, forever=say("ok"))
