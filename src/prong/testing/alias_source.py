"""Writes the table of short model names from genai-prices: `python -m prong.testing.alias_source`.

A short name means the newest model of a family that the library lists. A test compares the table
with the library that is installed, so a release cannot go out with names of yesterday.
"""

from __future__ import annotations

import re
from pathlib import Path

from genai_prices import data_snapshot

from prong.config import alias_table

_FAMILIES: dict[str, dict[str, str]] = {
    "anthropic": {
        "opus": r"claude-opus-(\d+)(?:-(\d{1,2}))?",
        "sonnet": r"claude-sonnet-(\d+)(?:-(\d{1,2}))?",
        "haiku": r"claude-haiku-(\d+)(?:-(\d{1,2}))?",
        "fable": r"claude-fable-(\d+)(?:-(\d{1,2}))?",
        "fast": r"claude-haiku-(\d+)(?:-(\d{1,2}))?",
        "best": r"claude-opus-(\d+)(?:-(\d{1,2}))?",
        "default": r"claude-sonnet-(\d+)(?:-(\d{1,2}))?",
    },
    "openai": {
        "fast": r"gpt-(\d+)(?:\.(\d+))?-luna",
        "best": r"gpt-(\d+)(?:\.(\d+))?-astra",
        "default": r"gpt-(\d+)(?:\.(\d+))?-sol",
    },
    "google": {
        "fast": r"gemini-(\d+)(?:\.(\d+))?-flash",
        "best": r"gemini-(\d+)(?:\.(\d+))?-(?:pro|argon)",
        "default": r"gemini-(\d+)(?:\.(\d+))?-(?:pro|argon)",
    },
}
"""By vendor and short name: what the names of the family look like, with their version."""
_BEDROCK = r"global\.anthropic\.(claude-[a-z]+-\d+(?:-\d{1,2})?)(?:-\d{8})?(?:-v\d+:\d+)?"


def derive() -> tuple[dict[str, dict[str, str]], dict[str, str]]:
    """Give the short names of each vendor, and what Bedrock calls Anthropic's models."""
    providers = {one.id: one for one in data_snapshot.get_snapshot().providers}
    names = {vendor: [model.id for model in providers[vendor].models] for vendor in _FAMILIES}
    aliases = {
        vendor: {short: newest(names[vendor], pattern) for short, pattern in family.items()}
        for vendor, family in _FAMILIES.items()
    }
    found = (re.fullmatch(_BEDROCK, model.id) for model in providers["aws"].models)
    return aliases, {one[1]: one[0] for one in found if one is not None}


def newest(names: list[str], pattern: str) -> str:
    """Give the name with the highest version."""
    found = [one for name in names if (one := re.fullmatch(pattern, name)) is not None]
    return max(found, key=lambda one: (int(one[1]), int(one[2] or 0)))[0]


def rendered() -> str:
    """Give the module as it should be."""
    aliases, bedrock = derive()
    lines = [f'"""{alias_table.__doc__}"""', "", "ALIASES: dict[str, dict[str, str]] = {"]
    for vendor, family in aliases.items():
        lines += [f'    "{vendor}": {{', *_rows(family, "        "), "    },"]
    lines += ["}", '"""By vendor: short names, and the model that answers if none is named."""', ""]
    lines += ["BEDROCK = {", *_rows(bedrock, "    "), "}"]
    lines += ['"""What Bedrock calls Anthropic\'s models, wherever in the world they answer."""']
    return "\n".join(lines) + "\n"


def _rows(names: dict[str, str], indent: str) -> list[str]:
    return [f'{indent}"{key}": "{value}",' for key, value in names.items()]


if __name__ == "__main__":
    Path(alias_table.__file__).write_text(rendered(), "utf-8")
