"""What can be known of a folder, and done with it, without opening a session.

Each function answers one question of a face with a value. What only one of them needs is imported
by that one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from prong.agent.spec import AgentType, AgentTypes
from prong.config.option import Options
from prong.host import LocalHost
from prong.host.merge import MergeReport
from prong.system.path_form import real_path, user_home
from prong.system.standard_stream import is_terminal

if TYPE_CHECKING:
    from prong.config.memory import MemoryState
    from prong.host.cleanup import Cleanup


class ToolReport(msgspec.Struct, frozen=True, kw_only=True):
    """The tools of a type, and which layer takes each of the others."""

    background: bool
    kept: tuple[str, ...]
    removed: tuple[tuple[str, str, str], ...]
    """Each with its layer and the reason."""
    spawns: tuple[str, ...] | None
    """The only types of agents it may start; None for any, or if it can start none."""


class TypeReport(msgspec.Struct, frozen=True, kw_only=True):
    """A type of agents, and what its tools come to."""

    kind: AgentType
    mode: str
    """The permission mode that it has of its own; empty if it follows the session's."""
    forbidden: tuple[str, ...]
    """Single uses of tools that it may not make."""
    unknown: tuple[str, ...]
    """What it says of tools that there are none of."""
    tools: tuple[ToolReport, ToolReport]
    """In the foreground, in the background."""


class TypesFound(msgspec.Struct, frozen=True, kw_only=True):
    """The types of agents of a folder."""

    types: AgentTypes
    tools: tuple[str, ...]
    """The tools that every session there has."""
    servers: bool
    """Whether tools of MCP servers come on top of these."""
    warnings: tuple[str, ...]


def agent_types(*, cwd: str, agents: str | None) -> TypesFound:
    """Find the types of agents of a folder; `agents` are further ones, as JSON."""
    from prong.config.place import look_around
    from prong.session.toolbox import built_in_names

    place = look_around(Options(cwd=cwd, agents=agents))
    return TypesFound(
        types=place.types,
        tools=tuple(built_in_names(place)),
        servers=bool(place.servers.servers),
        warnings=tuple(place.warnings),
    )


def type_report(types: AgentTypes, name: str, tools: Sequence[str]) -> TypeReport:
    """Say what a type of agents is, where there are such tools.

    Raises UsageError if there is no type of that name.
    """
    from prong.team.make import own_mode
    from prong.team.typed import known_type
    from prong.tools.filter import denied_uses, unmatched

    kind = known_type(types, name)
    told = (*(kind.tool_names or ()), *kind.disallowed_tools)
    return TypeReport(
        kind=kind,
        mode="" if (mode := own_mode(kind)) == "bubble" else mode,
        forbidden=tuple(denied_uses(kind.disallowed_tools)),
        unknown=tuple(unmatched(told, tools)),
        tools=(
            _tool_report(kind, tools, background=False),
            _tool_report(kind, tools, background=True),
        ),
    )


def _tool_report(kind: AgentType, tools: Sequence[str], *, background: bool) -> ToolReport:
    from prong.team.typed import filtered

    found = filtered(kind, tools, background=background)
    return ToolReport(
        background=background,
        kept=found.kept,
        removed=tuple((gone.tool, gone.layer, gone.why) for gone in found.removed),
        spawns=found.spawns if "Agent" in found.kept else None,
    )


class FolderTrust(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a folder's own agents, hooks, servers and rules may work."""

    folder: str
    home: str
    """Whose decision it is."""
    trusted: bool
    wants: tuple[str, ...]
    """What it would run or change, one line each."""


def folder_trust(folder: str) -> FolderTrust:
    """Say whether a folder is trusted, and what it wants."""
    from prong.config.trust import Trust, needs_trust

    home = user_home()
    path = real_path(folder)
    wants = tuple(needs_trust(home, path))
    trusted = Trust(home).is_trusted(path)
    return FolderTrust(folder=path, home=home, trusted=trusted, wants=wants)


def open_trust(options: Options) -> FolderTrust | None:
    """Give the project's folder if the user has to be asked about it; None if not."""
    from prong.config.place import folders
    from prong.config.trust import Trust, needs_trust

    home, _, root = folders(options)
    trust = Trust(home)
    if trust.problem() is not None or trust.decision(root) is not None:
        return None
    wants = tuple(needs_trust(home, root))
    if not wants:
        return None
    return FolderTrust(folder=root, home=home, trusted=False, wants=wants)


def decide_trust(found: FolderTrust, *, trusted: bool) -> None:
    """Keep the user's decision about a folder and all below it.

    Raises ConfigError if the file of decisions is damaged.
    """
    from prong.config.trust import Trust

    trust = Trust(found.home)
    if trusted:
        trust.trust(found.folder)
    else:
        trust.distrust(found.folder)


def missing_key(options: Options) -> str:
    """Say why no model could be asked: none is named, or its key is missing; empty if one can."""
    from prong.config.model import choose
    from prong.config.place import look_around
    from prong.errors import BadInput, Unauthorised

    place = look_around(msgspec.structs.replace(options, resume=None, fork_session=False))
    try:
        choose(place, options.model)
    except (BadInput, Unauthorised) as error:
        return str(error)
    return ""


def folder_memory(cwd: str) -> MemoryState:
    """Give the notes for later sessions of a folder's project, and whether any are kept."""
    from prong.config.memory import note_file
    from prong.config.place import look_around

    place = look_around(Options(cwd=cwd))
    return note_file(place.root, place.store).state(on=place.remembers)


def clear_memory(cwd: str) -> bool:
    """Delete the notes that Prong wrote for a folder's project; gives whether there were any.

    Raises ConfigError if that is not possible.
    """
    from prong.config.memory import note_file
    from prong.config.place import look_around

    place = look_around(Options(cwd=cwd))
    return note_file(place.root, place.store).clear()


async def merge_children(
    cwd: str, slugs: Sequence[str] = (), *, dry_run: bool = False, commit: bool = True
) -> MergeReport:
    """Merge the branches of children into a folder's current branch; see `prong.host.merge`."""
    from prong.host.merge import merge

    return await merge(LocalHost(cwd), slugs, dry_run=dry_run, commit=commit)


async def diff_children(cwd: str, slugs: Sequence[str] = ()) -> str:
    """Give what children have done that is not merged, as a unified diff; without names, of all."""
    from prong.host.work_diff import children_diff

    return await children_diff(LocalHost(cwd), slugs)


async def clean_children(cwd: str, *, dry_run: bool = False) -> Cleanup:
    """Remove worktrees and branches of children whose work is merged; see `prong.host.cleanup`."""
    from prong.host.cleanup import clean

    return await clean(LocalHost(cwd), dry_run=dry_run)


async def undo_merge(cwd: str) -> tuple[str, ...]:
    """Take the last merge back; gives the names of the children it had merged."""
    from prong.host.merge import undo

    return await undo(LocalHost(cwd))


async def describe_backends() -> list[str]:
    """Say where the members of a team would run here, why, and what the other ways lack."""
    import sys

    from prong.config.place import look_around
    from prong.errors import UsageError
    from prong.host.pane.choice import choose, states
    from prong.host.pane.survey import survey

    place = look_around(Options())
    wanted = place.settings.values.team
    interactive = is_terminal(sys.stdin) and is_terminal(sys.stdout)
    host = LocalHost(place.cwd, place.home)
    facts = await survey(host, interactive=interactive, command=wanted.command)
    try:
        return str(choose(facts, wanted.backend)).splitlines()
    except UsageError as error:
        return [f"{wanted.backend}: {error}", *map(str, states(facts))]
