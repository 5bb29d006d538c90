"""What tokens cost.

Three sources, in this order: the user's own file, a dated table that ships with the program, and
the genai-prices library, which is loaded only when the first two do not know the model. A model
that none of them knows has no price: `None`, never zero.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from prong.entry import Usage
from prong.errors import ConfigError
from prong.provider.pick import is_local

_PER = 1_000_000


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """Dollars per million tokens."""

    input: float
    output: float
    read: float
    write_5m: float
    write_1h: float
    write_30m: float
    write_12h: float
    source: str = ""
    """Where the figures come from, with their date."""

    def cost(self, usage: Usage) -> float:
        """Price the tokens of a request."""
        return (
            usage.uncached * self.input
            + usage.read * self.read
            + usage.written_5m * self.write_5m
            + usage.written_1h * self.write_1h
            + usage.written_30m * self.write_30m
            + usage.written_12h * self.write_12h
            + usage.output * self.output
        ) / _PER

    def uncached(self, usage: Usage) -> float:
        """Price the same tokens as if there were no cache."""
        return (usage.input * self.input + usage.output * self.output) / _PER


def price(
    *,
    input: float,  # noqa: A002 - the word every price list uses
    output: float,
    read: float | None = None,
    write: float | None = None,
    source: str = "",
) -> Price:
    """Make a price from the figures of a price list.

    A missing read price is the input price; `write` is the five-minute price and the one-hour price
    follows the vendors' common rule of twice the input; no write price means writes cost as input.
    """
    short = input if write is None else write
    return Price(
        input=input,
        output=output,
        read=input if read is None else read,
        write_5m=short,
        write_1h=input if write is None else input * 2,
        write_30m=short,
        write_12h=short,
        source=source,
    )


DATED = "Prong's table of 2026-11-15"

_TABLE: tuple[tuple[str, float, float, float, float | None], ...] = (
    # pattern, input, output, read, write
    (r"claude-fable-5-2", 8, 40, 0.20, 10),
    (r"claude-(fable|mythos)-5-1", 10, 50, 0.25, 12.5),
    (r"claude-(fable|mythos)-5$", 10, 50, 1.0, 12.5),
    (r"claude-opus-5-5", 4, 20, 0.20, 5),
    (r"claude-opus-(5|4-[5-8])", 5, 25, 0.50, 6.25),
    (r"claude-sonnet-5-5", 2, 10, 0.10, 2.5),
    (r"claude-sonnet-5", 2, 10, 0.20, 2.5),
    (r"claude-sonnet-4-[56]", 3, 15, 0.30, 3.75),
    (r"claude-haiku-4-5", 1, 5, 0.10, 1.25),
    (r"gpt-6-astra", 10, 50, 1.0, 12.5),
    (r"gpt-6\.1-sol", 2, 10, 0.10, 2.5),
    (r"gpt-6-sol", 2, 10, 0.20, 2.5),
    (r"gpt-6-luna", 0.10, 0.50, 0.01, 0.125),
    (r"gpt-5\.6-terra", 2, 12, 0.20, 2.5),
    (r"gpt-5\.6-luna", 0.20, 1.20, 0.02, 0.25),
    (r"gpt-5\.6", 4, 20, 0.40, 5),
    (r"gpt-5\.5", 5, 30, 0.50, None),
    (r"gpt-5\.4-mini", 0.75, 4.5, 0.075, None),
    (r"gpt-5\.4-nano", 0.2, 1.25, 0.02, None),
    (r"gpt-5\.4", 2.5, 15, 0.25, None),
    (r"gpt-5\.2", 1.75, 14, 0.175, None),
    (r"gpt-5(\.1)?$", 1.25, 10, 0.125, None),
    (r"gpt-4\.1$", 2, 8, 0.50, None),
    (r"gpt-4o$", 2.5, 10, 1.25, None),
)
_HAIKU = ("claude-haiku-5-5", 100_000)
_HAIKU_SHORT = price(input=0.10, output=0.50, read=0.01, write=0.125, source=DATED)
_HAIKU_LONG = price(input=0.50, output=2.50, read=0.05, write=0.625, source=DATED)


class Prices:
    """Looks prices up, the user's own figures first."""

    def __init__(self, own: Mapping[str, Price] | None = None) -> None:
        """Take the user's own figures, by model name."""
        self._own = dict(own or {})
        self._found: dict[str, Price | None] = {}

    def of(self, model: str, usage: Usage | None = None) -> Price | None:
        """Give the price of a model for a request of that size; None if nobody knows it."""
        if model in self._own:
            return self._own[model]
        if _HAIKU[0] in model:
            return _HAIKU_LONG if usage and usage.input > _HAIKU[1] else _HAIKU_SHORT
        if model not in self._found:
            self._found[model] = _dated(model) or _library(model)
        return self._found[model]

    def cost(self, model: str, usage: Usage) -> float | None:
        """Price a request in dollars; None if nobody knows the model's price."""
        known = self.of(model, usage)
        return None if known is None else known.cost(usage)


def read_prices(path: str, data: bytes) -> dict[str, Price]:
    """Read the user's own price file: `{"MODEL": {"input": 2, "output": 10, "read": 0.2}}`.

    Raises ConfigError if it is not of that form.
    """
    try:
        table = msgspec.json.decode(data, type=dict[str, dict[str, float | str]])
        source = f"{path}"
        return {model: price(**_figures(row), source=source) for model, row in table.items()}
    except (msgspec.MsgspecError, TypeError) as error:
        why = f"prices are given as {{'MODEL': {{'input': 2, 'output': 10, 'read': 0.2}}}}: {error}"
        raise ConfigError(path, why) from error


def _figures(row: Mapping[str, float | str]) -> dict[str, Any]:
    return {key: float(value) for key, value in row.items() if key != "date"}


def _dated(model: str) -> Price | None:
    if is_local(model):
        return price(input=0, output=0, source="computed on this machine")
    for pattern, base, output, read, write in _TABLE:
        if re.search(pattern, model):
            return price(input=base, output=output, read=read, write=write, source=DATED)
    return None


def _library(model: str) -> Price | None:
    sample = 1_000  # small enough to stay in the first tier of a graded price

    try:
        import genai_prices
        from genai_prices import Usage as Tokens

        def dollars(tokens: Tokens) -> float:
            found = genai_prices.calc_price(tokens, model_ref=model)
            return float(found.total_price) * (_PER / sample)

        return price(
            input=dollars(Tokens(input_tokens=sample)),
            output=dollars(Tokens(output_tokens=sample)),
            read=dollars(Tokens(input_tokens=sample, cache_read_tokens=sample)),
            write=dollars(Tokens(input_tokens=sample, cache_write_tokens=sample)) or None,
            source=f"genai-prices {genai_prices.__version__}",
        )
    except LookupError:
        return None
