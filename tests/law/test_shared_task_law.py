"""The shared task list: what holds after whatever its members do."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prong.errors import BadInput, UnknownName, UsageError
from prong.mail import Member, SharedTask, TeamFolder
from prong.mail.shared_task import (
    TaskChanged,
    TaskClaimed,
    TaskCreated,
    TaskEvent,
    TasksReleased,
    apply_event,
    open_needs,
)

NAMES = ("leader", "ann", "bob", "outside")
IDS = st.sampled_from([str(number) for number in range(1, 7)])
NEEDS = st.lists(IDS, max_size=3).map(tuple)
EVENTS = st.one_of(
    st.builds(TaskCreated, id=IDS, title=st.just("t"), needs=NEEDS),
    st.builds(TaskClaimed, id=IDS),
    st.builds(TasksReleased, owner=st.sampled_from(NAMES)),
    st.builds(
        TaskChanged,
        id=IDS,
        status=st.sampled_from([None, "pending", "in_progress", "completed", "cancelled"]),
        owner=st.sampled_from([None, "", *NAMES]),
        needs=st.none() | NEEDS,
    ),
)


def _waits(tasks: dict[str, SharedTask], id_: str, seen: tuple[str, ...] = ()) -> Iterator[str]:
    for need in tasks[id_].needs:
        assert need not in seen, "a circle"
        yield need
        yield from _waits(tasks, need, (*seen, need))


@pytest.mark.spec("M8")
@settings(max_examples=300)
@given(st.lists(st.tuples(EVENTS, st.sampled_from(NAMES)), max_size=25))
def test_what_holds_after_any_events(events: list[tuple[TaskEvent, str]]) -> None:
    """Needs exist and make no circle; who works on a task owns it, and took it when it was free."""
    tasks: dict[str, SharedTask] = {}
    for event, by in events:
        before = dict(tasks)
        try:
            tasks.update(apply_event(tasks, event, by))
        except UsageError:
            assert tasks == before
            continue
        for id_, task in tasks.items():
            assert id_ not in list(_waits(tasks, id_))
            assert (task.status == "in_progress") <= bool(task.owner)
            old = before.get(id_)
            if old is None:
                continue
            if old.owner and old.owner != task.owner:
                assert by in {"leader", old.owner}
            if task.status == "in_progress" != old.status:
                assert not open_needs(before, task)


@pytest.mark.spec("M8")
def test_tasks_are_the_same_for_whoever_reads_them() -> None:
    """A process that reads the whole file sees what those saw that read it as it grew."""
    with tempfile.TemporaryDirectory() as home:
        folder = TeamFolder.create(Path(home), "crew", session="s")
        folder.add(Member(name="ann"))
        other = TeamFolder.open(Path(home), "crew").tasks
        tasks = folder.tasks
        tasks.create("Dig", "deep", by="leader")
        tasks.create("Plant", by="outside", needs=("1", "1"))
        assert other.list() == tasks.list()
        other.claim("1", by="ann")
        tasks.update("2", by="ann", title="Sow", description="in rows")
        other.release("ann")

        assert TeamFolder.open(Path(home), "crew").tasks.list() == tasks.list() == other.list()
        assert tasks.get("2").needs == ("1",)
        assert tasks.waits_for("2") == ("1",)
        assert tasks.free("ann") == tasks.get("1")
        assert tasks.damage == other.damage == []


@pytest.fixture
def folder(tmp_path: Path) -> TeamFolder:
    """Give a team with two members and three tasks, the third of which needs the second."""
    folder = TeamFolder.create(tmp_path, "crew", session="s")
    for name in ("ann", "bob"):
        folder.add(Member(name=name))
    for title, needs in (("Dig", ()), ("Sow", ("1",)), ("Eat", ("2",))):
        folder.tasks.create(title, by="leader", needs=needs)
    return folder


@pytest.mark.spec("M8")
def test_what_cannot_be_is_refused_with_a_reason(folder: TeamFolder) -> None:
    """Unknown tasks, needs, members and owners, circles, long and broken titles: each says why."""
    tasks = folder.tasks
    before = tasks.path.read_bytes()
    with pytest.raises(UnknownName, match="no task '9' in this team; the last is 3"):
        tasks.claim("9", by="ann")
    with pytest.raises(UnknownName, match="cannot wait for '9'"):
        tasks.create("x", by="ann", needs=("9",))
    with pytest.raises(BadInput, match="would wait for itself"):
        tasks.update("1", by="leader", needs=("3",))
    with pytest.raises(BadInput, match="at most 200 characters"):
        tasks.create("x" * 201, by="ann")
    with pytest.raises(BadInput, match="one line"):
        tasks.create("a\nb", by="ann")
    with pytest.raises(BadInput, match="needs a title"):
        tasks.create(" ", by="ann")
    with pytest.raises(BadInput, match="65,536 characters"):
        tasks.create("x", "y" * 65_537, by="ann")
    with pytest.raises(UnknownName, match="'eve' is not in this team"):
        tasks.create("x", by="eve")
    with pytest.raises(UnknownName, match="no 'eve' in crew to own"):
        tasks.update("1", by="leader", owner="eve")
    with pytest.raises(UsageError, match="from outside no task can be taken"):
        tasks.claim("1", by="outside")
    with pytest.raises(UsageError, match="waits for 1"):
        tasks.update("2", by="ann", status="in_progress")
    tasks.claim("1", by="ann")
    with pytest.raises(UsageError, match="task 1 is ann’s; ask ann or the leader"):
        tasks.update("1", by="bob", status="completed")
    with pytest.raises(UsageError, match="only ann or the leader"):
        tasks.release("ann", by="bob")

    assert tasks.path.read_bytes().startswith(before)
    assert tasks.path.read_bytes().count(b"\n") == 4


@pytest.mark.spec("M8")
def test_a_task_can_be_meant_for_somebody(folder: TeamFolder) -> None:
    """A pending task with an owner waits for that one; given up, it is anybody's."""
    tasks = folder.tasks
    assert tasks.update("2", by="leader", owner="ann").status == "pending"
    tasks.update("1", by="leader", status="completed")

    assert tasks.claim("2", by="bob").why == "task 2 is ann’s"
    assert tasks.claim_next(by="bob") is None
    taken = tasks.claim_next(by="ann")
    assert taken is not None
    assert (taken.id, taken.status) == ("2", "in_progress")
    assert tasks.claim("2", by="ann").why == "task 2 is yours already"
    assert tasks.update("2", by="ann", owner="").status == "pending"
    assert tasks.update("2", by="bob", status="in_progress").owner == "bob"


@pytest.mark.spec("M8")
def test_a_member_that_was_let_go_takes_no_task(folder: TeamFolder) -> None:
    """Its tasks are free, and its key, which proves what it did before, takes no new ones."""
    folder.tasks.claim("1", by="ann")
    folder.remove("ann")

    assert folder.tasks.get("1").status == "pending"
    with pytest.raises(UnknownName, match="no 'ann' in crew"):
        folder.tasks.claim("1", by="ann")
    with pytest.raises(UnknownName, match="'ann' is not in this team"):
        folder.tasks.create("Rest", by="ann")
    assert folder.tasks.claim("1", by="bob").granted


@pytest.mark.spec("M8")
def test_a_forged_or_copied_event_does_not_count(folder: TeamFolder, tmp_path: Path) -> None:
    """A line that is damaged, unsigned or written down again changes nothing, and is told."""
    tasks = folder.tasks
    tasks.claim("1", by="ann")
    claimed = tasks.path.read_bytes().splitlines(keepends=True)[-1]
    tasks.release("ann")
    other = TeamFolder.create(tmp_path / "other", "crew", session="s")
    other.add(Member(name="ann"))
    other.tasks.create("x", by="ann")
    forged = other.tasks.path.read_bytes()
    with tasks.path.open("ab") as file:
        file.write(claimed + forged + b"rubbish\n" + b"\n" + b"torn")
    tasks.create("Rest", by="bob")

    fresh = TeamFolder.open(tmp_path, "crew").tasks
    assert [task.owner for task in fresh.list()] == ["", "", "", ""]
    assert fresh.list() == tasks.list()
    assert [told.partition(": ")[2] for told in fresh.damage] == [
        "it is not signed by ann, whom it names as its sender",
        "its checksum does not match",
        "its checksum does not match",
    ]
    assert tasks.damage == fresh.damage


@pytest.mark.spec("M8")
def test_a_task_list_that_was_restored_is_read_anew(folder: TeamFolder) -> None:
    """Who has read further than the file goes takes what is there."""
    tasks = folder.tasks
    before = tasks.path.read_bytes()
    tasks.claim("1", by="ann")
    tasks.path.write_bytes(before)

    assert tasks.get("1").owner == ""
    assert tasks.claim("1", by="bob").granted
