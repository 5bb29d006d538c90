"""Makes children: a fork of its parent's conversation, a typed one of its type's definition.

Both come by the tables of isolation. What differs is the first prompt, the kit, the provider and
whose rules are added.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from prong.agent import Agent, Hooks, RunState, Sent, TurnLimits
from prong.agent.lineage import Lineage
from prong.agent.spec import AgentType
from prong.config.guard import Guard
from prong.cost.budget import Bounds, Budget
from prong.cost.cache import cache_rule
from prong.host.target import ChosenIsolation, read_isolation
from prong.ids import TaskId, below, depth_of
from prong.journal.note import ChildSpec, MemberKept
from prong.prompt import Node, Prompt
from prong.team.account import ChildAccount, fork_account, typed_account
from prong.team.child import Child, RunStatus
from prong.team.claim import FileBox, declared
from prong.team.course import Services
from prong.team.emitter import Emitter
from prong.team.fanout import FanOut
from prong.team.fileset import FileSet
from prong.team.isolation import ChildFields, make_agent, nobody
from prong.team.member_record import MemberRecord
from prong.team.taskset import TaskSet
from prong.team.typed import TypedParts
from prong.tools.delegate import AnyAgentArguments
from prong.tools.filter import denied_uses
from prong.tools.policy import Mode
from prong.tools.rule import BadRule, Rule, parse_rule
from prong.tools.tool import Delegation

FORK_TURNS = 200
"""Requests a fork may make."""

_STRICT = frozenset({"plan", "dontAsk", "default"})
"""Modes of a type that can be stricter than the tree's."""

TYPED_TURNS = 200
"""Requests a typed child may make, if its type says nothing else."""


class PlannedFork(msgspec.Struct, frozen=True):
    """What one fork is to do."""

    description: str
    directive: str
    isolation: ChosenIsolation = ChosenIsolation()
    counted: bool = False
    """Whether the call that asks for it names it not."""


def fork_spec(
    parent: Agent,
    fan: FanOut,
    task_id: TaskId,
    part: PlannedFork,
    *,
    call_id: str,
    notify: bool,
    budget: Budget | None,
) -> ChildSpec:
    """Say what a fork is."""
    return ChildSpec(
        task_id=task_id,
        path=below(parent.path, task_id),
        parent=parent.path,
        kind="fork",
        type="fork",
        description=part.description,
        brief=part.directive,
        carrier=fan.carrier,
        call_id=call_id,
        counted=part.counted,
        notify=notify,
        base_depth=fan.base.depth,
        base=fan.base.digest,
        budget=budget.bounds if budget is not None else Bounds(),
        isolation=part.isolation.kind,
        target=part.isolation.target,
    )


def typed_spec(
    parent: Agent,
    task_id: TaskId,
    args: AnyAgentArguments,
    made: TypedParts,
    *,
    call_id: str,
    budget: Budget,
    notify: bool,
    files: FileSet | None,
) -> ChildSpec:
    """Say what a typed child is."""
    kind = made.kind
    isolation = read_isolation(args.isolation or kind.isolation)
    return ChildSpec(
        task_id=task_id,
        path=below(parent.path, task_id),
        parent=parent.path,
        kind="typed",
        type=kind.name,
        description=args.description,
        brief="\n\n".join(part for part in (kind.initial_prompt, args.prompt) if part),
        call_id=call_id,
        counted=not args.name,
        notify=notify,
        files=files.patterns if files is not None else None,
        model=made.model,
        spawns=made.spawns,
        budget=budget.bounds,
        isolation=isolation.kind,
        target=isolation.target,
    )


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """What a child starts from: its first conversation, or its stored one."""

    prompt: Prompt
    account: ChildAccount
    last: Sent | None = None
    """The last request of its lineage; None for the parent's, if it is a fork."""
    base: Node | None = None
    """The fork base, as long as it is part of the conversation."""
    beside: Mapping[str, object] = msgspec.field(default_factory=dict[str, object])
    """What it has of its own in its context, by field."""
    run: RunStatus = msgspec.field(default_factory=RunStatus)
    text: str = ""
    """The last that it said."""
    tool_uses: int = 0
    member: MemberKept | None = None
    """What is kept of it as a member of a team, if something is."""


def fork_start(spec: ChildSpec, fan: FanOut) -> Start:
    """Start a fork from the base that it shares with its siblings."""
    return Start(prompt=fan.base, account=fork_account(spec, fan), base=fan.base.tip)


def typed_start(parent: Agent, spec: ChildSpec, made: TypedParts) -> Start:
    """Start a typed child from its head alone: nothing of the parent's conversation is in it."""
    rule = cache_rule(made.head, made.provider.trait, parent.client.settings.ttl)
    return Start(prompt=Prompt(made.head), account=typed_account(spec, rule))


def make_fork(
    parent: Agent,
    spec: ChildSpec,
    start: Start,
    budget: Budget,
    services: Services,
    agents: Delegation,
) -> Child:
    """Make a fork."""
    own = {
        "lineage": _lineage(spec),
        "policy": parent.policy.narrow(mode="bubble"),
        "hooks": _cloned(parent.hooks),
        "run": _run_state(parent, FORK_TURNS),
    }
    said = {"last": start.last or parent.conversation.last, "base": start.base}
    given = ChildFields(agent=own, conversation=said, client={}, budget=budget, context={})
    return _make(parent, spec, start, services, agents, given)


def _lineage(spec: ChildSpec) -> Lineage:
    base = spec.base if spec.kind == "fork" else ""
    name = spec.member.name if spec.member else ""
    return Lineage(spec.kind, spec.parent, depth_of(spec.path), base, name, spec.type)


def _run_state(parent: Agent, turns: int) -> RunState:
    limits = TurnLimits(max_turns=turns)
    return RunState(limits=limits, prompt_id=parent.run.prompt_id)


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
    made: TypedParts,
) -> Child:
    """Make a typed child."""
    kind = made.kind
    policy = parent.policy.narrow(mode=own_mode(kind), rules=_forbidding(kind), edits=made.edits)
    if services.claims is not None and not spec.isolation:
        policy = FileBox(policy, services.claims, spec.task_id, declared(spec))
    own = {
        "lineage": _lineage(spec),
        "kit": made.kit,
        "policy": policy,
        "hooks": made.hooks,
        "run": _run_state(parent, kind.max_turns or TYPED_TURNS),
    }
    given = ChildFields(
        agent=own,
        conversation={"last": start.last or Sent()},
        client={"provider": made.provider, "settings": made.settings},
        budget=budget,
        context={"images": made.images, "reads": parent.context.reads.hand_on()},
    )
    return _make(parent, spec, start, services, agents, given)


def _make(
    parent: Agent,
    spec: ChildSpec,
    start: Start,
    services: Services,
    agents: Delegation,
    given: ChildFields,
) -> Child:
    """Make a child by the tables of isolation; `given` is what its kind adds."""
    told = Emitter(spec.path, services.emit, text=start.text, tool_uses=start.tool_uses)
    agent = make_agent(
        parent,
        spec.kind,
        agent={"path": spec.path, "emit": told.emit, **given["agent"]},
        conversation={
            "path": spec.path,
            "prompt": start.prompt,
            "emit": told.emit,
            **given["conversation"],
        },
        client={"observer": start.account, **given["client"]},
        budget=given["budget"],
        context={
            "emit": told.emit,
            "ask": nobody,
            "tasks": TaskSet(services.board, spec.path, told.emit),
            "agents": agents,
            "team": services.teams.port(spec.path) if spec.member and services.teams else None,
            **given["context"],
            **start.beside,
        },
    )
    record = None
    if spec.member is not None:
        kept = start.member or MemberKept(planning=spec.member.plan)
        record = MemberRecord(agent.conversation, kept)
    return Child(spec, agent, start.account, told, start.run, member=record)


def own_mode(kind: AgentType) -> Mode:
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
