"""Children on other machines: their workspaces, their runs, and what comes back of them.

All children on one machine share a worker there, and each opens a channel to it three times: to
make the workspace, to run the agent in it, to give back what was done. So whatever is cut off is
done again by itself, and what was done over there is never deleted before it has arrived.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from functools import partial
from pathlib import Path

import anyio
import msgspec

from prong.agent import Agent, Turn
from prong.agent.agent import equip
from prong.errors import NotPossibleNow, ProngError
from prong.event import Warned, WorktreeEntered
from prong.host import Host, make_private
from prong.host.away_work import AwayWork
from prong.host.bundle import Shipment, check_sendable, mark_away, settle
from prong.host.far_host import FarHost
from prong.host.git import Git, locate
from prong.host.worktree import FOLDER, Base, Kept, Removed, Worktree, notice, reserve
from prong.team.child import Child, slug_of
from prong.team.describe import describe, run_keys
from prong.team.home import Home
from prong.team.pipe import hold_run
from prong.team.remote_machine import RemoteMachine, WireMeter, WorkspaceJob
from prong.team.remote_workers import FarWorkspace, NearSide, RemoteWorkers
from prong.team.run import RemoteRun
from prong.team.runner import Until
from prong.team.target_room import RoomClaim
from prong.team.task import file_name
from prong.team.worker_line import Channel
from prong.team.workspace_message import WorkspaceReady
from prong.tools.ground import Ground

_LOCAL = ("localhost", "127.0.0.1", "[::1]")

_LOST = "what had not come back of it is lost"


async def open_remote(child: Child, remote: RemoteWorkers, base: Base) -> FarWorkspace:
    """Make a child's workspace on another machine, or find it again, and let the child work there.

    Raises ProngError if there can be none; nothing was started then.
    """
    machine = remote.machine(child.spec.target)
    run_keys(child.agent)  # What this process alone has cannot be had elsewhere.
    claim = machine.claim()
    try:
        return await _open(child, remote, machine, base, claim)
    except OSError as error:
        claim.free()
        raise NotPossibleNow(f"no workspace could be made on {machine.name}: {error}") from error
    except BaseException:
        claim.free()
        raise


async def _open(
    child: Child, remote: RemoteWorkers, machine: RemoteMachine, base: Base, claim: RoomClaim
) -> FarWorkspace:
    agent = child.agent
    maker = agent.context.host.unconfined()
    before = (agent.context.host, agent.context.cwd, agent.policy)
    near = NearSide(maker=maker, folder=_folder(maker, child), claim=claim)
    told, left = _is_told(child), _is_left(child)
    shipment, ready = await _place(child, remote, machine, near, base)
    placed = ready.placed
    assert child.spec.worktree is not None
    worktree = msgspec.structs.replace(child.spec.worktree, path=placed.path, cwd=placed.cwd)
    child.enter(worktree, node=ready.node)
    _move(agent, worktree, ready, remote.withhold)
    _warn(agent, machine)
    lost = told and left and placed.fresh
    if lost:
        agent.emit(Warned(text=f"its workspace on {machine.name} is gone, and {_LOST}"))
    return FarWorkspace(
        worktree=worktree,
        shipment=shipment,
        machine=machine,
        near=near,
        before=before,
        notice=""
        if told and not placed.fresh
        else _notice(worktree, machine.name, base, lost=lost),
    )


def _is_told(child: Child) -> bool:
    """Whether a child was told of its workspace, which may be there without anybody knowing it."""
    known = child.spec.worktree
    return known is not None and bool(known.path) and child.has_begun


def _is_left(child: Child) -> bool:
    """Whether there is work in a workspace that a child had which has not come back."""
    outcome = child.run.outcome
    if not isinstance(outcome, Kept):
        return True
    return outcome.uncommitted or (bool(outcome.path) and not outcome.commits)


async def _place(
    child: Child,
    remote: RemoteWorkers,
    machine: RemoteMachine,
    near: NearSide,
    base: Base,
) -> tuple[Shipment, WorkspaceReady]:
    repository = await locate(near.maker)
    git = Git(near.maker, repository.top)
    await check_sendable(git)
    known = child.spec.worktree
    worktree = known or await reserve(near.maker, slug_of(child.spec), base=base)
    meter = WireMeter()
    try:
        # Stored before it is waited for anything: another name would be another start.
        child.enter(worktree)
        await mark_away(git, worktree, _note(child, machine))
        job = WorkspaceJob(
            git=git,
            repository=repository,
            worktree=worktree,
            next_lease=partial(_next_lease, child, worktree),
            folder=near.folder,
            meter=meter,
            emit=child.agent.emit,
            node=child.spec.node,
        )
        # It sees the files as they were when it was started, however long it waits.
        await near.claim.take(child.agent.emit)
        shipment, ready = await machine.prepare(job)
        _check(remote, machine, ready)
    except BaseException:
        if known is None:
            # Nothing was done there, so its name is free again.
            with anyio.CancelScope(shield=True):
                await settle(git, worktree, unchanged=True)
            child.leave(Removed(worktree.path, worktree.branch))
        raise
    finally:
        child.account.crossed(machine.name, meter.sent, meter.received)
    return shipment, ready


def _note(child: Child, machine: RemoteMachine) -> AwayWork:
    return AwayWork(
        target=machine.name,
        folder=machine.folder,
        task=child.spec.task_id,
        session=machine.lines.session,
    )


def _next_lease(child: Child, worktree: Worktree) -> int:
    """Give the next number of a worker on another machine, stored before it counts."""
    number = child.spec.lease + 1
    child.enter(worktree, lease=number)
    return number


def _folder(maker: Host, child: Child) -> str:
    folder = Path(maker.storage.path, "workers", file_name(child.spec.task_id))
    make_private(folder)
    return str(folder)


def _check(remote: RemoteWorkers, machine: RemoteMachine, ready: WorkspaceReady) -> None:
    ability = ready.ability
    if remote.required and not (ability.writes and ability.views):
        raise NotPossibleNow(
            f"the setting sandbox.mode is 'required', and on {machine.name} it cannot be had in "
            f"full: {ability.why}"
        )


def _move(
    agent: Agent, worktree: Worktree, ready: WorkspaceReady, withhold: Collection[str]
) -> None:
    """Let an agent work there, by the rules of its tree and for the paths over there."""
    placed, own = ready.placed, agent.context.host
    main = worktree.parent.partition(f"/{FOLDER}/")[0]
    inherited = tuple(dict.fromkeys((worktree.parent, *own.inherited, main)))
    # The tree's own commands are held by this machine, which is asked first.
    equip(agent)
    host = FarHost(
        placed.cwd,
        bounds=placed.path,
        inherited=inherited,
        home=ready.home,
        storage=placed.storage,
        ability=ready.ability,
        withhold=sorted(withhold),
    )
    ground = Ground(
        placed.cwd,
        placed.path,
        inherited,
        placed.git,
        placed.common,
        worktree.branch,
        home=ready.home,
        ability=ready.ability,
    )
    agent.move(host, placed.cwd, agent.policy.narrow(ground=ground))
    entered = WorktreeEntered(path=placed.path, branch=worktree.branch, node=ready.node)
    agent.emit(entered)


def _warn(agent: Agent, machine: RemoteMachine) -> None:
    """Say what of the child's place is less than at home."""
    if why := agent.policy.policy.sandbox.unheld:
        agent.emit(Warned(text=f"on {machine.name}: {why}"))
    base = describe(agent, ()).model.endpoint.base_url
    if machine.target.launcher != "process" and any(one in base for one in _LOCAL):
        agent.emit(
            Warned(
                text=f"the model is reached at {base}, which on {machine.name} is that machine "
                "itself"
            )
        )


def _notice(worktree: Worktree, name: str, base: Base, *, lost: bool) -> str:
    before = f" The workspace that you had before is gone, and {_LOST}." if lost else ""
    return (
        f"{notice(worktree, base=base)} It is on another machine, {name}: what git ignores, and "
        "what was installed, may be missing there, and submodules are empty. Your branch goes back "
        f"when you have reported, with what you left uncommitted.{before}"
    )


class RemoteRunner:
    """Runs an agent in its workspace on another machine."""

    def __init__(self, child: Child, workspace: FarWorkspace) -> None:
        """Take the child, and where it works."""
        self._child = child
        self._workspace = workspace

    async def live(self, agent: Agent, *, until: Until) -> Turn:
        """Run turns from where the agent stands to the last one, which is given back.

        A line that is cut is taken up again, once: by a new run, which goes on from the journal.
        The last one may live on over there until it hears of that, and does nothing more then.

        Raises WorkerFailed if the worker is lost or breaks the protocol.
        """
        work = partial(self._hold, agent=agent, until=until)
        return await self._workspace.machine.use(self._child.spec.node, agent.emit, work)

    async def _hold(self, channel: Channel, agent: Agent, until: Until) -> Turn:
        """Have one run done, by a number of its own."""
        there, machine = self._workspace, self._workspace.machine
        home = Home(agent, until, prefix=f"{self._child.spec.task_id}-")
        env = {**os.environ, **agent.context.env}
        spec = describe(agent, ())
        named = {name: env[name] for name in machine.target.env if name in env}
        spec = msgspec.structs.replace(
            spec,
            beside=msgspec.structs.replace(spec.beside, env=named),
            remote=RemoteRun(
                folder=machine.folder,
                shipment=there.shipment,
                lease=_next_lease(self._child, there.worktree),
            ),
        )
        # Proxies and certificates are those of the other machine, unless they are named.
        keys = msgspec.structs.replace(run_keys(agent), env=named)
        try:
            return await hold_run(channel, home, agent, keys, spec, grace=channel.waits.stop)
        finally:
            self._child.account.crossed(machine.name, channel.sent, channel.received)


async def collect_remote(child: Child, workspace: FarWorkspace) -> Kept | Removed:
    """Take back what a child did, with nothing of it running any more.

    Whatever keeps that from happening, the work stays where it is, and it is said how to get it.
    """
    near, machine, worktree = workspace.near, workspace.machine, workspace.worktree
    place, meter = f"{machine.name}:{worktree.path}", WireMeter()
    try:
        job = WorkspaceJob(
            git=Git(near.maker, worktree.parent),
            repository=await locate(near.maker, worktree.parent),
            worktree=worktree,
            next_lease=partial(_next_lease, child, worktree),
            folder=near.folder,
            meter=meter,
            emit=child.agent.emit,
            node=child.spec.node,
        )
        done = await machine.collect(job)
    except (ProngError, OSError) as error:
        why = f"it has not come back: {error}; a message to the agent tries again"
        child.agent.emit(Warned(text=f"the work of {child.spec.task_id} is kept in {place}: {why}"))
        return Kept(place, worktree.branch, (), (), uncommitted=True, why=why, away=True)
    finally:
        near.claim.free()
        child.account.crossed(machine.name, meter.sent, meter.received)
    found = done.harvest
    if not found.tip and done.gone:
        return Removed(place, worktree.branch)
    return Kept(
        path="" if done.gone else place,
        branch=worktree.branch,
        commits=found.commits,
        files=found.files,
        uncommitted=False,
        why=found.why or "its branch has come back",
    )
