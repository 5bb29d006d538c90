"""Answers of a Python type: asked for per message, checked, repaired, and never in the head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypedDict

import msgspec
import pydantic
import pytest

from prong.errors import BadInput, NoAnswer, SessionEnded
from prong.session.answer_type import TRIES, AnswerType, UnreadAnswer, ValueTurn
from prong.testing import Script, Worlds, call, fail, forks, report, say

pytestmark = [pytest.mark.anyio, pytest.mark.spec("B4")]

APIS = ["anthropic", "responses", "chat"]


class Finding(msgspec.Struct, frozen=True):
    """A struct."""

    file: str
    line: int
    level: Literal["low", "high"] = "low"


@dataclass
class Found:
    file: str
    line: int


class FoundDict(TypedDict):
    file: str
    line: int


class FoundModel(pydantic.BaseModel):
    file: str
    line: int = pydantic.Field(ge=1)


GOOD = '{"file": "a.py", "line": 3}'


@pytest.mark.parametrize("api", APIS)
async def test_a_run_gives_a_value_of_the_type(world: Worlds, api: str) -> None:
    """The answer is the type; the schema stood in the message, and nothing in the head."""
    async with world([say("Hi."), say(GOOD), say("Bye.")], api=api) as w:
        await w.session.run("Hello")
        turn = await w.session.run("Where is it?", returns=Finding)
        await w.session.run("Thanks")
        assert turn.value == Finding("a.py", 3)
        assert (turn.ok, turn.turns) == (True, 1)
        first, asked, last = w.bodies()
        assert first["tools"] == asked["tools"] == last["tools"]
        key = "input" if api == "responses" else "messages"
        said = msgspec.json.encode(asked[key][-1]).decode()
        assert '\\"required\\":[\\"file\\",\\"line\\"]' in said


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Found, GOOD, Found("a.py", 3)),
        (FoundDict, GOOD, {"file": "a.py", "line": 3}),
        (FoundModel, GOOD, FoundModel(file="a.py", line=3)),
        (list[Finding], f"[{GOOD}]", [Finding("a.py", 3)]),
        (int, "42", 42),
        (bool, " true\n", True),
        (Finding, f"Here it is:\n\n```json\n{GOOD}\n```\n", Finding("a.py", 3)),
        (Finding, f"It is {GOOD}, I think.", Finding("a.py", 3)),
        (list[int], "These: [1, 2]", [1, 2]),
    ],
)
async def test_types_of_every_kind(world: Worlds, kind: Any, text: str, value: Any) -> None:
    """Dataclasses, typed dicts, pydantic models, lists and plain values, with words around or not."""
    async with world([say(text)]) as w:
        turn = await w.session.run("Where?", returns=kind)
        assert isinstance(turn, ValueTurn)
        assert turn.value == value


async def test_a_wrong_answer_is_repaired(world: Worlds) -> None:
    """The model is told what is wrong, in the same conversation; all that it took is counted."""
    script = [say("Over there."), say('{"file": "a.py", "line": "three"}'), say(GOOD)]
    async with world(script) as w:
        turn = await w.session.run("Where?", returns=Finding)
        assert turn.value == Finding("a.py", 3)
        assert turn.turns == 3
        assert turn.usage == w.session.usage
        assert turn.cost == pytest.approx(w.session.cost)
        told = [msgspec.json.encode(body["messages"][-1]).decode() for body in w.bodies()]
        assert "it is not JSON" in told[1]
        assert "Expected `int`, got `str` - at `$.line`" in told[2]


async def test_a_model_that_never_answers_is_a_clear_failure(world: Worlds) -> None:
    """After a few tries the turn has failed: `value` raises with the reason, the text is there."""
    async with world([say('{"file": 1}')] * TRIES) as w:
        turn = await w.session.run("Where?", returns=Finding)
        assert (turn.ok, turn.why, turn.text) == (False, "error", '{"file": 1}')
        assert len(w.bodies()) == TRIES
        with pytest.raises(NoAnswer, match=r"no Finding in 3 replies; of the last, Expected `str`"):
            _ = turn.value


async def test_a_turn_that_failed_is_not_asked_again(world: Worlds) -> None:
    """What went wrong before there was a reply is the reason."""
    async with world([fail(400, "invalid_request_error", "no")]) as w:
        turn = await w.session.run("Where?", returns=Finding)
        with pytest.raises(NoAnswer, match="no"):
            _ = turn.value
        assert len(w.bodies()) == 1


async def test_what_background_work_reported_is_in_the_answer(world: Worlds) -> None:
    """The reply is read when everything that the turn started has been worked on."""
    script = Script(
        [forks("LOOK."), say("I wait."), say(GOOD)], routes={"LOOK.": [report("a.py:3")]}
    )
    async with world(script, mode="dontAsk") as w:
        turn = await w.session.run("Where?", returns=Finding)
        assert turn.value == Finding("a.py", 3)


@pytest.mark.parametrize("api", APIS)
async def test_forks_give_values(world: Worlds, api: str) -> None:
    """Each answers by itself; one that is wrong is asked again, alone, on its own prompt."""
    script = Script(
        [say("ready")],
        routes={
            "PART-a.": [call("Read", {"file_path": "a.txt"}), say(GOOD)],
            "PART-b.": [report("not JSON"), say('{"file": "b.py", "line": 4}')],
        },
    )
    async with world(script, api=api, files={"a.txt": "x"}, mode="dontAsk") as w:
        await w.session.run("Go")
        a, b = await w.session.fork(["PART-a.", "PART-b."], returns=Finding)
        assert (a.value, b.value) == (Finding("a.py", 3), Finding("b.py", 4))
        assert a.receipt.bytes_shared == b.receipt.bytes_shared
        assert [one.receipt.miss for one in (a, b)] == ["", ""]
        assert [one.receipt.requests for one in (a, b)] == [2, 2]
        titles = [child.spec.description for child in w.parts.supervisor.children]
        assert titles == ["PART-a.", "PART-b."]
        for name in ("PART-a.", "PART-b."):
            told = next(text for body in w.bodies() if name in (text := str(body)))
            assert '"required":["file","line"]' in told.rpartition(name)[2]
        # Nobody was to be told but the caller.
        assert w.parts.agent.conversation.prompt.depth == 2


async def test_a_fork_without_a_value_is_a_failure_among_others(world: Worlds) -> None:
    """One that never answers is marked as failed; its sibling's value is there."""
    script = Script([say("ready")], routes={"A.": [say("no")] * TRIES, "B.": [say(GOOD)]})
    async with world(script, mode="dontAsk") as w:
        await w.session.run("Go")
        a, b = await w.session.fork(["A.", "B."], returns=Finding)
        assert (a.status, b.status) == ("failed", "completed")
        assert b.value == Finding("a.py", 3)
        with pytest.raises(NoAnswer, match="no Finding in 3 replies"):
            _ = a.value


class Opaque:
    pass


async def test_a_type_that_no_model_can_be_asked_for_is_refused(world: Worlds) -> None:
    """Before anything is said; nor can the answer be of a type and of the session's schema."""
    async with world(opens=False) as w:
        async with w.open(mode="dontAsk") as session:
            with pytest.raises(BadInput, match="returns=Opaque cannot be asked of a model"):
                await session.run("Go", returns=Opaque)
            with pytest.raises(BadInput, match="returns=Opaque"):
                await session.fork(["Go"], returns=Opaque)
        async with w.open(json_schema='{"type": "object"}') as session:
            with pytest.raises(BadInput, match="answers by its json_schema"):
                await session.run("Go", returns=Finding)
        async with w.open(mode="dontAsk") as session:
            pass
        with pytest.raises(SessionEnded):
            await session.fork(["Go"], returns=Finding)
        assert not w.bodies()


def test_a_reply_is_read_without_guessing() -> None:
    """What is not of the type is not bent until it is."""
    read = AnswerType(Finding).read
    for text in ("", "{", "[]", '{"file": "a.py"}', "{" * 10_000, "null"):
        assert isinstance(read(text), UnreadAnswer), text
