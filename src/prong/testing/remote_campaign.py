"""kill -9 of sessions, workers and lines while forks work on another machine, until all is done.

A session starts forks in workspaces elsewhere, each of which runs commands that count. Kills hit
the session, which is taken up again, the worker that runs the forks, or what carries the bytes. In
the end no command was run twice, every fork was told of exactly once, whatever a command wrote is
in the branch that came back or in the workspace where it is kept, and no process is left.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

import anyio
import anyio.abc
import msgspec

from prong.entry import Reply, Results
from prong.journal.note import ChildSpec
from prong.journal.replay import read_journal
from prong.journal.verify import verify
from prong.prompt import Prompt
from prong.testing.kill_campaign import BOUND, journal_of, left_over, stand, untold
from prong.testing.program import Program
from prong.testing.repository import Repo, make_repo
from prong.testing.request import Request
from prong.testing.scene import World, world
from prong.testing.script import Step, call, calls, delay, report, say
from prong.testing.torture import Trial

FORKS = 3
STEPS = 3
_SSH = '#!/bin/sh\nfor last; do :; done\nexec 3<&0\nsh -c "$last" <&3 3<&- &\nwait $!\n'
"""Stands for ssh: what it starts is not it, so that the line can die alone."""

Struck = Literal["session", "worker", "line"]


class RemoteKill(msgspec.Struct, frozen=True):
    """Who is killed, after how many more requests, and how much later."""

    whom: Struck
    requests: int
    later: float


class RemotePlan(msgspec.Struct, frozen=True):
    """What one session does and who is killed."""

    launcher: Literal["process", "ssh"]
    pause: float
    slow: float
    kills: tuple[RemoteKill, ...]


def plan_remote(rng: random.Random) -> RemotePlan:
    """Choose one."""
    launcher = rng.choice(["process", "ssh"])
    kinds: list[Struck] = (
        ["session", "worker", "line"] if launcher == "ssh" else ["session", "worker"]
    )
    kills = tuple(
        RemoteKill(rng.choice(kinds), rng.randrange(9), rng.choice([0.0, rng.uniform(0, 0.5)]))
        for _ in range(rng.randint(2, 4))
    )
    return RemotePlan(
        "ssh" if launcher == "ssh" else "process",
        rng.choice([0.0, 0.1, 0.3]),
        rng.choice([0.0, 0.1]),
        kills,
    )


class RemoteModel:
    """Plays every agent by what stands in its conversation."""

    def __init__(self, planned: RemotePlan) -> None:
        """Let commands note themselves in their working copy."""
        self._plan = planned

    def __call__(self, request: Request) -> Step:
        """Give the next step of whoever asks."""
        step = self._step(request)
        return delay(self._plan.slow, then=step) if self._plan.slow else step

    def _step(self, request: Request) -> Step:
        part, done = stand(request)
        if not part:
            return self._agents() if done == 0 else say("So.")
        if done >= STEPS:
            return report()
        command = f"echo part-{part}-{done} >> part.txt; sleep {self._plan.pause}"
        return call("Bash", {"command": command})

    def _agents(self) -> Step:
        given = {"isolation": "remote"}
        names = range(1, FORKS + 1)
        return calls(
            *(("Agent", {"description": f"p{n}", "prompt": f"Part {n}.", **given}) for n in names)
        )


class _Siege:
    """One session that is killed again and again."""

    def __init__(self, w: World, planned: RemotePlan, folder: Path) -> None:
        self._w = w
        self._far = folder / "far"
        self._program = Program()
        target = {"launcher": planned.launcher, "folder": str(self._far), "python": sys.executable}
        if planned.launcher == "ssh":
            target["host"] = "far"
        settings = {"remote": {"targets": {"box": target}}, "retry": {"first": 0.01}}
        self._words = [
            *("--permission-mode", "bypassPermissions", "--allowed-tools", "Bash"),
            *("--settings", msgspec.json.encode(settings).decode()),
        ]
        bin_ = folder / "bin"
        bin_.mkdir()
        (bin_ / "ssh").write_text(_SSH)
        (bin_ / "ssh").chmod(0o755)
        self._path = f"{bin_}:{os.environ['PATH']}"
        self.struck: Counter[Struck] = Counter()

    async def run(self, words: list[str], kills: list[RemoteKill]) -> int:
        """Run the session, and let kills happen until one of them is its own.

        Raises TimeoutError if it does not end.
        """
        process = await self._program.start(self._w, "-p", *words, *self._words, PATH=self._path)
        async with process:
            assert process.stdin is not None
            await process.stdin.aclose()
            async with anyio.create_task_group() as group:
                group.start_soon(self._strike, process, kills)
                with anyio.move_on_after(BOUND + 40):
                    await process.wait()
                group.cancel_scope.cancel()
            if process.returncode is None:
                process.kill()
                raise TimeoutError(f"prong {' '.join(words)} does not end")
            return process.returncode

    async def _strike(self, process: anyio.abc.Process, kills: list[RemoteKill]) -> None:
        while kills:
            kill, before = kills[0], len(self._w.server.records)
            while len(self._w.server.records) - before < kill.requests:  # noqa: ASYNC110 - nobody is told
                await anyio.sleep(0.005)
            await anyio.sleep(kill.later)
            kills.pop(0)
            self.struck[kill.whom] += 1
            if kill.whom == "session":
                process.kill()
                return
            for pid in _started(process.pid, kill.whom):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def _started(session: int, whom: Struck) -> list[int]:
    """Find the workers of a session, or what leads to them."""
    parents: dict[int, int] = {}
    lines: dict[int, bytes] = {}
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            lines[int(place.name)] = (place / "cmdline").read_bytes()
            stat = (place / "stat").read_bytes().rpartition(b")")[2].split()
            parents[int(place.name)] = int(stat[1])

    def is_below(pid: int) -> bool:
        while pid in parents and pid != session:
            pid = parents[pid]
        return pid == session

    mark = b"\0worker\0--stdio\0" if whom == "worker" else b"/bin/ssh\0"
    found = [pid for pid, words in lines.items() if mark in words and is_below(pid)]
    return [pid for pid in found if whom == "line" or b"/bin/ssh\0" not in lines[pid]]


async def _session(rng: random.Random, folder: Path) -> str:
    planned = plan_remote(rng)
    async with world(RemoteModel(planned), folder=folder / "it", opens=False) as w:
        w.root.rmdir()
        repo = make_repo(w.root)
        before = repo.fingerprint()
        siege, words, kills = (
            _Siege(w, planned, folder),
            ["Go", "--session-id", "it"],
            list(planned.kills),
        )
        for _ in range(len(kills) + 4):
            left = len(kills)
            code = await siege.run(words, kills)
            if journal_of(w):
                words = ["--resume", "it"]
            if code == 2 or (code == 0 and left == 0):
                break
            if code not in {0, -9}:
                return f"{planned}: the program ended with {code}"
            if code == 0:
                kills.clear()
        wrong = _judge(w, repo, folder / "far") or await left_over(folder)
        if not wrong and repo.fingerprint() != before:
            wrong = "the user's repository has changed"
    return f"{planned}: {wrong}" if wrong else ""


def _judge(w: World, repo: Repo, far: Path) -> str:
    """Say what was run twice, lost, or not told of exactly once."""
    path = journal_of(w)
    if path is None or not verify(path).sound:
        return "the journal is missing or damaged"
    replay = read_journal(path)
    specs = [spec for one in replay.agents if (spec := replay.last(one, ChildSpec))]
    if (many := len(specs)) not in {0, FORKS}:
        return f"{many} forks were started"
    noted = _noted(repo, far)
    if twice := [name for name, times in noted.items() if times > 1]:
        return f"run twice: {twice}"
    done = {name for spec in specs for name in _done(replay.agents[spec.path])}
    if lost := sorted(done - set(noted)):
        return f"lost: {lost}"
    return untold(replay)


def _noted(repo: Repo, far: Path) -> Counter[str]:
    """Give what commands have noted: in branches that came back, else in what is kept there."""
    found: Counter[str] = Counter()
    branches = repo.git("branch", "--list", "--format=%(refname:short)", "prong/*").split()
    for branch in branches:
        if "part.txt" in repo.git("ls-tree", "--name-only", branch).split():
            found.update(repo.git("show", f"{branch}:part.txt").split())
    for file in far.glob("*/.prong/worktrees/*/part.txt"):
        kept = Counter(file.read_text().split())
        found |= kept
    return found


def _done(prompt: Prompt) -> set[str]:
    """Give the commands of a conversation that have a result and did not fail."""
    asked: dict[str, str] = {}
    done: set[str] = set()
    for _, entry in prompt.entries():
        if isinstance(entry, Reply):
            asked |= {one.id: one.arguments for one in entry.calls}
        elif isinstance(entry, Results):
            good = [asked.get(one.call_id, "") for one in entry.results if not one.failed]
            done.update(re.findall(r"part-\d-\d", " ".join(good)))
    return done


@contextmanager
def trials() -> Generator[Trial]:
    """Kill sessions with work elsewhere, each in folders of its own."""

    def trial(rng: random.Random) -> str:
        folder = Path(tempfile.mkdtemp()).resolve()
        try:
            return anyio.run(_session, rng, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    yield trial
