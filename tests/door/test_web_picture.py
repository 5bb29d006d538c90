"""What the page draws and how it reads, in a real browser: pictures, names, narrow windows."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any
from urllib.parse import urlsplit

import anyio
import pytest

from prong.face.web.static_file import static_files
from prong.testing import Script, Worlds, calls, report, say
from shared.browser import BROWSER, browsed
from shared.page import served

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("X3"), *BROWSER]

TURNS = "turns \u202eround"
LONG = "W" * 3_000
LANES = """async (spans) => {
  const { emptySession, lanesOf } = await import("/static/model.js");
  const state = emptySession();
  for (const [key, agent, kind, at, end] of spans) {
    state.spans.set(key, { opened: { key, agent, kind, name: kind, at, details: {} }, closed: { at: end } });
  }
  return lanesOf(state);
}"""
TIMELINE = """async ([spans, links]) => {
  const { emptySession } = await import("/static/model.js");
  const { mountTimeline } = await import("/static/timeline.js");
  const state = { ...emptySession(), links, session: { recorded: spans.length } };
  for (const [key, agent, kind, at, end, more] of spans) {
    state.spans.set(key, { opened: { key, agent, kind, name: kind, at, details: {} }, closed: { at: end, ...more } });
  }
  const section = document.querySelector("section");
  const timeline = mountTimeline(section, { state });
  const box = section.querySelector(".scrolled");
  box.style.maxHeight = "300px";
  section.querySelector("details").open = true;
  const pen = CanvasRenderingContext2D.prototype;
  const drawn = pen.bezierCurveTo;
  let curves = 0;
  pen.bezierCurveTo = function count(...where) {
    curves += 1;
    return drawn.apply(this, where);
  };
  timeline.refresh();
  for (let frame = 0; frame < 3; frame += 1) await new Promise(requestAnimationFrame);
  pen.bezierCurveTo = drawn;
  const rows = [...section.querySelectorAll("tbody tr")].map((row) => row.innerText.replaceAll("\t", " | "));
  return { curves, rows, hint: section.querySelector(".hovered").textContent };
}"""
CLOCK = """async (given) => {
  const { clock } = await import("/static/model.js");
  return given.map(([number, step]) => clock(number, step));
}"""
MONEY = """async (given) => {
  const { money } = await import("/static/model.js");
  return given.map(money);
}"""
COST = """async (lines) => {
  const { mountCost } = await import("/static/cost.js");
  const section = document.querySelector("section");
  const usage = { read: 1 };
  const sums = { usage, input: 2, requests: 1, cost: 1, unshared: 1, uncached: 1, least: 1, estimated: null };
  const cost = async () => lines.map(([kind, agent]) => ({ ...sums, kind, agent }));
  mountCost(section, { state: { revision: 1, requests: [1] }, cost }).refresh();
  for (let frame = 0; frame < 3; frame += 1) await new Promise(requestAnimationFrame);
  return [...section.querySelectorAll("tbody th")].map((one) => one.textContent);
}"""
PLACES = """async ([pieces, times]) => {
  const { placeOf } = await import("/static/pause.js");
  return times.map((time) => placeOf(pieces, time));
}"""
BYTES = """async ([stretches, lasts]) => {
  const { mountBytes } = await import("/static/bytes.js");
  const { emptySession, merge } = await import("/static/model.js");
  const none = { from: 0, rows: [] };
  const whole = (last) => (last < 0 ? 0 : stretches[last][1] + whole(stretches[last][0]));
  const requests = lasts.map((last, place) => ({ number: place + 1, agent: "main", last, size: whole(last),
    usage: { silent: true }, input: 0, written: 0, cost: 0, marked: [] }));
  const state = merge(emptySession(), { revision: 1, session: {}, prices: {}, agents: [], items: [], spans: [],
    misses: none, marks: none, links: none, counts: none, requests: { from: 0, rows: requests },
    stretches: { from: 0, rows: stretches.map(([above, size]) => [above, size, above < 0 ? "head" : "directive", "", ""]) } });
  const section = document.querySelector("section");
  const { refresh } = mountBytes(section, { state, stored: true });
  refresh();
  for (let frame = 0; frame < 3; frame += 1) await new Promise(requestAnimationFrame);
  const box = section.querySelector(".scrolled");
  const canvas = box.querySelector("canvas");
  const left = Math.min(170, Math.max(96, box.clientWidth * 0.3));
  // The pixels between rows, in the middle of the first half and of the second.
  const { data, width } = canvas.getContext("2d").getImageData(0, 0, canvas.width || 1, canvas.height || 1);
  const gaps = lasts.slice(1).map((_, place) => [0.25, 0.75].map((share) =>
    data[4 * (18 * (place + 1) * width + Math.round(left + (box.clientWidth - left) * share)) + 3] > 0));
  return { gaps, said: section.querySelector(".sum").textContent, shown: box.checkVisibility() };
}"""
RULER = """async (given) => {
  const { mountRuler } = await import("/static/ruler.js");
  const told = [];
  const ruler = mountRuler("byte", (value) => {
    told.push(value);
    return String(value);
  });
  ruler.draw(given);
  return told;
}"""
COLUMN = """async (session) => {
  const { mountColumn } = await import("/static/column.js");
  const { emptySession } = await import("/static/model.js");
  const state = { ...emptySession(), revision: 1, session };
  const source = { state, connected: true, stored: true, acting: { state: "off" } };
  const column = mountColumn(document.querySelector("section"), source, () => {}, () => {});
  const drawn = async () => {
    column.refresh();
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  };
  await drawn();
  const watch = new MutationObserver(() => {});
  const summary = document.querySelector(".summary");
  watch.observe(summary, { subtree: true, childList: true, characterData: true });
  await drawn();
  const said = summary.querySelector("[role=status]").textContent;
  const changed = watch.takeRecords().length;
  column.select("Transcript");
  await drawn();
  return [summary.textContent, said, changed, document.querySelector(".transcript .note").textContent];
}"""
LINE = """async () => {
  const { lineWindow } = await import("/static/dom.js");
  const { view, set, setEnd, fit } = lineWindow(() => {});
  const seen = [];
  const look = () => seen.push([view.from, view.to]);
  setEnd(100);
  look();
  set(80, 100);
  for (const end of [50, 200]) {
    setEnd(end);
    look();
  }
  fit();
  setEnd(300);
  look();
  return seen;
}"""
ACTING = """async ([live, many]) => {
  const { mountActing } = await import("/static/acting.js");
  const { emptySession } = await import("/static/model.js");
  const asked = { seq: 7, type: "permission_asked", agent: "main", tool: "Bash", title: "x", why: "" };
  const questions = Array.from({ length: many }, (_, number) => ({ ...asked, seq: number }));
  const state = { ...emptySession(), session: { id: "s-1", live }, questions };
  const source = { state, acting: { state: "admitted" } };
  const section = document.querySelector("section");
  mountActing(section, source).refresh();
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  const seen = [...section.querySelectorAll("button")].filter((one) => one.checkVisibility());
  const [buttons, why] = [".buttons", "form input"].map((one) => section.querySelector(one)?.getBoundingClientRect());
  return { said: section.querySelector("p").textContent, seen: seen.map((one) => one.textContent),
    share: section.getBoundingClientRect().height / window.innerHeight, gap: why ? why.top - buttons.bottom : 0 };
}"""
UNFOLDED = """async () => {
  const { mountTranscript } = await import("/static/transcript.js");
  const { emptySession } = await import("/static/model.js");
  const state = emptySession();
  const call = { type: "called", name: "Bash", title: "make", state: "running", arguments: "{}", text: "" };
  const item = { ...call, text: "one" };
  state.transcripts.set("main", [item, { ...call, title: "other" }]);
  const section = document.querySelector("section");
  const transcript = mountTranscript(section, { state });
  const drawn = async () => {
    transcript.refresh();
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  };
  await drawn();
  section.querySelector("details").open = true;
  section.querySelector("summary").focus();
  state.transcripts.set("main", state.transcripts.get("main").map((one) => ({ ...one, text: "two" })));
  await drawn();
  return [[...section.querySelectorAll("details")].map((one) => one.open),
    document.activeElement === section.querySelector("summary"), section.querySelector("pre:last-child").textContent];
}"""
BESIDE = """() => {
  const row = [...document.querySelectorAll(".tree li button")][1];
  return [".title", ".facts"].map((one) => row.querySelector(one).getBoundingClientRect().toJSON());
}"""
FITS = "document.documentElement.scrollWidth <= window.innerWidth"
NO_FRAME = "() => { window.requestAnimationFrame = () => 0; }"


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def empty() -> AsyncGenerator[Any]:
    """Open a browser on a page of nothing but our own files."""
    files = static_files()

    async def give(route: Any) -> None:
        found = files.get(urlsplit(route.request.url).path)
        style = '<link rel="stylesheet" href="/static/page.css">'
        body = f'<!doctype html><title>t</title>{style}<section class="acting"></section>'
        await route.fulfill(
            body=found.data if found else body, content_type=found.kind if found else "text/html"
        )

    async with browsed() as (page, wrong):
        await page.route("**/*", give)
        await page.goto("http://localhost/page")
        yield page
        assert wrong == []


async def test_a_pause_takes_next_to_no_room(empty: Any) -> None:
    """Minutes without work are folded; what is at work, even for long, is drawn as long as it is."""
    spans = [
        ["a", "main", "agent", 0, 5_000],
        ["b", "main", "request", 0, 10],
        ["c", "main", "tool", 12, 30],
        ["d", "main", "request", 4_000, 4_900],
    ]
    found = await empty.evaluate(LANES, spans)
    pieces = found["pieces"]
    assert [(one["start"], one["end"]) for one in pieces] == [
        (0, 30),
        (4_000, 4_900),
        (5_000, 5_000),
    ]
    times = [0, 10, 30, 2_000, 4_000, 4_900, 5_000]
    places = await empty.evaluate(PLACES, [pieces, times])
    assert places == sorted(places)
    assert places[:3] == [0, 10, 30]
    assert places[3] == places[4] < 60, "the pause"
    assert places[5] - places[4] == 900
    assert places[6] < 1_000
    without = await empty.evaluate(LANES, [["a", "main", "request", 5, 9]])
    assert [(one["start"], one["end"]) for one in without["pieces"]] == [(5, 9)]


async def test_many_calls_at_once_leave_room_for_who_they_started(empty: Any) -> None:
    """A lane has six rows at most, and says how many more there were at once."""
    spans = [[f"c{number}", "main", "tool", 1, 2] for number in range(64)]
    spans += [[f"r{number}", f"main/fork-{number}", "request", 2, 3] for number in range(64)]
    main, *forks = (await empty.evaluate(LANES, spans))["lanes"]
    assert (main["depth"], main["over"], len(main["bars"])) == (6, 58, 64)
    assert {(one["depth"], one["over"]) for one in forks} == {(1, 0)}


async def test_arrows_are_those_of_forks_in_sight(empty: Any) -> None:
    """Those of hundreds that are further down would be one black mass over all that is drawn."""
    spans = [["main", "main", "turn", 0, 4, {}]]
    links: list[dict[str, Any]] = []
    for number in range(256):
        key = f"f{number}"
        spans.append([f"a{number}", f"main/fork-{number}", "agent", 1, 3, {}])
        spans.append([key, f"main/fork-{number}", "request", 1, 3, {}])
        links.append({"kind": "dispatch", "source": "main", "target": key, "left": 0, "arrived": 1})
        links.append({"kind": "notice", "source": key, "target": "main", "left": 3, "arrived": 4})
    seen = await empty.evaluate(TIMELINE, [spans, links])
    assert 10 <= seen["curves"] <= 30
    assert seen["rows"][-1] == "213 earlier ones are in the picture alone."


async def test_the_table_of_the_timeline_says_what_bars_show(empty: Any) -> None:
    """How long a request waited and streamed, and that something failed; or why there is nothing."""
    spans = [
        ["a", "main", "request", 0, 3, {"first": 1}],
        ["b", "main", "tool", 3, 4, {"failed": True}],
    ]
    seen = await empty.evaluate(TIMELINE, [spans, []])
    assert seen["rows"] == [
        "main | request request | 0 ms | 3.0 s: waited 1.0 s, streamed 2.0 s",
        "main | tool tool | 3.0 s | 1.0 s: failed",
    ]
    assert seen["hint"].startswith("Point at a bar.")
    without = await empty.evaluate(TIMELINE, [[], []])
    assert without["hint"].startswith("No events of this session were recorded")


async def test_a_ruler_says_round_numbers(empty: Any) -> None:
    """From nought on, within a window, and behind a pause; times as a clock tells them."""
    whole = {"width": 1_170, "left": 170, "from": 0, "to": 21_000}
    told = await empty.evaluate(RULER, {**whole, "pieces": [{"start": 0, "end": 21_000, "at": 0}]})
    assert told == list(range(0, 21_000, 2_000))
    part = {"width": 1_170, "left": 170, "from": 7_350, "to": 7_360}
    told = await empty.evaluate(RULER, {**part, "pieces": [{"start": 0, "end": 21_000, "at": 0}]})
    assert told == list(range(7_350, 7_361))
    pieces = [{"start": 0, "end": 4, "at": 0}, {"start": 4_000, "end": 4_005, "at": 5}]
    told = await empty.evaluate(RULER, {**whole, "to": 10, "pieces": pieces})
    assert told == [0, 1, 2, 3, 4, 4_000, 4_001, 4_002, 4_003, 4_004, 4_005]
    given = [[0, 1], [0.25, 0.05], [119, 1], [120, 1], [3_599.96, 0.1], [4_002.5, 0.5]]
    assert await empty.evaluate(CLOCK, given) == [
        "0 s",
        "0.25 s",
        "119 s",
        "2:00 min",
        "1:00:00.0 h",
        "1:06:42.5 h",
    ]


async def test_what_rows_share_is_one_piece_of_the_picture(empty: Any) -> None:
    """Equal bytes of two rows touch; others have a gap, also if they are of one kind and one size."""
    # A head, and of two forks each a directive, which both of their requests have.
    stretches = [[-1, 1_000], [0, 1_000], [0, 1_000]]
    seen = await empty.evaluate(BYTES, [stretches, [1, 2, 1, 1]])
    assert seen["gaps"] == [[True, False], [True, False], [True, True]]
    said = "These requests have 8,000 bytes: 3,000 of them (37%) are new"
    assert seen["said"].startswith(said)
    none = await empty.evaluate(BYTES, [[], []])
    assert (none["said"], none["shown"]) == ("No request of this session is stored yet.", False)


async def test_the_cost_of_all_stands_before_that_of_each(empty: Any) -> None:
    """Below hundreds of agents nobody would look for it; and sums can be told apart by their digits."""
    given = [["agent", "main"], ["agent", "main/fork-1"], ["fan", "forks"], ["session", "session"]]
    seen = await empty.evaluate(COST, given)
    assert seen == ["session", "forks", "main", "main/fork-1"]
    amounts = [None, 0, 0.000026, 0.0094, 0.0123, 0.1766, 1.234]
    assert await empty.evaluate(MONEY, amounts) == [
        "price unknown",
        "$0.00",
        "$0.000026",
        "$0.0094",
        "$0.0123",
        "$0.1766",
        "$1.23",
    ]


async def test_what_is_not_known_is_not_told(empty: Any) -> None:
    """Without a record of events there are no agents to count, and no cost of nothing."""
    told = {"id": "s-1", "recorded": 0, "cost": 0, "saved": 0}
    text, said, changed, note = await empty.evaluate(COLUMN, told)
    assert text == "s-1 · a stored copy · no record of its events · 0 requests"
    assert (said, changed) == ("s-1 · a stored copy", 0), "numbers are not read out as they grow"
    assert note.startswith("No events of this session were recorded")


async def test_a_session_that_has_ended_offers_nothing_to_press(empty: Any) -> None:
    """Its end may be told before that of the way to act in it; what cannot be done is gone at once."""
    asks = await empty.evaluate(ACTING, [True, 1])
    assert asks["said"] == "1 question waits for an answer."
    assert {"Yes", "No", "Send"} <= set(asks["seen"])
    ended = await empty.evaluate(ACTING, [False, 1])
    assert "prong --resume s-1" in ended["said"]
    assert ended["seen"] == []


async def test_questions_of_many_forks_leave_room_for_the_session(empty: Any) -> None:
    """They scroll in a place of their own: what stands below stays within the window."""
    many = await empty.evaluate(ACTING, [True, 64])
    assert many["seen"].count("Yes") == 64
    assert many["share"] < 1
    assert many["gap"] > 0, "a field does not touch the buttons above it"


async def test_a_call_that_was_unfolded_stays_so(empty: Any) -> None:
    """What comes of it is put in place of what was there, under a reader's eyes and hands."""
    assert await empty.evaluate(UNFOLDED) == [[True, False], True, "two"]


async def test_what_is_looked_at_stays_on_the_line(empty: Any) -> None:
    """Whether the line grows, or a pause in it is folded; all of it stays all of it."""
    assert await empty.evaluate(LINE) == [[0, 100], [30, 50], [30, 50], [0, 300]]


async def test_names_of_models_stay_in_their_places(world: Worlds, program: Any) -> None:
    """None makes the page wider, turns round what stands beside it, or is the tab's name at length.

    And a session that cannot be read says why, and leaves a way to the others.
    """
    named = [("Agent", {"description": each, "prompt": f"Part {each}"}) for each in (TURNS, LONG)]
    command = ("Bash", {"command": f"true {LONG}"})
    script = Script([calls(*named, command), say("All.")], {"Part ": [report("x")]}, say("ok"))
    async with world(script, opens=False, mode="bypassPermissions") as w:
        async with w.open() as session:
            await session.run(f"Go {LONG}")
            await session.wait_settled()
        journal = next(w.store.glob(f"projects/*/{session.id}.jsonl"))
        spoilt = journal.with_name("20200101-000000-aaaaaa.jsonl")
        spoilt.write_bytes(b'{"no": "journal of ours"}\n' + journal.read_bytes())
        async with served(program, w, session.id) as served_page, browsed() as (page, wrong):
            await page.goto(served_page.address)
            await page.get_by_text("3 agents").wait_for()
            await page.evaluate(NO_FRAME)
            await page.set_viewport_size({"width": 400, "height": 700})
            assert await page.evaluate(FITS), "before anything is drawn anew"
            await page.reload()
            await page.get_by_text("3 agents").wait_for()
            assert len(await page.title()) < 80
            assert (await page.title()).startswith("Go WWW")
            await check_light_and_dark(page)
            await page.get_by_role("tab", name="Bytes").focus()
            for key, name in (("End", "Sessions"), ("Home", "Bytes"), ("ArrowRight", "Agents")):
                await page.keyboard.press(key)
                panel = page.get_by_role("tabpanel", name=name)
                await panel.get_by_role("button").first.wait_for()
                assert await page.evaluate(FITS), name
            await page.set_viewport_size({"width": 1_280, "height": 700})
            title, facts = await page.evaluate(BESIDE)
            assert title["right"] <= facts["left"], "it has not turned round"
            await check_refusal(page)
            assert all(one.startswith("Failed to load resource") for one in wrong), wrong


async def check_light_and_dark(page: Any) -> None:
    """A picture that is there follows the system as text does."""
    drawn = "() => document.querySelector('.bytes .scrolled canvas').toDataURL()"
    light = await page.evaluate(drawn)
    await page.emulate_media(color_scheme="dark")
    with anyio.fail_after(40):
        while await page.evaluate(drawn) == light:
            await anyio.sleep(0.02)


async def check_refusal(page: Any) -> None:
    """Open what cannot be read, and then another."""
    await page.get_by_role("tab", name="Sessions").click()
    rows = page.locator(".sessions li")
    await rows.filter(has_text="20200101").get_by_role("button").first.click()
    await page.get_by_text("This session cannot be shown: ").wait_for()
    assert "let in" not in await page.inner_text("body")
    await page.get_by_role("tab", name="Sessions").click()
    await rows.filter(has_not_text="20200101").get_by_role("button").first.click()
    await page.get_by_text("3 agents").wait_for()
