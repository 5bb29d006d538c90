"""One turn: answers, calls, results."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import anyio
import msgspec
import pytest

from prong.entry import Reply, Results, plain
from prong.event import SessionFinished, ToolFinished, ToolStarted
from prong.testing import Step, Worlds, call, calls, refuse, say, think, truncate

pytestmark = pytest.mark.anyio

APIS = ["anthropic", "responses", "chat", "gemini"]


@pytest.mark.spec("L1", "L9")
@pytest.mark.parametrize("api", APIS)
async def test_a_plain_answer(world: Worlds, api: str) -> None:
    """A reply without calls ends the turn."""
    async with world([say("Hello there.")], api=api) as w:
        turn = await w.session.run("Hi")
        assert (turn.text, turn.why, turn.turns) == ("Hello there.", "done", 1)


@pytest.mark.spec("X4")
async def test_a_session_names_itself(world: Worlds) -> None:
    """At a Python prompt a session shows by which id it can be resumed, its model and its mode."""
    async with world([], mode="plan") as w:
        assert repr(w.session) == f"<Session {w.session.id} claude-sonnet-5-5 plan>"


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


@pytest.mark.spec("L4")
@pytest.mark.parametrize("api", APIS)
async def test_reads_run_together_and_writes_in_order(world: Worlds, api: str) -> None:
    """Reads of one reply overlap, writes follow one another, results stand in call order."""
    script = [
        calls(
            ("Grep", {"pattern": "alpha", "output_mode": "content"}),
            ("Grep", {"pattern": "beta", "output_mode": "content"}),
            ("Bash", {"command": "sleep 0.2; echo one >> log"}),
            ("Bash", {"command": "echo two >> log"}),
            ("Read", {"file_path": "log"}),
        ),
        say("Done."),
    ]
    files = {"a.txt": "alpha\n", "b.txt": "beta\n"}
    async with world(script, files=files, api=api, mode="bypassPermissions") as w:
        await w.session.run("Go")
        assert (w.root / "log").read_text() == "one\ntwo\n"
        entries = [entry for _, entry in w.parts.agent.conversation.prompt.entries()]
        reply, results = entries[1], entries[2]
        assert isinstance(reply, Reply)
        assert isinstance(results, Results)
        assert [r.call_id for r in results.results] == [c.id for c in reply.calls]
        texts = [plain(r.parts) for r in results.results]
        assert "alpha" in texts[0]
        assert "beta" in texts[1]
        assert "one" in texts[4]
        assert "two" in texts[4]
        kinds = [e for e in w.events if isinstance(e, ToolStarted | ToolFinished)]
        assert [type(e) for e in kinds[:2]] == [ToolStarted, ToolStarted]
        names = [(type(e), e.name) for e in kinds[4:8]]
        assert names == [(ToolStarted, "Bash"), (ToolFinished, "Bash")] * 2


@pytest.mark.spec("L3")
async def test_a_stale_read_is_refused_and_can_be_repaired(world: Worlds) -> None:
    """An edit of a file that changed since it was read fails; reading it again mends that."""
    edit = {"file_path": "a.py", "old_string": "x = 1", "new_string": "x = 2"}
    script = [
        call("Edit", edit),
        call("Read", {"file_path": "a.py"}),
        call("Bash", {"command": "echo '# more' >> a.py"}),
        call("Edit", edit),
        call("Read", {"file_path": "a.py"}),
        call("Edit", edit),
        say("Done."),
    ]
    async with world(script, files={"a.py": "x = 1\n"}, mode="bypassPermissions") as w:
        await w.session.run("Make it 2")
        failed = [(e.name, e.failed) for e in w.told(ToolFinished)]
        assert failed == [
            ("Edit", True),
            ("Read", False),
            ("Bash", False),
            ("Edit", True),
            ("Read", False),
            ("Edit", False),
        ]
        assert (w.root / "a.py").read_text() == "x = 2\n# more\n"


@pytest.mark.spec("L1")
@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    ("step", "told"),
    [
        (call("Fly", {"to": "moon"}), "there is no tool 'Fly'"),
        (call("Read", {"path": "a.py"}), "not of its schema"),
        (call("Read", '{"file_path": "a.p'), "not valid JSON"),
        (truncate(then=call("Read", '{"file_path": "a.p')), "not valid JSON"),
        (call("Read", ""), "not of its schema"),
        (call("Read", "[]"), "not of its schema"),
    ],
)
async def test_a_bad_call_is_told_to_the_model(
    world: Worlds, api: str, step: Step, told: str
) -> None:
    """Unknown tools, wrong arguments and cut-off arguments are failures the model can repair."""
    if api == "gemini" and told == "not valid JSON":
        # Its calls come whole, as objects.
        told = "not of its schema"
    async with world([step, say("I see.")], api=api) as w:
        turn = await w.session.run("Go")
        assert turn.text == "I see."
        finished = w.told(ToolFinished)
        assert [e.failed for e in finished] == [True]
        assert told in finished[0].text


@pytest.mark.spec("L6")
@pytest.mark.parametrize("api", APIS)
async def test_a_long_result_is_stored_and_previewed_for_good(world: Worlds, api: str) -> None:
    """What is over its budget goes into a file when it is appended; later requests repeat it."""
    line = "0123456789" * 20
    files = {f"d/{n}.txt": f"{line}\n" * 30 for n in range(20)}
    script = [
        call("Grep", {"pattern": "0", "path": "d", "output_mode": "content"}),
        say("One."),
        say("Two."),
    ]
    async with world(script, files=files, api=api) as w:
        await w.session.run("Search")
        await w.session.run("And?")
        shown = w.told(ToolFinished)[0].text
        found = re.search(r"is in (\S+): read", shown)
        assert found is not None, shown[-500:]
        whole = Path(found[1]).read_text()
        assert len(whole) > len(shown)
        assert whole.startswith(shown[:1000])
        tail = [r.request.blocks for r in w.server.records[1:]]
        assert [b.raw for b in tail[1][: len(tail[0])]] == [b.raw for b in tail[0]]


@pytest.mark.spec("L9")
@pytest.mark.parametrize("api", APIS)
async def test_thinking_is_sent_back_as_it_came(world: Worlds, api: str) -> None:
    """Thinking with its signature comes back byte for byte; the server would refuse it else."""
    script = [
        think("Let me see.", then=call("Read", {"file_path": "a.py"})),
        think("Now I know.", then=say("It is 1.")),
        say("Bye."),
    ]
    async with world(script, files={"a.py": "x = 1\n"}, api=api, thinking=True) as w:
        await w.session.run("What is x?")
        turn = await w.session.run("Thanks")
        assert turn.text == "Bye."
        last = w.server.records[-1].body
        if api == "anthropic":
            assert last.count(b'"signature":') == 2
        if api == "responses":
            assert last.count(b'"encrypted_content":') == 2


PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.mark.spec("L2", "L9")
@pytest.mark.parametrize("api", APIS)
async def test_a_picture_reaches_the_model(world: Worlds, api: str) -> None:
    """Reading a picture puts it before the model in the form of each API."""
    script = [call("Read", {"file_path": "dot.png"}), say("A dot."), say("Still.")]
    async with world(script, files={"dot.png": PNG}, api=api) as w:
        await w.session.run("What is it?")
        await w.session.run("Sure?")
        assert base64.b64encode(PNG) in w.server.records[1].body
        assert [r.status for r in w.server.records] == [200] * 3


@pytest.mark.spec("L10")
@pytest.mark.parametrize("api", APIS)
async def test_a_refusal_and_a_truncation_are_told(world: Worlds, api: str) -> None:
    """A refused or cut-off reply ends the turn under its own name, and the next turn works."""
    script = [refuse("I cannot."), truncate("This answer is too"), say("Fine.")]
    async with world(script, api=api) as w:
        assert (await w.session.run("Bad")).why == "refused"
        turn = await w.session.run("Long")
        assert (turn.why, turn.text) == ("cut_off", "This answer is too")
        assert (await w.session.run("Go on")).ok


@pytest.mark.spec("L10", "L1")
async def test_calls_of_a_refused_reply_do_not_run(world: Worlds) -> None:
    """A reply that ends in a refusal is not acted on, and its calls have results all the same."""
    step = msgspec.structs.replace(call("Bash", {"command": "touch made"}), stop="refusal")
    async with world([step, say("Fine.")], mode="bypassPermissions") as w:
        assert (await w.session.run("Go")).why == "refused"
        assert not (w.root / "made").exists()
        assert (await w.session.run("Else?")).ok


@pytest.mark.spec("L1")
async def test_messages_said_during_a_turn_join_at_the_boundary(world: Worlds) -> None:
    """What is said while a turn runs stands after the results and before the next request."""
    script = [call("Bash", {"command": "until [ -e go ]; do sleep 0.02; done"}), say("Both done.")]
    async with world(script, mode="bypassPermissions") as w:
        async with anyio.create_task_group() as group:
            group.start_soon(w.session.run, "First")
            while not w.told(ToolStarted):
                await anyio.sleep(0.01)
            await w.session.say("Second")
            (w.root / "go").touch()
        assert len(w.server.records) == 2
        kinds = [kind for kind, _ in w.parts.agent.conversation.prompt.entries()]
        assert kinds == ["user", "reply", "results", "user", "reply"]
        assert "Second" in w.server.records[1].request.last_text


@pytest.mark.spec("K1", "K2")
async def test_every_request_is_in_the_ledger(world: Worlds) -> None:
    """The ledger's usage is the server's, and an unknown price is never free."""
    script = [call("Read", {"file_path": "a.py"}), say("Done.")]
    async with world(script, files={"a.py": "x = 1\n"}) as w:
        await w.session.run("Go")
        assert [row.usage for row in w.parts.ledger.rows] == [r.usage for r in w.server.records]
        assert w.session.cost is not None
        assert w.session.cost > 0
    assert w.told(SessionFinished)[0].usage == w.session.usage


@pytest.mark.spec("K2")
async def test_an_unknown_price_is_said(world: Worlds) -> None:
    """A model that nobody prices costs `None`, not nothing."""
    async with world([say("Hi.")], api="chat", model="home-made-1") as w:
        turn = await w.session.run("Hi")
        assert turn.cost is None
        assert w.session.cost is None
