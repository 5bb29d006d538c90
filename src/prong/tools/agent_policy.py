"""What an agent asks its policy, whoever has it: the tree, a child, a worker with files of its own.

`AgentPolicy` has no implementation to inherit: a policy that looks through another says of each
question who answers it, and one that was forgotten is an error of types.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypedDict, Unpack

from msgspec import Struct
from msgspec.structs import replace

from prong.host import Host
from prong.host.sandbox import NONE, Profile
from prong.system.path_form import normal_path
from prong.tools.access import Access, Running
from prong.tools.derive import derive
from prong.tools.ground import Decision, Ground, Mode, Policy
from prong.tools.policy import answered, decide
from prong.tools.rule import Rule


class Grant(Struct, frozen=True):
    """What a descendant has beyond the agents through which its calls are judged."""

    folders: tuple[str, ...] = ()
    """The worktrees that were made for it and those between."""
    edits: bool = False
    """Whether the user lets it edit where the mode of the tree would ask."""
    reads: bool = False
    """Whether its commands are held to reading, so that they need not be proven to read."""


class Narrowing(TypedDict, total=False):
    """How a child's policy differs from that of the agent which has started it."""

    mode: Mode
    """One of its own, or `bubble` for that of the tree."""
    rules: Sequence[Rule]
    """More that is forbidden or asked about; those that allow are left out."""
    ground: Ground | None
    """The worktree that it works in; it writes nowhere else."""
    edits: bool
    """Whether it edits without a question where the mode of the tree is `default`; only the user's
    settings may ask for that.
    """
    plans: bool
    """Whether its plan mode is not that of its type, but lasts until its plan is approved."""


class AgentPolicy(Protocol):
    """The policy of one agent, as it stands at the moment of each question."""

    @property
    def policy(self) -> Policy:
        """The rules and the mode as they stand now."""
        ...

    @property
    def ground(self) -> Ground | None:
        """The worktree that it works in, if it has one."""
        ...

    @property
    def only_reads(self) -> bool:
        """Whether nothing but reading is possible."""
        ...

    @property
    def may_grant_edits(self) -> bool:
        """Whether the mode asks about edits because it is the tree's, and nobody made it so."""
        ...

    def decide(
        self,
        tool: str,
        accesses: Sequence[Access],
        *,
        resolve: Callable[[str], str] = normal_path,
    ) -> Decision:
        """Decide on one call of the agent itself."""
        ...

    def judge(
        self,
        tool: str,
        accesses: Sequence[Access],
        resolve: Callable[[str], str],
        granted: Grant,
    ) -> Decision:
        """Decide on a call that comes through descendants; `granted` is what those have."""
        ...

    def profile(
        self,
        access: Running,
        *,
        approved: bool = False,
        resolve: Callable[[str], str] = normal_path,
    ) -> Profile:
        """Choose what a command is held to that may run; `approved` if a person said yes to it."""
        ...

    def equip(self, host: Host) -> str:
        """Ask what the host holds, once for the tree; gives what the user has to know of it."""
        ...

    def keeps_back(self, path: str, folder: str) -> bool:
        """Whether a path may not be shown that a search of a folder has found."""
        ...

    def allow_for_session(self, rule: Rule | str) -> None:
        """Add an allow rule for the whole tree, after a person said yes.

        Raises:
            UsageError: the text is not a rule.

        """
        ...

    def lend(self, rules: Sequence[Rule]) -> bool:
        """Let rules allow more to this agent until `give_back`; False if it may not have more.

        They are no part of the policy: nothing that is kept or handed on holds them, and children
        have nothing of them.
        """
        ...

    def lending(self, rules: Sequence[Rule]) -> AgentPolicy:
        """Return one for calls to which rules allow more; nobody else has them.

        If this agent may not have more, that is none but its own.
        """
        ...

    def bar(self, rules: Sequence[Rule]) -> None:
        """Let rules forbid more to this agent, until `give_back`, and to all that begin meanwhile.

        For an agent that another has started they hold to its end.
        """
        ...

    def give_back(self) -> None:
        """Let what was lent and barred hold no longer."""
        ...

    def set_mode(self, mode: Mode) -> None:
        """Change the mode from now on."""
        ...

    def narrow(self, **terms: Unpack[Narrowing]) -> AgentPolicy:
        """Return one for a child that can be stricter than this one, never laxer."""
        ...


def judge_by(
    policy: Policy,
    tool: str,
    accesses: Sequence[Access],
    resolve: Callable[[str], str],
    granted: Grant,
) -> Decision:
    """Decide on a call by one policy and what was granted beyond it."""
    if granted.folders:
        folders = (*policy.folders, *granted.folders)
        policy = replace(policy, folders=folders, worktrees=(*granted.folders, *policy.worktrees))
    if granted.edits and policy.mode == "default":
        policy = replace(policy, mode="acceptEdits")
    if granted.reads and all(isinstance(access, Running) for access in accesses):
        held = replace(policy, mode="plan", reader=policy.mode != "plan" or policy.reader)
        return answered(policy, decide(held, tool, accesses, resolve=resolve))
    return decide(policy, tool, accesses, resolve=resolve)


def derive_profile(
    own: AgentPolicy, access: Running, resolve: Callable[[str], str], *, approved: bool
) -> Profile:
    """Derive what a command is held to from an agent's policy, its worktree and what it may do."""
    policy = own.policy
    assert not policy.sandbox.on or policy.sandbox.ability is not None, "the host was not asked"
    if not policy.sandbox.active:
        return NONE
    if own.only_reads:
        return derive(policy, own.ground, reads=True)
    from prong.tools.running import look_at

    seen = look_at(policy, access, resolve, approved=approved)
    return derive(
        policy,
        own.ground,
        reads=seen.reads,
        outside=seen.outside,
        cwd=access.cwd,
        opened=seen.opened,
    )
