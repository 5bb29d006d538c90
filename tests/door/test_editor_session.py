"""The sessions of an editor: listed, loaded, resumed, copied, closed, configured."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from prong.testing import Options, Script, Worlds, call, report, say
from prong.testing.program import Program
from shared.editor import Editor, Failure, begun, gone, open_editor, said

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("X5")]

FREE = ("--permission-mode", "bypassPermissions")
LIST = call("Bash", {"command": "ls"}, "c1")
SERVER = str(Path(__file__).with_name("mcp_echo_server.py"))
ECHO = {"name": "echo", "command": sys.executable, "args": [SERVER], "env": []}
SEVERAL = Options(several=True)


async def test_a_session_is_found_loaded_and_gone_on_with(world: Worlds, program: Program) -> None:
    """Another process lists it by its title, tells all of it, and reads its cache."""
    async with world([LIST, say("Nothing there."), say("Still nothing.")], opens=False) as w:
        async with open_editor(program, w, *FREE) as editor:
            session = await editor.open(w)
            await editor.say(session, "What is there?")
        async with open_editor(program, w, *FREE) as editor:
            listed = await editor.request("session/list", cwd=str(w.root))
            (found,) = listed["sessions"]
            assert found["sessionId"] == session
            assert found["cwd"] == str(w.root)
            assert found["title"] == "What is there?"
            assert (await editor.request("session/list"))["sessions"] == [found]
            elsewhere = await editor.request("session/list", cwd="/")
            assert elsewhere["sessions"] == []
            given = {"sessionId": session, "cwd": str(w.root), "mcpServers": []}
            number = await editor.ask("session/load", **given)
            result = await editor.answer(number)

            assert result["modes"]["currentModeId"] == "bypassPermissions"
            place = next(i for i, one in enumerate(editor.lines) if one.get("id") == number)
            past = [
                one["params"]["update"]
                for one in editor.lines[:place]
                if one.get("method") == "session/update"
            ]
            kinds = [one["sessionUpdate"] for one in past]
            assert kinds == ["user_message_chunk", "tool_call", "agent_message_chunk"]
            assert past[0]["content"]["text"] == "What is there?"
            assert (past[1]["title"], past[1]["status"]) == ("ls", "completed")
            assert past[2]["content"]["text"] == "Nothing there."
            assert (await editor.say(session, "And now?"))["stopReason"] == "end_turn"
            assert w.server.records[-1].usage.read > 0


async def test_a_session_is_resumed_without_a_word(world: Worlds, program: Program) -> None:
    """What was said is not told again, and the conversation goes on."""
    async with (
        world([say("One."), say("Two.")], opens=False) as w,
        open_editor(program, w) as editor,
    ):
        session = await editor.open(w)
        await editor.say(session, "First")
        await editor.request("session/close", sessionId=session)
        with pytest.raises(Failure, match="load it first") as told:
            await editor.say(session, "Anybody?")
        assert told.value.code == -32002
        given = {"sessionId": session, "cwd": str(w.root), "mcpServers": []}
        before = len(editor.lines)
        number = await editor.ask("session/resume", **given)
        await editor.answer(number)
        place = next(i for i, one in enumerate(editor.lines) if one.get("id") == number)
        assert editor.lines[before:place] == []
        await editor.say(session, "Second")
        assert editor.text(session) == "One.Two."
        assert len(w.bodies()[1]["messages"]) == 3


async def test_closing_stops_the_work(world: Worlds, program: Program) -> None:
    """A prompt of a session that is closed is answered as cancelled, and others go on."""
    play = Script(
        [], {"slowly": [call("Bash", {"command": "sleep 600"})], "quickly": [say("Quick.")]}
    )
    async with (
        world(play, opens=False, serving=SEVERAL) as w,
        open_editor(program, w, *FREE) as editor,
    ):
        slow, quick = await editor.open(w), await editor.open(w)
        number = await editor.ask("session/prompt", sessionId=slow, prompt=[said("slowly")])
        await editor.until(lambda: bool(editor.updates("tool_call", slow)))
        await editor.request("session/close", sessionId=slow)
        assert (await editor.answer(number))["stopReason"] == "cancelled"
        assert (await editor.say(quick, "quickly"))["stopReason"] == "end_turn"


@pytest.mark.spec("F22")
async def test_a_fork_has_the_same_bytes(world: Worlds, program: Program) -> None:
    """Source and copy, told the same, send the same bytes; the copy reads what is cached."""
    async with (
        world([LIST, say("One."), say("Two."), say("Two.")], opens=False, serving=SEVERAL) as w,
        open_editor(program, w, *FREE) as editor,
    ):
        source = await editor.open(w)
        await editor.say(source, "First")
        given = {"sessionId": source, "cwd": str(w.root), "mcpServers": []}
        result = await editor.request("session/fork", **given)
        copy = result["sessionId"]
        assert copy != source
        await editor.say(copy, "Second")
        await editor.say(source, "Second")

        first, forked, gone_on = w.server.records[1:]
        assert forked.body == gone_on.body
        assert forked.usage.read >= first.usage.read + first.usage.written
        assert editor.text(copy) == "Two."
        assert editor.text(source) == "One.Two."


async def test_a_stored_session_is_forked(world: Worlds, program: Program) -> None:
    """A session that is not open can be copied too, and stays as it is."""
    async with world([say("One."), say("Two.")], opens=False) as w:
        async with open_editor(program, w) as editor:
            source = await editor.open(w)
            await editor.say(source, "First")
        async with open_editor(program, w) as editor:
            given = {"sessionId": source, "cwd": str(w.root)}
            copy = (await editor.request("session/fork", **given))["sessionId"]
            await editor.say(copy, "Second")
            assert w.server.records[1].usage.read > 0
            assert editor.text() == "Two."
            listed = (await editor.request("session/list"))["sessions"]
            assert {one["sessionId"] for one in listed} == {source, copy}


async def test_a_fork_that_could_not_share(world: Worlds, program: Program, tmp_path: Path) -> None:
    """Another folder or other servers would be another prompt: it is refused, with the reason."""
    async with (
        world([say("One.")], opens=False) as w,
        open_editor(program, w) as editor,
    ):
        source = await editor.open(w)
        await editor.say(source, "First")
        given = {"sessionId": source, "cwd": str(w.root), "mcpServers": []}
        with pytest.raises(Failure, match="belongs to"):
            await editor.request("session/fork", **{**given, "cwd": str(tmp_path)})
        with pytest.raises(Failure, match="could not read what is cached"):
            await editor.request("session/fork", **{**given, "mcpServers": [ECHO]})
        await editor.request("session/close", sessionId=source)
        with pytest.raises(Failure, match="could not read what is cached"):
            await editor.request("session/fork", **{**given, "mcpServers": [ECHO]})
        listed = (await editor.request("session/list"))["sessions"]
        assert [one["sessionId"] for one in listed] == [source]


PATIENT = '{"titles": false, "mcp": {"wait": 60}}'


@pytest.mark.timeout(240)
async def test_servers_of_the_editor(world: Worlds, program: Program) -> None:
    """A session has the tools of the servers it was given, and its fork has them too."""
    pytest.importorskip("mcp")
    script = [call("mcp__echo__say", {"text": "${HOME}"}, "c1"), say("Said."), say("Again.")]
    async with (
        world(script, opens=False, serving=SEVERAL) as w,
        open_editor(program, w, "--settings", PATIENT) as editor,
    ):
        session = await editor.open(w, mcpServers=[ECHO])
        await editor.say(session, "Say it")
        assert "mcp__echo__say" in [one["name"] for one in w.bodies()[0]["tools"]]
        assert "echo: ${HOME}" in str(editor.call("c1")["content"])
        for servers in ({}, {"mcpServers": [ECHO]}):
            given = {"sessionId": session, "cwd": str(w.root), **servers}
            await editor.request("session/fork", **given)
        sse = {"type": "sse", "name": "old", "url": "http://127.0.0.1:9", "headers": []}
        with pytest.raises(Failure, match="'sse'"):
            await editor.open(w, mcpServers=[sse])


async def test_no_key(world: Worlds, program: Program) -> None:
    """Without a key a session needs authentication, and the way there is offered and honest."""
    bare = {"ANTHROPIC_API_KEY": "", "ANTHROPIC_BASE_URL": ""}
    async with world([], opens=False) as w, open_editor(program, w, env=bare) as editor:
        (method,) = editor.lines[0]["result"]["authMethods"]
        with pytest.raises(Failure, match="ANTHROPIC_API_KEY") as told:
            await editor.open(w)
        assert told.value.code == -32000
        with pytest.raises(Failure, match="ANTHROPIC_API_KEY") as told:
            await editor.request("authenticate", methodId=method["id"])
        assert told.value.code == -32000
    async with (
        world([], opens=False, folder=w.folder / "b") as w,
        open_editor(program, w) as editor,
    ):
        assert await editor.request("authenticate", methodId=method["id"]) == {}
        with pytest.raises(Failure, match="no way"):
            await editor.request("authenticate", methodId="magic")


async def test_what_cannot_be_opened(world: Worlds, program: Program) -> None:
    """A folder that is none, a session that is none, and a system prompt are refused by name."""
    async with world([], opens=False) as w, open_editor(program, w) as editor:
        for cwd in ("relative", "/no/such/folder"):
            with pytest.raises(Failure, match="absolute") as told:
                await editor.request("session/new", cwd=cwd, mcpServers=[])
            assert told.value.code == -32602
        for method in ("session/load", "session/resume", "session/fork"):
            given = {"sessionId": "nothing", "cwd": str(w.root), "mcpServers": []}
            with pytest.raises(Failure) as told:
                await editor.request(method, **given)
            assert told.value.code == -32002
        prompt = {"mode": "append", "content": [said("Be brief.")]}
        with pytest.raises(Failure, match="systemPrompt"):
            await editor.open(w, systemPrompt=prompt)
        await editor.until(lambda: True)


async def test_a_session_that_is_open_elsewhere(world: Worlds, program: Program) -> None:
    """A session is open in one process at a time; the other is told so."""
    async with world([say("One.")], opens=False) as w, open_editor(program, w) as editor:
        session = await editor.open(w)
        await editor.say(session, "First")
        async with open_editor(program, w) as other:
            given = {"sessionId": session, "cwd": str(w.root), "mcpServers": []}
            with pytest.raises(Failure, match="open"):
                await other.request("session/load", **given)


async def _chosen(editor: Editor, session: str, option: str, value: str) -> dict[str, str]:
    given = {"sessionId": session, "configId": option, "value": value}
    result = await editor.request("session/set_config_option", **given)
    return {one["id"]: one["currentValue"] for one in result["configOptions"]}


@pytest.mark.moves_prefix("another model reads the conversation anew")
async def test_options(world: Worlds, program: Program) -> None:
    """Mode, model and effort are chosen by the editor; what is unknown is refused."""
    async with (
        world([say("One."), say("Two.")], opens=False) as w,
        open_editor(program, w) as editor,
    ):
        session = await editor.open(w)
        await editor.until(lambda: bool(editor.updates("config_option_update")))
        offered = editor.updates("config_option_update")[-1]["configOptions"][1]["options"]
        assert "claude-haiku-4-5" in {one["value"] for one in offered}
        assert (await _chosen(editor, session, "mode", "acceptEdits"))["mode"] == "acceptEdits"
        assert (await _chosen(editor, session, "mode", "acceptEdits"))["mode"] == "acceptEdits"
        assert (await _chosen(editor, session, "effort", "low"))["effort"] == "low"
        chosen = await _chosen(editor, session, "model", "claude-haiku-4-5")
        assert chosen["model"] == "claude-haiku-4-5"
        assert editor.updates("current_mode_update")[-1]["currentModeId"] == "acceptEdits"
        await editor.say(session, "Hi")
        assert w.bodies()[0]["model"] == "claude-haiku-4-5"
        for option, value in (("mode", "wild"), ("colour", "red"), ("model", "no-such:thing")):
            with pytest.raises(Failure):
                await _chosen(editor, session, option, value)
        with pytest.raises(Failure, match="wild"):
            await editor.request("session/set_mode", sessionId=session, modeId="wild")


async def test_commands(world: Worlds, program: Program) -> None:
    """What begins with a slash is a command if there is one of that name, else a message."""
    skill = "---\nname: tidy\ndescription: tidies up\n---\nTidy up: $ARGUMENTS\n"
    files = {"~/.prong/skills/tidy/SKILL.md": skill}
    async with (
        world([say("Tidied."), say("It is a path.")], files=files, opens=False) as w,
        open_editor(program, w) as editor,
    ):
        session = await editor.open(w)
        assert (await editor.say(session, "/mode"))["stopReason"] == "end_turn"
        assert "default" in editor.text(session)
        assert w.bodies() == []
        await editor.say(session, "/tidy the attic")
        assert "Tidy up: the attic" in str(w.bodies()[0]["messages"])
        await editor.say(session, "/usr/bin/env is what?")
        assert "/usr/bin/env is what?" in str(w.bodies()[1]["messages"][-1])
        await editor.say(session, "/stop")
        assert "say which task" in editor.text(session)
        await editor.say(session, "/mode plan")
        assert editor.updates("current_mode_update")[-1]["currentModeId"] == "plan"


@pytest.mark.parametrize("notices", [True, False])
async def test_what_the_user_should_know(world: Worlds, program: Program, *, notices: bool) -> None:
    """Warnings are notices where the editor shows those, and else messages of their own."""
    can: dict[str, Any] = {"session": {"notices": {}}} if notices else {}
    files = {".mcp.json": '{"mcpServers": {"x": {"command": "true"}}}'}
    async with (
        world([say("One.")], files=files, opens=False) as w,
        open_editor(program, w, can=can) as editor,
    ):
        session = await editor.open(w)
        kind = "notice" if notices else "agent_message_chunk"
        await editor.until(lambda: "not trusted" in str(editor.updates(kind)))
        assert notices == (editor.text(session) == "")


@pytest.mark.parametrize(
    "words",
    [("Do it",), ("-p",), ("--resume", "x"), ("--cwd", "/"), ("--output-format", "json")],
)
async def test_options_that_make_no_sense(
    world: Worlds, program: Program, words: tuple[str, ...]
) -> None:
    """What an editor decides cannot be given on the command line, and that is said."""
    async with world([], opens=False) as w:
        done = await program.run(w, "acp", *words)
        assert done.returncode == 2
        assert b"prong acp takes no" in done.stderr
        assert done.stdout == b""


async def test_a_signal_ends_it_in_order(world: Worlds, program: Program) -> None:
    """Asked to end by the system it closes its sessions; nothing that they started is left."""
    forever = call("Bash", {"command": "echo $$ > begun; sleep 600"})
    async with world([forever], opens=False) as w, open_editor(program, w, *FREE) as editor:
        session = await editor.open(w)
        await editor.ask("session/prompt", sessionId=session, prompt=[said("Work")])
        pid = await begun(w.root / "begun")
        editor.process.send_signal(signal.SIGTERM)
        assert await gone(pid)
        await editor.process.wait()


async def test_a_version_that_is_not_ours(world: Worlds, program: Program) -> None:
    """An editor that asks for another version is told ours; the first request must be that."""
    async with world([], opens=False) as w:
        process = await program.start(w, "acp")
        editor = Editor(process, lambda *_: None)
        async with process, anyio.create_task_group() as group:
            group.start_soon(editor.follow)
            with pytest.raises(Failure, match="must be initialize"):
                await editor.request("session/list")
            with pytest.raises(Failure) as told:
                await editor.request("initialize", protocolVersion="one")
            assert told.value.code == -32602
            begun_with = await editor.request("initialize", protocolVersion=7)
            assert begun_with["protocolVersion"] == 1
            assert process.stdin is not None
            await process.stdin.aclose()


async def test_a_session_gets_a_name(world: Worlds, program: Program) -> None:
    """After its first turn a session is named, beside the conversation, and the editor is told."""
    async with (
        world([say("Hello.")], opens=False) as w,
        open_editor(program, w, "--settings", "{}") as editor,
    ):
        session = await editor.open(w)
        await editor.say(session, "Hi")
        await editor.until(lambda: bool(editor.updates("session_info_update")))
        assert editor.updates("session_info_update")[0]["title"] == "A title"
        assert editor.text(session) == "Hello."


async def test_two_prompts_of_one_session(world: Worlds, program: Program) -> None:
    """What is said while a turn runs joins it; both prompts are answered when it ends."""
    wait = call("Bash", {"command": "echo $$ > begun; while [ ! -e go ]; do sleep 0.05; done"})
    async with (
        world([wait, say("Both heard.")], opens=False) as w,
        open_editor(program, w, *FREE) as editor,
    ):
        session = await editor.open(w)
        first = await editor.ask("session/prompt", sessionId=session, prompt=[said("One")])
        await begun(w.root / "begun")
        second = await editor.ask("session/prompt", sessionId=session, prompt=[said("Two")])
        # The answer to a later request: the prompt before it has been taken in.
        await editor.request("session/list")
        w.write("go", "")
        for number in (first, second):
            assert (await editor.answer(number))["stopReason"] == "end_turn"
        assert "Two" in str(w.bodies()[1]["messages"])


@pytest.mark.moves_prefix("a summary takes the place of the conversation")
@pytest.mark.parametrize("knows", [True, False])
async def test_a_compaction(world: Worlds, program: Program, *, knows: bool) -> None:
    """That the conversation was compacted is told as the editor can show it."""
    can: dict[str, Any] = {"session": {"compaction": {}}} if knows else {}
    async with (
        world([say("One."), say("<summary>It was said.</summary>")], opens=False) as w,
        open_editor(program, w, can=can) as editor,
    ):
        session = await editor.open(w)
        await editor.say(session, "First " * 5_000)
        assert (await editor.say(session, "/compact"))["stopReason"] == "end_turn"
        told = editor.updates("compaction_update")
        assert [one["status"] for one in told] == (["completed"] if knows else [])
        assert ("new prompt, compaction" in editor.text(session)) != knows


async def test_a_fork_by_hand(world: Worlds, program: Program) -> None:
    """/fork splits the conversation; its prompt ends with the fork, whose receipt is told."""
    heard = {"Background work has ended": [say("Heard of it.")]}
    play = Script([say("One.")], {**heard, "PART": [report("it is done")]})
    async with world(play, opens=False) as w, open_editor(program, w, *FREE) as editor:
        session = await editor.open(w)
        await editor.say(session, "First")
        assert (await editor.say(session, "/fork PART of it"))["stopReason"] == "end_turn"
        assert "Heard of it." in editor.text(session)
        assert "fork-1 completed: " in editor.text(session)
        assert "tokens cached" in editor.text(session)


@pytest.mark.moves_prefix("another model reads the conversation anew")
@pytest.mark.parametrize("agrees", [True, False])
async def test_a_choice_that_costs(world: Worlds, program: Program, *, agrees: bool) -> None:
    """Another model gives up what is cached: above a bound of the user's it is asked for first."""
    option = "once" if agrees else "no"
    cheap = ("--settings", '{"titles": false, "confirmAboveUsd": 0}')
    async with (
        world([say("One."), say("Two.")], opens=False) as w,
        open_editor(
            program,
            w,
            *cheap,
            replies=lambda *_: {"outcome": {"outcome": "selected", "optionId": option}},
        ) as editor,
    ):
        session = await editor.open(w)
        await editor.say(session, "First")
        if agrees:
            chosen = await _chosen(editor, session, "model", "claude-haiku-4-5")
            assert chosen["model"] == "claude-haiku-4-5"
        else:
            with pytest.raises(Failure, match="left as it was"):
                await _chosen(editor, session, "model", "claude-haiku-4-5")
        ((_, asked),) = editor.asked
        assert "go on?" in asked["toolCall"]["title"]
        status = editor.call(asked["toolCall"]["toolCallId"])["status"]
        assert status == ("completed" if agrees else "failed")


async def test_a_loaded_session_has_its_own_model(world: Worlds, program: Program) -> None:
    """--model is for new sessions; one that is loaded goes on as it was, and reads its cache."""
    async with world([say("One."), say("Two.")], opens=False) as w:
        async with open_editor(program, w) as editor:
            session = await editor.open(w)
            await editor.say(session, "First")
        async with open_editor(program, w, "--model", "claude-haiku-4-5") as editor:
            given = {"sessionId": session, "cwd": str(w.root), "mcpServers": []}
            await editor.request("session/load", **given)
            await editor.say(session, "Second")
        assert w.bodies()[0]["model"] == w.bodies()[1]["model"]
        assert w.server.records[1].usage.read > 0


async def test_a_session_that_is_open_is_loaded_again(world: Worlds, program: Program) -> None:
    """An editor that loads what it has open is told all of it, and what is not as it asks."""
    async with (
        world([say("One."), say("Two.")], opens=False) as w,
        open_editor(program, w) as editor,
    ):
        session = await editor.open(w)
        await editor.say(session, "First")
        given = {"sessionId": session, "cwd": str(w.root), "mcpServers": []}
        await editor.request("session/load", **given)
        assert editor.text(session) == "One.One."
        await editor.request("session/load", **{**given, "mcpServers": [ECHO]})
        assert "goes on with the folders and servers it has" in editor.text(session)
        await editor.say(session, "Second")
        assert editor.text(session).endswith("Two.")


async def test_more_folders(world: Worlds, program: Program, tmp_path: Path) -> None:
    """Folders that the editor adds can be worked in; one that is none is refused."""
    more = tmp_path / "more"
    more.mkdir()
    (more / "x.txt").write_text("hidden treasure\n")
    read = call("Read", {"file_path": str(more / "x.txt")}, "c1")
    async with world([read, say("Read.")], opens=False) as w, open_editor(program, w) as editor:
        session = await editor.open(w, additionalDirectories=[str(more)])
        await editor.say(session, "Read it")
        assert editor.asked == []
        assert "hidden treasure" in str(editor.call("c1")["content"])
        with pytest.raises(Failure, match="absolute"):
            await editor.open(w, additionalDirectories=["more"])


METHODS = (
    "authenticate",
    "session/new",
    "session/load",
    "session/resume",
    "session/fork",
    "session/list",
    "session/close",
    "session/prompt",
    "session/set_mode",
    "session/set_config_option",
    "session/delete",
)


async def test_whatever_is_asked_is_answered(world: Worlds, program: Program) -> None:
    """No parameters of any method end the program: each request has one answer."""
    async with world([say("Still here.")], opens=False) as w, open_editor(program, w) as editor:
        session = await editor.open(w)
        odd: list[Any] = [
            None,
            [],
            "text",
            {},
            {"sessionId": 5, "cwd": 5, "mcpServers": 5, "prompt": 5, "cursor": 5, "methodId": 5},
            {"sessionId": "x", "cwd": "/", "mcpServers": [], "prompt": [], "cursor": "x"},
            {"sessionId": f"{session}:main/none", "cwd": "/", "mcpServers": [], "prompt": []},
            {"sessionId": session, "prompt": [], "modeId": "", "configId": "", "value": True},
            {"sessionId": session, "prompt": [{"type": "resource"}], "cwd": "\0", "mcpServers": []},
            {"sessionId": "../../etc", "cwd": str(w.root), "mcpServers": [{"name": "x"}]},
        ]
        number = 1_000
        for method in METHODS:
            for params in odd:
                if method == "session/close" and f"'{session}'" in str(params):
                    continue
                number += 1
                line = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
                await editor.write(json.dumps(line).encode() + b"\n")
        await editor.until(lambda: editor._answers.keys() >= {*range(1_001, number + 1)})
        failures = [one for one in editor.lines if "failure inside Prong" in str(one)]
        assert failures == []
        editor.check.problems.clear()  # What was asked is in no schema.
        assert (await editor.say(session, "Anybody?"))["stopReason"] == "end_turn"


async def test_leave_for_good_is_stored(world: Worlds, program: Program) -> None:
    """A yes for good names the rule and the file that keeps it, and another session knows it."""
    touch = call("Bash", {"command": "touch made"}, "c1")
    option = {"outcome": {"outcome": "selected", "optionId": "project"}}
    async with world([touch, say("Made."), touch, say("Made.")], opens=False, serving=SEVERAL) as w:
        async with open_editor(program, w, replies=lambda *_: option) as editor:
            await editor.say(await editor.open(w), "Make it")
            ((_, asked),) = editor.asked
            (lasting,) = [one for one in asked["options"] if one["optionId"] == "project"]
            assert "Bash(touch" in lasting["name"]
            assert "settings" in lasting["name"]
        async with open_editor(program, w) as editor:
            await editor.say(await editor.open(w), "Make it")
            assert editor.asked == []
