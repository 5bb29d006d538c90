"""What it costs to go on otherwise than before, said while one can still leave it.

Of an open session it is known from its agent; of a stored one that is to be resumed with another
model, from its journal, which is read without opening anything.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from prong.agent import Agent, Sent, recalled
from prong.agent.conversation import next_tokens
from prong.config.model import Chosen, choose
from prong.config.option import Options
from prong.config.place import Place, look_around
from prong.cost import Prices
from prong.cost.fact import LONG_BETA
from prong.cost.loss import Loss, Move, Standing, foresee
from prong.cost.mark import ttl_of
from prong.errors import ProngError
from prong.event import MAIN
from prong.journal import store
from prong.journal.replay import read_journal
from prong.prompt import Head, Prompt
from prong.session.preference import make_prices
from prong.wire import Ttl

_CONFIRM = 0.05


class ResumingCost(msgspec.Struct, frozen=True):
    """What it costs to go on with a stored session as it was asked for."""

    loss: Loss
    before: str
    """The model that it had."""
    asks: bool
    """Whether that is so much that the user should be asked."""


def moving_cost(agent: Agent, move: Move, model: str = "") -> Loss | None:
    """Say what a move of an agent would cost more than going on; None if it gives up no cache.

    `model` is the full name of the one that is to answer from then on, if it is another.
    """
    now, prices = standing_of(agent), agent.client.billing.prices
    return None if now is None else foresee(move, now, prices.of(model) if model else None)


def switching_cost(place: Place, agent: Agent, named: str) -> Loss | None:
    """Say what it costs to let a model go on, by whatever name; None if it gives up no cache.

    That there is no such model is left for the change itself to say.
    """
    try:
        chosen = choose(place, named)
    except ProngError:
        return None
    if not other_model(agent.conversation.prompt.head, chosen):
        return None
    return moving_cost(agent, "model", chosen.model)


def standing_of(agent: Agent) -> Standing | None:
    """Say what of an agent's conversation is cached; None if nothing of it was ever sent."""
    client, said = agent.client, agent.conversation
    prices = client.billing.prices
    return _standing(said.prompt, said.last, prices, client.settings.ttl, client.clock)


def confirm_above(place: Place) -> float:
    """Give the dollars above which a face should ask before the cache is given up."""
    wanted = place.settings.values.confirm_above_usd
    return _CONFIRM if wanted is None else wanted


def other_model(head: Head, chosen: Chosen) -> bool:
    """Whether a conversation needs a new head to be answered by a model."""
    here = (head.model, head.dialect.name, LONG_BETA in head.spec.betas)
    return here != (chosen.model, chosen.endpoint.dialect, LONG_BETA in chosen.betas)


def resuming_cost(
    options: Options, *, clock: Callable[[], float] = time.time
) -> ResumingCost | None:
    """Say what it costs to resume a session with another model; None if it gives up no cache.

    Whatever is wrong with the options or the session is left for its opening to say.
    """
    if options.resume is None and not options.continue_last:
        return None
    if not (options.model or options.api or options.base_url):
        # It goes on with what it had.
        return None
    try:
        return _resuming_cost(look_around(options), clock)
    except ProngError:
        return None


def _resuming_cost(place: Place, clock: Callable[[], float]) -> ResumingCost | None:
    options = place.options
    found = (
        store.latest(place.cwd, place.store)
        if options.resume is None
        else store.find(options.resume, place.cwd, place.store)
    )
    replay = read_journal(found.path)
    prompt = replay.agents.get(MAIN)
    chosen = choose(place, options.model, replay.noted(MAIN).model)
    if prompt is None or not other_model(prompt.head, chosen):
        return None
    prices, ttl = make_prices(place), options.cache_ttl or place.settings.values.cache_ttl
    now = _standing(prompt, recalled(replay, MAIN, prompt), prices, ttl, clock)
    if now is None:
        return None
    loss = foresee("model", now, prices.of(chosen.model))
    asks = loss.extra is not None and loss.extra > confirm_above(place)
    return ResumingCost(loss, prompt.head.model, asks)


def _standing(
    prompt: Prompt, last: Sent, prices: Prices, ttl: Ttl | None, clock: Callable[[], float]
) -> Standing | None:
    """Say what of a conversation is cached; None if nothing of it was ever sent."""
    if not prompt.depth or not last.at:
        return None
    head, tokens = prompt.head, next_tokens(prompt, last)
    return Standing(
        tokens=tokens,
        head=round(tokens * len(head.data) / max(1, len(prompt))),
        price=prices.of(head.model),
        idle=max(0.0, clock() - last.at),
        ttl=ttl_of(head, ttl),
    )
