"""The way of a notice from the end of a task into the inbox of its reader."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from prong.agent import Inbox
from prong.event import Event, Warned
from prong.ids import AgentPath, TaskId
from prong.team.delivery import Delivery
from prong.team.outbox import Expected, Outbox
from prong.team.work import Ending

ENDING = Ending(status="completed", summary="it ended", result="ok")


def task(number: int, agent: str = "main") -> Expected:
    return Expected(f"task-{number}", AgentPath(agent), TaskId(f"task-{number}"), "it")


@pytest.mark.spec("T4")
def test_a_reader_gets_what_waited_and_what_comes(tmp_path: Path) -> None:
    """Notices from before a reader came and after it arrive once each; when it has left none does."""
    with Outbox(str(tmp_path / "outbox")) as outbox:
        delivery, inbox = Delivery(outbox, lambda _: None), Inbox()
        delivery.send(task(1), ENDING)
        assert delivery.owes("main")

        with delivery.reading("main", inbox):
            delivery.send(task(2), ENDING)
            delivery.send(task(3, "main/other"), ENDING)
            assert len(inbox.drain()) == 2
            assert not delivery.owes("main")

        delivery.send(task(4), ENDING)
        assert not inbox
        assert [notice.id for notice in outbox.pending("main")] == ["task-4"]


@pytest.mark.spec("T4")
def test_what_is_held_waits_for_those_that_come_together(tmp_path: Path) -> None:
    """A notice that has to wait stays on disk until one that need not is sent."""
    with Outbox(str(tmp_path / "outbox")) as outbox:
        held = {"task-1"}
        delivery, inbox = Delivery(outbox, lambda _: None), Inbox()
        delivery.subscribe("main", inbox, hold=held)

        delivery.send(task(1), ENDING)
        assert not inbox
        assert delivery.owes("main")

        held.clear()
        delivery.send(task(2), ENDING)
        assert len(inbox.drain()) == 1
        assert not delivery.owes("main")


class _Counted(set[str]):
    """Tasks whose notices are held, with a count of how often that was asked."""

    asked = 0

    def __contains__(self, task_id: object) -> bool:
        self.asked += 1
        return super().__contains__(task_id)


@pytest.mark.spec("T4")
def test_a_notice_that_waits_does_not_ask_about_others(tmp_path: Path) -> None:
    """However many wait, one more asks about itself alone; the last sets all of them free."""
    with Outbox(str(tmp_path / "outbox")) as outbox:
        held = _Counted(f"task-{number}" for number in range(50))
        delivery, inbox = Delivery(outbox, lambda _: None), Inbox()
        delivery.subscribe("main", inbox, hold=held)

        for number in range(50):
            delivery.send(task(number), ENDING)
        assert held.asked == 50

        held.clear()
        delivery.send(task(50), ENDING)
        ((entry, _),) = inbox.drain()
        assert entry.text.count("it ended") == 51


@pytest.mark.spec("T4")
def test_nobody_waits_for_what_a_full_disk_keeps_back(tmp_path: Path) -> None:
    """If handing over cannot be stored, that is said, nothing is owed, and nothing is lost."""
    path, told = str(tmp_path / "outbox"), list[Event]()
    with Outbox(path) as outbox:
        delivery, inbox = Delivery(outbox, told.append), Inbox()
        delivery.send(task(1), ENDING)
        full = os.open("/dev/full", os.O_WRONLY)
        os.dup2(full, outbox._handle)
        os.close(full)

        delivery.subscribe("main", inbox)

        assert not inbox
        assert not delivery.owes("main")
        assert [type(event) for event in told] == [Warned]
    with Outbox(path) as again:
        assert [notice.id for notice in again.pending("main")] == ["task-1"]
