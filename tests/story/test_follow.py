"""A session that is read while it is written: however little comes at a time."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from prong.cost import Prices
from prong.face.slash import Show, read_slash
from prong.face.web.standalone import standalone
from prong.face.wish import shown
from prong.journal.byte_map import ByteMap
from prong.journal.follow import FollowedEvents, FollowedJournal
from prong.journal.replay import examine
from prong.session import SessionFeed
from prong.testing import Worlds, say
from shared.page import fan_script

pytestmark = [pytest.mark.anyio, pytest.mark.spec("X3")]


async def stored(world: Worlds) -> Path:
    """Play a session with three forks, and give its journal."""
    async with world(fan_script(), opens=False, mode="bypassPermissions") as w:
        async with w.open() as session:
            await session.run("Go")
            await session.wait_settled()
        (path,) = w.store.glob("projects/*/*.jsonl")
        return path


@pytest.mark.parametrize("seed", range(5))
async def test_however_it_is_cut_it_is_read_to_the_same_end(
    world: Worlds, tmp_path: Path, seed: int
) -> None:
    """A journal and events that come in pieces, torn anywhere, give what the whole files give."""
    path = await stored(world)
    whole = SessionFeed(path, Prices()).since(0)
    sources = path, path.with_suffix("") / "events.jsonl"
    copies = tmp_path / "copy.jsonl", tmp_path / "copy" / "events.jsonl"
    copies[1].parent.mkdir()
    texts = [source.read_bytes() for source in sources]
    chance = random.Random(seed)
    first = texts[0].index(b"\n") + 1
    places = [first, 0]
    copies[0].write_bytes(texts[0][:first])
    feed = SessionFeed(copies[0], Prices())
    while places != [len(text) for text in texts]:
        for which, text in enumerate(texts):
            end = min(len(text), places[which] + chance.choice((1, 7, 500, 20_000)))
            # Ends of lines are the places where a reader can go wrong: between text and newline.
            line = text.find(b"\n", places[which])
            end = min(end, line + chance.choice((0, 1))) if 0 <= line < end else end
            end = max(end, min(len(text), places[which] + 1))
            with copies[which].open("ab") as file:
                file.write(text[places[which] : end])
            places[which] = end
        feed.refresh()
    feed.refresh()
    told = feed.since(0)
    for name in ("stretches", "requests", "items", "spans", "links", "marks", "counts", "agents"):
        assert told[name] == whole[name], name


async def test_changes_after_each_revision_add_up(world: Worlds, tmp_path: Path) -> None:
    """Who takes every change has in the end what comes to who asks once for all."""
    path = await stored(world)
    copy = tmp_path / "copy.jsonl"
    events = tmp_path / "copy" / "events.jsonl"
    events.parent.mkdir()
    lines = path.read_bytes().splitlines(keepends=True)
    told = (path.with_suffix("") / "events.jsonl").read_bytes().splitlines(keepends=True)
    copy.write_bytes(lines[0])
    feed = SessionFeed(copy, Prices())
    revision, agents, items, requests = 0, {}, {}, []
    for number in range(max(len(lines), len(told))):
        with copy.open("ab") as journal, events.open("ab") as record:
            journal.write(b"".join(lines[number + 1 : number + 2]))
            record.write(b"".join(told[number : number + 1]))
        feed.refresh()
        change = feed.since(revision)
        revision = change["revision"]
        agents |= {agent["path"]: agent for agent in change["agents"]}
        items |= {(path, place): item for path, place, item in change["items"]}
        assert change["requests"]["from"] == len(requests)
        requests += change["requests"]["rows"]
    last = SessionFeed(path, Prices()).since(0)
    assert list(agents.values()) == last["agents"]
    assert items == {(path, place): item for path, place, item in last["items"]}
    assert requests == last["requests"]["rows"]
    assert feed.since(revision)["items"] == []


async def test_damage_ends_what_is_followed(world: Worlds, tmp_path: Path) -> None:
    """Behind a changed byte nothing is read, and the place is told."""
    path = await stored(world)
    lines = path.read_bytes().splitlines(keepends=True)
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(b"".join(lines[:5]))
    followed = FollowedJournal(copy)
    with copy.open("ab") as file:
        file.write(lines[5].replace(b'"', b"'", 1) + b"".join(lines[6:]))
    assert followed.refresh()
    assert not followed.refresh()
    assert followed.damage == examine(copy)[1]
    assert followed.replay.lines == 5


async def test_events_that_are_missing_are_told(world: Worlds, tmp_path: Path) -> None:
    """Where a line is gone from the record a gap is told in its place."""
    path = await stored(world)
    lines = (path.with_suffix("") / "events.jsonl").read_bytes().splitlines(keepends=True)
    events = tmp_path / "copy" / "events.jsonl"
    events.parent.mkdir()
    events.write_bytes(b"".join([*lines[:3], b"{damaged}\n", *lines[5:]]))
    found = FollowedEvents(tmp_path / "copy.jsonl").refresh()
    assert [one.seq for one in found[:5]] == [1, 2, 3, 0, 6]


async def test_every_body_is_its_stretches(world: Worlds) -> None:
    """The stretches of a request have the sizes and digests of the entries of its prompt."""
    path = await stored(world)
    replay, _ = examine(path)
    found = ByteMap()
    found.take(replay)
    for request, paid in zip(found.requests, replay.requests, strict=True):
        prompt = replay.known[paid.row.digest]
        at, digests = request.last, list[str]()
        while at >= 0:
            digests.append(found.stretches[at].digest)
            at = found.stretches[at].above
        assert digests[:-1] == [node.digest.hex() for node in reversed(prompt.nodes())]
        assert digests[-1] == prompt.head.digest.hex()
        assert request.size == len(prompt.open())


async def test_the_terminal_writes_the_page(world: Worlds, monkeypatch: pytest.MonkeyPatch) -> None:
    """`/web` writes the page of the open session, without texts, and says how to see it live."""
    async with world([say("One secret.")]) as w:
        monkeypatch.setenv("PRONG_HOME", str(w.store))
        await w.session.run("A secret")
        (step,) = read_slash("/web talk.html", w.session.view())
        assert isinstance(step, Show)
        assert (step.what, step.rest) == ("web", "talk.html")
        lines = await shown(w.session, step)
        assert lines[0].endswith("talk.html, texts left out")
        assert f"prong web {w.session.view().session_id}" in lines[1]
        data = (w.root / "talk.html").read_text("utf-8")
        assert "secret" not in data
        assert '"requests":{"from":0,"rows":[{"number":1' in data


async def test_long_texts_are_cut_unless_they_are_exported(world: Worlds) -> None:
    """The page is sent the beginning of a long text; an exported one has all of it, or its length."""
    async with world([say("long " * 4_000)], opens=False) as w:
        async with w.open() as session:
            await session.run("Go")
        (path,) = w.store.glob("projects/*/*.jsonl")
    feed = SessionFeed(path, Prices())
    (reply,) = [item for _, _, item in feed.since(0)["items"] if item["type"] == "replied"]
    assert len(reply["text"]) < 8_100
    assert reply["text"].endswith("(12,000 more characters)")
    assert b"long " * 4_000 in standalone(feed, with_text=True)
    assert b"(20,000 characters)" in standalone(feed, with_text=False)
