"""kill -9 of processes that write to one mailbox, and of the one that reads it.

Eight members write to the leader at once, each a row of numbered messages, now and then a large
one. Each notes what was taken from it; the leader notes what it has read, together with its cursor.
In the end everything that was taken was read, nothing twice, and what one member wrote is in
order, whatever was torn.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import msgspec

from prong.mail import LEADER, Cursor, Member, Message, TeamFolder
from prong.system.descriptor import open_own, read_at
from prong.testing.swarm import run_alone, swarm
from prong.testing.torture import Trial, chance

WRITERS = 8
FULL = 2_000
"""Messages of each in a trial of the campaign."""
BOUND = 300.0
"""Seconds after which a trial counts as hung."""
_TEAM = "storm"


class _Read(msgspec.Struct, frozen=True, kw_only=True):
    """What the leader notes."""

    id: str = ""
    sender: str = ""
    number: int = 0
    attempt: int = 0
    cursor: Cursor


@contextmanager
def trials() -> Generator[Trial]:
    """Give the trial of the campaign, at its full size."""
    yield lambda rng: storm(rng.randrange(1 << 30), each=FULL)


def storm(seed: int, *, each: int) -> str:
    """Let eight processes write so many messages each; gives what was wrong."""
    with tempfile.TemporaryDirectory() as home:
        return run_alone("mail_campaign", [home, str(seed), str(each)], bound=BOUND)


def _write(home: Path, name: str, each: int, seed: int) -> None:
    """Write messages in their order, from the one after the last that was noted."""
    taken = _lines(home / f"{name}.taken")
    attempt = len(_lines(home / f"{name}.begun"))
    _note(home / f"{name}.begun", "begun")
    folder = TeamFolder.open(home, _TEAM)
    rng = chance(seed, attempt)
    for number in range(len(taken), each):
        large = rng.choice([20_000, 300_000]) if rng.random() < 0.004 else rng.randrange(300)
        folder.post(name, LEADER, Message(text="x" * large, summary=f"{number} {attempt}"))
        _note(home / f"{name}.taken", f"{number} {attempt}")


def _read(home: Path, writers: tuple[str, ...], each: int) -> None:
    """Note mail with the cursor behind it, until the last of every writer has come."""
    path = home / "read"
    noted = _noted(path)
    known = {one.id for one in noted}
    cursor = noted[-1].cursor if noted else Cursor()
    ends = {one.sender for one in noted if one.number == each - 1}
    folder = TeamFolder.open(home, _TEAM)
    while True:
        batch = folder.read(LEADER, cursor, known)
        for mail, behind in batch.mails:
            assert isinstance(mail.body, Message)
            number, attempt = map(int, mail.body.summary.split())
            read = _Read(
                id=mail.id, sender=mail.sender, number=number, attempt=attempt, cursor=behind
            )
            _note(path, msgspec.json.encode(read).decode())
            known.add(mail.id)
            if number == each - 1:
                ends.add(mail.sender)
        if batch.cursor != cursor:
            cursor = batch.cursor
            _note(path, msgspec.json.encode(_Read(cursor=cursor)).decode())
        elif ends.issuperset(writers):
            return
        else:
            folder.prune(LEADER, cursor)
            time.sleep(0.002)


def _note(path: Path, text: str) -> None:
    # One write: a kill leaves a whole line or a torn one at the end, which does not count.
    fd = open_own(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
    try:
        size = os.fstat(fd).st_size
        torn = size and read_at(fd, 1, size - 1) != b"\n"
        os.write(fd, f"{'!' * bool(torn)}{chr(10) * bool(torn)}{text}\n".encode())
    finally:
        os.close(fd)


def _lines(path: Path) -> list[str]:
    with suppress(FileNotFoundError):
        lines = path.read_text().split("\n")[:-1]
        return [line for line in lines if not line.endswith("!")]
    return []


def _noted(path: Path) -> list[_Read]:
    return [msgspec.json.decode(line, type=_Read) for line in _lines(path)]


def _judge(home: Path, writers: tuple[str, ...]) -> list[str]:
    read = [one for one in _noted(home / "read") if one.id]
    wrong = [f"{id_} was read {n} times" for id_, n in Counter(r.id for r in read).items() if n > 1]
    for name in writers:
        mine = [(one.number, one.attempt) for one in read if one.sender == name]
        if mine != sorted(set(mine)):
            wrong.append(f"what {name} wrote is not in order")
        taken = [tuple(map(int, line.split())) for line in _lines(home / f"{name}.taken")]
        if lost := sorted(set(taken) - set(mine)):
            wrong.append(f"of {name} {len(lost)} were lost: {lost[:5]}")
    return wrong


def main(words: list[str]) -> None:
    """Play one trial in a folder, and print what was wrong."""
    home, seed, each = Path(words[0]), int(words[1]), int(words[2])
    rng = random.Random(seed)  # noqa: S311 - the same trial for the same seed
    folder = TeamFolder.create(home, _TEAM, session="s")
    writers = tuple(f"w{number}" for number in range(WRITERS))
    for name in writers:
        folder.add(Member(name=name))
    works = {name: partial(_write, home, name, each, seed + int(name[1:])) for name in writers}
    works["reader"] = partial(_read, home, writers, each)
    killed = swarm(works, rng, kills=max(20, each // 10), pause=0.04)
    sys.stdout.write("\n".join(_judge(home, writers)))
    sys.stderr.write(f"{killed} kills\n")


if __name__ == "__main__":
    main(sys.argv[1:])
