"""What one task costs alone, with forks, with typed agents, with a coordinator and with a team.

    python bench/patterns.py

The scripted server plays the same task in each way and keeps the books: a project is read (four
files), then three parts are done, each of which reads some files of its own, one after the other,
and writes one. Prices are the catalogue's. What is told to whom is part of the task:

alone        the main agent reads the project and does the three parts one after the other
forks        the main agent reads the project and splits into three: they know what it has read
typed        the main agent reads the project and briefs three agents, each of which has to read
             two of the four files again, since a brief is no file
briefed      the same, if the brief is all they need beside the file of their part
coordinator  the main agent reads nothing: a worker reads the project and reports, then three are
             briefed as above

team         as forks, but the three are members of a team: each reports by a message, says that it
             is idle and sleeps

"In a row" is how many requests follow one another: those of the main agent, and the most that one
child made in each round of children.
"""

from __future__ import annotations

from collections import Counter

import anyio
import msgspec

from prong.entry import Usage
from prong.event import MAIN
from prong.testing import Script, Step, call, report, say, world
from prong.testing.script import Call

WAYS = ("alone", "forks", "typed", "briefed", "coordinator", "team")
TASKS = ((20_000, 1), (80_000, 1), (80_000, 8))
"""Tokens of the project's four files, about, and how many files each part reads by itself."""
PARTS = ("PART-1", "PART-2", "PART-3")
_FILES = ("a.py", "b.py", "c.py", "d.py")
_LINE = "def f_{n}(x):  # adds {n} to what it is given, and nothing else\n    return x + {n}\n"
_BRIEF = "What the parts of the project are and how they hang together, as far as it matters. " * 16


class Bill(msgspec.Struct, frozen=True):
    """What a way has cost."""

    way: str
    requests: int
    in_a_row: int
    usage: Usage
    cost: float


def text(tokens: int) -> str:
    """Make a file of about so many tokens."""
    one = _LINE.format(n=100)
    return "".join(_LINE.format(n=n) for n in range(tokens * 4 // len(one)))


def together(*steps: Step) -> Step:
    """Make one reply of several calls."""
    return Step(tuple(part for step in steps for part in step.parts))


def read(name: str) -> Step:
    """Read a file."""
    return call("Read", {"file_path": name})


def write(part: str) -> Step:
    """Write what a part is to write."""
    return call("Write", {"file_path": f"{part}.md", "content": "A sentence of the text. " * 60})


def work(part: str, reads: int) -> list[Step]:
    """Do a part."""
    return [*(read(f"{part}-{number}.py") for number in range(reads)), write(part)]


def start(*briefs: tuple[str, str], kind: str) -> Step:
    """Start agents in one reply; a fork is told its part alone."""
    given = [
        {
            "description": "do a part",
            "prompt": f"{told}\n\nDo {part}." if told else f"Do {part}.",
            **({"subagent_type": kind} if kind != "fork" else {}),
        }
        for part, told in briefs
    ]
    return Step(tuple(Call("Agent", one) for one in given))


def script(way: str, reads: int) -> Script:
    """Say what the model does."""
    whole = together(*map(read, _FILES))
    fresh = {
        part: [together(read("a.py"), read("b.py")), *work(part, reads), report()] for part in PARTS
    }
    own = {part: [*work(part, reads), report()] for part in PARTS}
    done = say("All three parts are done. " * 20)
    match way:
        case "alone":
            steps = [step for part in PARTS for step in work(part, reads)]
            return Script([whole, say("I know it."), *steps, done])
        case "forks":
            forks = start(*((part, "") for part in PARTS), kind="fork")
            return Script([whole, say("I know it."), forks, say("They work."), done], own)
        case "team":
            members = Step(
                tuple(
                    Call("TeamSpawn", {"name": part.lower(), "description": "x", "prompt": part})
                    for part in PARTS
                )
            )
            said = call("SendMessage", {"to": "leader", "message": "Done, and tested. " * 10})
            parts = {part: [*work(part, reads), said, say("Done.")] for part in PARTS}
            create = call("TeamCreate", {"name": "bench"})
            steps = [whole, say("I know it."), create, members]
            return Script(steps, parts, forever=done)
        case "typed" | "briefed":
            agents = start(*((part, _BRIEF) for part in PARTS), kind="general-purpose")
            parts = fresh if way == "typed" else own
            return Script([whole, say("I know it."), agents, say("They work."), done], parts)
        case _:
            first = start(("RESEARCH", "Read the project."), kind="worker")
            then = start(*((part, _BRIEF) for part in PARTS), kind="worker")
            found = {"RESEARCH": [whole, say(_BRIEF)]}
            return Script([first, say("It reads."), then, say("They work."), done], found | fresh)


async def play(way: str, tokens: int, reads: int) -> Bill:
    """Play a way, and give its bill."""
    files = {name: text(tokens // 4) for name in _FILES}
    files |= {f"{part}-{number}.py": text(1_000) for part in PARTS for number in range(reads)}
    led = way == "coordinator"
    async with world(
        script(way, reads),
        files=files,
        mode="bypassPermissions",
        coordinator=led,
        team=way == "team",
        context_tokens=400_000,
    ) as w:
        if not led:
            await w.session.run("Read the project.")
        await w.session.run("Do the three parts.")
        missing = [part for part in PARTS if not (w.root / f"{part}.md").exists()]
        assert not missing, f"{way}: {missing} not done"
        rows, cost = w.parts.ledger.rows, w.session.cost
    assert cost is not None
    made = Counter(row.agent for row in rows)
    rounds = [n for agent, n in made.items() if agent != "main"]
    # The researcher's requests come before those of the others.
    row = made[MAIN] + max(rounds, default=0) + (2 if led else 0)
    return Bill(way, len(rows), row, sum((one.usage for one in rows), Usage()), cost)


def main() -> None:
    """Print a table for each size."""
    for tokens, reads in TASKS:
        told = "a file" if reads == 1 else f"{reads} files"
        print(f"\na project of about {tokens:,} tokens, parts that read {told} each\n")
        print("| way | requests | in a row | uncached | written | read | output | dollars |")
        print("|---|---|---|---|---|---|---|---|")
        for way in WAYS:
            bill = anyio.run(play, way, tokens, reads)
            u = bill.usage
            print(
                f"| {way} | {bill.requests} | {bill.in_a_row} | {u.uncached:,} | {u.written:,} "
                f"| {u.read:,} | {u.output:,} | {bill.cost:.3f} |"
            )


if __name__ == "__main__":
    main()
