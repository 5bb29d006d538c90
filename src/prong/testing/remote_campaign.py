"""kill -9 of sessions, workers, machines and lines while forks work elsewhere, until all is done.

A session starts forks in workspaces elsewhere, each of which runs commands that count. Kills hit
the session, which is taken up again, the worker that runs the forks, all processes of the machine
that they are on, or what carries the bytes; the machine may then be away for a while, or for good.
In the end no command was run twice, every fork was told of exactly once, whatever a command wrote
is in the branch that came back or in the workspace where it is kept, and no process is left.
"""

from __future__ import annotations

import random
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeAlias

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
from prong.testing.kill_campaign import journal_of, left_over, stand, untold
from prong.testing.kill_target import AWAY, KillTarget, ProcessKills, SshKills, Struck
from prong.testing.program import Program
from prong.testing.repository import Repo, make_repo
from prong.testing.request import Request
from prong.testing.scene import World, world
from prong.testing.script import Step, call, calls, delay, report, say

FORKS = 3
STEPS = 4

MakeTarget: TypeAlias = Callable[[random.Random, Path], KillTarget]
"""Makes the target of one session, whose copies of repositories are in `far` of the folder."""


class RemoteKill(msgspec.Struct, frozen=True):
    """Who is killed, after how many more requests, and how much later."""

    whom: Struck
    requests: int
    later: float
    away: float
    """Seconds for which nothing leads there then."""


class RemotePlan(msgspec.Struct, frozen=True):
    """What one session does and who is killed."""

    pause: float
    slow: float
    kills: tuple[RemoteKill, ...]


def plan_remote(
    rng: random.Random, kinds: Sequence[Struck], away: tuple[float, float]
) -> RemotePlan:
    """Choose one."""
    return RemotePlan(
        rng.choice([0.0, 0.1, 0.3]),
        rng.choice([0.0, 0.1]),
        tuple(_plan_kill(rng, rng.choice(kinds), away) for _ in range(rng.randint(2, 4))),
    )


def _plan_kill(rng: random.Random, whom: Struck, away: tuple[float, float]) -> RemoteKill:
    later = rng.choice([0.0, rng.uniform(0, 0.5)])
    return RemoteKill(whom, rng.randrange(6), later, rng.uniform(*away) if whom in AWAY else 0.0)


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

    def __init__(self, w: World, target: KillTarget, counts: Counter[str]) -> None:
        self._w = w
        self._counts = counts
        self._target = target
        self._program = Program()
        settings = {"remote": {"targets": {"box": target.settings}}, "retry": {"first": 0.01}}
        self._words = [
            *("--permission-mode", "bypassPermissions", "--allowed-tools", "Bash"),
            *("--settings", msgspec.json.encode(settings).decode()),
        ]

    async def run(self, words: list[str], kills: list[RemoteKill]) -> int:
        """Run the session, and let kills happen until one of them is its own.

        Raises TimeoutError if it does not end.
        """
        path = self._target.path
        process = await self._program.start(self._w, "-p", *words, *self._words, PATH=path)
        async with process:
            assert process.stdin is not None
            await process.stdin.aclose()
            async with anyio.create_task_group() as group:
                group.start_soon(self._strike, process, kills)
                with anyio.move_on_after(self._target.bound):
                    await process.wait()
                group.cancel_scope.cancel()
            await self._target.restore()
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
                # It may have ended in this moment.
                with suppress(ProcessLookupError):
                    process.kill()
            else:
                while not await self._target.strike(kill.whom, process.pid):  # noqa: ASYNC110 - nobody is told
                    await anyio.sleep(0.05)
            kills.pop(0)
            self._counts[kill.whom] += 1
            if kill.whom == "session":
                return
            if kill.whom != "gone":
                await anyio.sleep(kill.away)
                await self._target.restore()


async def _session(make: MakeTarget, rng: random.Random, counts: Counter[str], folder: Path) -> str:
    target = make(rng, folder)
    planned = plan_remote(rng, target.kinds, target.away)
    async with world(RemoteModel(planned), folder=folder / "it", opens=False) as w:
        w.root.rmdir()
        repo = make_repo(w.root)
        before = repo.fingerprint()
        try:
            wrong = await _besiege(w, target, list(planned.kills), counts)
        finally:
            left = await target.left()
        wrong = wrong or _judge(w, repo, folder / "far") or left or await left_over(folder)
        if not wrong and repo.fingerprint() != before:
            wrong = "the user's repository has changed"
    return f"{planned} on {target.settings}: {wrong}" if wrong else ""


async def _besiege(
    w: World, target: KillTarget, kills: list[RemoteKill], counts: Counter[str]
) -> str:
    """Let a session run, and be taken up again, until all kills have happened and all is done."""
    siege, words = _Siege(w, target, counts), ["Go", "--session-id", "it"]
    for _ in range(len(kills) + 4):
        left = len(kills)
        code = await siege.run(words, kills)
        if journal_of(w):
            words = ["--resume", "it"]
        if code == 2 or (code == 0 and left == 0):
            break
        if code not in {0, -9}:
            return f"the program ended with {code}"
        if code == 0:
            kills.clear()
    return ""


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


def remote_trials(make: MakeTarget) -> CountedTrial:
    """Kill sessions with work on targets that are made so, each in folders of its own."""

    def trial(rng: random.Random, counts: Counter[str]) -> str:
        folder = Path(tempfile.mkdtemp()).resolve()
        try:
            return anyio.run(_session, make, rng, counts, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    return CountedTrial(trial)


@contextmanager
def trials() -> Generator[CountedTrial]:
    """Kill sessions with work in processes of their own, and by ssh."""

    def make(rng: random.Random, folder: Path) -> KillTarget:
        return rng.choice([ProcessKills, SshKills])(folder)

    yield remote_trials(make)
