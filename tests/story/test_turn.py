"""One turn: answers, calls, results."""

from __future__ import annotations

import pytest

from prong.testing import Worlds, call, calls, say, think

pytestmark = pytest.mark.anyio

APIS = ["anthropic", "responses", "chat"]


@pytest.mark.spec("L1", "L9")
@pytest.mark.parametrize("api", APIS)
async def test_a_plain_answer(world: Worlds, api: str) -> None:
    """A reply without calls ends the turn."""
    async with world([say("Hello there.")], api=api) as w:
        turn = await w.session.run("Hi")
        assert (turn.text, turn.why, turn.turns) == ("Hello there.", "done", 1)


@pytest.mark.spec("L1", "L2", "L9")
@pytest.mark.parametrize("api", APIS)
async def test_tool_round_trips(world: Worlds, api: str) -> None:
    """Calls are run, their results go back, and each request extends the one before."""
    script = [
        say("Looking.", then=call("Read", {"file_path": "a.py"})),
        call("Edit", {"file_path": "a.py", "old_string": "x = 1", "new_string": "x = 2"}),
        call("Bash", {"command": "cat a.py", "description": "see"}),
        say("Done."),
    ]
    async with world(script, files={"a.py": "x = 1\n"}, api=api, mode="acceptEdits") as w:
        turn = await w.session.run("Make it 2")
        assert (turn.text, turn.why, turn.turns) == ("Done.", "done", 4)
        assert (w.root / "a.py").read_text() == "x = 2\n"
        assert "x = 2" in w.server.records[3].request.last_text
        assert [r.status for r in w.server.records] == [200] * 4
