"""Acting from the page in a real browser: what is offered, what it does, and what it says."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import anyio
import pytest

from prong.event import CommandTaken, InputTaken
from prong.testing import Script, Worlds, call, forks, report, say
from shared.browser import BROWSER, browsed
from shared.page import HOSTILE, served

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("X3"), *BROWSER]

LOOPS = call("Bash", {"command": "while ! test -e go; do sleep 0.02; done"})
CHOICES = [{"label": f"red {HOSTILE}", "description": HOSTILE}, {"label": "blue"}]
LONG_NAME = "a" * 90 + ".py"
QUESTIONS = [
    {"question": f"Which colour? {HOSTILE}", "header": "Colour", "options": CHOICES},
    {"question": "Which sizes?", "options": [{"label": "S"}, {"label": "M"}], "multiSelect": True},
]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_a_page_without_the_flag_has_nothing_to_press(world: Worlds, program: Any) -> None:
    """A question is told, and there is no button for it."""
    script = [call("Bash", {"command": "touch made"}), say("Done.")]
    async with world(script, allow_actions=True, attended=True) as w:
        await w.session.say("Go")
        async with served(program, w) as served_page, browsed() as (page, wrong):
            await page.goto(served_page.address)
            await page.get_by_text("1 question waits for an answer").wait_for()
            assert await page.locator(".acting").is_hidden()
            assert await page.get_by_role("button", name="Act in this session").count() == 0
            assert wrong == []


async def test_what_the_page_does_is_done(world: Worlds, program: Any, tmp_path: Path) -> None:
    """Permission, questions, a message and a stop, by keyboard alone, hostile text as text."""
    edit = {"file_path": LONG_NAME, "old_string": "x = 1", "new_string": f"x = {HOSTILE[:-1]!r}"}
    script = [
        call("Read", {"file_path": LONG_NAME}),
        call("Edit", edit),
        call("AskUserQuestion", {"questions": QUESTIONS}),
        say("Thanks."),
        say("Heard."),
    ]
    files = {LONG_NAME: "x = 1\n"}
    async with world(script, files=files, attended=True) as w:
        control = w.session.records.control
        control.open()
        await w.session.say("Go")
        async with served(program, w, "--allow-actions") as served_page, browsed() as (page, wrong):
            await page.goto(served_page.address)
            await press(page.get_by_role("button", name="Act in this session"))
            request = await control.next_request()
            await page.get_by_text("It must show the code").wait_for()
            assert await page.locator(".acting code").inner_text() == request.code
            request.settle(allow=True)
            form = page.get_by_role("form", name="Permission for Edit")
            await form.get_by_text("<img src=x").first.wait_for()
            assert await page.locator(".acting img").count() == 0
            await picture(page, tmp_path)
            await press(form.get_by_role("button", name="Yes", exact=True))
            asked = page.get_by_role("form", name="Question")
            await asked.get_by_role("radio").nth(1).wait_for()
            shown = await asked.inner_text()
            assert "\\u{202e}" in shown, "what turns text round is shown by its number"
            assert not {"\u202e", "\x00"} & set(shown)
            await asked.get_by_role("radio").nth(1).check()
            await asked.get_by_role("checkbox").nth(0).check()
            await asked.get_by_role("checkbox").nth(1).check()
            await press(asked.get_by_role("button", name="Answer"))
            await page.get_by_text("No question waits").wait_for()
            await w.session.wait_settled()
            assert "blue" in w.server.records[3].request.last_text
            assert "S, M" in w.server.records[3].request.last_text
            message = page.get_by_role("textbox", name="Message")
            await message.fill(f"One more thing {HOSTILE[:-2]}")
            await press(page.get_by_role("button", name="Send"))
            await page.get_by_text("done", exact=True).wait_for()
            assert await message.input_value() == ""
            await press(page.get_by_role("button", name="Stop the turn"))
            await w.session.wait_settled()
            assert [one.command for one in w.told(CommandTaken)][:3] == ["answer", "answer", "say"]
            assert [one.text[:8] for one in w.told(InputTaken)] == ["Go", "One more"]
            assert wrong == []
        assert (w.root / LONG_NAME).read_text().startswith("x = '<img")


async def test_a_plan_is_approved_on_the_page(world: Worlds, program: Any) -> None:
    """It is shown whole; a yes ends plan mode, with edits accepted if that was pressed."""
    async with world([], mode="plan", attended=True) as w:
        plan = f"{w.root.resolve()}/.prong/plans/go.md"
        w.server.push(
            call("Write", {"file_path": plan, "content": "# Plan\n\n1. Do.\n2. See.\n"}),
            call("ExitPlanMode"),
            call("Write", {"file_path": "made.py", "content": "x"}),
            say("Done."),
        )
        w.session.records.control.open()
        await w.session.say("go")
        async with served(program, w, "--allow-actions") as served_page, browsed() as (page, wrong):
            await page.goto(served_page.address)
            await page.get_by_role("button", name="Act in this session").click()
            (await w.session.records.control.next_request()).settle(allow=True)
            form = page.get_by_role("form", name="Permission for ExitPlanMode")
            await form.get_by_text("2. See.").wait_for()
            await press(form.get_by_role("button", name="Yes, and accept edits"))
            await page.get_by_text("No question waits").wait_for()
            await w.session.wait_settled()
            assert wrong == []
        assert w.session.mode == "acceptEdits"
        assert (w.root / "made.py").read_text() == "x"


async def press(button: Any) -> None:
    """Press a button by keyboard, once it can be."""
    with anyio.fail_after(40):
        while not await button.is_enabled():
            await anyio.sleep(0.02)
    await button.press("Enter")


async def picture(page: Any, tmp_path: Path) -> None:
    """Keep a picture, in a narrow and dark window too; PRONG_ACTING=FOLDER says where."""
    folder = Path(os.environ.get("PRONG_ACTING", tmp_path))
    await page.screenshot(path=folder / "acting.png")
    await page.set_viewport_size({"width": 380, "height": 700})
    await page.emulate_media(color_scheme="dark")
    assert await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    await page.screenshot(path=folder / "acting-dark.png")
    await page.set_viewport_size({"width": 1280, "height": 800})
    await page.emulate_media(color_scheme="light")


async def test_a_fork_is_told_and_stopped(world: Worlds, program: Any) -> None:
    """The list of agents is for messages and stops; a session that ends says how to go on."""
    steps = {"One.": [LOOPS, report("x")]}
    script = Script([forks("One."), LOOPS, say("ok")], steps, forever=LOOPS)
    async with world(script, mode="bypassPermissions", allow_actions=True) as w:
        await w.session.say("Go")
        async with served(program, w, "--allow-actions") as served_page, browsed() as (page, wrong):
            await page.goto(served_page.address)
            await page.get_by_role("button", name="Act in this session").click()
            await page.get_by_text("No question waits").wait_for()
            await page.get_by_label("For which agent").select_option(index=1)
            await page.get_by_role("textbox", name="Message").fill("look left")
            await page.get_by_role("button", name="Send").click()
            await page.locator(".message .accepted").wait_for()
            await page.get_by_role("button", name="Stop fork-1").click()
            await page.get_by_role("tab", name="Agents").click()
            await page.get_by_text("killed").wait_for()
            await page.get_by_label("For which agent").select_option(label="main")
            await page.get_by_role("button", name="Stop the turn").click()
            await page.locator(".message .accepted").wait_for()
            names = [one.command for one in w.told(CommandTaken)]
            assert names == ["tell", "stop", "interrupt"]
            await w.session.close()
            await page.get_by_text(f"prong --resume {w.session.id}").wait_for()
            await page.get_by_role("button", name="Send").wait_for(state="hidden")
            assert wrong == []
