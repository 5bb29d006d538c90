"""The loopback server itself: faults, time, load, control from another process."""

from __future__ import annotations

import json
import os
import re
from typing import Any

import anyio
import pytest
from anyio.abc import SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from prong.testing import (
    Clock,
    Options,
    Request,
    Script,
    Server,
    ServerProcess,
    Step,
    break_off,
    call,
    cut,
    delay,
    fail,
    garble,
    malformed,
    say,
    stall,
)
from prong.testing.hostile import spoil

pytestmark = [pytest.mark.anyio, pytest.mark.door]

LONG = "a long text " * 400


def body(*texts: str, stream: bool = False, **fields: Any) -> bytes:
    """Make a conversation whose last block is marked."""
    messages: list[dict[str, Any]] = [
        {"role": "assistant" if i % 2 else "user", "content": [{"type": "text", "text": text}]}
        for i, text in enumerate(texts)
    ]
    messages[-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}
    given = {"model": "claude-sonnet-5-5", "max_tokens": 9, "messages": messages, "stream": stream}
    return json.dumps(given | fields).encode()


async def connect(server: Server) -> SocketStream:
    return await anyio.connect_tcp("127.0.0.1", server.port)


def wire(data: bytes, path: str = "/v1/messages", **headers: str) -> bytes:
    """Make a request that asks for the connection to be closed after the answer."""
    lines = [
        f"POST {path} HTTP/1.1",
        "host: x",
        "connection: close",
        f"content-length: {len(data)}",
    ]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


async def drain(stream: SocketStream) -> bytes:
    data = b""
    try:
        while True:
            data += await stream.receive()
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        return data


async def post(server: Server, data: bytes, path: str = "/v1/messages", **headers: str) -> bytes:
    async with await connect(server) as stream:
        await stream.send(wire(data, path, **headers))
        return await drain(stream)


async def test_a_cut_ends_the_connection_in_mid_stream() -> None:
    """After so many bytes the connection closes, and no end of the stream has come."""
    async with Server([cut(after_bytes=700), cut(after_bytes=50)]) as server:
        streamed = await post(server, body("hi", stream=True))
        whole = await post(server, body("hi"))

        assert b"message_start" in streamed
        assert b"message_stop" not in streamed
        assert not streamed.endswith(b"0\r\n\r\n")
        assert len(whole.partition(b"\r\n\r\n")[2]) == 50
        assert [record.outcome for record in server.records] == ["cut", "cut"]


async def test_malformed_answers_have_broken_json() -> None:
    """The HTTP is whole, the JSON in it is not."""
    async with Server([malformed(), malformed()]) as server:
        whole = await post(server, body("hi"))
        streamed = await post(server, body("hi", stream=True))

        with pytest.raises(json.JSONDecodeError):
            json.loads(whole.partition(b"\r\n\r\n")[2])
        assert streamed.endswith(b"0\r\n\r\n")
        bad = 0
        for line in streamed.splitlines():
            if line.startswith(b"data: "):
                try:
                    json.loads(line[6:])
                except json.JSONDecodeError:
                    bad += 1
        assert bad == 1


async def test_an_error_event_in_a_stream() -> None:
    """An answer can begin under status 200 and break off with an error event."""
    async with Server([break_off("overloaded_error", "Overloaded")]) as server:
        answer = await post(server, body("hi", stream=True))

        assert answer.startswith(b"HTTP/1.1 200")
        assert b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error"' in answer
        assert b"message_stop" not in answer


async def test_time_is_the_tests_own() -> None:
    """With a stepped clock a delayed answer comes when the test says, and entries expire so."""
    clock = Clock()
    script = [delay(30, then=say("late")), say("again"), say("too late")]
    async with Server(script, clock=clock) as server:
        answers: list[bytes] = []

        async def ask() -> None:
            answers.append(await post(server, body(LONG)))

        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            while not clock.sleepers:
                await anyio.sleep(0.001)
            clock.advance(29)
            assert answers == []
            clock.advance(1)
        await ask()
        clock.advance(331)
        await ask()

        read = [record.usage.read > 0 for record in server.records]
        assert read == [False, True, False]


async def test_siblings_in_flight_do_not_share() -> None:
    """Before the first byte of the writer's answer nothing can be read, right after it all can."""
    clock = Clock()
    script = Script([say("late"), delay(5), delay(5)])
    async with Server(script, clock=clock, moves_prefix="siblings") as server:
        await post(server, body("other " * 9))
        async with anyio.create_task_group() as group:
            group.start_soon(post, server, body(LONG, "a", "one"))
            group.start_soon(post, server, body(LONG, "a", "one"))
            while clock.sleepers < 2:
                await anyio.sleep(0.001)
            clock.advance(5)
        server.push(say("after"))
        await post(server, body(LONG, "a", "one"))

        written = [record.usage.written for record in server.records]
        assert written[1] == written[2] == server.records[3].usage.read > 0


async def test_a_client_that_goes_away_is_noticed() -> None:
    """A client that closes during a stall leaves its request marked as gone."""
    async with Server([stall(600)]) as server:
        async with await connect(server) as stream:
            await stream.send(wire(body("hi", stream=True)))
            heard = b""
            while b"message_start" not in heard:
                heard += await stream.receive()
        with anyio.fail_after(40):
            while server.records[0].outcome == "open":
                await anyio.sleep(0.001)

        assert server.records[0].outcome == "gone"


async def test_an_exhausted_script_says_what_was_asked() -> None:
    """The error names the question that nobody scripted."""
    async with Server([]) as server:
        answer = await post(server, body("What now?"))

        assert answer.startswith(b"HTTP/1.1 400")
        assert b"script exhausted" in answer
        assert b"What now?" in answer
        assert b"request-id: req_000001" in answer


async def test_routes_follow_a_fork_through_its_turns() -> None:
    """A fork keeps its queue when its directive is no longer the last text."""
    script = Script(
        [say("parent")],
        {"Directive A": [say("a one"), say("a two")], "Directive B": [say("b one")]},
    )
    async with Server(script, moves_prefix="forks without names") as server:
        await post(server, body("start"))
        first = await post(server, body("start", "x", "do Directive A"))
        other = await post(server, body("start", "x", "do Directive B"))
        second = await post(server, body("start", "x", "do Directive A", "y", "go on"))

        assert b"a one" in first
        assert b"b one" in other
        assert b"a two" in second


async def test_a_script_may_be_a_function() -> None:
    """It sees the request; what it raises is raised when the server closes."""

    def script(request: Request) -> Step:
        assert request.last_text != "boom", "the script itself failed"
        return say(request.last_text.upper())

    async with Server(script) as server:
        assert b"HELLO" in await post(server, body("hello"))
    with pytest.raises(AssertionError, match="the script itself failed"):
        async with Server(script) as server:
            assert b"HTTP/1.1 500" in await post(server, body("boom"))


async def test_a_broken_prefix_fails_the_test() -> None:
    """Leaving the server checks the law, and says where it broke."""

    async def break_it() -> None:
        async with Server([say("a"), say("b")]) as server:
            await post(server, body("hello"))
            await post(server, body("jello"))

    with pytest.raises(AssertionError, match=r"messages\.0\.content\.0, byte 26"):
        await break_it()


async def test_faults_come_before_the_script() -> None:
    """An injected fault answers the next request and leaves the script alone."""
    async with Server([say("fine")]) as server:
        server.inject(fail(529, "overloaded_error", "Overloaded"))
        first = await post(server, body("hi"))
        second = await post(server, body("hi"))

        assert first.startswith(b"HTTP/1.1 529")
        assert b"fine" in second
        assert [record.status for record in server.records] == [529, 200]


async def test_hundreds_of_connections_and_big_bodies() -> None:
    """Three hundred clients at once and a body of 10 MB are all answered."""
    async with Server(Script(forever=say("ok")), moves_prefix="many questions") as server:
        good: list[bool] = []

        async def ask(data: bytes) -> None:
            good.append(b"HTTP/1.1 200" in await post(server, data))

        async with anyio.create_task_group() as group:
            for number in range(300):
                group.start_soon(ask, body(f"question {number}"))
        await ask(body("x" * 10_000_000))

        assert good == [True] * 301


async def answer_of(stream: BufferedByteReceiveStream) -> bytes:
    """Read one answer to its end, and give its head."""
    head = await stream.receive_until(b"\r\n\r\n", 10_000)
    length = re.search(rb"content-length: (\d+)", head)
    assert length is not None, head
    await stream.receive_exactly(int(length[1]))
    return head


async def test_one_connection_carries_many_requests() -> None:
    """The connection is kept open, and a body may come in chunks."""
    data = body("hi")
    async with Server(Script(forever=say("ok"))) as server, await connect(server) as stream:
        head = b"POST /v1/messages HTTP/1.1\r\nhost: x\r\n"
        answers = BufferedByteReceiveStream(stream)
        await stream.send(head + b"content-length: %d\r\n\r\n%s" % (len(data), data))
        assert (await answer_of(answers)).startswith(b"HTTP/1.1 200")
        chunks = b"5\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n" % (data[:5], len(data) - 5, data[5:])
        await stream.send(head + b"transfer-encoding: chunked\r\n\r\n" + chunks)
        assert (await answer_of(answers)).startswith(b"HTTP/1.1 200")

        assert server.records[0].body == server.records[1].body


async def test_bodies_may_be_forgotten() -> None:
    """Without bodies the law and the diagnostics still work, and equal blocks are kept once."""
    options = Options(keep_bodies=False)
    async with Server(Script(forever=say("ok")), options=options) as server:
        await post(server, body(LONG))
        wanted = {"previous_message_id": server.records[0].message_id}
        answer = await post(server, body(LONG, "ok", "more", diagnostics=wanted))
        first, second = (record.request.blocks[0].raw for record in server.records)

        assert b'"diagnostics":null' in answer
        assert [record.body for record in server.records] == [b"", b""]
        assert first is second


async def test_a_body_over_32_megabytes_is_refused() -> None:
    """The status is 413, as at the real thing."""
    async with Server([]) as server:
        answer = await post(server, body("x" * (33 << 20)))

        assert answer.startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize(
    "data",
    [
        b"nonsense\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: -4\r\n\r\n",
        b"\xff\xfe",
        b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
    ],
)
async def test_foul_requests_do_no_harm(data: bytes) -> None:
    """The connection ends, and the next one is served."""
    async with Server([say("ok")]) as server:
        async with await connect(server) as stream:
            await stream.send(data)
            await stream.send_eof()
            await drain(stream)

        assert b"HTTP/1.1 200" in await post(server, body("hi"))


def test_a_server_in_another_process() -> None:
    """All that a test needs can be reached over the control endpoints."""
    from urllib.request import Request as Question
    from urllib.request import urlopen

    with ServerProcess([say("one"), call("Read")], options=Options(minimum=10)) as server:

        def ask(*texts: str) -> dict[str, Any]:
            with urlopen(Question(server.url + "/v1/messages", data=body(*texts))) as answer:
                return json.loads(answer.read())

        assert ask(LONG)["content"][0]["text"] == "one"
        server.push([say("two")])
        assert ask(LONG, "one", "go")["content"][0]["name"] == "Read"
        server.advance(301)
        assert ask(LONG, "one", "go", "x", "y")["content"][0]["text"] == "two"
        books = server.ledger()
        requests = server.requests(bodies=True)
        server.check_prefixes()
        pid = server.pid

        assert [row["usage"]["read"] > 0 for row in books["rows"]] == [False, True, False]
        assert books["least_possible"] < books["paid"]
        assert requests[2]["parent"] == 2
        assert json.loads(requests[0]["body"])["model"] == "claude-sonnet-5-5"
        assert list(server.lineages().values()) == [[1, 2, 3]]
        server.reset()
        assert server.requests() == []
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_garbled_answers_are_whole_http() -> None:
    """The stream of an answer is spoilt by its seed, the same each time; the HTTP around it is not."""
    async with Server([garble(3), garble(3), garble(4), say("This may be anything.")]) as server:
        answers = [await post(server, body("hi", stream=True)) for _ in range(4)]
        assert [record.outcome for record in server.records] == ["whole"] * 4

    assert all(answer.endswith(b"0\r\n\r\n") for answer in answers)
    streams = [re.sub(rb"(?:msg|req)_\w+", b"", a.partition(b"\r\n\r\n")[2]) for a in answers]
    assert streams[0] == streams[1]
    assert len(set(streams)) == 3


def test_a_stream_is_spoilt_in_many_ways() -> None:
    """Nearly every seed gives another stream, and none the honest one for long."""
    events = [b'event: e%d\ndata: {"type":"e","n":%d,"text":"Hi"}\n\n' % (n, n) for n in range(6)]
    spoilt = [spoil(events, seed) for seed in range(200)]

    assert spoilt == [spoil(events, seed) for seed in range(200)]
    assert len({b"".join(one) for one in spoilt}) > 150
    assert spoilt.count(events) < 10
