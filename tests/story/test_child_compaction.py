"""Children that are compacted: what they were told to do is never left to a summary."""

from __future__ import annotations

from typing import Any

import pytest

from prong.agent.lineage import told_by
from prong.entry import User, plain
from prong.event import PromptMoved
from prong.journal.replay import read_journal
from prong.prompt import Prompt
from prong.testing import Options, Step, World, Worlds, call, forks, report, say, think
from prong.testing.request import Request
from prong.text import load_text
from shared.typed import agent

pytestmark = [pytest.mark.anyio, pytest.mark.spec("F10", "F11", "L7")]

APIS = ["anthropic", "responses", "chat", "gemini"]
LONG = "All work and no play makes a dull story.\n" * 700
DIRECTIVE = "Count the apples and nothing else."
SUMMARY = say("SUMMARY: much was read, and it was dull.")
READ = call("Read", {"file_path": "a.txt"})
AGENT = call("Agent", {"description": "d", "prompt": "Help me."})
WINDOW: dict[str, Any] = {"context_tokens": 14_000, "compact_at": 0.6, "mode": "bypassPermissions"}


def said(request: Request) -> str:
    """Give everything in a request that is a message."""
    return str([str(block.raw) for block in request.blocks if block.section == "messages"])


def tale(*starts: Step, told: str = DIRECTIVE) -> Any:
    """Start a child that reads too much, tries to delegate after its summary, and reports."""
    begin = list(starts)

    def script(request: Request) -> Step:
        text = said(request)
        if "is about to be replaced by a summary" in request.last_text:
            return SUMMARY
        if request.headers.get("x-prong-lineage", "main") == "main":
            return begin.pop(0) if begin else say("ok")
        if "SUMMARY:" not in text:
            return READ
        if told not in text:
            return say("I have forgotten what I was to do.")
        return AGENT if "This is permanent" not in text and "forked worker" in text else report("7")

    return script


def told(prompt: Prompt) -> list[str]:
    """Give the directives of a conversation."""
    entries = ((kind, entry) for kind, entry in prompt.entries() if kind == "directive")
    return [plain(entry.parts) for _, entry in entries if isinstance(entry, User)]


def compactions(w: World) -> list[str]:
    return [e.agent for e in w.envelopes if isinstance(e.event, PromptMoved)]


@pytest.mark.moves_prefix("compaction starts a new prompt")
@pytest.mark.parametrize("api", APIS)
async def test_a_compacted_fork_still_knows_its_task(world: Worlds, api: str) -> None:
    """Protocol and directive stand word for word before a summary that does not repeat them."""
    files = {"a.txt": LONG}
    script = tale(say("Hello."))
    async with world(script, files=files, api=api, **WINDOW) as w:
        await w.session.run("Hi")
        (result,) = await w.session.fork([DIRECTIVE])
        (child,) = w.parts.supervisor.children
        prompt = child.agent.conversation.prompt

        assert (result.status, child.report.result) == ("completed", "7")
        assert compactions(w) == ["main/fork-1"]
        assert told(prompt) == [f"{load_text('fork')}\n{DIRECTIVE}"]
        assert [node.kind for node in prompt.nodes()][:2] == ["directive", "summary"]
        last = w.server.lineages()["main/fork-1"][-1].body.decode()
        assert last.count(DIRECTIVE) == 1
        assert "dull story" not in last
        assert "This is permanent" in last
        stored = read_journal(w.parts.journal.path).agents["main/fork-1"]
        assert stored.digest == prompt.digest
        assert told_by(stored).is_fork


@pytest.mark.moves_prefix("compaction starts a new prompt")
async def test_messages_to_a_fork_survive_its_compactions(world: Worlds) -> None:
    """Every message is a directive too: all are kept, in order, however often it is compacted."""
    files = {"a.txt": LONG}
    rounds = iter([READ, report("1"), READ, report("2"), READ, report("3")])

    def script(request: Request) -> Step:
        if "is about to be replaced by a summary" in request.last_text:
            return SUMMARY
        main = request.headers.get("x-prong-lineage", "main") == "main"
        return say("Hello.") if main else next(rounds)

    async with world(script, files=files, opens=False, **WINDOW) as w:
        async with w.open() as session:
            await session.run("Hi")
            (task,) = await session.start_forks([DIRECTIVE])
            await session.wait_settled()
            await session.say("And the pears.", to=task)
            await session.wait_settled()
        async with w.open(resume=session.id) as session:
            await session.say("And the plums.", to=task)
            await session.wait_settled()
            (child,) = w.parts.supervisor.children

            assert compactions(w).count(f"main/{task}") > 1
            assert child.report.result == "3"
            ends = [text.rpartition("\n")[2] for text in told(child.agent.conversation.prompt)]
            assert ends == [DIRECTIVE, "And the pears.", "And the plums."]
            assert child.agent.lineage.is_fork


@pytest.mark.moves_prefix("compaction starts a new prompt")
@pytest.mark.parametrize("context", [None, 8_000, 9_000, 10_000, 11_000, 12_000, 13_000])
async def test_a_carried_directive_becomes_plain_text(world: Worlds, context: int | None) -> None:
    """A directive inside a result outlives its call, whatever part of the prompt is summarised."""
    script = tale(
        think("Let me see.", then=call("Read", {"file_path": "b.txt"})),
        think("I split this.", then=forks(DIRECTIVE)),
    )
    options = WINDOW | {"model": "claude-haiku-4-5", "thinking": 2000}
    if context is not None:
        # The provider's own bound: the oldest part that fits is summarised, the rest carried over.
        options |= {"serving": Options(context=context), "compact_at": 0.0}
    files = {"a.txt": LONG, "b.txt": "Of apples there are many.\n" * 200}
    async with world(script, files=files, **options) as w:
        await w.session.run("Go")
        (child,) = w.parts.supervisor.children
        first = w.server.lineages()[child.spec.path][0].json["messages"][-1]["content"]

        assert {block["type"] for block in first} == {"tool_result"}
        assert (child.status, child.report.result) == ("completed", "7"), child.run.detail
        assert told(child.agent.conversation.prompt) == [f"{load_text('fork')}\n{DIRECTIVE}"]
        assert told_by(child.agent.conversation.prompt).is_fork


@pytest.mark.moves_prefix("compaction starts a new prompt")
@pytest.mark.parametrize("api", APIS)
async def test_a_compacted_typed_child_keeps_its_brief(world: Worlds, api: str) -> None:
    """What a typed child was told first stands word for word before the summary."""
    brief = "BRIEF: count the apples in a.txt."
    script = tale(agent(brief, "general-purpose"), told=brief)
    async with world(script, files={"a.txt": LONG}, api=api, **WINDOW) as w:
        await w.session.run("Go")
        (child,) = w.parts.supervisor.children
        prompt = child.agent.conversation.prompt
        _, first = next(prompt.entries())

        assert (child.status, child.report.result) == ("completed", "7"), child.run.detail
        assert compactions(w) == [child.spec.path]
        assert [node.kind for node in prompt.nodes()][:2] == ["user", "summary"]
        assert isinstance(first, User)
        assert plain(first.parts) == brief
        assert not told_by(prompt).is_fork
