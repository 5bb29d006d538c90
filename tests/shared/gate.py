"""Policies to try commands on."""

from __future__ import annotations

from typing import get_args

from prong.tools.access import Running
from prong.tools.policy import Decision, Mode, Policy, decide
from prong.tools.rule import Effect, Rule, parse_rule

ROOT, HOME = "/r", "/home/u"

MODES: tuple[Mode, ...] = get_args(Mode)


def rule(effect: Effect, text: str) -> Rule:
    parsed = parse_rule(text, effect=effect, source="user")
    assert isinstance(parsed, Rule), parsed
    return parsed


def policy(mode: Mode = "default", *rules: Rule) -> Policy:
    return Policy(root=ROOT, home=HOME, mode=mode, rules=rules, plan_file="/r/.prong/plans/p.md")


def run(value: Policy, command: str) -> Decision:
    return decide(value, "Bash", [Running(command, ROOT)])
