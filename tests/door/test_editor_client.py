"""The official clients of the protocol drive `prong acp` through whole stories."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from prong.testing import Options, Script, World, Worlds, call, forks, report, say
from prong.testing.program import Program
from shared.editor import begun, gone
from shared.editor_schema import SDK

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("X5")]

SEVERAL = Options(several=True)
QUIET = ("--settings", '{"titles": false}')
QUESTION = {
    "questions": [
        {"question": "Which colour?", "options": [{"label": "Red"}, {"label": "Blue"}]},
    ]
}


def play() -> Script:
    """One that splits itself, one that works for ever, one that asks."""
    return Script(
        [],
        {
            "split it": [forks("PART red"), say("Waiting."), say("All done."), say("Really.")],
            "PART red": [call("Bash", {"command": "touch red"}), report("red is made")],
            "work slowly": [call("Bash", {"command": "echo $$ > begun; sleep 600"})],
            "ask me": [call("AskUserQuestion", QUESTION), say("Blue, then."), say("Copied.")],
        },
    )


class Client:
    """What the official Python client asks of whoever uses it."""

    def __init__(self) -> None:
        self.updates: list[tuple[str, Any]] = []
        self.asked: list[str] = []

    def on_connect(self, conn: Any) -> None:
        """Nothing is to be done."""

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append((session_id, update))

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **_: Any
    ) -> Any:
        from acp.schema import AllowedOutcome, RequestPermissionResponse

        self.asked.append(tool_call.title)
        # A question: the second of its answers; anything else: yes, this once.
        chosen = options[1] if options[0].option_id == "option-0" else options[0]
        outcome = AllowedOutcome(outcome="selected", option_id=chosen.option_id)
        return RequestPermissionResponse(outcome=outcome)

    def text(self, session: str) -> str:
        chunks = [one for to, one in self.updates if to == session]
        said = [one for one in chunks if one.session_update == "agent_message_chunk"]
        return "".join(one.content.text for one in said)

    def kinds(self) -> set[str]:
        return {one.session_update for _, one in self.updates}


async def _said(conn: Any, session: str, text: str, stops: dict[str, str]) -> None:
    from acp.schema import TextContentBlock

    block = TextContentBlock(type="text", text=text)
    answer = await conn.prompt(session_id=session, prompt=[block])
    stops[text] = answer.stop_reason


async def _story(conn: Any, client: Client, w: World) -> str:
    """Play the story with the Python client; gives the session that was stopped."""
    cwd = str(w.root)
    one, two, three = [
        (await conn.new_session(cwd=cwd, mcp_servers=[])).session_id for _ in range(3)
    ]
    stops: dict[str, str] = {}
    pid = 0
    async with anyio.create_task_group() as group:
        for session, text in ((one, "split it"), (two, "work slowly"), (three, "ask me")):
            group.start_soon(_said, conn, session, text, stops)
        pid = await begun(w.root / "begun")
        await conn.cancel(session_id=two)
    assert stops == {"split it": "end_turn", "work slowly": "cancelled", "ask me": "end_turn"}
    assert await gone(pid)
    assert "All done." in client.text(one)
    assert (w.root / "red").exists()
    assert client.text(three).endswith("Blue, then.")
    assert any(one.endswith("] touch red") for one in client.asked)
    copy = (await conn.fork_session(session_id=three, cwd=cwd)).session_id
    await _said(conn, copy, "in the copy", stops)
    assert client.text(copy) == "Copied."
    assert len((await conn.list_sessions(cwd=cwd)).sessions) == 4
    await conn.set_session_mode(session_id=three, mode_id="acceptEdits")
    changed = await conn.set_config_option(session_id=three, config_id="mode", value="default")
    assert changed.config_options[0].current_value == "default"
    await conn.close_session(session_id=two)
    return two


async def test_the_official_python_client(world: Worlds, program: Program) -> None:
    """Three sessions at once, a cancel, a fork, a question, options, and the past once more."""
    acp = pytest.importorskip("acp", reason="the official client is not installed; see Makefile")
    client = Client()
    async with world(play(), opens=False, serving=SEVERAL) as w:
        words = ("-m", "prong", "acp", *QUIET)
        async with acp.spawn_agent_process(
            client,
            sys.executable,
            *words,
            env=program.environment(w),
            cwd=w.root,
            use_unstable_protocol=True,
            # Two seconds if nothing is said, and then it is ended by a signal.
            transport_kwargs={"shutdown_timeout": 50.0},
        ) as (conn, process):
            begun_with = await conn.initialize(protocol_version=acp.PROTOCOL_VERSION)
            assert begun_with.agent_info.name == "prong"
            stopped = await _story(conn, client, w)
            before = len(client.updates)
            await conn.load_session(cwd=str(w.root), session_id=stopped, mcp_servers=[])
            past = [one.session_update for _, one in client.updates[before:]]
            assert past[:2] == ["user_message_chunk", "tool_call"]
        assert process.returncode == 0
        assert {"plan", "notice"} & client.kinds() == set()
        assert "usage_update" in client.kinds()


async def test_the_official_typescript_client(world: Worlds, program: Program) -> None:
    """The same story with an editor that knows children, forms and notices."""
    node = shutil.which("node")
    if node is None or not SDK.exists():
        pytest.skip("node, or the official package for it, is not installed; see Makefile")
    script = Path(__file__).with_name("editor_client.mjs")
    async with world(play(), opens=False, serving=SEVERAL) as w:
        with anyio.fail_after(150):
            done = await anyio.run_process(
                [
                    node,
                    str(script),
                    str(SDK),
                    str(w.root),
                    sys.executable,
                    "-m",
                    "prong",
                    "acp",
                    *QUIET,
                ],
                env=program.environment(w),
                check=False,
            )
        assert done.returncode == 0, done.stderr.decode()
        told = json.loads(done.stdout)
        assert told["agent"] == "prong"
        assert told["stops"] == ["cancelled", "end_turn", "end_turn"]
        assert (told["forked"], told["listed"], told["code"]) == ("end_turn", 4, 0)
        assert "All done." in told["texts"]["one"]
        assert told["texts"]["three"] == "Blue, then."
        assert told["texts"]["copy"] == "Copied."
        assert len(told["children"]) == 1
        assert {"subagent_update", "usage_update", "available_commands_update"} <= {*told["kinds"]}
        assert told["loaded"][:2] == ["user_message_chunk", "tool_call"]
        assert sorted(one.rpartition("] ")[2] for one in told["asked"]) == [
            "Which colour?",
            "echo $$ > begun; sleep 600",
            "touch red",
        ]
