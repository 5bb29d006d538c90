"""The main agent of a session: its conversation, what it may spend, what its tools work with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict, Unpack

from prong.agent import (
    Agent,
    Conversation,
    ModelClient,
    ModelSettings,
    RunState,
    Sent,
    recalled,
)
from prong.agent.client import COMPACT_AT
from prong.agent.lineage import Lineage
from prong.config.guard import Guard
from prong.config.model import render_head
from prong.cost import Billing, Ledger, Prices
from prong.cost.budget import Bounds, Budget
from prong.entry import Usage
from prong.errors import BadInput
from prong.event import MAIN, QuestionAsked
from prong.prompt import Prompt
from prong.question import Answer, Question
from prong.session.foundation import Foundation
from prong.session.planning import Planner, read_plan
from prong.session.preference import compact_share, make_limits, session_budget
from prong.team.taskset import TaskSet
from prong.tools.kit import Kit
from prong.tools.tool import Context, Delegation, Reads, Teamwork


class MainParts(TypedDict):
    """What the main agent is made of, besides what follows from the session's foundation."""

    lineage: Lineage
    prompt: Prompt
    kit: Kit
    hooks: Guard
    prices: Prices
    team: Teamwork | None


def make_planner(base: Foundation, *, words: str) -> Planner:
    """Make what keeps plan mode, in the mode that was asked for or that the session had.

    `words` is the text by which the model is told of it.
    """
    place, noted = base.place, base.noted
    planner = Planner(
        base.policy,
        root=place.root,
        recorder=base.journal,
        host=base.host,
        questions=base.questions,
        emit=base.emit,
        shells=lambda: [one.title for one in base.board.seen_by() if one.work.kind == "shell"],
        words=words,
    )
    planner.start(
        wanted=place.options.mode,
        recorded=noted.mode,
        kept=read_plan(noted.plan),
        otherwise=place.settings.permissions.mode,
    )
    return planner


def first_prompt(base: Foundation, kit: Kit) -> Prompt:
    """Give the conversation to go on with: the recorded one, or a new one with its head."""
    if base.replay is not None and MAIN in base.replay.agents:
        return base.replay.agents[MAIN]
    specs = kit.specs()
    head = render_head(base.place, base.chosen, specs, cache_key=base.journal.session)
    prompt = Prompt(head)
    base.journal.keep(MAIN, prompt)
    return prompt


def make_agent(base: Foundation, agents: Delegation, **parts: Unpack[MainParts]) -> Agent:
    """Make the main agent, with what the session has paid so far on its account.

    Raises UsageError if there is a budget, and no price to keep it by.
    """
    place, options, chosen = base.place, base.place.options, base.chosen
    bounds, prices = session_budget(place), parts["prices"]
    if bounds.usd is not None and prices.of(chosen.model, Usage()) is None:
        raise BadInput(
            f"the budget of ${bounds.usd:g} cannot be kept: the price of {chosen.model} is "
            f"unknown; add it to {place.store / 'prices.json'} or drop the budget"
        )
    prompt = parts["prompt"]
    return Agent(
        path=MAIN,
        lineage=parts["lineage"],
        conversation=Conversation(
            path=MAIN,
            prompt=prompt,
            recorder=base.journal,
            emit=base.emit,
            secrets=base.secrets,
            last=recalled(base.replay, MAIN, prompt) if base.replay else Sent(),
        ),
        client=ModelClient(
            provider=chosen.connect(base.providers),
            billing=_billing(base, bounds, prices),
            settings=ModelSettings(
                ttl=options.cache_ttl or place.settings.values.cache_ttl,
                context_tokens=options.context_tokens,
                max_output=options.max_output,
                compact_at=compact_share(place, COMPACT_AT),
                diagnose=chosen.diagnose,
            ),
            clock=base.clock,
        ),
        kit=parts["kit"],
        context=_context(base, agents, parts["team"]),
        policy=base.policy,
        hooks=parts["hooks"],
        questions=base.questions,
        emit=base.emit,
        run=RunState(limits=make_limits(place)),
    )


def _billing(base: Foundation, bounds: Bounds, prices: Prices) -> Billing:
    """Give what the session is billed to, with what it has paid so far."""
    billing = Billing(prices=prices, ledger=Ledger(), budget=Budget(bounds))
    for paid in base.replay.requests if base.replay else ():
        if not paid.inherited:
            billing.enter(paid.row)
    return billing


def _context(base: Foundation, agents: Delegation, team: Teamwork | None) -> Context:
    async def ask(questions: Sequence[Question]) -> str | None:
        asked = QuestionAsked(request_id=base.questions.number(), questions=tuple(questions))
        answer = await base.questions.ask(MAIN, asked, base.emit)
        return answer.text if isinstance(answer, Answer) and answer.allow else None

    return Context(
        host=base.host,
        reads=Reads(base.noted.reads),
        emit=base.emit,
        ask=ask,
        tasks=TaskSet(base.board, MAIN, base.emit),
        cwd=base.noted.cwd,
        todos=base.noted.todos,
        env=base.env,
        images=base.chosen.images,
        keeps_back=base.policy.keeps_back,
        agents=agents,
        team=team,
    )
