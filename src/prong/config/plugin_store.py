"""Adds, updates and removes plug-ins.

Each is a copy, made once everything that it would run or widen was approved; what was approved is
kept in the record.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from prong.config.plugin import Plugin, read_plugin, wants
from prong.config.plugin_record import InstalledPlugin, PluginRecord
from prong.config.plugin_source import (
    Marketplace,
    copy_plugin,
    fetch,
    parse_source,
    read_marketplace,
    take_offer,
)
from prong.errors import BadInput, ConfigError, NotPossibleNow, UnknownName
from prong.host import make_private

_LISTED = 40
"""Plug-ins of a marketplace that are named when none was chosen."""
_STALE = 86_400.0
"""Seconds after which nobody waits any more for an answer to whether one may be added."""


class PluginRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A plug-in that could be added, and what has to be approved for that."""

    plugin: Plugin
    installed: InstalledPlugin
    origin: str
    """Where its files come from."""
    new: tuple[str, ...] = ()
    """What of its wishes was not approved before."""
    left: tuple[str, ...] = ()
    """Links that were not copied."""


Approve = Callable[[PluginRequest], bool]
"""Asks the user whether a plug-in may be added, with all that it wants."""


class PluginStore(msgspec.Struct, frozen=True):
    """The plug-ins of one user."""

    home: str

    @property
    def record(self) -> PluginRecord:
        """What was added."""
        return PluginRecord(self.home)

    def add(self, source: str, names: Sequence[str], approve: Approve) -> list[str]:
        """Add a plug-in of a source, or those named of a marketplace; says what was done.

        Raises BadInput if it cannot be told which, and what `fetch` and `read_plugin` raise.
        """
        with self._stage() as stage:
            folder, commit = fetch(parse_source(source), stage / "source")
            market = read_marketplace(folder)
            if market is None:
                if names:
                    raise BadInput(f"{source} is no marketplace; leave out {', '.join(names)}")
                one = InstalledPlugin(source=source, commit=commit)
                return [self._take(folder, one, source, approve, stage)]
            chosen = names or _only(market, source)
            return [
                self._take_offer(market, name, source, commit, approve, stage) for name in chosen
            ]

    def _take_offer(
        self,
        market: Marketplace,
        name: str,
        source: str,
        commit: str,
        approve: Approve,
        stage: Path,
    ) -> str:
        offer = market.offer(name)
        folder, own, origin = take_offer(market, offer, stage / f"offer-{offer.name}")
        one = InstalledPlugin(
            source=source, member=name, entry=dict(offer.entry), commit=own or commit
        )
        return self._take(folder, one, f"{source} ({origin})", approve, stage)

    def _take(
        self, folder: Path, one: InstalledPlugin, origin: str, approve: Approve, stage: Path
    ) -> str:
        """Copy a plug-in, have it approved, and put it in its place."""
        copy = Path(tempfile.mkdtemp(dir=stage)) / "copy"
        left = copy_plugin(folder, copy)
        entry = {"name": folder.name, **one.entry} if not one.entry.get("name") else one.entry
        plugin = read_plugin(copy, self.record.data, entry)
        if plugin.fatal:
            raise plugin.fatal[0]
        known = self.record.installed().get(plugin.name)
        listed = tuple(wants(plugin))
        before = known.approved if known is not None else ()
        one = msgspec.structs.replace(one, entry=entry, approved=listed)
        request = PluginRequest(
            plugin=plugin,
            installed=one,
            origin=origin,
            new=tuple(line for line in listed if line not in before),
            left=tuple(left),
        )
        if (request.new or known is None) and not approve(request):
            return f"{plugin.name} was not added"
        self._put(plugin.name, copy, one)
        return f"{plugin.name} {'updated' if known else 'added'}: {brought(plugin)}"

    def update(self, names: Sequence[str], approve: Approve) -> list[str]:
        """Fetch plug-ins anew, all or those named; says what was done.

        Raises UnknownName if one was not added.
        """
        known = self.record.installed()
        told: list[str] = []
        for name in names or sorted(known):
            one = known.get(name)
            if one is None:
                raise _unknown(name, known)
            told += self.add(one.source, [one.member] if one.member else [], approve)
        return told or ["there are no plug-ins"]

    def remove(self, name: str) -> str:
        """Remove a plug-in; its data stay.

        Raises UnknownName if it was not added.
        """
        known = self.record.installed()
        if name not in known:
            raise _unknown(name, known)
        self._record(lambda before: {key: one for key, one in before.items() if key != name})
        shutil.rmtree(self.record.copy(name), ignore_errors=True)
        kept = self.record.data / name
        return f"{name} removed" + (f"; its data are left in {kept}" if kept.exists() else "")

    def _put(self, name: str, copy: Path, one: InstalledPlugin) -> None:
        place = self.record.copy(name)
        make_private(place.parent)
        make_private(self.record.data / name)
        if place.exists():
            shutil.rmtree(place)
        copy.rename(place)
        self._record(lambda before: {**before, name: one})

    @contextmanager
    def _stage(self) -> Generator[Path]:
        """Make a folder for what is fetched, on the disk on which it will stay."""
        make_private(self.record.folder)
        for one in self.record.folder.glob(".fetch-*"):
            # Whoever made it was killed; it may hold whole repositories.
            with suppress(OSError):
                if one.lstat().st_mtime < time.time() - _STALE:
                    shutil.rmtree(one)
        stage = Path(tempfile.mkdtemp(prefix=".fetch-", dir=self.record.folder))
        try:
            yield stage
        finally:
            shutil.rmtree(stage, ignore_errors=True)

    def _record(
        self, change: Callable[[Mapping[str, InstalledPlugin]], Mapping[str, InstalledPlugin]]
    ) -> None:
        from filelock import FileLock, Timeout

        path = self.record.path
        try:
            with FileLock(f"{path}.lock", timeout=10):
                plugins = dict(sorted(change(self.record.installed()).items()))
                fresh = path.with_suffix(f".{os.getpid()}.tmp")
                fresh.write_bytes(msgspec.json.format(msgspec.json.encode({"plugins": plugins})))
                fresh.replace(path)
        except Timeout as error:
            raise ConfigError(path, "another process holds it; try again") from error


def brought(plugin: Plugin) -> str:
    """Say what a plug-in brings, in one line."""
    servers, _ = plugin.specs(None)
    counts = (
        (len(plugin.skills), "skill or command", "skills or commands"),
        (len(plugin.agents), "agent", "agents"),
        (len(plugin.hooks), "hook", "hooks"),
        (len(servers), "server", "servers"),
    )
    told = [f"{count} {one if count == 1 else many}" for count, one, many in counts if count]
    return ", ".join(told) or "nothing"


def _only(market: Marketplace, source: str) -> list[str]:
    if len(market.offers) == 1:
        return [market.offers[0].name]
    names = ", ".join(one.name for one in market.offers[:_LISTED])
    more = len(market.offers) - _LISTED
    tail = f" and {more} more: 'prong plugin list {source}'" if more > 0 else ""
    raise NotPossibleNow(f"{source} is a marketplace; name what to add of it: {names}{tail}")


def _unknown(name: str, known: Mapping[str, InstalledPlugin]) -> UnknownName:
    return UnknownName(
        f"there is no plug-in {name!r}; there are: {', '.join(sorted(known)) or '-'}"
    )
