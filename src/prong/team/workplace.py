"""Where a child works that has a worktree of its own.

The worktree is made in the child's own task, before its first request: git may take its time
without anybody else waiting. What the child has to know of it stands after its directive, in the
same text, so that everything before the directive stays shared. At the end the worktree is let go
of, however the child ended: unchanged it is removed, and what was done in it is kept and told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from prong.agent import Agent
from prong.entry import Text, User
from prong.errors import JournalError, ProngError, UsageError
from prong.event import Warned, WorkKept
from prong.host import Host, LocalHost
from prong.host.confined import ConfinedHost
from prong.host.slug import slug_from
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
from prong.journal.note import ChildSpec
from prong.team import usher
from prong.team.child import Child
from prong.team.route import REMOTE
from prong.tools.confine import Ground
from prong.tools.policy import PolicyBox

_SHOWN = 20
"""Files and commits that are named at most."""


class WorktreeSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the user may set about worktrees."""

    base: Base = "snapshot"
    """Start from the files as they are, or as they were committed."""
    symlink_directories: tuple[str, ...] = ()
    """Heavy folders that git ignores, to be shared with the parent."""


def read_settings(given: Mapping[str, Any]) -> WorktreeSettings:
    """Read the setting `worktree`.

    Raises UsageError.
    """
    try:
        return msgspec.convert(dict(given), WorktreeSettings)
    except msgspec.ValidationError as error:
        raise UsageError(f"the setting worktree is wrong: {error}") from error


def barred(parent: Agent, isolation: str) -> str | None:
    """Say why a child may not be isolated in that way; None if it may."""
    if isolation == "remote":
        return REMOTE
    if isolation and parent.policy.policy.mode == "plan":
        return "plan mode only reads, and a worktree would be made; leave isolation out"
    return None


@dataclass(slots=True)
class Workplace:
    """What a child's worktree is made from, and how the child was before it had one."""

    host: Host
    policy: PolicyBox
    inherited: tuple[str, ...]
    settings: WorktreeSettings
    confined: ConfinedHost | None = None

    def enter(self, agent: Agent, worktree: Worktree) -> None:
        """Let an agent work there, and nowhere else."""
        # The user's own folder is always one of them, also if the parent is no longer at work.
        main = worktree.path.partition(f"/{FOLDER}/")[0]
        inherited = tuple(dict.fromkeys((worktree.parent, *self.inherited, main)))
        policy = self.policy.policy
        opened = [one for one in (*policy.folders, policy.scratchpad) if one]
        self.confined = ConfinedHost(
            worktree.cwd,
            bounds=worktree.path,
            inherited=inherited,
            folders=(agent.context.storage, *(f for f in opened if _is_apart(f, inherited))),
            home=self.host.home,
            withhold=_withheld(self.host),
        )
        ground = Ground(self.confined.root, worktree.path, inherited)
        agent.context.host = self.confined
        agent.context.cwd = worktree.cwd
        agent.policy = self.policy.narrow(ground=ground)
        agent.context.keeps_back = agent.policy.keeps_back


def _is_apart(folder: str, inherited: tuple[str, ...]) -> bool:
    """Whether a folder neither holds a forebear's nor lies in it."""
    return not any(
        f"{folder}/".startswith(f"{one}/") or f"{one}/".startswith(f"{folder}/")
        for one in inherited
    )


def _withheld(host: Host) -> frozenset[str]:
    return host.withheld if isinstance(host, LocalHost) else frozenset()


def _unconfined(host: ConfinedHost) -> LocalHost:
    return LocalHost(host.root, host.home, withhold=host.withheld)


def assign(child: Child, settings: WorktreeSettings) -> None:
    """Give a child what it needs for a worktree, if it is to have one."""
    if not child.spec.isolation or child.workplace is not None:
        return
    host, inherited = child.agent.context.host, tuple[str, ...]()
    if isinstance(host, ConfinedHost):
        # Worktrees lie side by side, so a confined parent's host could not make one.
        host, inherited = _unconfined(host), host.inherited
    child.workplace = Workplace(host, child.agent.policy, inherited, settings)


async def prepare(child: Child) -> None:
    """Let a child begin: hooks may refuse it, and its worktree is made or taken up again.

    Raises ProngError if it cannot begin.
    """
    await usher.admit(child, "SubagentStart")
    child.arrived = True
    place, spec = child.workplace, child.spec
    if place is None:
        child.compose = None
        return
    child.outcome = None
    try:
        if spec.worktree is not None and await reopen(place.host, spec.worktree):
            place.enter(child.agent, spec.worktree)
            return
        settings = place.settings
        worktree = await create(
            place.host, _slug(spec), base=settings.base, link=settings.symlink_directories
        )
    except OSError as error:
        raise UsageError(f"no worktree could be made: {error}") from error
    child.spec = msgspec.structs.replace(spec, worktree=worktree)
    place.enter(child.agent, worktree)
    child.agent.recorder.note(spec.path, child.spec)
    await usher.admit(child, "WorktreeCreate")
    _tell(child, notice(worktree, base=settings.base))


def _slug(spec: ChildSpec) -> str:
    """Name a worktree by the child's own name, or by its work if it has none."""
    nameless = spec.call_id and spec.task_id.startswith(spec.call_id)
    return slug_from(spec.description if nameless else spec.task_id)


def _tell(child: Child, text: str) -> None:
    """Tell a child of its worktree: with its directive, or, if that is stored already, after it."""
    agent, spec = child.agent, child.spec
    if child.compose is None:
        kind = "directive" if spec.kind == "fork" else "user"
        agent.inbox.put(User((Text(text),), kind))
        return
    agent.prompt = child.compose(text)
    child.compose = None
    agent.recorder.keep(spec.path, agent.prompt)
    child.receipt = msgspec.structs.replace(child.receipt, bytes_first=len(agent.prompt))


async def close(child: Child) -> None:
    """Let go of what a child worked in, however it ended; nothing keeps it from ending."""
    if child.arrived and child.status != "completed":
        await usher.bid_farewell(child)
    child.arrived = False
    place, worktree = child.workplace, child.spec.worktree
    if place is None or worktree is None or place.confined is None:
        return
    # Nothing of the child's may still write there while it is looked at.
    if child.leave is not None:
        await child.leave()
    await place.confined.close()
    place.confined = None
    child.outcome = await _let_go(child, place.host, worktree)
    if isinstance(child.outcome, Removed):
        child.spec = msgspec.structs.replace(child.spec, worktree=None)
        try:
            child.agent.recorder.note(child.spec.path, child.spec)
        except JournalError as error:
            child.agent.emit(Warned(text=str(error)))
        await usher.announce(child, "WorktreeRemove", worktree=worktree)
    else:
        child.agent.emit(_told(child.spec.task_id, child.outcome))


def _told(task_id: str, kept: Kept) -> WorkKept:
    return WorkKept(
        task_id=task_id,
        path=kept.path,
        branch=kept.branch,
        commits=kept.commits,
        files=kept.files,
        uncommitted=kept.uncommitted,
    )


async def _let_go(child: Child, host: Host, worktree: Worktree) -> Kept | Removed:
    try:
        return await finish(host, worktree)
    except (ProngError, OSError) as error:
        why = f"it could not be looked through: {error}"
        child.agent.emit(Warned(text=f"the worktree {worktree.path} is kept: {why}"))
        return Kept(worktree.path, worktree.branch, (), (), uncommitted=True, why=why)


async def tidy(host: Host, *, spare: frozenset[str], warn: Callable[[str], None]) -> None:
    """Sweep the worktrees that a crash left unchanged, and name those that hold work."""
    try:
        swept = {one.path for one in await sweep(host, spare=spare)}
        left = [one for one in await leftovers(host) if one.crashed and one.path not in spare]
    except (ProngError, OSError) as error:
        warn(f"the worktrees of earlier sessions could not be looked through: {error}")
        return
    if swept:
        warn(f"removed unchanged worktrees that a crash had left: {_list(tuple(sorted(swept)))}")
    if left:
        named = _list(tuple(f"{one.path} (branch {one.branch})" for one in left))
        warn(
            f"worktrees that a crash left, with work in them: {named}; 'prong merge --commit' "
            "brings it in, 'git worktree remove' throws one away"
        )


async def may_hold_worktrees(host: Host, root: str) -> bool:
    """Whether there can be worktrees of earlier sessions: git is asked only then."""
    return await host.stat(f"{root}/{FOLDER}") is not None


def _list(texts: tuple[str, ...]) -> str:
    shown = ["".join(c if c.isprintable() else "?" for c in text) for text in texts[:_SHOWN]]
    more = len(texts) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
