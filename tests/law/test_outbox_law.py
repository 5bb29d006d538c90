from __future__ import annotations

import random
import re
import resource
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prong.errors import JournalFull
from prong.event import MAIN
from prong.ids import AgentPath, TaskId
from prong.team.notice import Notice
from prong.team.outbox import Expected, Outbox
from prong.team.received import Received
from shared.outbox import notices_in

AGENTS = ("main", "main/fork-1")


def notice(number: int, agent: str = "main", result: str = "ok") -> Notice:
    return Notice(
        id=f"task-{number}",
        agent=AgentPath(agent),
        task_id=TaskId(f"task-{number}"),
        status="completed",
        summary=f"task {number} ended",
        result=result,
    )


def ids(notices: Sequence[Notice | Received]) -> list[str]:
    return [n.id for n in notices]


@pytest.mark.spec("T4")
def test_a_file_torn_at_any_byte_gives_what_was_whole(tmp_path: Path) -> None:
    """Cut after any byte, the outbox opens with the records that were whole, and goes on from there."""
    path = tmp_path / "outbox"
    states: dict[int, list[str]] = {0: []}
    with Outbox(str(path)) as outbox:
        steps = [
            lambda: outbox.put(notice(1, result="a\nb\u2028 é </x>")),
            lambda: outbox.put(notice(2)),
            lambda: outbox.deliver("main"),
            lambda: outbox.ack(["task-1"]),
            lambda: outbox.put(notice(3)),
            lambda: outbox.ack(["task-2", "task-3", "task-9"]),
            lambda: outbox.put(notice(4)),
        ]
        left = [["task-1"], ["task-1", "task-2"], ["task-1", "task-2"], ["task-2"],
                ["task-2", "task-3"], [], ["task-4"]]  # fmt: skip
        for step, after in zip(steps, left, strict=True):
            step()
            states[path.stat().st_size] = after
    data = path.read_bytes()

    for length in range(len(data) + 1):
        torn = tmp_path / "torn"
        torn.write_bytes(data[:length])
        expected = states[max(size for size in states if size <= length)]
        with Outbox(str(torn)) as outbox:
            assert ids(outbox.pending("main")) == expected
            outbox.put(notice(50))
        with Outbox(str(torn)) as outbox:
            assert ids(outbox.pending("main")) == [*expected, "task-50"]
            assert outbox.damage == []


class _Life:
    """A session that is killed now and then: what it has put, and what its journal holds."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.path = folder / "outbox"
        self.chance = chance
        self.put = 0
        self.journal: dict[str, list[str]] = {agent: [] for agent in AGENTS}
        self.outbox = Outbox(str(self.path))

    def step(self, action: str) -> None:
        if action == "put":
            self.put += 1
            self.outbox.put(notice(self.put, AGENTS[self.put % 2]))
        elif action == "kill":
            self.restart(len(self.path.read_bytes()))
        else:
            self.take(AGENTS[0] if action == "main" else AGENTS[1])

    def take(self, agent: str) -> None:
        """Deliver, store, acknowledge; the process may die between any two, or inside a write."""
        before = self.path.stat().st_size
        taken = ids(self.outbox.deliver(agent))
        if self.chance.random() < 0.2:
            self.restart(self.chance.randint(before, self.path.stat().st_size))
            return
        self.journal[agent] += taken
        stored = self.path.stat().st_size
        self.outbox.ack(taken)
        if self.chance.random() < 0.2:
            self.restart(self.chance.randint(stored, self.path.stat().st_size))

    def restart(self, length: int) -> None:
        self.outbox.close()
        self.path.write_bytes(self.path.read_bytes()[:length])
        self.outbox = Outbox(str(self.path))
        known = {i for entries in self.journal.values() for i in entries}
        self.outbox.ack(self.outbox.unsettled & known)


@pytest.mark.spec("T4")
@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.sampled_from(["put", "put", "main", "fork", "kill"]), max_size=25),
    st.integers(0, 2**32),
)
def test_each_notice_reaches_the_journal_exactly_once(actions: list[str], seed: int) -> None:
    """However often the process dies on the way, each agent's journal holds its notices once each."""
    with tempfile.TemporaryDirectory() as folder:
        life = _Life(Path(folder), random.Random(seed))
        for action in actions:
            life.step(action)
        life.restart(life.path.stat().st_size)
        life.chance = random.Random()
        life.chance.random = lambda: 1.0
        for agent in AGENTS:
            life.take(agent)

        for parity, agent in enumerate(AGENTS):
            mine = [f"task-{n}" for n in range(1, life.put + 1) if n % 2 == parity]
            assert sorted(life.journal[agent]) == sorted(mine)
            assert life.outbox.pending(agent) == []
        life.outbox.close()


@pytest.mark.spec("T4")
def test_a_second_notice_of_one_id_is_refused(tmp_path: Path) -> None:
    """The first notice of an id stands, before and after it was acknowledged and after reopening."""
    path = str(tmp_path / "outbox")
    with Outbox(path) as outbox:
        assert outbox.put(notice(1, result="first"))
        assert not outbox.put(notice(1, result="second"))
        assert [n.result for n in notices_in(outbox.deliver("main"))] == ["first"]
        assert outbox.deliver("main") == []
        outbox.ack(["task-1"])
        assert not outbox.put(notice(1, result="third"))
    with Outbox(path) as outbox:
        assert not outbox.put(notice(1, result="fourth"))
        assert outbox.pending("main") == []


def test_a_task_that_never_notified_is_an_orphan(tmp_path: Path) -> None:
    """What was expected and not written is named on reopening, and no longer once it is written."""
    path = str(tmp_path / "outbox")
    with Outbox(path) as outbox:
        for number in (1, 2):
            outbox.expect(Expected(f"task-{number}", MAIN, TaskId(f"task-{number}"), "sleep"))
        outbox.put(notice(1))
    with Outbox(path) as outbox:
        assert [o.task_id for o in outbox.orphans()] == ["task-2"]
        outbox.put(notice(2))
    with Outbox(path) as outbox:
        assert outbox.orphans() == []


def test_a_damaged_line_does_not_hide_the_others(tmp_path: Path) -> None:
    """A line of rubbish in the middle is named and skipped."""
    path = tmp_path / "outbox"
    with Outbox(str(path)) as outbox:
        outbox.put(notice(1))
    with path.open("ab") as file:
        file.write(b"\0\0\0\n{}\n")
    with Outbox(str(path)) as outbox:
        outbox.put(notice(2))
        assert [why.partition(",")[0] for why in outbox.damage] == ["line 2", "line 3"]
        assert ids(outbox.pending("main")) == ["task-1", "task-2"]


def _three(path: Path) -> list[bytes]:
    with Outbox(str(path)) as outbox:
        outbox.put(notice(1))
        outbox.put(notice(2))
        outbox.ack(["task-1"])
    return path.read_bytes().splitlines(keepends=True)


@pytest.mark.spec("T4")
def test_every_changed_byte_is_told_with_its_line(tmp_path: Path) -> None:
    """Whatever bit of it is flipped, the outbox says where; what it offers was put into it."""
    path = tmp_path / "outbox"
    data = b"".join(_three(path))
    for place in range(len(data)):
        for bit in (1, 0x80):
            flipped = bytearray(data)
            flipped[place] ^= bit
            path.write_bytes(flipped)
            line = data[:place].count(b"\n") + 1
            with Outbox(str(path)) as outbox:
                assert f"line {line}, byte" in outbox.damage[0], (place, outbox.damage)
                assert set(outbox.pending("main")) <= {notice(1), notice(2)}


@pytest.mark.spec("T4")
@pytest.mark.parametrize("order", [(1, 2), (0, 2), (0, 2, 1), (0, 1, 1, 2), (1, 0, 2)])
def test_lines_in_another_order_are_told(tmp_path: Path, order: tuple[int, ...]) -> None:
    """A line that is missing, doubled or elsewhere is noticed by its number."""
    path = tmp_path / "outbox"
    lines = _three(path)
    path.write_bytes(b"".join(lines[number] for number in order))
    with Outbox(str(path)) as outbox:
        assert "stands where" in outbox.damage[0]
        kept = {notice(number + 1) for number in order if number < 2}
        assert set(outbox.pending("main")) <= kept


@pytest.mark.spec("T4")
def test_an_outbox_of_an_older_program_goes_on(tmp_path: Path) -> None:
    """Lines without checksums are read as they are; those that follow have them."""
    path = tmp_path / "outbox"
    lines = [re.sub(rb'"crc":"\w+","n":\d+,', b"", line) for line in _three(path)]
    path.write_bytes(b"".join(lines))
    for number in (3, 4):
        with Outbox(str(path)) as outbox:
            assert outbox.damage == []
            outbox.put(notice(number))
            assert ids(outbox.pending("main")) == [f"task-{n}" for n in range(2, number + 1)]
    assert path.read_bytes().count(b'"crc"') == 2
    with path.open("ab") as file:
        file.write(lines[0])
    with Outbox(str(path)) as outbox:
        assert len(outbox.damage) == 1


def test_a_full_disk_is_told_and_loses_nothing(tmp_path: Path) -> None:
    """A notice that cannot be stored raises and is offered all the same; half a record never stays."""
    path = tmp_path / "outbox"
    with Outbox(str(path)) as outbox:
        outbox.put(notice(1))
        size = path.stat().st_size
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, hard))
        try:
            with pytest.raises(JournalFull, match="free some space"):
                outbox.put(notice(2))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

        assert ids(outbox.pending("main")) == ["task-1", "task-2"]
        assert path.stat().st_size == size
        outbox.put(notice(3))
    with Outbox(str(path)) as outbox:
        assert ids(outbox.pending("main")) == ["task-1", "task-3"]
