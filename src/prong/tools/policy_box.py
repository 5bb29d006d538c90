"""The policies of agents: one of the whole tree, and those of children that look through it.

One `PolicyBox` is shared by the whole tree of agents; a narrowed view of it can only ever be
stricter, because its decision is the stricter one of its own and its parent's at that moment. What
a child may have that its parent has not is the worktree that was made for it and, if the user's
settings say so, edits without being asked about them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Unpack

from msgspec.structs import replace

from prong.errors import BadInput
from prong.host import Host
from prong.host.sandbox import Profile
from prong.system.path_form import normal_path
from prong.tools.access import Access, Running
from prong.tools.agent_policy import AgentPolicy, Grant, Narrowing, derive_profile, judge_by
from prong.tools.confine import confine, settle
from prong.tools.derive import frees
from prong.tools.ground import Decision, Ground, Mode, Policy, keeps_back, strictest
from prong.tools.policy import answered, decide
from prong.tools.rule import BadRule, Rule, parse_rule


class PolicyBox:
    """The policy of a tree of agents, shared by reference; that of its main agent."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._lent: tuple[Rule, ...] = ()
        self._barred: tuple[Rule, ...] = ()

    @property
    def policy(self) -> Policy:
        """The policy as it stands now."""
        if not self._barred:
            return self._policy
        return replace(self._policy, rules=(*self._policy.rules, *self._barred))

    @property
    def ground(self) -> Ground | None:
        """None: it works where the user does."""
        return None

    @property
    def only_reads(self) -> bool:
        """Whether nothing but reading is possible."""
        return self.policy.mode == "plan"

    @property
    def may_grant_edits(self) -> bool:
        """Whether the mode is one that asks about edits."""
        return self._policy.mode == "default"

    def decide(
        self,
        tool: str,
        accesses: Sequence[Access],
        *,
        resolve: Callable[[str], str] = normal_path,
    ) -> Decision:
        """Decide on one call by the policy as it stands now, and by what is lent."""
        if self._lent:
            policy = replace(self.policy, rules=(*self.policy.rules, *self._lent))
            return decide(policy, tool, accesses, resolve=resolve)
        return self.judge(tool, accesses, resolve, Grant())

    def judge(
        self,
        tool: str,
        accesses: Sequence[Access],
        resolve: Callable[[str], str],
        granted: Grant,
    ) -> Decision:
        """Decide by the policy as it stands now, with what descendants have."""
        return judge_by(self.policy, tool, accesses, resolve, granted)

    def profile(
        self,
        access: Running,
        *,
        approved: bool = False,
        resolve: Callable[[str], str] = normal_path,
    ) -> Profile:
        """Choose what a command is held to that may run."""
        return derive_profile(self, access, resolve, approved=approved)

    def equip(self, host: Host) -> str:
        """Ask what the host holds, once; gives what the user has to know of it."""
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
        """Add an allow rule, after a person said yes; raises UsageError if it is none."""
        self._policy = replace(self._policy, rules=(*self._policy.rules, _session_rule(rule)))

    def lend(self, rules: Sequence[Rule]) -> bool:
        """Let rules allow more to the main agent until `give_back`."""
        self._lent += tuple(rule for rule in rules if rule.effect == "allow")
        return True

    def lending(self, rules: Sequence[Rule]) -> AgentPolicy:
        """Return one for calls to which rules allow more."""
        return LendingBox(self, rules)

    def bar(self, rules: Sequence[Rule]) -> None:
        """Let rules forbid more until `give_back`."""
        self._barred += tuple(rule for rule in rules if rule.effect == "deny")

    def give_back(self) -> None:
        """Let what was lent and barred hold no longer."""
        self._lent = self._barred = ()

    def set_mode(self, mode: Mode) -> None:
        """Change the mode from now on."""
        self._policy = replace(self._policy, mode=mode)

    def revise(self, policy: Policy) -> None:
        """Take another policy from now on, for the whole tree."""
        # It may be made of what holds now, and what is barred for a turn is no part of that.
        kept = tuple(rule for rule in policy.rules if rule not in self._barred)
        self._policy = replace(policy, rules=kept) if self._barred else policy

    def narrow(self, **terms: Unpack[Narrowing]) -> AgentPolicy:
        """Return one for a child."""
        # What is barred now holds for whoever begins now, also once it is over here.
        return NarrowBox(self, self._barred, **terms)


class LendingBox:
    """The policy of the main agent, with rules that allow more to single calls."""

    def __init__(self, box: PolicyBox, rules: Sequence[Rule]) -> None:
        """Take the policy to look through; of the rules, those that allow."""
        self._box = box
        self._lent: tuple[Rule, ...] = ()
        self.lend(rules)

    @property
    def policy(self) -> Policy:
        """The agent's own."""
        return self._box.policy

    @property
    def ground(self) -> Ground | None:
        """The agent's own."""
        return self._box.ground

    @property
    def only_reads(self) -> bool:
        """Whether the agent can do nothing but read."""
        return self._box.only_reads

    @property
    def may_grant_edits(self) -> bool:
        """Whether the agent's mode is one that asks about edits."""
        return self._box.may_grant_edits

    def decide(
        self,
        tool: str,
        accesses: Sequence[Access],
        *,
        resolve: Callable[[str], str] = normal_path,
    ) -> Decision:
        """Decide by the agent's policy and by what is lent to these calls."""
        if self._lent:
            policy = replace(self.policy, rules=(*self.policy.rules, *self._lent))
            return decide(policy, tool, accesses, resolve=resolve)
        return self.judge(tool, accesses, resolve, Grant())

    def judge(
        self,
        tool: str,
        accesses: Sequence[Access],
        resolve: Callable[[str], str],
        granted: Grant,
    ) -> Decision:
        """Decide as the agent does: descendants have nothing of what is lent."""
        return self._box.judge(tool, accesses, resolve, granted)

    def profile(
        self,
        access: Running,
        *,
        approved: bool = False,
        resolve: Callable[[str], str] = normal_path,
    ) -> Profile:
        """Choose what a command of the agent is held to."""
        return self._box.profile(access, approved=approved, resolve=resolve)

    def equip(self, host: Host) -> str:
        """Ask what the host holds, once for the tree."""
        return self._box.equip(host)

    def keeps_back(self, path: str, folder: str) -> bool:
        """Whether a path may not be shown to the agent."""
        return self._box.keeps_back(path, folder)

    def allow_for_session(self, rule: Rule | str) -> None:
        """Add an allow rule for the whole tree."""
        self._box.allow_for_session(rule)

    def lend(self, rules: Sequence[Rule]) -> bool:
        """Let rules allow more to these calls."""
        self._lent += tuple(rule for rule in rules if rule.effect == "allow")
        return True

    def lending(self, rules: Sequence[Rule]) -> AgentPolicy:
        """Return one for other calls, which have nothing of what is lent here."""
        return LendingBox(self._box, rules)

    def bar(self, rules: Sequence[Rule]) -> None:
        """Let rules forbid more to the agent."""
        self._box.bar(rules)

    def give_back(self) -> None:
        """Let what was lent to these calls hold no longer; the agent keeps what its turn has."""
        self._lent = ()

    def set_mode(self, mode: Mode) -> None:
        """Change the agent's mode."""
        self._box.set_mode(mode)

    def narrow(self, **terms: Unpack[Narrowing]) -> AgentPolicy:
        """Return one for a child of the agent."""
        return self._box.narrow(**terms)


class NarrowBox:
    """A child's view: follows its parent's rules, adds a mode and forbidding rules of its own."""

    def __init__(
        self,
        parent: AgentPolicy,
        barred: tuple[Rule, ...] = (),
        *,
        mode: Mode = "bubble",
        rules: Sequence[Rule] = (),
        ground: Ground | None = None,
        edits: bool = False,
        plans: bool = False,
    ) -> None:
        """Take the policy to look through, and what was barred there when the child began."""
        self._edits = edits
        self._plans = plans
        self._parent = parent
        self._mode: Mode = mode
        self._rules = (*(rule for rule in rules if rule.effect != "allow"), *barred)
        self._ground = ground

    @property
    def policy(self) -> Policy:
        """The parent's, with what the child has of its own."""
        above = self._parent.policy
        if self._mode == "bubble" and not (self._rules or self._edits or self._ground):
            return above
        mode = above.mode if self._mode == "bubble" else self._mode
        if self._edits and self.may_grant_edits:
            mode = "acceptEdits"
        policy = replace(above, mode=mode, rules=(*above.rules, *self._rules))
        if self._mode == "plan":
            # Its own mode, whatever the session's is: the plan is not its to write.
            policy = replace(policy, reader=not self._plans, plan_file="")
        return policy if self._ground is None else settle(policy, self._ground)

    @property
    def ground(self) -> Ground | None:
        """Its own worktree, or that of its parent."""
        return self._ground or self._parent.ground

    @property
    def only_reads(self) -> bool:
        """Whether it or its parent can do nothing but read."""
        return self._mode == "plan" or self._parent.only_reads

    @property
    def may_grant_edits(self) -> bool:
        """Whether its mode is its parent's, and that asks about edits."""
        return self._mode == "bubble" and self._parent.may_grant_edits

    def decide(
        self,
        tool: str,
        accesses: Sequence[Access],
        *,
        resolve: Callable[[str], str] = normal_path,
    ) -> Decision:
        """Decide on one call of the child."""
        return self.judge(tool, accesses, resolve, Grant())

    def judge(
        self,
        tool: str,
        accesses: Sequence[Access],
        resolve: Callable[[str], str],
        granted: Grant,
    ) -> Decision:
        """Decide by its own policy and by its parent's; the stricter one counts."""
        # A mode of its own holds for everybody below too.
        edits = self._mode == "bubble" and (self._edits or granted.edits)
        reads = granted.reads or (self._mode == "plan" and frees(self.policy))
        granted = replace(granted, edits=edits, reads=reads)
        if self._mode == "bubble" and not self._rules and self._ground is None:
            # Its policy is its parent's but for the grant, and so is every verdict.
            return self._parent.judge(tool, accesses, resolve, granted)
        own = judge_by(self.policy, tool, accesses, resolve, granted)
        if self._ground is not None:
            limit = confine(self._parent.policy, self._ground, accesses, resolve, granted.folders)
            own = strictest([own, answered(self.policy, limit)])
            folders = (*granted.folders, self._ground.bounds, self._ground.root)
            granted = replace(granted, folders=folders)
        return strictest([own, self._parent.judge(tool, accesses, resolve, granted)])

    def profile(
        self,
        access: Running,
        *,
        approved: bool = False,
        resolve: Callable[[str], str] = normal_path,
    ) -> Profile:
        """Choose what a command of the child is held to."""
        return derive_profile(self, access, resolve, approved=approved)

    def equip(self, host: Host) -> str:
        """Ask what the host holds, once for the tree."""
        if self._ground is not None and self._ground.ability is not None:
            # Another machine's, which is known, and none of the tree's.
            return ""
        return self._parent.equip(host)

    def keeps_back(self, path: str, folder: str) -> bool:
        """Whether a path may not be shown to the child."""
        return keeps_back(self.policy, path, within=folder)

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
        """Let rules forbid more to the child, to its end."""
        self._rules += tuple(rule for rule in rules if rule.effect == "deny")

    def give_back(self) -> None:
        """Keep what is barred, to the child's end; nothing was lent."""

    def set_mode(self, mode: Mode) -> None:
        """Change the child's own mode."""
        self._mode = mode

    def narrow(self, **terms: Unpack[Narrowing]) -> AgentPolicy:
        """Return one for a child of the child."""
        return NarrowBox(self, **terms)


def _session_rule(rule: Rule | str) -> Rule:
    if isinstance(rule, Rule):
        return replace(rule, effect="allow", source="session")
    parsed = parse_rule(rule, effect="allow", source="session")
    if isinstance(parsed, BadRule):
        raise BadInput(f"{rule!r} is not a rule: {parsed.why} (character {parsed.position})")
    return parsed
