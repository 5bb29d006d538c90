"""Suggestions for the next message: off unless set, beside the conversation, in nobody's way."""

from __future__ import annotations

import anyio
import pytest

from prong.event import RequestFailed, RequestSent
from prong.face.edit.arrange import lay_out
from prong.face.edit.complete import Sources
from prong.face.edit.editor import Editor
from prong.face.edit.key import KeyPress
from prong.testing import Script, Worlds, call, say, stall
from shared.fullscreen import opened

pytestmark = [pytest.mark.anyio, pytest.mark.spec("X2")]

ASKED = "will most likely say next"
SET = '{"suggest": true, "titles": false}'
LONG = "word " * 3000


async def test_it_is_shown_and_taken_by_a_key(world: Worlds) -> None:
    """After a turn it stands dimly in the empty line; Tab takes it, and Enter sends it then."""
    script = Script([say("Hello."), say("They pass.")], {ASKED: [say("Run the tests.\n")]})
    async with (
        world(script, attended=True, settings=SET) as w,
        opened(w.session, (100, 30)) as hands,
    ):
        assert not w.server.records
        await hands.type("Hi there")
        await hands.see("Hello.", "> Run the tests.", "Tab take it")
        await hands.press("enter")
        assert len(w.server.records) == 2
        await hands.press("tab", "enter")
        await hands.see("They pass.")
        await w.session.wait_settled()

        beside = w.server.records[1]
        assert beside.headers["x-prong-sidecar"] == "suggestion"
        assert w.server.records[2].request.last_text.endswith("Run the tests.")
        assert ASKED not in w.server.records[2].body.decode()
        charged = [row.sidecar for row in w.parts.ledger.rows]
        assert charged[:3] == ["", "suggestion", ""]


async def test_it_reads_what_is_cached(world: Worlds) -> None:
    """It is asked on the conversation as it stands, and all of that is read from the cache."""
    script = Script([say("Hello.")], {ASKED: [say("Go on.")]})
    async with (
        world(script, attended=True, settings=SET) as w,
        opened(w.session) as hands,
    ):
        await w.session.say(f"Hi {LONG}")
        await hands.see("> Go on.")
        assert w.server.records[1].usage.read >= w.server.records[0].usage.input - 128


async def test_what_is_typed_takes_its_place(world: Worlds) -> None:
    """Who types sees nothing of it any more, and it is no answer to a question."""
    touch = call("Bash", {"command": "touch made"})
    script = Script([say("Hello."), touch, say("Done.")], {ASKED: [say("Run it.")]})
    async with (
        world(script, attended=True, settings=SET) as w,
        opened(w.session) as hands,
    ):
        await hands.type("Hi there")
        await hands.see("> Run it.")
        await hands.type("no")
        await hands.see("[n] no, and say why", without="Run it.")
        await hands.press("n")
        await hands.see("why not", without="Run it.")


async def test_it_gives_way_to_a_message(world: Worlds) -> None:
    """A suggestion that is still being asked for is given up when the user says something."""
    script = Script(
        [say("Hello."), say("Yes.")], {ASKED: [stall(600, then=say("Late.")), say("And?")]}
    )
    async with (
        world(script, attended=True, settings=SET) as w,
        opened(w.session) as hands,
    ):
        await hands.type("Hi there")
        with anyio.fail_after(50):
            while [event.sidecar for event in w.told(RequestSent)] != ["", "suggestion"]:
                await anyio.sleep(0.01)
        await hands.type("and now")
        await hands.see("Yes.", "> And?")
        assert [event.sidecar for event in w.told(RequestFailed)] == ["suggestion"]


async def test_nobody_asks_unless_it_is_set(world: Worlds) -> None:
    """Without the setting nothing is asked; a folder without trust cannot switch it on."""
    files = {".prong/settings.json": '{"suggest": true}'}
    async with world([say("Hello.")], attended=True, files=files) as w, opened(w.session) as hands:
        await hands.type("Hi there")
        await hands.see("Hello.")
        await w.session.wait_settled()
        assert not w.session.records.suggests
        assert "suggestion" not in [event.sidecar for event in w.told(RequestSent)]


def test_the_editor_takes_it() -> None:
    """Tab and Right take it while nothing is typed; anything typed puts it away."""
    editor = Editor().hinted("run it")
    for key in ("tab", "right"):
        taken, deed = editor.press(KeyPress(key), Sources())
        assert (taken.buffer.text, taken.buffer.cursor, taken.hint, deed) == ("run it", 6, "", "")
    typed, _ = editor.press(KeyPress("text", "x"), Sources())
    assert (typed.buffer.text, typed.hint) == ("x", "")
    assert editor.press(KeyPress("enter"), Sources())[0].buffer.text == ""
    assert editor.press(KeyPress("escape"), Sources()) == (Editor(), "")
    assert editor.is_empty
    laid = lay_out(editor, "> ", 10, 3)
    assert (laid.rows, laid.column, laid.tail) == ((("> ", ""),), 2, "run it")
    assert lay_out(editor.hinted("run the tests"), "> ", 10, 3).tail == "run th…"
