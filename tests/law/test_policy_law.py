from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prong.team.claim import FileBox
from prong.tools.access import Access, Reading, Running, Using, Writing
from prong.tools.agent_policy import AgentPolicy
from prong.tools.ground import is_protected
from prong.tools.policy import Allow, Ask, Decision, Deny, Mode, decide
from prong.tools.policy_box import LendingBox, NarrowBox, PolicyBox
from prong.tools.rule import Rule
from shared.disguise import hidden_removals
from shared.gate import MODES, ROOT, policy, rule, run

RANK = {Allow: 0, Ask: 1, Deny: 2}

pytestmark = pytest.mark.spec("L5")


def rank(verdict: Decision) -> int:
    return RANK[type(verdict)]


COMMANDS = st.one_of(
    hidden_removals(),
    st.sampled_from(
        [
            "ls",
            "git push",
            "git log",
            "npm test",
            "echo a > x",
            "cat /etc/passwd",
            "mkdir a",
            "cat .env",
        ]
    ),
)

PATHS = st.sampled_from(
    ["/r/a.py", "/r/src/b.py", "/r/.git/config", "/etc/passwd", "/home/u/.bashrc", "/r/.env"]
)

CALLS: st.SearchStrategy[tuple[str, Access]] = st.one_of(
    st.tuples(st.just("Bash"), st.builds(Running, COMMANDS, st.just(ROOT))),
    st.tuples(st.sampled_from(["Read", "Grep", "Glob"]), st.builds(Reading, PATHS)),
    st.tuples(st.sampled_from(["Edit", "Write", "NotebookEdit"]), st.builds(Writing, PATHS)),
    st.tuples(
        st.sampled_from(["Agent", "Skill", "WebFetch", "mcp__a__b", "mcp__c__d"]),
        st.builds(Using, st.sampled_from(["", "x", "domain:a.org"])),
    ),
)

RULES = st.builds(
    rule,
    st.sampled_from(["allow", "ask", "deny"]),
    st.sampled_from(
        [
            *["Bash", "Bash(*)", "Bash(rm:*)", "Bash(git:*)", "Bash(npm test:*)", "Bash(ls)"],
            *["Read", "Read(.env)", "Read(//etc/**)", "Read(~/**)", "Grep", "Edit", "Write"],
            *["Edit(/src/**)", "Edit(*.py)", "mcp__a", "mcp__a__*", "mcp__c__d", "Agent(x)"],
            *["Skill", "WebFetch(domain:a.org)", "Task", "Bash(* x)", "Bash(git * x)"],
        ]
    ),
)


@settings(max_examples=400, deadline=None)
@given(CALLS, st.sampled_from(MODES), st.lists(RULES, max_size=5), RULES)
def test_forbidding_more_never_permits_more(
    call: tuple[str, Access], mode: Mode, rules: list[Rule], extra: Rule
):
    """A deny or ask rule more makes no decision laxer; an allow rule more makes none stricter."""
    tool, access = call
    before = decide(policy(mode, *rules), tool, [access])
    after = decide(policy(mode, *rules, extra), tool, [access])

    if extra.effect == "allow":
        assert rank(after) <= rank(before)
    else:
        assert rank(after) >= rank(before)


@settings(max_examples=200, deadline=None)
@given(CALLS, st.sampled_from(MODES), st.lists(RULES, max_size=6), st.integers())
def test_the_order_of_rules_is_irrelevant(
    call: tuple[str, Access], mode: Mode, rules: list[Rule], seed: int
):
    """Shuffled rules give the same kind of answer."""
    tool, access = call
    shuffled = random.Random(seed).sample(rules, len(rules))

    assert type(decide(policy(mode, *rules), tool, [access])) is type(
        decide(policy(mode, *shuffled), tool, [access])
    )


@settings(max_examples=300, deadline=None)
@given(
    CALLS,
    st.sampled_from(MODES),
    st.lists(st.sampled_from(MODES), min_size=1, max_size=3),
    st.lists(RULES, max_size=4),
    st.lists(RULES, max_size=2),
)
def test_a_child_is_never_laxer_than_its_parent(
    call: tuple[str, Access], mode: Mode, modes: list[Mode], rules: list[Rule], own: list[Rule]
):
    """Narrowing to any mode, at any depth, before or after the parent changes, only narrows."""
    tool, access = call
    top = PolicyBox(policy("default", *rules))
    boxes: list[AgentPolicy] = [top]
    for child in modes:
        boxes.append(boxes[-1].narrow(mode=child, rules=own))
    top.set_mode(mode)

    ranks = [rank(box.decide(tool, [access])) for box in boxes]

    assert ranks == sorted(ranks)


@settings(max_examples=300, deadline=None)
@given(
    CALLS,
    st.sampled_from(MODES),
    st.lists(st.tuples(st.sampled_from(MODES), st.booleans()), min_size=1, max_size=3),
    st.lists(RULES, max_size=4),
)
def test_granted_edits_are_edits_and_bound_by_every_mode_between(
    call: tuple[str, Access], mode: Mode, modes: list[tuple[Mode, bool]], rules: list[Rule]
):
    """A grant makes a child at most as lax as acceptEdits would make the tree.

    It counts where the tree is in `default`, and only if neither the child nor an agent above it
    has a mode of its own; what is below the child is at most as lax as the child.
    """
    tool, access = call
    top = PolicyBox(policy("default", *rules))
    box: AgentPolicy = top
    for child, edits in modes:
        box = box.narrow(mode=child, edits=edits)
    top.set_mode(mode)
    follow = itertools.takewhile(lambda one: one[0] == "bubble", modes)
    granted = mode == "default" and any(edits for _, edits in follow)
    most = "acceptEdits" if granted else mode

    verdict = rank(box.decide(tool, [access]))

    assert verdict >= rank(decide(policy(most, *rules), tool, [access]))


def test_a_parents_new_rules_reach_its_children():
    """An answer given for the session counts in the whole tree, at once."""
    top = PolicyBox(policy())
    child = top.narrow().narrow(mode="acceptEdits")
    call = [Running("npm test", ROOT)]
    assert isinstance(child.decide("Bash", call), Ask)

    child.allow_for_session("Bash(npm test:*)")

    assert isinstance(top.decide("Bash", call), Allow)
    assert isinstance(child.decide("Bash", call), Allow)


def test_a_bubbling_fork_decides_as_its_tree_does():
    """A fork without a mode of its own follows the mode of its tree."""
    top = PolicyBox(policy())
    fork = top.narrow(mode="bubble")
    call = [Writing("/r/a.py")]

    top.set_mode("acceptEdits")

    assert isinstance(fork.decide("Edit", call), Allow)
    assert isinstance(decide(policy("bubble"), "Edit", call), Ask)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "path",
    [
        "/r/.git/hooks/pre-commit",
        "/r/.GIT/config",
        "/r/sub/.git",
        "/r/.prong/settings.json",
        "/r/.claude/settings.local.json",
        "/r/.mcp.json",
        "/r/.prong/agents/a.md",
        "/r/.prong/hooks/x",
        "/home/u/.bashrc",
        "/home/u/.zshrc",
        "/home/u/.profile",
        "/home/u/.ssh/config",
        "/home/u/.gnupg/x",
        "/home/u/.prong/settings.json",
        "/r/.vscode/settings.json",
        "/r/.idea/x",
        "/r/.Prong/Settings.json",
    ],
)
def test_protected_paths_are_never_written_unasked(path: str, mode: Mode):
    """No mode and no allow rule writes a protected path without a question."""
    value = policy(mode, rule("allow", "Edit"), rule("allow", "Bash"))
    assert is_protected(value, path)

    for verdict in (
        decide(value, "Write", [Writing(path)]),
        run(value, f"echo x > {path}"),
        run(value, f"cp x {path}"),
        run(value, f"tee -a {path}"),
        run(value, f"cd {path.rpartition('/')[0]} && touch {path.rpartition('/')[2]}"),
    ):
        assert isinstance(verdict, Deny if mode in {"plan", "dontAsk"} else Ask)


@pytest.mark.parametrize("kind", [PolicyBox, LendingBox, NarrowBox, FileBox])
def test_a_policy_answers_for_itself(kind: type[AgentPolicy]) -> None:
    """No policy inherits the answers, or the state, of one that it only looks through."""
    asked = {name for name in vars(AgentPolicy) if not name.startswith("_")}
    assert kind.__bases__ == (object,)
    assert asked <= set(vars(kind))


def test_what_is_barred_holds_for_children_of_single_calls() -> None:
    """A child that a call with lent rules has started keeps what was barred when it began."""
    top, rule = PolicyBox(policy()), Rule("deny", "Bash", "touch:*", "skill")
    top.bar([rule])
    child = top.lending([Rule("allow", "Bash", "ls:*", "skill")]).narrow()
    top.give_back()
    assert (top.policy.rules, child.policy.rules) == ((), (rule,))
