"""Keeps writers of the same files apart.

A worker that declared its files waits before its first step for everyone who came earlier and may
change one of them; once it works it waits for nothing, so nobody can wait in a circle. One that
declared nothing may write what no other worker has, and holds what it wrote until it ends.
"""

from __future__ import annotations

import os.path
from collections.abc import Callable, Iterator, Sequence
from typing import Unpack

import anyio
from msgspec import Struct, field

from prong.host import Host
from prong.host.sandbox import Profile
from prong.ids import TaskId
from prong.journal.note import ChildSpec
from prong.system.path_form import normal_path
from prong.team.fileset import FileSet
from prong.tools.access import Access, Running, Writing
from prong.tools.agent_policy import AgentPolicy, Grant, Narrowing
from prong.tools.ground import Decision, Deny, Ground, Mode, Policy, is_inside
from prong.tools.policy_box import NarrowBox
from prong.tools.rule import Rule

_ALL = frozenset({"rm", "rmdir", "mv", "touch", "mkdir", "tee", "truncate", "unlink", "shred"})
"""Commands that change every file they name."""

_LAST = frozenset({"cp", "ln", "install"})
"""Commands that change only the last file they name."""


class _Claim(Struct):
    task_id: TaskId
    files: FileSet | None
    written: set[str] = field(default_factory=set[str])
    admitted: anyio.Event = field(default_factory=anyio.Event)


def declared(spec: ChildSpec) -> FileSet | None:
    """Give the files that a child was given; None if nothing was declared."""
    return None if spec.files is None else FileSet(spec.files)


class Claims:
    """Who may change which files now."""

    def __init__(self) -> None:
        """Begin with nobody."""
        self._claims: dict[str, _Claim] = {}

    def enter(self, task_id: TaskId, files: FileSet | None) -> list[str]:
        """Come in; gives those that have to end before this one may begin."""
        claim = _Claim(task_id, files)
        before = self._before(claim)
        self._claims[task_id] = claim
        if not before:
            claim.admitted.set()
        return before

    async def admit(self, task_id: TaskId) -> None:
        """Wait until a worker may begin."""
        if (claim := self._claims.get(task_id)) is not None:
            await claim.admitted.wait()

    def leave(self, task_id: TaskId) -> None:
        """Give up everything, and let in those that waited for it."""
        self._claims.pop(task_id, None)
        for claim in self._claims.values():
            if not claim.admitted.is_set() and not self._before(claim):
                claim.admitted.set()

    def holder(self, task_id: TaskId, path: str) -> str | None:
        """Name another worker that has a file at this moment."""
        for other in self._claims.values():
            if other.task_id == task_id or not other.admitted.is_set():
                continue
            if path in other.written or (other.files is not None and other.files.covers(path)):
                return other.task_id
        return None

    def write(self, task_id: TaskId, path: str) -> None:
        """Note that a worker writes a file."""
        claim = self._claims.get(task_id)
        if claim is not None and claim.files is None:
            claim.written.add(path)

    def _before(self, claim: _Claim) -> list[str]:
        """Name those that a claim has to wait for: earlier sets, and files already written."""
        found: list[str] = []
        if claim.files is None:
            return found
        earlier = True
        for other in self._claims.values():
            if other is claim or other.task_id == claim.task_id:
                earlier = False
            elif other.files is None:
                if any(claim.files.covers(path) for path in other.written):
                    found.append(other.task_id)
            elif earlier and claim.files.overlaps(other.files):
                found.append(other.task_id)
        return found


class FileBox:
    """A worker's policy: as it is for the tree, and no file outside the worker's own."""

    def __init__(
        self, parent: AgentPolicy, claims: Claims, task_id: TaskId, files: FileSet | None
    ) -> None:
        """Take the policy to look through, and what the worker declared."""
        self._parent = parent
        self._claims = claims
        self._task_id = task_id
        self._files = files

    @property
    def policy(self) -> Policy:
        """The policy as it stands now."""
        return self._parent.policy

    @property
    def ground(self) -> Ground | None:
        """The worktree of the one below."""
        return self._parent.ground

    @property
    def only_reads(self) -> bool:
        """Whether nothing but reading is possible."""
        return self._parent.only_reads

    @property
    def may_grant_edits(self) -> bool:
        """Whether the mode of the view below is one that asks about edits."""
        return self._parent.may_grant_edits

    def decide(
        self,
        tool: str,
        accesses: Sequence[Access],
        *,
        resolve: Callable[[str], str] = normal_path,
    ) -> Decision:
        """Decide on one call of the worker."""
        return self.judge(tool, accesses, resolve, Grant())

    def judge(
        self,
        tool: str,
        accesses: Sequence[Access],
        resolve: Callable[[str], str],
        granted: Grant,
    ) -> Decision:
        """Decide as the tree does, then by the worker's files."""
        verdict = self._parent.judge(tool, accesses, resolve, granted)
        if isinstance(verdict, Deny):
            return verdict
        pad = self.policy.scratchpad
        paths = [p for p in writes(accesses, self.policy, resolve) if not is_inside(p, pad)]
        for path in paths:
            if (why := self._refusal(path)) is not None:
                return Deny(why)
        for path in paths:
            self._claims.write(self._task_id, path)
        return verdict

    def profile(
        self,
        access: Running,
        *,
        approved: bool = False,
        resolve: Callable[[str], str] = normal_path,
    ) -> Profile:
        """Choose what a command is held to, as the view below does."""
        return self._parent.profile(access, approved=approved, resolve=resolve)

    def equip(self, host: Host) -> str:
        """Ask what the host holds, once for the tree."""
        return self._parent.equip(host)

    def keeps_back(self, path: str, folder: str) -> bool:
        """Whether a path may not be shown that a search of a folder has found."""
        return self._parent.keeps_back(path, folder)

    def allow_for_session(self, rule: Rule | str) -> None:
        """Add an allow rule for the whole tree."""
        self._parent.allow_for_session(rule)

    def lend(self, rules: Sequence[Rule]) -> bool:
        """Take nothing: a child is never allowed more than its tree."""
        del rules
        return False

    def lending(self, rules: Sequence[Rule]) -> AgentPolicy:
        """Lend nothing to single calls either."""
        del rules
        return self

    def bar(self, rules: Sequence[Rule]) -> None:
        """Let rules forbid more to the agent of the view below."""
        self._parent.bar(rules)

    def give_back(self) -> None:
        """Let what was barred hold no longer, if it ends before the worker does."""
        self._parent.give_back()

    def set_mode(self, mode: Mode) -> None:
        """Change the mode of the view below."""
        self._parent.set_mode(mode)

    def narrow(self, **terms: Unpack[Narrowing]) -> AgentPolicy:
        """Return one for a child of the worker, which has the worker's files."""
        return NarrowBox(self, **terms)

    def _refusal(self, path: str) -> str | None:
        pad = self.policy.scratchpad
        instead = f"; notes can go to {pad}" if pad else ""
        if self._files is not None and not self._files.covers(path):
            listed = ", ".join(self._files.patterns) or "none"
            return (
                f"{path} is not among the files that are yours to change ({listed}); leave it and "
                f"say in your report what should be changed there{instead}"
            )
        if (other := self._claims.holder(self._task_id, path)) is not None:
            return (
                f"{path} is being changed by another worker ({other}); leave it and say in your "
                f"report what should be changed there{instead}"
            )
        return None


def writes(
    accesses: Sequence[Access], policy: Policy, resolve: Callable[[str], str]
) -> Iterator[str]:
    """Give the paths that a call is known to change.

    Of a shell command that is what it redirects to and what common file commands name; what a
    program writes by itself cannot be told beforehand.
    """
    for access in accesses:
        if isinstance(access, Writing):
            yield access.path
        elif isinstance(access, Running):
            yield from _shell_writes(access, policy, resolve)


def _shell_writes(run: Running, policy: Policy, resolve: Callable[[str], str]) -> Iterator[str]:
    # The shell's grammar takes a while to load.
    from prong.tools.commandline import Simple, parse_command
    from prong.tools.word import Word

    def named(simple: Simple) -> Sequence[Word]:
        words = [w for w in simple.words[1:] if not w.text.startswith("-")]
        if simple.name in _ALL:
            return words
        if simple.name in _LAST:
            return words[-1:]
        edits = any(w.text.startswith(("-i", "--in-place")) for w in simple.words[1:])
        return words[1:] if simple.name == "sed" and edits else ()

    parsed = parse_command(run.command, run.cwd, policy.home)
    found = [(target.word, target.folders) for target in parsed.writes]
    found += [(word, simple.folders) for simple in parsed.commands for word in named(simple)]
    for word, folders in found:
        if word.plain and not word.text.startswith("/dev/"):
            for folder in folders or ():
                yield resolve(os.path.join(folder, word.text))  # noqa: PTH118 - pure text
