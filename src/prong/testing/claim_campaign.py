"""kill -9 of processes that take tasks from one shared list.

Eight members claim tasks, some of which wait for others, note each, and complete it. In the end
every task is completed, was claimed once, and only after those that it needs were over.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from prong.mail import LEADER, Member, TeamFolder
from prong.testing.swarm import run_alone, swarm
from prong.testing.torture import Trial

CLAIMANTS = 8
FULL = 1_000
"""Tasks in a trial of the campaign."""
BOUND = 300.0
"""Seconds after which a trial counts as hung."""
_TEAM = "claims"


@contextmanager
def trials() -> Generator[Trial]:
    """Give the trial of the campaign, at its full size."""
    yield lambda rng: rush(rng.randrange(1 << 30), tasks=FULL)


def rush(seed: int, *, tasks: int) -> str:
    """Let eight processes claim so many tasks; gives what was wrong."""
    with tempfile.TemporaryDirectory() as home:
        return run_alone("claim_campaign", [home, str(seed), str(tasks)], bound=BOUND)


def _work(home: Path, name: str, seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - the same trial for the same seed
    tasks = TeamFolder.open(home, _TEAM).tasks
    while True:
        listed = tasks.list()
        for task in listed:
            if task.owner == name and not task.over:
                tasks.update(task.id, by=name, status="completed")
        pending = [task.id for task in listed if not task.over]
        if not pending:
            return
        if rng.random() < 0.5:
            # Many want the same one.
            tasks.claim(rng.choice(pending[:4]), by=name)
        elif tasks.claim_next(by=name) is None:
            time.sleep(0.002)


def _judge(path: Path, count: int) -> list[str]:
    wrong: list[str] = []
    owner: dict[str, str] = {}
    needs: dict[str, list[str]] = {}
    over = set[str]()
    for data in path.read_bytes().split(b"\n"):
        try:
            line: dict[str, Any] = msgspec.json.decode(data)
        except msgspec.DecodeError:
            continue
        body, by = line["body"], line["from"]
        match body["type"]:
            case "created":
                needs[body["id"]] = body["needs"]
            case "claimed":
                if body["id"] in owner:
                    wrong.append(f"{body['id']} went to {owner[body['id']]} and to {by}")
                if not over.issuperset(needs[body["id"]]):
                    wrong.append(f"{body['id']} was taken before what it needs was over")
                owner[body["id"]] = by
            case _:
                if owner.get(body["id"]) != by:
                    wrong.append(f"{body['id']} was completed by {by}, whose it is not")
                over.add(body["id"])
    if len(over) != count:
        wrong.append(f"{len(over)} of {count} were completed")
    return wrong


def main(words: list[str]) -> None:
    """Play one trial in a folder, and print what was wrong."""
    home, seed, count = Path(words[0]), int(words[1]), int(words[2])
    rng = random.Random(seed)  # noqa: S311 - the same trial for the same seed
    folder = TeamFolder.create(home, _TEAM, session="s")
    names = tuple(f"w{number}" for number in range(CLAIMANTS))
    for name in names:
        folder.add(Member(name=name))
    for number in range(count):
        needs = (str(rng.randint(max(1, number - 9), number)),) if number % 5 == 4 else ()
        folder.tasks.create(f"Task {number + 1}", by=LEADER, needs=needs)
    works = {name: partial(_work, home, name, seed + int(name[1:])) for name in names}
    killed = swarm(works, rng, kills=max(20, count // 10), pause=0.03)
    sys.stdout.write("\n".join(_judge(folder.tasks.path, count)))
    sys.stderr.write(f"{killed} kills\n")


if __name__ == "__main__":
    main(sys.argv[1:])
