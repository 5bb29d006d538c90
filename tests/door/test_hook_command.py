from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from prong.agent.verdict import Hooks, Verdict
from prong.config.document import Document, parse_document
from prong.config.firing import UserHooks
from prong.config.hook import Declared, Hook, parse_hooks
from prong.host import LocalHost
from shared.running import runs

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("L11")]


def hooks(root: Path, *made: Hook) -> Hooks:
    return UserHooks(hooks=made, host=LocalHost(root), session_id="s1")


def hook(command: str, event: str = "PreToolUse", matcher: str = "", seconds: float = 20) -> Hook:
    return Hook(event, matcher, command, seconds, "settings.json")


def declare(value: Any, *, foreign: bool = False) -> Declared:
    document = parse_document("s.json", msgspec.json.encode({"hooks": value}).decode())
    assert isinstance(document, Document)
    return parse_hooks(document, foreign=foreign)


def printing(value: Any) -> str:
    return f"cat <<'END'\n{msgspec.json.encode(value).decode()}\nEND"


async def test_hook_reads_json_on_stdin(tmp_path: Path) -> None:
    """A hook gets session, folder, event and payload as JSON, and the root in its environment."""
    made = hook('cat > got.json; echo "$PRONG_PROJECT_DIR" > where')
    payload = {"tool_name": "Bash", "tool_input": msgspec.Raw(b'{"command": "ls"}')}
    verdict = await hooks(tmp_path, made).fire("PreToolUse", payload, matcher="Bash")
    assert verdict == Verdict()
    root = os.path.realpath(tmp_path)
    assert msgspec.json.decode((tmp_path / "got.json").read_bytes()) == {
        "session_id": "s1",
        "transcript_path": "",
        "cwd": root,
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": "ls"},
    }
    assert (tmp_path / "where").read_text().strip() == root


async def test_exit_2_blocks_with_stderr(tmp_path: Path) -> None:
    """Exit code 2 blocks, and what the hook wrote to standard error is the reason."""
    verdict = await hooks(tmp_path, hook("echo no rm here >&2; exit 2")).fire("PreToolUse", {})
    assert verdict.block == "no rm here"


async def test_other_codes_warn(tmp_path: Path) -> None:
    """Any other exit code lets the work go on with a warning that names the hook and its file."""
    verdict = await hooks(tmp_path, hook("echo oops >&2; exit 7")).fire("PreToolUse", {})
    assert verdict.block is None
    assert verdict.warnings == (
        "PreToolUse hook 'echo oops >&2; exit 7' of settings.json ended with code 7: oops",
    )


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ({"decision": "block", "reason": "not now"}, Verdict(block="not now", reason="not now")),
        (
            {
                "hookSpecificOutput": {
                    "hookEventName": "PreToolUse",
                    "permissionDecision": "deny",
                    "permissionDecisionReason": "secret",
                }
            },
            Verdict(block="secret", permission="deny", reason="secret"),
        ),
        (
            {"hookSpecificOutput": {"permissionDecision": "allow"}},
            Verdict(permission="allow"),
        ),
        (
            {"hookSpecificOutput": {"additionalContext": "branch is main"}},
            Verdict(context=("branch is main",)),
        ),
        ({"continue": False, "stopReason": "enough"}, Verdict(block="enough", stop="enough")),
        (
            {
                "hookSpecificOutput": {
                    "permissionDecision": "allow",
                    "updatedInput": {"b": 1, "a": []},
                }
            },
            Verdict(permission="allow", updated='{"a":[],"b":1}'),
        ),
        ({"systemMessage": "by the way"}, Verdict(warnings=("by the way",))),
    ],
)
async def test_printed_json_decides(tmp_path: Path, printed: Any, expected: Verdict) -> None:
    """JSON on standard output blocks, answers questions of permission, or adds context."""
    assert await hooks(tmp_path, hook(printing(printed))).fire("PreToolUse", {}) == expected


async def test_changed_input_elsewhere_is_not_taken_in_silence(tmp_path: Path) -> None:
    """A hook that wants to change an input where there is none is told so."""
    printed = {"hookSpecificOutput": {"updatedInput": {"command": "ls"}}}
    verdict = await hooks(tmp_path, hook(printing(printed), "Stop")).fire("Stop", {})
    assert verdict.updated is None
    assert "there is none to change" in verdict.warnings[0]


async def test_a_stop_at_the_end_is_no_block(tmp_path: Path) -> None:
    """`continue: false` of a Stop hook ends the turn, whatever another hook would have it do."""
    made = [hook(printing({"continue": False}), "Stop"), hook("exit 2", "Stop")]
    verdict = await hooks(tmp_path, made[0]).fire("Stop", {})
    assert verdict.block is None
    assert (await hooks(tmp_path, *made).fire("Stop", {})).stop is not None


NO_ANSWER = {
    "no such program": {"command": "./nowhere.sh", "args": []},
    "no such program in a shell": {"command": "./nowhere.sh --check"},
    "no leave to run it": {"command": "/etc/hostname", "args": []},
    "unreadable": {"command": "echo '{nope'"},
    "of another shape": {"command": 'echo \'{"decision": "perhaps"}\''},
    "no end": {"command": "sleep 50", "timeout": 0.2},
}


@pytest.mark.parametrize("entry", NO_ANSWER.values(), ids=NO_ANSWER)
async def test_no_answer_blocks_at_a_gate(tmp_path: Path, entry: dict[str, Any]) -> None:
    """A guard that gives no answer blocks and says so; where nothing waits for one, it warns."""
    for event, gates in [
        ("PreToolUse", True),
        ("UserPromptSubmit", True),
        ("PermissionRequest", False),
    ]:
        declared = declare({event: [{"hooks": [entry]}]})
        assert not declared.problems
        verdict = await hooks(tmp_path, *declared.hooks).fire(event, {})
        assert len(verdict.warnings) == 1
        assert (verdict.block is not None) == gates
        assert not gates or verdict.warnings[0] in str(verdict.block)


async def test_exec_form_sees_no_shell(tmp_path: Path) -> None:
    """With `args` the program gets them as they are, placeholders of the project filled in."""
    words = ["$(touch PWNED)", "a b", "${CLAUDE_PROJECT_DIR}/x", "*"]
    entry = {"command": "python3", "args": ["-c", "import sys; print(sys.argv[1:])", *words]}
    made = declare({"SessionStart": [{"hooks": [entry]}]}).hooks
    verdict = await hooks(tmp_path, *made).fire("SessionStart", {})
    root = os.path.realpath(tmp_path)
    assert verdict.context == (str(["$(touch PWNED)", "a b", f"{root}/x", "*"]),)
    assert not (tmp_path / "PWNED").exists()


async def test_exec_form_guards(tmp_path: Path) -> None:
    """A guard in exec form runs its script, and what it is told is never run."""
    (tmp_path / "guard.py").write_text("import sys; sys.stderr.write('no'); sys.exit(2)")
    payload = {"tool_name": "Read", "tool_input": {"file_path": "x$(touch PWNED)`touch PWNED`"}}
    for entry in (
        {"command": "bash", "args": ["-c", "echo no >&2; exit 2"]},
        {"command": "python3", "args": ["guard.py"]},
    ):
        made = declare({"PreToolUse": [{"matcher": "Bash|Read", "hooks": [entry]}]}).hooks
        verdict = await hooks(tmp_path, *made).fire("PreToolUse", payload, matcher="Read")
        assert verdict.block == "no"
    assert not (tmp_path / "PWNED").exists()


NOT_HONOURED: dict[str, dict[str, Any]] = {
    "args is no list": {"command": "bash", "args": "-c true"},
    "args holds a number": {"command": "bash", "args": ["-c", 1]},
    "args is null": {"command": "./x", "args": None},
    "condition is no rule": {"command": "x", "if": "Bash(git"},
    "condition is no text": {"command": "x", "if": ["Bash(git *)"]},
    "async is no yes": {"command": "x", "async": "yes"},
    "shell": {"command": "x", "shell": "powershell"},
    "once": {"command": "x", "once": True},
    "of a plug-in": {"command": "sh", "args": ["${CLAUDE_PLUGIN_ROOT}/x.sh"]},
    "unknown key": {"command": "x", "unless": "y"},
    "type": {"type": "agent", "prompt": "may it?"},
    "bare shell": {"command": "bash"},
    "shell on stdin": {"command": "/bin/sh", "args": ["-s"]},
    "bare interpreter": {"command": "exec python3 -u -"},
    "interpreter without a script": {"command": "node", "args": []},
}


@pytest.mark.parametrize("entry", NOT_HONOURED.values(), ids=NOT_HONOURED)
def test_what_cannot_be_honoured_is_not_half_applied(entry: dict[str, Any]) -> None:
    """Such a hook is left out with its line; if it guards something, the start is stopped."""
    for event in ("PreToolUse", "UserPromptSubmit", "Stop", "SubagentStart", "PostToolUse"):
        declared = declare({event: [{"hooks": [entry]}]})
        assert declared.hooks == ()
        assert [problem.line for problem in declared.problems] == [1]
        assert bool(declared.fatal) == (event != "PostToolUse")


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "x", "async": False, "once": False, "shell": "bash", "statusMessage": "..."},
        {"command": "bash -c 'exit 2'"},
        {"command": "bash", "args": ["-ec", "exit 2"]},
        {"command": "python3 -m guard"},
        {"command": "node", "args": ["--eval", "1"]},
        {"command": "cat | python3 guard.py"},
        {"command": "bashful"},
    ],
)
def test_what_changes_nothing_is_taken(entry: dict[str, Any]) -> None:
    """Keys with the value that counts anyway, and programs that are given one, are no fault."""
    declared = declare({"PreToolUse": [{"hooks": [entry]}]})
    assert len(declared.hooks) == 1
    assert not declared.problems


def test_a_misspelt_guard_is_one() -> None:
    """An event that is nearly a guard's stops the start, in a foreign file too."""
    for name in ("PreToolUSe", "PretoolUse", "UserPromptsSubmit", "PermissionsRequest"):
        for foreign in (True, False):
            assert declare({name: []}, foreign=foreign).fatal, name
    assert not declare({"SessionEnd": []}, foreign=True).problems
    assert not declare({"OnMoon": []}, foreign=False).fatal


def test_events_of_another_program_are_named_in_one_line() -> None:
    """What never happens here is left out of a foreign file, and that is said once."""
    names = ("PostToolBatch", "UserPromptExpansion", "OnMoon", "StopFailure")
    declared = declare({name: [] for name in names}, foreign=True)
    assert declared.warnings == (f"s.json: hooks of {', '.join(names)}: that never happens here",)
    assert not declared.problems
    assert not declared.fatal


def test_what_has_no_effect_there_has_none_here() -> None:
    """Keys that the program does not know whose file it is stop nothing; in our own they do."""
    entry = {"command": "x", "_comment": "guards", "continueOnError": True, "once": True}
    declared = declare({"PreToolUse": [{"hooks": [entry]}]}, foreign=True)
    assert [hook.command for hook in declared.hooks] == ["x"]
    assert declared.warnings == ("s.json: keys of hooks without effect: continueOnError, once",)
    assert not declared.problems
    assert declare({"PreToolUse": [{"hooks": [entry]}]}).fatal
    for key in ("prompt", "url", "shell"):
        assert declare(
            {"PreToolUse": [{"hooks": [{"command": "x", key: "y"}]}]}, foreign=True
        ).fatal


@pytest.mark.parametrize("event", ["UserPromptSubmit", "Stop", "SessionStart"])
def test_a_condition_that_never_holds_is_no_hook(event: str) -> None:
    """`if` chooses calls: on an event without one it would never run, which is said at once."""
    declared = declare({event: [{"hooks": [{"command": "x", "if": "Bash(git *)"}]}]})
    assert declared.hooks == ()
    assert "would never run" in str(declared.problems[0])
    assert bool(declared.fatal) == (event != "SessionStart")


async def test_plain_output_is_context_where_hooks_speak(tmp_path: Path) -> None:
    """What a UserPromptSubmit hook prints reaches the model; a PreToolUse hook's does not."""
    made = hooks(tmp_path, hook("echo hi", "UserPromptSubmit"), hook("echo hi"))
    assert (await made.fire("UserPromptSubmit", {"prompt": "x"})).context == ("hi",)
    assert (await made.fire("PreToolUse", {})).context == ()


async def test_hooks_of_one_event_run_together_in_order(tmp_path: Path) -> None:
    """Hooks meet while running, and their texts come in the order of the settings."""
    meet = "touch {me}; until [ -e {other} ]; do sleep 0.01; done; echo {me}"
    made = hooks(
        tmp_path,
        hook(meet.format(me="a", other="b") + "; sleep 0.2", "SessionStart"),
        hook(meet.format(me="b", other="a"), "SessionStart"),
    )
    assert (await made.fire("SessionStart", {})).context == ("a", "b")


async def test_strictest_answer_counts(tmp_path: Path) -> None:
    """One hook that asks outweighs one that allows."""
    made = hooks(
        tmp_path,
        hook(printing({"hookSpecificOutput": {"permissionDecision": "allow"}})),
        hook(printing({"hookSpecificOutput": {"permissionDecision": "ask"}})),
    )
    assert (await made.fire("PreToolUse", {})).permission == "ask"


async def test_timeout_kills_the_group(tmp_path: Path) -> None:
    """A hook that takes too long is ended with everything it started."""
    child = tmp_path / "child"
    # Who was stopped before it had started anything proves nothing; then it is given longer.
    for seconds in (0.5, 5.0, 20.0):
        made = hook("sleep 500 & echo $! > new; mv new child; wait", seconds=seconds)
        verdict = await hooks(tmp_path, made).fire("PreToolUse", {})
        assert len(verdict.warnings) == 1
        assert f"was stopped after {seconds:g} s" in verdict.warnings[0]
        if child.exists():
            break
    with anyio.fail_after(50):
        while runs(int(child.read_text())):
            await anyio.sleep(0.02)


async def test_matcher_selects_by_name(tmp_path: Path) -> None:
    """Words are whole names, anything else a regular expression; empty and * match all."""
    block = "exit 2"
    for matcher, name, blocked in [
        ("Bash|Edit", "Edit", True),
        ("Edit", "NotebookEdit", False),
        ("Edit, Write", "Write", True),
        ("Edit.*", "NotebookEdit", True),
        ("^Edit$", "NotebookEdit", False),
        ("mcp__memory", "mcp__memory__read", False),
        ("Task", "Agent", True),
        ("mcp__.*", "mcp__a__b", True),
        ("*", "Bash", True),
        ("", "Bash", True),
    ]:
        made = hooks(tmp_path, hook(block, matcher=matcher))
        verdict = await made.fire("PreToolUse", {}, matcher=name)
        assert (verdict.block is not None) == blocked, matcher


def test_malformed_hooks_are_named_by_line() -> None:
    """Each wrong entry is reported with its line, and the right ones are kept."""
    text = """{"hooks": {
  "PreToolUse": [
    {"matcher": "(", "hooks": [{"type": "command", "command": "a"}]},
    {"matcher": "Bash"},
    {"hooks": [
      {"type": "agent", "prompt": "x"},
      {"type": "command"},
      {"type": "command", "command": "ok", "timeout": -1},
      {"type": "command", "command": "kept", "timeout": 5}]}
  ],
  "Stop": {},
  "OnMoon": []
}}"""
    document = parse_document("s.json", text)
    assert isinstance(document, Document)
    declared = parse_hooks(document, foreign=False)
    assert declared.hooks == (Hook("PreToolUse", "", "kept", 5.0, "s.json"),)
    assert [problem.line for problem in declared.problems] == [3, 4, 6, 7, 8, 11, 12]
    assert "OnMoon" in str(declared.problems[-1])
    assert [problem.line for problem in declared.fatal] == [3, 4, 6, 7, 8, 11]
    foreign = parse_hooks(document, foreign=True)
    assert (len(foreign.problems), len(foreign.warnings)) == (6, 1)
