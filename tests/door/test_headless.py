"""The real program without a terminal: what it prints and how it exits."""

from __future__ import annotations

import base64
import json
import os
import signal
from typing import Any

import anyio
import pytest
from anyio.abc import Process

from prong.command import UseSkill
from prong.errors import UsageError
from prong.face import headless
from prong.testing import (
    Options,
    Script,
    Step,
    World,
    Worlds,
    call,
    fail,
    forks,
    refuse,
    report,
    say,
    stall,
    truncate,
)
from prong.testing.repository import Repo
from shared.picture import PNG
from shared.running import runs

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("L12")]

DOT = base64.b64encode(PNG).decode()

LIST = call("Bash", {"command": "ls"})
FOREVER = call("Bash", {"command": "echo begun > begun; sleep 600"})


async def test_text(world: Worlds, program: Any) -> None:
    """The answer stands alone on standard output."""
    async with world([LIST, say("There is nothing.")], opens=False) as w:
        done = await program.run(w, "-p", "What is there?")
        assert (done.returncode, done.stdout, done.stderr) == (0, b"There is nothing.\n", b"")


@pytest.mark.spec("W4")
@pytest.mark.parametrize("output", ["text", "json"])
async def test_work_that_was_left_is_told(world: Worlds, program: Any, output: str) -> None:
    """Where a child's work is stands on standard error, and in the object that json prints."""
    made = call("Write", {"file_path": "new.txt", "content": "new\n"})
    agent = {"description": "make it", "prompt": "BRIEF", "name": "maker", "isolation": "worktree"}
    play = Script(
        [call("Agent", agent), say("Started."), say("Made.")], {"BRIEF": [made, report()]}
    )
    free = ("--permission-mode", "bypassPermissions")
    async with world(play, opens=False) as w:
        Repo(w.root).git("init", "-q")
        path = w.root / ".prong/worktrees/maker"
        done = await program.run(w, "-p", "Go", "--output-format", output, *free)
        assert done.returncode == 0
        if output == "text":
            told = f"work kept on prong/maker (0 commits, 1 file, not all committed) in {path}"
            assert told in done.stderr.decode()
        else:
            (kept,) = json.loads(done.stdout)["worktrees"]
            assert (kept["path"], kept["branch"]) == (str(path), "prong/maker")
            assert (kept["files"], kept["uncommitted"]) == (["new.txt"], True)


@pytest.mark.spec("R3")
async def test_a_fork_that_could_not_begin_is_told(world: Worlds, program: Any) -> None:
    """Why it failed stands on standard error: the model may say nothing of it."""
    play = Script([forks("Part 1.", isolation="remote")], forever=say("Fine."))
    near = '{"remote": {"targets": {"near": {"launcher": "process"}}}}'
    async with world(play, opens=False) as w:
        free = ("--permission-mode", "bypassPermissions")
        done = await program.run(w, "-p", "Go", "--settings", near, *free)
        told = done.stderr.decode()
        assert told.startswith("prong: [main/fork-1] failed: ")
        assert "git" in told
        assert (done.returncode, done.stdout) == (0, b"Fine.\n")


async def test_a_folder_whose_name_is_no_text(world: Worlds, program: Any) -> None:
    """Events that name it are still events."""
    async with world([say("Fine.")], opens=False) as w:
        folder = w.root / os.fsdecode(b"\xff")
        folder.mkdir()
        words = ("-p", "Hi", "--output-format", "stream-json", "-C", str(folder))
        done = await program.run(w, *words)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout.splitlines()[-1])["text"] == "Fine."


async def test_the_prompt_on_standard_input(world: Worlds, program: Any) -> None:
    """What is piped in follows the argument."""
    async with world([say("Fine.")], opens=False) as w:
        done = await program.run(w, "-p", "Explain:", stdin="x = ½\n".encode())
        assert done.returncode == 0
        assert w.server.records[0].request.last_text == "Explain:\n\nx = ½\n"


async def test_json(world: Worlds, program: Any) -> None:
    """One object says everything about the run."""
    async with world([LIST, say("Nothing.")], opens=False) as w:
        done = await program.run(w, "-p", "What?", "--output-format", "json")
        result = json.loads(done.stdout)
        assert result["type"] == "result"
        assert (result["text"], result["why"], result["turns"]) == ("Nothing.", "done", 2)
        assert result["usage"]["output"] == sum(r.usage.output for r in w.server.records)
        assert result["cost"] > 0
        again = await program.run(w, "verify", result["session_id"])
        assert again.returncode == 0


def lines(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.splitlines()]


async def test_stream_json(world: Worlds, program: Any) -> None:
    """Every event is a line with its agent's path; the result comes last."""
    async with world([LIST, say("Nothing.")], opens=False) as w:
        w.write("~/.prong/settings.json", '{"model": 7}')
        done = await program.run(w, "-p", "What?", "--output-format", "stream-json")
        *events, result = lines(done.stdout)
        assert result["type"] == "result"
        assert {event["agent"] for event in events} == {"main"}
        kinds = [event["event"]["type"] for event in events]
        assert kinds[:4] == ["session_started", "agent_started", "warned", "turn_started"]
        assert kinds[-3:] == ["turn_finished", "agent_finished", "session_finished"]
        assert {"request_sent", "tool_started", "tool_finished", "text_delta"} <= set(kinds)
        numbers = [event["seq"] for event in events if event["seq"]]
        assert numbers == list(range(1, len(numbers) + 1))
        times = [event["at"] for event in events]
        assert times == sorted(times)


async def test_stream_json_input(world: Worlds, program: Any) -> None:
    """Messages come as lines, in two forms; what is no command is named and skipped."""
    given = [
        b'{"type": "say", "text": "One"}',
        b"nonsense",
        b'{"type": "user", "message": {"role": "user", "content": "Two"}}',
        b'{"type": "user", "message": {"content": [{"type": "text", "text": "Three"}]}}',
    ]
    async with world(Script(forever=say("Yes.")), opens=False) as w:
        done = await program.run(
            w, "-p", "--input-format", "stream-json", "--output-format", "json",
            stdin=b"\n".join(given),
        )  # fmt: skip
        assert done.returncode == 0
        assert b"nonsense" in done.stderr
        last = w.server.records[-1].body.partition(b'"messages"')[2]
        assert last.index(b"One") < last.index(b"Two") < last.index(b"Three")


async def test_input_of_which_nothing_is_taken_is_no_success(world: Worlds, program: Any) -> None:
    """A prompt in the place of lines is not lost in silence; a mark of the encoding is no fault."""
    words = ("-p", "--input-format", "stream-json", "--output-format", "json")
    async with world([say("Yes.")], opens=False) as w:
        done = await program.run(w, *words, stdin=b"Fix the build\n")
        told = json.loads(done.stdout)
        assert (done.returncode, told["is_error"], w.server.records) == (1, True, [])
        assert told["errors"][0].startswith("nothing of the input was taken: input line 'Fix the")
        line = b'\xef\xbb\xbf{"type": "say", "text": "One"}\r\n'
        done = await program.run(w, *words, stdin=line)
        assert (done.returncode, json.loads(done.stdout)["result"]) == (0, "Yes.")


async def test_a_command_of_the_terminal_is_not_sent(world: Worlds) -> None:
    """Nor what is nearly one, or nearly a skill; paths and comments are prompts."""
    skill = {".prong/skills/review/SKILL.md": "---\ndescription: d\n---\nReview.\n"}
    async with world([], files=skill) as w:
        for text, said in (
            ("/compact", "'/compact' is a command of the terminal"),
            ("/compcat now", "did you mean '/compact'"),
            ("/reviw src", "did you mean '/review'"),
        ):
            with pytest.raises(UsageError, match=said):
                headless._skill(w.session, text)
        assert headless._skill(w.session, "/review src") == UseSkill("review", "src")
        for text in ("/tmp is full", "/etc/hosts", "/* c */ x;", "// x", "/", "/ cost", " /cost"):
            assert headless._skill(w.session, text) == text


async def test_an_answer_on_standard_input(world: Worlds, program: Any) -> None:
    """A program that reads events and writes commands is asked for permission."""
    script = [call("Bash", {"command": "touch made"}), say("Done.")]
    async with world(script, opens=False) as w:
        process: Process = await program.start(
            w, "--input-format", "stream-json", "--output-format", "stream-json"
        )
        async with process:
            assert process.stdin is not None
            assert process.stdout is not None
            await process.stdin.send(b'{"type": "say", "text": "Go"}\n')
            seen = b""
            while b'"request_id":"ask-1"' not in seen:
                seen += await process.stdout.receive()
            await process.stdin.send(b'{"type": "answer", "request_id": "ask-1"}\n')
            while b'"turn_finished"' not in seen:
                seen += await process.stdout.receive()
            await process.stdin.aclose()
            async for _ in process.stdout:
                pass
            assert await process.wait() == 0
        assert (w.root / "made").exists()


@pytest.mark.spec("X1")
async def test_commands_on_standard_input(world: Worlds, program: Any) -> None:
    """Every command can come as a line; what it gives back is a line, and pictures are taken."""
    picture = {"type": "image", "source": {"media_type": "image/png", "data": DOT}}
    content = [{"type": "text", "text": "Look"}, picture]
    given = [
        {"type": "user", "message": {"content": content}},
        {"type": "rename", "title": "mine"},
        {"type": "stop", "task_id": "nothing"},
        {"type": "set_mode", "mode": "acceptEdits"},
    ]
    async with world(Script(forever=say("Yes.")), opens=False) as w:
        done = await program.run(
            w, "--input-format", "stream-json", "--output-format", "stream-json",
            stdin=b"\n".join(json.dumps(one).encode() for one in given),
        )  # fmt: skip
        assert done.returncode == 0
        assert b'{"type":"accepted","text":"mine","ids":[]}\n' in done.stdout
        assert done.stdout.count(b'"type":"accepted"') == 1
        assert b"There is no task 'nothing'" in done.stderr
        assert b'"type":"warned","text":"input line' in done.stdout
        [message] = w.bodies()[0]["messages"]
        assert [block["type"] for block in message["content"]] == ["text", "image"]


SCHEMA = '{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}'


async def test_a_json_schema(world: Worlds, program: Any) -> None:
    """The answer is an object of the schema; a wrong one and a forgotten one are sent back."""
    script = [
        say("Forty-two."),
        call("StructuredOutput", {"n": "many"}),
        call("StructuredOutput", {"n": 42}),
        say(""),
    ]
    async with world(script, opens=False) as w:
        done = await program.run(w, "-p", "How many?", "--json-schema", SCHEMA)
        assert (done.returncode, json.loads(done.stdout)) == (0, {"n": 42})
        w.server.push(call("StructuredOutput", {"n": 1}), say("Done."))
        w.server.moves_prefix = "a second session"
        done = await program.run(
            w, "-p", "And?", "--json-schema", SCHEMA, "--output-format", "json"
        )
        assert json.loads(done.stdout)["structured"] == {"n": 1}


EXITS: list[tuple[Any, list[str], int, bytes]] = [
    ([fail(400, "invalid_request_error", "strange")], [], 1, b"strange"),
    ([], ["--permission-mode", "yolo"], 2, b"invalid choice"),
    ([], ["--model", "mystery"], 2, b"does not say where the model is"),
    ([], ["--allowed-tools", "Bash("], 2, b"wrong"),
    ([], ["--resume", "nothing"], 1, b"nothing"),
    ([], ["--resume"], 2, b"'prong sessions' lists them"),
    ([], ["-C", "/nowhere/at/all"], 2, b"not a folder"),
    ([], ["--header", "nonsense"], 2, b"Name: value"),
    ([], ["--json-schema", '{"type": "array"}'], 2, b"must describe an object"),
    ([], ["--json-schema", "no-such-file.json"], 2, b"no-such-file.json"),
    ([], ["--plain"], 2, b"give one of them"),
    ([], ["--input-format", "stream-json"], 2, b"standard input"),
    ([], ["--fork-session"], 2, b"--continue"),
    (Script(forever=LIST), ["--max-turns", "2"], 3, b"limit of 2 turns"),
    (Script(forever=LIST), ["--max-budget-usd", "0.01"], 4, b"budget"),
    ([refuse("No.")], [], 5, b"refused"),
    ([truncate("Too")], [], 6, b"output limit"),
]


@pytest.mark.parametrize(("script", "words", "code", "told"), EXITS)
async def test_exit_codes(
    world: Worlds, program: Any, script: Any, words: list[str], code: int, told: bytes
) -> None:
    """Each way to end has its own exit code and says why on standard error."""
    async with world(script, opens=False) as w:
        done = await program.run(w, "-p", "Go", *words)
        assert done.returncode == code, done.stderr
        assert told in done.stderr
        assert b"Traceback" not in done.stderr


async def test_flags_reach_the_request(world: Worlds, program: Any) -> None:
    """Allowed tools run unasked, a text is appended to the system prompt, the tools are chosen."""
    script = [call("Bash", {"command": "touch made"}), say("Done.")]
    async with world(script, opens=False) as w:
        done = await program.run(
            w, "-p", "--append-system-prompt", "Speak like a sailor.", "--tools", "Bash,Read",
            "--header", "x-team: blue", "Go", "--allowed-tools", "Bash(touch:*) Read",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert (w.root / "made").exists()
        body = w.bodies()[0]
        assert "Speak like a sailor." in json.dumps(body["system"])
        assert [tool["name"] for tool in body["tools"]] == ["Read", "Bash"]
        assert w.server.records[0].headers["x-team"] == "blue"
        assert w.server.records[0].headers["x-api-key"] == "a key"


async def test_a_wrong_key(world: Worlds, program: Any) -> None:
    """A refused key is named by where it came from."""
    async with world([], opens=False, serving=Options(key="right")) as w:
        done = await program.run(w, "-p", "Hi")
        assert done.returncode == 1
        assert b"ANTHROPIC_API_KEY" in done.stderr


async def test_no_key_and_no_model(world: Worlds, program: Any) -> None:
    """Without a key or a model it says what to set."""
    async with world([], opens=False) as w:
        done = await program.run(w, "-p", "Hi", ANTHROPIC_API_KEY="", ANTHROPIC_BASE_URL="")
        assert done.returncode == 2
        assert b"--model" in done.stderr


async def test_an_unreachable_server(world: Worlds, program: Any) -> None:
    """After the retries the address is named; a signal ends the wait at once."""
    async with world([], opens=False) as w:
        process: Process = await program.start(
            w, "-p", "Hi", "--base-url", "http://127.0.0.1:9", "--output-format", "stream-json"
        )
        async with process:
            assert process.stdin is not None
            assert process.stdout is not None
            await process.stdin.aclose()
            seen = b""
            while b"reply_discarded" not in seen or not seen.endswith(b"\n"):
                seen += await process.stdout.receive()
            assert b"127.0.0.1:9" in seen
            process.send_signal(signal.SIGINT)
            async for _ in process.stdout:
                pass
            assert await process.wait() == 130


async def test_an_unknown_model(world: Worlds, program: Any) -> None:
    """The model's name stands in the error."""
    async with world([], opens=False, serving=Options(models=("claude-sonnet-5-5",))) as w:
        done = await program.run(w, "-p", "Hi", "--model", "claude-typo")
        assert done.returncode == 1
        assert b"claude-typo" in done.stderr


async def test_wrong_settings_are_named(world: Worlds, program: Any) -> None:
    """The file and the line are named, and the work is done all the same."""
    async with world([say("Hi.")], opens=False) as w:
        w.write("~/.prong/settings.json", '{\n  "model": 7\n}')
        done = await program.run(w, "-p", "Hi")
        assert (done.returncode, done.stdout) == (0, b"Hi.\n")
        assert b"settings.json:2" in done.stderr


@pytest.mark.spec("L1")
@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("step", [stall(600, then=say("Long. " * 50)), FOREVER])
async def test_a_signal(world: Worlds, program: Any, which: signal.Signals, step: Step) -> None:
    """SIGINT and SIGTERM store what there is and exit with 130; the session can go on."""
    async with world([step, say("Better.")], opens=False) as w:
        process: Process = await program.start(
            w, "-p", "Go", "--permission-mode", "bypassPermissions"
        )
        async with process:
            assert process.stdin is not None
            await process.stdin.aclose()
            while not (_stalled(w) if step.stall else (w.root / "begun").exists()):
                await anyio.sleep(0.02)
            process.send_signal(which)
            assert await process.wait() == 130
        done = await program.run(w, "-p", "Again", "--continue")
        assert done.stdout == b"Better.\n", done.stderr
        assert "interrupted" in w.server.records[1].body.decode()


def stored(w: World, text: bytes) -> bool:
    """Whether a text stands in the session's journal: what was only sent can be lost by a kill."""
    return any(text in path.read_bytes() for path in (w.store / "projects").glob("*/*.jsonl"))


def _stalled(w: World) -> bool:
    records = w.server.records
    return bool(records) and records[0].status == 200 and records[0].outcome == "open"


@pytest.mark.spec("T8")
async def test_a_signal_while_a_task_runs(world: Worlds, program: Any) -> None:
    """A run that only waits for its tasks ends by a signal too, and takes them with it."""
    command = "echo $$ > pid; exec sleep 600"
    script = [call("Bash", {"command": command, "run_in_background": True}), say("Started.")]
    async with world(script, opens=False) as w:
        process: Process = await program.start(
            w, "-p", "Go", "--permission-mode", "bypassPermissions"
        )
        async with process:
            assert process.stdin is not None
            await process.stdin.aclose()
            pid = w.root / "pid"
            while not stored(w, b"Started.") or not pid.exists() or not pid.read_text():
                await anyio.sleep(0.02)
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 130
        with anyio.fail_after(50):
            while runs(int(pid.read_text())):
                await anyio.sleep(0.02)


async def test_standard_input_held_open(world: Worlds, program: Any) -> None:
    """A reader that waits for more commands does not hold up the end."""
    async with world([stall(600)], opens=False) as w:
        process: Process = await program.start(w, "--input-format", "stream-json")
        async with process:
            assert process.stdin is not None
            await process.stdin.send(b'{"type": "say", "text": "Go"}\n')
            while not w.server.records:
                await anyio.sleep(0.02)
            process.send_signal(signal.SIGINT)
            assert await process.wait() == 130


async def test_a_reader_that_goes_away(world: Worlds, program: Any) -> None:
    """When nobody reads the output any more, the program ends quietly."""
    async with world(Script(forever=LIST), opens=False) as w:
        reads, writes = os.pipe()
        words = ("-p", "Go", "--output-format", "stream-json", "--max-turns", "50")
        process: Process = await program.start(w, *words, stdout=writes)
        os.close(writes)
        os.close(reads)
        async with process:
            assert process.stdin is not None
            assert process.stderr is not None
            await process.stdin.aclose()
            errors = b"".join([piece async for piece in process.stderr])
            assert await process.wait() == 141
            assert b"Traceback" not in errors


async def test_flags_that_need_headless(world: Worlds, program: Any) -> None:
    """Flags that a terminal would ignore are refused."""
    async with world([], opens=False) as w:
        for flag, value in (("--output-format", "json"), ("--json-schema", SCHEMA)):
            done = await program.run(w, flag, value)
            assert done.returncode == 2
            assert b"add -p" in done.stderr


async def test_lines_through_a_pipe(world: Worlds, program: Any) -> None:
    """Without -p, lines from a pipe are said one after another, and the end of them leaves."""
    async with world([say("One."), say("Two.")], opens=False) as w:
        done = await program.run(w, stdin=b"First\nSecond\n")
        assert done.returncode == 0
        assert done.stdout.index(b"One.") < done.stdout.index(b"Two.")


async def test_refused_calls_are_told(world: Worlds, program: Any) -> None:
    """A call that nobody could allow leaves a line on standard error, and stands in the result."""
    touch = call("Bash", {"command": "touch made"})
    async with world([touch, say("I may not."), touch, say("No.")], opens=False) as w:
        w.server.moves_prefix = "two sessions"
        done = await program.run(w, "-p", "Go")
        assert done.stdout == b"I may not.\n"
        assert b"prong: not allowed: touch made: Bash needs permission" in done.stderr
        done = await program.run(w, "-p", "Go", "--output-format", "json")
        (denial,) = json.loads(done.stdout)["denials"]
        assert denial["tool"] == "Bash"
        assert "needs permission" in denial["why"]


@pytest.mark.moves_prefix("compaction starts a new prompt")
async def test_a_summary_is_told(world: Worlds, program: Any) -> None:
    """That a summary takes the place of the conversation leaves a line on standard error; a long
    first message in a repository is asked as it is.
    """
    long = "All work and no play makes a dull story. " * 1000
    script = [say("Fine."), say("THE SUMMARY"), say("On.")]
    async with world(script, opens=False) as w:
        Repo(w.root).git("init", "-q")
        few = ("-p", "--context-tokens", "16000")
        done = await program.run(w, *few, stdin=long.encode())
        assert (done.stdout, done.stderr) == (b"Fine.\n", b"")
        done = await program.run(w, *few, "-c", "And now?")
        assert done.stdout == b"On.\n"
        assert b"prong: a summary takes the place of the conversation: the convers" in done.stderr


async def test_retries_are_told(world: Worlds, program: Any) -> None:
    """Whoever waits for an answer sees on standard error why it takes so long."""
    busy = fail(529, "overloaded_error", "too much to do", retry_after=0.1)
    async with world([busy, say("Here.")], opens=False) as w:
        done = await program.run(w, "-p", "Go")
        assert (done.returncode, done.stdout) == (0, b"Here.\n")
        assert b"too much to do" in done.stderr
        assert b"; again at once" in done.stderr


async def test_lines_that_are_no_commands(world: Worlds, program: Any) -> None:
    """A bad line is told as an event and on standard error, and the next one is worked on."""
    async with world([say("Fine.")], opens=False) as w:
        streams = ("--input-format", "stream-json", "--output-format", "stream-json")
        stdin = '{"type":"ünknown"}\n{"type":"say","text":"Hello"}\n'.encode()
        done = await program.run(w, *streams, stdin=stdin)
        events = [line["event"] for line in lines(done.stdout)[:-1]]
        (warned,) = [event["text"] for event in events if event["type"] == "warned"]
        assert "ünknown" in warned
        assert "b'" not in warned
        assert "ünknown" in done.stderr.decode()
        (began,) = [event["text"] for event in events if event["type"] == "turn_started"]
        assert began == "Hello"


async def test_a_skill_by_name(world: Worlds, program: Any) -> None:
    """A prompt that names a skill starts it; any other that begins with a slash stays as it is."""
    async with world([say("Looked."), say("Seen.")], opens=False) as w:
        w.write(".prong/skills/review/SKILL.md", "---\ndescription: r\n---\nReview $ARGUMENTS now")
        w.server.moves_prefix = "two sessions"
        await program.run(w, "-p", "/review a.py")
        assert "Review a.py now" in w.server.records[0].request.last_text
        await program.run(w, "-p", "/etc/hosts is what?")
        assert w.server.records[1].request.last_text == "/etc/hosts is what?"


async def test_no_answer_of_the_schema_is_a_failure(world: Worlds, program: Any) -> None:
    """A run that never gave the object ends with 1 and says why."""
    async with world([say("No.")] * 4, opens=False) as w:
        schema = '{"type": "object", "required": ["n"]}'
        done = await program.run(w, "-p", "?", "--json-schema", schema, "--output-format", "json")
        result = json.loads(done.stdout)
        assert (done.returncode, result["why"]) == (1, "error")
        assert "structured" not in result
        assert "JSON schema" in result["detail"]


async def test_a_refusal_is_said_once(world: Worlds, program: Any) -> None:
    """The reason of a refusal does not repeat that it is one."""
    async with world([refuse()], opens=False) as w:
        done = await program.run(w, "-p", "Go")
        assert done.returncode == 5
        assert b"prong: refused: " in done.stderr
        assert b"refusal" not in done.stderr


@pytest.mark.spec("T4", "L8")
async def test_a_killed_session_finishes_without_a_new_prompt(world: Worlds, program: Any) -> None:
    """`-p --resume` alone lets children go on and takes their reports; then nothing is left."""
    wait = call("Bash", {"command": "touch begun; until [ -e go ]; do sleep 0.02; done"})
    agent = {"description": "wait", "prompt": "BRIEF", "subagent_type": "worker", "name": "bob"}
    play = Script(
        [call("Agent", agent), say("Started."), say("Bob is done.")],
        {"BRIEF": [wait, say("Ready.")]},
    )
    free = ("--permission-mode", "bypassPermissions", "--allowed-tools", "Bash")
    async with world(play, opens=False) as w:
        process = await program.start(w, "-p", "Go", "--session-id", "it", *free)
        await process.stdin.aclose()
        while not stored(w, b"Started.") or not (w.root / "begun").exists():
            await anyio.sleep(0.02)
        process.kill()
        await process.aclose()
        (w.root / "go").touch()
        done = await program.run(w, "-p", "--resume", "it", *free)
        assert (done.returncode, done.stdout) == (0, b"Bob is done.\n"), done.stderr
        assert "<tool-uses>1</tool-uses>" in w.server.records[-1].request.last_text
        again = await program.run(w, "-p", "--resume", "it", *free)
        assert (again.returncode, again.stdout) == (2, b"")
        assert b"nothing in this session waits to go on" in again.stderr
