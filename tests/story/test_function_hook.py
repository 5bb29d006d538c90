"""Python functions as hooks of a session: the power of commands, on the same road."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any

import anyio
import msgspec
import pytest

import prong
from prong.command import Compact, SetModel
from prong.event import ToolFinished, ToolStarted
from prong.hook_call import (
    INPUTS,
    HookInput,
    HookResult,
    PermissionRequestInput,
    PostToolUseInput,
    PreToolUseInput,
    SessionStartInput,
    StopInput,
    SubagentStartInput,
    SubagentStopInput,
    UserPromptSubmitInput,
)
from prong.testing import Script, Worlds, call, calls, report, say
from prong.testing.repository import Repo

pytestmark = [pytest.mark.anyio, pytest.mark.spec("B2"), pytest.mark.spec("L11")]

TOUCH = call("Bash", {"command": "touch made"})


def deciding(result: Any) -> list[Any]:
    """Make a hook on calls that gives the result, once plain and once async."""

    def plain(told: PreToolUseInput) -> Any:
        del told
        return result

    async def waiting(told: PreToolUseInput) -> Any:
        del told
        await anyio.sleep(0)
        return result

    return [plain, waiting]


@pytest.mark.spec("L5")
@pytest.mark.parametrize("which", [0, 1], ids=["plain", "async"])
@pytest.mark.parametrize(
    ("result", "made", "said"),
    [
        (HookResult(decision="allow"), {"made"}, ""),
        (HookResult(decision="deny", reason="not here"), set(), "not here"),
        (HookResult(decision="ask", reason="really?"), set(), "nobody is here"),
        (
            HookResult(decision="allow", updated_input={"command": "touch changed"}),
            {"changed"},
            "hook changed the input",
        ),
        (
            HookResult(decision="allow", updated_input={"command": "touch denied"}),
            set(),
            "hook changed the input",
        ),
        (HookResult(decision="allow", updated_input={}), set(), "not of its schema"),
        (HookResult(decision="allow", context="MIND THE GAP"), {"made"}, "MIND THE GAP"),
        (None, set(), "nobody is here"),
    ],
    ids=["allow", "deny", "ask", "change", "change denied", "change nonsense", "context", "none"],
)
async def test_a_function_decides_as_a_command_does(
    world: Worlds, which: int, result: HookResult | None, made: set[str], said: str
) -> None:
    """A call is allowed, refused, asked about, changed or commented; no deny rule is lifted."""
    hooks = [deciding(result)[which]]
    async with world([TOUCH, say("ok")], hooks=hooks, deny=["Bash(touch denied)"]) as w:
        await w.session.run("Go")
        assert {path.name for path in w.root.iterdir()} == made
        assert said in w.server.records[1].request.last_text


@pytest.mark.parametrize(
    ("result", "why"),
    [
        (HookResult(decision="block"), "not understood"),  # pyright: ignore[reportArgumentType] # the mistake
        (HookResult(decision="allow", updated_input={"a": object()}), "not understood"),
        (HookResult(decision="allow", updated_input=3), "not understood"),  # pyright: ignore[reportArgumentType] # the mistake
        ("no", "gave str in place of a HookResult"),
        (True, "gave bool in place of a HookResult"),
        ({"decision": "allow"}, "gave dict in place of a HookResult"),
    ],
)
@pytest.mark.spec("L5")
async def test_what_is_no_answer_blocks(world: Worlds, result: Any, why: str) -> None:
    """A guard that says what nobody understands has not let the call through."""
    hooks = deciding(result)[:1]
    async with world([TOUCH, say("ok")], hooks=hooks, mode="bypassPermissions") as w:
        await w.session.run("Go")
        (end,) = w.told(ToolFinished)
        assert end.refused
        assert why in end.text
        assert "what it guards is blocked" in end.text


class Unfit(BaseException):
    """What no sensible function raises."""


RAISED = [ValueError("x y"), SystemExit(3), StopIteration("x")]


@pytest.mark.parametrize(
    ("error", "kind"),
    # One like Unfit ends an event loop, from whatever coroutine it comes; in a thread it does not.
    [*((one, kind) for one in RAISED for kind in ("plain", "async")), (Unfit(), "plain")],
)
async def test_a_guard_that_raises_blocks(world: Worlds, error: BaseException, kind: str) -> None:
    """Whatever it raises, the call does not run, the model is told, and the session goes on."""

    def plain(told: PreToolUseInput) -> None:
        raise error

    async def waiting(told: PreToolUseInput) -> None:
        raise error

    hooks = [plain if kind == "plain" else waiting]
    async with world([TOUCH, say("ok")], hooks=hooks, mode="bypassPermissions") as w:
        turn = await w.session.run("Go")
        assert turn.text == "ok"
        (end,) = w.told(ToolFinished)
        assert end.refused
        assert "PreToolUse hook" in end.text
        assert "raised" in end.text
        assert any("raised" in text for text in w.warnings)


@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_a_guard_that_takes_too_long_blocks(world: Worlds, kind: str) -> None:
    """A hook is waited for as long as it says, whether it hangs in a thread or not."""
    free = threading.Event()

    @prong.hook(timeout=0.05)
    def plain(told: PreToolUseInput) -> None:
        del told
        free.wait(20)

    @prong.hook(timeout=0.05)
    async def waiting(told: PreToolUseInput) -> None:
        del told
        await anyio.sleep_forever()

    hooks = [plain if kind == "plain" else waiting]
    async with world([TOUCH, say("ok")], hooks=hooks, mode="bypassPermissions") as w:
        await w.session.run("Go")
        free.set()
        (end,) = w.told(ToolFinished)
        assert end.refused
        assert "took longer than 0.05 s" in end.text


async def test_a_hook_that_only_looks_on_stops_nothing(world: Worlds) -> None:
    """At events that wait for nobody's leave, a failing hook is a warning."""

    def after(told: PostToolUseInput) -> None:
        raise KeyError(told.tool_name)

    async with world([TOUCH, say("ok")], hooks=[after], mode="bypassPermissions") as w:
        assert (await w.session.run("Go")).text == "ok"
        (end,) = w.told(ToolFinished)
        assert not end.failed
        assert any("raised KeyError: 'Bash'" in text for text in w.warnings)


async def test_a_hook_that_blocks_the_loop_is_named(world: Worlds) -> None:
    """An async hook that keeps the event loop from all agents is told to whoever wrote it."""

    async def slow(told: StopInput) -> None:
        del told
        time.sleep(1.05)

    async with world([say("ok")], hooks=[slow]) as w:
        await w.session.run("Go")
        (warning,) = [text for text in w.warnings if "kept the event loop" in text]
        assert "the hook" in warning


async def test_functions_and_commands_are_joined_in_one_order(world: Worlds) -> None:
    """What commands of settings say comes first, then functions in their order; both are heard."""
    out = {"hookSpecificOutput": {"permissionDecision": "allow", "additionalContext": "ONE"}}
    entry = {"type": "command", "command": f"sleep 0.1; echo '{json.dumps(out)}'"}
    settings = json.dumps({"hooks": {"PreToolUse": [{"hooks": [entry]}]}})
    hooks = [deciding(HookResult(context="TWO"))[0], deciding(HookResult(context="THREE"))[1]]
    async with world([TOUCH, say("ok")], hooks=hooks, settings=settings) as w:
        await w.session.run("Go")
        assert (w.root / "made").exists()
        told = w.server.records[1].request.last_text
        assert 0 < told.index("ONE") < told.index("TWO") < told.index("THREE")


async def test_the_strictest_counts(world: Worlds) -> None:
    """One function that denies is enough, whoever allows."""
    hooks = [
        deciding(HookResult(decision="allow"))[0],
        deciding(HookResult(decision="deny", reason="no"))[0],
    ]
    async with world([TOUCH, say("ok")], hooks=hooks, mode="bypassPermissions") as w:
        await w.session.run("Go")
        assert w.told(ToolFinished)[0].refused


async def test_a_matcher_chooses(world: Worlds) -> None:
    """A hook is told of the tools that its matcher matches whole, and of no others."""
    seen: list[str] = []

    @prong.hook(matcher="Ba.*")
    def look(told: PreToolUseInput) -> None:
        seen.append(f"{told.tool_name} {told.tool_input}")

    steps = [calls(("Glob", {"pattern": "*"}), ("Bash", {"command": "ls"})), say("ok")]
    async with world(steps, hooks=[look]) as w:
        await w.session.run("Go")
    assert seen == ["Bash {'command': 'ls'}"]


@pytest.mark.parametrize("event", ["PreToolUse", "PostToolUse"])
async def test_a_function_ends_the_turn(world: Worlds, event: str) -> None:
    """`stop` ends the turn: no further call runs and no further request is sent."""

    def before(told: PreToolUseInput) -> HookResult:
        del told
        return HookResult(stop="enough")

    def after(told: PostToolUseInput) -> HookResult:
        del told
        return HookResult(stop="enough")

    touch = ("Bash", {"command": "touch made"}), ("Bash", {"command": "touch second"})
    hooks: list[Any] = [before if event == "PreToolUse" else after]
    async with world([calls(*touch)], hooks=hooks, mode="bypassPermissions") as w:
        turn = await w.session.run("Go")
        assert (turn.why, turn.detail) == ("refused", "a hook ended the turn: enough")
        assert (w.root / "made").exists() == (event == "PostToolUse")
        assert not (w.root / "second").exists()


async def test_a_function_answers_for_the_user(world: Worlds) -> None:
    """A hook on questions of permission answers before the user would be asked."""

    def answer(told: PermissionRequestInput) -> HookResult:
        return HookResult(decision="allow" if "made" in told.tool_input["command"] else "deny")

    steps = [calls(("Bash", {"command": "touch made"}), ("Bash", {"command": "touch no"}))]
    async with world([*steps, say("ok")], hooks=[answer], attended=True) as w:
        await w.session.run("Go")
        assert {path.name for path in w.root.iterdir()} == {"made"}
        assert not w.told(prong.PermissionAsked)


async def test_a_function_guards_what_is_said_and_adds_to_it(world: Worlds) -> None:
    """A message can be refused, or be told with more; a text is context where one may speak."""

    def begin(told: SessionStartInput) -> str:
        return f"BEGUN BY {told.source}"

    def look(told: UserPromptSubmitInput) -> HookResult | None:
        if "password" in told.prompt:
            return HookResult(decision="deny", reason="no secrets")
        return HookResult(context="IT IS MONDAY", message="looked at")

    async with world([say("ok")], hooks=[begin, look]) as w:
        turn = await w.session.run("My password is x")
        assert (turn.why, turn.detail) == ("refused", "a hook refused the message: no secrets")
        assert (await w.session.run("Hi")).text == "ok"
        body = w.server.records[0].body
        assert 0 < body.index(b"BEGUN BY startup") < body.index(b"IT IS MONDAY") < body.index(b"Hi")
        assert b"password" not in body


async def test_a_function_keeps_an_agent_from_ending(world: Worlds) -> None:
    """To deny the end is to let it go on, with the reason before it."""

    def more(told: StopInput) -> HookResult | None:
        return None if told.stop_hook_active else HookResult(decision="deny", reason="TEST IT")

    async with world([say("done"), say("tested")], hooks=[more]) as w:
        assert (await w.session.run("Go")).text == "tested"
        assert "TEST IT" in w.server.records[1].request.last_text


async def test_a_question_where_nothing_is_asked_blocks(world: Worlds) -> None:
    """`ask` can only be honoured of a call; a message that waits for such an answer is refused."""

    def look(told: UserPromptSubmitInput) -> HookResult:
        del told
        return HookResult(decision="ask")

    async with world([say("ok")], hooks=[look]) as w:
        turn = await w.session.run("Hi")
        assert turn.why == "refused"
        assert "nothing to ask here" in turn.detail


@pytest.mark.parametrize("backend", ["inline", "process"])
async def test_children_are_guarded_by_functions(world: Worlds, backend: str) -> None:
    """Forks and typed agents get the hooks of the session, wherever they run."""
    seen: list[str] = []

    def guard(told: PreToolUseInput) -> HookResult | None:
        seen.append(f"{told.tool_name} {told.tool_input.get('command', '')}".strip())
        touches = "touch" in str(told.tool_input)
        return HookResult(decision="deny", reason="NO TOUCHING") if touches else None

    def begun(told: SubagentStartInput) -> None:
        seen.append(f"start {told.agent_type}")

    def ended(told: SubagentStopInput) -> None:
        seen.append(f"stop {told.agent_type} {told.status}")

    start = call("Agent", {"subagent_type": "worker", "prompt": "TYPED", "description": "x"})
    script = Script(
        [start, say("ok")],
        routes={
            "TYPED": [call("Bash", {"command": "touch typed"}), say("tried")],
            "FORKED": [call("Bash", {"command": "touch forked"}), report()],
        },
    )
    settings = json.dumps({"agents": {"backend": backend}})
    async with world(
        script, hooks=[guard, begun, ended], settings=settings, mode="bypassPermissions"
    ) as w:
        await w.session.run("Go")
        await w.session.fork(["FORKED"])
        assert {path.name for path in w.root.iterdir()} == set()
        bodies = b"".join(one.body for one in w.server.records)
        assert bodies.count(b"NO TOUCHING") >= 2
    assert seen == [
        "Agent",
        "start worker",
        "Bash touch typed",
        "stop worker completed",
        "start fork",
        "Bash touch forked",
        "stop fork completed",
    ]


async def test_each_type_is_what_commands_are_told(world: Worlds) -> None:
    """The fields of each input are those of the JSON that a command of the same event reads."""
    entry = {"type": "command", "command": 'line=$(cat); echo "$line" >> told.jsonl'}
    settings = json.dumps({"hooks": {event: [{"hooks": [entry]}] for event in INPUTS}})
    seen: dict[str, HookInput] = {}

    def watch(kind: type[HookInput]) -> Callable[[Any], None]:
        def look(told: Any) -> None:
            seen[kind.__name__.removesuffix("Input")] = told

        look.__annotations__["told"] = kind
        return look

    script = Script(
        [
            call("Bash", {"command": "touch made"}),
            call("Bash", {"command": "false"}),
            say("ok"),
            say("a summary"),
        ],
        routes={"FORKED": [report()]},
    )
    hooks = [watch(kind) for kind in INPUTS.values()]

    async def respond(agent: str, asked: Any) -> prong.Answer:
        del agent
        return prong.Answer(asked.request_id)

    async with world(script, opens=False, respond=respond) as w:
        repo = Repo(w.root)
        for words in ("init -q", "config user.name Tester", "config user.email t@example.invalid"):
            repo.git(*words.split())
        repo.write("a.txt", "one\n")
        repo.commit("first")
        async with w.open(hooks=hooks, settings=settings) as session:
            await session.run("Go")
            await session.fork(["FORKED"], isolation="worktree")
            await session.send(Compact())
            await session.send(SetModel("claude-opus-5-5"))
        lines = (w.root / "told.jsonl").read_text().split("\n")
    told = {one["hook_event_name"]: one for one in map(json.loads, filter(None, lines))}
    assert set(told) == set(INPUTS) == set(seen)
    for event, value in seen.items():
        said = told[event]
        del said["hook_event_name"]
        given = msgspec.to_builtins(value)
        assert said.items() <= given.items()
        unsaid = {name: given[name] for name in given.keys() - said.keys()}
        assert not any(unsaid.values()), "what is not told is nothing"


async def test_the_conversation_stays_shared_with_contexts_of_hooks(world: Worlds) -> None:
    """What hooks add stands in the conversation once: siblings share it to the byte."""
    count = [0]

    def begin(told: SessionStartInput) -> str:
        del told
        count[0] += 1
        return f"BEGUN {count[0]}"

    def note(told: PreToolUseInput) -> HookResult:
        count[0] += 1
        return HookResult(context=f"NOTE {count[0]} {told.tool_name}")

    script = Script(
        [call("Glob", {"pattern": "*"}), say("ok")],
        routes={"ONE": [report()], "TWO": [report()]},
    )
    async with world(script, hooks=[begin, note], mode="dontAsk") as w:
        await w.session.run("Go")
        base = w.session.records.snapshot.open()
        results = await w.session.fork(["ONE", "TWO"])
        assert all(one.receipt.bytes_shared >= len(base) for one in results)
        for one in w.server.records[-2:]:
            assert b"BEGUN 1" in one.body
            assert b"NOTE 2 Glob" in one.body


async def test_a_changed_call_is_shown_as_it_runs(world: Worlds) -> None:
    """Events tell what runs; later hooks, too, are told of the call as it was changed."""
    seen: list[Any] = []

    def after(told: PostToolUseInput) -> None:
        seen.append((told.tool_input, told.tool_text, told.tool_response["stdout"]))

    change = HookResult(decision="allow", updated_input={"command": "echo changed"})
    async with world([TOUCH, say("ok")], hooks=[deciding(change)[0], after]) as w:
        await w.session.run("Go")
        assert w.told(ToolStarted)[0].arguments == '{"command":"echo changed"}'
    assert seen == [({"command": "echo changed"}, "changed", "changed")]


@pytest.mark.parametrize(
    ("hooks", "why"),
    [
        ("x", "must be a list of functions; write hooks"),
        ({"PreToolUse": []}, "must be a list of functions; write hooks"),
        ([3], "each item of the option hooks must be a function"),
        ([lambda told: None], "does not say which event it is for"),
    ],
)
async def test_a_wrong_list_is_refused_before_anything_is_made(
    world: Worlds, hooks: Any, why: str
) -> None:
    """The error says what is wrong, and no journal is left behind."""
    async with world(opens=False) as w:
        with pytest.raises(prong.UsageError) as caught:
            async with w.open(hooks=hooks):
                pass
        assert why in str(caught.value)
        assert [*w.store.rglob("*.jsonl")] == []


async def test_a_matcher_of_settings_where_nothing_has_a_name_chooses_nothing(
    world: Worlds,
) -> None:
    """A guard of messages is asked whatever its matcher says: it would guard nothing otherwise."""
    entry = {"type": "command", "command": "echo no >&2; exit 2"}
    group = {"matcher": "Bash", "hooks": [entry]}
    settings = json.dumps({"hooks": {"UserPromptSubmit": [group]}})
    async with world([say("ok")], settings=settings) as w:
        assert (await w.session.run("Hi")).why == "refused"
