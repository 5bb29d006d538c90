"""Compaction: a summary takes the place of a long conversation."""

from __future__ import annotations

import re
from pathlib import Path

import anyio
import msgspec
import pytest

from prong.command import Accepted, Clear, Compact, Interrupt, Refused
from prong.entry import Text, User
from prong.event import PromptMoved, RequestSent, Warned
from prong.testing import Options, Step, Worlds, call, calls, delay, say, stall
from prong.testing.request import Request

pytestmark = [pytest.mark.anyio, pytest.mark.spec("L7")]

APIS = ["anthropic", "responses", "chat", "gemini"]
LONG = "All work and no play makes a dull story. " * 200


@pytest.mark.moves_prefix("compaction starts a new prompt")
@pytest.mark.parametrize("api", APIS)
async def test_on_command(world: Worlds, api: str) -> None:
    """The summary is asked for on the cached prompt; then a new prompt begins with it."""
    script = [say(LONG), say("THE SUMMARY"), say("Going on.")]
    async with world(script, api=api) as w:
        await w.session.run(f"Tell me. {LONG}")
        await w.session.send(Compact("the plot"))
        moved = w.told(PromptMoved)
        assert [m.reason for m in moved] == ["compaction"]
        assert moved[0].after < moved[0].before
        asked = w.server.records[1]
        assert "the plot" in asked.request.last_text
        assert asked.headers["x-prong-sidecar"] == "compaction"
        # The law for sidecars: the request extends the conversation, so nearly all is read.
        assert asked.seen is not None
        assert asked.seen.breach is None
        if api == "anthropic":
            assert asked.usage.read > 0.8 * w.server.records[0].usage.input
        assert (await w.session.run("Go on")).text == "Going on."
        body = w.server.records[2].body.decode()
        assert "THE SUMMARY" in body
        assert "dull story" not in body
        assert [e.sidecar for e in w.told(RequestSent)] == ["", "compaction", ""]


@pytest.mark.moves_prefix("compaction starts a new prompt")
@pytest.mark.parametrize("api", APIS)
async def test_at_the_threshold(world: Worlds, api: str) -> None:
    """Near the limit the agent compacts by itself, and the last message survives word for word."""
    script = [say(LONG), say("THE SUMMARY"), say("Going on.")]
    async with world(script, api=api, context_tokens=12_000, compact_at=0.6) as w:
        await w.session.run(f"Tell me. {LONG}")
        assert (await w.session.run("Now the END, exactly so")).text == "Going on."
        assert [m.reason for m in w.told(PromptMoved)] == ["compaction"]
        body = w.server.records[2].body.decode()
        assert "THE SUMMARY" in body
        assert "Now the END, exactly so" in body
        assert "dull story" not in body


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("depth", [1, 3])
async def test_nothing_before_the_first_reply_is_summed_up(
    world: Worlds, api: str, depth: int
) -> None:
    """A long first message is asked as it is, also behind reminders and messages without a reply:
    no summary may take the place of a question that was never answered.
    """
    async with world([say("Fine.")], api=api, context_tokens=9_000, compact_at=0.6) as w:
        if depth > 1:
            before = User((Text("Where this is."),), "reminder"), User((Text("One thing first."),))
            w.parts.agent.conversation.append(*before)
        assert (await w.session.run(f"END. {LONG * 2}")).text == "Fine."
        assert not w.told(PromptMoved)
        assert len(w.server.records) == 1
        assert LONG.strip() in w.server.records[0].request.last_text


@pytest.mark.moves_prefix("compaction starts a new prompt")
@pytest.mark.parametrize("api", APIS)
async def test_a_long_message_survives_if_it_fits(world: Worlds, api: str) -> None:
    """What is said last is kept word for word, also if it is the most of the conversation, as long
    as the model can read it beside a summary of the rest.
    """
    script = [say(LONG), say("THE SUMMARY"), say("Going on.")]
    async with world(script, api=api, context_tokens=20_000, compact_at=0.7) as w:
        await w.session.run("Tell me.")
        said = f"Now the END, exactly so. {LONG * 4}"
        assert (await w.session.run(said)).text == "Going on."
        assert [m.reason for m in w.told(PromptMoved)] == ["compaction"]
        assert "THE SUMMARY" in w.server.records[2].body.decode()
        assert w.server.records[2].request.last_text == said


@pytest.mark.moves_prefix("compaction starts a new prompt")
async def test_in_the_middle_of_a_turn(world: Worlds) -> None:
    """A turn goes on after a compaction between two of its requests."""
    script = [
        say("A", then=call("Read", {"file_path": "a.txt"})),
        say("THE SUMMARY"),
        call("Bash", {"command": "ls"}),
        say("Done."),
    ]
    files = {"a.txt": LONG.replace(". ", ".\n") * 4}
    async with world(script, files=files, context_tokens=10_000, compact_at=0.6) as w:
        turn = await w.session.run("Go")
        assert (turn.text, turn.why) == ("Done.", "done")
        assert len(w.told(PromptMoved)) == 1


@pytest.mark.moves_prefix("compaction starts a new prompt")
@pytest.mark.spec("L10")
@pytest.mark.parametrize("context", [8_500, 10_500, 13_000])
@pytest.mark.parametrize("api", APIS)
async def test_after_an_overflow(world: Worlds, api: str, context: int) -> None:
    """When the provider says it is too long, as much as fits is summarised and the rest kept."""

    def script(request: Request) -> Step:
        if "replaced by a summary" in request.last_text:
            return say("THE SUMMARY")
        return say("Fine." if "END" in request.last_text else LONG)

    serving = Options(context=context)
    async with world(script, api=api, serving=serving, compact_at=0.0) as w:
        for text in ("One", "Two"):
            assert (await w.session.run(f"{text}. {LONG}")).ok
        turn = await w.session.run(f"END. {LONG}")
        assert (turn.text, turn.why) == ("Fine.", "done"), turn.detail
        assert {r.status for r in w.server.records} == {200, 400}
        moved = w.told(PromptMoved)
        assert {m.reason for m in moved} == {"compaction"}
        assert all("too long" in m.detail for m in moved)
        assert "THE SUMMARY" in w.server.records[-1].body.decode()


def _summing(request: Request) -> Step:
    """Sum up when asked to; else read three large files at once, and then say so."""
    if "replaced by a summary" in request.last_text:
        return say("THE SUMMARY. " * 40)
    if "END" in request.last_text:
        return calls(*[("Read", {"file_path": f"{name}.txt"}) for name in "abc"])
    return say("Read.")


@pytest.mark.moves_prefix("compaction starts a new prompt")
@pytest.mark.spec("L10")
@pytest.mark.parametrize("api", APIS)
async def test_results_that_overflow_by_themselves_are_cut(world: Worlds, api: str) -> None:
    """Where a summary cannot help, large results are stored and previews take their place."""
    files = {f"{name}.txt": LONG.replace(". ", f" {name}.\n") * 4 for name in "abc"}
    serving = Options(context=12_000)
    async with world(_summing, api=api, serving=serving, files=files, compact_at=0.0) as w:
        turn = await w.session.run("END")

        assert (turn.text, turn.why) == ("Read.", "done"), turn.detail
        moved = w.told(PromptMoved)
        assert moved
        assert all(m.after < m.before for m in moved)
        last = w.server.records[-1].body.decode()
        assert "characters left out here" in last
        for path in re.findall(r"characters is in ([^:]+\.txt): read", last):
            assert LONG.split(". ", maxsplit=1)[0] in Path(path).read_text("utf-8")


@pytest.mark.spec("L10")
async def test_a_summary_that_is_longer_is_not_taken(world: Worlds) -> None:
    """A conversation never becomes longer by compaction; it stays as it was, and that is said."""
    async with world([say("Hello."), say(LONG), say("Still here.")]) as w:
        await w.session.run("Hi")
        before = w.parts.agent.conversation.prompt
        outcome = await w.session.send(Compact())
        assert isinstance(outcome, Refused)
        assert "no shorter" in outcome.why

        assert w.parts.agent.conversation.prompt is before
        assert (await w.session.run("And?")).text == "Still here."


@pytest.mark.spec("L10")
@pytest.mark.parametrize("api", APIS)
async def test_a_first_message_that_is_too_long(world: Worlds, api: str) -> None:
    """The reason says what to do about a message, not about a conversation that is not there."""
    async with world([say("No.")], api=api, serving=Options(context=1_000)) as w:
        turn = await w.session.run("Hello")

        assert turn.why == "error"
        assert "nothing before this message that could be summarised" in turn.detail
        assert "shorten the message, choose a model that reads more" in turn.detail
        assert "--context-tokens" in turn.detail
        assert "/clear" not in turn.detail


@pytest.mark.spec("L10")
async def test_what_cannot_be_made_shorter_ends_the_turn(world: Worlds) -> None:
    """If no summary helps, the turn ends with the provider's reason and what can be done."""

    def script(request: Request) -> Step:
        return say(LONG if "replaced by a summary" in request.last_text else "Hello.")

    serving = Options(context=5_000)
    async with world(script, serving=serving, compact_at=0.0) as w:
        await w.session.run("Hi")
        turn = await w.session.run("END " * 1_500)

        assert turn.why == "error"
        assert "start a new one, choose a model that reads more" in turn.detail
        assert not w.told(PromptMoved)


async def test_no_summary_no_change(world: Worlds) -> None:
    """A model that calls a tool instead of summing up changes nothing."""
    script = [say("Hello."), call("Read", {"file_path": "a"}), say("Still here.")]
    async with world(script) as w:
        await w.session.run("Hi")
        before = w.parts.agent.conversation.prompt
        refused = await w.session.send(Compact())
        assert isinstance(refused, Refused)
        assert "stays as it was" in refused.why
        assert w.parts.agent.conversation.prompt is before
        assert (await w.session.run("And?")).text == "Still here."


@pytest.mark.moves_prefix("compaction starts a new prompt")
@pytest.mark.spec("L10")
async def test_a_cut_off_summary_is_told(world: Worlds) -> None:
    """A summary that hit the output limit is used, with a warning."""
    cut_off = msgspec.structs.replace(say("HALF A SUMM"), stop="length")
    async with world([say("Hello."), cut_off, say("Fine.")]) as w:
        await w.session.run(f"Hi. {LONG}")
        await w.session.send(Compact())
        assert any("cut off" in e.text for e in w.told(Warned))


@pytest.mark.moves_prefix("the user cleared the conversation")
async def test_clear_starts_over(world: Worlds) -> None:
    """After a clear the model sees nothing of what was said."""
    async with world([say("Hello."), say("Who?")]) as w:
        await w.session.run("I am Ishmael")
        w.parts.agent.context.reads.hashes["/a"] = "b"
        await w.session.send(Clear())
        assert not w.parts.agent.context.reads.hashes
        await w.session.run("Who am I?")
        assert "Ishmael" not in w.server.records[1].body.decode()
        assert [m.reason for m in w.told(PromptMoved)] == ["clear"]


@pytest.mark.spec("L1")
async def test_a_compaction_can_be_interrupted(world: Worlds) -> None:
    """An interrupt stops a compaction by command, and the conversation is as it was."""
    async with world([say("Hello."), stall(600), say("Still here.")]) as w:
        await w.session.run("Hi")
        before = w.parts.agent.conversation.prompt

        async def stop() -> None:
            while len(w.server.records) < 2:
                await anyio.sleep(0.01)
            assert w.parts.busy
            assert isinstance(await w.session.send(Interrupt()), Accepted)

        async with anyio.create_task_group() as group:
            group.start_soon(stop)
            assert isinstance(await w.session.send(Compact()), Refused)
        assert w.parts.agent.conversation.prompt is before
        assert (await w.session.run("And?")).text == "Still here."


@pytest.mark.moves_prefix("compaction starts a new prompt")
async def test_a_message_waits_for_a_compaction(world: Worlds) -> None:
    """What is said while a compaction by command runs is answered after it, on the new prompt."""
    script = [say("Hello."), delay(0.3, then=say("THE SUMMARY")), say("Fine.")]
    async with world(script) as w:
        await w.session.run(f"Hi. {LONG}")
        async with anyio.create_task_group() as group:
            group.start_soon(w.session.send, Compact())
            while len(w.server.records) < 2:
                await anyio.sleep(0.01)
            turn = await w.session.run("Meanwhile")
            assert turn.text == "Fine."
        kinds = [kind for kind, _ in w.parts.agent.conversation.prompt.entries()]
        assert kinds == ["summary", "user", "reply"]


@pytest.mark.moves_prefix("compaction starts a new prompt")
@pytest.mark.spec("L11")
async def test_nested_instructions_come_again(world: Worlds) -> None:
    """Instructions of a folder that a summary swallowed are shown again with its next file."""
    read = call("Read", {"file_path": "sub/a.py"})
    script = [read, say("1."), say("THE SUMMARY"), read, say("2.")]
    files = {"sub/AGENTS.md": "Here use spaces.", "sub/a.py": "x = 1", "AGENTS.md": "Tabs."}
    async with world(script, files=files) as w:
        await w.session.run("Go")
        await w.session.send(Compact())
        await w.session.run("Go")
        assert "Here use spaces." in w.server.records[4].request.last_text
        assert "Tabs." not in w.server.records[4].request.last_text
