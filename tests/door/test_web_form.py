"""The page's forms by themselves, in a real browser, without a session: what they show and send."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import Any
from urllib.parse import urlsplit

import pytest

from prong.face.web.static_file import static_files
from shared.browser import BROWSER, browsed

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("X3"), *BROWSER]

HIDDEN = "\u202e"
SHOWN = "\\u{202e}"
SCENE = """async () => {
  const { mountActing } = await import("/static/acting.js");
  window.sent = [];
  window.answers = [];
  window.source = {
    acting: { state: "admitted" },
    state: { session: { id: "s-1", live: true }, questions: [], agents: new Map() },
    ask: async () => window.answers.shift() ?? {},
    act: async (id, command, asked) => {
      window.sent.push({ id, command, asked });
      return window.answers.shift() ?? { type: "accepted", text: "" };
    },
  };
  window.section = document.querySelector("section");
  window.mounted = mountActing(window.section, window.source);
  window.named = (name) =>
    [...document.querySelectorAll("button")].find((one) => one.textContent === name);
}"""
PERMISSION = {
    "type": "permission_asked",
    "seq": 7,
    "request_id": "r-7",
    "agent": "main",
    "tool": "Bash",
    "title": "run it",
    "why": "it writes",
}
QUESTION = {
    "type": "question_asked",
    "seq": 8,
    "request_id": "r-8",
    "agent": "main",
    "questions": [
        {"question": "Which?", "options": [{"label": "red"}, {"label": "blue"}]},
        {"question": "What sizes?", "options": [{"label": "S"}, {"label": "M"}], "multiple": True},
    ],
}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


class Stage:
    """A page with nothing on it but the forms; its clock stands still unless it is moved."""

    def __init__(self, page: Any) -> None:
        self.page = page

    async def show(self, *questions: dict[str, Any], state: str = "admitted", **more: Any) -> None:
        """Have the page show how it stands, and draw a frame."""
        given = {"questions": questions, "acting": {"state": state, **more}}
        await self.page.evaluate(
            """({questions, acting}) => {
              source.acting = acting;
              source.state.questions = questions;
              mounted.refresh();
            }""",
            given,
        )
        await self.wait(40)

    async def wait(self, milliseconds: int) -> None:
        await self.page.clock.run_for(milliseconds)

    async def run(self, script: str, given: Any = None) -> Any:
        found = await self.page.evaluate(script, given)
        await self.wait(40)
        return found

    async def press(self, name: str) -> None:
        """Press a button, if it can be."""
        await self.run("(name) => window.named(name).click()", name)

    async def enabled(self, name: str) -> bool:
        return bool(await self.run("(name) => !window.named(name).disabled", name))

    async def text(self, place: str = "section") -> str:
        return str(await self.run("(place) => document.querySelector(place).textContent", place))

    async def sent(self) -> list[dict[str, Any]]:
        """Give what was sent since this was last asked, without the ids."""
        found: list[dict[str, Any]] = await self.run("() => sent.splice(0)")
        return [{name: one[name] for name in one if name != "id"} for one in found]


@pytest.fixture(scope="module")
async def empty() -> AsyncGenerator[tuple[Any, list[str]]]:
    """Open a browser on a page of nothing but our own files, whose clock stands still."""
    files = static_files()

    async def give(route: Any) -> None:
        found = files.get(urlsplit(route.request.url).path)
        if found is not None:
            await route.fulfill(body=found.data, content_type=found.kind)
        else:
            body = "<!doctype html><title>t</title><section></section>"
            await route.fulfill(body=body, content_type="text/html")

    async with browsed() as (page, wrong):
        await page.route("**/*", give)
        await page.clock.install(time=0)
        await page.clock.pause_at(10_000)
        yield page, wrong


@pytest.fixture
async def stage(empty: tuple[Any, list[str]]) -> AsyncGenerator[Stage]:
    """Put the forms on it anew."""
    page, wrong = empty
    # By this name a page is one of this machine, which may make up ids.
    await page.goto("http://localhost/page")
    await page.evaluate(SCENE)
    yield Stage(page)
    assert wrong == []


async def test_what_is_shown_is_what_may_be_done(stage: Stage) -> None:
    """Without the flag nothing, before a yes nothing to answer or to say, then all of it."""
    hidden = "(place) => { const one = document.querySelector(place); return !one || one.hidden; }"
    await stage.show(PERMISSION, state="off")
    assert await stage.run(hidden, "section")
    for state, more, said in (
        ("ready", {}, "can act in the session once its user agrees"),
        ("asking", {"code": ""}, "is being asked whether this page may act"),
        ("asking", {"code": "c-1"}, "It must show the code c-1"),
        ("refused", {"why": "its user said no"}, "cannot act in the session: its user said no"),
        ("lost", {"why": "it ended"}, "cannot act in the session: it ended"),
    ):
        await stage.show(PERMISSION, state=state, **more)
        assert not await stage.run(hidden, "section")
        assert said in await stage.text("[role=status]")
        assert await stage.run(hidden, "form.message")
        assert await stage.run("() => document.querySelectorAll('.questions form').length") == 0
        offered = await stage.run("() => !named('Act in this session').hidden")
        assert offered is (state != "asking")
    await stage.show(PERMISSION)
    assert "1 question waits for an answer" in await stage.text("[role=status]")
    assert not await stage.run(hidden, "form.message")
    assert await stage.run("() => document.querySelectorAll('.questions form').length") == 1
    await stage.run("() => { source.state.session.live = false; }")
    await stage.show(state="ready")
    assert "prong --resume s-1 goes on with it" in await stage.text("[role=status]")
    assert await stage.run("() => named('Act in this session').hidden")


async def test_a_refusal_of_the_pages_server_stays(stage: Stage) -> None:
    """Why it could not even be asked is said until something else is known."""
    await stage.show(state="ready")
    await stage.run("() => answers.push({ type: 'refused', why: 'this page only reads' })")
    await stage.press("Act in this session")
    assert "this page only reads" in await stage.text("[role=status]")
    await stage.wait(100)
    await stage.show(state="ready")
    assert "this page only reads" in await stage.text("[role=status]")
    assert await stage.enabled("Act in this session")
    await stage.show(state="asking", code="c-1")
    assert "this page only reads" not in await stage.text("[role=status]")


async def test_a_button_that_has_just_come_does_nothing(stage: Stage) -> None:
    """Neither when its question comes, nor when another goes and it moves to that one's place."""
    second = {**PERMISSION, "seq": 9, "request_id": "r-9"}
    yes = "() => document.querySelector('.questions form:last-child button').disabled"
    await stage.show(PERMISSION, second)
    await stage.press("Yes")
    await stage.wait(500)
    assert await stage.run(yes)
    assert await stage.sent() == []
    await stage.wait(300)
    assert not await stage.run(yes)
    await stage.show(second)
    assert await stage.run(yes), "it has moved"
    await stage.wait(500)
    assert await stage.run(yes)
    await stage.wait(300)
    assert not await stage.run(yes)


async def test_each_answer_to_a_permission_is_its_own(stage: Stage) -> None:
    """Yes, for the session, always and no are sent as that, for the question that was seen."""
    asked = {**PERMISSION, "suggestion": ["Bash(ls:*)"], "file": "/p/settings.json"}
    base = {"type": "answer", "request_id": "r-7"}
    for name, more in (
        ("Yes", {}),
        ("For the session", {"remember": "session"}),
        ("Always", {"remember": "project"}),
        ("No", {"allow": False, "text": "too much"}),
    ):
        await stage.show(asked)
        await stage.wait(800)
        await stage.run(
            "() => { document.querySelector('[aria-label=\"Why not\"]').value = 'too much'; }"
        )
        await stage.press(name)
        assert await stage.sent() == [{"command": {**base, **more}, "asked": 7}]
        await stage.press(name)
        assert await stage.sent() == [], "it is shut until the session says that it is settled"
        await stage.show()
    await stage.show({**PERMISSION, "plan": "the plan"})
    await stage.wait(800)
    assert "the plan" in await stage.text(".questions")
    await stage.press("Yes, and accept edits")
    assert (await stage.sent())[0]["command"] == {**base, "mode": "acceptEdits"}


async def test_what_is_asked_is_shown_whole_and_as_it_is(stage: Stage) -> None:
    """Title, preview, arguments, rule and file, with signs that hide or turn text by their numbers."""
    parts = ("tool", "title", "why", "preview", "arguments", "file")
    asked = {**PERMISSION, "agent": f"main/a{HIDDEN}"} | {one: f"{one} {HIDDEN}" for one in parts}
    question = {
        "question": f"which {HIDDEN}",
        "options": [{"label": f"label {HIDDEN}", "description": f"described {HIDDEN}"}],
    }
    await stage.show({**asked, "suggestion": [f"rule {HIDDEN}"]})
    text = await stage.text(".questions")
    for one in (*parts, "rule"):
        assert f"{one} {SHOWN}" in text
    assert f"main/a{SHOWN}: may it?" in text
    await stage.show({**QUESTION, "questions": [question]})
    text += await stage.text(".questions")
    for one in ("which", "label", "described"):
        assert f"{one} {SHOWN}" in text
    assert HIDDEN not in text
    await stage.show({**PERMISSION, "plan": f"plan {HIDDEN}"})
    assert f"plan {SHOWN}" in await stage.text(".questions")


CHOOSE = """({ field, picks, own }) => {
  const one = document.querySelectorAll("fieldset")[field];
  for (const at of picks) one.querySelectorAll("label input")[at].click();
  one.querySelector("input[type=text]").value = own;
}"""


async def test_answers_to_questions(stage: Stage) -> None:
    """One of several, or several, or words of one's own, which go before; one line for each."""
    await stage.show(QUESTION)
    await stage.wait(800)
    await stage.press("Answer")
    await stage.run(CHOOSE, {"field": 0, "picks": [0, 1], "own": ""})
    await stage.press("Answer")
    assert await stage.sent() == [], "one has no answer yet"
    await stage.run(CHOOSE, {"field": 1, "picks": [0, 1], "own": ""})
    await stage.press("Answer")
    [sent] = await stage.sent()
    assert sent["command"] == {"type": "answer", "request_id": "r-8", "text": "blue\nS, M"}
    await stage.show()
    await stage.show(QUESTION)
    await stage.wait(800)
    await stage.run(CHOOSE, {"field": 0, "picks": [0], "own": " my  own "})
    wild = [{"label": "L\nnot an answer"}]
    await stage.run(CHOOSE, {"field": 1, "picks": [1], "own": ""})
    await stage.press("Answer")
    assert (await stage.sent())[0]["command"]["text"] == "my own\nM"
    await stage.show()
    await stage.show({**QUESTION, "questions": [{"question": "Which?", "options": wild}]})
    await stage.wait(800)
    await stage.run(CHOOSE, {"field": 0, "picks": [0], "own": ""})
    await stage.press("Answer")
    assert (await stage.sent())[0]["command"]["text"] == "L not an answer"
    await stage.show()
    await stage.show(QUESTION)
    await stage.wait(800)
    await stage.press("Refuse")
    [sent] = await stage.sent()
    assert sent["command"] == {"type": "answer", "request_id": "r-8", "allow": False}


async def test_what_was_answered_goes_and_leaves_the_keyboard_there(stage: Stage) -> None:
    """Who answered by keyboard is at what is said next, and not at the top of the page."""
    await stage.show(PERMISSION)
    await stage.wait(800)
    await stage.run("() => named('Yes').focus()")
    await stage.show()
    assert await stage.run("() => document.querySelectorAll('.questions form').length") == 0
    where = "() => document.activeElement === document.querySelector('[role=status]')"
    assert await stage.run(where)


SAY = "(words) => { const one = document.querySelector('textarea'); if (words !== null) one.value = words; document.querySelector('form.message').requestSubmit(); }"


async def test_what_nobody_knows_the_outcome_of_is_sent_as_the_same(stage: Stage) -> None:
    """Pressed again it has its id; another message, and one after an answer, has a new one."""
    await stage.show()
    ids: list[str] = []
    for words, answer in (
        ("one", {"type": "unknown", "why": "no answer"}),
        ("one", {"type": "unknown", "why": "no answer"}),
        ("two", {"type": "refused", "why": "not now"}),
        ("one", {"type": "accepted", "text": "it waits"}),
        ("one", {"type": "accepted", "text": ""}),
    ):
        await stage.run("(answer) => answers.push(answer)", answer)
        await stage.run(SAY, words)
        [sent] = await stage.run("() => sent.splice(0)")
        assert sent["command"] == {"type": "say", "text": words}
        ids.append(sent["id"])
        outcome = json.dumps(await stage.text("form.message .outcome"))
        assert (answer.get("why") or answer.get("text") or "done") in outcome
        kept = "() => document.querySelector('textarea').value"
        assert await stage.run(kept) == ("" if answer["type"] == "accepted" else words)
        assert await stage.enabled("Send")
    assert ids[0] == ids[1] == ids[3]
    assert len({ids[0], ids[2], ids[4]}) == 3
    await stage.run(SAY, "  \n ")
    assert await stage.sent() == []


AGENTS = """(tasks) => {
  source.state.agents = new Map(tasks.map((task) => [task, { task, title: "t" }]));
}"""


async def test_who_is_chosen_is_told_and_stopped(stage: Stage) -> None:
    """The choice stays while that agent is there, and is the main one when it has gone."""
    pick = "(task) => { const one = document.querySelector('select'); one.value = task; one.dispatchEvent(new Event('change')); }"
    await stage.run(AGENTS, ["fork-1", "fork-2"])
    await stage.show()
    await stage.press("Stop the turn")
    await stage.run(pick, "fork-2")
    await stage.run(SAY, "left")
    await stage.press("Stop fork-2")
    await stage.run(AGENTS, ["fork-2", "fork-3"])
    await stage.show()
    await stage.press("Stop fork-2")
    await stage.run(AGENTS, ["fork-3"])
    await stage.show()
    assert await stage.run("() => document.querySelector('select').selectedIndex") == 0
    await stage.run(SAY, "right")
    await stage.press("Stop the turn")

    assert [one["command"] for one in await stage.sent()] == [
        {"type": "interrupt"},
        {"type": "tell", "to": "fork-2", "text": "left"},
        {"type": "stop", "task_id": "fork-2"},
        {"type": "stop", "task_id": "fork-2"},
        {"type": "say", "text": "right"},
        {"type": "interrupt"},
    ]


async def test_the_key_is_nowhere_to_be_seen_and_goes_with_every_request(
    empty: tuple[Any, list[str]],
) -> None:
    """It leaves the address at once; what a server does not answer to is told from what it refuses."""
    page, wrong = empty
    streams: list[str] = []
    keys: list[str] = []

    async def give(route: Any) -> None:
        found = urlsplit(route.request.url)
        if found.path == "/api/events":
            streams.append(found.query)
            await route.fulfill(body="retry: 100000\n\n", content_type="text/event-stream")
            return
        keys.append(route.request.headers.get("x-prong-key", ""))
        if len(keys) <= 2:
            await route.fulfill(status=403, body="this page only reads")
        else:
            await route.abort()

    await page.route("**/api/**", give)
    await page.goto("http://localhost/page?again#k-1")
    opened = """async () => {
      const { liveSource } = await import("/static/source.js");
      window.live = liveSource("", () => {});
    }"""
    await page.evaluate(opened)
    assert await page.evaluate("() => location.href") == "http://localhost/"
    both = """async () => [await live.ask(), await live.act("id-00001", { type: "interrupt" })]"""
    refused = {"type": "refused", "why": "this page only reads"}
    assert await page.evaluate(both) == [refused, refused]
    silent = await page.evaluate(both)
    await page.evaluate("() => live.close()")
    await page.unroute("**/api/**")

    assert [one["type"] for one in silent] == ["refused", "unknown"]
    assert all("did not answer" in one["why"] for one in silent)
    assert (streams, keys) == (["after=0&key=k-1"], ["k-1"] * 4)
    assert all(one.startswith("Failed to load resource") for one in wrong)
    wrong.clear()
