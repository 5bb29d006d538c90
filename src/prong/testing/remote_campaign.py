"""kill -9 of sessions, workers, machines and lines while forks work elsewhere, until all is done.

A session starts forks in workspaces elsewhere, each of which runs commands that count. Kills hit
the session, which is taken up again, the worker that runs the forks, all processes of the machine
that they are on, or what carries the bytes; the machine may then be away for a while, or for good.
In the end no command was run twice, every fork was told of exactly once, whatever a command wrote
is in the branch that came back or in the workspace where it is kept, and no process is left.
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
from prong.event import MAIN
from prong.journal.note import ChildSpec
from prong.journal.replay import read_journal
from prong.journal.verify import verify
from prong.prompt import Prompt
from prong.testing.counted_trial import CountedTrial
from prong.testing.kill_campaign import BOUND, journal_of, left_over, stand, untold
from prong.testing.program import Program
from prong.testing.repository import Repo, make_repo
from prong.testing.request import Request
from prong.testing.scene import World, world
from prong.testing.script import Step, call, calls, delay, report, say

FORKS = 3
STEPS = 4
_SSH = """#!/bin/sh
[ -e "${0%/*}/away" ] && { echo 'ssh: connect to host far: Connection timed out' >&2; exit 255; }
for last; do :; done
exec 3<&0
sh -c "$last" <&3 3<&- &
wait $!
"""
"""Stands for ssh: what it starts is not it, so that the line can die alone, and stay away."""
_PATIENCE = 6.0
"""Seconds after which a machine counts as gone for good."""

Struck = Literal["session", "worker", "node", "line", "network", "gone"]
"""Who is killed: `network` is a line that stays away for a while, `gone` one that never comes back.

A node is a worker with all that it has started, and by ssh it is away for a while too.
"""
_OF_PROCESS: tuple[Struck, ...] = ("session", "worker", "node")
_OF_SSH: tuple[Struck, ...] = (*_OF_PROCESS, "line", "network", "gone")
_AWAY: frozenset[Struck] = frozenset(["node", "network", "gone"])


class RemoteKill(msgspec.Struct, frozen=True):
    """Who is killed, after how many more requests, and how much later."""

    whom: Struck
    requests: int
    later: float
    away: float
    """Seconds for which nothing leads there then, if that is part of it."""


class RemotePlan(msgspec.Struct, frozen=True):
    """What one session does and who is killed."""

    launcher: Literal["process", "ssh"]
    pause: float
    slow: float
    kills: tuple[RemoteKill, ...]


def plan_remote(rng: random.Random) -> RemotePlan:
    """Choose one."""
    launcher = rng.choice(["process", "ssh"])
    kinds = _OF_SSH if launcher == "ssh" else _OF_PROCESS
    kills = tuple(
        RemoteKill(
            rng.choice(kinds),
            rng.randrange(6),
            rng.choice([0.0, rng.uniform(0, 0.5)]),
            rng.uniform(0.5, 4.0),
        )
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

    def __init__(self, w: World, planned: RemotePlan, folder: Path, counts: Counter[str]) -> None:
        self._w = w
        self._counts = counts
        self._far = folder / "far"
        self._program = Program()
        target: dict[str, str | float]
        target = {"launcher": planned.launcher, "folder": str(self._far), "python": sys.executable}
        target["patience"] = _PATIENCE
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
        self._away = bin_ / "away"

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
            self._away.unlink(missing_ok=True)
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
            if kill.whom == "session":
                kills.pop(0)
                process.kill()
                self._counts["session"] += 1
                return
            while not (found := _started(process.pid, kill.whom)):  # noqa: ASYNC110 - nobody is told
                await anyio.sleep(0.05)
            kills.pop(0)
            if kill.whom in _AWAY:
                self._away.touch()
            for pid in found:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._counts[kill.whom] += 1
            if kill.whom != "gone":
                await anyio.sleep(kill.away if kill.whom in _AWAY else 0)
                self._away.unlink(missing_ok=True)


def _started(session: int, whom: Struck) -> list[int]:
    """Find the workers of a session, or what leads to them."""
    parents: dict[int, int] = {}
    lines: dict[int, bytes] = {}
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            lines[int(place.name)] = (place / "cmdline").read_bytes()
            stat = (place / "stat").read_bytes().rpartition(b")")[2].split()
            parents[int(place.name)] = int(stat[1])

    below = {
        pid: words
        for pid, words in lines.items()
        if pid != session and _descends(pid, {session}, parents)
    }
    leads = {pid for pid, words in below.items() if b"/bin/ssh\0" in words}
    if whom in {"line", "network", "gone"}:
        return sorted(leads)
    workers = {pid for pid, words in below.items() if b"\0worker\0--stdio\0" in words} - leads
    if whom == "worker":
        return sorted(workers)
    return sorted(leads | {pid for pid in below if _descends(pid, workers, parents)})


def _descends(pid: int, first: set[int], parents: dict[int, int]) -> bool:
    """Whether a process is one of these, or was started by one."""
    while pid in parents and pid not in first:
        pid = parents[pid]
    return pid in first


async def _session(rng: random.Random, counts: Counter[str], folder: Path) -> str:
    planned = plan_remote(rng)
    async with world(RemoteModel(planned), folder=folder / "it", opens=False) as w:
        w.root.rmdir()
        repo = make_repo(w.root)
        before = repo.fingerprint()
        siege, words, kills = (
            _Siege(w, planned, folder, counts),
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
    if wrong := _unstarted(replay.agents[MAIN], {spec.call_id for spec in specs}):
        return wrong
    noted = _noted(repo, far)
    if twice := [name for name, times in noted.items() if times > 1]:
        return f"run twice: {twice}"
    done = {name for spec in specs for name in _done(replay.agents[spec.path])}
    if lost := sorted(done - set(noted)):
        return f"lost: {lost}"
    return untold(replay)


def _unstarted(prompt: Prompt, begun: set[str]) -> str:
    """Say which calls for forks led to none and were not reported as interrupted.

    A session may be killed when it has started one of several, and never starts a call twice.
    """
    asked: set[str] = set()
    failed: set[str] = set()
    for _, entry in prompt.entries():
        if isinstance(entry, Reply):
            asked |= {one.id for one in entry.calls}
        elif isinstance(entry, Results):
            failed |= {one.call_id for one in entry.results if one.failed}
    if len(begun) > FORKS:
        return f"{len(begun)} forks were started"
    lost = asked - begun - failed
    return f"calls that led to nothing: {sorted(lost)}" if lost else ""


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
def trials() -> Generator[CountedTrial]:
    """Kill sessions with work elsewhere, each in folders of its own."""

    def trial(rng: random.Random, counts: Counter[str]) -> str:
        folder = Path(tempfile.mkdtemp()).resolve()
        try:
            return anyio.run(_session, rng, counts, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    yield CountedTrial(trial)
