"""The page's server: who is let in, and what it tells."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import suppress
from typing import Any, Self
from urllib.parse import quote

import anyio
import msgspec
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

from prong.face.web.static_file import STATIC
from prong.session import HttpExchange, listen_http
from prong.testing import ProgramRecorder, Worlds, say
from shared.page import HOSTILE, Served, Unanswered, fan_script, served

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("X3")]

ROUTES = (
    "/",
    "/static/page.js",
    "/api/session",
    "/api/events",
    "/api/cost",
    "/api/sessions",
    "/api/explain?a=1&b=2",
    "/api/entry/00",
    "/trace.json",
    "/enter",
    "/enter?wrong",
    "/nothing",
)


async def check_refused(page: Served, headers: dict[str, str], status: int) -> None:
    """Demand that no route answers, and that none tells anything of the session."""
    for route in ROUTES:
        reply = await page.ask(route, headers)
        assert reply.status == status, (route, headers, reply)
        assert b"main" not in reply.body


async def check_outsiders(page: Served) -> None:
    """Try every way in but the right one."""
    await check_refused(page, {}, 403)
    await check_refused(page, {"x-prong-key": page.key}, 403)
    await check_refused(page, {"x-prong-key": page.key, "cookie": f"x={page.secret}"}, 403)
    await check_thief(page)
    for cookie in ("prong=" + page.secret, f"prong-{page.port}=guess", f"prong-{page.port}="):
        await check_refused(page, {"cookie": cookie}, 403)
    twice = f"{page.given}; prong-{page.port}=guess"
    await check_refused(page, {"cookie": twice}, 403)
    for host in ("evil.example", f"evil.example:{page.port}", "127.0.0.1", "", "127.0.0.1:1"):
        await check_refused(page, {**page.cookie, "host": host}, 421)
    doubled = f"127.0.0.1:{page.port}\r\nhost: evil.example"
    await check_refused(page, {**page.cookie, "host": doubled}, 421)
    for origin in ("https://evil.example", "null", "http://127.0.0.1:1", "http://localhost"):
        await check_refused(page, {**page.cookie, "origin": origin}, 403)
    for site in ("cross-site", "same-site", "nonsense"):
        await check_refused(page, {**page.cookie, "sec-fetch-site": site}, 403)
        entered = await page.ask(f"/enter?{page.secret}", {"sec-fetch-site": site})
        assert entered.status == 403


async def check_thief(page: Served) -> None:
    """Come with the cookie alone, as a server at another port of this machine could get it."""
    told = [one for one in ROUTES if one.startswith(("/api", "/trace"))]
    # The same under other names: what is let in must be what is answered.
    told += [one.replace("/", "/%", 1).replace("%a", "%61").replace("%t", "%74") for one in told]
    told += ["/api%2Fsession", "//api/session", "/./api/session", "/nothing"]
    told += [f"http://127.0.0.1:{page.port}/api/session", "/%61pi/control", "/api/%61ct"]
    for headers in ({"cookie": page.given}, {"cookie": page.given, "x-prong-key": page.secret}):
        for route in told:
            reply = await page.ask(route, headers)
            assert reply.status == 403, (route, reply)
            assert b"main" not in reply.body
        assert (await page.ask("/", headers)).status == 200
        assert (await page.ask("/static/../api/session", headers)).status == 404
    stolen = page.given.partition("=")[2]
    assert (await page.ask(f"/enter?{stolen}")).status == 403
    asked = await page.ask(f"/api/cost?key={stolen}", {"cookie": page.given})
    assert asked.status == 403
    assert (await page.ask(f"/api/cost?key={page.key}", {"cookie": page.given})).status == 200


POLICY = {
    **dict.fromkeys(("default-src", "base-uri", "form-action", "frame-ancestors"), "'none'"),
    **dict.fromkeys(("script-src", "style-src", "connect-src"), "'self'"),
    "img-src": "'self' data:",
}
"""What a browser may do with the page: run and load its own files, be led and framed nowhere."""


async def check_insiders(page: Served) -> None:
    """Come in as a browser does, and look at what every answer says."""
    entered = await page.enter()
    assert (entered.headers["location"], entered.body) == (f"/#{page.key}", b"")
    assert len({page.secret, page.key, page.given.partition("=")[2]}) == 3
    words = entered.headers["set-cookie"].split("; ")
    assert words[0] == page.cookie["cookie"]
    assert set(words[1:]) == {"HttpOnly", "SameSite=Strict", "Path=/"}
    for route in ("/", "/nothing", "/api/session"):
        own = {**page.cookie, "origin": f"http://127.0.0.1:{page.port}"}
        reply = await page.ask(route, {**own, "sec-fetch-site": "same-origin"})
        assert reply.status == (404 if route == "/nothing" else 200)
        policy = reply.headers["content-security-policy"].split("; ")
        assert dict(one.split(" ", 1) for one in policy) == POLICY
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["referrer-policy"] == "no-referrer"
        assert reply.headers["cache-control"] == "no-store"
        assert reply.headers["cross-origin-resource-policy"] == "same-origin"
        assert reply.headers["cross-origin-opener-policy"] == "same-origin"
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "HEAD"):
        assert (await page.ask("/api/session", page.cookie, method=method)).status == 405
        assert (await page.ask(f"/enter?{page.secret}", method=method)).status == 403
    for body in (
        {"content-length": "128001"},
        {"content-length": "1" * 5_000},
        {"transfer-encoding": "chunked\r\n\r\n1f401\r\nhello"},
    ):
        with pytest.raises(Unanswered):
            await page.ask("/api/session", {**page.cookie, **body}, method="POST")
    for path in ("/static/../web_server.py", "/static/%2e%2e/web_server.py", "//etc/passwd"):
        assert (await page.ask(path, page.cookie)).status == 404


async def test_nobody_is_let_in_who_does_not_have_the_address(world: Worlds, program: Any) -> None:
    """Token, cookie by port, host, origin and site are each enough to be refused."""
    async with world([say("One.")], opens=False) as w:
        await program.run(w, "-p", "First")
        async with served(program, w) as page:
            await check_outsiders(page)
            await check_insiders(page)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("begun", [b"", b"0\r\n"], ids=["size", "trailer"])
async def test_a_line_of_a_body_that_never_ends_is_hung_up_on(begun: bytes) -> None:
    """Whoever sends one, before anybody was asked who it is, gets nothing printed."""
    told: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, what: told.append(what))
    head = b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n"
    async with (
        listen_http(answer_never) as port,
        await anyio.connect_tcp("127.0.0.1", port) as stream,
    ):
        with suppress(anyio.BrokenResourceError, anyio.EndOfStream), anyio.fail_after(40):
            await stream.send(head + begun + b"1" * 2_100_000)
            await stream.receive()

    assert told == []


async def answer_never(exchange: HttpExchange) -> None:
    raise AssertionError(exchange.incoming)


async def test_the_page_is_of_this_machine_alone(world: Worlds, program: Any) -> None:
    """Nothing listens at the port on other addresses of the machine."""
    async with world([say("One.")], opens=False) as w:
        await program.run(w, "-p", "First")
        async with served(program, w) as page:
            with socket.socket() as other:
                assert other.connect_ex(("127.0.0.2", page.port)) != 0


async def test_it_tells_a_stored_session(world: Worlds, program: Any) -> None:
    """Requests by their stretches, agents, items, spans, costs and explanations are told."""
    async with world(fan_script(HOSTILE), opens=False, mode="bypassPermissions") as w:
        async with w.open() as session:
            await session.run("Go")
            await session.wait_settled()
        async with served(program, w) as page:
            told = await page.get("/api/session")
            assert len(told["agents"]) == 4
            assert {one["state"] for one in told["agents"]} == {"completed"}
            assert not told["session"]["live"]
            requests = told["requests"]["rows"]
            assert [one["number"] for one in requests] == [*range(1, len(requests) + 1)]
            assert all(one["marked"] is not None for one in requests)
            check_stretches(told)
            parted = await page.get("/api/explain?a=2&b=3")
            assert parted["relation"] == "differs"
            bodies = [await body_of(page, told, number) for number in (2, 3)]
            assert bodies[0][: parted["first_byte"]] == bodies[1][: parted["first_byte"]]
            assert bodies[0][parted["first_byte"]] != bodies[1][parted["first_byte"]]
            costs = await page.get("/api/cost")
            assert [one["kind"] for one in costs][-2:] == ["fan", "session"]
            sessions = await page.get("/api/sessions")
            assert [one["id"] for one in sessions["sessions"]] == [told["session"]["id"]]
            digest = told["stretches"]["rows"][-1][4]
            entry = await page.ask(f"/api/entry/{digest}", page.cookie)
            assert entry.headers["content-type"].startswith("text/plain")
            assert len(entry.body) == told["stretches"]["rows"][-1][1]
            trace = await page.get("/trace.json")
            assert trace["traceEvents"]
            for wrong in ("/api/explain?a=1&b=99", "/api/explain?a=x&b=1", "/api/entry/../x"):
                assert (await page.ask(wrong, page.cookie)).status in {400, 404}
            (journal,) = w.store.glob("projects/*/*.jsonl")
            own = told["session"]["id"]
            theirs = own[:-1] + ("0" if own[-1] != "0" else "1")
            elsewhere = w.store / f"projects/elsewhere/{theirs}.jsonl"
            elsewhere.parent.mkdir()
            elsewhere.write_bytes(journal.read_bytes().replace(own.encode(), theirs.encode()))
            assert theirs in (await program.run(w, "sessions", "--all")).stdout.decode()
            for other in ("../../x", theirs, str(elsewhere), str(journal)):
                reply = await page.ask(f"/api/session?session={quote(other)}", page.cookie)
                assert reply.status == 404, other


async def body_of(page: Served, told: dict[str, Any], number: int) -> bytes:
    """Put the body of a request together from its stretches."""
    rows, at, body = told["stretches"]["rows"], told["requests"]["rows"][number - 1]["last"], b""
    while at >= 0:
        body = (await page.ask(f"/api/entry/{rows[at][4]}", page.cookie)).body + body
        at = rows[at][0]
    return body


def check_stretches(told: dict[str, Any]) -> None:
    """Demand that a request's stretches make up its body, and that siblings share all but one."""
    rows = told["stretches"]["rows"]
    for request in told["requests"]["rows"]:
        total, at = 0, request["last"]
        while at >= 0:
            total, at = total + rows[at][1], rows[at][0]
        assert total == request["size"]
    first: dict[str, int] = {}
    for request in told["requests"]["rows"]:
        first.setdefault(request["agent"], request["last"])
    above = {rows[last][0] for agent, last in first.items() if agent != "main"}
    assert len(above) == 1, "the first requests of the forks part after one common stretch"


async def test_requests_that_missed_the_cache_are_told(world: Worlds, program: Any) -> None:
    """A miss names the request by its prompt and by what it read, and why; others have none."""
    async with world([say("One."), say("Two."), say("Three.")], opens=False) as w:
        async with w.open() as session:
            await session.run("First " + "and a long story " * 2_000)
            await session.run("Second")
            w.advance(3_600)
            await session.run("Third")
        async with served(program, w) as page:
            told = await page.get("/api/session")
            (missed,) = told["misses"]["rows"]
            third = told["requests"]["rows"][2]
            assert missed["agent"] == third["agent"]
            assert missed["digest"] == told["stretches"]["rows"][third["last"]][4]
            assert missed["read"] == third["usage"]["read"] < missed["predicted"]
            assert missed["why"]
        done = await program.run(w, "web", "--export", "out.html")
        assert done.returncode == 0
        assert missed["why"].encode() not in (w.root / "out.html").read_bytes()


async def test_a_session_is_followed_while_it_is_written(world: Worlds, program: Any) -> None:
    """A stream gives what is there, then what comes, and goes on after the last id it gave."""
    async with world([say("One."), say("Two."), say("Three.")], opens=False) as w, w.open() as s:
        await s.run("First")
        async with served(program, w) as page:
            async with Stream(page, 0) as stream:
                known = await stream.next()
                assert known["session"]["live"]
                assert len(known["requests"]["rows"]) == 1
                await s.run("Second")
                more = await stream.until(lambda one: one["requests"]["rows"])
                assert [one["number"] for one in more["requests"]["rows"]] == [2]
                assert more["requests"]["from"] == 1
                seen = more["revision"]
            await s.run("Third")
            async with Stream(page, seen) as stream:
                rest = await stream.until(lambda one: one["requests"]["rows"])
                assert [one["number"] for one in rest["requests"]["rows"]] == [3]


class Stream:
    """A stream of changes after a revision, resumed as a browser does it."""

    def __init__(self, page: Served, after: int) -> None:
        self.page, self.after, self._held = page, after, b""

    async def __aenter__(self) -> Self:
        self._stream = await anyio.connect_tcp("127.0.0.1", self.page.port)
        target = f"/api/events?key={self.page.key}"
        head = f"GET {target} HTTP/1.1\r\nhost: 127.0.0.1:{self.page.port}\r\n"
        cookie = f"cookie: {self.page.given}\r\nlast-event-id: {self.after}\r\n\r\n"
        await self._stream.send((head + cookie).encode())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stream.aclose()

    async def next(self) -> Any:
        with anyio.fail_after(40):
            while b"\n\n" not in self._held:
                self._held += await self._stream.receive()
        block, _, self._held = self._held.partition(b"\n\n")
        return msgspec.json.decode(block.partition(b"data: ")[2])

    async def until(self, fits: Any) -> Any:
        while not fits(one := await self.next()):
            pass
        return one


async def test_a_browser_is_given_an_address_that_lets_in_once(world: Worlds, program: Any) -> None:
    """What stands on a browser's command line is used up by the browser."""
    async with world([say("One.")], opens=False) as w:
        await program.run(w, "-p", "First")
        browser, noted = w.root / "browser", w.root / "opened"
        browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {noted}\n')
        browser.chmod(0o700)
        process = await program.start(w, "web", BROWSER=f"{browser} %s")
        try:
            with anyio.fail_after(40):
                while not (noted.exists() and noted.read_text()):
                    await anyio.sleep(0.02)
            opened = Served(noted.read_text())
            path = f"/enter?{opened.secret}"
            assert (await opened.ask(path)).status == 303
            assert (await opened.ask(path)).status == 403
        finally:
            process.terminate()
            await process.wait()
            await process.aclose()


async def test_a_browser_of_the_terminal_is_not_opened(world: Worlds, program: Any) -> None:
    """Without a screen there is none that runs the page: the terminal is left alone, and told."""
    async with world([say("One.")], opens=False) as w:
        await program.run(w, "-p", "First")
        recorder = ProgramRecorder(w.folder, "www-browser")
        path = f"{w.folder}:{os.environ['PATH']}"
        process = await program.start(w, "web", PATH=path, TERM="xterm")
        try:
            with anyio.fail_after(40):
                lines = BufferedByteReceiveStream(process.stderr)
                while b"no browser" not in await lines.receive_until(b"\n", 1_000):
                    pass
            assert recorder.calls == []
        finally:
            process.terminate()
            await process.wait()
            await process.aclose()


async def test_a_killed_session_is_not_live(world: Worlds, program: Any) -> None:
    """Events without an end do not make a session live: its process must be."""
    async with world([say("One.")], opens=False) as w:
        await program.run(w, "-p", "First")
        (journal,) = w.store.glob("projects/*/*.jsonl")
        events = journal.with_suffix("") / "events.jsonl"
        lines = events.read_bytes().splitlines(keepends=True)
        kept = [line for line in lines if b'"session_finished"' not in line]
        assert len(kept) < len(lines)
        events.write_bytes(b"".join(kept))
        journal.with_suffix(".lock").write_text(f"{2**22 + os.getpid()}\n")
        async with served(program, w) as page:
            assert not (await page.get("/api/session"))["session"]["live"]


async def test_what_cannot_be_exported_is_told(world: Worlds, program: Any) -> None:
    """A file that is there or cannot be written, a flag without its other, no session: each is a sentence."""
    async with world([say("One.")], opens=False) as w:
        none = await program.run(w, "web", "--no-open")
        assert none.returncode == 1
        assert b"no session in" in none.stderr
        await program.run(w, "-p", "First")
        nowhere = await program.run(w, "web", "--export", "no/such/out.html")
        assert (nowhere.returncode, b"name another file" in nowhere.stderr) == (2, True)
        (w.root / "mine.html").write_text("mine")
        there = await program.run(w, "web", "--export", "mine.html")
        assert (there.returncode, b"mine.html is there already" in there.stderr) == (2, True)
        assert (w.root / "mine.html").read_text() == "mine"
        alone = await program.run(w, "web", "--with-text")
        assert (alone.returncode, b"--export FILE" in alone.stderr) == (2, True)


async def test_no_text_can_become_markup() -> None:
    """Nothing of the page makes elements of text, runs text, or loads from elsewhere."""
    for path in STATIC.iterdir():
        text = path.read_text("utf-8")
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            assert word not in text, (path.name, word)
        assert "//" not in text.replace("// ", "").replace("//\n", ""), path.name
