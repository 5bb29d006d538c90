from __future__ import annotations

import errno
import gc
import os
import random
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from prong.entry import Reply, user_text
from prong.errors import JournalBusy, JournalFull
from prong.journal.branch import branch
from prong.journal.note import ChildRun
from prong.journal.record import Opened
from prong.journal.replay import read_journal
from prong.journal.verify import verify
from prong.journal.writer import Journal
from prong.prompt import Head, Prompt
from prong.wire import HeadSpec, dialect

pytestmark = [pytest.mark.anyio, pytest.mark.door]

PRELUDE = """
import sys, os
from pathlib import Path
from prong.entry import user_text
from prong.errors import JournalBusy, JournalFull
from prong.prompt import Head, Prompt
from prong.journal.note import ChildRun, Titled
from prong.journal.writer import Journal
path = Path(sys.argv[1])
"""


def begin(path: Path) -> Prompt:
    prompt = Prompt(Head(dialect("anthropic"), HeadSpec(model="m"))).append(user_text("first"))
    opened = Opened(session=path.stem, created=0.0, cwd="/")
    with Journal.create(path, opened) as journal:
        journal.keep("main", prompt)
    return prompt


def python(code: str, *args: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PRELUDE + code, *map(str, args)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


FULL = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
journal, replay = Journal.resume(path)
prompt = replay.agents["main"]
resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 5000, resource.RLIM_INFINITY))
stored = 0
while True:
    longer = prompt.append(user_text(f"{stored} " + "x" * 700))
    try:
        journal.keep("main", longer)
    except JournalFull as error:
        print(error)
        break
    prompt, stored = longer, stored + 1
size = path.stat().st_size
try:
    journal.note("main", Titled("y" * 6000))
except JournalFull:
    print("still full", path.stat().st_size == size)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
journal.keep("main", longer)
print(stored, longer.digest)
"""


@pytest.mark.spec("L8")
def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    """A write that does not fit is taken back whole and said; with space again, work goes on."""
    path = tmp_path / "s1.jsonl"
    begin(path)
    child = python(FULL, path)
    out, _ = child.communicate(timeout=60)
    assert child.returncode == 0
    error, again, last = out.splitlines()
    assert os.strerror(errno.EFBIG) in error
    assert "--resume s1" in error
    assert again == "still full True"
    stored, digest = last.split()
    assert int(stored) > 0
    report = verify(path)
    assert report.sound
    assert report.torn == 0
    replay = read_journal(path)
    assert replay.agents["main"].digest == digest
    assert replay.agents["main"].depth == 1 + int(stored) + 1


def test_a_device_without_space_is_said() -> None:
    """ENOSPC becomes JournalFull, and says what to do."""
    fd = os.open("/dev/full", os.O_WRONLY)
    opened = Opened(session="s1", created=0.0, cwd="/")
    journal = Journal(Path("/dev/full"), fd, opened, time.time)
    with pytest.raises(JournalFull, match=r"No space left.*free some space"):
        journal.note("main", ChildRun(1))
    os.close(fd)


HOLD = """
journal, replay = Journal.resume(path)
print("open", flush=True)
sys.stdin.readline()
"""


@pytest.mark.spec("L8")
def test_only_one_process_resumes_a_session(tmp_path: Path) -> None:
    """The second is told who has it; reading and branching need no lock; death frees it."""
    path = tmp_path / "s1.jsonl"
    prompt = begin(path)
    child = python(HOLD, path)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "open\n"
        before = path.read_bytes()
        with pytest.raises(JournalBusy, match=rf"pid {child.pid}\).*--fork-session"):
            Journal.resume(path)
        assert path.read_bytes() == before
        assert read_journal(path).agents["main"].digest == prompt.digest
        branch(path, tmp_path / "s2.jsonl", Opened(session="s2", created=0.0, cwd="/"))
        assert read_journal(tmp_path / "s2.jsonl").agents["main"].digest == prompt.digest
    finally:
        child.kill()
        child.communicate()
    journal, _ = Journal.resume(path)
    journal.close()
    assert not path.with_suffix(".lock").exists()


RACE = """
sys.stdin.readline()
try:
    journal, replay = Journal.resume(path)
except JournalBusy:
    print("busy", flush=True)
else:
    print("won", flush=True)
    sys.stdin.readline()
"""


@pytest.mark.spec("L8")
def test_of_many_racing_processes_one_wins(tmp_path: Path) -> None:
    """However many resume at once, exactly one gets the session."""
    path = tmp_path / "s1.jsonl"
    begin(path)
    children = [python(RACE, path) for _ in range(4)]
    try:
        for child in children:
            assert child.stdin is not None
            child.stdin.write("go\n")
            child.stdin.flush()
        said = [child.stdout.readline().strip() for child in children if child.stdout]
    finally:
        for child in children:
            child.kill()
            child.communicate()
    assert sorted(said) == ["busy", "busy", "busy", "won"]


WRITE = """
journal, replay = Journal.resume(path)
prompt = replay.agents["main"]
n = prompt.depth
print("ready", flush=True)
while True:
    prompt = prompt.append(user_text(f"{n} " + "z" * (n % 7) * 997))
    journal.keep("main", prompt)
    journal.note("main", ChildRun(n))
    os.write(1, f"{prompt.digest} {n}\\n".encode())
    n += 1
"""


@pytest.mark.spec("L8", "L1")
def test_what_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    """Killed at random moments, again and again, a writer loses nothing that its call returned for."""
    path = tmp_path / "s1.jsonl"
    begin(path)
    chance = random.Random(7)
    for _ in range(8):
        with python(WRITE, path) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            time.sleep(chance.uniform(0.0, 0.05))
            child.kill()
            # Not communicate(), which would pass over what readline() has taken in already.
            out = child.stdout.read()
        replay = read_journal(path)
        for line in out.split("\n")[:-1]:
            digest, n = line.split()
            assert digest in replay.known
            noted = replay.last("main", ChildRun)
            assert noted is not None
            assert noted.value >= int(n)
    journal, replay = Journal.resume(path)
    with journal:
        journal.keep("main", replay.agents["main"].append(Reply((), "", "done")))
    assert verify(path).sound


async def test_sync_waits_for_the_disk(tmp_path: Path) -> None:
    """Syncing a journal that was written succeeds, also with nothing new to sync."""
    path = tmp_path / "s1.jsonl"
    begin(path)
    journal, _ = Journal.resume(path)
    with journal:
        journal.note("main", ChildRun(1))
        await journal.sync()
        await journal.sync()
    assert read_journal(path).last("main", ChildRun) == ChildRun(1)


class _Disk:
    """Counts what is synced, and how much of the file was there when each sync began."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sizes: list[int] = []
        self.slow = threading.Event()
        self._path, self._sync = path, os.fsync
        monkeypatch.setattr(os, "fsync", self._count)

    def _count(self, fd: int) -> None:
        self.sizes.append(self._path.stat().st_size)
        self.slow.wait(50)
        self._sync(fd)


@pytest.mark.spec("L8")
async def test_agents_that_end_together_share_a_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is written while a sync runs waits for the next one, and one more is enough for all."""
    path = tmp_path / "s1.jsonl"
    begin(path)
    journal, _ = Journal.resume(path)
    safe: list[str] = []

    async def end(agent: str) -> None:
        journal.note(agent, ChildRun(1))
        written = path.stat().st_size
        await journal.sync()
        assert disk.sizes[-1] >= written
        safe.append(agent)

    with journal:
        await journal.sync()
        disk = _Disk(path, monkeypatch)
        async with anyio.create_task_group() as agents:
            agents.start_soon(end, "first")
            while not disk.sizes:
                await anyio.sleep(0)
            for number in range(20):
                agents.start_soon(end, f"agent-{number}")
            await anyio.wait_all_tasks_blocked()
            assert not safe
            disk.slow.set()
        assert len(safe) == 21
        assert len(disk.sizes) == 2
        assert disk.sizes[-1] == path.stat().st_size


@contextmanager
def _no_more_files() -> Generator[None]:
    """Leave no descriptor free, also none that is freed with what nobody has any more."""
    gc.collect()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.open("/", os.O_RDONLY)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.spec("L1")
async def test_what_is_stored_is_synced_without_another_file(tmp_path: Path):
    """A session that has taken all descriptors for its agents still stores its end."""
    path = tmp_path / "it.jsonl"
    begin(path)
    journal, _ = Journal.resume(path)
    await journal.sync()
    journal.close()
    journal, replay = Journal.resume(path)
    with journal:
        # The thread that syncs is started before there is nothing left to start one with.
        await anyio.to_thread.run_sync(os.getpid)
        with _no_more_files():
            journal.keep("main", replay.agents["main"].append(user_text("second")))
            await journal.sync()
    assert verify(path).sound


def test_too_many_open_files_are_told_as_that(tmp_path: Path):
    """What helps is another limit or fewer agents, and no space on the disk."""
    (tmp_path / "it").mkdir()
    with _no_more_files(), pytest.raises(JournalFull, match="raise the limit of open files"):
        Journal.create(tmp_path / "it/it.jsonl", Opened(session="it", created=0.0, cwd="/"))
