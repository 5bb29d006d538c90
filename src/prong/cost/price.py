"""What tokens cost.

Two sources, in this order: the user's own file, and the catalogue of list prices. A model that
neither knows has no price: `None`, never zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from prong.cost.catalog import listed
from prong.entry import Usage
from prong.errors import ConfigError
from prong.foreign_json import NOT_JSON
from prong.provider import is_local

_PER = 1_000_000
_SEARCH = 10_000
"""Dollars per million searches, at both vendors that make them; as of 2026-11."""


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
            + usage.searches * _SEARCH
        ) / _PER

    def uncached(self, usage: Usage) -> float:
        """Price the same tokens as if there were no cache."""
        tokens = usage.input * self.input + usage.output * self.output
        return (tokens + usage.searches * _SEARCH) / _PER


def price(
    *,
    input: float,  # noqa: A002 - the word every price list uses
    output: float,
    read: float | None = None,
    write: float | None = None,
    write_1h: float | None = None,
    source: str = "",
) -> Price:
    """Make a price from the figures of a price list.

    A missing read price is the input price; `write` is the five-minute price; a missing one-hour
    price follows the vendors' common rule of twice the input; no write price means writes cost as
    input.
    """
    short = input if write is None else write
    hour = input if write is None else input * 2
    return Price(
        input=input,
        output=output,
        read=input if read is None else read,
        write_5m=short,
        write_1h=hour if write_1h is None else write_1h,
        write_30m=short,
        write_12h=short,
        source=source,
    )


_LOCAL = price(input=0, output=0, source="computed on this machine")


class Prices:
    """Looks prices up, the user's own figures first."""

    def __init__(self, own: Mapping[str, Price] | None = None) -> None:
        """Take the user's own figures, by model name."""
        self.own = dict(own or {})

    def of(self, model: str, usage: Usage | None = None) -> Price | None:
        """Give the price of a model for a request of that size; None if nobody knows it.

        Without a size it is the price of short requests.
        """
        if model in self.own:
            return self.own[model]
        if is_local(model):
            return _LOCAL
        known = listed(model)
        grade = known.grade(usage.input if usage else 0) if known else None
        if known is None or grade is None:
            return None
        return price(
            input=grade.input,
            output=grade.output,
            read=grade.read,
            write=grade.write,
            write_1h=grade.write_1h,
            source=known.source,
        )

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
    except (*NOT_JSON, TypeError) as error:
        why = f"prices are given as {{'MODEL': {{'input': 2, 'output': 10, 'read': 0.2}}}}: {error}"
        raise ConfigError(path, why) from error


def _figures(row: Mapping[str, float | str]) -> dict[str, Any]:
    return {key: float(value) for key, value in row.items() if key != "date"}
