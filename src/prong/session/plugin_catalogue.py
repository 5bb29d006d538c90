"""Plug-ins as people look after them: add, list, remove, update; no session need be open.

What is added counts in sessions that begin afterwards: the lists of one that runs are frozen.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from prong.command import ManagePlugins
from prong.config.plugin import read_plugin
from prong.config.plugin_record import PluginRecord
from prong.config.plugin_source import Offer, fetch, parse_source, read_marketplace
from prong.config.plugin_store import Approve, PluginRequest, PluginStore, brought
from prong.errors import BadInput, ConfigError, NotPossibleNow
from prong.system.path_form import user_home

_LATER = "It counts in sessions that begin from now on."


class PluginRow(msgspec.Struct, frozen=True, kw_only=True):
    """A plug-in that was added."""

    name: str
    version: str = ""
    description: str = ""
    source: str
    member: str = ""
    commit: str = ""
    brings: str = ""
    approved: tuple[str, ...] = ()
    """What it may run and widen."""
    problem: str = ""
    """Why it is left out; empty if it is not."""


def list_plugins(home: str | None = None) -> list[PluginRow]:
    """List the plug-ins that were added.

    Raises ConfigError if their record is damaged.
    """
    record = PluginRecord(_home(home))
    rows: list[PluginRow] = []
    for name, one in sorted(record.installed().items()):
        row = PluginRow(
            name=name,
            source=one.source,
            member=one.member,
            commit=one.commit,
            approved=one.approved,
        )
        try:
            plugin = read_plugin(record.copy(name), record.data, one.entry)
        except ConfigError as error:
            rows.append(msgspec.structs.replace(row, problem=str(error)))
            continue
        rows.append(
            msgspec.structs.replace(
                row,
                version=plugin.version,
                description=plugin.description,
                brings=brought(plugin),
            )
        )
    return rows


def offered_plugins(source: str) -> list[Offer]:
    """List what a marketplace offers.

    Raises UsageError if there is none, GitFailed if it cannot be had.
    """
    with tempfile.TemporaryDirectory() as folder:
        found, _ = fetch(parse_source(source), Path(folder) / "source")
        market = read_marketplace(found)
    if market is None:
        raise BadInput(f"{source} is no marketplace")
    return list(market.offers)


def add_plugins(
    source: str, names: Sequence[str], approve: Approve, *, home: str | None = None
) -> list[str]:
    """Add a plug-in, or some of a marketplace, if they are approved; says what was done.

    Raises UsageError, ConfigError or GitFailed if that cannot be.
    """
    return PluginStore(_home(home)).add(source, names, approve)


def update_plugins(names: Sequence[str], approve: Approve, *, home: str | None = None) -> list[str]:
    """Fetch plug-ins anew, all or those named; only what they want in addition is asked about.

    Raises as `add_plugins`.
    """
    return PluginStore(_home(home)).update(names, approve)


def remove_plugin(name: str, *, home: str | None = None) -> str:
    """Remove a plug-in.

    Raises UnknownName if there is none.
    """
    return PluginStore(_home(home)).remove(name)


def plugin_question(request: PluginRequest) -> list[str]:
    """Say what a plug-in is, and what it would run and widen."""
    plugin = request.plugin
    lines = [f"{plugin.name} {plugin.version}".rstrip() + f": {brought(plugin)}"]
    lines.append(f"  from {request.origin}")
    lines += [f"  {text}" for text in map(str, plugin.problems)]
    lines += [f"  {text}" for text in (*plugin.unheeded, *request.left)]
    if request.new:
        lines.append("  without asking again it would")
        lines += [f"    {want}" for want in request.new]
    return lines


def describe_plugins(rows: Sequence[PluginRow]) -> list[str]:
    """Say which plug-ins there are, and what they bring."""
    lines: list[str] = []
    for row in rows:
        lines.append(f"{row.name} {row.version}".rstrip() + f": {row.problem or row.brings}")
        where = f"{row.source} ({row.member})" if row.member else row.source
        lines.append(f"  from {where}{f' at {row.commit[:12]}' if row.commit else ''}")
    return lines or ["no plug-ins were added; 'prong plugin add SOURCE' adds one"]


def manage(command: ManagePlugins, home: str) -> str:
    """Do what a command says; what has to be approved is said first.

    Raises UsageError, ConfigError or GitFailed.
    """
    asked: list[str] = []

    def approve(request: PluginRequest) -> bool:
        asked.extend(plugin_question(request))
        return command.approved

    match command.action:
        case "list":
            return "\n".join(describe_plugins(list_plugins(home)))
        case "remove":
            if len(command.words) != 1:
                raise BadInput("say which plug-in: /plugin remove NAME")
            return remove_plugin(command.words[0], home=home)
        case "add":
            if not command.words:
                raise BadInput("say where it comes from: /plugin add SOURCE [NAME ...]")
            done = add_plugins(command.words[0], command.words[1:], approve, home=home)
        case "update":
            done = update_plugins(command.words, approve, home=home)
    if asked and not command.approved:
        words = " ".join(("/plugin", command.action, *command.words))
        raise NotPossibleNow("\n".join([*asked, f"If you want that: {words} --yes"]))
    return "\n".join([*asked, *done, _LATER])


def _home(given: str | None) -> str:
    return given or user_home()
