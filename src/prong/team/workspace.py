"""Where a child works that has a worktree of its own.

The worktree is made in the child's own task, before its first prompt: git may take its time without
anybody else waiting. What the child has to know of it stands after its directive, in the same text,
so that everything before the directive stays shared. At the end the worktree is let go of, however
the child ended: unchanged it is removed, and what was done in it is kept and told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from prong.agent import Agent
from prong.agent.agent import equip
from prong.errors import BadInput, JournalError, NotPossibleNow, ProngError
from prong.event import Warned, WorkKept, WorktreeEntered
from prong.host import Host
from prong.host.git import Git
from prong.host.residue import own_folder
from prong.host.target import read_isolation
from prong.host.user_move import cut_short
from prong.host.worktree import (
    FOLDER,
    Base,
    Kept,
    Removed,
    Worktree,
    create,
    finish,
    leftovers,
    notice,
    reopen,
    sweep,
)
from prong.ids import TaskId
from prong.team.child import Child, slug_of
from prong.team.remote_workers import FarWorkspace, RemoteWorkers
from prong.tools.agent_policy import AgentPolicy
from prong.tools.ground import Ground

_SHOWN = 20
"""Files and commits that are named at most."""


class WorktreeSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the user may set about worktrees."""

    base: Base = "snapshot"
    """Start from the files as they are, or as they were committed."""
    symlink_directories: tuple[str, ...] = ("node_modules", ".venv")
    """Heavy folders, to be shared with the parent if they are there and git ignores them."""


def read_settings(given: Mapping[str, Any]) -> WorktreeSettings:
    """Read the setting `worktree`.

    Raises UsageError.
    """
    try:
        return msgspec.convert(dict(given), WorktreeSettings)
    except msgspec.ValidationError as error:
        raise BadInput(f"the setting worktree is wrong: {error}") from error


def barred(
    parent: Agent, isolation: str, remote: RemoteWorkers, *, member: bool = False
) -> str | None:
    """Say why a child, or a member of a team, may not be isolated in that way; None if it may."""
    try:
        chosen = read_isolation(isolation)
    except BadInput as error:
        return str(error)
    if chosen.kind == "remote" and member:
        return "members of a team work on this machine; leave isolation out"
    if chosen.kind and parent.policy.policy.mode == "plan":
        return "plan mode only reads, and a worktree would be made; leave isolation out"
    if chosen.kind == "remote" and parent.lineage.member:
        return "a member of a team waits for its agents, and remote ones work in the background"
    return remote.refusal(chosen.target) if chosen.kind == "remote" else None


class Workspace(msgspec.Struct, frozen=True):
    """A child's worktree while it works there, and where the child was before."""

    worktree: Worktree
    host: Host
    maker: Host
    """Makes and removes the worktree: it is not confined to it."""
    before: tuple[Host, str, AgentPolicy]
    """The child's host, folder and policy, for another run."""
    notice: str = ""
    """What the child has to be told of it; empty if it was told in an earlier run."""


async def open_workspace(
    child: Child, settings: WorktreeSettings, remote: RemoteWorkers
) -> Workspace | FarWorkspace | None:
    """Make a child's worktree or take it up again, and let the child work there and nowhere else.

    None if it works where its parent does. Raises ProngError if there can be no worktree.
    """
    spec, agent = child.spec, child.agent
    if not spec.isolation:
        return None
    if spec.isolation == "remote":
        from prong.team.remote import open_remote

        return await open_remote(child, remote, settings.base)
    before = (agent.context.host, agent.context.cwd, agent.policy)
    maker, inherited = agent.context.host.unconfined(), agent.context.host.inherited
    worktree, told = spec.worktree, ""
    try:
        if worktree is None or not await reopen(maker, worktree):
            link = settings.symlink_directories
            worktree = await create(maker, slug_of(spec), base=settings.base, link=link)
            told = notice(worktree, base=settings.base)
        host = await _confine(agent, maker, worktree, inherited)
    except OSError as error:
        raise NotPossibleNow(f"no worktree could be made: {error}") from error
    child.enter(worktree)
    return Workspace(worktree, host, maker, before, told)


async def _confine(
    agent: Agent, maker: Host, worktree: Worktree, inherited: tuple[str, ...]
) -> Host:
    # The user's own folder is always one of them, also if the parent is no longer at work.
    main = worktree.path.partition(f"/{FOLDER}/")[0]
    inherited = tuple(dict.fromkeys((worktree.parent, *inherited, main)))
    policy = agent.policy.policy
    opened = [one for one in (*policy.folders, policy.scratchpad) if one]
    host = agent.context.host.at(
        worktree.cwd,
        bounds=worktree.path,
        inherited=inherited,
        folders=tuple(f for f in opened if _is_apart(f, inherited)),
    )
    own = common = ""
    equip(agent)
    policy = agent.policy.policy
    if policy.sandbox.active:
        own, common = await own_folder(Git(maker, worktree.parent), worktree.path)
    ground = Ground(host.root, worktree.path, inherited, own, common, worktree.branch)
    agent.move(host, worktree.cwd, agent.policy.narrow(ground=ground))
    agent.emit(WorktreeEntered(path=worktree.path, branch=worktree.branch))
    return host


def _is_apart(folder: str, inherited: tuple[str, ...]) -> bool:
    """Whether a folder neither holds a forebear's nor lies in it."""
    return not any(
        f"{folder}/".startswith(f"{one}/") or f"{one}/".startswith(f"{folder}/")
        for one in inherited
    )


async def close_workspace(child: Child, workspace: Workspace | FarWorkspace) -> None:
    """Let go of a worktree, with nothing of the child's running in it any more; tells what is left.

    Nothing keeps the child from ending.
    """
    agent = child.agent
    if isinstance(workspace, FarWorkspace):
        agent.move(*workspace.before)
        from prong.team.remote import collect_remote

        outcome = await collect_remote(child, workspace)
    else:
        await workspace.host.close()
        agent.move(*workspace.before)
        outcome = await _let_go(agent, workspace)
    try:
        child.leave(outcome)
    except JournalError as error:
        agent.emit(Warned(text=str(error)))
    if isinstance(outcome, Kept):
        agent.emit(_told(child.spec.task_id, outcome))


def _told(task_id: TaskId, kept: Kept) -> WorkKept:
    return WorkKept(
        task_id=task_id,
        path=kept.path,
        branch=kept.branch,
        commits=kept.commits,
        files=kept.files,
        uncommitted=kept.uncommitted,
        away=kept.away,
    )


async def _let_go(agent: Agent, workspace: Workspace) -> Kept | Removed:
    worktree = workspace.worktree
    try:
        return await finish(workspace.maker, worktree)
    except (ProngError, OSError) as error:
        why = f"it could not be looked through: {error}"
        agent.emit(Warned(text=f"the worktree {worktree.path} is kept: {why}"))
        return Kept(worktree.path, worktree.branch, (), (), uncommitted=True, why=why)


async def tidy(host: Host, *, spare: frozenset[str], warn: Callable[[str], None]) -> None:
    """Sweep the worktrees that a crash left unchanged, and name what else it left."""
    try:
        halfway = await cut_short(host)
        swept = {one.path for one in await sweep(host, spare=spare)}
        left = [one for one in await leftovers(host) if one.crashed and one.path not in spare]
    except (ProngError, OSError) as error:
        warn(f"the worktrees of earlier sessions could not be looked through: {error}")
        return
    if halfway:
        warn(halfway)
    if swept:
        warn(f"removed unchanged worktrees that a crash had left: {_list(tuple(sorted(swept)))}")
    if left:
        named = _list(tuple(f"{one.path} (branch {one.branch})" for one in left))
        warn(
            f"worktrees that a crash left, with work in them: {named}; 'prong merge' "
            "brings it in, 'git worktree remove' throws one away"
        )


async def may_hold_worktrees(host: Host, root: str) -> bool:
    """Whether there can be worktrees of earlier sessions: git is asked only then."""
    return await host.stat(f"{root}/{FOLDER}") is not None


def _list(texts: tuple[str, ...]) -> str:
    shown = ["".join(c if c.isprintable() else "?" for c in text) for text in texts[:_SHOWN]]
    more = len(texts) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
