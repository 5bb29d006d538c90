"""An editor of our own for tests: it starts the real program, and every line is checked."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.abc

from prong.testing import World
from prong.testing.program import Program
from shared.editor_schema import LineCheck
from shared.running import runs

Replies = Callable[[str, dict[str, Any]], Any]
"""Answers what the agent asks; gets the method and its parameters."""


def allow(method: str, params: dict[str, Any]) -> Any:
    """Give leave once, to everything."""
    del method, params
    return {"outcome": {"outcome": "selected", "optionId": "once"}}


class Failure(Exception):
    """The agent has answered with an error."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.code: int = error["code"]


class Editor:
    """One connection to the program."""

    def __init__(self, process: anyio.abc.Process, replies: Replies) -> None:
        self.process = process
        self.check = LineCheck()
        self.lines: list[dict[str, Any]] = []
        """Everything that the agent has sent."""
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self._replies = replies
        self._number = 0
        self._answers: dict[int, dict[str, Any]] = {}
        self._news = anyio.Event()
        self._reads = anyio.Event()
        self._reads.set()

    def read_no_more(self) -> None:
        """Let what the agent sends pile up in the pipe."""
        self._reads = anyio.Event()

    def read_on(self) -> None:
        """Read again."""
        self._reads.set()

    async def follow(self) -> None:
        """Read what the agent sends, to its end, and answer what it asks."""
        assert self.process.stdout is not None
        held = b""
        async for data in self.process.stdout:
            await self._reads.wait()
            *whole, held = (held + data).split(b"\n")
            for line in whole:
                await self._take(json.loads(line))

    async def _take(self, line: dict[str, Any]) -> None:
        self.check.take("agent", line)
        self.lines.append(line)
        if "method" in line and "id" in line:
            self.asked.append((line["method"], line["params"]))
            given = self._replies(line["method"], line["params"])
            if given is not None:
                await self.send({"id": line["id"], "result": given})
        elif "method" not in line and isinstance(line.get("id"), int):
            self._answers[line["id"]] = line
        self._news.set()
        self._news = anyio.Event()

    async def send(self, message: dict[str, Any]) -> None:
        line = {"jsonrpc": "2.0", **message}
        self.check.take("editor", line)
        await self.write(json.dumps(line).encode() + b"\n")

    async def write(self, data: bytes) -> None:
        """Write bytes, whatever they are."""
        assert self.process.stdin is not None
        await self.process.stdin.send(data)

    async def ask(self, method: str, **params: Any) -> int:
        """Send a request without waiting; gives its number."""
        self._number += 1
        await self.send({"id": self._number, "method": method, "params": params})
        return self._number

    async def answer(self, number: int) -> Any:
        """Wait for the answer to a request."""
        await self.until(lambda: number in self._answers)
        line = self._answers[number]
        if "error" in line:
            raise Failure(line["error"])
        return line["result"]

    async def request(self, method: str, **params: Any) -> Any:
        return await self.answer(await self.ask(method, **params))

    async def notify(self, method: str, **params: Any) -> None:
        await self.send({"method": method, "params": params})

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something that the agent sends makes a condition true."""
        with anyio.fail_after(50):
            while not condition():
                await self._news.wait()

    async def open(self, world: World, **more: Any) -> str:
        """Open a session in the world's project; gives its id."""
        given = {"cwd": str(world.root), "mcpServers": [], **more}
        return (await self.request("session/new", **given))["sessionId"]

    async def say(self, session: str, text: str) -> Any:
        return await self.request("session/prompt", sessionId=session, prompt=[said(text)])

    def updates(self, kind: str = "", session: str = "") -> list[dict[str, Any]]:
        """Give the updates so far, of a kind, of a session."""
        found = [one["params"] for one in self.lines if one.get("method") == "session/update"]
        return [
            one["update"]
            for one in found
            if (not kind or one["update"]["sessionUpdate"] == kind)
            and (not session or one["sessionId"] == session)
        ]

    def text(self, session: str = "") -> str:
        """Join what the agent has said."""
        chunks = self.updates("agent_message_chunk", session)
        return "".join(one["content"]["text"] for one in chunks)

    def call(self, call_id: str) -> dict[str, Any]:
        """Put together what is known of a tool call."""
        known: dict[str, Any] = {}
        for one in self.updates():
            if one.get("toolCallId") == call_id:
                known |= one
        return known

    def calls(self) -> list[str]:
        """Give the ids of all tool calls, in the order in which they came."""
        return [one["toolCallId"] for one in self.updates("tool_call")]


def said(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


@asynccontextmanager
async def open_editor(
    program: Program,
    world: World,
    *words: str,
    replies: Replies = allow,
    can: dict[str, Any] | None = None,
    env: dict[str, str] | None = None,
    ends: int = 0,
) -> AsyncGenerator[Editor, None]:
    """Start the program for an editor that can do what `can` says, and initialize it.

    At the end the editor closes its pipe; the program must end by itself, and every line of both
    sides must have been as the protocol's schema has it.
    """
    quiet = ("--settings", json.dumps({"titles": False})) if "--settings" not in words else ()
    process = await program.start(world, "acp", *quiet, *words, **(env or {}))  # pyright: ignore[reportArgumentType]  # no variable is called stdout
    failure: Exception | None = None
    ended: int | None = None
    editor = Editor(process, replies)
    async with process, anyio.create_task_group() as group:
        group.start_soon(editor.follow)
        try:
            capabilities = can or {}
            await editor.request("initialize", protocolVersion=1, clientCapabilities=capabilities)
            yield editor
        except Exception as error:
            failure = error
        assert process.stdin is not None
        await process.stdin.aclose()
        with anyio.move_on_after(50):
            await process.wait()
        ended = process.returncode
        if ended is None:
            process.kill()
        group.cancel_scope.cancel()
    if failure is not None:
        raise failure
    assert ended == ends, "the program did not end with its editor, or not in order"
    assert editor.check.problems == []


async def begun(path: Path) -> int:
    """Wait for a command to say its process id."""
    with anyio.fail_after(50):
        while not path.exists() or not path.read_text().strip():
            await anyio.sleep(0.02)
    return int(path.read_text())


async def gone(pid: int) -> bool:
    """Wait until a process is gone."""
    with anyio.move_on_after(50):
        while runs(pid):
            await anyio.sleep(0.02)
        return True
    return False
