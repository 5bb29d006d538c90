"""`prong acp` as an editor sees it: the real program, over its pipes, checked line by line."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from prong.testing import Options, Script, Worlds, call, calls, cut, fail, say, think
from prong.testing.program import Program
from shared.editor import Failure, allow, begun, gone, open_editor, said
from shared.editor_schema import SCHEMA

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("X5")]

TOUCH = call("Bash", {"command": "touch made", "description": "make a file"}, "c1")
FOREVER = call("Bash", {"command": "echo $$ > begun; echo working; sleep 600"}, "c1")
FREE = ("--permission-mode", "bypassPermissions")


def choosing(option: str) -> Any:
    """Answer every permission request with one option."""
    return lambda _method, _params: {"outcome": {"outcome": "selected", "optionId": option}}


def test_the_schema_is_there() -> None:
    """Lines are held against the protocol's own schema, which the official package brings."""
    if not SCHEMA.exists():
        pytest.skip("the official package is not installed; 'make test' does that where npm is")
    assert "SessionNotification" in json.loads(SCHEMA.read_text())["$defs"]


async def test_a_first_conversation(world: Worlds, program: Program) -> None:
    """A message is answered in pieces, with thoughts, cost and context, then how it ended."""
    async with (
        world([think("Hm.", then=say("Hello there."))], opens=False) as w,
        open_editor(program, w) as editor,
    ):
        session = await editor.open(w)
        ended = await editor.say(session, "Hi")

        assert ended["stopReason"] == "end_turn"
        assert editor.text(session) == "Hello there."
        chunks = editor.updates("agent_message_chunk")
        assert len({one["messageId"] for one in chunks}) == 1
        thoughts = editor.updates("agent_thought_chunk")
        assert "".join(one["content"]["text"] for one in thoughts) == "Hm."
        usage = editor.updates("usage_update")[-1]
        assert usage["used"] > 0
        assert usage["size"] >= 200_000
        assert usage["cost"]["amount"] > 0
        assert ended["usage"]["outputTokens"] > 0
        if SCHEMA.exists():
            assert editor.check.checked >= len(editor.lines)


async def test_a_session_is_known_before_it_is_spoken_of(world: Worlds, program: Program) -> None:
    """Commands and models come after the answer to session/new, which has what can be chosen."""
    async with world([], opens=False) as w, open_editor(program, w) as editor:
        number = await editor.ask("session/new", cwd=str(w.root), mcpServers=[])
        result = await editor.answer(number)
        await editor.until(lambda: bool(editor.updates("config_option_update")))

        places = [one.get("id") == number for one in editor.lines]
        assert not [one for one in editor.lines[: places.index(True)] if "method" in one]
        options = {one["id"]: one for one in result["configOptions"]}
        assert {one["category"] for one in options.values()} == {"mode", "model", "thought_level"}
        assert result["modes"]["currentModeId"] == options["mode"]["currentValue"] == "default"
        (commands,) = editor.updates("available_commands_update")
        names = {one["name"] for one in commands["availableCommands"]}
        assert {"cost", "fork", "compact", "init"} <= names
        assert not {"quit", "resume", "help"} & names


async def test_leave_is_asked_for_and_given(world: Worlds, program: Program) -> None:
    """A call waits for the user, is named by its command, and runs once that was allowed."""
    async with (
        world([TOUCH, say("Made.")], opens=False) as w,
        open_editor(program, w) as editor,
    ):
        session = await editor.open(w)
        ended = await editor.say(session, "Make it")

        assert ended["stopReason"] == "end_turn"
        assert (w.root / "made").exists()
        ((method, asked),) = editor.asked
        assert method == "session/request_permission"
        assert asked["sessionId"] == session
        assert asked["toolCall"]["title"] == "touch made"
        assert "touch made" in asked["toolCall"]["content"][0]["content"]["text"]
        kinds = [one["kind"] for one in asked["options"]]
        assert kinds[0] == "allow_once"
        assert "allow_always" in kinds
        assert kinds[-1] == "reject_once"
        states = [one.get("status") for one in editor.updates() if one.get("toolCallId") == "c1"]
        assert states == ["pending", "in_progress", "completed"]
        call_shown = editor.call("c1")
        assert (call_shown["kind"], call_shown["name"]) == ("execute", "Bash")
        assert call_shown["rawInput"]["command"] == "touch made"


@pytest.mark.parametrize(
    "answer",
    [
        {"outcome": {"outcome": "selected", "optionId": "no"}},
        {"outcome": {"outcome": "selected", "optionId": "something-else"}},
        {"outcome": {"outcome": "cancelled"}},
    ],
    ids=["no", "unknown", "cancelled"],
)
async def test_whatever_is_not_a_yes_is_a_no(
    world: Worlds, program: Program, answer: dict[str, Any]
) -> None:
    """A rejection, an option that was not offered, a dialog that was closed: nothing runs."""
    async with (
        world([TOUCH, say("I see.")], opens=False) as w,
        open_editor(program, w, replies=lambda *_: answer) as editor,
    ):
        session = await editor.open(w)
        await editor.say(session, "Make it")

        assert not (w.root / "made").exists()
        assert editor.call("c1")["status"] == "failed"


async def test_leave_for_the_session_is_asked_for_once(world: Worlds, program: Program) -> None:
    """A yes for the session holds for the next call of the kind."""
    again = call("Bash", {"command": "touch made"}, "c2")
    async with (
        world([TOUCH, again, say("Made twice.")], opens=False) as w,
        open_editor(program, w, replies=choosing("session")) as editor,
    ):
        await editor.say(await editor.open(w), "Make it twice")

        assert len(editor.asked) == 1
        assert editor.call("c2")["status"] == "completed"


async def test_a_change_is_shown_as_a_diff(world: Worlds, program: Program) -> None:
    """Who is asked sees what would change, file by absolute path, and so does who looks later."""
    edit = {"file_path": "a.py", "old_string": "x = 1", "new_string": "x = 2"}
    made = {"file_path": "b.py", "content": "y = 1\n"}
    script = [
        call("Read", {"file_path": "a.py"}, "r1"),
        call("Edit", edit, "e1"),
        call("Write", made, "w1"),
        say("Changed."),
    ]
    files = {"a.py": "# first\nx = 1\n# last\n"}
    async with (
        world(script, files=files, opens=False) as w,
        open_editor(program, w) as editor,
    ):
        await editor.say(await editor.open(w), "Change it")

        diff = {
            "type": "diff",
            "path": str(w.root / "a.py"),
            "oldText": "# first\nx = 1\n# last",
            "newText": "# first\nx = 2\n# last",
        }
        _, asked = editor.asked[0]
        assert asked["toolCall"]["content"][0] == diff
        assert editor.call("e1")["content"] == [diff]
        assert editor.call("e1")["locations"] == [{"path": str(w.root / "a.py")}]
        (fresh,) = editor.call("w1")["content"]
        assert (fresh.get("oldText"), fresh["newText"]) == (None, "y = 1")
        assert editor.call("r1")["kind"] == "read"


async def test_cancel_in_the_middle_of_a_tool(world: Worlds, program: Program) -> None:
    """The command is killed, the call has failed, the prompt is answered, the next one works."""
    async with (
        world([FOREVER, say("Go on then.")], opens=False) as w,
        open_editor(program, w, *FREE) as editor,
    ):
        session = await editor.open(w)
        number = await editor.ask("session/prompt", sessionId=session, prompt=[said("Work")])
        pid = await begun(w.root / "begun")
        await editor.until(lambda: "working" in str(editor.call("c1").get("content")))
        await editor.notify("session/cancel", sessionId=session)

        assert (await editor.answer(number))["stopReason"] == "cancelled"
        assert await gone(pid)
        assert editor.call("c1")["status"] == "failed"
        # Nothing of the turn comes after the answer to it.
        place = next(i for i, one in enumerate(editor.lines) if one.get("id") == number)
        assert not [one for one in editor.lines[place:] if "toolCallId" in str(one)]
        assert (await editor.say(session, "And now?"))["stopReason"] == "end_turn"


@pytest.mark.parametrize("by_request", [False, True])
async def test_cancel_right_behind_a_prompt(
    world: Worlds, program: Program, *, by_request: bool
) -> None:
    """A cancel that comes before anything has begun is obeyed as well, in both of its forms."""
    async with (
        world([say("Too late."), say("Later.")], opens=False) as w,
        open_editor(program, w, *FREE) as editor,
    ):
        session = await editor.open(w)
        number = await editor.ask("session/prompt", sessionId=session, prompt=[said("Work")])
        if by_request:
            await editor.notify("$/cancel_request", requestId=number)
        else:
            await editor.notify("session/cancel", sessionId=session)

        assert (await editor.answer(number))["stopReason"] == "cancelled"
        assert (await editor.say(session, "Now"))["stopReason"] == "end_turn"


async def test_cancel_while_leave_is_asked_for(world: Worlds, program: Program) -> None:
    """The question is taken back from the editor, and the call does not run."""
    async with (
        world([TOUCH], opens=False) as w,
        open_editor(program, w, replies=lambda *_: None) as editor,
    ):
        session = await editor.open(w)
        number = await editor.ask("session/prompt", sessionId=session, prompt=[said("Work")])
        await editor.until(lambda: bool(editor.asked))
        await editor.notify("session/cancel", sessionId=session)

        assert (await editor.answer(number))["stopReason"] == "cancelled"
        await editor.until(
            lambda: any(one.get("method") == "$/cancel_request" for one in editor.lines)
        )
        assert not (w.root / "made").exists()


async def test_three_sessions_at_once(world: Worlds, program: Program) -> None:
    """Sessions work side by side: each has its own answers, and a slow one holds up nobody."""
    play = Script([], {"slowly": [FOREVER], "in red": [say("red")], "in blue": [say("blue")]})
    async with (
        world(play, opens=False, serving=Options(several=True)) as w,
        open_editor(program, w, *FREE) as editor,
    ):
        slow, red, blue = [await editor.open(w) for _ in range(3)]
        stuck = await editor.ask("session/prompt", sessionId=slow, prompt=[said("work slowly")])
        pid = await begun(w.root / "begun")
        numbers = [
            await editor.ask("session/prompt", sessionId=one, prompt=[said(text)])
            for one, text in ((red, "in red"), (blue, "in blue"))
        ]
        for number in numbers:
            assert (await editor.answer(number))["stopReason"] == "end_turn"
        assert (editor.text(red), editor.text(blue), editor.text(slow)) == ("red", "blue", "")
        await editor.notify("session/cancel", sessionId=slow)
        assert (await editor.answer(stuck))["stopReason"] == "cancelled"
        assert await gone(pid)


async def test_an_editor_that_vanishes(world: Worlds, program: Program) -> None:
    """When the editor is gone in mid-work the program ends, and nothing that it started is left."""
    async with world([FOREVER], opens=False) as w:
        async with open_editor(program, w, *FREE) as editor:
            session = await editor.open(w)
            await editor.ask("session/prompt", sessionId=session, prompt=[said("Work")])
            pid = await begun(w.root / "begun")
        assert await gone(pid)


async def test_an_editor_that_reads_no_more(world: Worlds, program: Program) -> None:
    """A pipe that nobody reads ends the program too, although the other one is still open."""
    async with world([], opens=False) as w:
        reader, writer = os.pipe()
        process = await program.start(w, "acp", stdout=writer)
        os.close(writer)
        async with process:
            assert process.stdin is not None
            begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize"}
            await process.stdin.send(
                json.dumps({**begin, "params": {"protocolVersion": 1}}).encode() + b"\n"
            )
            await anyio.wait_readable(reader)
            os.close(reader)
            with anyio.fail_after(50):
                while process.returncode is None:
                    with suppress(anyio.BrokenResourceError):
                        await process.stdin.send(b"what?\n")
                    await anyio.sleep(0.05)
        assert process.returncode == 0


async def test_garbage(world: Worlds, program: Program) -> None:
    """Each line that is no message is answered with what is wrong; the next one works."""
    lines = {
        b"garbage": -32700,
        b"\xff\xfe\x00": -32700,
        b"[" * 100_000: -32600,
        b"[]": -32600,
        b"12": -32600,
        b'{"jsonrpc": "2.0"}': -32600,
        b'{"jsonrpc": "2.0", "id": 7, "method": 12}': -32600,
        b'{"jsonrpc": "1.0", "id": 7, "method": "session/list"}': -32600,
        b'{"jsonrpc": "2.0", "id": {}, "method": "session/list"}': -32600,
        b'{"jsonrpc": "2.0", "id": 7, "method": "no/such/method"}': -32601,
        b'{"jsonrpc": "2.0", "id": 7, "method": "initialize"}': -32600,
        b'{"jsonrpc": "2.0", "id": 7, "method": "session/prompt", "params": 1}': -32602,
        b'{"jsonrpc": "2.0", "id": 7, "method": "session/new", "params": {"cwd": 1}}': -32602,
        b'{"jsonrpc": "2.0", "id": 7, "method": "session/cancel"}': None,
        b'{"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "x"}}': None,
        b'{"jsonrpc": "2.0", "method": "$/whatever"}': None,
        b'{"jsonrpc": "2.0", "id": 999, "result": {}}': None,
        b"": None,
    }
    async with world([say("Fine.")], opens=False) as w, open_editor(program, w) as editor:
        for line, code in lines.items():
            before = len(editor.lines)
            await editor.write(line + b"\n")
            if code is not None:
                await editor.until(lambda before=before: len(editor.lines) > before)
                assert editor.lines[-1]["error"]["code"] == code, line[:60]
        assert (await editor.say(await editor.open(w), "Hi"))["stopReason"] == "end_turn"


async def test_a_turn_that_fails(world: Worlds, program: Program) -> None:
    """What the provider says is the error of the prompt; the session lives on."""
    async with (
        world(
            [fail(400, "invalid_request_error", "no such thing"), say("Fine.")], opens=False
        ) as w,
        open_editor(program, w) as editor,
    ):
        session = await editor.open(w)
        with pytest.raises(Failure, match="no such thing"):
            await editor.say(session, "Hi")
        assert (await editor.say(session, "Again"))["stopReason"] == "end_turn"


async def test_a_command_in_the_background_holds_nothing_up(
    world: Worlds, program: Program
) -> None:
    """A server that was started runs on when its prompt is answered, and ends with the editor."""
    started = {"command": "echo $$ > begun; exec sleep 600", "run_in_background": True}
    async with world([call("Bash", started), say("It runs.")], opens=False) as w:
        async with open_editor(program, w, *FREE) as editor:
            session = await editor.open(w)
            assert (await editor.say(session, "Start it"))["stopReason"] == "end_turn"
            pid = await begun(w.root / "begun")
            os.kill(pid, 0)
        assert await gone(pid)


async def test_what_a_message_can_hold(world: Worlds, program: Program) -> None:
    """Text, pictures, links and files come before the model in the order in which they stand."""
    picture = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    prompt = [
        said("Look"),
        {"type": "image", "mimeType": "image/png", "data": picture},
        {"type": "resource_link", "name": "a.py", "uri": "file:///tmp/a%20b.py"},
        {
            "type": "resource",
            "resource": {"uri": "file:///tmp/c.py", "text": "z = 3", "mimeType": "text/x-python"},
        },
    ]
    async with world([say("Seen.")], opens=False) as w, open_editor(program, w) as editor:
        session = await editor.open(w)
        await editor.request("session/prompt", sessionId=session, prompt=prompt)

        content = w.bodies()[0]["messages"][0]["content"]
        kinds = [one["type"] for one in content]
        assert kinds[kinds.index("image") - 1 :][:4] == ["text", "image", "text", "text"]
        texts = [one["text"] for one in content if one["type"] == "text"]
        assert "@/tmp/a b.py" in texts
        assert '<context ref="/tmp/c.py">\nz = 3\n</context>' in texts
        sound = {"type": "audio", "mimeType": "audio/wav", "data": "AAAA"}
        with pytest.raises(Failure, match="audio") as told:
            await editor.request("session/prompt", sessionId=session, prompt=[sound])
        assert told.value.code == -32602


async def test_things_to_do_are_a_plan(world: Worlds, program: Program) -> None:
    """The agent's list is the editor's plan, whole each time."""
    todos = [
        {"content": "Look", "status": "completed"},
        {"content": "Mend", "status": "in_progress"},
    ]
    async with (
        world([call("TodoWrite", {"todos": todos}), say("On it.")], opens=False) as w,
        open_editor(program, w) as editor,
    ):
        await editor.say(await editor.open(w), "Go")

        (plan,) = editor.updates("plan")
        assert [(one["content"], one["status"]) for one in plan["entries"]] == [
            ("Look", "completed"),
            ("Mend", "in_progress"),
        ]


QUESTIONS = {
    "questions": [
        {
            "question": "Which colour?",
            "header": "Colour",
            "options": [{"label": "Red"}, {"label": "Blue", "description": "as the sea"}],
        },
        {
            "question": "Which fruits?",
            "options": [{"label": "Fig"}, {"label": "Pear"}, {"label": "Plum"}],
            "multiSelect": True,
        },
    ]
}


async def test_a_question_is_a_form(world: Worlds, program: Program) -> None:
    """An editor that has forms gets one with all questions; words of one's own count too."""

    def fill(method: str, params: dict[str, Any]) -> Any:
        assert method == "elicitation/create"
        fields = params["requestedSchema"]["properties"]
        assert [one["const"] for one in fields["answer1"]["oneOf"]] == ["Red", "Blue"]
        content = {"answer1": "Blue", "answer2": ["Fig", "Plum"], "other2": "and a\nquince"}
        return {"action": "accept", "content": content}

    async with (
        world([call("AskUserQuestion", QUESTIONS), say("Noted.")], opens=False) as w,
        open_editor(program, w, replies=fill, can={"elicitation": {"form": {}}}) as editor,
    ):
        await editor.say(await editor.open(w), "Ask me")

        told = str(w.bodies()[1]["messages"][-1])
        assert "Which colour? Blue" in told
        assert "Which fruits? Fig, Plum, and a quince" in told


@pytest.mark.parametrize("action", ["decline", "cancel", "something"])
async def test_a_form_that_is_not_filled_in(world: Worlds, program: Program, action: str) -> None:
    """The model is told that nobody has answered."""
    async with (
        world([call("AskUserQuestion", QUESTIONS), say("Noted.")], opens=False) as w,
        open_editor(
            program,
            w,
            replies=lambda *_: {"action": action, "content": {"answer1": "Red"}},
            can={"elicitation": {"form": {}}},
        ) as editor,
    ):
        await editor.say(await editor.open(w), "Ask me")

        assert "Nobody is there to answer" in str(w.bodies()[1]["messages"][-1])


async def test_questions_without_forms(world: Worlds, program: Program) -> None:
    """An editor without forms is asked one question after the other, with the options to choose."""
    async with (
        world([call("AskUserQuestion", QUESTIONS, "q1"), say("Noted.")], opens=False) as w,
        open_editor(program, w, replies=choosing("option-1")) as editor,
    ):
        await editor.say(await editor.open(w), "Ask me")

        told = str(w.bodies()[1]["messages"][-1])
        assert "Which colour? Blue" in told
        assert "Which fruits? Pear" in told
        assert [asked["toolCall"]["toolCallId"] for _, asked in editor.asked] == ["q1", "q1"]


@pytest.mark.parametrize(("option", "mode"), [("accept_edits", "acceptEdits"), ("no", "plan")])
async def test_a_plan_is_approved_or_not(
    world: Worlds, program: Program, tmp_path: Path, option: str, mode: str
) -> None:
    """Plan mode is an editor's mode; its plan is shown whole, and the answer changes the mode."""
    plan = str(tmp_path / "project/.prong/plans/mend-it.md")
    script = [
        call("Write", {"file_path": plan, "content": "# The plan\n"}),
        call("ExitPlanMode", {}),
        say("So be it."),
    ]
    async with (
        world(script, opens=False) as w,
        open_editor(program, w, replies=choosing(option)) as editor,
    ):
        session = await editor.open(w)
        await editor.request("session/set_mode", sessionId=session, modeId="plan")
        await editor.say(session, "Mend it")

        (asked,) = [one for _, one in editor.asked]
        assert asked["toolCall"]["kind"] == "switch_mode"
        assert "# The plan" in asked["toolCall"]["content"][0]["content"]["text"]
        modes = [one["currentModeId"] for one in editor.updates("current_mode_update")]
        assert modes[0] == "plan"
        assert modes[-1] == mode
        options = editor.updates("config_option_update")[-1]["configOptions"]
        assert options[0]["currentValue"] == mode


async def test_two_calls_ask_and_both_are_answered(world: Worlds, program: Program) -> None:
    """Several questions at once go to the editor, and each answer finds its call."""
    both = calls(("Bash", {"command": "touch one"}), ("Bash", {"command": "touch two"}))

    def only_two(method: str, params: dict[str, Any]) -> Any:
        given = allow(method, params)
        refused = {"outcome": {"outcome": "selected", "optionId": "no"}}
        return given if params["toolCall"]["title"] == "touch two" else refused

    async with (
        world([both, say("Half.")], opens=False) as w,
        open_editor(program, w, replies=only_two) as editor,
    ):
        await editor.say(await editor.open(w), "Both")

        assert not (w.root / "one").exists()
        assert (w.root / "two").exists()


@pytest.mark.parametrize(
    ("words", "files", "stop", "told"),
    [
        (("--max-turns", "1"), {}, "max_turn_requests", "limit"),
        ((), {"~/.prong/settings.json": "HOOK"}, "refusal", "not on a Sunday"),
    ],
    ids=["limit", "hook"],
)
async def test_how_else_a_turn_ends(
    world: Worlds,
    program: Program,
    words: tuple[str, ...],
    files: dict[str, str],
    stop: str,
    told: str,
) -> None:
    """A bound that was reached and a hook that objects are stop reasons, and are said."""
    line = {"type": "command", "command": "echo not on a Sunday >&2; exit 2"}
    hook = json.dumps({"hooks": {"UserPromptSubmit": [{"hooks": [line]}]}})
    files = {name: text.replace("HOOK", hook) for name, text in files.items()}
    async with (
        world([call("Bash", {"command": "ls"}), say("Done.")], files=files, opens=False) as w,
        open_editor(program, w, *FREE, *words) as editor,
    ):
        session = await editor.open(w)
        assert (await editor.say(session, "Go"))["stopReason"] == stop
        assert told in editor.text(session)


async def test_a_price_that_is_not_known(world: Worlds, program: Program) -> None:
    """A cost that nobody knows is left out, and never nothing."""
    async with (
        world([say("One.")], opens=False) as w,
        open_editor(program, w, "--model", "anthropic:nobody-knows-1") as editor,
    ):
        await editor.say(await editor.open(w), "Hi")

        usage = editor.updates("usage_update")[-1]
        assert "cost" not in usage
        assert usage["used"] > 0


async def test_a_reply_that_has_to_be_tried_again(world: Worlds, program: Program) -> None:
    """What was streamed of it is void: that is said, and the next try is another message."""
    async with (
        world([cut(after_bytes=900), say("Whole.")], opens=False) as w,
        open_editor(program, w) as editor,
    ):
        session = await editor.open(w)
        await editor.say(session, "Hi")

        chunks = editor.updates("agent_message_chunk", session)
        last = [one for one in chunks if one["content"]["text"] == "Whole."]
        assert len(last) == 1
        assert "is void" in editor.text(session)
        others = {one["messageId"] for one in chunks if one is not last[0]}
        assert last[0]["messageId"] not in others


async def test_everything_is_told_before_the_answer(world: Worlds, program: Program) -> None:
    """However slowly an editor reads, the answer to a prompt comes behind all that belongs to it."""
    text = "".join(f"line {number}\n" for number in range(100_000))
    async with (
        world([say(text)], opens=False) as w,
        open_editor(program, w) as editor,
    ):
        session = await editor.open(w)
        await editor.until(lambda: bool(editor.updates("config_option_update")))
        editor.read_no_more()
        number = await editor.ask("session/prompt", sessionId=session, prompt=[said("Tell")])
        (record,) = w.store.rglob("events.jsonl")
        with anyio.fail_after(50):
            while b"turn_finished" not in record.read_bytes():
                await anyio.sleep(0.05)
        editor.read_on()
        await editor.answer(number)

        assert editor.lines[-1]["id"] == number
        assert editor.text(session) == text


async def test_cancel_while_a_hook_thinks(world: Worlds, program: Program) -> None:
    """A message that is not yet before the model when it is cancelled gets no answer."""
    wait = "echo $$ > begun; while [ ! -e go ]; do sleep 0.05; done"
    hook = {"hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": wait}]}]}}
    slow = replace(say("Too late."), first_byte=20.0)
    async with (
        world([slow], files={"~/.prong/settings.json": json.dumps(hook)}, opens=False) as w,
        open_editor(program, w) as editor,
    ):
        session = await editor.open(w)
        number = await editor.ask("session/prompt", sessionId=session, prompt=[said("Go")])
        await begun(w.root / "begun")
        await editor.notify("session/cancel", sessionId=session)
        # The answer to a later request: what was told before it has been heard.
        await editor.request("session/list")
        w.write("go", "")

        assert (await editor.answer(number))["stopReason"] == "cancelled"
        assert "Too late." not in editor.text(session)


async def test_nothing_is_hidden_in_a_request_for_leave(world: Worlds, program: Program) -> None:
    """Who is asked reads the command as it is: no character turns or hides a part of it."""
    evil = call("Bash", {"command": "rm -r x # \u202etxt.y ml"}, "c1")
    async with (
        world([evil, say("Well.")], opens=False) as w,
        open_editor(program, w, replies=choosing("no")) as editor,
    ):
        await editor.say(await editor.open(w), "Go")

        ((_, asked),) = editor.asked
        assert asked["toolCall"]["title"] == "rm -r x # ·txt.y ml"
        assert "\u202e" not in str(asked["toolCall"]["content"])
        assert "\u202e" in asked["toolCall"]["rawInput"]["command"]
