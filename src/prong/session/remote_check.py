"""Tries a remote target from end to end, with no model and no key."""

from __future__ import annotations

import math
import shutil
import tempfile
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path

import anyio

from prong.config.option import Options
from prong.config.place import Place, look_around
from prong.config.secrecy import withheld
from prong.config.value import RemoteValues
from prong.errors import BadInput, ConfigError, NotPossibleNow, ProngError, UsageError
from prong.event import Event, LineChanged
from prong.host import LocalHost, make_private
from prong.host.away_work import AwayWork
from prong.host.bundle import mark_away
from prong.host.git import Git, locate
from prong.host.launcher import make_launcher
from prong.host.target import RemoteTarget, choose_target
from prong.host.worktree import reserve
from prong.session.diagnosis import Checkup, sandbox_findings
from prong.team.remote_machine import RemoteMachine, WireMeter, WorkspaceJob
from prong.team.worker_lines import WorkerLines
from prong.team.workspace_message import TRIAL

_TEXT = "there\n"
"""What is written into a file over there."""

_FAREWELL = 15.0
"""Seconds for a trial that is stopped to have removed what it had sent."""


async def check_remote(
    cwd: str = ".",
    name: str = "",
    *,
    settings: str | None = None,
    tell: Callable[[str], None] | None = None,
) -> tuple[Checkup, ...]:
    """Send a small repository to a target, have a file written there, and take it back.

    Where there is no room for a worker, `tell` is told at once, and it is waited for as long as for
    a line that was cut.
    """
    found: list[Checkup] = []
    try:
        place = look_around(Options(cwd=cwd, settings=settings))
        # Where targets were left out, that is why one is not there.
        found += [
            Checkup(topic="settings", state="limited", text=one)
            for one in place.warnings
            if "remote" in one
        ]
        values = place.settings.values.remote
        known, target = _wanted(values, name)
        launcher = make_launcher(target.launcher)
        told = f"{known}: {' '.join(launcher.argv(known, target))}"
    except (ConfigError, UsageError) as error:
        return (*found, Checkup(topic="target", state="broken", text=str(error)))
    found.append(Checkup(topic="target", state="good", text=told))
    folder = tempfile.mkdtemp(prefix="prong-check-")
    try:
        async with anyio.create_task_group() as group:
            lines = WorkerLines(group, f"{folder}/machines", withhold=withheld(place))
            machine = RemoteMachine(name=known, target=target, launcher=launcher, lines=lines)
            waits = _RoomWait(target.patience, tell)
            try:
                with waits.scope:
                    found += [one async for one in _trial(place, machine, folder, waits.take)]
                if waits.scope.cancelled_caught:
                    raise NotPossibleNow(f"{known}: {waits.reason}")
            except (ProngError, OSError) as error:
                found.append(Checkup(topic="worker", state="broken", text=str(error)))
            finally:
                await lines.close()
    finally:
        # What a worker has said is kept if the user is told to read it.
        if not any(folder in one.text for one in found):
            shutil.rmtree(folder)
    return tuple(found)


def _wanted(values: RemoteValues, name: str) -> tuple[str, RemoteTarget]:
    """Find the target that is to be tried.

    Raises UsageError, in words for whoever typed the command, if it is not clear which one.
    """
    known = ", ".join(sorted(values.targets))
    if not known:
        raise NotPossibleNow("there is no machine to try: the setting remote.targets names none")
    if not (name or values.default) and len(values.targets) > 1:
        raise BadInput(f"say which machine: 'prong remote check NAME' with one of: {known}")
    return choose_target(values.targets, values.default, name)


class _RoomWait:
    """Bounds how long there may be no room for a worker, and tells why there is none."""

    def __init__(self, patience: float, tell: Callable[[str], None] | None) -> None:
        self._patience = patience
        self._tell = tell
        self._why = ""
        self.scope = anyio.CancelScope()

    @property
    def reason(self) -> str:
        """Why it is over."""
        return f"nothing could be tried for {self._patience:g} seconds: {self._why}"

    def take(self, event: Event) -> None:
        """Take what is told of the line: there is no session that would hear of it."""
        if not isinstance(event, LineChanged):
            return
        before, self._why = self._why, event.text if event.state == "queued" else ""
        if not self._why:
            self.scope.deadline = math.inf
        elif not before:
            self.scope.deadline = anyio.current_time() + self._patience
        if self._why and self._tell is not None:
            self._tell(self._why)


async def _trial(
    place: Place, machine: RemoteMachine, folder: str, emit: Callable[[Event], None]
) -> AsyncGenerator[Checkup, None]:
    host = await _repository(f"{folder}/project")
    git, repository = Git(host, host.root), await locate(host)
    begun = time.monotonic()
    worktree = await reserve(host, "check")
    make_private(Path(folder, "run"))
    job = WorkspaceJob(
        git=git,
        repository=repository,
        worktree=worktree,
        next_lease=partial(next, count(1)),
        folder=f"{folder}/run",
        meter=WireMeter(),
        emit=emit,
    )
    work = AwayWork(target=machine.name, folder=machine.folder, task="check", session="")
    await mark_away(git, worktree, work)
    try:
        async for one in _exchange(place, machine, job, begun):
            yield one
    except anyio.get_cancelled_exc_class():
        await _take_back(machine, job)
        raise


async def _exchange(
    place: Place, machine: RemoteMachine, job: WorkspaceJob, begun: float
) -> AsyncGenerator[Checkup, None]:
    _, ready = await machine.prepare(job, trial=True)
    took = time.monotonic() - begun
    text = f"a worker answers, and a repository arrived in {ready.placed.parent} ({took:.1f} s)"
    yield Checkup(topic="worker", state="good", text=text)
    for one in sandbox_findings(ready.ability, place.settings.values.sandbox.mode):
        yield one
    done = await machine.collect(job, trial=_TEXT)
    back = await job.git.ask("cat-file", "blob", f"{job.worktree.branch}:{TRIAL}")
    if back.output != _TEXT.encode() or not done.gone:
        why = done.harvest.why or "what was written there did not come back"
        yield Checkup(topic="work", state="broken", text=why)
        return
    yield Checkup(topic="work", state="good", text="what was written there came back as a branch")


async def _take_back(machine: RemoteMachine, job: WorkspaceJob) -> None:
    """Have the copy removed by a worker that runs, wherever the trial was broken off."""
    if machine.lines.spare(machine.name, "") is None:
        return
    with anyio.move_on_after(_FAREWELL, shield=True), suppress(ProngError, OSError):
        await machine.collect(job, trial=_TEXT)


async def _repository(folder: str) -> LocalHost:
    """Make a repository with one file, which nothing of the user's configuration reaches."""
    host = LocalHost(folder)
    await host.write(f"{host.root}/here.txt", b"here\n")
    await Git(host, host.root).run("init", "--quiet", "--template=")
    return host
