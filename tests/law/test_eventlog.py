"""Laws of the recorded events: whatever befell the file, a reader gets no gap and no double."""

from __future__ import annotations

import os
import resource
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prong.entry import CallId
from prong.errors import JournalFull
from prong.event import MAIN, Envelope, EventsSkipped, InputTaken, ToolStarted, TurnFinished, Warned
from prong.ids import AgentPath
from prong.journal.eventlog import EventLog


def told(seq: int, text: str = "x") -> Envelope:
    return Envelope(seq, float(seq), MAIN, Warned(text=text))


def numbers(envelopes: list[Envelope]) -> list[int]:
    """Give the numbers that a reader sees; a skip counts for all that it stands for."""
    seen: list[int] = []
    for one in envelopes:
        if isinstance(one.event, EventsSkipped):
            seen += range((seen[-1] if seen else 0) + 1, one.event.until + 1)
        else:
            seen.append(one.seq)
    return seen


@pytest.mark.spec("X1")
@given(st.lists(st.text(max_size=40), min_size=1, max_size=30), st.data())
def test_a_record_that_is_cut_anywhere_goes_on(texts: list[str], data: st.DataObject) -> None:
    """Cut off in any byte, a record has its whole lines, and the next writer goes on from them."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "session" / "events.jsonl"
        log = EventLog(path)
        for seq, text in enumerate(texts, 1):
            log.write(told(seq, text))
        log.flush()
        log.close()
        content = path.read_bytes()
        cut = data.draw(st.integers(0, len(content)))
        path.write_bytes(content[:cut])

        again = EventLog(path)
        assert again.seq == content[:cut].count(b"\n")
        new = again.seq + 1
        again.write(told(new, "new"))
        assert numbers(list(again.replay(0, new))) == list(range(1, new + 1))
        since = data.draw(st.integers(0, new))
        assert [one.seq for one in again.replay(since, new)] == list(range(since + 1, new + 1))
        again.flush()
        again.close()
        assert [one.seq for one in EventLog(path).replay(0, new)] == list(range(1, new + 1))


@pytest.mark.spec("X1")
@given(st.integers(1, 40), st.data())
def test_the_writer_replays_what_its_file_holds(count: int, data: st.DataObject) -> None:
    """A reader gets the same from who writes, out of memory or not, as later from the file."""
    with tempfile.TemporaryDirectory() as folder:
        log = EventLog(Path(folder) / "events.jsonl")
        for seq in range(1, count + 1):
            log.write(told(seq, f"event {seq}"))
        since = data.draw(st.integers(0, count))
        until = data.draw(st.integers(since, count))
        mine = list(log.replay(since, until))
        log.flush()
        log.close()

        assert mine == list(EventLog(log.path).replay(since, until))
        assert [one.seq for one in mine] == list(range(since + 1, until + 1))


def test_a_damaged_line_is_a_skip(tmp_path: Path) -> None:
    """A line that cannot be read is missing for readers, who are told, and its number is used up."""
    log = EventLog(tmp_path / "events.jsonl")
    for seq in range(1, 4):
        log.write(told(seq))
    log.flush()
    log.close()
    lines = log.path.read_bytes().splitlines()
    log.path.write_bytes(b"\n".join([lines[0], b"nonsense", lines[2], b"more", b""]))

    again = EventLog(log.path)
    assert again.seq == 4
    seen = list(again.replay(0, 4))
    assert numbers(seen) == [1, 2, 3, 4]
    assert [type(one.event) for one in seen] == [Warned, EventsSkipped, Warned, EventsSkipped]


def test_what_is_held_is_seen(tmp_path: Path) -> None:
    """A reader need not wait for the file: what is not written yet is there too."""
    log = EventLog(tmp_path / "events.jsonl")
    log.write(told(1))
    assert not log.path.exists()
    assert [one.seq for one in log.replay(0, 1)] == [1]
    log.write(Envelope(2, 2.0, MAIN, TurnFinished(text="", why="done")))
    assert log.path.read_bytes().count(b"\n") == 2
    assert [one.seq for one in log.replay(0, 2)] == [1, 2]


def test_a_full_disk(tmp_path: Path) -> None:
    """What cannot be written is said once; the file keeps its whole lines, and gets no more."""
    log = EventLog(tmp_path / "events.jsonl")
    log.write(told(1))
    log.flush()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (log.path.stat().st_size + 10, hard))
    try:
        log.write(told(2))
        with pytest.raises(JournalFull, match="not recorded"):
            log.flush()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    log.write(told(3))
    log.flush()
    assert log.seq == 3
    assert [one.seq for one in log.replay(0, 3)] == [1, 2, 3], "a while they are kept for readers"
    for seq in range(4, 2_000):
        log.write(told(seq))
    _, skip, *rest = log.replay(0, 1_999)
    assert isinstance(skip.event, EventsSkipped)
    assert [one.seq for one in rest] == list(range(skip.event.until + 1, 2_000))
    assert EventLog(log.path).seq == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    """A record that cannot be read is left alone, and that is said."""
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"precious\n")
    path.chmod(0)
    assert "cannot be read" in EventLog(path).problem


@pytest.mark.spec("X2")
def test_what_people_say_and_see_begin_is_written_at_once(tmp_path: Path) -> None:
    """After a message to the main agent, or at the start of a call of it, one waits: a kill in that
    while must not take it from the record.
    """
    path = tmp_path / "events.jsonl"
    log = EventLog(path)
    log.write(told(1))
    assert not path.exists()
    log.write(Envelope(2, 0.0, MAIN, InputTaken(kind="user", text="do it")))
    assert path.read_bytes().count(b"\n") == 2
    call = ToolStarted(call_id=CallId("c1"), name="Bash", arguments="{}", title="sleep 9")
    log.write(Envelope(3, 0.0, AgentPath("main/fork-1"), call))
    assert path.read_bytes().count(b"\n") == 2
    log.write(Envelope(4, 0.0, MAIN, call))
    assert path.read_bytes().count(b"\n") == 4
