"""The full screen under somebody's hands: keys go in, rows and commands come out."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import anyio
import pytest
from textual import events

from prong.command import Stop
from prong.face.edit.buffer import Buffer
from prong.face.full.app import Full
from prong.face.full.board import Board
from prong.face.full.control import Control
from prong.face.full.fullscreen import short_trace
from prong.testing import Script, Worlds, call, fail, say, stall
from prong.testing.service import Options
from shared.claude_file import claude, claude_slug
from shared.fullscreen import Hands, opened

pytestmark = [pytest.mark.anyio, pytest.mark.spec("X2")]

Opens = Callable[..., AbstractAsyncContextManager[Hands]]
IDLE, BUSY = "Enter send", "Esc interrupt"
"""What the last row says: nothing is at work, or something is."""


@pytest.fixture
def full() -> Opens:
    """Give what opens the full screen on a session."""
    return opened


async def test_a_message_is_sent_and_answered(world: Worlds, full: Opens) -> None:
    """What is typed is sent by Enter; it and the answer stand in the conversation."""
    async with world([say("Hello, **you**.")], attended=True) as w, full(w.session) as hands:
        await hands.type("Hi there")
        shown = await hands.see("> Hi there", "Hello, you.")
        assert "claude-sonnet-5-5" in shown.splitlines()[0]
    assert w.server.records[0].request.last_text.endswith("Hi there")


async def test_a_first_screen_says_what_can_be_typed(world: Worlds, full: Opens) -> None:
    """As long as nothing was said the folder stands there, and what can be typed."""
    async with world([say("Aye.")], attended=True) as w, full(w.session) as hands:
        # The whole of it may be wider than the screen.
        await hands.see(str(w.root)[:20], "Say what is to be done.", "/ and Tab a command")
        await hands.type("Hi there")
        await hands.see("Aye.", without="Say what is to be done.")


async def test_a_long_message_is_unfolded_by_keys(world: Worlds, full: Opens) -> None:
    """Of a long message both ends are shown; Tab goes to it and Enter shows all of it."""
    lines = "\n".join(f"line {n}" for n in range(1, 16))
    async with world([say("Aye.")], attended=True) as w, full(w.session) as hands:
        await w.session.run(lines)
        await hands.see("line 10\n  ▸ 4 more lines\n  line 15\n", without="line 12")
        await hands.press("tab", "enter")
        await hands.see("line 12", "line 15")


async def test_what_a_command_of_ones_own_prints_is_shown(world: Worlds, full: Opens) -> None:
    """The output of a command of the user's own is shown at once, of a long one the beginning."""
    async with world([], attended=True) as w, full(w.session) as hands:
        await hands.type("!echo one; echo two")
        await hands.see("▸ !echo one; echo two", "  one\n  two")
        await hands.type("!seq 101 120")
        await hands.see("  112", "  ▸ 8 more lines", without="  113")


async def test_what_is_typed_while_a_turn_runs_waits_in_sight(world: Worlds, full: Opens) -> None:
    """A message sent while a turn runs is shown as waiting, and Up takes it back to be changed."""
    script = [stall(600, then=say("Slowly, " * 20)), say("Yes.")]
    async with world(script, attended=True) as w, full(w.session) as hands:
        await hands.type("Begin")
        await hands.see("Slowly,")
        await hands.type("and then")
        await hands.see("waits: and then", "Esc interrupt")
        await hands.press("up")
        await hands.see("> and then", without="waits:")
        await hands.press("ctrl+c")
        await hands.press("escape")
        await hands.see("(interrupted: ")
    assert not w.session.view().busy


async def test_what_was_read_of_a_reply_stays(world: Worlds, full: Opens) -> None:
    """Half a reply stays where it was read when Esc breaks it off, with why the turn has ended."""
    script = [stall(600, then=say("Slowly, " * 20)), say("Yes.")]
    async with world(script, attended=True) as w, full(w.session) as hands:
        await hands.type("Begin")
        await hands.see("Slowly,")
        await hands.press("escape")
        await hands.see("Slowly,", "… broken off; the model does not remember", "(interrupted: ")
        await hands.type("Go on")
        shown = await hands.see("Yes.", "Slowly,", "(interrupted: ")
        assert shown.count("(interrupted: ") == 1
    assert "Slowly" not in w.server.records[-1].body.decode()


@pytest.mark.parametrize(("settings", "rows"), [("{}", 3), ('{"wheelRows": 7}', 7)])
async def test_the_wheel_goes_so_many_rows(
    world: Worlds, full: Opens, settings: str, rows: int
) -> None:
    """A notch of the wheel goes three rows, or as many as the setting says."""
    lines = say("\n".join(f"- line {n}" for n in range(100)))
    async with world([lines], settings=settings, attended=True) as w, full(w.session) as hands:
        await hands.type("Go")
        await hands.see("line 99", IDLE, without=BUSY)
        page = hands.app.query_one("#conversation", Board)
        before = page.rows[0].text
        page.post_message(Board.Rolled(page, -1))
        await hands.see("line 81", f"── {rows} rows below ──", without="line 99")
        number = int(before.split()[-1]) - rows
        assert page.rows[0].text == f"• line {number}"


async def test_a_panel_goes_to_its_end_and_back(world: Worlds, full: Opens) -> None:
    """However often Down is pressed at the end of a panel, the first Up goes up."""
    async with world([], attended=True) as w, full(w.session) as hands:
        await hands.type("/help")
        await hands.see("/cost", "Esc closes")
        await hands.press(*["pagedown"] * 20)
        last = "Commands work while a turn runs and while a question is open."
        await hands.see(last)
        await hands.press("up")
        await hands.see("Esc closes", without=last)


async def test_choices_are_in_sight_and_can_be_clicked(world: Worlds, full: Opens) -> None:
    """Of more choices than there is room for the marked one is shown; a click takes one."""
    labels = [f"choice {n}" for n in range(1, 5)]
    options = [{"label": label, "description": "long " * 40} for label in labels]
    questions = [{"question": f"Which {n}?", "options": options} for n in (1, 2)]
    script = [call("AskUserQuestion", {"questions": questions}), say("Done.")]
    async with world(script, attended=True) as w, full(w.session) as hands:
        await hands.type("Go")
        await hands.see("Which 1?", "> 1. ( ) choice 1", without="choice 4")
        await hands.press("up")
        await hands.see("> 4. ( ) choice 4")
        line = next(at for at, row in enumerate(hands.rows()) if "choice 3" in row)
        foot = hands.app.query_one("#foot", Board).region
        await hands.click("foot", line - foot.y)
        await hands.see("Which 2?", "> 1. ( ) choice 1")
        await hands.press("2")
        await hands.see("Done.")
    said = [record.request.last_text for record in w.server.records]
    assert any("choice 3" in text and "choice 2" in text for text in said)


async def test_a_click_answers_and_types_nothing(world: Worlds, full: Opens) -> None:
    """A click on an answer means it, also who looks at agents; with a line begun it means nothing."""
    make = [call("Bash", {"command": "touch made"})]
    script = Script([say("Ready.")], {"Make it.": make}, forever=say("ok"))
    async with world(script, attended=True) as w, full(w.session) as hands:

        async def click_always() -> None:
            rows = hands.app.query_one("#foot", Board).rows
            line = next(at for at, row in enumerate(rows) if "[a] always" in row.text)
            await hands.click("foot", line)

        await hands.type("Go")
        await hands.see("Ready.")
        await hands.type("/fork Make it.")
        await hands.see("[a] always")
        await hands.press("x")
        await hands.see("> x", "your line first")
        await click_always()
        await hands.press("z")
        await hands.see("> xz", "[a] always")
        await hands.press("ctrl+c", "tab")
        await hands.see("m message")
        await click_always()
        await hands.see("done", without="[a] always")
        assert (w.root / "made").exists()
        assert "touch" in (w.root / ".prong/settings.local.json").read_text()


async def test_what_a_call_had_printed_stays(world: Worlds, full: Opens) -> None:
    """The end of what a command printed stays below it when Esc cuts it off, and is no failure."""
    script = [call("Bash", {"command": "seq 101 120; sleep 600"}), say("Yes.")]
    given = {"mode": "bypassPermissions", "attended": True}
    async with world(script, **given) as w, full(w.session) as hands:
        await hands.type("Begin")
        await hands.see("  120")
        await hands.press("escape")
        row = "✗ seq 101 120; sleep 600  interrupted"
        shown = await hands.see(row, "  … 8 earlier lines\n  109\n", "  120\n", "(interrupted: ")
        assert "  108" not in shown
        await hands.press("tab", "enter")
        await hands.see("  101", "  108")
        await hands.press("escape")
        await hands.type("!echo half; sleep 600")
        # Two blanks before it: it is printed, and not a word of the command.
        await hands.see("running", "  half\n", "Esc interrupt")
        await hands.press("escape")
        await hands.see("✗ !echo half; sleep 600  interrupted", "\n  half\n")


async def test_why_a_turn_failed_stays(world: Worlds, full: Opens) -> None:
    """A message that got no answer stands there with the reason, also after the next one."""
    script = [fail(400, "invalid_request_error", "it is bad"), say("Yes.")]
    async with world(script, attended=True) as w, full(w.session) as hands:
        await hands.type("Begin")
        await hands.see("(error: ", "it is bad")
        await hands.type("Go on")
        shown = await hands.see("Yes.", "> Go on")
    assert shown.index("> Begin") < shown.index("(error: ") < shown.index("> Go on")


async def test_a_request_that_is_tried_again_says_so_in_one_row(world: Worlds, full: Opens) -> None:
    """As long as a request is tried again one row says so and why; then nothing is left of it."""
    tries = [fail(429, "rate_limit_error", "slow down", wait) for wait in (0.0, 0.0, 30.0)]
    script = [*tries, say("Yes.")]
    async with world(script, attended=True) as w, full(w.session) as hands:
        await hands.type("Begin")
        shown = await hands.see("· try 4 in ", "slow down")
        assert shown.count("slow down") == 1
        await hands.press("escape")
        await hands.type("Go on")
        await hands.see("Yes.", without="try 4")


async def test_escape_leaves_the_background_alone(world: Worlds, full: Opens) -> None:
    """Esc interrupts the turn and never the background; Ctrl+C twice leaves with nothing to stop."""
    slow = call("Bash", {"command": "sleep 600"})
    script = Script(
        [say("Ready."), stall(600, then=say("Slowly, " * 20))], {"Wait.": [slow]}, forever=say("ok")
    )
    given = {"mode": "bypassPermissions", "attended": True}
    async with world(script, **given) as w, full(w.session) as hands:
        await hands.type("Hi")
        await hands.see("Ready.")
        await hands.type("/fork Wait.")
        await hands.see("sleep 600")
        await hands.type("Go on")
        await hands.see("Slowly,")
        await hands.press("escape")
        await hands.see("(interrupted: ")
        assert [task.state for task in w.session.view().running] == ["running"]
        await hands.press("ctrl+c")
        await hands.see("1 background task runs; once more")


async def test_a_fork_that_has_ended_is_not_said_to_work(world: Worlds, full: Opens) -> None:
    """The line names the forks that work, and goes with the last of them; nothing need be sent."""
    waits = {"One.": [stall(600, then=say("Never."))], "Two.": [stall(600, then=say("Never."))]}
    script = Script([say("Ready.")], waits, forever=say("ok"))
    async with world(script, attended=True) as w, full(w.session, (100, 30)) as hands:
        await hands.type("Hi")
        await hands.see("Ready.")
        await hands.type("/fork One. / Two.")
        await hands.see("fork-1, fork-2 work in the background; /tell ID TEXT reaches one")
        await w.session.send(Stop("fork-1"))
        await hands.see(
            "fork-2 works in the background; /tell fork-2 TEXT", without="fork-1, fork-2"
        )
        await w.session.send(Stop("fork-2"))
        await hands.see("fork-1", "fork-2", without="in the background")


async def test_leave_is_given_by_a_key(world: Worlds, full: Opens) -> None:
    """A question shows exactly what would run; y gives leave once, n asks for the reason first."""
    script = [
        call("Bash", {"command": "touch made"}),
        call("Bash", {"command": "touch never"}),
        say("As you wish."),
    ]
    async with world(script, attended=True) as w, full(w.session) as hands:
        await hands.type("Touch it")
        await hands.see(" main  may it? touch made", "[y] once", "[s] for this session: Bash(touch")
        await hands.press("y")
        await hands.see("may it? touch never")
        await hands.press("n")
        await hands.see("why not (Enter for no reason)>")
        await hands.type("not today")
        await hands.see("As you wish.")
    assert (w.root / "made").exists()
    assert not (w.root / "never").exists()
    answered = next(r for r in w.server.records if "not today" in r.request.last_text)
    assert answered.number == 3


async def test_what_is_asked_for_stands_before_a_question(world: Worlds, full: Opens) -> None:
    """A list that was asked for is shown over a question, which no key answers meanwhile."""
    script = [call("Bash", {"command": "touch made"}), say("Done.")]
    async with world(script, attended=True) as w, full(w.session) as hands:
        await hands.type("Touch it")
        await hands.see("[y] once")
        await hands.type("/help")
        await hands.see("/compact", "Esc closes; then a question", without="[y] once")
        await hands.press("down", "down")
        assert w.session.view().questions
        await hands.press("escape")
        await hands.see("[y] once")
        assert w.session.view().busy
        await hands.press("y")
        await hands.see("Done.")


async def test_always_stores_the_rule_that_is_shown(world: Worlds, full: Opens) -> None:
    """`a` names the file and the rule, stores it, and says so; the next such call just runs."""
    script = [call("Bash", {"command": f"touch {name}"}) for name in ("one", "two")]
    async with world([*script, say("Done.")], attended=True) as w, full(w.session) as hands:
        await hands.type("Touch them")
        await hands.see("[a] always, by .prong/settings.local.json: Bash(touch:*)")
        await hands.press("a")
        await hands.see("Done.", "stored in")
    assert "Bash(touch:*)" in (w.root / ".prong/settings.local.json").read_text()
    assert (w.root / "two").exists()


async def test_a_rule_that_cannot_be_stored_leaves_the_question(world: Worlds, full: Opens) -> None:
    """If the file cannot be written that is said, and the question can be answered otherwise."""
    script = [call("Bash", {"command": "touch made"}), say("Done.")]
    async with world(script, attended=True) as w, full(w.session) as hands:
        await hands.type("Touch it")
        await hands.see("[a] always")
        (w.root / ".prong").symlink_to("nowhere")
        await hands.press("a")
        await hands.see("no rule was kept", "[a] always")
        await hands.press("s")
        await hands.see("Done.")
    assert (w.root / "made").exists()


async def test_agents_can_be_looked_at_while_one_asks(world: Worlds, full: Opens) -> None:
    """Among the agents keys are for them, also while a question waits; it is answered from there."""
    script = Script(
        [say("Ready.")],
        {
            "Touch it.": [call("Bash", {"command": "touch made"}), say("Made.")],
            "Wait.": [stall(600, then=say("Slowly, " * 20))],
        },
        forever=say("ok"),
    )
    async with world(script, attended=True) as w, full(w.session, (100, 30)) as hands:
        await hands.type("Hi")
        await hands.see("Ready.")
        await hands.type("/fork Touch it. / Wait.")
        await hands.see("may it? touch made", "fork-1", "fork-2")
        await hands.press("tab", "down", "down")
        await hands.see("Wait.", "Slowly,", "[y] once")
        await hands.press("x")
        await hands.see("killed")
        await hands.press("up", "y")
        await hands.see("Made.", without="[y] once")
    assert (w.root / "made").exists()


async def test_what_was_typed_ahead_never_answers(world: Worlds, full: Opens) -> None:
    """Keys that follow each other belong to the line, also if a question comes in between."""
    script = [call("Bash", {"command": "touch made"}), say("Done.")]
    async with (
        world(script, attended=True) as w,
        full(w.session, quiet=600.0) as hands,
    ):
        await hands.type("Touch it")
        await hands.see("may it? touch made")
        await hands.press("y")
        await hands.see("> y", "your line first")
        assert w.session.view().questions
        await hands.press("ctrl+c")
        await hands.see("[y] once", without="your line first")
        assert w.session.view().questions


async def test_choices(world: Worlds, full: Opens) -> None:
    """A question with choices is answered by its number, several by marking, or in own words."""
    options = [{"label": "Red"}, {"label": "Blue"}]
    one = {"question": "Colour?", "options": options}
    many = {"question": "Which?", "options": options, "multiSelect": True}
    script = [
        call("AskUserQuestion", {"questions": [one, many]}),
        call("AskUserQuestion", {"questions": [one]}),
        say("Good."),
    ]
    async with world(script, attended=True) as w, full(w.session) as hands:
        await hands.type("Ask me")
        await hands.see("Colour?", "Which?", "1. ( ) Red")
        await hands.press("2", "space", "down", "space", "enter")
        await hands.see("Colour?", without="Which?")
        await hands.press("g")
        await hands.see("answer> g")
        await hands.type("reen")
        await hands.see("Good.")
    said = [record.request.last_text for record in w.server.records]
    assert any("Blue" in text and "Red, Blue" in text for text in said)
    assert any("green" in text for text in said)


async def test_own_words_answer_one_of_several_questions(world: Worlds, full: Opens) -> None:
    """Words of one's own answer the question the cursor is on; what else was chosen counts too."""
    options = [{"label": "Red"}, {"label": "Blue"}]
    one = {"question": "Colour?", "options": options}
    other = {"question": "Shade?", "options": options}
    many = {"question": "Which?", "options": options, "multiSelect": True}
    script = [call("AskUserQuestion", {"questions": [one, other, many]}), say("Good.")]
    async with world(script, attended=True) as w, full(w.session) as hands:
        await hands.type("Ask me")
        await hands.see("Colour?", "Which?")
        await hands.press("2", "g")
        await hands.see("(x) Blue", "answer> g")
        await hands.type("reen")
        await hands.see("(x) green", "Which?", without="answer>")
        await hands.press("1", "k")
        await hands.see("answer> k")
        await hands.type("iwi")
        await hands.see("Good.")
    told = "The user answered:\n- Colour? Blue\n- Shade? green\n- Which? Red, kiwi"
    assert told in [record.request.last_text for record in w.server.records]


async def test_an_answer_from_beside_is_not_typed_away(world: Worlds, full: Opens) -> None:
    """What /btw gives may come while one types: it stays until Esc, and is waited for no longer."""
    answer = "\n".join(f"Line {number}." for number in range(8))
    waits = {"Ready?": [stall(600, then=say("Never."))], "What?": [say(answer)]}
    script = Script([say("Hello.")], waits, forever=say("ok"))
    async with world(script) as w, full(w.session) as hands:
        await hands.type("Hi")
        await hands.see("Hello.")
        await hands.type("/btw What?")
        await hands.see("Line 0.", without="asked beside")
        await hands.press("x", "y")
        await hands.see("Line 0.", "> xy", "Esc closes")
        await hands.press("escape")
        await hands.see("> xy", without="Line 0.")
        hands.control.tell([("Told late.\n" * 8, "")])
        await hands.press("z")
        await hands.see("Told late.", "> xyz")
        await hands.press("escape", "ctrl+c")
        await hands.type("/btw Ready?")
        await hands.see("asked beside")
        await hands.type("/mode")
        await hands.see("asked beside", "default")


async def test_a_plan_is_approved_with_edits(world: Worlds, full: Opens) -> None:
    """A plan is shown whole; `a` approves it, and edits need no more leave."""
    async with world([], mode="plan", attended=True) as w, full(w.session) as hands:
        plan = f"{w.root.resolve()}/.prong/plans/go.md"
        w.server.push(
            call("Write", {"file_path": plan, "content": "# Plan\n\n1. Do.\n2. See.\n3. Tell.\n"}),
            call("ExitPlanMode"),
            call("Write", {"file_path": "made.py", "content": "x"}),
            say("Done."),
        )
        await hands.type("go")
        shown = await hands.see("has a plan", "3. Tell.", "approve and accept edits")
        assert "[e] edit" in shown
        await hands.press("a")
        await hands.see("Done.", "acceptEdits")


@pytest.mark.parametrize("size", [(80, 24), (90, 40), (140, 30)])
async def test_todos_are_in_sight(world: Worlds, full: Opens, size: tuple[int, int]) -> None:
    """What the agent has to do stands on the screen until it is done; a click shows all of it."""
    items = [{"content": f"Step {n}", "status": "pending"} for n in range(12)]
    items[0]["status"], items[1]["status"] = "completed", "in_progress"
    done = [{**item, "status": "completed"} for item in items]
    script = [
        call("TodoWrite", {"todos": items}),
        say("Begun."),
        call("TodoWrite", {"todos": done}),
        say("Over."),
    ]
    async with world(script, attended=True) as w, full(w.session, size) as hands:
        await hands.type("go")
        # Where a row is can be told once nothing comes any more.
        await hands.see("Begun.", "todos 1 of 12 done", "[~] Step 1", IDLE, without=BUSY)
        board, line = next(
            (board, line)
            for board in ("foot", "agents")
            for line, row in enumerate(hands.app.query_one(f"#{board}", Board).rows)
            if "todos 1 of 12" in row.text
        )
        await hands.click(board, line)
        await hands.see("[x] Step 0", "[ ] Step 5", "Esc closes")
        await hands.press("escape")
        await hands.type("go on")
        await hands.see("Over.", without="12 done ·")
        await hands.type("/todos")
        await hands.see("[x] Step 5", without="todos 12")


async def test_agents_are_looked_at_and_spoken_to(world: Worlds, full: Opens) -> None:
    """Tab goes to the agents; the marked one's conversation is shown, m speaks to it, x stops it."""
    waits = call("Bash", {"command": "sleep 600"})
    script = Script([say("Ready.")], {"Wait here.": [waits]}, forever=say("ok"))
    given = {"mode": "bypassPermissions", "attended": True}
    async with world(script, **given) as w, full(w.session, (140, 30)) as hands:
        await hands.type("Hi")
        await hands.see("Ready.")
        await hands.type("/fork Wait here.")
        await hands.see("└◐ fork-1")
        await hands.press("tab", "down")
        await hands.see("main/fork-1", "Wait here.", "sleep 600", "m message")
        await hands.press("m")
        await hands.see("to fork-1>")
        await hands.type("Hurry")
        await hands.press("tab", "x")
        await hands.see("└✗ fork-1")
        await hands.press("escape")
        await hands.see("· main", without="main/fork-1")


@pytest.mark.parametrize(("keys", "prompt"), [((), "to main>"), (("down",), "to fork-1>")])
async def test_a_message_that_was_begun_answers_nothing(
    keys: tuple[str, ...], prompt: str, world: Worlds, full: Opens
) -> None:
    """After `m` letters are a message, whatever is asked and however long one thinks; Esc ends it."""
    script = Script(
        [say("Ready.")], {"Make it.": [call("Bash", {"command": "touch made"})]}, forever=say("ok")
    )
    async with world(script, attended=True) as w, full(w.session) as hands:
        await hands.type("Hi")
        await hands.see("Ready.")
        await hands.type("/fork Make it.")
        await hands.see("[y] once")
        await hands.press("tab", *keys, "m")
        await hands.see(prompt, "send it, or leave it with Esc")
        await hands.press("y")
        await hands.see(f"{prompt} y", "send it, or clear it with Ctrl+C", "[y] once")
        await hands.press("ctrl+c", "escape")
        await hands.see("[y] once", without="your line first")
        await hands.press("y")
        await hands.see(without="[y] once")


async def test_a_call_unfolds_by_key_and_by_click(world: Worlds, full: Opens) -> None:
    """A call is one line; Enter on it, or a click, shows all of it and folds it again."""
    script = [call("Read", {"file_path": "a.txt"}), say("Read.")]
    text = "\n".join(f"line {n}" for n in range(1, 9))
    async with (
        world(script, files={"a.txt": text}, attended=True) as w,
        full(w.session) as hands,
    ):
        await hands.type("Read it")
        await hands.see("▸ Read a.txt", "Read.", IDLE, without=BUSY)
        assert "line 7" not in hands.text
        await hands.press("tab", "enter")
        shown = await hands.see("▾ Read a.txt", "line 7")
        await hands.press("escape")
        at = next(n for n, row in enumerate(shown.splitlines()) if "▾ Read a.txt" in row)
        await hands.click("conversation", at - 1)
        await hands.see("▸ Read a.txt", without="line 7")
        await hands.click("conversation", at - 1)
        await hands.see("line 7")


async def test_reading_back_is_not_disturbed(world: Worlds, full: Opens) -> None:
    """Whoever has gone up stays there while more is said, and comes down with the next message."""
    long = "\n\n".join(f"Paragraph {n}." for n in range(1, 40))
    async with (
        world([say(long), say("More.")], attended=True) as w,
        full(w.session) as hands,
    ):
        await hands.type("Tell me")
        await hands.see("Paragraph 39.", IDLE, without=BUSY)
        # Once: of two pages up the first alone may be in sight when the screen is read.
        await hands.press("pageup")
        shown = await hands.see("Paragraph 2", without="Paragraph 39.")
        await w.session.run("And?")
        await anyio.sleep(0.2)
        assert hands.rows()[1:10] == shown.splitlines()[1:10]
        await hands.type("Well")
        await hands.see("> Well")


async def test_commands_show_in_a_panel(
    world: Worlds, full: Opens, monkeypatch: pytest.MonkeyPatch
) -> None:
    """/help opens a panel that Up and Down move and Esc closes; /rewind and /resume let one choose."""
    # However slow the hands are, two are two.
    monkeypatch.setattr("prong.face.full.control.TWICE", 60.0)
    async with world([say("Aye.")], attended=True) as w, full(w.session) as hands:
        await hands.type("First words")
        await hands.see("Aye.")
        await hands.type("/help")
        await hands.see("/compact", "Esc closes")
        await hands.press(*["down"] * 30)
        await hands.see("/team", without="/compact [focus]")
        await hands.press("escape")
        await hands.see("Aye.", without="Esc closes")
        await hands.type("/nonsense")
        await hands.see("no command /nonsense")
        await hands.press("escape", "escape")
        await hands.see("  1  First words", "Enter chooses")
        await hands.press("enter")
        with anyio.fail_after(40):
            while hands.control.following is None:
                await anyio.sleep(0.02)
    assert hands.control.following.draft.text == "First words"


async def test_a_session_to_go_on_with_is_chosen_at_the_start(world: Worlds, full: Opens) -> None:
    """A screen that opens with /resume lists the other sessions, and Enter takes the marked one."""
    async with world([say("Aye.")], opens=False, attended=True) as w:
        async with w.open() as session:
            await session.run("Earlier words")
        async with w.open() as other, full(other, first="/resume") as hands:
            await hands.see("$", "Earlier words", "Enter chooses")
            await hands.press("enter")
            with anyio.fail_after(40):
                while hands.control.following is None:
                    await anyio.sleep(0.02)
    assert hands.control.following.id == session.id


async def test_a_session_of_another_program_is_chosen(world: Worlds, full: Opens) -> None:
    """/resume lists those of other programs too; one that is chosen is taken over and gone on with."""
    async with world([], opens=False, attended=True) as w:
        claude(w.home / f".claude/projects/{claude_slug(w.root)}/s.jsonl", cwd=str(w.root))
        async with w.open() as session, full(session, first="/resume") as hands:
            await hands.see("Claude Code: MEND IT", "Enter chooses")
            await hands.press("enter")
            with anyio.fail_after(40):
                while hands.control.following is None:
                    await anyio.sleep(0.02)
            (made,) = (one for one in session.records.others() if one.id != session.id)
    assert hands.control.following.id == made.id
    assert made.entries == 4


async def test_a_costly_command_asks_first(world: Worlds, full: Opens) -> None:
    """What gives up the cache says what that costs, and above a sum asks; no leaves it as it was."""
    async with world([say("Aye.")], attended=True, settings='{"confirmAboveUsd": 0}') as w:
        async with full(w.session) as hands:
            await hands.type("First words")
            await hands.see("Aye.")
            await hands.type("/model claude-opus-5")
            await hands.see("more; go on?", "[y] yes")
            await hands.press("n")
            await hands.see("(left as it was)")
        assert w.session.model == "claude-sonnet-5-5"


async def test_the_wheel_does_not_stop_the_screen(world: Worlds, full: Opens) -> None:
    """After the wheel was turned, what is said and told still comes into sight by itself."""
    script = [say("Aye."), say("More.")]
    async with world(script, attended=True) as w, full(w.session) as hands:
        await hands.type("First words")
        await hands.see("Aye.")
        page = hands.app.query_one("#conversation", Board)
        await anyio.sleep(0.3)
        page.post_message(Board.Rolled(page, -1))
        await anyio.sleep(0.3)
        await w.session.run("And?")
        await hands.see("More.")


async def test_a_failure_is_told_in_few_words(world: Worlds) -> None:
    """What is told of a failure of the screen has no values in it but the error's own words."""
    key = "sk-test-0123456789abcdef"

    def fails() -> None:
        secret = f"{key} in a variable"
        raise ExceptionGroup("several", [ValueError(f"no\x1b[31m {len(secret)}")])

    async with world([], attended=True, api_key=key) as w, anyio.create_task_group() as group:
        control = Control(w.session, w.session.events(), group, draft=Buffer(), quiet=0.0)
        app = Full(w.session, control, "none", "", taken_over=False)
        try:
            fails()
        except ExceptionGroup:
            app._fatal_error()  # pyright: ignore[reportPrivateUsage] - as Textual does
        assert app.failure is not None
        told = short_trace(app.failure)
        assert told.splitlines()[0].startswith("ValueError: no")
        assert "\x1b" not in told
        assert "variable" not in told
        error = RuntimeError(f"with {key}")
        assert key not in w.session.records.mask(short_trace(error))


async def test_models_are_proposed(world: Worlds, full: Opens) -> None:
    """After /model Tab proposes what the server has and what settings name, the current one first."""
    settings = '{"exploreModel": "claude-haiku-4-5", "titles": false}'
    serving = Options(models=("claude-sonnet-5-5", "house-model"))
    given = {"attended": True, "settings": settings, "serving": serving}
    async with world([], **given) as w, full(w.session) as hands:
        await hands.press(*"/model ", "tab")
        await hands.see("claude-sonnet-5-5", "house-model", "claude-haiku-4-5")
        await hands.press(*"ho", "tab")
        await hands.see("> /model house-model")
        assert not [one for one in w.server.records if one.path != "/v1/models"]


async def test_a_paste_is_one_message(world: Worlds, full: Opens) -> None:
    """Pasted lines wait for Enter and are sent as one message; a long paste stands as a label."""
    long = "\n".join(f"row {number}" for number in range(1, 21))
    async with world([say("Aye."), say("Aye, all.")], attended=True) as w, full(w.session) as hands:
        hands.app.post_message(events.Paste("one\r\ntwo"))
        await hands.see("> one", "  two")
        await hands.press("enter")
        await hands.see("Aye.")
        hands.app.post_message(events.Paste(long))
        await hands.see("> [pasted 20 lines #1]")
        await hands.press("enter")
        await hands.see("Aye, all.")
    said = [record.request.last_text for record in w.server.records]
    assert any(text.endswith("one\ntwo") for text in said)
    assert any(text.endswith(long) for text in said)
