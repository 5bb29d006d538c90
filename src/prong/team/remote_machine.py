"""Another machine as a session uses it: workspaces are made there, and given back."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import TypeVar

import anyio
import msgspec

from prong.about import __version__
from prong.errors import ProngError, WorkerFailed
from prong.host.bundle import Shipment, mark_away, offer, pack, settle, ship, unpack
from prong.host.git import Git, Repository
from prong.host.launcher import Launcher, make_launcher
from prong.host.remote_workspace import Harvest
from prong.host.target import RemoteTarget, choose_target
from prong.host.worktree import Worktree
from prong.provider import Secrets
from prong.team.message import Alive, Hello, Ready
from prong.team.worker_line import Waits, WorkerLine
from prong.team.workspace_message import (
    PART,
    BundlePart,
    BundleSent,
    CollectWorkspace,
    CommitsKnown,
    PrepareWorkspace,
    WorkArrived,
    WorkFound,
    WorkspaceFailed,
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


class WireMeter(msgspec.Struct):
    """Counts the bytes that cross a line."""

    sent: int = 0
    received: int = 0

    def add(self, line: WorkerLine) -> None:
        """Add what crossed one that has ended."""
        sent, received = line.bytes
        self.sent, self.received = self.sent + sent, self.received + received


class RemoteMachine(msgspec.Struct, frozen=True, kw_only=True):
    """A target that can be reached."""

    name: str
    target: RemoteTarget
    launcher: Launcher
    waits: Waits = Waits()
    withhold: Collection[str] = ()
    """Variables that the program which leads there is not given."""

    @property
    def folder(self) -> str:
        """Where copies of repositories are kept there."""
        return self.launcher.folder(self.target)

    def line(self, folder: str) -> WorkerLine:
        """Start a worker there; what it writes to its standard error is kept in a folder here.

        Raises NotInstalled, WorkerFailed.
        """
        argv = self.launcher.argv(self.name, self.target)
        return WorkerLine(argv, folder=folder, waits=self.waits, withhold=self.withhold)

    def explain(self, line: WorkerLine, error: ProngError) -> WorkerFailed:
        """Say what a failure means, as far as the launcher knows."""
        code = line.code
        known = "" if code is None else self.launcher.remedy(self.target, code, line.said())
        told = known or f"{error}{line.last_words(Secrets(()))}"
        return WorkerFailed(f"{self.name}: {told}")

    @asynccontextmanager
    async def talk(self, folder: str, meter: WireMeter) -> AsyncGenerator[WorkspaceTalk, None]:
        """Talk with a worker there about a workspace.

        Raises WorkerFailed with what is missing, if something is.
        """
        line = self.line(folder)
        try:
            async with aclosing(line.frames()) as frames:
                ready = await line.greet(Hello(purpose="workspace"), frames)
                check_version(self.name, ready)
                yield WorkspaceTalk(line, frames)
        except WorkerFailed as error:
            raise self.explain(line, error) from error
        finally:
            await line.close(grace=line.waits.stop)
            meter.add(line)

    async def prepare(self, job: WorkspaceJob) -> tuple[Shipment, WorkspaceReady]:
        """Make a workspace there of what this side has, or find the one that was left.

        Raises WorkerFailed, GitFailed.
        """
        git, worktree = job.git, job.worktree
        await mark_away(git, worktree)
        shipment = await ship(git, job.repository, worktree)
        offered = await offer(git, shipment.start)
        async with self.talk(job.folder, job.meter) as talk:
            order = PrepareWorkspace(
                folder=self.folder, shipment=shipment, lease=job.lease, offered=offered
            )
            known = await talk.ask(order, CommitsKnown)
            spared = [one for one in known.commits if one in set(offered)]
            file = f"{job.folder}/out.bundle"
            if await pack(git, worktree.slug, shipment.start, spared, file):
                await talk.send_file(file)
            return shipment, await talk.ask(BundleSent(), WorkspaceReady)

    async def collect(self, job: WorkspaceJob, *, trial: str = "") -> Collected:
        """Take back what was done in a workspace, which may go once it is here.

        With `trial`, that text is written into a file there before.

        Raises WorkerFailed, GitFailed; then the work is kept there.
        """
        git, worktree = job.git, job.worktree
        shipment = await ship(git, job.repository, worktree)
        async with self.talk(job.folder, job.meter) as talk:
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
    """A worker that was greeted, and does one thing."""

    def __init__(self, line: WorkerLine, frames: AsyncGenerator[bytes, None]) -> None:
        """Take the line, and what comes by it."""
        self._line = line
        self._frames = frames

    async def ask(self, message: msgspec.Struct, kind: type[_T]) -> _T:
        """Say something and wait for what must follow."""
        await self._line.send(message)
        return await self._next(kind)

    async def _next(self, kind: type[_T]) -> _T:
        async for data in self._frames:
            match read_report(data):
                case Alive():
                    continue
                case WorkspaceFailed(why=why):
                    raise WorkerFailed(why)
                case report if isinstance(report, kind):
                    return report
                case other:
                    raise WorkerFailed(f"it said {type(other).__name__} in the wrong place")
        raise await self._line.lost()

    async def send_file(self, file: str) -> None:
        """Send a bundle, and remove it here."""
        async with await anyio.open_file(file, "rb") as source:
            while data := await source.read(PART):
                await self._line.send(BundlePart(data=data))
        await anyio.Path(file).unlink()

    async def receive_file(self, file: str) -> None:
        """Take a bundle."""
        async with await anyio.open_file(file, "wb") as sink:
            async for data in self._frames:
                match read_report(data):
                    case Alive():
                        pass
                    case BundlePart(data=part):
                        await sink.write(part)
                    case BundleSent():
                        return
                    case _:
                        raise WorkerFailed("it said something else in the middle of a bundle")
        raise await self._line.lost()


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
    withhold: Collection[str] = (),
    waits: Waits | None = None,
) -> RemoteMachine:
    """Find the machine of a name, or the one that is meant without.

    Raises UnknownName, NotPossibleNow, NotInstalled.
    """
    found, target = choose_target(targets, default, name)
    return RemoteMachine(
        name=found,
        target=target,
        launcher=make_launcher(target.launcher),
        waits=waits or Waits(),
        withhold=withhold,
    )
