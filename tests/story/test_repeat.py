"""A model that only repeats itself is told, then refused, then stopped."""

from __future__ import annotations

import pytest

from prong.agent import repeat
from prong.agent.repeat import REFUSE_AT, WAITED, Repeats
from prong.entry import Call, CallId, Text, plain
from prong.event import ToolFinished
from prong.testing import Script, Step, Worlds, call, calls, say
from prong.tools.tool import CallOutcome, Done, Failed

pytestmark = [pytest.mark.anyio, pytest.mark.spec("L1")]

READ = ("Read", {"file_path": "notes.txt"})


@pytest.fixture
def no_call_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take no call for one that waited, however slow the machine is."""
    monkeypatch.setattr(repeat, "WAITED", 600.0)


@pytest.mark.usefixtures("no_call_waits")
async def test_a_loop_is_told_then_refused_then_ended(world: Worlds) -> None:
    """Of a call that never changes four run, two of them with a note; the third refusal ends it."""
    async with world(Script(forever=call(*READ))) as w:
        w.write("notes.txt", "one line\n")
        turn = await w.session.run("Go")

        assert turn.why == "loop"
        assert "Read was called 7 times with the same arguments and the same result" in turn.detail
        assert turn.turns == 7
        ends = w.told(ToolFinished)
        assert [end.refused for end in ends] == [False] * 4 + [True] * 3
        assert ["call number" in end.text for end in ends[:4]] == [False, False, True, True]
        assert all("not run: Read was called" in end.text for end in ends[4:])


@pytest.mark.usefixtures("no_call_waits")
async def test_the_next_turn_begins_anew(world: Worlds) -> None:
    """What the user says may change everything: nothing is held against the model."""
    script = Script([call(*READ)] * 7 + [call(*READ), say("Read it.")])
    async with world(script) as w:
        w.write("notes.txt", "one line\n")
        assert (await w.session.run("Go")).why == "loop"
        turn = await w.session.run("Once more")

        assert (turn.why, turn.text) == ("done", "Read it.")
        assert not w.told(ToolFinished)[-1].refused


@pytest.mark.usefixtures("no_call_waits")
async def test_equal_calls_of_one_reply(world: Worlds) -> None:
    """Of 21 equal reads in one reply four run; the model may answer, for it was told only now."""
    async with world([calls(*[READ] * 21), say("I see.")]) as w:
        w.write("notes.txt", "one line\n")
        turn = await w.session.run("Go")

        assert (turn.why, turn.text) == ("done", "I see.")
        assert [end.refused for end in w.told(ToolFinished)].count(True) == 17


@pytest.mark.usefixtures("no_call_waits")
async def test_two_calls_in_turn(world: Worlds) -> None:
    """A loop of two calls is one too, failing calls included."""
    edit = ("Edit", {"file_path": "notes.txt", "old_string": "none", "new_string": "x"})
    script = Script([call(*(READ if i % 2 else edit)) for i in range(60)])
    async with world(script, mode="acceptEdits") as w:
        w.write("notes.txt", "one line\n")
        turn = await w.session.run("Go")

        assert turn.why == "loop"
        assert turn.turns == 14


async def test_work_is_no_loop(world: Worlds) -> None:
    """The same check after each of ten changes is honest work, however often it says the same."""
    steps: list[Step] = []
    for i in range(10):
        args = {"file_path": "notes.txt", "content": f"{i}\n"}
        steps += [call("Write", args), call("Bash", {"command": "echo fine"}), call(*READ)]
    async with world([*steps, say("Done.")], mode="bypassPermissions") as w:
        turn = await w.session.run("Go")

        assert turn.text == "Done."
        assert not any(end.refused or "call number" in end.text for end in w.told(ToolFinished))


def one(
    repeats: Repeats, outcome: CallOutcome, *, name: str = "Bash", arguments: str = "{}", **how
):
    """Play one reply with one call; gives what the model reads."""
    made = Call(CallId("c"), name, arguments)
    repeats.begin_reply()
    if (why := repeats.refuse(made)) is not None:
        return why
    told = repeats.told(made, outcome, seconds=how.get("seconds", 0.0), writes=how.get("writes", 0))
    return told.why if isinstance(told, Failed) else plain(told.parts[-1:])


def done(text: str) -> Done:
    return Done((Text(text),))


def test_waiting_is_no_loop() -> None:
    """A call that takes its time, and one whose result changes, may be repeated for ever."""
    repeats = Repeats()
    for _ in range(50):
        assert one(repeats, done("still running"), seconds=WAITED) == "still running"
    for i in range(50):
        assert one(repeats, done(f"{i} %"), arguments='{"command": "progress"}') == f"{i} %"
    for _ in range(50):
        assert one(repeats, done("running"), name="TaskOutput") == "running"
    assert not repeats.stuck


def test_the_order_of_arguments_does_not_matter() -> None:
    """Two ways to write the same arguments are one call."""
    repeats = Repeats()
    for i in range(REFUSE_AT - 1):
        one(repeats, done("x"), arguments=('{"a": 1, "b": 2}', '{"b":2,"a":1}')[i % 2])

    assert one(repeats, done("x"), arguments='{"b": 2, "a": 1}').startswith("not run")


def test_only_a_change_begins_the_count_anew() -> None:
    """A write that did something new does; one that failed, or did the same again, does not."""
    repeats = Repeats()
    for _ in range(REFUSE_AT - 1):
        one(repeats, done("x"))
    one(repeats, Failed("no"), name="Edit", writes=True)
    assert one(repeats, done("x")).startswith("not run")

    one(repeats, done("edited"), name="Edit", writes=True)
    assert one(repeats, done("x")) == "x"
    for _ in range(REFUSE_AT - 2):
        one(repeats, done("x"))
    one(repeats, done("edited"), name="Edit", writes=True)
    assert one(repeats, done("x")).startswith("not run")


def test_broken_arguments_repeat_too() -> None:
    """What cannot be parsed is compared as it stands."""
    repeats = Repeats()
    for _ in range(REFUSE_AT - 1):
        one(repeats, Failed("no JSON"), arguments="{")

    assert one(repeats, Failed("no JSON"), arguments="{").startswith("not run")
