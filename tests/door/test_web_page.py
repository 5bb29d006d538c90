"""The page in a real browser: what is on it, and that nothing on it runs but what is ours."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from prong.testing import Worlds, say
from shared.page import HOSTILE, fan_script, served

playwright = pytest.importorskip(
    "playwright.async_api", reason="playwright is not installed: pip install --group browser"
)
CHROMIUM = shutil.which("chromium")

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.door,
    pytest.mark.spec("X3"),
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def browsed(**more: Any) -> AsyncGenerator[tuple[Any, list[str]]]:
    """Open a browser with one page; every error, refused load or dialog of it is in the list."""
    async with playwright.async_playwright() as driver:
        browser = await driver.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox"] if os.geteuid() == 0 else []
        )
        context = await browser.new_context(viewport={"width": 1280, "height": 800}, **more)
        page = await context.new_page()
        page.set_default_timeout(15_000)
        wrong: list[str] = []
        page.on(
            "console", lambda said: said.type in {"error", "warning"} and wrong.append(said.text)
        )
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: wrong.append(f"dialog {dialog.message}"))
        try:
            yield page, wrong
        finally:
            await browser.close()


async def test_a_session_with_forks_is_on_the_page(world: Worlds, program: Any) -> None:
    """Map, comparison, tree, transcript, timeline, cost and sessions show it, hostile text as text."""
    async with world(fan_script(HOSTILE), opens=False, mode="bypassPermissions") as w:
        async with w.open() as session:
            await session.run(f"Go {HOSTILE}")
            await session.wait_settled()
        async with served(program, w) as served_page, browsed() as (page, wrong):
            await page.goto(served_page.address)
            assert served_page.secret not in page.url
            await page.get_by_text("4 agents").wait_for()
            await check_map(page)
            await check_parts(page)
            assert wrong == []


async def check_map(page: Any) -> None:
    """Look at the model behind the canvas, and compare two forks by keyboard and by pointer."""
    rows = await page.evaluate("window.__prong.rows()")
    forks = {row["agent"]: row for row in reversed(rows) if row["agent"] != "main"}
    assert len(forks) == 3
    shared = [[one["digest"] for one in row["segments"][:-1]] for row in forks.values()]
    assert shared[0] == shared[1] == shared[2]
    assert len({row["segments"][-1]["digest"] for row in forks.values()}) == 3
    assert all(one["uses"] >= 3 for row in forks.values() for one in row["segments"][:-1])
    await page.get_by_text("As a table").first.click()
    for number in (2, 3):
        await page.get_by_role("button", name=f"Compare request {number}", exact=True).press(
            "Enter"
        )
    verdict = page.locator(".verdict")
    await verdict.get_by_text("first differing byte").wait_for()
    await verdict.get_by_text("Written instead of read").wait_for()
    await page.get_by_text("Bytes of request 3").click()
    await page.get_by_text("Directive:").first.wait_for()
    await page.locator(".bytes canvas").hover(position={"x": 400, "y": 9})
    await page.locator(".bytes .hovered").get_by_text("Request 1 of main").wait_for()
    await page.locator(".bytes canvas").click(position={"x": 400, "y": 9})
    await verdict.get_by_text("Requests 3").wait_for()


async def check_parts(page: Any) -> None:
    """Go through the tabs, by keyboard as well."""
    await page.get_by_role("tab", name="Bytes").focus()
    await page.keyboard.press("ArrowRight")
    agents = page.get_by_role("tabpanel", name="Agents")
    await agents.get_by_role("button").nth(3).wait_for()
    tree = await agents.aria_snapshot()
    assert tree.count("completed") == 4, tree
    await agents.get_by_role("button").nth(1).click()
    transcript = page.get_by_role("tabpanel", name="Transcript")
    await transcript.get_by_text("Part 1. <img src=x").first.wait_for()
    assert await transcript.locator("img").count() == 0
    await page.get_by_role("tab", name="Timeline").click()
    spans = await page.evaluate(
        "[...window.__prong.state().spans.values()].map(s => s.opened.kind)"
    )
    assert {"agent", "turn", "request", "tool", "held", "fanout"} <= set(spans)
    links = await page.evaluate("window.__prong.state().links.map(l => l.kind)")
    assert sorted(links) == ["dispatch"] * 3 + ["notice"] * 3
    await page.get_by_role("tab", name="Cost").click()
    await page.get_by_role("row", name="3 forks of main").wait_for()
    await page.get_by_role("tab", name="Sessions").click()
    await page.get_by_text("1 of 1 sessions").wait_for()
    await page.get_by_label("Search sessions").fill("no such thing")
    await page.get_by_text("0 of 1 sessions").wait_for()
    await page.get_by_label("Search sessions").fill("")
    await page.get_by_role("button", name="beside").click()
    assert await page.locator("article").count() == 2
    await page.get_by_role("button", name="close").nth(1).click()
    assert await page.locator("article").count() == 1


async def test_the_picture_of_the_docs(world: Worlds, program: Any, tmp_path: Path) -> None:
    """Two rows that are pressed are compared; PRONG_PICTURE=docs/web.png keeps the picture."""
    async with world(fan_script(), opens=False, mode="bypassPermissions") as w:
        async with w.open() as session:
            await session.run("Split the work in three: the parser, the printer and the tests.")
            await session.wait_settled()
        async with served(program, w) as served_page, browsed() as (page, wrong):
            await page.goto(served_page.address)
            await page.get_by_text("9 requests").wait_for()
            for row in (3, 4):
                await page.locator(".bytes canvas").click(position={"x": 400, "y": 18 * row - 9})
            await page.get_by_text("Written instead of read").wait_for()
            await page.locator(".bytes canvas").hover(position={"x": 700, "y": 45})
            path = Path(os.environ.get("PRONG_PICTURE", tmp_path / "web.png"))
            await page.screenshot(path=path)
            assert path.stat().st_size > 10_000
            assert wrong == []


async def test_the_page_follows_a_session_at_work(world: Worlds, program: Any) -> None:
    """What a session in another process does appears by itself, in a narrow and dark window too."""
    async with world([say("One."), say("Two.")], opens=False) as w, w.open() as session:
        await session.run("First")
        dark = {"color_scheme": "dark", "viewport": {"width": 400, "height": 700}}
        async with served(program, w) as served_page, browsed() as (page, wrong):
            await page.emulate_media(color_scheme=dark["color_scheme"])
            await page.set_viewport_size(dark["viewport"])
            await page.goto(served_page.address)
            await page.get_by_text("1 requests").wait_for()
            assert "live" in await page.get_by_role("status").first.inner_text()
            await session.run("Second")
            await page.get_by_text("2 requests").wait_for()
            await page.get_by_role("tab", name="Transcript").click()
            await page.get_by_text("Two.").wait_for()
            wide = "document.documentElement.scrollWidth <= window.innerWidth"
            assert await page.evaluate(wide)
            assert wrong == []


@pytest.mark.parametrize("text", ["left out", "included"])
async def test_an_exported_page_opens_from_disk(world: Worlds, program: Any, text: str) -> None:
    """One file, without a server, shows it all; what was said is in it only if that was asked for."""
    async with world(fan_script(f"secret {HOSTILE}"), opens=False, mode="bypassPermissions") as w:
        async with w.open() as session:
            await session.run("Go with a secret")
            await session.wait_settled()
        words = ["--with-text"] if text == "included" else []
        done = await program.run(w, "web", "--export", "out.html", *words)
        assert done.returncode == 0, done.stderr
        data = (w.root / "out.html").read_text("utf-8")
        assert ("secret" in data) == (text == "included")
        assert str(w.root) not in data or text == "included"
        async with browsed(offline=True) as (page, wrong):
            await page.goto(f"file://{w.root}/out.html")
            await page.get_by_text("9 requests").wait_for()
            assert len(await page.evaluate("window.__prong.rows()")) == 9
            for row in (3, 4):
                await page.locator(".bytes canvas").click(position={"x": 400, "y": 18 * row - 9})
            await page.get_by_text("they part in what begins at byte").wait_for()
            await page.get_by_role("tab", name="Cost").click()
            await page.get_by_role("row", name="3 forks of main").wait_for()
            await page.get_by_role("tab", name="Transcript").click()
            shown = page.get_by_role("tabpanel", name="Transcript")
            said = "Go with a secret" if text == "included" else "(16 characters)"
            await shown.get_by_text(said).wait_for()
            assert await page.get_by_role("tab", name="Sessions").count() == 0
            assert wrong == []
