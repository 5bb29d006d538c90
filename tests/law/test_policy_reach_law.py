"""Laws of the gate: a command that is denied is out of reach, however it is written."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prong.tools.policy import Allow, Deny, Mode
from shared.disguise import (
    FOREIGN,
    JOINING,
    PREFIXES,
    SCRIPTED,
    SPELLINGS,
    WRAPPINGS,
    hidden_removals,
)
from shared.gate import MODES, policy, rule, run

pytestmark = pytest.mark.spec("L5")


@settings(max_examples=600, deadline=None)
@given(hidden_removals(), st.sampled_from(MODES), st.booleans())
def test_a_denied_command_is_out_of_reach(command: str, mode: Mode, lax: bool):
    """However it is wrapped, a denied command is never allowed, in no mode, by no other rule."""
    rules = [rule("deny", "Bash(rm:*)")]
    if lax:
        rules += [rule("allow", "Bash"), rule("allow", "Bash(rm:*)"), rule("allow", "Bash(* x)")]

    assert not isinstance(run(policy(mode, *rules), command), Allow)


@pytest.mark.spec("P2")
@settings(max_examples=300, deadline=None)
@given(hidden_removals(), st.booleans())
def test_plan_mode_runs_nothing_that_writes(command: str, lax: bool):
    """In plan mode a hidden removal never runs, whatever the rules allow."""
    rules = [rule("allow", "Bash"), rule("allow", "Bash(rm:*)")] if lax else []

    assert not isinstance(run(policy("plan", *rules), command), Allow)


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("wrapping", [*WRAPPINGS, "{}"])
def test_every_spelling_in_every_construct(spelling: str, wrapping: str):
    """Each way to write a name is seen in each construct of the shell."""
    command = wrapping.format(f"{spelling} x")

    assert not isinstance(
        run(policy("bypassPermissions", rule("deny", "Bash(rm:*)")), command), Allow
    )


@pytest.mark.parametrize("wrapper", [*PREFIXES, *JOINING, *SCRIPTED, *FOREIGN])
def test_every_wrapper_is_seen_through(wrapper: str):
    """Each program that runs another is either opened or not trusted."""
    command = wrapper if "rm x" in wrapper else f"{wrapper} rm x"
    if "{}" in wrapper:
        command = wrapper.format("'rm x'")

    assert not isinstance(
        run(policy("bypassPermissions", rule("deny", "Bash(rm:*)")), command), Allow
    )
    assert isinstance(run(policy("plan"), command), Deny)
