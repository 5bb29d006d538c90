"""Another machine as a session uses it: workspaces are made there, and given back.

Whatever is done there goes by one way, `use`: it opens a channel, and if the line is cut that had
led somewhere, it gets there again and does it once more. What is done twice so is told apart over
there by its numbers, each of which is stored before it counts.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import TypeVar

import anyio
import msgspec

from prong.about import __version__
from prong.errors import ProngError, WorkerFailed
from prong.event import Event, LineChanged
from prong.host.bundle import Shipment, note_arrival, offer, pack, settle, ship, unpack
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
_R = TypeVar("_R")

_PAUSE = 2.0
"""Seconds between two attempts to reach a machine again."""


class LineSevered(WorkerFailed):
    """What led to a worker was cut after it had got somewhere; the worker may live on."""

    def __init__(self, why: str, node: str) -> None:
        """Say which machine of a cluster it led to; empty if that is not known, or no matter."""
        super().__init__(why)
        self.node = node


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
    next_lease: Callable[[], int]
    """Gives the number of the next worker that does it, stored before it counts."""
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
        channel, news = self._find(node).open(), _QueueNews(emit)
        try:
            while (other := await self._wait_worker(channel.line, node, news)) is not None:
                await channel.close(grace=0.0)
                channel = other.open()
            check_version(self.name, await channel.line.wait_ready())
        except BaseException as error:
            await channel.close(grace=0.0)
            if isinstance(error, WorkerFailed):
                raise self._judge(channel.line, self.explain(channel.line, error)) from error
            raise
        news.end()
        return channel

    async def _wait_worker(
        self, line: WorkerLine, node: str, news: _QueueNews
    ) -> WorkerLine | None:
        """Wait until a line has a worker, or none will come; gives one to go by in its place."""
        async with aclosing(line.greeting.queue()) as queue:
            async for why in queue:
                news.tell(why)
                if (other := self.lines.spare(self.name, node)) is not None:
                    return other
        first = self.lines.instead(self.name, line)
        return self._find(node) if first is not None and first.closing else first

    def _find(self, node: str) -> WorkerLine:
        return self.lines.find(self.name, self.target, self.launcher, node)

    async def use(
        self, node: str, emit: Callable[[Event], None], work: Callable[[Channel], Awaitable[_R]]
    ) -> _R:
        """Do something by a channel to a worker there, as `open` gives it; the work closes it.

        A line that is cut is taken up again, once and to the same machine of a cluster, and the
        work is done anew. One that has led nowhere is not.

        Raises NotInstalled, WorkerFailed, and what the work raises.
        """
        try:
            return await self._do(await self.open(node, emit), work)
        except LineSevered as error:
            lost = error
        emit(LineChanged(state="cut", text=f"the line to {self.name} was cut"))
        channel = await self._reach(node or lost.node, emit, lost)
        emit(LineChanged(state="open"))
        return await self._do(channel, work)

    async def _do(self, channel: Channel, work: Callable[[Channel], Awaitable[_R]]) -> _R:
        try:
            return await work(channel)
        except WorkerFailed as error:
            raise self._judge(channel.line, error) from error
        finally:
            # Also if nothing was ever said on it: a line without channels ends.
            channel.line.shut(channel)

    async def _reach(self, node: str, emit: Callable[[Event], None], lost: LineSevered) -> Channel:
        """Try to get there for a while.

        Raises WorkerFailed with what was lost, if that is not possible.
        """
        patience = self.target.patience
        with anyio.move_on_after(patience):
            while True:
                try:
                    return await self.open(node, emit)
                except WorkerFailed:
                    await anyio.sleep(_PAUSE)
        raise WorkerFailed(f"{lost}; it could not be reached again for {patience:g} seconds")

    def _judge(self, line: WorkerLine, error: WorkerFailed) -> WorkerFailed:
        """Tell a line that was cut from a worker that has failed, and from one never reached."""
        code = line.own_code
        cut = line.silent or (code is not None and self.launcher.is_cut(code))
        somewhere = line.greeting.ready is not None or line.node
        return LineSevered(str(error), line.node) if cut and somewhere else error

    def explain(self, line: WorkerLine, error: ProngError) -> WorkerFailed:
        """Say what a failure means, as far as the launcher knows."""
        code = line.code
        known = "" if code is None else self.launcher.remedy(self.target, code, line.errors.said())
        told = known or f"{error}{line.last_words(Secrets(()))}"
        return WorkerFailed(f"{self.name}: {told}")

    @asynccontextmanager
    async def _talk(
        self, channel: Channel, meter: WireMeter
    ) -> AsyncGenerator[WorkspaceTalk, None]:
        """Talk with the worker there about a workspace.

        Raises WorkerFailed with what is missing, if something is.
        """
        grace = channel.waits.stop
        try:
            async with aclosing(channel.frames()) as frames:
                yield WorkspaceTalk(channel, frames)
        except WorkerFailed as error:
            # From one that is lost, or breaks the protocol, no word of an end is to be had.
            grace = 0.0
            raise self.explain(channel.line, error) from error
        finally:
            await channel.close(grace=grace)
            meter.add(channel)

    async def prepare(
        self, job: WorkspaceJob, *, trial: bool = False
    ) -> tuple[Shipment, WorkspaceReady]:
        """Make a workspace there of what this side has, or find the one that was left.

        It has been marked as away. Of a `trial` that fails nothing stays there.

        Raises WorkerFailed, GitFailed.
        """
        git, worktree = job.git, job.worktree
        shipment = await ship(git, job.repository, worktree)
        offered = await offer(git, shipment.start)

        async def work(channel: Channel) -> WorkspaceReady:
            async with self._talk(channel, job.meter) as talk:
                order = PrepareWorkspace(
                    folder=self.folder,
                    shipment=shipment,
                    lease=job.next_lease(),
                    offered=offered,
                    trial=trial,
                )
                known = await talk.ask(order, CommitsKnown)
                spared = [one for one in known.commits if one in set(offered)]
                file = f"{job.folder}/out.bundle"
                if await pack(git, worktree.slug, shipment.start, spared, file):
                    await talk.send_file(file)
                ready = await talk.ask(BundleSent(), WorkspaceReady)
                return msgspec.structs.replace(ready, node=talk.node)

        return shipment, await self.use(job.node, job.emit, work)

    async def collect(self, job: WorkspaceJob, *, trial: str = "") -> Collected:
        """Take back what was done in a workspace, which may go once it is here.

        With `trial`, that text is written into a file there before.

        Raises WorkerFailed, GitFailed; then the work is kept there.
        """
        shipment = await ship(job.git, job.repository, job.worktree)
        arrived: list[Harvest] = []

        async def work(channel: Channel) -> WorkspaceLeft:
            async with self._talk(channel, job.meter) as talk:
                order = CollectWorkspace(
                    folder=self.folder,
                    shipment=shipment,
                    lease=job.next_lease(),
                    since=job.worktree.snapshot_commit,
                    trial=trial,
                )
                arrived.append(await _receive_work(talk, job, order))
                return await talk.ask(WorkArrived(), WorkspaceLeft)

        try:
            left = await self.use(job.node, job.emit, work)
        except WorkerFailed as error:
            if not arrived:
                raise
            # Only what became of the copy over there was not heard.
            why = f"all that was done is here, and whether it is still there is not known: {error}"
            harvest = arrived[-1]
            return Collected(msgspec.structs.replace(harvest, why=harvest.why or why), gone=False)
        if left.gone:
            await settle(job.git, job.worktree, unchanged=not arrived[-1].tip)
        return Collected(arrived[-1], left.gone)


async def _receive_work(talk: WorkspaceTalk, job: WorkspaceJob, order: CollectWorkspace) -> Harvest:
    """Have what was done sent here, and let the child's branch have it."""
    harvest = (await talk.ask(order, WorkFound)).harvest
    if harvest.tip:
        file = f"{job.folder}/back.bundle"
        await talk.receive_file(file)
        await unpack(job.git, job.worktree, file, harvest.tip)
        await anyio.Path(file).unlink()
    await note_arrival(job.git, job.worktree)
    return harvest


class _QueueNews:
    """Tells of a child why it waits for room, each reason once, and that it does no longer."""

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self._emit = emit
        self._told = ""

    def tell(self, why: str) -> None:
        if why != self._told:
            self._emit(LineChanged(state="queued", text=why))
        self._told = why

    def end(self) -> None:
        if self._told:
            self._emit(LineChanged(state="open"))


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
