"""The policy as a value, and what it says about paths."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, TypeAlias

from msgspec import Struct

from prong.host.sandbox import Ability
from prong.tools.rule import READING, WRITING, Effect, Rule, fits_path, points_below, spell_absolute
from prong.tools.seal import is_sealed

Mode: TypeAlias = Literal[
    "default", "acceptEdits", "plan", "auto", "dontAsk", "bypassPermissions", "bubble"
]
"""How much happens without a question; a bubbling fork decides as its tree does."""


class Allow(Struct, frozen=True, tag=True):
    """Go ahead."""

    why: str


class Ask(Struct, frozen=True, tag=True):
    """A person has to say yes first."""

    why: str
    suggestion: tuple[str, ...] = ()
    """Rules that would allow it for good; none where it must be asked every time."""
    unsure: bool = False
    """Asked only because it cannot be told what would happen."""


class Deny(Struct, frozen=True, tag=True):
    """Not possible; says which rule or mode forbids it and what to do instead."""

    why: str
    unsure: bool = False
    """Refused only because it cannot be told what would happen."""


Decision: TypeAlias = Allow | Ask | Deny


class Sandboxing(Struct, frozen=True, kw_only=True):
    """What is known and wanted of the sandbox of commands."""

    on: bool = False
    """Whether the user wants one."""
    ability: Ability | None = None
    """What the host holds; None before it was asked."""
    network: Literal["none", "working", "always"] = "working"
    """Whether commands reach the network: none, those that may do more than read, or all."""
    daemons: bool = False
    """Whether commands reach services of this machine by their sockets."""
    temp: tuple[str, ...] = ()
    """Folders for temporary files."""
    caches: tuple[str, ...] = ()
    """Folders where programs keep what they have downloaded or made before."""
    writable: tuple[str, ...] = ()
    """More that may be written."""
    git: tuple[str, ...] = ()
    """The repository's own folder, where it is not in the project's."""
    outside: tuple[str, ...] = ()
    """Commands that run without a sandbox, as the rules of Bash name them."""

    @property
    def active(self) -> bool:
        """Whether commands are held at all."""
        return self.on and self.ability is not None and self.ability.some

    @property
    def unheld(self) -> str:
        """What the user has to know of what is not held; empty if all is."""
        if not self.on or self.ability is None or (self.ability.writes and self.ability.views):
            return ""
        some = self.ability.some
        what = "the sandbox is not whole" if some else "commands run without a sandbox"
        return (
            f"{what}, and permissions alone decide: {self.ability.why} ('prong doctor' says more)"
        )


class Policy(Struct, frozen=True, kw_only=True):
    """All that decides whether a call may run."""

    root: str
    """The project folder, absolute."""
    home: str
    mode: Mode = "default"
    rules: tuple[Rule, ...] = ()
    folders: tuple[str, ...] = ()
    """More folders that count as the project's (`additionalDirectories`)."""
    worktrees: tuple[str, ...] = ()
    """Worktrees whose agents are decided on: a rule for one of them names no file of another."""
    protected: tuple[str, ...] = ()
    """More paths whose change is always asked for, with all that is in them."""
    sealed: tuple[str, ...] = ()
    """Folders that no agent reads, whatever rules and the mode say; a part may be `*`."""
    plan_file: str = ""
    """The one file that may be written in plan mode."""
    reader: bool = False
    """Whether plan mode is that of an agent that only reads by its type, and has no plan file."""
    scratchpad: str = ""
    """A folder that may be read and written freely."""
    sandbox: Sandboxing = Sandboxing()


class Ground(Struct, frozen=True):
    """Where a child in a worktree works."""

    root: str
    """The child's folder, absolute and resolved."""
    bounds: str
    """The root of its worktree; the same, or a folder above it."""
    inherited: tuple[str, ...]
    """The roots of the working copies of its forebears, to be read but not written."""
    git: str = ""
    """Its own part of the repository's folder."""
    common: str = ""
    """The repository's folder."""
    branch: str = ""
    home: str = ""
    """The home folder there, if it is on another machine."""
    ability: Ability | None = None
    """What commands can be held to there, if it is on another machine."""


_RANK = {Allow: 0, Ask: 1, Deny: 2}


def strictest(verdicts: Iterable[Decision]) -> Decision:
    """Return the strictest verdict; questions are put together into one."""
    found = list(verdicts)
    if len(found) == 1:
        return found[0]
    worst = max((_RANK[type(v)] for v in found), default=0)
    kept = [v for v in found if _RANK[type(v)] == worst]
    asks = [v for v in kept if isinstance(v, Ask)]
    if len(asks) > 1:
        why = "; ".join(dict.fromkeys(ask.why for ask in asks))
        unsure = all(ask.unsure for ask in asks)
        if not all(ask.suggestion for ask in asks):
            return Ask(why, unsure=unsure)
        named = tuple(dict.fromkeys(s for ask in asks for s in ask.suggestion))
        return Ask(why, named, unsure)
    return kept[-1 if worst == 0 else 0] if kept else Allow("nothing is touched")


# Patterns are texts: they are compiled when a path is first decided on.
_GUARDED = (
    r"(?is)(?:.*/)?(?:\.git(?:/.*)?|\.(?:prong|claude)/settings[^/]*\.json|\.mcp\.json"
    r"|\.codex/config\.toml"
    r"|\.(?:prong|claude)/(?:agents|hooks|commands|skills|plugins)(?:/.*)?|\.(?:vscode|idea)(?:/.*)?"
    r"|\.gitmodules|\.envrc)"
)
_HOME_GUARDED = (
    r"(?is)\.(?:bashrc|bash_profile|bash_login|bash_logout|bash_aliases|profile|zshrc|zshenv|zprofile"
    r"|zlogin|zlogout|kshrc|cshrc|tcshrc|inputrc|xprofile|xinitrc|gitconfig|npmrc|pypirc|netrc"
    r"|config/(?:fish|git|systemd|autostart|environment\.d)(?:/.*)?"
    r"|(?:ssh|gnupg|aws|kube|docker)(?:/.*)?|prong/(?!plans/|sessions/).*|prong|claude/.*|claude\.json"
    r"|codex(?:/.*)?)"
)
_PRIVATE = r"(?is)\.(?:ssh|gnupg)(?:/.*)?"
_STARTUP = r"(?i).*/\.(?:bashrc|bash_profile|bash_login|profile|zshrc|zshenv|zprofile|zlogin)"


def is_inside(path: str, folder: str) -> bool:
    """Whether a path is a folder or something in it."""
    return bool(folder) and (path == folder or path.startswith(folder.rstrip("/") + "/"))


def is_own_ground(policy: Policy, path: str) -> bool:
    """Whether a path belongs to the project, its extra folders or the scratchpad."""
    return any(is_inside(path, f) for f in (policy.root, *policy.folders, policy.scratchpad))


def is_protected(policy: Policy, path: str) -> bool:
    """Whether changing a path is asked for in every mode; case does not matter."""
    if path == policy.plan_file or is_inside(path, policy.scratchpad):
        # Where these two are kept is the session's own ground; what is below is as everywhere.
        below = path[len(policy.scratchpad) :] if path != policy.plan_file else ""
        return re.fullmatch(_GUARDED, below) is not None
    if re.fullmatch(_STARTUP, path) or any(
        is_inside(path.lower(), guarded.lower()) for guarded in policy.protected
    ):
        return True
    rest = _below(path, policy.home)
    if rest is not None and re.fullmatch(_HOME_GUARDED, rest):
        return True
    return re.fullmatch(_GUARDED, path) is not None


def is_secret(policy: Policy, path: str) -> bool:
    """Whether even reading a path is asked for in every mode."""
    rest = _below(path, policy.home)
    return rest is not None and re.fullmatch(_PRIVATE, rest) is not None


def _below(path: str, folder: str) -> str | None:
    prefix = folder.lower().rstrip("/") + "/"
    return path[len(prefix) :] if path.lower().startswith(prefix) else None


def find_rule(
    policy: Policy, effect: Effect, tool: str, path: str, *, writing: bool
) -> Rule | None:
    """Return the first rule with this effect that speaks of a path being read or written."""
    for rule in policy.rules:
        if (
            rule.effect == effect
            and _governs(rule, tool, writing=writing)
            and _fits(policy, rule, path)
        ):
            return rule
    return None


def _governs(rule: Rule, tool: str, *, writing: bool) -> bool:
    """Whether a rule speaks of what a tool does to files: what forbids is about the deed."""
    group = WRITING if writing else READING
    general = {"Edit"} if writing else {"Read"}
    if rule.effect != "allow":
        # Named alone, Grep or NotebookEdit is that tool; Write is as much as Edit.
        general = group if rule.specifier is not None else general | ({"Write"} & group)
    if rule.tool in general or (rule.tool == tool and tool in group):
        return True
    # Who may not read a file may not write it either.
    forbids = rule.effect == "deny" and rule.specifier is not None
    return writing and forbids and rule.tool in READING


def _fits(policy: Policy, rule: Rule, path: str) -> bool:
    return any(fits_path(rule, path, root=r, home=policy.home) for r in _roots(policy, rule))


def _roots(policy: Policy, rule: Rule) -> tuple[str, ...]:
    """Give the folders in which a rule's relative paths start: what forbids, in all of them."""
    return (policy.root,) if rule.effect == "allow" else (policy.root, *policy.folders)


def find_below(policy: Policy, effect: Effect, folder: str, *, writing: bool) -> Rule | None:
    """Return the first forbidding rule that may speak of something in a folder."""
    for rule in policy.rules:
        if (
            rule.effect == effect
            and rule.specifier is not None
            and _governs(rule, "", writing=writing)
            and any(
                points_below(rule, folder, root=root, home=policy.home)
                for root in _roots(policy, rule)
            )
        ):
            return rule
    return None


def keeps_back(policy: Policy, path: str, *, within: str = "") -> bool:
    """Whether a path found in a folder may not be shown, though the folder may be searched.

    What holds for the folder that was searched as well was decided on before the search.
    """
    if is_sealed(policy.sealed, path) or find_rule(policy, "deny", "Read", path, writing=False):
        return True
    rule = find_rule(policy, "ask", "Read", path, writing=False)
    if rule is not None and not (within and _fits(policy, rule, within)):
        return True
    return is_secret(policy, path) and not (within and is_secret(policy, within))


def why_unread(policy: Policy, path: str) -> str:
    """Say why a file is not taken in that nobody has asked for by itself; empty if it may be."""
    for effect in ("deny", "ask"):
        if rule := find_rule(policy, effect, "Read", path, writing=False):
            return f"reading it is under {rule.named}"
    secret = is_secret(policy, path) or is_sealed(policy.sealed, path)
    return "it holds secrets" if secret else ""


def sealing(path: str) -> str:
    """Say why nothing opens a sealed folder."""
    return (
        f"{path} holds keys of a team or leads to its members, which is for nobody; work without it"
    )


def decide_reading(policy: Policy, tool: str, path: str) -> Decision:
    """Decide on reading one path."""
    if is_sealed(policy.sealed, path):
        return Deny(sealing(path))
    if rule := find_rule(policy, "deny", tool, path, writing=False):
        return Deny(f"reading {path} is forbidden by {rule.named}; work without it")
    if rule := find_rule(policy, "ask", tool, path, writing=False):
        return Ask(f"reading {path} is asked for by {rule.named}")
    if is_secret(policy, path):
        return Ask(f"{path} holds secrets, so reading it is asked for every time")
    if rule := find_rule(policy, "allow", tool, path, writing=False):
        return Allow(f"{rule.named} allows reading {path}")
    if policy.mode == "bypassPermissions":
        return Allow("permissions are bypassed")
    if is_own_ground(policy, path) or path == policy.plan_file:
        return Allow("reading in the project is free")
    return Ask(f"{path} is outside the project", offer(policy, "Read", path))


def reads_only(policy: Policy) -> str:
    """Say who may not do more than read: the session in plan mode, or an agent by its type."""
    return "agents of your type only read" if policy.reader else "plan mode only reads"


def planned(policy: Policy, what: str) -> str:
    """Say what to do instead of what plan mode refuses."""
    if policy.reader:
        return f"say in your report that {what} is needed"
    place = f" at {policy.plan_file}" if policy.plan_file else ""
    return f"put {what} into the plan{place}"


def decide_writing(policy: Policy, tool: str, path: str) -> Decision:
    """Decide on writing one path."""
    if is_sealed(policy.sealed, path):
        return Deny(sealing(path))
    if rule := find_rule(policy, "deny", tool, path, writing=True):
        return Deny(f"writing {path} is forbidden by {rule.named}; leave it as it is")
    if policy.mode == "plan" and path != policy.plan_file:
        return Deny(f"{reads_only(policy)}; {planned(policy, f'the change to {path}')}")
    if rule := find_rule(policy, "ask", tool, path, writing=True):
        return Ask(f"writing {path} is asked for by {rule.named}")
    if is_protected(policy, path):
        return Ask(f"{path} is protected, so changing it is asked for every time")
    if rule := find_rule(policy, "allow", tool, path, writing=True):
        return Allow(f"{rule.named} allows writing {path}")
    return _writing_by_mode(policy, path)


def _writing_by_mode(policy: Policy, path: str) -> Decision:
    if path == policy.plan_file:
        return Allow("the plan file may be written")
    if policy.mode == "bypassPermissions":
        return Allow("permissions are bypassed")
    if is_inside(path, policy.scratchpad):
        return Allow("the scratchpad may be written")
    if policy.mode in {"acceptEdits", "auto"} and is_own_ground(policy, path):
        return Allow("edits in the project are accepted")
    return Ask(f"{path} would be written", offer(policy, "Edit", path))


def offer(policy: Policy, tool: str, path: str) -> tuple[str, ...]:
    """Return the rule that would allow a path for good: its folder, unless that is too much.

    A folder that holds the project or the home holds other projects too, and is never offered.
    """
    folder = path.rpartition("/")[0]
    if re.search(r"[*?\[\]()\s]", path) or _holds_all(policy, path):
        return ()
    if tree := next((one for one in policy.worktrees if is_inside(path, one)), ""):
        # The same for all who decide on it, each of whom has another root.
        return (f"{tool}({spell_absolute(tree)}/**)",)
    if not folder or _holds_all(policy, folder):
        return (f"{tool}({as_pattern(policy, path)})",)
    return (f"{tool}({as_pattern(policy, folder)}/**)",)


def _holds_all(policy: Policy, folder: str) -> bool:
    """Whether the project, or everything that is the user's, lies in a folder."""
    return any(own and is_inside(own, folder) for own in (policy.root, policy.home))


def as_pattern(policy: Policy, path: str) -> str:
    """Write an absolute path as a rule's specifier would have it."""
    if is_inside(path, policy.root):
        return path[len(policy.root.rstrip("/")) :]
    if is_inside(path, policy.home):
        return "~" + path[len(policy.home.rstrip("/")) :]
    return spell_absolute(path)
