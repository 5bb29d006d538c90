"""Keeping a child in its worktree.

File tools may write below the worktree and in folders that the user opened to the project, nowhere
else, whatever rules and modes say. A command line can do too much to be certain about it, so one
that names the folder of a forebear is asked about, in every mode.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from prong.system.path_form import normal_path
from prong.tools.access import Access, Running, Writing
from prong.tools.ground import Allow, Ask, Decision, Deny, Ground, Policy, is_inside, strictest


def settle(policy: Policy, ground: Ground) -> Policy:
    """Give the policy for a child there: its root is the project, the others can be read."""
    if ground.home:
        return _settle_away(policy, ground)
    folders = (*policy.folders, *ground.inherited)
    return replace(policy, root=ground.root, folders=folders, worktrees=(ground.bounds,))


def _settle_away(policy: Policy, ground: Ground) -> Policy:
    """Give the policy for a child on another machine, where no path of this one means the same."""
    box = policy.sandbox
    caches = [one for one in box.caches if is_inside(one, policy.home)]
    box = replace(
        box,
        ability=ground.ability,
        temp=("/tmp", "/var/tmp"),  # noqa: S108 - those of the other machine
        caches=tuple(ground.home + one[len(policy.home.rstrip("/")) :] for one in caches),
        writable=(),
        git=(),
    )
    return replace(
        policy,
        root=ground.root,
        home=ground.home,
        folders=(),
        worktrees=(ground.bounds,),
        scratchpad="",
        plan_file="",
        sandbox=box,
    )


def confine(
    policy: Policy,
    ground: Ground,
    accesses: Sequence[Access],
    resolve: Callable[[str], str],
    granted: Sequence[str] = (),
) -> Decision:
    """Decide by the worktree's bounds alone; `granted` are worktrees of its own children.

    `resolve` has to follow links as a process would: paths in commands are not moved.
    """
    if ground.home:
        policy = _settle_away(policy, ground)
    return strictest(_limits(policy, ground, accesses, resolve, granted))


def _limits(
    policy: Policy,
    ground: Ground,
    accesses: Sequence[Access],
    resolve: Callable[[str], str],
    granted: Sequence[str],
) -> Iterator[Decision]:
    yield Allow("it stays in the worktree")
    free = [ground.bounds, *granted]
    for access in accesses:
        match access:
            case Writing(path):
                if not _may_write(policy, ground, free, path):
                    why = f"{path} is outside your worktree; write below {ground.bounds} instead"
                    yield Deny(why)
            case Running():
                if path := _trespass(policy, ground, free, access, resolve):
                    yield Ask(f"the command names {path}, which is outside the agent's worktree")
            case _:
                pass


def _may_write(policy: Policy, ground: Ground, free: Sequence[str], path: str) -> bool:
    if path == policy.plan_file and path:
        return True
    # A folder that holds the parent's, or lies in it, would open the way back.
    opened = [
        folder
        for folder in (*policy.folders, policy.scratchpad)
        if not any(is_inside(folder, i) or is_inside(i, folder) for i in ground.inherited)
    ]
    return any(is_inside(path, folder) for folder in (*free, *opened))


def _trespass(
    policy: Policy,
    ground: Ground,
    free: Sequence[str],
    run: Running,
    resolve: Callable[[str], str],
) -> str:
    """Give the first path of a forebear that a command line names; empty if there is none."""
    # Reading command lines is heavy, and a first request has no use for it.
    from prong.tools.case import paths_named

    here = replace(policy, root=ground.root)
    for path, writing in paths_named(here, run, normal_path):
        if _is_theirs(ground, free, path, above=writing):
            return path
    # A link that was put there on purpose, such as node_modules, may be read through.
    for path, writing in paths_named(here, run, resolve):
        if writing and _is_theirs(ground, free, path, above=True):
            return path
    return next((f for f in ground.inherited if _is_spoken(policy, f, free, run.command)), "")


def _is_theirs(ground: Ground, free: Sequence[str], path: str, *, above: bool) -> bool:
    if any(is_inside(path, folder) for folder in free):
        return False
    return any(is_inside(path, i) or (above and is_inside(i, path)) for i in ground.inherited)


def _is_spoken(policy: Policy, folder: str, free: Sequence[str], line: str) -> bool:
    """Whether a folder's path stands anywhere in a text, such as in a script given on the line."""
    tail = r"(?![\w.-])"
    forms = [folder]
    if is_inside(folder, policy.home) and folder != policy.home:
        rest = folder[len(policy.home.rstrip("/")) :]
        forms += [f"{home}{rest}" for home in ("~", "$HOME", "${HOME}")]
    for form in forms:
        for found in re.finditer(rf"(?<![\w./-]){re.escape(form)}{tail}", line):
            named = folder + line[found.end() :]
            if not any(re.match(re.escape(place) + tail, named) for place in free):
                return True
    return False
