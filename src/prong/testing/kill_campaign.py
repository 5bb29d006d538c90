"""kill -9 of real `prong -p` processes at any moment, each resumed until all is done.

A session starts a command in the background, two forks, perhaps in worktrees, and a typed child,
all of which run commands of their own. It is killed a few times and taken up again each time. In
the end nothing was run twice, every fork was told of exactly once, every request was accepted and
extended the one before, what is stored is sound, and no process, worktree or branch is left.

When a process is killed depends on how fast the machine is, so that a seed repeats what was tried,
and most of the time what was found.
"""

from __future__ import annotations

import os
import random
import re
import tempfile
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import anyio
import msgspec

from prong.host import LocalHost
from prong.host.worktree import sweep
from prong.journal.note import ChildEnded, ChildSpec
from prong.journal.replay import Replay, read_journal
from prong.journal.verify import verify
from prong.testing.process_table import read_processes
from prong.testing.program import Program
from prong.testing.repository import make_repo
from prong.testing.request import Request, block_text
from prong.testing.scene import World, world
from prong.testing.script import Step, call, calls, delay, report, say
from prong.testing.torture import Trial

BOUND = 100.0
"""Seconds after which a process counts as hung."""
_ENDED = 60.0
"""Seconds in which what a killed session has started has ended too, however busy the machine is."""
_SETTINGS = '{"retry": {"first": 0.01}}'
_FREE = ("--permission-mode", "bypassPermissions", "--allowed-tools", "Bash")
_GIVEN = (*_FREE, "--settings", _SETTINGS)


class Plan(msgspec.Struct, frozen=True):
    """What one session does and when it is killed."""

    worktrees: bool
    pause: float
    """Seconds that a command takes."""
    slow: float
    """Seconds that a reply takes to begin."""
    kills: tuple[tuple[int, float], ...]
    """After how many more requests, and how much later."""


def plan(rng: random.Random) -> Plan:
    """Choose one."""
    return Plan(
        worktrees=rng.random() < 0.4,
        pause=rng.choice([0.0, 0.05, 0.2]),
        slow=rng.choice([0.0, 0.0, 0.1]),
        kills=tuple(
            (rng.randrange(10), rng.choice([0.0, rng.uniform(0, 0.05), rng.uniform(0, 0.6)]))
            for _ in range(rng.randint(1, 4))
        ),
    )


class Model:
    """Plays every agent by what stands in its conversation, so that a lost reply is said again."""

    def __init__(self, log: Path, planned: Plan) -> None:
        """Let commands note themselves in a file."""
        self._log = log
        self._plan = planned

    def __call__(self, request: Request) -> Step:
        """Give the next step of whoever asks."""
        step = self._step(request)
        return delay(self._plan.slow, then=step) if self._plan.slow else step

    def _step(self, request: Request) -> Step:
        part, done = stand(request)
        if not part:
            steps = [self._bash("main", background=True), self._agents()]
            return steps[done] if done < len(steps) else say("So.")
        match done:
            case 0:
                return self._bash(f"part-{part}", background=False)
            case 1:
                return self._bash(f"part-{part}-later", background=part == "1")
            case _:
                return report()

    def _agents(self) -> Step:
        place = {"isolation": "worktree"} if self._plan.worktrees else {}
        typed = {"subagent_type": "worker"}
        return calls(
            *(
                ("Agent", {"description": f"p{n}", "prompt": f"Part {n}.", **more})
                for n, more in ((1, place), (2, place), (3, typed))
            )
        )

    def _bash(self, name: str, *, background: bool) -> Step:
        command = f"echo {name} >> '{self._log}'; sleep {self._plan.pause}"
        return call("Bash", {"command": command, "run_in_background": background})


def stand(request: Request) -> tuple[str, int]:
    """Tell whose conversation it is, and how many calls it has made since it was told its part."""
    part, done = "", 0
    for block in request.blocks:
        if block.section != "messages":
            continue
        if block.kind == "text" and block.role == "user":
            found = re.findall(r"Part (\d)\.", block_text(block.raw))
            part, done = (found[-1], 0) if found else (part, done)
        done += block.kind == "tool_use"
    return part, done


async def _run(w: World, program: Program, words: list[str], kill: tuple[int, float] | None) -> int:
    """Run the program; give its code, or -9 if it was killed.

    Raises TimeoutError if it does not end.
    """
    before = len(w.server.records)
    process = await program.start(w, "-p", *words, *_GIVEN)

    async def strike(requests: int, later: float) -> None:
        while len(w.server.records) - before < requests:  # noqa: ASYNC110 - nobody is told
            await anyio.sleep(0.005)
        await anyio.sleep(later)
        process.kill()

    async with process:
        assert process.stdin is not None
        await process.stdin.aclose()
        async with anyio.create_task_group() as group:
            if kill is not None:
                group.start_soon(strike, *kill)
            with anyio.move_on_after(BOUND):
                await process.wait()
            group.cancel_scope.cancel()
        if process.returncode is None:
            process.kill()
            raise TimeoutError(f"prong {' '.join(words)} does not end")
        return process.returncode


async def _session(rng: random.Random, folder: Path) -> str:
    planned, program = plan(rng), Program()
    log = folder / "log"
    async with world(Model(log, planned), folder=folder / "it", opens=False) as w:
        w.root.rmdir()
        repo = make_repo(w.root)
        before = repo.fingerprint()
        words = ["Go", "--session-id", "it"]
        for kill in (*planned.kills, *[None] * 3):
            code = await _run(w, program, words, kill)
            if journal_of(w):
                words = ["--resume", "it"]
            if code == 2 or (code == 0 and kill is None):
                break
            if code not in {0, -9}:
                return f"{planned}: the program ended with {code}"
        _age(w.root / ".git/refs")
        await sweep(LocalHost(str(w.root)))
        wrong = _judge(w, log) or await left_over(folder)
        if not wrong and repo.fingerprint() != before:
            wrong = "the user's repository has changed"
        if not wrong and (found := repo.git("branch", "--list", "prong/*")):
            wrong = f"branches are left: {found}"
    return f"{planned}: {wrong}" if wrong else ""


def journal_of(w: World) -> Path | None:
    """Find the journal of the session, if there is one yet."""
    return next((w.store / "projects").glob("*/it.jsonl"), None)


def _judge(w: World, log: Path) -> str:
    """Say what is wrong with what was run, told, sent and stored."""
    ran = Counter(log.read_text().split()) if log.exists() else Counter[str]()
    if twice := [name for name, times in ran.items() if times > 1]:
        return f"run twice: {twice}"
    if refused := [r.status for r in w.server.records if r.status not in {0, 200}]:
        return f"refused requests: {refused}"
    path = journal_of(w)
    if path is None or not verify(path).sound:
        return "the journal is missing or damaged"
    return untold(read_journal(path))


def untold(replay: Replay) -> str:
    """Say which child was not told of exactly once."""
    # A fork has what its parent was told in its conversation, but it is stored once.
    tips = [placed.prompt.tip for placed in replay.entries]
    texts = [block_text(node.data) for node in tips if node and node.kind == "notice"]
    told = Counter(re.findall(r"<task-id>(\S+)</task-id>", "\n".join(texts)))
    specs = [spec for path in replay.agents if (spec := replay.last(path, ChildSpec))]
    ends = {spec.path: replay.last(spec.path, ChildEnded) for spec in specs}
    if running := [path for path, end in ends.items() if end is None or end.status == "running"]:
        return f"never ended: {running}"
    # Who waits for a typed child has its report as the answer to a call, unless that was lost.
    forked = [spec.task_id for spec in specs if spec.kind == "fork"]
    wrong = {name: told[name] for name in forked if told[name] != 1}
    wrong |= {name: times for name, times in told.items() if times > 1}
    return f"told of a child not exactly once: {wrong}" if wrong else ""


def _age(folder: Path) -> None:
    """Let a day pass for refs: a name that was taken a moment ago may still be wanted."""
    day_ago = time.time() - 86_400
    for path in folder.rglob("*"):
        os.utime(path, (day_ago, day_ago))


async def left_over(folder: Path) -> str:
    """Wait until no process is left that knows of the folder, or is in it; name one that stays."""
    found: list[bytes] = []
    with anyio.move_on_after(_ENDED):
        while True:
            table = read_processes()
            found = [table.lines[pid] for pid in table.knowing(folder)]
            if not found:
                return ""
            await anyio.sleep(0.05)
    return f"a process is left: {found[0]!r}"


@contextmanager
def trials() -> Generator[Trial]:
    """Kill sessions, each in folders of its own."""

    def trial(rng: random.Random) -> str:
        with tempfile.TemporaryDirectory() as folder:
            return anyio.run(_session, rng, Path(folder).resolve())

    yield trial
