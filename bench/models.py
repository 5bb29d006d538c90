"""Names by which people ask for models: which have a price, reach their API, have their window.

python bench/models.py            one line for each name that falls short, and the sums
PYTHONPATH=/tmp/before/src python bench/models.py      the same of another checkout
"""

from __future__ import annotations

import inspect
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass

from measure import Row, show

from prong.config.model import choose
from prong.config.option import Options
from prong.config.place import look_around
from prong.cost import Prices, window
from prong.errors import ProngError

M = 1_000_000
GPT = 1_050_000
GEMINI = 1_048_576
GATEWAY = "https://gateway.example/v1"
ENV = {
    "ANTHROPIC_API_KEY": "a",
    "OPENAI_API_KEY": "o",
    "GEMINI_API_KEY": "g",
    "AZURE_OPENAI_API_KEY": "z",
    "AZURE_OPENAI_ENDPOINT": "https://name.openai.azure.com",
    "AWS_REGION": "us-east-1",
}


@dataclass(frozen=True, slots=True)
class Known:
    """What is publicly known of a name, as of November 2026."""

    dialect: str
    window: int
    base_url: str | None = None


NAMES: dict[str, Known] = {
    **{
        name: Known("anthropic", M)
        for name in (
            "opus", "opus[1m]", "sonnet", "haiku", "best", "fast", "claude-opus-5-5",
            "claude-opus-5", "claude-opus-4-8", "claude-opus-4-7", "claude-opus-4-6",
            "claude-sonnet-5-5", "claude-sonnet-5", "claude-sonnet-4-6", "claude-sonnet-4-5[1m]",
            "claude-haiku-5-5", "claude-fable-5-1", "claude-fable-5-2", "claude-mythos-5-1",
            "bedrock:sonnet", "bedrock:global.anthropic.claude-opus-5-5", "vertex:claude-opus-5-5",
        )
    },
    **{
        name: Known("anthropic", 200_000)
        for name in (
            "claude-opus-4-5", "claude-opus-4-1", "claude-sonnet-4-5", "claude-haiku-4-5",
            "claude-haiku-4-5-20251001", "bedrock:us.anthropic.claude-haiku-4-5-20251001-v1:0",
            "vertex:claude-sonnet-4-5@20250929",
        )
    },
    **{
        name: Known("responses", GPT)
        for name in (
            "gpt-6.1-sol", "gpt-6.1-terra", "gpt-6-astra", "gpt-6-sol", "gpt-6-luna",
            "gpt-5.6-sol", "gpt-5.6-terra", "gpt-5.6-luna", "gpt-5.4", "gpt-5.4-pro",
            "azure:gpt-5.4",
        )
    },
    **{
        name: Known("responses", M)
        for name in ("gpt-5.5", "gpt-5.5-pro", "gpt-4.1", "gpt-4.1-mini")
    },
    **{
        name: Known("responses", 400_000)
        for name in ("gpt-5.4-mini", "gpt-5.3-codex", "gpt-5.2-pro", "gpt-5-mini")
    },
    "gpt-4o": Known("responses", 128_000),
    "o3": Known("responses", 200_000),
    "o4-mini": Known("responses", 200_000),
    "gemini-4-argon": Known("gemini", GEMINI),
    "gemini-3.8-flash": Known("gemini", M),
    "gemini-3.1-pro-preview": Known("gemini", GEMINI),
    "gemini-2.5-pro": Known("gemini", GEMINI),
    "gemini-2.5-flash": Known("gemini", GEMINI),
    "anthropic/claude-opus-5.5": Known("claude-chat", M, GATEWAY),
    "x-ai/grok-4.7": Known("chat", 500_000, GATEWAY),
}  # fmt: skip


def look(name: str, known: Known, folder: str) -> tuple[list[bool], str]:
    """Say whether a name is priced, reaches its API and has its window, and what it came to."""
    options = Options(cwd=folder, base_url=known.base_url, env={"HOME": folder, **ENV})
    try:
        chosen = choose(look_around(options), name)
    except ProngError as error:
        return [False, False, False], str(error)[:100]
    # Other checkouts know no longer windows.
    long = bool(getattr(chosen, "betas", ()))
    asks = "long" in inspect.signature(window).parameters
    reads = window(chosen.model, long=long) if asks else window(chosen.model)
    priced = Prices().of(chosen.model) is not None
    dialect = chosen.endpoint.dialect
    told = f"{chosen.model}: {dialect}, reads {reads:,}, {'priced' if priced else 'no price'}"
    return [priced, dialect == known.dialect, reads == known.window], told


def rows() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        found = {name: look(name, known, folder) for name, known in NAMES.items()}
    for what, at in (("price", 0), ("API", 1), ("context window", 2)):
        good = sum(right[at] for right, _ in found.values())
        measured = f"{good} of {len(found)} names"
        yield Row(f"names of models with the right {what}", measured, "all", good == len(found))
    for name, (right, told) in found.items():
        if not all(right):
            print(f"{name}: {told}", file=sys.stderr)


if __name__ == "__main__":
    raise SystemExit(show(rows()))
