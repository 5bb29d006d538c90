"""Starts workers on this machine with low priority: `{"launcher": "nice"}`."""

import sys

from prong.host.launcher import ANYWHERE, WORKER, WorkerPlace
from prong.host.target import RemoteTarget


class NiceLauncher:
    """Says how a worker is started; what it says to the session is not its business."""

    def argv(
        self, name: str, target: RemoteTarget, place: WorkerPlace = ANYWHERE
    ) -> tuple[str, ...]:
        """Give the program line that becomes the worker; there is one machine to choose."""
        del name, place
        return ("nice", "-n", "10", target.python or sys.executable, *WORKER)

    def remedy(self, target: RemoteTarget, code: int, errors: str) -> str:
        """Say what a worker means that ended before its first word."""
        del target
        return "Prong is not installed there" if code == 1 and "No module" in errors else ""

    def folder(self, target: RemoteTarget) -> str:
        """Give the folder that outlives a worker."""
        return target.folder or "~/.cache/prong/nice"

    def is_cut(self, code: int) -> bool:
        """Say whether the line was cut, so that the worker may live on: here there is none."""
        del code
        return False
