"""Says all of a run that another process needs to know, as one value."""

from __future__ import annotations

import time

import msgspec

from prong.agent import Agent
from prong.errors import NotPossibleNow
from prong.host.workplace import Workplace, workplace_of
from prong.ids import task_of
from prong.prompt import Node, Prompt
from prong.provider import Api, Http, SharedHttp
from prong.team.message import RunKeys
from prong.team.run import (
    HERE,
    Beside,
    LastSent,
    ModelAccess,
    RunSpec,
    Spending,
    ToolRow,
    Waiting,
)
from prong.team.task import file_name
from prong.tools.tool import Together, Tool

_NETWORK = frozenset({"http_proxy", "https_proxy", "all_proxy", "no_proxy", "ssl_cert_file"})

_REMEDY = "set agents.backend to inline, or choose what a process of its own can have"


def describe(agent: Agent, waiting: tuple[Waiting, ...]) -> RunSpec:
    """Describe the run of an agent from where it stands.

    Raises UsageError if something of it cannot be had in another process.
    """
    conversation = agent.conversation
    prompt, last, base = conversation.prompt, conversation.last, conversation.base
    return RunSpec(
        path=agent.path,
        lineage=agent.lineage,
        task_id=task_of(agent.path),
        digest=prompt.digest,
        base=base.depth if base is not None else None,
        last=LastSent(
            depth=_depth(prompt, last.node),
            usage=last.usage,
            length=last.length,
            response_id=last.response_id,
            at=last.at,
        ),
        model=_model(agent),
        place=_place(agent),
        beside=_beside(agent),
        tools=tuple(_row(tool) for tool in agent.kit),
        policy=agent.policy.policy,
        spending=_spending(agent),
        ahead=agent.client.clock() - time.time(),
        inbox=waiting,
    )


def run_keys(agent: Agent) -> RunKeys:
    """Give what a worker must know and nobody may see."""
    api = _api(agent)
    env = {name: value for name, value in _http(api).env.items() if name.lower() in _NETWORK}
    return RunKeys(headers=api.endpoint.headers, env=env, secrets=agent.conversation.secrets.values)


def _depth(prompt: Prompt, node: Node | None) -> int:
    found = node is not None and prompt.extends(Prompt(prompt.head, node))
    return node.depth if node is not None and found else -1


def _api(agent: Agent) -> Api:
    provider = agent.client.provider
    if type(provider) is not Api:
        raise NotPossibleNow(
            f"the model {agent.conversation.prompt.head.model} is reached through what this "
            f"process alone has (an engine, or the slots of a server of one's own); {_REMEDY}"
        )
    return provider


def _http(api: Api) -> Http | SharedHttp:
    if not isinstance(api.transport, Http | SharedHttp):
        raise NotPossibleNow(
            f"the model is reached by a client that this process alone has; {_REMEDY}"
        )
    return api.transport


def _model(agent: Agent) -> ModelAccess:
    api = _api(agent)
    return ModelAccess(
        endpoint=msgspec.structs.replace(api.endpoint, headers=()),
        patience=api.patience,
        limits=_http(api).limits,
        settings=agent.client.settings,
    )


def _place(agent: Agent) -> Workplace:
    place = workplace_of(agent.context.host)
    if place is None:
        raise NotPossibleNow(f"the files are not those of this machine; {_REMEDY}")
    return place


def _beside(agent: Agent) -> Beside:
    context = agent.context
    return Beside(
        cwd=context.cwd,
        todos=context.todos,
        reads=dict(context.reads.hashes),
        unseen=tuple(sorted(context.reads.unseen)),
        env=dict(context.env),
        images=context.images,
        storage=context.host.storage.path,
        scratch=f"{context.host.storage.path}/workers/{file_name(task_of(agent.path))}",
    )


def _row(tool: Tool) -> ToolRow:
    return ToolRow(
        name=tool.name,
        effect=tool.effect,
        budget=tool.budget,
        here=tool.name in HERE,
        together=isinstance(tool, Together),
    )


def _spending(agent: Agent) -> Spending:
    billing = agent.client.billing
    budget = billing.budget
    # What others spend of the same budgets is looked at here, before every request.
    bounds = msgspec.structs.replace(budget.bounds, seconds=budget.left().seconds)
    return Spending(
        name=budget.name,
        bounds=bounds,
        tokens=budget.tokens,
        usd=budget.usd,
        turns=budget.turns,
        max_turns=agent.run.limits.max_turns,
        prices=billing.prices.own,
    )
