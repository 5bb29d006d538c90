"""Where an agent works, as a value: another process makes the same host of it."""

from __future__ import annotations

import msgspec

from prong.host.far_host import FarHost, TracedHost
from prong.host.host import Host
from prong.host.local_host import ConfinedHost, LocalHost


class Workplace(msgspec.Struct, frozen=True, kw_only=True):
    """Where an agent works."""

    root: str
    home: str
    withhold: tuple[str, ...] = ()
    """Variables that its commands are not given."""
    bounds: str = ""
    """The worktree that it writes in alone; empty if it has none of its own."""
    inherited: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    away: bool = False
    """Whether it is on another machine than the session."""

    def open(self, storage: str) -> Host:
        """Make the host, with its storage in a folder."""
        if not self.bounds:
            return LocalHost(self.root, self.home, withhold=self.withhold, storage=storage)
        kind = TracedHost if self.away else ConfinedHost
        return kind(
            self.root,
            bounds=self.bounds,
            inherited=self.inherited,
            folders=self.folders,
            home=self.home,
            withhold=self.withhold,
            storage=storage,
        )


def workplace_of(host: Host) -> Workplace | None:
    """Describe a host; None if no process could make one like it."""
    if isinstance(host, FarHost):
        return Workplace(
            root=host.root,
            home=host.home,
            withhold=host.withheld,
            bounds=host.bounds,
            inherited=host.inherited,
            away=True,
        )
    if not isinstance(host, LocalHost):
        return None
    withhold = tuple(sorted(host.withheld))
    if not isinstance(host, ConfinedHost):
        return Workplace(root=host.root, home=host.home, withhold=withhold)
    return Workplace(
        root=host.root,
        home=host.home,
        withhold=withhold,
        bounds=host.bounds,
        inherited=host.inherited,
        folders=host.folders,
    )
