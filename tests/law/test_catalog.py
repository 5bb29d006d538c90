"""List prices and windows: by the exact name, and never a neighbour's."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator
from typing import Any

import genai_prices
import pytest
from genai_prices import data_snapshot
from genai_prices.types import ClauseEquals, ClauseOr, ClauseStartsWith
from hypothesis import given
from hypothesis import strategies as st

from prong.cost import Price, Prices, catalog, window
from prong.cost.catalog import ModelListing, listed
from prong.entry import Usage

pytestmark = pytest.mark.spec("K2")

OURS = {"claude-fable-5-2", "claude-mythos-5", "claude-mythos-5-1"}
"""Names of the table that the library does not know."""
SIZES = (1, 100_001, 150_000, 200_001, 272_001, 900_000)


def spelled(clause: Any) -> Iterator[str]:
    match clause:
        case ClauseEquals():
            yield clause.equals
        case ClauseStartsWith():
            yield clause.starts_with
        case ClauseOr():
            for part in clause.or_:
                yield from spelled(part)
        case _:
            pass


def names() -> Iterator[str]:
    """Give every name that the library spells out, for every vendor it finds by a model's name."""
    for provider in data_snapshot.get_snapshot().providers:
        if provider.model_match is not None:
            for model in provider.models:
                yield from {model.id, *spelled(model.match)}


NAMES = tuple(sorted(set(names())))
KNOWN = {name.lower() for name in NAMES}


def library_price(model: str, tokens: int) -> list[float] | None:
    """Ask the library itself: input, output, read and write, or none if not sold by the token."""

    def dollars(**usage: int) -> float:
        counted = genai_prices.Usage(input_tokens=tokens, **usage)
        found = genai_prices.calc_price(counted, model_ref=model.lower())
        return float(found.total_price) * 1_000_000

    try:
        found = genai_prices.calc_price(genai_prices.Usage(), model_ref=model.lower())
    except LookupError:
        # Only by its vendor in front; the same name without it is looked at as well.
        vendor, _, rest = model.rpartition("/")
        return library_price(rest, tokens) if vendor in {"anthropic", "openai"} else None
    if found.model_price.input_mtok is None or found.model_price.output_mtok is None:
        return None
    plain = dollars()
    return [
        plain / tokens,
        dollars(output_tokens=1) - plain,
        dollars(cache_read_tokens=tokens) / tokens,
        dollars(cache_write_tokens=tokens) / tokens,
    ]


def figures(price: Price) -> list[float]:
    return [price.input, price.output, price.read, price.write_5m]


@pytest.mark.parametrize("tokens", SIZES)
def test_the_library_agrees_on_every_model(tokens: int):
    """For every name the library spells out, and every size of a request, the price is its price.

    A model that it prices by the hour, by the page or not at all has no price here.
    """
    usage, wrong = Usage(uncached=tokens), list[str]()
    for name in NAMES:
        expected = library_price(name, tokens)
        price = Prices().of(name, usage)
        told = None if price is None else figures(price)
        if name not in OURS and told != (expected and pytest.approx(expected)):
            wrong.append(f"{name}: {told}, not {expected}")

    assert len(NAMES) > 700
    assert not wrong


def test_the_table_agrees_with_the_library():
    """What the table says is what the library says, windows and one-hour writes included."""
    for name in catalog._TABLE:
        ours, theirs = catalog._from_table(name), catalog._from_library(name)
        assert ours is not None
        if theirs is None:
            assert name in OURS
            continue
        assert ours.context == theirs.context
        assert [grade.above for grade in ours.grades] == [grade.above for grade in theirs.grades]
        for ours_at, theirs_at in zip(ours.grades, theirs.grades, strict=True):
            if theirs_at.write_1h is not None:
                assert theirs_at.write_1h == pytest.approx(ours_at.input * 2)


def test_a_newer_library_is_asked_first(monkeypatch: pytest.MonkeyPatch):
    """What the table says counts only until the library is newer; what it alone knows stays."""
    monkeypatch.setattr(catalog, "_is_newer", lambda: False)
    assert source("gpt-5.4") == catalog.DATED
    monkeypatch.setattr(catalog, "_is_newer", lambda: True)

    assert source("gpt-5.4").startswith("genai-prices")
    assert source("claude-mythos-5") == catalog.DATED


def source(model: str) -> str:
    found = listed(model)
    assert found is not None
    return found.source


@pytest.mark.parametrize(
    "model",
    [
        "gpt-5.4-cyber",
        "gpt-5.4-mini-pro",
        "gpt-5-nano-cyber",
        "gpt-5.9",
        "my-gpt-5.4",
        "claude-opus-4-5-cyber",
        "claude-opus-5-5-pro",
        "claude-sonnet-5-5x",
        "claude-2" + "0" * 400 + "x",
        "claude-2" + "-2025-01-01" * 200 + "x",
        "finetuned-claude-v2",
        "us.anthropic.claude-opus-4-5-20251101-v1:0",
        "somebody/gpt-5.4",
        "google/grok-4",
        "moderation",
        "whisper-1",
        "text-embedding-3-small",
        "gemma-3",
    ],
)
def test_a_name_that_looks_like_another_has_no_price(model: str):
    """Neither a longer name, nor another vendor's, nor a model that is not sold by the token."""
    assert Prices().of(model) is None
    assert Prices().cost(model, Usage(uncached=10)) is None


@pytest.mark.parametrize(
    ("model", "same"),
    [
        ("gpt-5.4-pro-2026-03-05", "gpt-5.4-pro"),
        ("gpt-5.4-pro-20260305", "gpt-5.4-pro"),
        ("gpt-5.4-pro-2027-01-31", "gpt-5.4-pro"),
        ("gpt-5.4-20270131", "gpt-5.4"),
        ("gpt-5.4-latest", "gpt-5.4"),
        ("openai/gpt-5.4", "gpt-5.4"),
        ("openai/gpt-5.4-pro-2026-03-05", "gpt-5.4-pro"),
        ("anthropic/claude-opus-5-5", "claude-opus-5-5"),
        ("claude-opus-5-5-20261001", "claude-opus-5-5"),
        ("claude-haiku-4-5@20251001", "claude-haiku-4-5"),
        ("Claude-Haiku-4-5", "claude-haiku-4-5"),
        ("google/gemini-2.5-pro", "gemini-2.5-pro"),
        ("x-ai/grok-4", "grok-4"),
    ],
)
def test_a_snapshot_and_a_vendor_in_front_are_the_same_model(model: str, same: str):
    """A date, `-latest` or the vendor's name changes neither price nor window."""
    assert Prices().of(model) is not None
    assert Prices().of(model) == Prices().of(same)
    assert window(model) == window(same)


def test_a_snapshot_with_a_price_of_its_own_keeps_it():
    """A dated name that is listed itself is not taken for the undated one."""
    dated, plain = Prices().of("gpt-4o-2024-05-13"), Prices().of("gpt-4o")
    assert dated is not None
    assert plain is not None
    assert (dated.input, plain.input) == (5, 2.5)


@given(st.sampled_from(NAMES), st.sampled_from(["-pro", "-cyber", "x", "-mini", "-fast"]))
def test_more_behind_a_name_is_another_name(name: str, more: str):
    """With a word behind it a name is listed only if the longer name is spelled out itself."""
    longer = f"{name}{more}".lower()
    assert longer in KNOWN or listed(longer) is None


def test_long_requests_cost_more_where_the_list_says_so():
    """The size of a request chooses the price; exactly at the step it is the lower one."""

    def cost(tokens: int) -> float | None:
        return Prices().cost("gpt-5.4", Usage(uncached=tokens))

    assert cost(272_000) == pytest.approx(0.68)
    assert cost(272_001) == pytest.approx(1.360005)
    assert Prices().cost("gpt-5.4", Usage(read=300_000)) == pytest.approx(0.15)


def test_the_users_own_price_wins():
    """What stands in prices.json counts, whatever is listed."""
    own = Price(
        input=1, output=1, read=1, write_5m=1, write_1h=1, write_30m=1, write_12h=1, source="me"
    )
    assert Prices({"gpt-5.4-pro": own}).of("gpt-5.4-pro") is own


@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        ("gpt-5.4", 1_050_000),
        ("gpt-5.4-mini", 400_000),
        ("gpt-5.3", 128_000),
        ("grok-4", 256_000),
        ("claude-opus-5-5", 1_000_000),
        ("us.anthropic.claude-opus-4-5-20251101-v1:0", 200_000),
        ("nobody-knows-it", 128_000),
        ("local", 8_192),
    ],
)
def test_windows(model: str, tokens: int):
    """The listed window counts; a name that is not listed gets a careful guess."""
    assert window(model) == tokens


def test_a_window_is_the_librarys_where_it_knows_one():
    """No listed model is compacted earlier than it must be, or later than it may."""
    for name in NAMES:
        found = listed(name)
        if isinstance(found, ModelListing) and found.context:
            assert window(name) == found.context


def test_the_version_of_the_library_is_the_installed_one() -> None:
    """What is read from a folder's name is what the package says of itself."""
    said = importlib.metadata.version("genai-prices")
    assert catalog.library_version() == tuple(int(part) for part in said.split(".")[:3])
