"""A worker's side of the messages about a workspace on its machine."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import anyio

from prong.errors import WorkerFailed
from prong.host.remote_workspace import RemoteWorkspace
from prong.session.port import Port
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
    there.lease(order.lease).take()
    async with there.alone():
        port.say(CommitsKnown(commits=await there.open(order.offered)))
        bundled = await _receive(there, frames)
        placed = await there.place(bundled=bundled)
    await anyio.Path(there.bundle).unlink(missing_ok=True)
    home, ability = str(Path.home()), await anyio.to_thread.run_sync(lambda: there.host.ability)
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
    lease.take()
    async with there.held():
        if order.trial:
            await there.host.write(f"{there.cwd}/{TRIAL}", order.trial.encode())
        async with there.alone():
            harvest = await there.harvest(order.since)
        port.say(WorkFound(harvest=harvest))
        if harvest.tip:
            await _send(there, port)
        if not isinstance(await _next(frames), WorkArrived):
            raise WorkerFailed("the session did not say that the work has arrived")
        async with there.alone():
            gone = await there.leave(remove=not harvest.why)
    if gone:
        lease.drop()
    if gone and order.trial:
        await there.destroy()
    port.say(WorkspaceLeft(gone=gone))


async def _send(there: RemoteWorkspace, port: Port) -> None:
    """Send the bundle, as fast as it is taken."""
    async with await anyio.open_file(there.bundle, "rb") as file:
        while data := await file.read(PART):
            await port.wait_room()
            port.say(BundlePart(data=data))
    port.say(BundleSent())
