"""Compatible servers with small windows, and models that write their calls as text."""

from __future__ import annotations

import pytest

from prong.event import ToolFinished
from prong.testing import Options, Worlds, call, say

pytestmark = [pytest.mark.anyio, pytest.mark.spec("L9")]


async def test_a_small_window_has_room_for_a_conversation(world: Worlds) -> None:
    """With `--context-tokens 4096` a first message and a call fit into such a server."""
    script = [call("Read", {"file_path": "a.txt"}), say("It says hello.")]
    options = {"api": "chat", "context_tokens": 4_096, "serving": Options(context=4_096)}
    async with world(script, files={"a.txt": "hello\n"}, **options) as w:
        turn = await w.session.run("Hello")

        assert (turn.why, turn.text) == ("done", "It says hello.")
        assert w.server.records[0].usage.input < 2_000


async def test_a_call_written_as_text_is_made(world: Worlds) -> None:
    """It runs, its result goes back beside it, and the next request extends the one before."""
    written = '```json\n{"name": "Read", "arguments": {"file_path": "a.txt"}}\n```'
    script = [say(written), say(written.replace("a.txt", "b.txt")), say("Both read.")]
    files = {"a.txt": "hello\n", "b.txt": "there\n"}
    async with world(script, files=files, api="chat") as w:
        turn = await w.session.run("Read them")

        assert turn.text == "Both read."
        assert [end.failed for end in w.told(ToolFinished)] == [False, False]
        ids = {end.call_id for end in w.told(ToolFinished)}
        assert len(ids) == 2
        assert all(one.encode() in w.server.records[-1].body for one in ids)


async def test_a_call_written_as_text_needs_leave_like_any_other(world: Worlds) -> None:
    """A repaired call is decided on as if the model had made it."""
    written = '{"name": "Bash", "arguments": {"command": "touch made"}}'
    async with world([say(written), say("It was refused.")], api="chat") as w:
        turn = await w.session.run("Go")

        assert turn.text == "It was refused."
        assert [end.refused for end in w.told(ToolFinished)] == [True]
        assert not (w.root / "made").exists()
