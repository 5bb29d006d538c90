"""The plug-ins that a session has: those that were added, and folders that are named.

Added ones are copies in `~/.prong/plugins`, with a record of what the user has approved. A copy
that wants more than that is left out until it is approved again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec

from prong.config.document import Document, read_document
from prong.config.listing import name_some
from prong.config.plugin import Plugin, read_plugin, wants
from prong.errors import ConfigError
from prong.host import make_private


class InstalledPlugin(msgspec.Struct, frozen=True, kw_only=True):
    """A plug-in as it was added."""

    source: str
    """Where it came from, as the user named it."""
    member: str = ""
    """Its name in the marketplace that it came from."""
    entry: dict[str, Any] = {}
    """What the marketplace says of it."""
    commit: str = ""
    approved: tuple[str, ...] = ()
    """What it would run or widen, as the user has approved it."""


class LoadedPlugins(msgspec.Struct, frozen=True):
    """The plug-ins of a session."""

    plugins: tuple[Plugin, ...] = ()
    warnings: tuple[str, ...] = ()


class PluginRecord(msgspec.Struct, frozen=True):
    """What one user has added."""

    home: str

    @property
    def folder(self) -> Path:
        """Where plug-ins are kept."""
        return Path(self.home) / ".prong/plugins"

    @property
    def data(self) -> Path:
        """Where their data are kept, a folder for each."""
        return self.folder / "data"

    @property
    def path(self) -> Path:
        """The record itself."""
        return self.folder / "plugins.json"

    def copy(self, name: str) -> Path:
        """Where the copy of one is."""
        return self.folder / "installed" / name

    def installed(self) -> dict[str, InstalledPlugin]:
        """Give what was added, by name.

        Raises ConfigError if the record is damaged.
        """
        document = read_document(self.path)
        if isinstance(document, ConfigError):
            raise document
        if document is None:
            return {}
        try:
            return msgspec.convert(document.value.get("plugins", {}), dict[str, InstalledPlugin])
        except msgspec.ValidationError as error:
            raise document.problem(f"is damaged: {error}", "plugins") from error

    def load(self) -> LoadedPlugins:
        """Read the plug-ins that were added; one that wants more than was approved is left out.

        Raises ConfigError if the record, or a hook that guards something, cannot be read.
        """
        plugins: list[Plugin] = []
        warnings: list[str] = []
        for name, one in sorted(self.installed().items()):
            try:
                plugin = read_plugin(self.copy(name), self.data, one.entry)
            except ConfigError as error:
                warnings.append(f"the plug-in {name} is left out: {error}")
                continue
            if plugin.fatal:
                raise plugin.fatal[0]
            new = set(wants(msgspec.structs.replace(plugin, skills=(), agents=())))
            if more := sorted(new.difference(one.approved)):
                told = f"the plug-in {name} is left out, because it wants more than was approved"
                warnings.append(f"{told} ({'; '.join(more)}); run 'prong plugin update {name}'")
                continue
            plugins.append(plugin)
            warnings += map(str, plugin.problems)
            warnings += [f"plug-in {name}: {text}" for text in plugin.unheeded]
        return LoadedPlugins(tuple(plugins), tuple(warnings))


def load_folders(folders: Sequence[str], data: Path) -> LoadedPlugins:
    """Read plug-ins of folders that were given by name.

    Raises ConfigError if one is none, or may not be used.
    """
    plugins: list[Plugin] = []
    warnings: list[str] = []
    for folder in folders:
        plugin = read_plugin(Path(folder), data)
        if plugin.fatal:
            raise plugin.fatal[0]
        if plugin.hooks or plugin.servers:
            try:
                make_private(Path(plugin.data))
            except OSError as error:
                warnings.append(f"plug-in {plugin.name}: {plugin.data}: {error.strerror}")
        plugins.append(plugin)
        warnings += map(str, plugin.problems)
        warnings += [f"plug-in {plugin.name}: {text}" for text in plugin.unheeded]
    return LoadedPlugins(tuple(plugins), tuple(warnings))


def missing_plugins(home: str, enabled: object, known: Collection[str]) -> list[str]:
    """Say which plug-ins another program's settings enable that were not added here, in one line.

    What was approved there was approved for that program, so that the user has to add them.
    """
    wanted = cast("dict[str, object]", enabled) if isinstance(enabled, dict) else {}
    places = _installed_there(home)
    named = [
        name.partition("@")[0] + (f" (prong plugin add {places[name]})" if name in places else "")
        for name, on in wanted.items()
        if on and name.partition("@")[0] not in known
    ]
    told = "plug-ins that .claude/settings.json enables and that were not added here"
    return [f"{told}: {name_some(named)}"] if named else []


def _installed_there(home: str) -> dict[str, str]:
    """Find where Claude Code keeps the plug-ins that it has installed."""
    document = read_document(Path(home) / ".claude/plugins/installed_plugins.json")
    found: dict[str, str] = {}
    if isinstance(document, Document):
        try:
            listed = msgspec.convert(document.value.get("plugins", {}), dict[str, Any])
        except msgspec.ValidationError:
            return {}
        for name, value in listed.items():
            entries = cast("list[object]", value) if isinstance(value, list) else [value]
            for entry in entries:
                place = cast("dict[str, object]", entry) if isinstance(entry, dict) else {}
                if isinstance(path := place.get("installPath"), str):
                    found[name] = path
    return found
