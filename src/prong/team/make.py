"""Makes children: a fork of its parent's conversation, a typed one of its type's definition.

Both come by the table of isolation. What differs is the first prompt, the kit, the provider and
whose rules are added.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from prong.agent import Agent, Hooks, Limits
from prong.agent.agent import Sent
from prong.agent.lineage import Lineage
from prong.agent.spec import AgentType
from prong.config.guard import Guard
from prong.cost.budget import Bounds, Budget
from prong.journal.note import ChildSpec
from prong.prompt import Node, Prompt
from prong.team.account import ChildAccount, fork_receipt, typed_receipt
from prong.team.child import Child, Voice
from prong.team.claim import FileBox
from prong.team.course import Services
from prong.team.fanout import FanOut
from prong.team.fileset import FileSet
from prong.team.isolation import make_agent, nobody
from prong.team.recruit import Made
from prong.team.taskset import TaskSet
from prong.tools.base import Delegation
from prong.tools.delegate import AnyAgentArguments
from prong.tools.filter import denied_uses
from prong.tools.policy import Mode
from prong.tools.rule import BadRule, Rule, parse_rule

FORK_TURNS = 200
"""Requests a fork may make."""

_STRICT = frozenset({"plan", "dontAsk", "default"})
"""Modes of a type that can be stricter than the tree's."""

TYPED_TURNS = 200
"""Requests a typed child may make, if its type says nothing else."""


class Part(msgspec.Struct, frozen=True):
    """What one fork is to do."""

    description: str
    directive: str
    isolated: bool


def fork_spec(
    parent: Agent,
    fan: FanOut,
    task_id: str,
    part: Part,
    *,
    call_id: str,
    notify: bool,
    budget: Budget | None,
) -> ChildSpec:
    """Say what a fork is."""
    return ChildSpec(
        task_id=task_id,
        path=f"{parent.path}/{task_id}",
        parent=parent.path,
        kind="fork",
        type="fork",
        description=part.description,
        brief=part.directive,
        carrier=fan.carrier,
        call_id=call_id,
        notify=notify,
        base_depth=fan.base.depth,
        base=fan.base.digest,
        budget=budget.bounds if budget is not None else Bounds(),
        isolation="worktree" if part.isolated else "",
    )


def typed_spec(
    parent: Agent,
    kind: AgentType,
    task_id: str,
    args: AnyAgentArguments,
    made: Made,
    *,
    call_id: str,
    budget: Budget,
) -> ChildSpec:
    """Say what a typed child is."""
    return ChildSpec(
        task_id=task_id,
        path=f"{parent.path}/{task_id}",
        parent=parent.path,
        kind="typed",
        type=kind.name,
        description=args.description,
        brief="\n\n".join(part for part in (kind.initial_prompt, args.prompt) if part),
        call_id=call_id,
        model=made.model,
        spawns=made.spawns,
        budget=budget.bounds,
        isolation="worktree" if args.isolation or kind.isolation else "",
    )


@dataclass(slots=True, frozen=True, kw_only=True)
class Start:
    """What a child starts from: its first conversation, or its stored one."""

    prompt: Prompt
    account: ChildAccount
    last: Sent | None = None
    """The last request of its lineage; None for the parent's, if it is a fork."""
    base: Node | None = None
    """The fork base, as long as it is part of the conversation."""
    beside: Mapping[str, object] = field(default_factory=dict[str, object])
    """What it has of its own in its context, by field."""


def fork_start(parent: Agent, spec: ChildSpec, fan: FanOut) -> Start:
    """Start a fork from the base that it shares with its siblings."""
    account = ChildAccount(fork_receipt(parent, spec, fan), fan=fan)
    return Start(prompt=fan.base, account=account, base=fan.base.tip)


def typed_start(spec: ChildSpec, made: Made) -> Start:
    """Start a typed child from its head alone: nothing of the parent's conversation is in it."""
    prompt = Prompt(made.head)
    return Start(prompt=prompt, account=ChildAccount(typed_receipt(spec, prompt)))


def make_fork(
    parent: Agent,
    spec: ChildSpec,
    start: Start,
    budget: Budget,
    services: Services,
    agents: Delegation,
) -> Child:
    """Make a fork."""
    voice = Voice(spec.path, services.emit)
    agent = make_agent(
        parent,
        "fork",
        agent={
            "path": spec.path,
            "lineage": Lineage("fork", spec.parent, spec.path.count("/"), spec.base),
            "prompt": start.prompt,
            "policy": parent.policy.narrow(mode="bubble"),
            "hooks": _cloned(parent.hooks),
            "emit": voice.emit,
            "limits": Limits(max_turns=FORK_TURNS),
            "budget": budget,
            "last": start.last or parent.last,
            "base": start.base,
            "watch": start.account,
        },
        context={**_context(spec, voice, services, agents), **start.beside},
    )
    return Child(spec, agent, start.account, voice)


def _cloned(hooks: Hooks) -> Hooks:
    """Give a fork the same hooks with a record of its own."""
    return hooks.clone() if isinstance(hooks, Guard) else hooks


def make_typed(
    parent: Agent,
    spec: ChildSpec,
    start: Start,
    budget: Budget,
    services: Services,
    agents: Delegation,
    kind: AgentType,
    made: Made,
) -> Child:
    """Make a typed child."""
    voice = Voice(spec.path, services.emit)
    policy = parent.policy.narrow(mode=_mode(kind), rules=_forbidding(kind), edits=made.edits)
    if services.claims is not None and not spec.isolation:
        policy = FileBox(policy, services.claims, spec.task_id, declared(spec))
    reads = parent.context.reads.hand_on()
    agent = make_agent(
        parent,
        "typed",
        agent={
            "path": spec.path,
            "lineage": Lineage("typed", spec.parent, spec.path.count("/")),
            "prompt": start.prompt,
            "provider": made.provider,
            "kit": made.kit,
            "policy": policy,
            "hooks": made.hooks,
            "emit": voice.emit,
            "limits": Limits(max_turns=kind.max_turns or TYPED_TURNS),
            "budget": budget,
            "context_tokens": made.context_tokens,
            "max_output": made.max_output,
            "last": start.last or Sent(),
            "watch": start.account,
        },
        context={
            **_context(spec, voice, services, agents),
            "images": made.images,
            "reads": reads,
            **start.beside,
        },
    )
    return Child(spec, agent, start.account, voice)


def declared(spec: ChildSpec) -> FileSet | None:
    """Give the files that a child was given; None if nothing was declared."""
    return None if spec.files is None else FileSet(spec.files)


def _context(
    spec: ChildSpec, voice: Voice, services: Services, agents: Delegation
) -> dict[str, Any]:
    """Make what is new in every child's context."""
    tasks = TaskSet(services.board, spec.path, voice.emit)
    return {"emit": voice.emit, "ask": nobody, "tasks": tasks, "agents": agents}


def _mode(kind: AgentType) -> Mode:
    """Give the mode that a child's own rules add to the tree's.

    Only a mode that forbids adds any. One that allows is no wish to be stricter than the tree, so
    the child follows it, whatever the tree's mode becomes.
    """
    return kind.permission_mode if kind.permission_mode in _STRICT else "bubble"


def _forbidding(kind: AgentType) -> list[Rule]:
    """Make deny rules of entries such as `Bash(rm:*)` in a type's deny list."""
    parsed = [
        parse_rule(text, effect="deny", source="flag")
        for text in denied_uses(kind.disallowed_tools)
    ]
    return [rule for rule in parsed if not isinstance(rule, BadRule)]
