"""Acting from the page: who can, by which requests, and what comes of each."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

from prong.errors import NotPossibleNow
from prong.event import CommandTaken, ControlChanged, InputTaken
from prong.mail.socket_folder import new_socket_path
from prong.session import act_in
from prong.testing import Worlds, call, say
from shared.page import Served, Unanswered, served

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("X3")]

Terminal = Callable[..., AbstractAsyncContextManager[Any]]
SAY = msgspec.json.encode({"id": "a" * 32, "command": {"type": "say", "text": "Hello"}})
ASKS = call("Bash", {"command": "touch made"})


async def check_forged(page: Served) -> None:
    """Send what other pages, forms and programs could send; none of it is taken."""
    own = page.own

    def less(name: str) -> dict[str, str]:
        return {each: value for each, value in own.items() if each != name}

    forged: list[tuple[dict[str, str], int]] = [
        (less("cookie"), 403),
        (less("origin"), 403),
        (less("x-prong-key"), 403),
        ({**own, "x-prong-key": "0"}, 403),
        ({**own, "x-prong-key": page.secret}, 403),
        ({**own, "x-prong-key": page.given.partition("=")[2]}, 403),
        ({**own, "origin": "https://evil.example"}, 403),
        ({**own, "origin": "null"}, 403),
        ({**own, "sec-fetch-site": "cross-site"}, 403),
        ({**own, "sec-fetch-site": "same-site"}, 403),
        ({**own, "host": f"evil.example:{page.port}"}, 421),
        (less("content-type"), 415),
        ({**own, "content-type": "text/plain"}, 415),
        ({**own, "content-type": "application/x-www-form-urlencoded"}, 415),
        ({**own, "content-type": "multipart/form-data; boundary=x"}, 415),
    ]
    form = {"cookie": own["cookie"], "origin": own["origin"]}
    forged.append(({**form, "content-type": "application/x-www-form-urlencoded"}, 403))
    for route in ("/api/act", "/api/control"):
        for headers, status in forged:
            reply = await page.ask(route, headers, method="POST", body=SAY)
            assert reply.status == status, (route, headers, reply)
        in_address = await page.ask(
            f"{route}?key={page.key}", less("x-prong-key"), method="POST", body=SAY
        )
        assert in_address.status == 403
        for method in ("GET", "PUT", "DELETE", "OPTIONS", "HEAD"):
            assert (await page.ask(route, own, method=method)).status == 405
    for route in ("/api/%61ct", "/%61pi/act", "/api/%63ontrol", "/%61pi/control"):
        assert (await page.ask(route, less("x-prong-key"), body=SAY)).status == 403
        assert (await page.ask(route, own, body=SAY)).status == 404
        assert (await page.ask(route, own, method="POST", body=SAY)).status == 405
    assert (await page.ask("/api/session", own, method="POST", body=SAY)).status == 405


async def check_malformed(page: Served) -> None:
    """Send what is no order: unknown commands, ids and fields, other JSON, far too much."""
    good = msgspec.json.decode(SAY)
    for wrong in (
        {**good, "command": {"type": "run_shell", "line": "touch bad"}},
        {**good, "command": {"type": "set_mode", "mode": "bypassPermissions"}},
        {**good, "command": {"type": "leave"}},
        {**good, "command": {"type": "nonsense"}},
        {**good, "command": {}},
        {**good, "more": 1},
        {**good, "id": "a" * 7},
        {**good, "id": "a" * 65},
        {**good, "id": "../../../x"},
        {**good, "asked": "1"},
        {"command": good["command"]},
        [],
    ):
        body = msgspec.json.encode(wrong)
        reply = await page.ask("/api/act", page.own, method="POST", body=body)
        assert reply.status == 400, (wrong, reply)
        assert reply.headers["content-type"].startswith("text/plain")
    broken = SAY.replace(b"Hello", b"\\ud800")
    latin = SAY.replace(b"Hello", b"\xff")
    nested = SAY.replace(b'"text"', b'"x": ' + b"[" * 50_000 + b', "text"')
    for body in (b"", b"{", b"[" * 100_000, b'{"id": "' + b"\xff" * 20, broken, nested, latin):
        reply = await page.ask("/api/act", page.own, method="POST", body=body)
        assert reply.status == 400, body[:20]
    with pytest.raises((Unanswered, anyio.BrokenResourceError)):
        await page.ask("/api/act", page.own, method="POST", body=b"x" * 200_000)
    other = await page.ask("/api/act?session=../x", page.own, method="POST", body=SAY)
    assert other.status == 404


async def test_a_page_that_only_reads_does_nothing(world: Worlds, program: Any) -> None:
    """Without the flag what acts answers 403, whatever comes with it, and nothing is asked."""
    async with world([say("One.")], allow_actions=True) as w:
        await w.session.run("First")
        async with served(program, w) as page:
            for route in ("/api/act", "/api/control"):
                for method in ("GET", "POST"):
                    reply = await page.ask(route, page.own, method=method, body=SAY)
                    assert reply.status == 403
                    assert b"--allow-actions" in reply.body
            # The stream begins with the session at once: nothing says that anything can be done.
            told = await first_lines(page)
            assert b"event: acting" not in told
        assert [one.text for one in w.told(InputTaken)] == ["First"]
        assert not w.told(CommandTaken)


async def first_lines(page: Served) -> bytes:
    """Give how a stream begins."""
    async with await anyio.connect_tcp("127.0.0.1", page.port) as stream:
        head = f"GET /api/events?key={page.key} HTTP/1.1\r\nhost: 127.0.0.1:{page.port}\r\n"
        await stream.send(f"{head}cookie: {page.given}\r\n\r\n".encode())
        data = b""
        with anyio.fail_after(40):
            while b'\ndata: {"revision"' not in data:
                data += await stream.receive()
    return data


async def test_only_our_own_page_can_act(world: Worlds, program: Any) -> None:
    """Cookie, host, origin, site, header, method, type and form are each enough to be refused."""
    async with world([say("One."), say("Two.")], allow_actions=True) as w:
        await w.session.run("First")
        async with served(program, w, "--allow-actions") as page:
            assert b"event: acting" in await first_lines(page)
            await check_forged(page)
            early = await page.act({"type": "say", "text": "early"})
            assert early == {"type": "refused", "why": "the session was not asked yet"}
            assert (await page.control())["state"] in {"asking", "admitted"}
            await until_admitted(page)
            await check_forged(page)
            await check_malformed(page)
            assert [one.text for one in w.told(InputTaken)] == ["First"]
            assert not (w.root / "bad").exists()
            done = await page.act({"type": "say", "text": "Hello"}, order="b" * 32)
            assert done["type"] == "accepted"
            assert await page.act({"type": "say", "text": "Hello"}, order="b" * 32) == done
            await w.session.wait_settled()
            assert [one.text for one in w.told(InputTaken)] == ["First", "Hello"]


async def first_state(page: Served) -> str:
    """Give how it stands with acting, as a stream tells it first."""
    told = (await first_lines(page)).partition(b"event: acting\ndata: ")[2]
    return msgspec.json.decode(told.partition(b"\n")[0])["state"]


async def until_admitted(page: Served) -> None:
    with anyio.fail_after(40):
        while (await page.control())["state"] != "admitted":
            await anyio.sleep(0.02)


async def question(page: Served) -> Any:
    """Wait for a question, and give it as the page has it."""
    with anyio.fail_after(40):
        while not (found := (await page.get("/api/session"))["questions"]):
            await anyio.sleep(0.02)
    return found[0]


async def test_two_pages_answer_one_question(world: Worlds, program: Any) -> None:
    """Of two servers that answer at once one is accepted, and the other is told why not."""
    async with world([ASKS, say("Done.")], allow_actions=True, attended=True) as w:
        await w.session.say("Go")
        async with (
            served(program, w, "--allow-actions") as one,
            served(program, w, "--allow-actions") as two,
        ):
            outcomes: list[Any] = []
            for page in (one, two):
                await page.control()
                await until_admitted(page)

            asked = await question(one)
            assert await question(two) == asked

            async def answer(page: Served) -> None:
                command = {"type": "answer", "request_id": asked["request_id"]}
                outcomes.append(await page.act(command, asked=asked["seq"]))

            async with anyio.create_task_group() as group:
                group.start_soon(answer, one)
                group.start_soon(answer, two)
            assert sorted(each["type"] for each in outcomes) == ["accepted", "refused"]
            (refused,) = [each for each in outcomes if each["type"] == "refused"]
            assert "answer" in refused["why"]
            await w.session.wait_settled()
            assert len(w.told(CommandTaken)) == 1
        assert (w.root / "made").exists()


async def test_a_session_that_nobody_can_be_asked_in_refuses(world: Worlds, program: Any) -> None:
    """One without a face and without consent takes nothing; one that nobody runs says how to."""
    async with world([say("One.")], opens=False) as w:
        async with w.open() as session:
            await session.run("First")
            async with served(program, w, "--allow-actions") as page:
                told = await page.control()
                assert told["state"] == "refused"
                assert "--allow-actions" in told["why"]
                assert (await page.act({"type": "interrupt"}))["why"] == told["why"]
        async with served(program, w, "--allow-actions") as page:
            told = await page.control()
            assert f"prong --resume {session.id}" in told["why"]
            flags = await program.run(w, "web", "--allow-actions", "--export", "x.html")
            assert (flags.returncode, b"--export" in flags.stderr) == (2, True)


async def test_a_run_without_a_terminal_is_answered_from_the_page(
    world: Worlds, program: Any
) -> None:
    """`prong -p --allow-actions` lets a page answer what would else be refused."""
    waits = call("Bash", {"command": "sh wait.sh"})
    files = {"wait.sh": "while ! test -e go; do sleep 0.02; done\n"}
    async with world([waits, ASKS, say("Made it.")], files=files, opens=False) as w:
        flags = ("-p", "--allow-actions", "--allowed-tools", "Bash(sh wait.sh)")
        process = await program.start(w, *flags, "Go")
        await process.stdin.aclose()
        try:
            with anyio.fail_after(40):
                while len(w.server.records) < 1:
                    await anyio.sleep(0.02)
            async with served(program, w, "--allow-actions") as page:
                await until_admitted(page)
                (w.root / "go").touch()
                asked = await question(page)
                answer = {"type": "answer", "request_id": asked["request_id"]}
                done = await page.act(answer, asked=asked["seq"])
                assert done["type"] == "accepted"
                with anyio.fail_after(40):
                    assert await process.wait() == 0
            assert (w.root / "made").exists()
        finally:
            with suppress(ProcessLookupError):
                process.terminate()
            await process.aclose()


async def answers(path: Path) -> bool:
    """Whether somebody listens at a socket."""
    with suppress(OSError):
        async with await anyio.connect_unix(path):
            return True
    return False


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
async def test_another_user_is_hung_up_on(world: Worlds, monkeypatch: Any) -> None:
    """Were the folder and the socket open to all, the system's word on who comes would still hold."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        monkeypatch.setenv("XDG_RUNTIME_DIR", name)
        async with world([], allow_actions=True) as w:
            with anyio.fail_after(40):
                while not (found := list(folder.glob("prong/*"))):
                    await anyio.sleep(0.02)
                # It is there before it is made the user's own, and heard once that is done.
                while not await answers(found[0]):
                    await anyio.sleep(0.02)
            (folder / "prong").chmod(0o755)
            found[0].chmod(0o666)
            script = (
                "import os, socket, sys; os.setuid(int(sys.argv[2]))\n"
                "s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])\n"
                "try:\n"
                '    s.sendall(b\'{"code": "4711"}\\n\'); print(s.recv(99))\n'
                "except ConnectionError:\n"
                "    print(b'')\n"
            )
            told: list[bytes] = []
            for user in ("65534", "0"):
                argv = [sys.executable, "-S", "-c", script, str(found[0]), user]
                told.append((await anyio.run_process(argv)).stdout)
            assert told == [b"b''\n", b'b\'{"why":""}\\n\'\n']
            assert [one.acts for one in w.told(ControlChanged)][:1] == [True]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
async def test_another_user_is_told_nothing(tmp_path: Path, monkeypatch: Any) -> None:
    """A socket of somebody else's in the session's place is told no code, and no order."""
    script = (
        "import os, socket, sys; os.setuid(int(sys.argv[2]))\n"
        "s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen()\n"
        "print('listens', flush=True); c = s.accept()[0]\n"
        'print(c.recv(99)); c.sendall(b\'{"why": ""}\\n\')\n'
    )
    with tempfile.TemporaryDirectory() as name:
        monkeypatch.setenv("XDG_RUNTIME_DIR", name)
        path = new_socket_path(tmp_path / "s.jsonl", "main", "control")
        Path(name).chmod(0o755)
        path.parent.chmod(0o777)
        argv = [sys.executable, "-S", "-c", script, str(path), "65534"]
        async with await anyio.open_process(argv) as other:
            assert other.stdout is not None
            lines = BufferedByteReceiveStream(other.stdout)
            assert await lines.receive_until(b"\n", 99) == b"listens"
            with pytest.raises(NotPossibleNow, match="nobody runs this session"):
                async with act_in(tmp_path / "s.jsonl") as link:
                    await link.wait_admitted()
            assert await lines.receive_until(b"\n", 99) == b"b''"


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
async def test_the_terminal_asks_before_a_page_acts(
    world: Worlds, program: Any, terminal: Terminal
) -> None:
    """The user compares the code; then answers come from the page, until the user ends it."""
    script = [ASKS, say("Made it."), say("Heard.")]
    async with (
        world(script, opens=False) as w,
        terminal(w, NO_COLOR="1") as screen,
    ):
        await screen.see("> ")
        screen.type("Go")
        await screen.see("may it?")
        async with served(program, w, "--allow-actions") as page:
            told = await page.control()
            assert told["state"] == "asking"
            await screen.see(f"its page shows {told['code']}", "let it act here?")
            asked = await question(page)
            answer = {"type": "answer", "request_id": asked["request_id"]}
            early = await page.act(answer, asked=asked["seq"])
            assert early["type"] == "refused"
            # A yes that was meant for the question below agrees to nothing.
            screen.type("y")
            with anyio.fail_after(40):
                while (await first_state(page)) != "refused":
                    await anyio.sleep(0.02)
            assert not (w.root / "made").exists()
            screen.type("/web act")
            await screen.see("to act from")
            told = await page.control()
            await screen.see(f"type {told['code']} to agree")
            screen.type(told["code"])
            await until_admitted(page)
            assert (await page.act(answer, asked=asked["seq"]))["type"] == "accepted"
            await screen.see("Made it.", "answer ask-1 yes")
            assert (await page.act({"type": "say", "text": "From the page"}))["type"] == "accepted"
            await screen.see("From the page", "Heard.")
            screen.type("/web act off")
            await screen.see("1 sent away")
            with anyio.fail_after(40):
                while (await page.act({"type": "say", "text": "Still"}))["type"] != "refused":
                    await anyio.sleep(0.02)
            assert all("Still" not in one.request.last_text for one in w.server.records)
        screen.type("/quit")
        await screen.see("exit=0")


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
async def test_a_plain_terminal_lets_in_by_the_code(
    world: Worlds, program: Any, terminal: Terminal
) -> None:
    """Where nothing can be asked in between, a command lets somebody in; a wrong code nobody."""
    async with (
        world([say("One.")], opens=False) as w,
        terminal(w, NO_COLOR="1", TERM="dumb") as screen,
    ):
        await screen.see("> ")
        screen.type("Go")
        await screen.see("One.")
        async with served(program, w, "--allow-actions") as page:
            told = await page.control()
            await screen.see(f"'/web act {told['code']}' lets it")
            wrong = f"{(int(told['code']) + 1) % 10_000:04}"
            screen.type(f"/web act {wrong}")
            await screen.see(f"nobody asks with the code {wrong}")
            screen.type(f"/web act {told['code']}")
            await until_admitted(page)
            screen.type("/web act")
            await screen.see(f"(code {told['code']}) acts here")
        await screen.see("acts in this session no longer")


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
async def test_a_killed_session_is_asked_anew(
    world: Worlds, program: Any, terminal: Terminal
) -> None:
    """Consent ends with the process; what the killed one asked cannot be answered in the next."""
    script = [ASKS, ASKS, say("Made it.")]
    async with world(script, opens=False) as w, terminal(w, NO_COLOR="1") as screen:
        await screen.see("> ")
        screen.type("Go")
        await screen.see("may it?")
        async with served(program, w, "--allow-actions") as page:
            told = await page.control()
            await screen.see("let it act here?")
            screen.type(told["code"])
            await until_admitted(page)
            old = await question(page)
            (lock,) = w.store.glob("projects/*/*.lock")
            os.kill(int(lock.read_text().split()[0]), signal.SIGKILL)
            await screen.see("exit=")
            answer = {"type": "answer", "request_id": old["request_id"]}
            with anyio.fail_after(40):
                while (told := await page.act(answer, asked=old["seq"]))["type"] == "unknown":
                    await anyio.sleep(0.02)
            assert told["type"] == "refused"
            with anyio.fail_after(40):
                while (session := (await page.get("/api/session"))["session"])["live"]:
                    await anyio.sleep(0.02)
            assert "prong --resume" in (await page.control())["why"]
            async with w.open(resume=session["id"], allow_actions=True) as resumed:
                await until_admitted(page)
                await resumed.say("Again")
                new = await question(page)
                assert new["request_id"] == old["request_id"]
                assert (await page.act(answer, asked=old["seq"]))["type"] == "refused"
                assert resumed.view().questions
                assert (await page.act(answer, asked=new["seq"]))["type"] == "accepted"
                await resumed.wait_settled()
            assert (w.root / "made").exists()
