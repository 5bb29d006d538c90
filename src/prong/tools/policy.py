"""May this call run? Decided by rules and mode alone, without touching a file.

Deny rules win, then ask rules, then allow rules, then the mode. `policy_box` has the policies of
agents, by which their calls are decided on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from prong.system.path_form import normal_path
from prong.tools.access import Access, Reading, Running, Using, Writing
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
    planned,
    reads_only,
    strictest,
)
from prong.tools.rule import Effect, Rule, fits_use

__all__ = ["Allow", "Ask", "Decision", "Deny", "Ground", "Mode", "Policy", "decide"]

_OWN = frozenset(["Agent", "Skill", "TeamSpawn"])
"""Uses that touch nothing by themselves: each call that comes of them is decided on its own."""

_WEB = frozenset(["WebFetch", "WebSearch"])


def decide(
    policy: Policy,
    tool: str,
    accesses: Sequence[Access],
    *,
    resolve: Callable[[str], str] = normal_path,
) -> Decision:
    """Decide on one call, by all that it touches.

    Paths inside shell commands are made absolute and passed through `resolve`; give it
    `real_path` where links have to be followed.
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
    return answered(policy, strictest(verdicts))


def answered(policy: Policy, verdict: Decision) -> Decision:
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
