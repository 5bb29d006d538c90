"""An outbox that lost something: the journal knows who was never told, and everybody is told once."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from prong.entry import User, plain
from prong.session import Session
from prong.testing import Script, World, Worlds, call, forks, inside, report, say

pytestmark = [pytest.mark.anyio, pytest.mark.spec("T4", "L8")]

ECHO = call("Bash", {"command": "echo x", "run_in_background": True})


def _script() -> Script:
    steps = [ECHO, forks("Part 1.", "Part 2."), say("I wait.")]
    return Script(steps, {"Part 1.": [report()], "Part 2.": [report()]}, forever=say("Done."))


def _told(session: Session) -> Counter[str]:
    entries = [
        entry
        for kind, entry in inside(session).agent.conversation.prompt.entries()
        if kind == "notice"
    ]
    text = "".join(plain(entry.parts) for entry in entries if isinstance(entry, User))
    return Counter(re.findall(r"<task-id>(\S+)</task-id>", text))


def _outbox(w: World) -> Path:
    (path,) = w.store.rglob("outbox.jsonl")
    return path


async def _ran(w: World) -> Counter[str]:
    async with w.open(session_id="it") as session:
        await session.run("Go")
        await session.wait_settled()
        return _told(session)


@pytest.mark.parametrize("loss", ["emptied", "gone", "halved", "first", "last"])
async def test_nobody_is_told_twice(world: Worlds, loss: str) -> None:
    """Whatever the outbox has lost of what was told, it is not told again."""
    why = "the session is resumed with a prompt"
    async with world(_script(), mode="bypassPermissions", opens=False, moves_prefix=why) as w:
        before = await _ran(w)
        assert sorted(before.values()) == [1, 1, 1]
        path = _outbox(w)
        lines = path.read_bytes().splitlines(keepends=True)
        half = len(lines) // 2
        match loss:
            case "gone":
                path.unlink()
            case _:
                kept = {"emptied": [], "halved": lines[:half], "first": lines[half:]}
                path.write_bytes(b"".join(kept.get(loss, lines[:-1])))
        async with w.open(resume="it") as session:
            await session.run("And now?")
            await session.wait_settled()
            assert _told(session) == before
        damaged = [text for text in w.warnings if "is damaged" in text]
        assert len(damaged) == (loss == "first")


async def test_what_nobody_was_told_is_made_up_from_the_journal(world: Worlds) -> None:
    """Children that ended, and commands, of which the outbox knows nothing, are told of; once."""
    why = "the end of the conversation is taken back"
    given = {"mode": "bypassPermissions", "settings": '{"fork": {"wake": "all"}}'}
    async with world(_script(), opens=False, moves_prefix=why, **given) as w:
        before = await _ran(w)
        _outbox(w).write_bytes(b"")
        (journal,) = w.store.rglob("it.jsonl")
        lines = journal.read_bytes().splitlines(keepends=True)
        # As if the process had died when both had ended, and nobody had been told.
        kept = max(n for n, line in enumerate(lines) if b'"name":"ended"' in line) + 1
        journal.write_bytes(b"".join(lines[:kept]))
        early = b"".join(lines[:kept]).count(b"<task-id>task-1")
        async with w.open(resume="it") as session:
            await session.wait_settled()
            assert _told(session) == before
        lost = [text for text in w.warnings if "made up from the journal" in text]
        assert len(lost) == 2
        assert sum("task-1 (task-1) ended" in text for text in w.warnings) == 1 - early
        warned = len(w.warnings)
        async with w.open(resume="it") as session:
            await session.wait_settled()
            assert _told(session) == before
        assert len(w.warnings) == warned
