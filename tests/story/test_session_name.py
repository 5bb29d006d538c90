"""Names of sessions, and sessions in which nothing was said."""

from __future__ import annotations

from pathlib import Path

import pytest

from prong.errors import NoSuchSession, UsageError
from prong.journal import store
from prong.journal.note import Titled
from prong.testing import Worlds, inside, say

pytestmark = [pytest.mark.anyio, pytest.mark.spec("L8")]


def listed(folder: Path, kept: Path) -> list[str]:
    return [info.id for info in store.sessions(folder, kept)]


async def test_an_empty_session_is_neither_listed_nor_continued(world: Worlds) -> None:
    """The last session is the last in which something was said."""
    async with world([say("One."), say("Two.")], opens=False) as w:
        async with w.open() as first:
            await first.run("Hi")
        async with w.open():
            pass
        assert listed(w.root, w.store) == [first.id]
        async with w.open(continue_last=True) as again:
            assert again.id == first.id
            assert again.records.others() == [], "it is no other than itself"


async def test_only_empty_sessions_are_none(world: Worlds) -> None:
    """To go on where nothing was said is refused with advice."""
    async with world() as w:
        with pytest.raises(NoSuchSession, match=r"start one without --continue.*sessions --all"):
            store.latest(w.root, w.store)


async def test_a_failed_copy_leaves_nothing(world: Worlds) -> None:
    """A copy that cannot be opened goes again, and the session it was made of stays."""
    async with world([say("One.")], opens=False) as w:
        async with w.open() as first:
            await first.run("Hi")
        with pytest.raises(UsageError, match="there is no tool"):
            async with w.open(resume=first.id, fork_session=True, tools=("Nope",)):
                pass
        assert listed(w.root, w.store) == [first.id]
        with pytest.raises(UsageError, match="there is no tool"):
            async with w.open(resume=first.id, tools=("Nope",)):
                pass
        assert listed(w.root, w.store) == [first.id]


async def test_a_name_is_given_once(world: Worlds) -> None:
    """A name that another session has is refused; the session itself may keep it."""
    async with world([say("One."), say("Two.")], opens=False) as w:
        async with w.open(name="job") as first:
            await first.run("Hi")
        with pytest.raises(UsageError, match=f"{first.id} is named 'job' already"):
            async with w.open(name="job"):
                pass
        async with w.open(resume="job", name="job") as again:
            assert again.id == first.id
            await again.run("More")


async def test_a_copy_does_not_take_the_name(world: Worlds) -> None:
    """After --fork-session the name means the session it was given to."""
    async with world([say("One."), say("Two.")], opens=False) as w:
        async with w.open(name="job") as first:
            await first.run("Hi")
        async with w.open(resume="job", fork_session=True) as copy:
            await copy.run("More")
        assert store.find("job", w.root, w.store).id == first.id
        assert store.find(copy.id, w.root, w.store).name == ""


async def test_of_several_with_one_name_it_is_the_latest(world: Worlds) -> None:
    """Journals of elsewhere may share a name: the latest is taken, and that is said."""
    async with world([say("One."), say("Two."), say("Three.")], opens=False) as w:
        for name in ("job", "other"):
            async with w.open(name=name) as session:
                await session.run("Hi")
            inside(session).journal.path.chmod(0o600)
        async with w.open(resume="other", name="spare") as session:
            inside(session).journal.note("main", Titled("job"))
            await session.run("More")
        async with w.open(resume="job") as again:
            assert again.id == session.id
            assert "2 sessions are named 'job'; this is the latest" in w.warnings[0]


async def test_a_copy_of_a_damaged_session_says_what_is_lost(world: Worlds) -> None:
    """The line of the damage and how much follows it are told."""
    async with world([say("One."), say("Two.")], opens=False) as w:
        async with w.open() as first:
            await first.run("Hi")
        path = inside(first).journal.path
        path.write_bytes(path.read_bytes().replace(b"One.", b"0ne.", 1))
        async with w.open(resume=first.id, fork_session=True):
            (told,) = [text for text in w.warnings if "damaged" in text]
        assert f"{path} is damaged at line " in told
        assert told.endswith("from there on are lost")
