"""Tries a remote target from end to end, with no model and no key."""

from __future__ import annotations

import tempfile
import time
from collections.abc import AsyncGenerator
from pathlib import Path

import anyio
import msgspec

from prong.config.option import Options
from prong.config.place import Place, look_around
from prong.config.secrecy import withheld
from prong.errors import ConfigError, ProngError, UsageError
from prong.event import Event
from prong.host import LocalHost, make_private
from prong.host.git import Git, locate
from prong.host.launcher import make_launcher
from prong.host.target import choose_target
from prong.host.worktree import reserve
from prong.session.diagnosis import Checkup, sandbox_findings
from prong.team.remote_machine import RemoteMachine, WireMeter, WorkspaceJob
from prong.team.worker_lines import WorkerLines
from prong.team.workspace_message import TRIAL


async def check_remote(
    cwd: str = ".", name: str = "", *, settings: str | None = None
) -> tuple[Checkup, ...]:
    """Send a small repository to a target, have a file written there, and take it back."""
    try:
        place = look_around(Options(cwd=cwd, settings=settings))
        values = place.settings.values.remote
        known, target = choose_target(values.targets, values.default, name)
        launcher = make_launcher(target.launcher)
        told = f"{known}: {' '.join(launcher.argv(known, target))}"
    except (ConfigError, UsageError) as error:
        return (Checkup(topic="target", state="broken", text=str(error)),)
    found = [Checkup(topic="target", state="good", text=told)]
    with tempfile.TemporaryDirectory(prefix="prong-check-") as folder:
        async with anyio.create_task_group() as group:
            lines = WorkerLines(group, f"{folder}/machines", withhold=withheld(place))
            machine = RemoteMachine(name=known, target=target, launcher=launcher, lines=lines)
            try:
                found += [one async for one in _trial(place, machine, folder)]
            except (ProngError, OSError) as error:
                found.append(Checkup(topic="worker", state="broken", text=str(error)))
            finally:
                await lines.close()
    return tuple(found)


async def _trial(
    place: Place, machine: RemoteMachine, folder: str
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
        lease=1,
        folder=f"{folder}/run",
        meter=WireMeter(),
        emit=_ignore,
    )
    _, ready = await machine.prepare(job)
    took = time.monotonic() - begun
    text = f"a worker answers, and a repository arrived in {ready.placed.parent} ({took:.1f} s)"
    yield Checkup(topic="worker", state="good", text=text)
    for one in sandbox_findings(ready.ability, place.settings.values.sandbox.mode):
        yield one
    done = await machine.collect(msgspec.structs.replace(job, lease=2), trial="there\n")
    back = await git.ask("cat-file", "blob", f"{worktree.branch}:{TRIAL}")
    if back.output != b"there\n" or not done.gone:
        why = done.harvest.why or "what was written there did not come back"
        yield Checkup(topic="work", state="broken", text=why)
        return
    yield Checkup(topic="work", state="good", text="what was written there came back as a branch")


def _ignore(event: Event) -> None:
    """Tell nobody: there is no session."""
    del event


async def _repository(folder: str) -> LocalHost:
    """Make a repository with one file, which nothing of the user's configuration reaches."""
    host = LocalHost(folder)
    await host.write(f"{host.root}/here.txt", b"here\n")
    await Git(host, host.root).run("init", "--quiet", "--template=")
    return host
