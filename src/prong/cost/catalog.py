"""What is publicly known of models: list prices and windows, by exact name.

Two sources. A dated table answers without loading anything, and knows a few models that the library
does not; the genai-prices library knows the rest. A library newer than the one that the table was
compared with is asked first.

Nothing is found by likeness: a name is known, or it is a known name with a date or `-latest` behind
it or its vendor in front. A cloud has its own prices, and a region may cost a tenth more.
The price of a neighbour would be worse than none, because a budget would be kept by it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from genai_prices.types import ModelPrice

COMPARED_WITH = (0, 2, 1)
"""The version of genai-prices that the table agrees with."""
DATED = "Prong's table of 2026-11-15"


class Grade(msgspec.Struct, frozen=True, kw_only=True):
    """Dollars per million tokens, for requests of more than so many input tokens."""

    above: int = 0
    input: float
    output: float
    read: float | None = None
    write: float | None = None
    write_1h: float | None = None
    """None follows the vendors' common rule: twice the input."""


class ModelListing(msgspec.Struct, frozen=True, kw_only=True):
    """What a source says of a model."""

    source: str
    context: int | None = None
    """Tokens the model can read at most."""
    grades: tuple[Grade, ...] = ()
    """The smallest requests first; none if the price is unknown."""

    def grade(self, tokens: int) -> Grade | None:
        """Give the prices of a request with so many input tokens."""
        fitting = (grade for grade in reversed(self.grades) if tokens > grade.above)
        return next(fitting, self.grades[0] if self.grades else None)


class _Long(msgspec.Struct, frozen=True):
    """How a price rises for long requests."""

    above: int
    input: float
    output: float


_MILLION = 1_000_000
_SHORT = 200_000
_FIVE = _Long(100_000, 5, 5)
_DOUBLE = _Long(272_000, 2, 1.5)
_DOUBLE_200K = _Long(200_000, 2, 1.5)

_TABLE: dict[str, tuple[int, float, float, float, float | None, _Long | None]] = {
    # name: window, input, output, read, write, long requests
    "claude-fable-5": (_MILLION, 10, 50, 1.0, 12.5, None),
    "claude-fable-5-1": (_MILLION, 10, 50, 0.25, 12.5, None),
    "claude-fable-5-2": (_MILLION, 8, 40, 0.20, 10, None),
    "claude-mythos-5": (_MILLION, 10, 50, 1.0, 12.5, None),
    "claude-mythos-5-1": (_MILLION, 10, 50, 0.25, 12.5, None),
    "claude-opus-4-5": (_SHORT, 5, 25, 0.50, 6.25, None),
    "claude-opus-4-6": (_MILLION, 5, 25, 0.50, 6.25, None),
    "claude-opus-4-7": (_MILLION, 5, 25, 0.50, 6.25, None),
    "claude-opus-4-8": (_MILLION, 5, 25, 0.50, 6.25, None),
    "claude-opus-5": (_MILLION, 5, 25, 0.50, 6.25, None),
    "claude-opus-5-5": (_MILLION, 4, 20, 0.20, 5, None),
    "claude-sonnet-4-5": (_SHORT, 3, 15, 0.30, 3.75, _DOUBLE_200K),
    "claude-sonnet-4-6": (_MILLION, 3, 15, 0.30, 3.75, None),
    "claude-sonnet-5": (_MILLION, 2, 10, 0.20, 2.5, None),
    "claude-sonnet-5-5": (_MILLION, 2, 10, 0.10, 2.5, None),
    "claude-haiku-4-5": (_SHORT, 1, 5, 0.10, 1.25, None),
    "claude-haiku-5-5": (_MILLION, 0.10, 0.50, 0.01, 0.125, _FIVE),
    "gpt-6-astra": (1_050_000, 10, 50, 1.0, 12.5, _DOUBLE),
    "gpt-6.1-sol": (1_050_000, 2, 10, 0.10, 2.5, _DOUBLE),
    "gpt-6.1-terra": (1_050_000, 1, 5, 0.05, 1.25, _DOUBLE),
    "gpt-6-sol": (1_050_000, 2, 10, 0.20, 2.5, _DOUBLE),
    "gpt-6-luna": (1_050_000, 0.10, 0.50, 0.01, 0.125, _DOUBLE),
    "gpt-5.6": (1_050_000, 4, 20, 0.40, 5, _DOUBLE),
    "gpt-5.6-sol": (1_050_000, 4, 20, 0.40, 5, _DOUBLE),
    "gpt-5.6-terra": (1_050_000, 2, 12, 0.20, 2.5, _DOUBLE),
    "gpt-5.6-luna": (1_050_000, 0.20, 1.20, 0.02, 0.25, _DOUBLE),
    "gpt-5.5": (_MILLION, 5, 30, 0.50, None, _DOUBLE),
    "gpt-5.4": (1_050_000, 2.5, 15, 0.25, None, _DOUBLE),
    "gpt-5.4-mini": (400_000, 0.75, 4.5, 0.075, None, None),
    "gpt-5.4-nano": (400_000, 0.2, 1.25, 0.02, None, None),
    "gpt-5.2": (400_000, 1.75, 14, 0.175, None, None),
    "gpt-5.1": (400_000, 1.25, 10, 0.125, None, None),
    "gpt-5": (400_000, 1.25, 10, 0.125, None, None),
    "gpt-4.1": (_MILLION, 2, 8, 0.50, None, None),
}
_VENDORS = ("anthropic/", "openai/")
_CLOUDS = {"bedrock": "aws", "vertex": "google"}
"""By the prefix of a model: who sells it, as the library calls them."""
_SNAPSHOT = re.compile(r"[-@](?:latest|[0-9]{8}|[0-9]{4}-[0-9]{2}-[0-9]{2})$")
_VERSION = (
    # What may follow the beginning of a name that the library matches by its beginning.
    r"(?>[-@.:]?(?>latest|default|v[0-9]+|[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{8}|"
    r"[0-9]{2}-[0-9]{2,4}|[0-9]{3,4}|0|preview|exp))*+"
)


def names() -> tuple[str, ...]:
    """Give the models of the table."""
    return tuple(_TABLE)


def listed(model: str) -> ModelListing | None:
    """Look a model up by its exact name; None if nobody knows it."""
    name = model.lower()
    if _is_newer():
        return _from_library(name) or _from_table(name)
    return _from_table(name) or _from_library(name)


def _from_table(name: str) -> ModelListing | None:
    for vendor in _VENDORS:
        name = name.removeprefix(vendor)
    row = _TABLE.get(name) or _TABLE.get(_SNAPSHOT.sub("", name))
    if row is None:
        return None
    context, base, output, read, write, long = row
    short = Grade(input=base, output=output, read=read, write=write)
    grades = (short,) if long is None else (short, _risen(short, long))
    return ModelListing(source=DATED, context=context, grades=grades)


def _risen(grade: Grade, long: _Long) -> Grade:
    def times(price: float | None) -> float | None:
        return None if price is None else price * long.input

    return Grade(
        above=long.above,
        input=grade.input * long.input,
        output=grade.output * long.output,
        read=times(grade.read),
        write=times(grade.write),
    )


@cache
def _is_newer() -> bool:
    """Whether the library is newer than the table."""
    return library_version() > COMPARED_WITH


def library_version() -> tuple[int, ...]:
    """Give the version of the library; empty if nobody knows.

    It stands in the name of the folder beside it. `importlib.metadata` would say the same, and
    to load that takes a thirtieth of all the time until the first request.
    """
    from importlib.util import find_spec

    found = find_spec("genai_prices")
    if found is None or found.origin is None:
        return ()
    beside = Path(found.origin).parent.parent.glob("genai_prices-*.dist-info")
    numbers = (re.findall(r"[0-9]+", folder.name)[:3] for folder in beside)
    return max((tuple(map(int, version)) for version in numbers), default=())


def _from_library(name: str) -> ModelListing | None:
    import genai_prices

    cloud, _, rest = name.partition(":")
    seller = _CLOUDS.get(cloud)
    for ref, vendor in _references(name) if seller is None else ((rest, seller),):
        try:
            found = genai_prices.calc_price(genai_prices.Usage(), model_ref=ref, provider_id=seller)
        except LookupError:
            continue
        if vendor in {"", found.provider.id} and _is_named(found.model, ref):
            return ModelListing(
                source=f"genai-prices {genai_prices.__version__}",
                context=found.model.context_window,
                grades=tuple(_grades(found.model_price)),
            )
    return None


def _references(name: str) -> Iterator[tuple[str, str]]:
    """Give the ways to ask for a name, with the vendor that must answer, if it is in the name."""
    yield name, ""
    yield _SNAPSHOT.sub("", name), ""
    vendor, slash, rest = name.rpartition("/")
    if slash:
        yield rest, vendor
        yield _SNAPSHOT.sub("", rest), vendor


def _is_named(model: Any, name: str) -> bool:
    """Whether the library means this very name, and not one that looks like it."""
    return name == model.id.lower() or _spells(model.match, name)


def _spells(clause: Any, name: str) -> bool:
    from genai_prices import types

    match clause:
        case types.ClauseEquals(equals=whole) | types.ClauseEndsWith(ends_with=whole):
            return name == whole.lower()
        case types.ClauseRegex():
            return re.fullmatch(clause.regex, name) is not None
        case types.ClauseStartsWith(starts_with=start) | types.ClauseContains(contains=start):
            # A part of a name may be any name's: only as its beginning is it this one's.
            rest = name.removeprefix(start.lower())
            return rest != name and re.fullmatch(_VERSION, rest) is not None
        case types.ClauseOr():
            return any(_spells(part, name) for part in clause.or_)
        case types.ClauseAnd():
            # One says the name, the others what it must not be.
            met = all(part.is_match(name) for part in clause.and_)
            return met and any(_spells(part, name) for part in clause.and_)
        case _:
            return False


def _grades(prices: ModelPrice) -> Iterator[Grade]:
    """Read a price of the library; one that is not by the token, or by more than that, is none."""
    keys = ("input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok")
    figures = [getattr(prices, key) for key in (*keys, "cache_write_1h_mtok")]
    if figures[0] is None or figures[1] is None or prices.requests_kcount is not None:
        return
    steps = {0} | {tier.start for figure in figures for tier in getattr(figure, "tiers", ())}
    for above in sorted(steps):
        base, output, read, write, hour = (_figure(figure, above) for figure in figures)
        assert base is not None
        assert output is not None
        yield Grade(above=above, input=base, output=output, read=read, write=write, write_1h=hour)


def _figure(price: Any, above: int) -> float | None:
    """Give a price for requests that are just longer than that."""
    if price is None:
        return None
    for tier in reversed(getattr(price, "tiers", ())):
        if tier.start <= above and above:
            return float(tier.price)
    return float(getattr(price, "base", price))
