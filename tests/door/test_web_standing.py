"""What the page says while a session works, after it was killed, and when nobody answers any more."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import anyio.abc
import pytest

from prong.testing import Worlds, call, say
from shared.browser import BROWSER, browsed
from shared.page import served
from shared.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("X3"), *BROWSER]

LOOPS = call("Bash", {"command": "while ! test -e go; do sleep 0.02; done"})


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_what_goes_on_grows_until_its_process_is_killed(world: Worlds, program: Any) -> None:
    """A command that prints nothing has a bar that grows; killed, nobody works or goes on any more."""
    async with world([LOOPS, say("Done.")], opens=False) as w, browsed() as (page, wrong):
        process = await program.start(w, "-p", "Go", "--permission-mode", "bypassPermissions")
        try:
            await process.stdin.aclose()
            await until(lambda: any(b"tool_started" in each for each in recorded(w)))
            async with served(program, w) as served_page:
                await page.goto(served_page.address)
                await page.get_by_role("tab", name="Timeline").click()
                timeline = page.get_by_role("tabpanel", name="Timeline")
                await timeline.get_by_text("As a table").click()
                bash = timeline.get_by_role("row", name="tool Bash")
                await bash.get_by_text(re.compile(r"goes on, \d+\.\d s so far")).wait_for()
                process.kill()
                await page.get_by_text("broken off: its process has ended").wait_for()
                await bash.get_by_text("no end is known").wait_for()
                await page.get_by_role("tab", name="Agents").click()
                agents = page.get_by_role("tabpanel", name="Agents")
                await agents.get_by_text("broken off, was working").wait_for()
                assert wrong == []
        finally:
            (w.root / "go").touch()
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            await process.aclose()


def recorded(world: Any) -> list[bytes]:
    """Read what sessions have recorded so far."""
    return [path.read_bytes() for path in world.store.glob("projects/*/*/events.jsonl")]


@asynccontextmanager
async def line(port: int) -> AsyncGenerator[None]:
    """Lead to a port by another address of this machine, as long as the block is not left."""
    try:
        listener = await anyio.create_tcp_listener(local_host="::1", local_port=port)
    except OSError:
        pytest.skip("this machine has no second loopback address")
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, lambda near: carry(near, port))
        yield
        group.cancel_scope.cancel()


async def carry(near: anyio.abc.SocketStream, port: int) -> None:
    """Carry one connection."""

    async def copy(source: anyio.abc.SocketStream, target: anyio.abc.SocketStream) -> None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async for piece in source:
                await target.send(piece)
        group.cancel_scope.cancel()

    far = await anyio.connect_tcp("127.0.0.1", port)
    async with near, far, anyio.create_task_group() as group:
        group.start_soon(copy, near, far)
        group.start_soon(copy, far, near)


async def test_a_page_without_its_server_says_what_cannot_be_done(
    world: Worlds, program: Any
) -> None:
    """Once it answers again it counts at once, whatever it has to tell; who is live is not claimed."""
    async with world([say("One.")], allow_actions=True) as w, browsed() as (page, _):
        await w.session.run("Go")
        async with served(program, w, "--allow-actions") as served_page:
            async with line(served_page.port):
                await page.goto(served_page.address.replace("127.0.0.1", "[::1]"))
                await page.get_by_role("button", name="Act in this session").click()
                await page.get_by_text("This page may act in the session.").wait_for()
            gone = page.locator(".summary").get_by_text("the server is gone")
            await gone.wait_for()
            await page.get_by_text("server does not answer, so that nothing can").wait_for()
            assert "live" not in await page.locator(".summary").inner_text()
            async with line(served_page.port):
                await page.get_by_text("This page may act in the session.").wait_for()
                await gone.wait_for(state="detached")
