"""A workspace on another machine, as both sides of the line see it.

The session decides what an agent over there may do, and cannot look at the files there. So its host
knows paths alone: where the workspace is, what a path of a forebear means in it, and which links
the worker has met. The worker does the work, on a host that writes in the workspace alone and takes
note of links, so that what is decided on is what is used.
"""

from __future__ import annotations

import errno
import os.path
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn

from prong.host.host import Finished, Host, Process, Sink, Stat
from prong.host.local_host import ConfinedHost
from prong.host.sandbox import NONE, Ability, Profile

_ELSEWHERE = "it is on another machine"


class FarStorage:
    """The folder over there for what is too large for a conversation: its name is known here."""

    def __init__(self, path: str) -> None:
        """Take where it is."""
        self._path = path

    @property
    def path(self) -> str:
        """Where it is."""
        return self._path

    def write(self, name: str, data: bytes) -> str:
        """Refuse: only the worker writes there."""
        del name, data
        _refuse()

    def create(self, prefix: str) -> Sink:
        """Refuse: only the worker writes there."""
        del prefix
        _refuse()


class FarHost:
    """Paths of a workspace on another machine; nothing there is touched from here."""

    def __init__(
        self,
        root: str,
        *,
        bounds: str,
        inherited: Sequence[str],
        home: str,
        storage: str,
        ability: Ability,
        withhold: Sequence[str] = (),
    ) -> None:
        """Work in `root`, in the workspace `bounds`; a path in `inherited` means one in there."""
        self._root = root
        self.bounds = bounds
        """The workspace, in which alone is written."""
        self._inherited = tuple(sorted(inherited, key=len, reverse=True))
        self._home = home
        self._storage = FarStorage(storage)
        self._ability = ability
        self.withheld = tuple(withhold)
        """Variables that commands there are not given."""
        self._links: Mapping[str, str] = {}

    @property
    def root(self) -> str:
        """The folder the agent works in."""
        return self._root

    @property
    def home(self) -> str:
        """The home folder over there."""
        return self._home

    @property
    def environment(self) -> Mapping[str, str]:
        """Nothing is known of the variables there."""
        return {}

    @property
    def storage(self) -> FarStorage:
        """Where large results are kept, over there."""
        return self._storage

    @property
    def ability(self) -> Ability:
        """What commands can be held to over there."""
        return self._ability

    @property
    def inherited(self) -> tuple[str, ...]:
        """Folders of forebears, on this machine."""
        return self._inherited

    def learn(self, links: Mapping[str, str]) -> None:
        """Know where some paths lead over there, until the next call.

        By a link a path is never taken for one of the workspace: that would be less strict.
        """
        self._links = {
            path: real
            for path, real in links.items()
            if _is_inside(path, self.bounds) or not _is_inside(real, self.bounds)
        }

    def at(
        self,
        root: str,
        *,
        bounds: str = "",
        inherited: Sequence[str] = (),
        folders: Sequence[str] = (),
    ) -> Host:
        """Refuse: there are no worktrees of a workspace."""
        del root, bounds, inherited, folders
        _refuse()

    def unconfined(self) -> FarHost:
        """Give itself: it has nothing to be freed for."""
        return self

    async def close(self) -> None:
        """Do nothing: what runs there ends with its worker."""

    def follow(self, path: str) -> str:
        """Make a path absolute, and follow the links that the worker told of."""
        if path == "~" or path.startswith("~/"):
            path = self._home + path[1:]
        whole = os.path.normpath(os.path.join(self._root, path))  # noqa: PTH118 - not of this machine
        return self._links.get(whole, whole)

    def resolve(self, path: str) -> str:
        """Make a path absolute, and move a forebear's into the workspace."""
        real = self.follow(path)
        if _is_inside(real, self.bounds):
            return real
        for folder in self._inherited:
            if _is_inside(real, folder):
                return self.follow(self.bounds + real[len(folder) :])
        return real

    async def stat(self, path: str) -> Stat | None:
        """Refuse."""
        del path
        _refuse()

    async def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        """Refuse."""
        del path, offset, limit
        _refuse()

    async def write(self, path: str, data: bytes) -> None:
        """Refuse."""
        del path, data
        _refuse()

    async def list(self, path: str) -> list[str]:
        """Refuse."""
        del path
        _refuse()

    async def run(
        self,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        seconds: float | None = None,
        limit: int | None = None,
    ) -> Finished:
        """Refuse."""
        del argv, cwd, env, stdin, seconds, limit
        _refuse()

    async def start(
        self,
        command: str,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        profile: Profile = NONE,
        at_exit: str = "",
    ) -> Process:
        """Refuse."""
        del command, cwd, env, profile, at_exit
        _refuse()


class TracedHost(ConfinedHost):
    """The host of a worker in a workspace: takes note of links that paths are followed through."""

    def __init__(
        self,
        root: str,
        *,
        bounds: str,
        inherited: Sequence[str],
        folders: Sequence[str],
        home: str,
        withhold: Collection[str],
        storage: str,
    ) -> None:
        """Work as a confined host does."""
        super().__init__(
            root,
            bounds=bounds,
            inherited=inherited,
            folders=folders,
            home=home,
            withhold=withhold,
            storage=storage,
        )
        self.links: dict[str, str] = {}
        """Where paths led that were followed since this was last emptied."""

    def follow(self, path: str) -> str:
        """Make a path absolute and follow symbolic links, and remember that there were some."""
        real = super().follow(path)
        if path == "~" or path.startswith("~/"):
            path = self.home + path[1:]
        whole = os.path.normpath(os.path.join(self.root, path))  # noqa: PTH118 - strings throughout
        if whole != real:
            self.links[whole] = real
        return real


def _refuse() -> NoReturn:
    raise OSError(errno.ENOTSUP, _ELSEWHERE)


def _is_inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


if TYPE_CHECKING:
    _: Host = FarHost("/", bounds="/", inherited=(), home="/", storage="", ability=Ability())
