"""The page in a real browser: what is on it, and that nothing on it runs but what is ours."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from prong.testing import World, Worlds, say
from shared.browser import BROWSER, browsed
from shared.page import HOSTILE, fan_script, served

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("X3"), *BROWSER]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


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
            await page.get_by_text("9 requests").wait_for()
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
    await page.get_by_text("Stretches of request 3: 3").press("Enter")
    stretches = page.get_by_role("table", name="Stretches of request 3")
    await stretches.get_by_role("row", name="directive").wait_for()
    told = await stretches.get_by_role("row").all_inner_texts()
    head = next(one for one in rows if one["number"] == 3)["segments"][0]
    assert told[1].split("\t")[:3] == ["head", "0", f"{head['size']:,}"]
    caches = [one.split("\t")[4] for one in told[1:]]
    assert (caches[0], caches[-1]) == ("read", "written")
    assert all("$0.0" in one for one in told[1:])
    await page.locator(".bytes .scrolled canvas").hover(position={"x": 400, "y": 9})
    await page.locator(".bytes .hovered").get_by_text("Request 1 of main").wait_for()
    await page.locator(".bytes .scrolled canvas").click(position={"x": 400, "y": 9})
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
    await page.locator("article").nth(1).wait_for()
    assert await page.locator("article").count() == 2
    await page.get_by_role("button", name="close").nth(1).click()
    await page.locator("article").nth(1).wait_for(state="detached")
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
                await page.locator(".bytes .scrolled canvas").click(
                    position={"x": 400, "y": 18 * row - 9}
                )
            await page.get_by_text("Written instead of read").wait_for()
            await page.locator(".bytes .scrolled canvas").hover(position={"x": 700, "y": 45})
            path = Path(os.environ.get("PRONG_PICTURE", tmp_path / "web.png"))
            await page.screenshot(path=path)
            assert path.stat().st_size > 10_000
            assert wrong == []


async def test_the_page_follows_a_session_at_work(world: Worlds, program: Any) -> None:
    """What a session in another process does appears by itself, in a narrow and dark window too."""
    async with world([say("One."), say("Two.")], opens=False) as w, w.open() as session:
        await session.run("First " + "and a long story " * 2_000)
        dark = {"color_scheme": "dark", "viewport": {"width": 400, "height": 700}}
        async with served(program, w) as served_page, browsed() as (page, wrong):
            await page.emulate_media(color_scheme=dark["color_scheme"])
            await page.set_viewport_size(dark["viewport"])
            await page.goto(served_page.address)
            await page.get_by_text("1 request").wait_for()
            await page.get_by_text("more so far").wait_for()
            await page.get_by_role("status").filter(has_text="live").first.wait_for()
            w.advance(3_600)
            await session.run("Second")
            await page.get_by_text("2 requests").wait_for()
            await page.get_by_text("As a table").first.click()
            await page.get_by_text("! missed: it should have read").wait_for()
            assert await page.locator("td.missed").count() == 1
            await page.get_by_role("tab", name="Transcript").click()
            await page.get_by_text("Two.").wait_for()
            wide = "document.documentElement.scrollWidth <= window.innerWidth"
            assert await page.evaluate(wide)
            assert wrong == []


async def test_a_tab_without_its_key_says_what_is_needed(world: Worlds, program: Any) -> None:
    """The bare address, in a browser that has entered, tells nothing of the session."""
    async with world(fan_script(), opens=False, mode="bypassPermissions") as w:
        async with w.open() as session:
            await session.run("Go")
            await session.wait_settled()
        async with served(program, w) as served_page, browsed() as (page, _):
            bare = f"http://127.0.0.1:{served_page.port}/"
            await page.goto(bare)
            assert await page.inner_text("body") == "open the address that 'prong web' has printed"
            await page.goto(served_page.address)
            await page.get_by_text("4 agents").wait_for()
            other = await page.context.new_page()
            await other.goto(bare)
            await other.get_by_text("This tab was not let in: open the address that").wait_for()
            assert "agent" not in await other.inner_text("body")
            assert await other.get_by_role("tab").count() == 0


async def test_a_page_whose_server_has_gone_says_so(world: Worlds, program: Any) -> None:
    """What it was told stays; a part that has to ask says that nobody answers, and none breaks."""
    async with world(fan_script(), opens=False, mode="bypassPermissions") as w, browsed() as seen:
        page, wrong = seen
        async with w.open() as session:
            await session.run("Go")
            await session.wait_settled()
        async with served(program, w) as served_page:
            await page.goto(served_page.address)
            await page.get_by_text("9 requests").wait_for()
            await page.locator(".bytes .scrolled canvas").click(position={"x": 400, "y": 45})
        await page.get_by_text("the server is gone; this is what it last told").wait_for()
        await page.get_by_text("Bytes of request 3").click()
        for name in ("Bytes", "Cost", "Sessions"):
            await page.get_by_role("tab", name=name).click()
            panel = page.get_by_role("tabpanel", name=name)
            await panel.get_by_text("The page's server does not answer.").wait_for()
        await page.get_by_role("tab", name="Transcript").click()
        await page.get_by_role("tabpanel", name="Transcript").get_by_text("All of it.").wait_for()
        assert all(one.startswith("Failed to load resource") for one in wrong), wrong


async def explained(program: Any, world: World, left: int, right: int) -> Any:
    """Ask the program where two requests of the session part."""
    done = await program.run(world, "explain", "--json", f":{left}", f":{right}")
    assert done.returncode == 0, done.stderr
    return msgspec.json.decode(done.stdout)


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
                await page.locator(".bytes .scrolled canvas").click(
                    position={"x": 400, "y": 18 * row - 9}
                )
            await page.get_by_text("they part in what begins at byte").wait_for()
            cost = page.locator(".verdict").get_by_text("Written instead of read: at most about")
            found = re.search(r"about (\d+) tokens, \$([\d.]+) more", await cost.inner_text())
            exact = await explained(program, w, 3, 4)
            assert found is not None
            assert int(found[1]) == pytest.approx(exact["rewritten_tokens"], rel=0.1)
            assert float(found[2]) == pytest.approx(exact["cost"], rel=0.1)
            await page.get_by_role("tab", name="Cost").click()
            await page.get_by_role("row", name="3 forks of main").wait_for()
            await page.get_by_role("tab", name="Transcript").click()
            shown = page.get_by_role("tabpanel", name="Transcript")
            said = "Go with a secret" if text == "included" else "(16 characters)"
            await shown.get_by_text(said).wait_for()
            assert await page.get_by_role("tab", name="Sessions").count() == 0
            assert wrong == []
