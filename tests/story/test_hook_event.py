"""What hooks are told of a session, in the form that scripts for other programs read."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from prong.command import Accepted, Clear, Compact, Interrupt, Refused, SetModel
from prong.event import PromptMoved, ToolFinished
from prong.session.notification import notify
from prong.testing import Request, Script, Step, Worlds, call, calls, delay, inside, report, say

pytestmark = [pytest.mark.anyio, pytest.mark.spec("L11")]

KEEP = 'line=$(cat); printf "%s\\n" "$line" >> told.jsonl'


LONG = say("One. " * 2_000)


def watching(*events: str, **more: Any) -> dict[str, str]:
    """Make settings whose hooks write down what they are told of these events."""
    entry = {"type": "command", "command": KEEP, **more}
    made = {"hooks": {event: [{"hooks": [entry]}] for event in events}}
    return {"~/.claude/settings.json": json.dumps(made)}


def hooked(event: str, command: str, *, matcher: str = "", **more: Any) -> dict[str, str]:
    """Make settings with one hook."""
    group = {"matcher": matcher, "hooks": [{"type": "command", "command": command, **more}]}
    return {"~/.claude/settings.json": json.dumps({"hooks": {event: [group]}})}


def printing(value: Any) -> str:
    return f"cat <<'END'\n{json.dumps(value)}\nEND"


def told(root: Path, event: str = "") -> list[dict[str, Any]]:
    """Read what hooks were told."""
    path = root / "told.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [one for one in map(json.loads, lines) if event in ("", one["hook_event_name"])]


async def test_calls_are_told_of_with_all_that_scripts_read(world: Worlds) -> None:
    """Input, ids, mode, time and result of a call are told in the form of its tool."""
    files = {**watching("PreToolUse", "PostToolUse", "UserPromptSubmit"), "a.txt": "one\ntwo\n"}
    steps = [
        calls(("Read", {"file_path": "a.txt"}), ("Bash", {"command": "echo hi"})),
        say("Done."),
    ]
    async with world(steps, files=files, mode="acceptEdits", allow=("Bash",)) as w:
        await w.session.run("Go")
        said = told(w.root)
        before, after = told(w.root, "PreToolUse"), told(w.root, "PostToolUse")
    assert {one["prompt_id"] for one in said} == {said[0]["prompt_id"]} != {""}
    assert {one["permission_mode"] for one in said} == {"acceptEdits"}
    assert {one["tool_use_id"] for one in before} == {one["tool_use_id"] for one in after}
    by_tool = {one["tool_name"]: one for one in after}
    assert by_tool["Read"]["tool_input"] == {"file_path": str(w.root / "a.txt")}
    assert by_tool["Read"]["tool_response"]["file"]["content"] == "one\ntwo"
    assert by_tool["Bash"]["tool_response"]["stdout"] == "hi"
    assert by_tool["Bash"]["tool_text"] == "hi"
    assert isinstance(by_tool["Bash"]["duration_ms"], int)
    assert "agent_id" not in by_tool["Bash"]


async def test_a_call_that_fails_is_an_event_of_its_own(world: Worlds) -> None:
    """A failure is told as such and not as a success; what a hook adds reaches the model."""
    context = printing({"hookSpecificOutput": {"additionalContext": "TRY make"}})
    both = json.loads(watching("PostToolUse", "PostToolUseFailure")["~/.claude/settings.json"])
    both["hooks"]["PostToolUseFailure"][0]["hooks"].append({"type": "command", "command": context})
    files = {"~/.claude/settings.json": json.dumps(both)}
    steps = [call("Bash", {"command": "echo out; exit 3"}), say("I see.")]
    async with world(steps, files=files, allow=("Bash",)) as w:
        await w.session.run("Go")
        assert [one["hook_event_name"] for one in told(w.root)] == ["PostToolUseFailure"]
        assert "out" in told(w.root)[0]["error"]
        assert told(w.root)[0]["is_interrupt"] is False
        assert "TRY make" in w.server.records[1].request.last_text


@pytest.mark.spec("L1")
async def test_a_call_that_is_interrupted_is_told_and_waits_for_nobody(
    world: Worlds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupt is told as a failure of its kind; a hook that takes long does not hold it up."""
    # What hooks read is written before they are told, however slow the disk is.
    monkeypatch.setattr("prong.agent.dispatch._PARTING", 60.0)
    files = watching("PostToolUseFailure", "PostToolUse")
    both = json.loads(files["~/.claude/settings.json"])
    slow = {"type": "command", "command": "until [ -e over ]; do sleep 0.02; done"}
    both["hooks"]["PostToolUseFailure"][0]["hooks"].append(slow)
    files = {"~/.claude/settings.json": json.dumps(both)}
    steps = [call("Bash", {"command": "touch begun; sleep 600"}), say("Better.")]
    async with world(steps, files=files, allow=("Bash",)) as w:
        async with anyio.create_task_group() as group:
            group.start_soon(w.session.run, "Go")
            while not (w.root / "begun").exists():
                await anyio.sleep(0.01)
            await w.session.send(Interrupt())
        assert w.session.last is not None
        assert w.session.last.why == "interrupted"
        while not told(w.root):
            await anyio.sleep(0.01)
        [event] = told(w.root)
        assert (event["hook_event_name"], event["is_interrupt"]) == ("PostToolUseFailure", True)
        assert event["tool_input"] == {"command": "touch begun; sleep 600"}
        assert (await w.session.run("Again")).text == "Better."
        w.write("over", "")


@pytest.mark.parametrize(
    ("rule", "commands", "runs"),
    [
        ("Bash(git *)", ["git status", "echo x"], 1),
        ("Bash(git *)", ["cd . && git status", "echo git"], 1),
        ("Bash(git push *)", ["git status"], 0),
        ("Edit(*.ts)", ["echo x"], 0),
        ("Bash", ["echo x"], 1),
    ],
)
async def test_a_condition_chooses_by_what_a_call_does(
    world: Worlds, rule: str, commands: list[str], runs: int
) -> None:
    """`if` has a hook run for calls that do what the rule names, each command of a line counts."""
    files = watching("PreToolUse", **{"if": rule})
    steps = [*(call("Bash", {"command": line}) for line in commands), say("Done.")]
    async with world(steps, files=files, allow=("Bash",)) as w:
        await w.session.run("Go")
        assert len(told(w.root)) == runs


async def test_a_condition_holds_for_calls_of_a_worker(world: Worlds) -> None:
    """Whether a call of an agent elsewhere falls under a rule is found out here."""
    files = watching("PreToolUse", "PostToolUse", **{"if": "Bash(touch *)"})
    script = Script(
        [say("ok")],
        routes={
            "W": [
                calls(("Bash", {"command": "echo x"}), ("Bash", {"command": "touch y"})),
                report(),
            ]
        },
    )
    settings = json.dumps({"agents": {"backend": "process"}})
    async with world(script, files=files, settings=settings, mode="bypassPermissions") as w:
        await w.session.run("Go")
        await w.session.fork(["W"])
        said = [(one["hook_event_name"], one["tool_input"]["command"]) for one in told(w.root)]
        assert said == [("PreToolUse", "touch y"), ("PostToolUse", "touch y")]
        assert told(w.root)[1]["agent_type"] == "fork"


async def test_nothing_waits_for_a_hook_that_is_async(world: Worlds) -> None:
    """Its call runs meanwhile; what it has to say comes with something later, and decides nothing."""
    waits = 'until [ -e made ]; do sleep 0.01; done; echo \'{"decision": "block", "reason": "NO", '
    waits += '"hookSpecificOutput": {"additionalContext": "BY THE WAY"}}\''
    files = hooked("PreToolUse", waits, matcher="Bash", **{"async": True})
    looks = 0

    def work(request: Request) -> Step:
        """Touch the file, then look around until the hook has been heard."""
        nonlocal looks
        looks += 1
        if looks == 1:
            return call("Bash", {"command": "touch made"})
        if b"BY THE WAY" in b"".join(block.raw for block in request.blocks):
            return say("Done.")
        return delay(0.05, then=call("Glob", {"pattern": f"*{looks}"}))

    async with world(work, files=files, mode="bypassPermissions") as w:
        await w.session.run("Go")
        assert not any(one.refused for one in w.told(ToolFinished))
        assert b"BY THE WAY" in w.server.records[-1].body
    assert any("nothing waited for it" in warning for warning in w.warnings)


async def test_a_hook_beside_the_work_wakes_who_is_done(world: Worlds) -> None:
    """With `asyncRewake` exit code 2 is put before the agent, which goes on though its turn ended."""
    late = "touch once; until [ -e ended ]; do sleep 0.02; done; echo LOOK AGAIN >&2; exit 2"
    once = f"[ -e once ] || {{ {late}; }}"
    files = hooked("Stop", once, matcher="", asyncRewake=True)
    async with world([say("Done."), say("I looked.")], files=files) as w:
        assert (await w.session.run("Go")).text == "Done."
        (w.root / "ended").touch()
        with anyio.fail_after(50):
            while len(w.server.records) < 2:
                await anyio.sleep(0.02)
        await w.session.wait_settled()
        assert "LOOK AGAIN" in w.server.records[1].request.last_text


@pytest.fixture
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the end of a session wait for late hooks as long as they take."""
    monkeypatch.setattr("prong.config.late_hook._PATIENCE", 60.0)


@pytest.mark.usefixtures("_patient")
async def test_an_objection_that_comes_too_late_is_said(world: Worlds) -> None:
    """What such a hook objects to when the session ends is told to the user."""
    late = "until [ -e over ]; do sleep 0.02; done; echo TOO LATE >&2; exit 2"
    files = hooked("Stop", late, matcher="", asyncRewake=True)
    made = json.loads(files["~/.claude/settings.json"])
    # Before the end is told of it would wake the agent.
    over = {"type": "command", "command": "touch over"}
    made["hooks"]["SessionEnd"] = [{"hooks": [over]}]
    files = {"~/.claude/settings.json": json.dumps(made)}
    async with world([say("Done.")], files=files) as w:
        await w.session.run("Go")
    assert any("TOO LATE" in warning for warning in w.warnings)
    assert len(w.server.records) == 1


@pytest.mark.usefixtures("_patient")
async def test_what_runs_beside_the_work_may_end(world: Worlds) -> None:
    """The end of a session waits a moment for hooks that nobody has waited for."""
    files = hooked("Stop", "sleep 0.3; touch rung", matcher="", **{"async": True})
    async with world([say("Done.")], files=files) as w:
        await w.session.run("Go")
    assert (w.root / "rung").exists()


async def test_the_end_of_a_session_is_told(world: Worlds) -> None:
    """SessionEnd comes once, last, with a reason, when the conversation is whole."""
    files = watching("SessionStart", "Stop", "SessionEnd")
    async with world([say("Done.")], files=files) as w:
        await w.session.run("Go")
        assert not told(w.root, "SessionEnd")
    names = [one["hook_event_name"] for one in told(w.root)]
    assert names == ["SessionStart", "Stop", "SessionEnd"]
    assert told(w.root, "SessionEnd")[0]["reason"] == "other"
    assert told(w.root, "Stop")[0]["last_assistant_message"] == "Done."
    assert told(w.root, "SessionStart")[0]["source"] == "startup"


async def test_a_hook_at_the_end_that_hangs_is_stopped(world: Worlds) -> None:
    """A SessionEnd hook has its time and no more, and the user is told."""
    files = hooked("SessionEnd", "sleep 600", timeout=0.2)
    async with world([say("Done.")], files=files) as w:
        await w.session.run("Go")
    assert any("was stopped after 0.2 s" in warning for warning in w.warnings)


@pytest.mark.moves_prefix("a summary and an empty conversation begin anew")
async def test_each_beginning_is_told(world: Worlds) -> None:
    """After a summary and after /clear hooks are told of a beginning, and may add to it."""
    begun = {"type": "command", "command": f'{KEEP}; echo "BEGUN"'}
    over = {"type": "command", "command": KEEP}
    hooks = {
        "SessionStart": [{"matcher": "clear|compact", "hooks": [begun]}],
        "SessionEnd": [{"matcher": "clear", "hooks": [over]}],
    }
    files = {"~/.claude/settings.json": json.dumps({"hooks": hooks})}
    steps = [LONG, say("a summary"), say("Two."), say("Three.")]
    async with world(steps, files=files) as w:
        await w.session.run("Go")
        await w.session.send(Compact("tests"))
        assert (await w.session.run("On")).text == "Two."
        assert b"BEGUN" in w.server.records[-1].body
        await w.session.send(Clear())
        await w.session.run("Again")
        assert b"BEGUN" in w.server.records[-1].body
        said = [one.get("source") or one["reason"] for one in told(w.root)]
        assert said == ["compact", "clear", "clear"]


@pytest.mark.parametrize("matcher", ["manual", "auto"])
@pytest.mark.moves_prefix("a summary begins anew")
async def test_a_summary_can_be_refused(world: Worlds, matcher: str) -> None:
    """A PreCompact hook that blocks keeps the conversation as it is, by what asked for it."""
    files = hooked("PreCompact", f"{KEEP}; echo no >&2; exit 2", matcher=matcher)
    async with world([LONG, say("a summary")], files=files) as w:
        await w.session.run("Go")
        outcome = await w.session.send(Compact("the tests"))
        refused = isinstance(outcome, Refused)
        assert refused == (matcher == "manual")
        assert bool(w.told(PromptMoved)) != refused
        if refused:
            said = told(w.root)[0]
            assert (said["trigger"], said["custom_instructions"]) == ("manual", "the tests")


@pytest.mark.parametrize("blocks", [True, False])
@pytest.mark.moves_prefix("another model")
async def test_another_model_can_be_refused(world: Worlds, *, blocks: bool) -> None:
    """Hooks are told of both models and of the cost of the cache before and after a change."""
    files = watching("PreModelSwitch", "PostModelSwitch")
    if blocks:
        files = hooked("PreModelSwitch", f"{KEEP}; echo too dear >&2; exit 2", matcher=".*opus.*")
    async with world([say("One."), say("Two.")], files=files) as w:
        await w.session.run("Go")
        before = inside(w.session).agent.conversation.prompt.head.model
        outcome = await w.session.send(SetModel("claude-opus-5-5"))
        now = inside(w.session).agent.conversation.prompt.head.model
        said = told(w.root)
    assert (now == before) == blocks == isinstance(outcome, Refused)
    assert [one["hook_event_name"] for one in said] == ["PreModelSwitch", "PostModelSwitch"][
        : 1 if blocks else 2
    ]
    assert (said[0]["from_model"], said[0]["to_model"]) == (before, "claude-opus-5-5")
    assert said[0]["context_tokens"] > 0
    assert said[0]["prompt_cache_warm"] is True
    assert said[0]["estimated_cache_write_usd"] > 0


@pytest.mark.parametrize("named", ["opus", "best", "mine", "anthropic:claude-opus-5-5"])
async def test_a_guard_of_a_model_holds_for_its_short_names(world: Worlds, named: str) -> None:
    """A PreModelSwitch hook is chosen by the full name of the model, and told it, whatever was typed."""
    files = hooked(
        "PreModelSwitch", f"{KEEP}; echo too dear >&2; exit 2", matcher="claude-opus-5-5"
    )
    settings = {"modelAliases": {"mine": "claude-opus-5-5"}}
    async with world([say("One.")], files=files, settings=settings) as w:
        await w.session.run("Go")
        assert isinstance(await w.session.send(SetModel(named)), Refused)
        [said] = told(w.root)
    assert said["to_model"] == "claude-opus-5-5"
    assert said["estimated_cache_write_usd"] > 0


@pytest.mark.parametrize("named", ["sonnet", "claude-sonnet-5-5"])
async def test_a_change_to_the_same_model_changes_nothing(world: Worlds, named: str) -> None:
    """It would give up the cache for nothing: that is said, and no hook is asked."""
    files = watching("PreModelSwitch", "PostModelSwitch")
    async with world([say("One."), say("Two.")], files=files) as w:
        await w.session.run("Go")
        outcome = await w.session.send(SetModel(named))
        assert outcome == Accepted("the model is claude-sonnet-5-5 already")
        await w.session.run("More")
        assert not told(w.root)


async def test_a_hook_without_an_answer_keeps_the_model(world: Worlds) -> None:
    """A PreModelSwitch hook that hangs blocks the change."""
    async with world([say("One.")], files=hooked("PreModelSwitch", "sleep 99", timeout=0.2)) as w:
        await w.session.run("Go")
        assert isinstance(await w.session.send(SetModel("claude-opus-5-5")), Refused)


async def test_the_conversation_can_be_read_by_scripts(world: Worlds) -> None:
    """`transcript_path` holds every entry so far in the form that scripts know, and no entry twice."""
    files = watching("PreToolUse", "Stop")
    steps = [call("Bash", {"command": "echo hi"}), say("Done."), say("Again.")]
    async with world(steps, files=files, allow=("Bash",)) as w:
        await w.session.run("Go")
        await w.session.run("More")
        said = told(w.root)
        path = Path(said[-1]["transcript_path"])
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        assert path.stem == said[-1]["session_id"]
        assert path.stat().st_mode & 0o077 == 0
    shape = [
        (one["type"], one["message"]["content"])
        for one in lines
        if not one.get("isMeta") and one["message"]["content"] not in ("Go", "More")
    ]
    assert [kind for kind, _ in shape] == ["assistant", "user", "assistant", "assistant"]
    assert shape[0][1][-1]["name"] == "Bash"
    assert shape[0][1][-1]["input"] == {"command": "echo hi"}
    assert shape[1][1][0]["type"] == "tool_result"
    assert shape[2][1] == [{"type": "text", "text": "Done."}]
    assert lines[-1]["message"]["usage"]["output_tokens"] > 0
    uuids = [one["uuid"] for one in lines]
    assert len(set(uuids)) == len(uuids)
    assert [one["parentUuid"] for one in lines] == [None, *uuids[:-1]]


@pytest.mark.moves_prefix("a summary begins anew")
async def test_a_summary_is_marked_for_scripts(world: Worlds) -> None:
    """Where a summary took the place of a conversation, a boundary stands before it."""
    async with world([LONG, say("SUM"), say("Two.")], files=watching("Stop")) as w:
        await w.session.run("Go")
        await w.session.send(Compact())
        await w.session.run("On")
        path = Path(told(w.root)[-1]["transcript_path"])
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    at = next(i for i, one in enumerate(lines) if one.get("subtype") == "compact_boundary")
    assert lines[at + 1]["isCompactSummary"]
    assert "SUM" in lines[at + 1]["message"]["content"]


async def test_children_are_told_of_with_files_of_their_own(world: Worlds) -> None:
    """SubagentStop tells the last words of an agent and where its own entries are."""
    files = watching("PreToolUse", "SubagentStart", "SubagentStop")
    script = Script([say("ok")], routes={"ONE": [call("Glob", {"pattern": "*"}), report()]})
    async with world(script, files=files, mode="dontAsk") as w:
        await w.session.run("Go")
        await w.session.fork(["ONE"])
        stop, tool = told(w.root, "SubagentStop")[0], told(w.root, "PreToolUse")[0]
        lines = Path(stop["agent_transcript_path"]).read_text().splitlines()
    assert stop["agent_id"] == tool["agent_id"] == told(w.root, "SubagentStart")[0]["agent_id"]
    assert stop["agent_type"] == tool["agent_type"] == "fork"
    assert stop["last_assistant_message"]
    assert Path(stop["agent_transcript_path"]).name == f"agent-{stop['agent_id']}.jsonl"
    assert Path(stop["agent_transcript_path"]).parent.parent == Path(
        stop["transcript_path"]
    ).with_suffix("")
    assert all(json.loads(line)["isSidechain"] for line in lines)
    assert "ONE" in lines[0]


async def test_what_a_hook_has_for_a_child_reaches_it(world: Worlds) -> None:
    """`additionalContext` of SubagentStart stands before the child and nobody else."""
    command = printing({"hookSpecificOutput": {"additionalContext": "ONLY FOR YOU"}})
    script = Script([say("ok")], routes={"ONE": [report()]})
    async with world(script, files=hooked("SubagentStart", command), mode="dontAsk") as w:
        await w.session.run("Go")
        await w.session.fork(["ONE"])
        assert b"ONLY FOR YOU" in w.server.records[-1].body
        assert b"ONLY FOR YOU" not in w.session.records.snapshot.open()


async def test_words_at_the_end_are_heard(world: Worlds) -> None:
    """`additionalContext` of a Stop hook has the model go on, with that before it."""
    once = '[ -e once ] || { touch once; echo \'{"hookSpecificOutput": '
    once += '{"additionalContext": "ONE MORE THING"}}\'; }'
    async with world([say("Done."), say("Really.")], files=hooked("Stop", once)) as w:
        assert (await w.session.run("Go")).text == "Really."
        assert b"ONE MORE THING" in w.server.records[-1].body


async def test_a_stop_hook_cannot_keep_a_turn_for_ever(world: Worlds) -> None:
    """Hooks that refuse the end nine times in a row, with nothing done between, are overruled."""
    steps = [say(f"Done {number}.") for number in range(9)]
    async with world(steps, files=hooked("Stop", "echo go on >&2; exit 2")) as w:
        assert (await w.session.run("Go")).text == "Done 8."
        assert any("8 times in a row" in warning for warning in w.warnings)


OUTPUTS: dict[str, tuple[Any, str]] = {
    "text": ("CLEAN", "CLEAN"),
    "object": ({"stdout": "CLEAN", "stderr": "too"}, "CLEAN\ntoo"),
    "not understood": (["a", 5], "is withheld"),
}


@pytest.mark.parametrize(("given", "reads"), OUTPUTS.values(), ids=OUTPUTS)
async def test_an_output_is_changed_or_withheld(world: Worlds, given: Any, reads: str) -> None:
    """`updatedToolOutput` takes the place of what the model reads; it never reads the other."""
    command = printing({"hookSpecificOutput": {"updatedToolOutput": given}})
    steps = [call("Bash", {"command": "echo S3CRET"}), say("ok")]
    async with world(steps, files=hooked("PostToolUse", command), allow=("Bash",)) as w:
        await w.session.run("Go")
        result = w.server.records[1].request.last_text
        assert reads in result
        assert "S3CRET" not in result


async def test_a_flood_of_words_is_kept_in_a_file(world: Worlds) -> None:
    """What a hook prints beyond a bound is in a file that is named; its beginning is told."""
    command = "head -c 300000 /dev/zero | tr '\\0' x"
    async with world([say("ok")], files=hooked("UserPromptSubmit", command)) as w:
        await w.session.run("Go")
        body = w.server.records[0].body
        assert len(body) < 200_000
        assert b"characters left out here; the whole is in" in body


@pytest.mark.parametrize(
    "printed",
    ['{"decision": "allow"}\n{"decision": "allow"}', "{" + "x" * 2_000_000, "{}" + " " * 2_000_000],
)
async def test_what_is_no_answer_blocks(world: Worlds, printed: str) -> None:
    """Two answers, and one that has no end, are none: the call does not run."""
    files = {**hooked("PreToolUse", "cat out"), "out": printed}
    steps = [call("Bash", {"command": "touch made"}), say("ok")]
    async with world(steps, files=files, mode="bypassPermissions") as w:
        await w.session.run("Go")
        assert w.told(ToolFinished)[0].refused
        assert not (w.root / "made").exists()


async def test_somebody_wanted_is_told(world: Worlds) -> None:
    """A question that waits for an answer is a Notification, and does not wait for its hooks."""

    async def respond(agent: str, asked: Any) -> Any:
        from prong import Answer

        del agent
        while not told(w.root):
            await anyio.sleep(0.01)
        return Answer(asked.request_id)

    files = hooked("Notification", f"{KEEP}; sleep 0.5", matcher="permission_prompt")
    steps = [call("Bash", {"command": "touch made"}), say("ok")]
    async with world(steps, files=files, respond=respond) as w:
        await w.session.run("Go")
        assert (w.root / "made").exists()
    said = told(w.root)
    assert [one["notification_type"] for one in said] == ["permission_prompt"]
    assert "touch made" in said[0]["message"]


async def test_nobody_at_the_terminal_is_told(world: Worlds) -> None:
    """Some time after a turn in which nobody says anything there is one Notification."""
    files = hooked("Notification", KEEP, matcher="idle_prompt")
    async with (
        world([say("One.")], files=files, attended=True) as w,
        anyio.create_task_group() as group,
    ):
        group.start_soon(partial(notify, inside(w.session), idle=0.05))
        await anyio.lowlevel.checkpoint()
        await w.session.run("Go")
        with anyio.fail_after(50):
            while not told(w.root):
                await anyio.sleep(0.02)
        await anyio.sleep(0.2)
        group.cancel_scope.cancel()
    assert [one["notification_type"] for one in told(w.root)] == ["idle_prompt"]


async def test_what_is_not_done_is_said(world: Worlds) -> None:
    """What a hook prints for another program is named to the user."""
    command = printing({"hookSpecificOutput": {"sessionTitle": "X"}, "suppressOutput": True})
    async with world([say("ok")], files=hooked("SessionStart", command)) as w:
        await w.session.run("Go")
    assert any("sessionTitle; nothing is done" in warning for warning in w.warnings)


async def test_the_end_of_a_type_of_agent_is_guarded_by_its_file(world: Worlds) -> None:
    """A Stop hook in an agent's file is asked when such an agent is done, and of no other."""
    once = f"{KEEP}; [ -e once ] || {{ touch once; echo AGAIN >&2; exit 2; }}"
    hooks = {"Stop": [{"hooks": [{"type": "command", "command": once}]}]}
    front = f"---\nname: careful\ndescription: d\nhooks: {json.dumps(hooks)}\n---\nWork."
    start = {"subagent_type": "careful", "prompt": "CHILD", "description": "d"}
    script = Script(
        [call("Agent", start), say("ok")], routes={"CHILD": [say("done"), say("really done")]}
    )
    files = {"~/.prong/agents/careful.md": front}
    async with world(script, files=files, mode="dontAsk") as w:
        await w.session.run("Go")
        said = [(one["hook_event_name"], one["agent_type"]) for one in told(w.root)]
        assert said == [("SubagentStop", "careful")] * 2
        assert any(b"AGAIN" in one.body for one in w.server.records)


@pytest.mark.moves_prefix("another model")
async def test_another_model_of_a_resumed_session_is_told(world: Worlds) -> None:
    """Who resumes with another model has chosen it: hooks are told after it, with what it costs."""
    files = watching("PreModelSwitch", "PostModelSwitch", "SessionStart")
    async with world([say("One.")], files=files, opens=False) as w:
        async with w.open() as session:
            await session.run("Go")
        async with w.open(resume=session.id, model="claude-opus-5-5"):
            pass
        said = told(w.root)
    assert [one["hook_event_name"] for one in said] == [
        "SessionStart",
        "PostModelSwitch",
        "SessionStart",
    ]
    assert (said[1]["to_model"], said[2]["source"]) == ("claude-opus-5-5", "resume")
    assert said[1]["context_tokens"] > 0
    assert said[1]["estimated_cache_write_usd"] > 0


async def test_a_conversation_that_cannot_be_written_is_said(world: Worlds) -> None:
    """Hooks run all the same, and the user is told that scripts read less than there is."""
    async with world([say("One.")], files=watching("Stop")) as w:
        folder = inside(w.session).journal.path.with_suffix("")
        folder.mkdir(exist_ok=True)
        (folder / "transcript").write_text("in the way")
        await w.session.run("Go")
        assert told(w.root, "Stop")
        assert any("cannot be written for hooks" in warning for warning in w.warnings)
