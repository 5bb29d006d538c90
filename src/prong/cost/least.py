"""The least that requests could have cost: each distinct block written once, read in all others.

A block is an entry of a prompt in its place, which is a node of the rope, or a head. Tokens are
known for whole prompts only, from the provider's own count; between two counted prompts of a chain
they are shared out by bytes. A block that is sent only once need not be written at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from prong.cost.ledger import Charge
from prong.cost.price import Prices
from prong.cost.schedule import Rates, rates
from prong.entry import Usage
from prong.prompt import Prompt
from prong.wire import Ttl

_PER = 1_000_000


def least_possible(requests: Sequence[tuple[Prompt, Charge]], rates: Rates) -> float:
    """Give what the input of the requests could have cost, in input-token equivalents."""
    return sum(least_each(requests, [rates] * len(requests)))


def least_each(requests: Sequence[tuple[Prompt, Charge]], rates: Sequence[Rates]) -> list[float]:
    """Give the same for each request; the first that sends a block pays for its writing."""
    chains = [_links(prompt) for prompt, _ in requests]
    counted = {
        chain[-1][0]: row.usage.input for chain, (_, row) in zip(chains, requests, strict=True)
    }
    uses = Counter(digest for chain in chains for digest, _ in chain)
    written: set[bytes] = set()
    found: list[float] = []
    for chain, (_, row), rate in zip(chains, requests, rates, strict=True):
        cost = 0.0
        tokens = _tokens(chain, counted, row.usage.input)
        for (digest, _), count in zip(chain, tokens, strict=True):
            cost += count * _rate(uses[digest], rate, first=digest not in written)
            written.add(digest)
        found.append(cost)
    return found


def least_costs(requests: Sequence[tuple[Prompt, Charge]], prices: Prices) -> list[float | None]:
    """Give what each request could have cost in dollars, its output included."""
    ttls = _ttls(row for _, row in requests)
    known = [prices.of(row.model, row.usage) for _, row in requests]
    ratios = [
        rates(price, ttls[row.model]) for price, (_, row) in zip(known, requests, strict=True)
    ]
    return [
        None if price is None else (least * price.input + row.usage.output * price.output) / _PER
        for least, price, (_, row) in zip(
            least_each(requests, ratios), known, requests, strict=True
        )
    ]


def _ttls(rows: Iterable[Charge]) -> Mapping[str, Ttl]:
    summed: dict[str, Usage] = {}
    for row in rows:
        summed[row.model] = summed.get(row.model, Usage()) + row.usage
    return {model: "1h" if u.written_1h > u.written_5m else "5m" for model, u in summed.items()}


def _rate(uses: int, rates: Rates, *, first: bool) -> float:
    if rates.write + (uses - 1) * rates.read >= uses:
        return 1.0
    return rates.write if first else rates.read


def _links(prompt: Prompt) -> list[tuple[bytes, int]]:
    head = (prompt.head.digest, len(prompt.head.data))
    return [head, *((node.digest, len(node.delta)) for node in prompt.nodes())]


def _tokens(
    chain: Sequence[tuple[bytes, int]], counted: Mapping[bytes, int], total: int
) -> list[float]:
    """Share a request's tokens out over its links, from one counted prompt to the next."""
    found: list[float] = []
    before, pending = 0, list[int]()
    for index, (digest, size) in enumerate(chain):
        pending.append(size)
        count = total if index == len(chain) - 1 else counted.get(digest)
        # A model that drops thinking may count less for a longer prompt; such counts are no use.
        if count is None or not before <= count <= total:
            continue
        found += _spread(pending, count - before)
        before, pending = count, []
    return found


def _spread(sizes: Sequence[int], tokens: int) -> list[float]:
    whole = sum(sizes)
    return [tokens * size / whole if whole else 0.0 for size in sizes]
