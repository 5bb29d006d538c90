"""The pipes between an editor and a session, and what goes wrong with them."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.to_thread
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prong.event import PermissionAsked
from prong.face.acp.editor_question import EditorQuestions
from prong.face.acp.editor_value import EditorAbility, SessionParams
from prong.face.acp.event_update import EventUpdates
from prong.face.acp.rpc import RpcFailed, RpcPeer, RpcRequest
from prong.testing import Worlds, call, say

pytestmark = [pytest.mark.anyio, pytest.mark.spec("X5")]


class Ends:
    """The editor's ends of two pipes, and the peer that has the others."""

    def __init__(self, longest: int = 1_000_000) -> None:
        self._source, self.writer = os.pipe()
        self.reader, self._sink = os.pipe()
        self.peer = RpcPeer(self._source, self._sink, longest=longest)
        self.requests: list[RpcRequest] = []
        self._held = b""

    def send(self, message: dict[str, Any] | bytes) -> None:
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        os.write(self.writer, data + b"\n")

    async def line(self) -> dict[str, Any]:
        """Read the next line."""
        while b"\n" not in self._held:
            await anyio.wait_readable(self.reader)
            self._held += os.read(self.reader, 65_536)
        line, _, self._held = self._held.partition(b"\n")
        return json.loads(line)

    async def follow(self) -> None:
        async for one in self.peer.incoming():
            self.requests.append(one)

    async def until_asked(self) -> None:
        """Wait until the peer has read a request."""
        while not self.requests:
            await anyio.sleep(0.01)

    def close(self) -> None:
        self.peer.end()
        for descriptor in (self._source, self.writer, self.reader, self._sink):
            os.close(descriptor)


@asynccontextmanager
async def ends(longest: int = 1_000_000) -> AsyncGenerator[Ends, None]:
    made = Ends(longest)
    async with anyio.create_task_group() as group:
        group.start_soon(made.peer.write)
        group.start_soon(made.follow)
        with anyio.fail_after(40):
            yield made
        group.cancel_scope.cancel()
    made.close()


async def test_no_half_line() -> None:
    """A sender that is cancelled while nobody reads leaves whole lines behind, or none."""
    async with ends() as e:
        large = SessionParams(session_id="x" * 50_000)
        async with anyio.create_task_group() as group:
            for _ in range(300):
                group.start_soon(e.peer.notify, "large", large)
            await anyio.wait_readable(e.reader)
            group.cancel_scope.cancel()
        await e.peer.respond(RpcRequest("last", b"{}", 7, answered=True), large)
        seen = 0
        while (line := await e.line()).get("id") != 7:
            assert line["method"] == "large"
            seen += 1
        assert 0 < seen < 300


async def test_a_request_that_is_taken_back() -> None:
    """Who no longer waits for an answer says so; the answer that comes all the same is nobody's."""
    async with ends() as e:
        asked: dict[str, Any] = {}
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(e.peer.request, "ask", SessionParams(session_id="s"))
                asked = await e.line()
                scope.cancel()
        taken = await e.line()
        assert taken["method"] == "$/cancel_request"
        assert taken["params"] == {"requestId": asked["id"]}
        e.send({"jsonrpc": "2.0", "id": asked["id"], "result": {}})
        e.send({"jsonrpc": "2.0", "id": 1, "method": "next"})
        await e.until_asked()
        assert [one.method for one in e.requests] == ["next"]


async def test_a_request_that_fails() -> None:
    """An error of the other side is raised with its number and its words."""
    async with ends() as e:

        async def answer() -> None:
            asked = await e.line()
            error = {"code": -32603, "message": "no user here"}
            e.send({"jsonrpc": "2.0", "id": asked["id"], "error": error})

        async with anyio.create_task_group() as group:
            group.start_soon(answer)
            with pytest.raises(RpcFailed, match="no user here") as failed:
                await e.peer.request("ask", SessionParams(session_id="s"))
            assert failed.value.code == -32603


async def test_a_line_without_end() -> None:
    """A line that is too long is refused once it ends, and its memory is let go before."""
    async with ends(longest=100_000) as e:
        for _ in range(10):
            # In a thread: a pipe that is full makes the writer wait for the reader.
            await anyio.to_thread.run_sync(os.write, e.writer, b"x" * 50_000)
        await anyio.to_thread.run_sync(e.send, b"")
        assert (await e.line())["error"]["code"] == -32700
        e.send({"jsonrpc": "2.0", "id": 1, "method": "next"})
        await e.until_asked()
        assert [one.method for one in e.requests] == ["next"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | JSON,
        "id": st.integers() | st.text(max_size=3) | JSON,
        "method": st.text(max_size=5) | JSON,
        "params": JSON,
        "result": JSON,
        "error": JSON,
    },
)


@settings(max_examples=200)
@given(
    st.lists(st.binary(max_size=30) | FIELDS.map(lambda one: json.dumps(one).encode()), max_size=5)
)
def test_whatever_comes_is_read(lines: list[bytes]) -> None:
    """No line ends the reading: each is a request, an answer to nothing, or told to be wrong."""

    async def read() -> tuple[int, list[dict[str, Any]]]:
        e = Ends()
        os.write(e.writer, b"\n".join([*lines, b""]))
        os.close(e.writer)
        async with anyio.create_task_group() as group:
            group.start_soon(e.peer.write)
            await e.follow()
            await e.peer.flush()
            e.peer.end()
        told = os.read(e.reader, 65_536) if _waits(e.reader) else b""
        e.writer = os.dup(e.reader)
        e.close()
        return len(e.requests), [json.loads(line) for line in told.splitlines()]

    requests, told = anyio.run(read)
    count = len([line for whole in lines for line in whole.split(b"\n") if line.strip()])
    assert requests + len(told) <= count
    assert all(one["error"]["code"] in {-32700, -32600} for one in told)


def _waits(descriptor: int) -> bool:
    return bool(select.select([descriptor], [], [], 0)[0])


async def test_a_question_that_was_missed_is_put_again(world: Worlds) -> None:
    """Questions are put from the view when events were skipped, and taken back when settled."""
    touch = call("Bash", {"command": "touch made"})
    async with world([touch, say("Done.")], attended=True) as w, ends() as e:
        updates = EventUpdates(w.session.id, EditorAbility())
        questions = EditorQuestions(w.session, e.peer, EditorAbility(), updates)
        async with anyio.create_task_group() as group:
            group.start_soon(w.session.run, "Make it")
            while not w.session.view().questions:
                await anyio.sleep(0.01)
            questions.catch_up(group)
            questions.catch_up(group)
            asked = await e.line()
            assert asked["method"] == "session/request_permission"
            outcome = {"outcome": "selected", "optionId": "once"}
            e.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"outcome": outcome}})
        assert (w.root / "made").exists()
        assert len(w.told(PermissionAsked)) == 1
        questions.catch_up(group)


async def test_a_question_that_nobody_can_put(world: Worlds) -> None:
    """An editor that cannot ask its user has not said yes; the model is told why not."""
    touch = call("Bash", {"command": "touch made"})
    async with world([touch, say("Then not.")], attended=True) as w, ends() as e:
        updates = EventUpdates(w.session.id, EditorAbility())
        questions = EditorQuestions(w.session, e.peer, EditorAbility(), updates)
        async with anyio.create_task_group() as group:
            group.start_soon(w.session.run, "Make it")
            while not w.session.view().questions:
                await anyio.sleep(0.01)
            questions.catch_up(group)
            asked = await e.line()
            error = {"code": -32601, "message": "no such method"}
            e.send({"jsonrpc": "2.0", "id": asked["id"], "error": error})
        assert not (w.root / "made").exists()
        assert "could not ask the user: no such method" in str(w.bodies()[1]["messages"][-1])


async def test_a_terminal_is_not_spoken_to() -> None:
    """Who starts it by hand sees JSON, and nothing in it that could take control of a terminal."""
    ours, theirs = pty.openpty()
    source, writer = os.pipe()
    peer, shown = RpcPeer(source, theirs), ""
    async with anyio.create_task_group() as group:
        group.start_soon(peer.write)
        await peer.notify("say", SessionParams(session_id="é\u202e\x9b31m"))
        await peer.flush()
        shown = os.read(ours, 65_536).decode()
        peer.end()
    for descriptor in (ours, theirs, source, writer):
        os.close(descriptor)

    assert json.loads(shown)["params"]["sessionId"] == "é\u202e\x9b31m"
    assert shown.strip().isprintable()


_LOADED = """
import sys
from prong.face.acp.serve import run_acp
from prong.face.flag import parse
parse(["--model", "local"], {})
print(" ".join(sys.modules))
"""
_LATER = (
    "prong.session",
    "prong.agent",
    "prong.team",
    "prong.tools",
    "prong.view",
    "prong.provider",
    "prong.config",
    "prong.journal",
    "jsonschema",
    "json",
    "acp",
    "pydantic",
    "yaml",
)


def test_little_is_loaded_before_the_first_answer() -> None:
    """An editor that waits for its first answer does not wait for what works on sessions."""
    done = subprocess.run([sys.executable, "-c", _LOADED], capture_output=True, check=True)
    loaded = done.stdout.decode().split()

    assert "prong.face.acp.rpc" in loaded
    assert [one for one in loaded if one.startswith(_LATER)] == []


def test_answers_are_read_as_they_are_meant() -> None:
    """What the protocol may add is passed over; what it must have is demanded."""
    ability = b'{"session": {"notices": {}, "new": 1}, "subagents": null, "more": []}'
    read = msgspec.json.decode(ability, type=EditorAbility)

    assert (read.notices, read.compactions, read.children, read.forms) == (
        True,
        False,
        False,
        False,
    )
