"""Mailboxes against SQLite in WAL mode with `synchronous=FULL`, doing the same job with real syncs.

Eight processes send 200 messages of 350 bytes each to one reader, each waiting until its message is
durable before it sends the next. The reader looks every millisecond and takes each message once,
also after a kill: ours stores what it took with its cursor in a file of its own and syncs it, the
other marks what it took in the transaction that reads it. Both sides store the same signed
lines, and both readers prove them. The delay is from the call that sends until the reader has taken
the message. One row more, for information, is of readers that only look, and would forget with
their process what they have read.

The two sides take turns, and the median of the ratios of neighbours counts: how long a sync takes
depends on what else the disk has to do. Then, between two processes and one message at a time, the
delay with the doorbell. Runs on the disk of /var/tmp, unless TMPDIR names another. Runs alone too:
`python bench/mail.py`.
"""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio
import msgspec
from measure import Row, show

from prong.mail import LEADER, Cursor, Mail, Member, Message, TeamFolder
from prong.mail.keyring import Keyring, Verifier
from prong.mail.mailbox import Mailbox

WRITERS, EACH, SIZE, ROUNDS = 8, 200, 350, 7
PADDING = "x" * 130
"""With which a line has about `SIZE` bytes."""
LOOK = 0.001
_fork = multiprocessing.get_context("fork")


def body() -> Message:
    return Message(text=PADDING, summary=f"{time.monotonic():.6f}")


def make_team(home: Path) -> TeamFolder:
    folder = TeamFolder.create(home, "bench", session="s")
    for number in range(WRITERS):
        folder.add(Member(name=f"w{number}"))
    return folder


def connect(home: Path) -> sqlite3.Connection:
    database = sqlite3.connect(home / "mail.db", timeout=60, isolation_level=None)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=FULL")
    return database


def send_ours(home: Path, name: str) -> Callable[[], object]:
    folder = TeamFolder.open(home, "bench")
    return lambda: folder.post(name, LEADER, body())


def send_theirs(home: Path, name: str) -> Callable[[], object]:
    path = home / "teams/bench"
    box, key, database = Mailbox(path, LEADER, "bench"), Keyring(path / "keys"), connect(home)

    def send() -> None:
        mail = Mail(
            id=f"{name}.{os.urandom(8).hex()}",
            sender=name,
            to=LEADER,
            at=time.time(),
            body=body(),
        )
        line = box.line(mail, key.key(name) or b"")
        database.execute("INSERT INTO inbox (line) VALUES (?)", (line,))

    return send


def read_ours(home: Path, *, keep: bool) -> Callable[[], list[str]]:
    folder, cursor = TeamFolder.open(home, "bench"), Cursor()
    journal = os.open(home / "journal", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def read() -> list[str]:
        nonlocal cursor
        batch = folder.read(LEADER, cursor)
        cursor = batch.cursor
        if keep and batch.mails:
            os.write(journal, b"".join(msgspec.json.encode(taken) + b"\n" for taken in batch.mails))
            os.fdatasync(journal)
        return [mail.body.summary for mail, _ in batch.mails if isinstance(mail.body, Message)]

    return read


def read_theirs(home: Path, *, keep: bool) -> Callable[[], list[str]]:
    verifier = Verifier(Keyring(home / "teams/bench/keys"), team="bench", place="inbox/leader")
    database, last = connect(home), 0

    def read() -> list[str]:
        nonlocal last
        found = database.execute("SELECT id, line FROM inbox WHERE id > ?", (last,)).fetchall()
        if keep and found:
            # Only now, so that a look at an empty box keeps no writer waiting.
            query = "UPDATE inbox SET taken = 1 WHERE id > ? RETURNING id, line"
            found = database.execute(query, (last,)).fetchall()
        for number, line in found:
            verifier.sender(line.rstrip(b"\n"))
            last = max(last, number)
        return [msgspec.json.decode(line)["body"]["summary"] for _, line in found]

    return read


def write_many(send, home, name, start) -> None:
    post = send(home, name)
    start.wait()
    for _ in range(EACH):
        post()


def read_all(read, home, start, pipe) -> None:
    look, delays = read(home), []
    start.wait()
    while len(delays) < WRITERS * EACH:
        found = look()
        now = time.monotonic()
        delays += [now - float(sent) for sent in found]
        if not found:
            time.sleep(LOOK)
    pipe.send(delays)


def storm(send, read) -> tuple[float, list[float]]:
    """Give the durable messages per second, and the delays."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp")) as place:
        home = Path(place)
        make_team(home)
        connect(home).execute(
            "CREATE TABLE inbox (id INTEGER PRIMARY KEY, line BLOB, taken INTEGER DEFAULT 0)"
        ).close()
        start = _fork.Barrier(WRITERS + 2)
        ours, theirs = _fork.Pipe(duplex=False)
        reader = _fork.Process(target=read_all, args=(read, home, start, theirs))
        writers = [
            _fork.Process(target=write_many, args=(send, home, f"w{number}", start))
            for number in range(WRITERS)
        ]
        for process in (reader, *writers):
            process.start()
        start.wait()
        begun = time.monotonic()
        for process in writers:
            process.join()
        took = time.monotonic() - begun
        delays = ours.recv()
        reader.join()
        return WRITERS * EACH / took, delays


def answer(home: Path, ready, pipe, count: int) -> None:
    async def wait() -> list[float]:
        folder, cursor, delays = TeamFolder.open(home, "bench"), Cursor(), []
        async with folder.doorbell("w0") as bell:
            ready.set()
            while len(delays) < count:
                batch = folder.read("w0", cursor)
                now = time.monotonic()
                cursor = batch.cursor
                for mail, _ in batch.mails:
                    assert isinstance(mail.body, Message)
                    delays.append(now - float(mail.body.summary))
                if not batch.mails:
                    await bell.wait()
        return delays

    pipe.send(anyio.run(wait))


def delivery(count: int = 200) -> list[float]:
    """Give the delays of single messages from one process to another that waits at its bell."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp")) as place:
        home = Path(place)
        folder = make_team(home)
        ready = _fork.Event()
        ours, theirs = _fork.Pipe(duplex=False)
        reader = _fork.Process(target=answer, args=(home, ready, theirs, count))
        reader.start()
        ready.wait()
        for _ in range(count):
            folder.post(LEADER, "w0", body())
            time.sleep(0.005)
        delays = ours.recv()
        reader.join()
        return delays


@dataclass(frozen=True)
class Compared:
    """Medians: of each side, and of the ratios of neighbours."""

    rates: tuple[float, float]
    delays: tuple[float, float]
    rate: float
    delay: float

    def __str__(self) -> str:
        ours, theirs = self.rates
        mine, other = self.delays
        rates = f"{self.rate:.1f}x ({ours:,.0f} to {theirs:,.0f} a second)"
        return f"{rates}, delay {self.delay:.3f} ({mine * 1e3:.1f} to {other * 1e3:.1f} ms)"


def compare(*, keep: bool, rounds: int) -> Compared:
    sides = ((send_ours, read_ours), (send_theirs, read_theirs))
    rates, delays = ([], []), ([], [])
    for _ in range(rounds):
        for side, (send, read) in enumerate(sides):
            rate, waited = storm(send, partial(read, keep=keep))
            rates[side].append(rate)
            delays[side].append(statistics.median(waited))
    middle = statistics.median
    return Compared(
        (middle(rates[0]), middle(rates[1])),
        (middle(delays[0]), middle(delays[1])),
        middle(a / b for a, b in zip(*rates, strict=True)),
        middle(a / b for a, b in zip(*delays, strict=True)),
    )


def rows() -> Iterator[Row]:
    found = compare(keep=True, rounds=ROUNDS)
    what = "durable messages of 8 processes, to SQLite's"
    yield Row(what, str(found), ">= 2x", found.rate >= 2)
    yield Row("their median delay, to SQLite's", f"{found.delay:.3f}", "<= 0.1", found.delay <= 0.1)
    yield Row("the same with readers that only look", str(compare(keep=False, rounds=3)))
    single = delivery()
    middle, last = statistics.median(single), statistics.quantiles(single, n=100)[-1]
    told = f"{middle * 1e3:.1f} ms (p99 {last * 1e3:.1f} ms)"
    yield Row("delivery between two processes, median", told, "< 20 ms", middle < 0.02)


if __name__ == "__main__":
    raise SystemExit(show(rows()))
