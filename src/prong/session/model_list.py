"""Models that a session could go on with: those that settings, price lists and the server name."""

from __future__ import annotations

from collections.abc import Iterable

from prong.agent.spec import INHERIT
from prong.config.alias import SHORT
from prong.config.alias_table import ALIASES
from prong.config.model import choose
from prong.config.place import Place
from prong.cost import catalog
from prong.cost.price import Prices
from prong.errors import ProngError
from prong.provider import Api, Provider


async def list_models(place: Place, provider: Provider, prices: Prices, now: str) -> list[str]:
    """List them, the one that answers now first; none without a key for it is among them.

    Only a server of the user's own is asked what it has: a vendor's are in the price list.
    """
    values, env = place.settings.values, {**place.env, **place.settings.values.env}
    own = place.options.base_url or values.base_url or env.get("PRONG_BASE_URL")
    served = await provider.models() if own and isinstance(provider, Api) else []
    named = (values.model, values.explore_model, values.agents.model, values.handback.model)
    known = (*(one for one in named if one and one != INHERIT), *values.model_aliases.values())
    vendors = (name for family in ALIASES.values() for name in family.values())
    listed = served or (*sorted(SHORT), *vendors, *catalog.names())
    return [now, *_usable(place, (*known, *prices.own, *listed), now)]


def _usable(place: Place, names: Iterable[str], now: str) -> list[str]:
    found: list[str] = []
    for name in dict.fromkeys(names):
        try:
            choose(place, name)
        except ProngError:
            continue
        found += [name] if name != now else []
    return found
