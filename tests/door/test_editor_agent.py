"""Agents that a session starts, as editors show them: in sessions below it, or on their call."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from prong.testing import Script, Worlds, call, forks, report, say
from prong.testing.program import Program
from prong.testing.repository import Repo
from shared.editor import begun, gone, open_editor, said

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("X5")]

FREE = ("--permission-mode", "bypassPermissions")
KNOWS = {"subagents": {}}


def play() -> Script:
    """Two forks, the first of which makes a file; their parent says so at the end."""
    return Script(
        [forks("PART red", "PART blue"), say("Waiting."), say("All done."), say("Really.")],
        {
            "PART red": [call("Bash", {"command": "touch red"}, "r1"), report("red is made")],
            "PART blue": [report("blue needs nothing")],
        },
    )


async def test_a_prompt_is_open_while_agents_work(world: Worlds, program: Program) -> None:
    """The answer comes when the forks have reported and their parent has worked on that."""
    async with world(play(), opens=False) as w, open_editor(program, w, *FREE) as editor:
        session = await editor.open(w)
        assert (await editor.say(session, "Split it"))["stopReason"] == "end_turn"

        assert "Waiting." in editor.text(session)
        assert "All done." in editor.text(session)
        assert (w.root / "red").exists()


async def test_a_call_carries_its_agent(world: Worlds, program: Program) -> None:
    """The call that starts a fork is at work until that ends; then it has report and receipt."""
    async with world(play(), opens=False) as w, open_editor(program, w, *FREE) as editor:
        session = await editor.open(w)
        await editor.say(session, "Split it")

        started = [one for one in editor.updates("tool_call") if one["name"] == "Agent"]
        assert len(started) == 2
        for one, told in zip(started, ("red is made", "blue needs nothing"), strict=True):
            shown = editor.call(one["toolCallId"])
            assert shown["status"] == "completed"
            texts = [part["content"]["text"] for part in shown["content"]]
            assert told in texts[0]
            assert texts[1].startswith("Receipt: ")
            assert shown["_meta"]["prong"]["receipt"]["bytes_shared"] > 0
            assert shown["_meta"]["tool_name"] == "Agent"
            info = shown["_meta"]["subagent_session_info"]
            assert info["session_id"].startswith(f"{session}:main/")
            assert info["message_start_index"] == 0


async def test_without_sessions_below(world: Worlds, program: Program) -> None:
    """A fork's calls are tagged with the call that started it; what it says is in its report."""
    async with world(play(), opens=False) as w, open_editor(program, w, *FREE) as editor:
        session = await editor.open(w)
        await editor.say(session, "Split it")

        parent = next(one for one in editor.updates("tool_call") if one["name"] == "Agent")
        (made,) = [one for one in editor.updates("tool_call") if one["title"] == "touch red"]
        assert made["_meta"]["claudeCode"] == {"parentToolUseId": parent["toolCallId"]}
        assert editor.call(made["toolCallId"])["status"] == "completed"
        assert "Scope: my part" not in editor.text()
        assert editor.updates("subagent_update") == []
        assert {one["params"]["sessionId"] for one in editor.lines if "method" in one} == {session}


async def test_with_sessions_below(world: Worlds, program: Program) -> None:
    """Each fork is announced before it is heard of, and speaks in a session of its own."""
    async with (
        world(play(), opens=False) as w,
        open_editor(program, w, *FREE, can=KNOWS) as editor,
    ):
        session = await editor.open(w)
        await editor.say(session, "Split it")

        heard: set[str] = set()
        announced: set[str] = set()
        for one in editor.lines:
            if one.get("method") != "session/update":
                continue
            update, to = one["params"]["update"], one["params"]["sessionId"]
            if update["sessionUpdate"] == "subagent_update":
                assert to == session
                announced.add(update["sessionId"])
            elif to != session:
                heard.add(to)
                assert to in announced
        assert heard == announced
        assert len(heard) == 2
        red = min(heard)
        assert "red is made" in editor.text(red)
        (directive,) = editor.updates("user_message_chunk", red)
        assert "PART red" in directive["content"]["text"]
        states = [
            one["state"]["state"]
            for one in editor.updates("subagent_update")
            if one["sessionId"] == red and "state" in one
        ]
        assert (states[0], states[-1]) == ("running", "idle")


@pytest.mark.parametrize("knows", [True, False])
async def test_whom_a_fork_asks(world: Worlds, program: Program, *, knows: bool) -> None:
    """A fork asks in its own session only where there is one; else in its parent's, by name."""
    async with (
        world(play(), opens=False) as w,
        open_editor(program, w, can=KNOWS if knows else {}) as editor,
    ):
        session = await editor.open(w)
        await editor.say(session, "Split it")

        ((_, asked),) = editor.asked
        assert (w.root / "red").exists()
        assert (asked["sessionId"] != session) == knows
        assert asked["toolCall"]["title"].startswith("[") != knows
        assert asked["toolCall"]["title"].endswith("touch red")


async def test_a_fork_can_be_looked_at(world: Worlds, program: Program) -> None:
    """An editor that loads the session of a fork is told what was said in it."""
    async with world(play(), opens=False) as w, open_editor(program, w, *FREE) as editor:
        session = await editor.open(w)
        await editor.say(session, "Split it")
        call_id = editor.calls()[0]
        child = editor.call(call_id)["_meta"]["subagent_session_info"]["session_id"]
        given = {"sessionId": child, "cwd": str(w.root), "mcpServers": []}
        await editor.request("session/load", **given)

        kinds = [one["sessionUpdate"] for one in editor.updates(session=child)]
        assert kinds == ["user_message_chunk", "tool_call", "agent_message_chunk"]
        assert "red is made" in editor.text(child)
        assert editor.updates("tool_call", child)[0]["title"] == "touch red"


async def test_a_fork_can_be_stopped(world: Worlds, program: Program) -> None:
    """An editor that knows children cancels one; the parent is told, and the prompt ends."""
    forever = call("Bash", {"command": "echo $$ > begun; sleep 600"})
    script = Script(
        [forks("PART red"), say("Waiting."), say("It was stopped.")], {"PART red": [forever]}
    )
    async with (
        world(script, opens=False) as w,
        open_editor(program, w, *FREE, can=KNOWS) as editor,
    ):
        session = await editor.open(w)
        number = await editor.ask("session/prompt", sessionId=session, prompt=[said("Split it")])
        pid = await begun(w.root / "begun")
        await editor.until(lambda: bool(editor.updates("subagent_update")))
        child = editor.updates("subagent_update")[0]["sessionId"]
        await editor.notify("session/cancel", sessionId=child)

        assert (await editor.answer(number))["stopReason"] == "end_turn"
        assert await gone(pid)
        assert "It was stopped." in editor.text(session)
        last = editor.updates("subagent_update")[-1]
        assert last["state"] == {"state": "idle", "stopReason": "cancelled"}
        assert editor.call(editor.calls()[0])["status"] == "failed"


async def test_cancel_while_agents_work(world: Worlds, program: Program) -> None:
    """A cancel ends the wait for agents at once; they work on, and what they report is told."""
    slow = call("Bash", {"command": "echo $$ > begun; while [ ! -e go ]; do sleep 0.05; done"})
    script = Script(
        [forks("PART red"), say("Waiting."), say("All done.")],
        {"PART red": [slow, report("red is made")]},
    )
    async with world(script, opens=False) as w, open_editor(program, w, *FREE) as editor:
        session = await editor.open(w)
        number = await editor.ask("session/prompt", sessionId=session, prompt=[said("Split it")])
        await begun(w.root / "begun")
        await editor.until(lambda: "Waiting." in editor.text())
        await editor.notify("session/cancel", sessionId=session)
        assert (await editor.answer(number))["stopReason"] == "cancelled"
        w.write("go", "")
        await editor.until(lambda: "All done." in editor.text())
        assert "red is made" in str(editor.call(editor.calls()[0])["content"])


async def test_a_loaded_session_has_its_receipts(world: Worlds, program: Program) -> None:
    """What forks gave back and shared is told again when the session is loaded."""
    async with world(play(), opens=False) as w:
        async with open_editor(program, w, *FREE) as editor:
            session = await editor.open(w)
            await editor.say(session, "Split it")
        async with open_editor(program, w, *FREE) as editor:
            given: dict[str, Any] = {"sessionId": session, "cwd": str(w.root), "mcpServers": []}
            await editor.request("session/load", **given)
            started = [one for one in editor.updates("tool_call") if one["name"] == "Agent"]
            assert [one["status"] for one in started] == ["completed", "completed"]
            assert started[0]["_meta"]["prong"]["receipt"]["bytes_shared"] > 0
            assert "red is made" in str(started[0]["content"])


async def test_a_fork_in_a_worktree_names_its_own_files(world: Worlds, program: Program) -> None:
    """What such a fork changes is shown where it is: in its working copy, not in the project."""
    made = call("Write", {"file_path": "new.txt", "content": "new\n"}, "w1")
    script = Script(
        [forks("PART red", isolation="worktree"), say("Waiting."), say("All done.")],
        {"PART red": [made, report("it is made")]},
    )
    async with world(script, files={"a.py": "x = 1"}, opens=False) as w:
        Repo(w.root).git("init", "-q")
        async with open_editor(program, w, *FREE) as editor:
            session = await editor.open(w)
            await editor.say(session, "Split it")

            (shown,) = [one for one in editor.updates("tool_call") if one["name"] == "Write"]
            (copy,) = (w.root / ".prong/worktrees").glob("*/new.txt")
            assert shown["locations"] == [{"path": str(copy)}]
            (diff,) = editor.call(shown["toolCallId"])["content"]
            assert diff["path"] == str(copy)


async def test_a_question_of_a_resumed_agent_is_put(world: Worlds, program: Program) -> None:
    """An agent that a kill cut off goes on when its session is loaded, and its question is asked."""
    touch = call("Bash", {"command": "touch red"})
    script = Script(
        [forks("PART red"), say("Waiting."), say("All done.")],
        {"PART red": [touch, touch, report("red is made")]},
    )
    async with world(script, opens=False) as w:
        async with open_editor(program, w, replies=lambda *_: None, ends=-9) as editor:
            session = await editor.open(w)
            await editor.ask("session/prompt", sessionId=session, prompt=[said("Split it")])
            await editor.until(lambda: "Waiting." in editor.text() and bool(editor.asked))
            # What was said is heard before it is stored.
            (journal,) = w.store.glob("projects/*/*.jsonl")
            while b"Waiting." not in journal.read_bytes():
                await anyio.sleep(0.02)
            editor.process.kill()
        async with open_editor(program, w) as editor:
            given: dict[str, Any] = {"sessionId": session, "cwd": str(w.root), "mcpServers": []}
            number = await editor.ask("session/load", **given)
            await editor.answer(number)
            await editor.until(lambda: "All done." in editor.text())
            assert (w.root / "red").exists()
            assert len(editor.asked) == 1
            # Nothing live comes before the answer.
            place = next(i for i, one in enumerate(editor.lines) if one.get("id") == number)
            assert not [one for one in editor.lines[:place] if "id" in one and "method" in one]
