"""Another machine as a session uses it: workspaces are made there, and given back."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import TypeVar

import anyio
import msgspec

from prong.about import __version__
from prong.errors import ProngError, WorkerFailed
from prong.event import Event, LineChanged
from prong.host.bundle import Shipment, mark_away, offer, pack, settle, ship, unpack
from prong.host.git import Git, Repository
from prong.host.launcher import Launcher, make_launcher
from prong.host.remote_workspace import Harvest
from prong.host.target import RemoteTarget, choose_target
from prong.host.worktree import Worktree
from prong.provider import Secrets
from prong.team.message import Ready
from prong.team.target_room import RoomClaim
from prong.team.worker_line import Channel, WorkerLine
from prong.team.worker_lines import WorkerLines
from prong.team.workspace_message import (
    PART,
    BundlePart,
    BundleSent,
    CollectWorkspace,
    CommitsKnown,
    PrepareWorkspace,
    WorkArrived,
    WorkFound,
    WorkspaceLeft,
    WorkspaceReady,
    read_report,
)

_T = TypeVar("_T", bound=msgspec.Struct)


class Collected(msgspec.Struct, frozen=True):
    """What came back of a workspace."""

    harvest: Harvest
    gone: bool
    """Whether the workspace is gone; if not, the harvest says why."""


class WorkspaceJob(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to be done with a workspace there, as this side knows it."""

    git: Git
    repository: Repository
    worktree: Worktree
    lease: int
    folder: str
    """Of this machine, for errors and bundles."""
    meter: WireMeter
    emit: Callable[[Event], None]
    """Tells of the child whose workspace it is."""
    node: str = ""
    """The machine of a cluster that it is on; empty if it is not made yet, or there is but one."""


class WireMeter(msgspec.Struct):
    """Counts the bytes that cross a line."""

    sent: int = 0
    received: int = 0

    def add(self, channel: Channel) -> None:
        """Add what crossed by a channel that has ended."""
        self.sent, self.received = self.sent + channel.sent, self.received + channel.received


class RemoteMachine(msgspec.Struct, frozen=True, kw_only=True):
    """A target that can be reached."""

    name: str
    target: RemoteTarget
    launcher: Launcher
    lines: WorkerLines
    """To workers that run, one for each target."""

    @property
    def folder(self) -> str:
        """Where copies of repositories are kept there."""
        return self.launcher.folder(self.target)

    def claim(self) -> RoomClaim:
        """Give what an agent takes a place there by."""
        return self.lines.room(self.name, self.target).claim()

    async def open(self, node: str, emit: Callable[[Event], None]) -> Channel:
        """Open a channel to a worker there, which is started if none runs.

        On a cluster it is on that machine, if one is named. Who waits for room is told why.

        Raises NotInstalled, WorkerFailed with what is missing, if something is.
        """
        channel = self.lines.find(self.name, self.target, self.launcher, node).open()
        told = ""
        try:
            async with aclosing(channel.line.greeting.queue()) as queue:
                async for why in queue:
                    if why != told:
                        emit(LineChanged(state="queued", text=why))
                    told = why
                    if not node and (other := self.lines.spare(self.name)) is not None:
                        await channel.close(grace=0.0)
                        channel = other.open()
                        break
            check_version(self.name, await channel.line.wait_ready())
        except BaseException as error:
            await channel.close(grace=0.0)
            if isinstance(error, WorkerFailed):
                raise self.explain(channel.line, error) from error
            raise
        if told:
            emit(LineChanged(state="open"))
        return channel

    def is_cut(self, line: WorkerLine) -> bool:
        """Whether a line has ended, and not what it led to."""
        return line.silent or (line.code is not None and self.launcher.is_cut(line.code))

    def explain(self, line: WorkerLine, error: ProngError) -> WorkerFailed:
        """Say what a failure means, as far as the launcher knows."""
        code = line.code
        known = "" if code is None else self.launcher.remedy(self.target, code, line.errors.said())
        told = known or f"{error}{line.last_words(Secrets(()))}"
        return WorkerFailed(f"{self.name}: {told}")

    @asynccontextmanager
    async def talk(self, job: WorkspaceJob) -> AsyncGenerator[WorkspaceTalk, None]:
        """Talk with the worker there about a workspace.

        Raises WorkerFailed with what is missing, if something is.
        """
        channel = await self.open(job.node, job.emit)
        try:
            async with aclosing(channel.frames()) as frames:
                yield WorkspaceTalk(channel, frames)
        except WorkerFailed as error:
            raise self.explain(channel.line, error) from error
        finally:
            await channel.close(grace=channel.waits.stop)
            job.meter.add(channel)

    async def prepare(self, job: WorkspaceJob) -> tuple[Shipment, WorkspaceReady]:
        """Make a workspace there of what this side has, or find the one that was left.

        Raises WorkerFailed, GitFailed.
        """
        git, worktree = job.git, job.worktree
        await mark_away(git, worktree)
        shipment = await ship(git, job.repository, worktree)
        offered = await offer(git, shipment.start)
        async with self.talk(job) as talk:
            order = PrepareWorkspace(
                folder=self.folder, shipment=shipment, lease=job.lease, offered=offered
            )
            known = await talk.ask(order, CommitsKnown)
            spared = [one for one in known.commits if one in set(offered)]
            file = f"{job.folder}/out.bundle"
            if await pack(git, worktree.slug, shipment.start, spared, file):
                await talk.send_file(file)
            ready = await talk.ask(BundleSent(), WorkspaceReady)
            return shipment, msgspec.structs.replace(ready, node=talk.node)

    async def collect(self, job: WorkspaceJob, *, trial: str = "") -> Collected:
        """Take back what was done in a workspace, which may go once it is here.

        With `trial`, that text is written into a file there before.

        Raises WorkerFailed, GitFailed; then the work is kept there.
        """
        git, worktree = job.git, job.worktree
        shipment = await ship(git, job.repository, worktree)
        async with self.talk(job) as talk:
            order = CollectWorkspace(
                folder=self.folder,
                shipment=shipment,
                lease=job.lease,
                since=worktree.snapshot_commit,
                trial=trial,
            )
            harvest = (await talk.ask(order, WorkFound)).harvest
            if harvest.tip:
                file = f"{job.folder}/back.bundle"
                await talk.receive_file(file)
                await unpack(git, worktree, file, harvest.tip)
                await anyio.Path(file).unlink()
            left = await talk.ask(WorkArrived(), WorkspaceLeft)
        if left.gone:
            await settle(git, worktree, unchanged=not harvest.tip)
        return Collected(harvest, left.gone)


class WorkspaceTalk:
    """A channel by which one thing is done with a workspace."""

    def __init__(self, channel: Channel, frames: AsyncGenerator[bytes, None]) -> None:
        """Take the channel, and what comes by it."""
        self._channel = channel
        self._frames = frames

    @property
    def node(self) -> str:
        """Which machine of a cluster the worker is on."""
        return self._channel.line.node

    async def ask(self, message: msgspec.Struct, kind: type[_T]) -> _T:
        """Say something and wait for what must follow."""
        await self._channel.send(message)
        return await self._next(kind)

    async def _next(self, kind: type[_T]) -> _T:
        async for data in self._frames:
            report = read_report(data)
            if isinstance(report, kind):
                return report
            raise WorkerFailed(f"it said {type(report).__name__} in the wrong place")
        raise self._channel.lost()

    async def send_file(self, file: str) -> None:
        """Send a bundle, and remove it here."""
        async with await anyio.open_file(file, "rb") as source:
            while data := await source.read(PART):
                await self._channel.send(BundlePart(data=data))
        await anyio.Path(file).unlink()

    async def receive_file(self, file: str) -> None:
        """Take a bundle."""
        async with await anyio.open_file(file, "wb") as sink:
            async for data in self._frames:
                match read_report(data):
                    case BundlePart(data=part):
                        await sink.write(part)
                    case BundleSent():
                        return
                    case _:
                        raise WorkerFailed("it said something else in the middle of a bundle")
        raise self._channel.lost()


def check_version(name: str, ready: Ready) -> None:
    """Look whether a worker is of this very version.

    Raises WorkerFailed if not.
    """
    if ready.prong != __version__:
        raise WorkerFailed(
            f"it is Prong {ready.prong} on {name}, and {__version__} here: install the same version"
        )


def find_machine(
    targets: Mapping[str, RemoteTarget],
    default: str,
    name: str = "",
    *,
    lines: WorkerLines | None,
) -> RemoteMachine:
    """Find the machine of a name, or the one that is meant without.

    Raises UnknownName, NotPossibleNow, NotInstalled.
    """
    found, target = choose_target(targets, default, name)
    assert lines is not None, "whoever has targets has lines"
    return RemoteMachine(
        name=found,
        target=target,
        launcher=make_launcher(target.launcher),
        lines=lines,
    )
