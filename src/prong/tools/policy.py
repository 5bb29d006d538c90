"""May this call run? Decided by rules and mode alone, without touching a file.

Deny rules win, then ask rules, then allow rules, then the mode. One `PolicyBox` is shared by the
whole tree of agents; a narrowed view of it can only ever be stricter, because its decision is the
stricter one of its own and its parent's at that moment. What a child may have that its parent has
not is the worktree that was made for it and, if the user's settings say so, edits without being
asked about them.
"""

from __future__ import annotations

import os.path
from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from prong.errors import BadInput
from prong.host import Host
from prong.host.sandbox import NONE, Profile
from prong.tools.access import Access, Reading, Running, Using, Writing
from prong.tools.confine import confine, settle
from prong.tools.derive import derive, frees
from prong.tools.filter import is_mcp
from prong.tools.ground import (
    Allow,
    Ask,
    Decision,
    Deny,
    Ground,
    Mode,
    Policy,
    decide_reading,
    decide_writing,
    keeps_back,
    planned,
    reads_only,
    strictest,
)
from prong.tools.rule import BadRule, Effect, Rule, fits_use, parse_rule

__all__ = ["Allow", "Ask", "Decision", "Deny", "Ground", "Mode", "Policy", "PolicyBox", "decide"]

_OWN = frozenset(["Agent", "Skill", "TeamSpawn"])
"""Uses that touch nothing by themselves: each call that comes of them is decided on its own."""

_WEB = frozenset(["WebFetch", "WebSearch"])


def decide(
    policy: Policy,
    tool: str,
    accesses: Sequence[Access],
    *,
    resolve: Callable[[str], str] = os.path.normpath,
) -> Decision:
    """Decide on one call, by all that it touches.

    Paths inside shell commands are made absolute and passed through `resolve`; give it
    `os.path.realpath` where links have to be followed.
    """
    # A member of a team is an agent: what rules say of agents is said of it too.
    verdicts = [
        verdict
        for name in ((tool, "Agent") if tool == "TeamSpawn" else (tool,))
        for verdict in (
            _by_name(policy, name),
            *(_decide_one(policy, name, a, resolve) for a in accesses),
        )
    ]
    return _answered(policy, strictest(verdicts))


def _answered(policy: Policy, verdict: Decision) -> Decision:
    """Turn a question into a refusal where nobody can be asked."""
    if policy.mode == "dontAsk" and isinstance(verdict, Ask):
        return Deny(f"{verdict.why}; nobody can be asked, so go on without it")
    return verdict


def _by_name(policy: Policy, tool: str) -> Decision:
    """Apply the rules that forbid a tool altogether."""
    for effect in ("deny", "ask"):
        for rule in policy.rules:
            if rule.effect == effect and rule.specifier is None and rule.covers(tool):
                if effect == "deny":
                    return Deny(f"{tool} is forbidden by {rule.named}; work without it")
                return Ask(f"{tool} is asked for by {rule.named}")
    return Allow("nothing is touched")


def _decide_one(
    policy: Policy, tool: str, access: Access, resolve: Callable[[str], str]
) -> Decision:
    match access:
        case Reading(path):
            return decide_reading(policy, tool, path)
        case Writing(path):
            return decide_writing(policy, tool, path)
        case Running():
            # The shell's grammar takes a while to load, and many sessions never run a command.
            from prong.tools.running import decide_running

            return decide_running(policy, access, resolve)
        case Using(specifier, reads):
            return _decide_use(policy, tool, specifier, reads=reads)


def _find_use(policy: Policy, effect: Effect, tool: str, specifier: str) -> Rule | None:
    for rule in policy.rules:
        if rule.effect == effect and rule.covers(tool) and fits_use(rule, specifier):
            return rule
    return None


def _decide_use(policy: Policy, tool: str, specifier: str, *, reads: bool) -> Decision:
    # A server's tool is spoken of by its name alone.
    what = f"{tool}({specifier})" if specifier not in {"", tool} else tool
    if rule := _find_use(policy, "deny", tool, specifier):
        return Deny(f"{what} is forbidden by {rule.named}; work without it")
    vouched = reads or tool in _OWN | _WEB or _vouched(policy, tool)
    if policy.mode == "plan" and not vouched:
        instead = planned(policy, "the step")
        return Deny(f"{reads_only(policy)}, and {what} may do more; {instead}")
    if rule := _find_use(policy, "ask", tool, specifier):
        return Ask(f"{what} is asked for by {rule.named}")
    if rule := _find_use(policy, "allow", tool, specifier):
        return Allow(f"{rule.named} allows it")
    if policy.mode == "bypassPermissions" or tool in _OWN:
        return Allow("permissions are bypassed" if tool not in _OWN else "its calls are decided")
    return Allow("it only reads") if reads else Ask(f"{what} would be used", (what,))


def _vouched(policy: Policy, tool: str) -> bool:
    """Whether a rule of the user's allows a server's tool, whose deeds only they can know."""
    return is_mcp(tool) and _find_use(policy, "allow", tool, tool) is not None


def usable_in_plan(policy: Policy, tool: str, *, reads: bool = False) -> bool:
    """Whether a server's tool, or a function, can be used where only reading is possible."""
    verdict = decide(replace(policy, mode="plan"), tool, [Using(tool, reads)])
    return not isinstance(verdict, Deny)


class Grant(Struct, frozen=True):
    """What a descendant has beyond the agents through which its calls are judged."""

    folders: tuple[str, ...] = ()
    """The worktrees that were made for it and those between."""
    edits: bool = False
    """Whether the user lets it edit where the mode of the tree would ask."""
    reads: bool = False
    """Whether its commands are held to reading, so that they need not be proven to read."""


class PolicyBox:
    """The policy of a tree of agents, shared by reference."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._lent: tuple[Rule, ...] = ()

    @property
    def policy(self) -> Policy:
        """The policy as it stands now."""
        return self._policy

    def decide(
        self,
        tool: str,
        accesses: Sequence[Access],
        *,
        resolve: Callable[[str], str] = os.path.normpath,
    ) -> Decision:
        """Decide on one call by the policy as it stands now, and by what is lent."""
        if self._lent:
            policy = replace(self.policy, rules=(*self.policy.rules, *self._lent))
            return decide(policy, tool, accesses, resolve=resolve)
        return self._judge(tool, accesses, resolve, Grant())

    def _judge(
        self,
        tool: str,
        accesses: Sequence[Access],
        resolve: Callable[[str], str],
        granted: Grant,
    ) -> Decision:
        """Decide; `granted` is what the descendants have through which a call comes."""
        policy = self.policy
        if granted.folders:
            policy = replace(policy, folders=(*policy.folders, *granted.folders))
        if granted.edits and policy.mode == "default":
            policy = replace(policy, mode="acceptEdits")
        if granted.reads and all(isinstance(access, Running) for access in accesses):
            held = replace(policy, mode="plan", reader=policy.mode != "plan" or policy.reader)
            return _answered(policy, decide(held, tool, accesses, resolve=resolve))
        return decide(policy, tool, accesses, resolve=resolve)

    @property
    def ground(self) -> Ground | None:
        """The worktree that it works in, if it has one."""
        return None

    @property
    def only_reads(self) -> bool:
        """Whether nothing but reading is possible."""
        return self.policy.mode == "plan"

    def profile(
        self,
        access: Running,
        *,
        approved: bool = False,
        resolve: Callable[[str], str] = os.path.normpath,
    ) -> Profile:
        """Choose what a command is held to that may run; `approved` if a person said yes to it."""
        policy = self.policy
        assert not policy.sandbox.on or policy.sandbox.ability is not None, "the host was not asked"
        if not policy.sandbox.active:
            return NONE
        if self.only_reads:
            return derive(policy, self.ground, reads=True)
        from prong.tools.running import look_at

        seen = look_at(policy, access, resolve, approved=approved)
        return derive(
            policy,
            self.ground,
            reads=seen.reads,
            outside=seen.outside,
            cwd=access.cwd,
            opened=seen.opened,
        )

    def _may_grant_edits(self) -> bool:
        """Whether the mode asks about edits because it is the tree's, and nobody made it so."""
        return self._policy.mode == "default"

    def equip(self, host: Host) -> str:
        """Ask what the host holds, once for the tree; gives what the user has to know of it."""
        sandbox = self._policy.sandbox
        if not sandbox.on or sandbox.ability is not None:
            return ""
        sandbox = replace(sandbox, ability=host.ability)
        self._policy = replace(self._policy, sandbox=sandbox)
        return sandbox.unheld

    def keeps_back(self, path: str, folder: str) -> bool:
        """Whether a path may not be shown that a search of a folder has found."""
        return keeps_back(self.policy, path, within=folder)

    def allow_for_session(self, rule: Rule | str) -> None:
        """Add an allow rule for the whole tree, after a person said yes.

        Raises:
            UsageError: the text is not a rule.

        """
        self._policy = replace(self._policy, rules=(*self._policy.rules, _session_rule(rule)))

    def lend(self, rules: Sequence[Rule]) -> bool:
        """Let rules allow more to this agent until `give_back`; False if it may not have more.

        They are no part of the policy: nothing that is kept or handed on holds them, and children
        have nothing of them.
        """
        self._lent += tuple(rule for rule in rules if rule.effect == "allow")
        return True

    def give_back(self) -> None:
        """Let what was lent hold no longer."""
        self._lent = ()

    def lending(self, rules: Sequence[Rule]) -> PolicyBox:
        """Return a view of this one for calls to which rules allow more; nobody else has them.

        If this agent may not have more, that is none but its own.
        """
        return _LendingBox(self, rules)

    def set_mode(self, mode: Mode) -> None:
        """Change the mode from now on."""
        self._policy = replace(self._policy, mode=mode)

    def revise(self, policy: Policy) -> None:
        """Take another policy from now on, for the whole tree."""
        self._policy = policy

    def narrow(
        self,
        *,
        mode: Mode = "bubble",
        rules: Sequence[Rule] = (),
        ground: Ground | None = None,
        edits: bool = False,
        plans: bool = False,
    ) -> PolicyBox:
        """Return a view for a child that can be stricter than this one, never laxer.

        With `ground`, the child works in a worktree and writes nowhere else. With `edits`, which
        only the user's settings may ask for, it edits without a question where the tree's mode is
        `default`. With `plans` its plan mode is not that of its type, but lasts until its plan is
        approved.
        """
        own = tuple(rule for rule in rules if rule.effect != "allow")
        return _NarrowBox(self, mode, own, ground, edits=edits, plans=plans)


class _LendingBox(PolicyBox):
    """The policy of the agent whose box it is, with rules that allow more to single calls."""

    def __init__(self, box: PolicyBox, rules: Sequence[Rule]) -> None:
        super().__init__(box.policy)
        self._box = box
        self.lend(rules)

    @property
    def policy(self) -> Policy:
        return self._box.policy

    @property
    def ground(self) -> Ground | None:
        return self._box.ground

    @property
    def only_reads(self) -> bool:
        return self._box.only_reads

    def equip(self, host: Host) -> str:
        return self._box.equip(host)

    def allow_for_session(self, rule: Rule | str) -> None:
        self._box.allow_for_session(rule)

    def set_mode(self, mode: Mode) -> None:
        self._box.set_mode(mode)


class _NarrowBox(PolicyBox):
    """A child's view: follows its parent's rules, adds a mode and forbidding rules of its own."""

    def __init__(
        self,
        parent: PolicyBox,
        mode: Mode,
        rules: tuple[Rule, ...],
        ground: Ground | None,
        *,
        edits: bool,
        plans: bool,
    ) -> None:
        super().__init__(parent.policy)
        self._edits = edits
        self._plans = plans
        self._parent = parent
        self._mode: Mode = mode
        self._rules = rules
        self._ground = ground

    @property
    def policy(self) -> Policy:
        above = self._parent.policy
        mode = above.mode if self._mode == "bubble" else self._mode
        if self._edits and self._may_grant_edits():
            mode = "acceptEdits"
        policy = replace(above, mode=mode, rules=(*above.rules, *self._rules))
        if self._mode == "plan":
            # Its own mode, whatever the session's is: the plan is not its to write.
            policy = replace(policy, reader=not self._plans, plan_file="")
        return policy if self._ground is None else settle(policy, self._ground)

    def _may_grant_edits(self) -> bool:
        return self._mode == "bubble" and self._parent._may_grant_edits()  # noqa: SLF001 - its own kind

    def _judge(
        self,
        tool: str,
        accesses: Sequence[Access],
        resolve: Callable[[str], str],
        granted: Grant,
    ) -> Decision:
        # A mode of its own holds for everybody below too.
        edits = self._mode == "bubble" and (self._edits or granted.edits)
        reads = granted.reads or (self._mode == "plan" and frees(self.policy))
        granted = replace(granted, edits=edits, reads=reads)
        if self._mode == "bubble" and not self._rules and self._ground is None:
            # Its policy is its parent's but for the grant, and so is every verdict.
            return self._parent._judge(tool, accesses, resolve, granted)  # noqa: SLF001 - its own kind
        own = super()._judge(tool, accesses, resolve, granted)
        if self._ground is not None:
            limit = confine(self._parent.policy, self._ground, accesses, resolve, granted.folders)
            own = strictest([own, _answered(self.policy, limit)])
            folders = (*granted.folders, self._ground.bounds, self._ground.root)
            granted = replace(granted, folders=folders)
        return strictest([own, self._parent._judge(tool, accesses, resolve, granted)])  # noqa: SLF001 - its own kind

    def equip(self, host: Host) -> str:
        if self._ground is not None and self._ground.ability is not None:
            # Another machine's, which is known, and none of the tree's.
            return ""
        return self._parent.equip(host)

    @property
    def ground(self) -> Ground | None:
        return self._ground or self._parent.ground

    @property
    def only_reads(self) -> bool:
        return self._mode == "plan" or self._parent.only_reads

    def allow_for_session(self, rule: Rule | str) -> None:
        self._parent.allow_for_session(rule)

    def lend(self, rules: Sequence[Rule]) -> bool:
        # A child is never allowed more than its tree.
        del rules
        return False

    def lending(self, rules: Sequence[Rule]) -> PolicyBox:
        del rules
        return self

    def set_mode(self, mode: Mode) -> None:
        self._mode = mode


def _session_rule(rule: Rule | str) -> Rule:
    if isinstance(rule, Rule):
        return replace(rule, effect="allow", source="session")
    parsed = parse_rule(rule, effect="allow", source="session")
    if isinstance(parsed, BadRule):
        raise BadInput(f"{rule!r} is not a rule: {parsed.why} (character {parsed.position})")
    return parsed
