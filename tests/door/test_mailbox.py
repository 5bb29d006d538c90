"""Team folders and mailboxes as real files."""

from __future__ import annotations

from pathlib import Path

import pytest

from prong.errors import UsageError
from prong.mail import (
    Cursor,
    Member,
    Message,
    PermissionResponse,
    TeamFolder,
    teams,
)

pytestmark = pytest.mark.door


@pytest.fixture
def folder(tmp_path: Path) -> TeamFolder:
    """Give a team of ann and bob."""
    folder = TeamFolder.create(tmp_path, "crew", session="s1", description="Tries things.")
    folder.add(Member(name="ann"))
    folder.add(Member(name="bob"))
    return folder


def texts(folder: TeamFolder, member: str, cursor: Cursor | None = None) -> list[str]:
    batch = folder.read(member, cursor or Cursor())
    return [mail.body.text for mail, _ in batch.mails if isinstance(mail.body, Message)]


@pytest.mark.spec("M1")
def test_a_team_is_made_listed_and_deleted(tmp_path: Path, folder: TeamFolder):
    """A team is there for every process until it is deleted; active members hold it."""
    again = TeamFolder.open(tmp_path, "crew")
    assert teams(tmp_path) == ("crew",)
    assert again.team == folder.team
    assert [member.name for member in again.team.members] == ["ann", "bob"]

    with pytest.raises(UsageError, match="ann, bob of crew still run"):
        folder.delete()
    folder.change("ann", state="ended")
    folder.remove("bob")
    folder.delete()

    assert teams(tmp_path) == ()
    assert list((tmp_path / "teams").iterdir()) == []


@pytest.mark.spec("M5")
def test_mail_is_for_one_or_for_all_but_the_sender(folder: TeamFolder):
    """A direct mail reaches one box, a broadcast every other; a cursor reads each once."""
    folder.post("leader", "ann", Message(text="one"))
    folder.post("ann", "*", Message(text="all"))
    folder.post("outside", "bob", Message(text="shell"))

    assert texts(folder, "ann") == ["one"]
    assert texts(folder, "bob") == ["all", "shell"]
    assert texts(folder, "leader") == ["all"]
    (_, first), _ = folder.read("bob", Cursor()).mails
    assert texts(folder, "bob", first) == ["shell"]
    assert texts(folder, "bob", folder.read("bob", first).cursor) == []


@pytest.mark.spec("M5")
def test_a_member_cannot_decide_for_another(folder: TeamFolder):
    """An answer to a permission is the leader's alone."""
    with pytest.raises(UsageError, match="only the leader decides"):
        folder.post("ann", "bob", PermissionResponse(request_id="r1", allow=True))


@pytest.mark.spec("M8")
def test_a_task_has_one_owner_and_waits_for_its_needs(folder: TeamFolder):
    """A free task goes to the first who asks; one that needs another cannot be taken before."""
    tasks = folder.tasks
    tasks.create("Dig", by="leader")
    tasks.create("Plant", by="ann", needs=("1",))

    assert tasks.claim("2", by="bob").why == "task 2 waits for 1"
    assert tasks.claim("1", by="bob").granted
    assert tasks.claim("1", by="ann").why == "task 1 is bob’s"
    tasks.update("1", by="bob", status="completed")
    taken = tasks.claim_next(by="ann")
    assert taken is not None
    assert taken.id == "2"
    folder.remove("ann")
    assert [task.status for task in tasks.list()] == ["completed", "pending"]


@pytest.mark.anyio
async def test_a_doorbell_wakes(folder: TeamFolder):
    """Who waits is woken by a mail; without one it looks after the time it said."""
    async with folder.doorbell("ann") as bell:
        assert bell.fault == ""
        assert not await bell.wait(0.01)
        folder.post("leader", "ann", Message(text="up"))
        assert await bell.wait(30)
