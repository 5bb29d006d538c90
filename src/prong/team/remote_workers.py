"""Which other machines a session has for its children, and where on one a child works."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

import msgspec

from prong.errors import UsageError
from prong.host import Host
from prong.host.bundle import Shipment
from prong.host.target import RemoteTarget
from prong.host.worktree import Worktree
from prong.journal.note import ChildSpec
from prong.tools.agent_policy import AgentPolicy

if TYPE_CHECKING:
    from prong.team.remote_machine import RemoteMachine
    from prong.team.target_room import RoomClaim
    from prong.team.worker_lines import WorkerLines


class RemoteWorkers(msgspec.Struct, frozen=True, kw_only=True):
    """The machines on which children of a session can work."""

    lines: WorkerLines | None = None
    """To the workers there; None where there are no targets."""
    targets: Mapping[str, RemoteTarget] = {}
    default: str = ""
    withhold: Collection[str] = ()
    """Variables that no program is given."""
    required: bool = False
    """Whether commands must be held by a whole sandbox there."""
    background: bool = True
    """Whether children may work while their parent goes on."""

    def machine(self, name: str = "") -> RemoteMachine:
        """Find the machine of a name, or the one that is meant without.

        Raises UsageError if there is none.
        """
        # Most sessions stay at home and load nothing of this.
        from prong.team.remote_machine import find_machine

        return find_machine(self.targets, self.default, name, lines=self.lines)

    async def close(self) -> None:
        """End the workers there, when nobody works there any more."""
        if self.lines is not None:
            await self.lines.close()

    def refusal(self, name: str = "") -> str | None:
        """Say why no child can work on the machine of a name, or the one that is meant without.

        None if one can, as far as is known here.
        """
        if not self.background:
            return 'isolation "remote" works in the background, and that is switched off'
        try:
            machine = self.machine(name)
            machine.launcher.argv(machine.name, machine.target)
        except UsageError as error:
            return f'isolation "remote" is not possible: {error}'
        return None


class NearSide(msgspec.Struct, frozen=True, kw_only=True):
    """What this machine has of a child that works on another."""

    maker: Host
    """Of this machine, as the parent has it."""
    folder: str
    """For errors and bundles."""
    claim: RoomClaim
    """Its place there, which it has until what it did has come back."""


class FarWorkspace(msgspec.Struct, frozen=True, kw_only=True):
    """A child's workspace on another machine while it works there."""

    worktree: Worktree
    """With the folders over there; its parent is the repository here."""
    shipment: Shipment
    machine: RemoteMachine
    near: NearSide
    before: tuple[Host, str, AgentPolicy]
    """The child's host, folder and policy, for another run."""
    notice: str = ""
    """What the child has to be told of it; empty if it was told in an earlier run."""


def aimed(spec: ChildSpec, remote: RemoteWorkers) -> ChildSpec:
    """Say on which machine a child works, if that is another; it stays that one.

    Raises UsageError if it is not clear which.
    """
    if spec.isolation != "remote":
        return spec
    return msgspec.structs.replace(spec, target=remote.machine(spec.target).name)
