"""Which profile a command is held to, derived from the policy; pure.

*Reading* is for plan mode, agents that only read and commands that are known to read; *worktree*
for a child with a working copy of its own; *working* for whatever else was allowed; *none* where
the user says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from prong.host.sandbox import NONE, Concealed, Profile
from prong.tools.ground import Ground, Policy, is_inside
from prong.tools.rule import READING, Rule, path_base, path_pattern
from prong.tools.seal import holds_sockets, seal_pattern

_SETTINGS = (
    "settings.json",
    "settings.local.json",
    "agents",
    "hooks",
    "commands",
    "skills",
    "plugins",
)
_IN_PROJECT = (
    ".claude",
    ".mcp.json",
    ".codex/config.toml",
    ".vscode",
    ".idea",
    ".envrc",
    ".gitmodules",
    *(f".prong/{name}" for name in _SETTINGS),
    *(f".claude/{name}" for name in _SETTINGS),
)
_IN_GIT = (
    "hooks",
    "config",
    "config.worktree",
    "info",
    "commondir",
    "modules/*/hooks",
    "modules/*/config",
    "worktrees/*/commondir",
    "worktrees/*/gitdir",
    "worktrees/*/config.worktree",
)
_IN_HOME = (
    *(".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile"),
    *(".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc"),
    *(".inputrc", ".xprofile", ".xinitrc", ".gitconfig", ".npmrc", ".pypirc", ".netrc"),
    *(f".config/{name}" for name in ("fish", "git", "systemd", "autostart", "environment.d")),
    *(".ssh", ".gnupg", ".aws", ".kube", ".docker", ".prong", ".claude"),
    *(".claude.json", ".codex"),
)
_SECRETS = (
    *(".ssh", ".gnupg", ".aws", ".azure", ".kube", ".netrc", ".git-credentials", ".pypirc"),
    *(".config/gh", ".config/gcloud", ".docker/config.json", ".claude/.credentials.json"),
)
"""What in the home folder a command that only reads is not shown."""
_MADE = 32
"""Profiles of each kind that are kept: they depend on nothing but their arguments, and every
command of every agent asks for one."""


@lru_cache(maxsize=_MADE)
def reading(policy: Policy) -> Profile:
    """Give the profile in which nothing can be changed."""
    secrets = tuple(_one(f"{policy.home}/{name}") for name in _SECRETS)
    return Profile(
        name="reading",
        hidden=(*hidden(policy), *secrets),
        network=policy.sandbox.network == "always",
        signals=False,
        attributes=False,
        daemons=policy.sandbox.daemons,
        private=True,
    )


@lru_cache(maxsize=_MADE)
def working(policy: Policy, cwd: str = "", opened: tuple[str, ...] = ()) -> Profile:
    """Give the profile for a command that was allowed; `opened` are paths the user said yes to."""
    roots = _roots(policy)
    repositories = (*(f"{root}/.git" for root in roots), *policy.sandbox.git)
    writable = tuple(dict.fromkeys((*roots, *policy.sandbox.git, *_elsewhere(policy))))
    kept = [f"{root}/{name}" for root in roots for name in _IN_PROJECT]
    kept += [f"{one}/{name}" for one in repositories for name in _IN_GIT]
    kept += [f"{folder}/{name}" for folder in _between(policy.root, cwd) for name in _IN_PROJECT]
    kept += [f"{policy.home}/{name}" for name in _IN_HOME]
    kept += policy.protected
    return Profile(
        name="working",
        writable=writable,
        kept=tuple(_still_kept(kept, writable, opened)),
        opened=opened,
        pinned=(*repositories, *_leading(policy, writable)),
        hidden=hidden(policy),
        network=policy.sandbox.network != "none",
        daemons=policy.sandbox.daemons,
        agents=True,
    )


@lru_cache(maxsize=_MADE)
def worktree(policy: Policy, ground: Ground) -> Profile:
    """Give the profile of a child with a working copy of its own."""
    theirs = (*ground.inherited, *([ground.common] if ground.common else []))
    elsewhere = [one for one in _elsewhere(policy) if not any(is_inside(i, one) for i in theirs)]
    writable = [ground.bounds, *elsewhere]
    writable += [one for one in policy.folders if _is_apart(policy, one, ground)]
    kept = [f"{ground.bounds}/.git"]
    spared: tuple[str, ...] = ()
    packed: tuple[str, ...] = ()
    if ground.git:
        own = ground.git
        heads, logs = f"{ground.common}/refs/heads/prong", f"{ground.common}/logs/refs/heads/prong"
        slug = ground.branch.removeprefix("prong/")
        writable += [own, f"{ground.common}/objects", heads, logs]
        kept += [f"{own}/{name}" for name in ("commondir", "gitdir", "config.worktree", "locked")]
        # A commit writes single objects; packs and what git has reckoned of them it trusts unread.
        packed = tuple(f"{ground.common}/objects/{name}" for name in ("pack", "info"))
        kept += packed
        kept += [f"{heads}/*", f"{logs}/*"]
        spared = (f"{heads}/{slug}", f"{logs}/{slug}")
    return Profile(
        name="worktree",
        writable=tuple(dict.fromkeys(writable)),
        kept=tuple(kept),
        spared=spared,
        # Others may make those that are not there.
        pinned=(*((ground.git,) if ground.git else ()), *packed, *_leading(policy, writable)),
        hidden=hidden(policy),
        network=policy.sandbox.network != "none",
        signals=False,
        daemons=policy.sandbox.daemons,
        # A temporary folder that holds the forebears' is none of its own.
        private=not any(one in elsewhere for one in policy.sandbox.temp),
    )


def hidden(policy: Policy) -> tuple[Concealed, ...]:
    """Give what rules forbid to be read, and what is sealed."""
    sealed = (
        Concealed(regex=seal_pattern(one), base=one, deep=False, sockets=holds_sockets(one))
        for one in policy.sealed
    )
    ruled = (
        _pattern(rule, root, policy.home)
        for rule in policy.rules
        if rule.effect == "deny" and rule.tool in READING and rule.specifier is not None
        for root in (policy.root, *policy.folders)
    )
    return (*ruled, *sealed)


def _pattern(rule: Rule, root: str, home: str) -> Concealed:
    assert rule.specifier is not None
    base, deep = path_base(rule.specifier, root, home)
    regex = path_pattern(rule.specifier, root, home, forbids=True).pattern
    return Concealed(regex=regex, base=base, deep=deep)


def _one(path: str) -> Concealed:
    return Concealed(regex=re.escape(path), base=path, deep=False)


def _roots(policy: Policy) -> tuple[str, ...]:
    """Give the folders that the user works in; what the session keeps of itself is none."""
    opened = (one for one in policy.folders if not _is_protected(policy, one))
    return tuple(dict.fromkeys((policy.root, *opened)))


def _is_protected(policy: Policy, path: str) -> bool:
    return any(is_inside(path, guarded) for guarded in policy.protected)


def _elsewhere(policy: Policy) -> Iterator[str]:
    box = policy.sandbox
    yield from (one for one in (policy.scratchpad, *box.temp, *box.caches, *box.writable) if one)


def _between(root: str, folder: str) -> Iterator[str]:
    """Yield the folders from below the root down to one: what they hold is taken in from there."""
    while is_inside(folder, root) and folder != root:
        yield folder
        folder = folder.rpartition("/")[0]


def _leading(policy: Policy, writable: Sequence[str]) -> Iterator[str]:
    """Yield the folders in open ones that lead to what is sealed: put away, it would be found."""
    for pattern in policy.sealed:
        folder = pattern.partition("/*")[0]
        around = [one for one in writable if is_inside(folder, one)]
        if around:
            yield from _between(min(around, key=len), folder)


def _still_kept(
    kept: Iterable[str], writable: Sequence[str], opened: Sequence[str]
) -> Iterator[str]:
    for path in dict.fromkeys(kept):
        if not any(is_inside(path, folder) for folder in writable):
            continue
        # Also below: who says yes to a folder's file says so to that file's folder.
        if not any(is_inside(one, path) or is_inside(path, one) for one in opened):
            yield path


def _is_apart(policy: Policy, folder: str, ground: Ground) -> bool:
    """Whether a folder that was opened neither holds a forebear's nor lies in it."""
    if _is_protected(policy, folder):
        return False
    return not any(is_inside(folder, one) or is_inside(one, folder) for one in ground.inherited)


def derive(
    policy: Policy,
    ground: Ground | None,
    *,
    reads: bool,
    outside: bool = False,
    cwd: str = "",
    opened: Sequence[str] = (),
) -> Profile:
    """Choose the profile of a command: of one that reads, of a child in a worktree, of others."""
    if outside or not policy.sandbox.active:
        return NONE
    if reads:
        return reading(policy)
    if ground is not None:
        return worktree(policy, ground)
    return working(policy, cwd, tuple(opened))


def holds(policy: Policy, profile: Profile) -> bool:
    """Whether a profile is held in full, so that what it forbids need not be asked."""
    box = policy.sandbox
    if not box.active or box.ability is None or profile.name == "none":
        return False
    return box.ability.holds(profile)


def frees(policy: Policy) -> bool:
    """Whether the mode asks for no more than the system holds, so that doubts can be let be."""
    if policy.mode == "plan":
        return holds(policy, Profile(name="reading"))
    return policy.mode == "auto" and holds(policy, working(policy))
