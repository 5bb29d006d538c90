"""A worker's side of the messages about a workspace on its machine."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio

from prong.errors import ProngError, WorkerFailed
from prong.host.lease import RunLease
from prong.host.remote_workspace import RemoteWorkspace
from prong.session.port import Port, keep_lease
from prong.team.workspace_message import (
    PART,
    TRIAL,
    BundlePart,
    BundleSent,
    CollectWorkspace,
    CommitsKnown,
    PrepareWorkspace,
    WorkArrived,
    WorkFound,
    WorkspaceLeft,
    WorkspaceReady,
    read_order,
)

_PATIENCE = 120.0
"""Seconds for which the next word of a session is waited for: siblings may wait for this one."""


async def serve_workspace(
    order: PrepareWorkspace | CollectWorkspace, frames: AsyncGenerator[bytes, None], port: Port
) -> None:
    """Do what one order asks for, and say what came of it.

    Raises ProngError, OSError.
    """
    match order:
        case PrepareWorkspace():
            await _prepare(order, frames, port)
        case CollectWorkspace():
            await _collect(order, frames, port)


@asynccontextmanager
async def _leased(lease: RunLease) -> AsyncGenerator[None, None]:
    """Talk with the session for as long as no later worker has begun, which waits for this one.

    What is changed over here is changed outside of it: that is never left half done.
    """
    async with anyio.create_task_group() as group:
        group.start_soon(keep_lease, lease)
        yield
        group.cancel_scope.cancel()


@asynccontextmanager
async def _tried(
    there: RemoteWorkspace, lease: RunLease, *, trial: bool
) -> AsyncGenerator[None, None]:
    """Leave nothing here of a trial that fails, unless a later worker has taken it up anew."""
    try:
        yield
    except BaseException:
        if trial and not lease.overtaken:
            with anyio.CancelScope(shield=True), suppress(ProngError, OSError):
                await there.destroy()
        raise


async def _next(
    frames: AsyncGenerator[bytes, None],
) -> PrepareWorkspace | CollectWorkspace | BundlePart | BundleSent | WorkArrived:
    data = None
    with anyio.move_on_after(_PATIENCE):
        data = await anext(frames, None)
    if data is None:
        raise WorkerFailed("the session has gone, or fallen silent")
    return read_order(data)


async def _prepare(
    order: PrepareWorkspace, frames: AsyncGenerator[bytes, None], port: Port
) -> None:
    there = RemoteWorkspace(order.folder, str(Path.home()), order.shipment)
    lease = there.lease(order.lease)
    async with _tried(there, lease, trial=order.trial):
        lease.take()
        async with there.alone():
            port.say(CommitsKnown(commits=await there.open(order.offered)))
            async with _leased(lease):
                bundled = await _receive(there, frames)
            placed = await there.place(bundled=bundled)
        await anyio.Path(there.bundle).unlink(missing_ok=True)
        ability = await anyio.to_thread.run_sync(lambda: there.host.ability)
    home = str(Path.home())
    port.say(WorkspaceReady(placed=placed, home=home, ability=ability))


async def _receive(there: RemoteWorkspace, frames: AsyncGenerator[bytes, None]) -> bool:
    """Take a bundle; False if none was needed."""
    some = False
    async with await anyio.open_file(there.bundle, "wb") as file:
        while True:
            match await _next(frames):
                case BundlePart(data=data):
                    some = True
                    await file.write(data)
                case BundleSent():
                    return some
                case _:
                    raise WorkerFailed("the session said something else in the middle of a bundle")


async def _collect(
    order: CollectWorkspace, frames: AsyncGenerator[bytes, None], port: Port
) -> None:
    there = RemoteWorkspace(order.folder, str(Path.home()), order.shipment)
    lease = there.lease(order.lease)
    async with _tried(there, lease, trial=bool(order.trial)):
        gone = await _give_back(there, lease, order, frames, port)
    if gone:
        lease.drop()
    if order.trial:
        await there.destroy()
    port.say(WorkspaceLeft(gone=gone))


async def _give_back(
    there: RemoteWorkspace,
    lease: RunLease,
    order: CollectWorkspace,
    frames: AsyncGenerator[bytes, None],
    port: Port,
) -> bool:
    """Send what was done, and let go of the workspace once it has arrived; gives if it is gone."""
    lease.take()
    async with there.held():
        if order.trial:
            await there.host.write(f"{there.cwd}/{TRIAL}", order.trial.encode())
        async with there.alone():
            harvest = await there.harvest(order.since)
        port.say(WorkFound(harvest=harvest))
        async with _leased(lease):
            if harvest.tip:
                await _send(there, port)
            answer = await _next(frames)
        if not isinstance(answer, WorkArrived):
            raise WorkerFailed("the session did not say that the work has arrived")
        async with there.alone():
            return await there.leave(remove=not harvest.why)


async def _send(there: RemoteWorkspace, port: Port) -> None:
    """Send the bundle, as fast as it is taken."""
    async with await anyio.open_file(there.bundle, "rb") as file:
        while data := await file.read(PART):
            await port.wait_room()
            port.say(BundlePart(data=data))
    port.say(BundleSent())
