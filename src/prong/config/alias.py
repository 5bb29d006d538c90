"""What a model is called here, and what its API calls it: short names, long windows, variables."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from prong.config.alias_table import ALIASES, BEDROCK
from prong.config.value import Values
from prong.cost.fact import LONG, LONG_BETA, window
from prong.errors import BadInput
from prong.provider import azure_deployment, is_on

_LONG = re.compile(r"(?P<name>.+)\[1m\]", re.IGNORECASE)
_MODEL_VARIABLES = ("PRONG_MODEL", "ANTHROPIC_MODEL", "OPENAI_MODEL")
_OWN_VARIABLES = {
    "opus": "ANTHROPIC_DEFAULT_OPUS_MODEL",
    "best": "ANTHROPIC_DEFAULT_OPUS_MODEL",
    "sonnet": "ANTHROPIC_DEFAULT_SONNET_MODEL",
    "default": "ANTHROPIC_DEFAULT_SONNET_MODEL",
    "haiku": "ANTHROPIC_DEFAULT_HAIKU_MODEL",
    "fast": "ANTHROPIC_DEFAULT_HAIKU_MODEL",
}
"""By which people behind a gateway say what it calls a family."""
_CLOUDS = {"bedrock": "CLAUDE_CODE_USE_BEDROCK", "vertex": "CLAUDE_CODE_USE_VERTEX"}
"""By prefix: what is set if Claude is to be reached there."""
_CLAUDE = re.compile(r"(?:[a-z-]+\.)?(?:anthropic\.)?claude-|arn:aws")
"""What clouds and the vendor call Anthropic's models."""
_WAYS = {
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"),
    "openai": ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
    "google": ("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL"),
}
"""By vendor: what is set if its API can be reached; the first vendor wins."""
SHORT = frozenset(name for family in ALIASES.values() for name in family) - {"default"}
"""Every short name."""
FAMILIES = frozenset(ALIASES["anthropic"]) - {"fast", "best", "default"}
"""Short names that mean a model of one vendor."""


class LongName(msgspec.Struct, frozen=True):
    """A model's name in full."""

    name: str
    long: bool = False
    """Whether its window of a million tokens is asked for."""

    def __str__(self) -> str:
        return f"{self.name}[1m]" if self.long else self.name


def long_name(named: str, values: Values, env: Mapping[str, str]) -> LongName:
    """Give the full name of a model: by the user's own short names, by variables, by the table."""
    name, long = _split(named)
    name = values.model_aliases.get(name, name)
    cloud, name = _cloud(name, env)
    if name in SHORT or name == "default":
        vendor = (reachable(values, env) if not cloud else None) or "anthropic"
        family = ALIASES["anthropic"] | (ALIASES[vendor] if name in ALIASES[vendor] else {})
        own = env.get(_OWN_VARIABLES.get(name, ""), "") if vendor == "anthropic" else ""
        name = own.strip() or family[name]
    name, more = _split(name)
    return LongName(_at(cloud, name), long or more)


def cloud_of(name: str) -> str:
    """Give the prefix of a model that a cloud has; empty if none has it."""
    prefix, colon, _ = name.partition(":")
    return prefix if colon and prefix in _CLOUDS else ""


def _cloud(name: str, env: Mapping[str, str]) -> tuple[str, str]:
    """Say which cloud a name means, by its prefix or by the environment, and the name alone."""
    if prefix := cloud_of(name):
        return prefix, name.removeprefix(f"{prefix}:")
    claude = name in ALIASES["anthropic"] or _CLAUDE.match(name) is not None
    on = (cloud for cloud, variable in _CLOUDS.items() if is_on(env, variable))
    return (next(on, ""), name) if claude else ("", name)


def _at(cloud: str, name: str) -> str:
    """Give what a cloud calls a model."""
    if not cloud:
        return name
    return f"{cloud}:{BEDROCK.get(name, name) if cloud == 'bedrock' else name}"


def is_known(name: str) -> bool:
    """Whether a name is in full, or a short one that means a model here."""
    bare = _split(name)[0]
    return bare in SHORT or bare == "default" or re.fullmatch(r"[a-z]+", bare) is None


def is_family(name: str | None) -> bool:
    """Whether a name means a model of one vendor, and does not say which."""
    return name is not None and _split(name)[0] in FAMILIES


def _split(name: str) -> tuple[str, bool]:
    found = _LONG.fullmatch(name.strip())
    return (found["name"], True) if found else (name, False)


def in_environment(values: Values, env: Mapping[str, str]) -> str | None:
    """Give the model that variables name, or the usual one of the vendor they lead to."""
    named = (env.get(variable, "").strip() for variable in _MODEL_VARIABLES)
    if (name := next(filter(None, named), None)) is not None:
        return name
    if (vendor := reachable(values, env)) != "anthropic" and (found := azure_deployment(env)):
        return f"azure:{found}"
    return "default" if vendor else None


def reachable(values: Values, env: Mapping[str, str]) -> str | None:
    """Name the vendor whose API settings and environment lead to."""
    if values.api_key_helper or any(is_on(env, variable) for variable in _CLOUDS.values()):
        return "anthropic"
    for vendor, variables in _WAYS.items():
        if any(env.get(variable, "").strip() for variable in variables):
            return vendor
    return None


def betas(model: str, *, long: bool) -> tuple[str, ...]:
    """Give what a request must ask for so that its model reads a million tokens, if it is to.

    Raises BadInput if the model cannot.
    """
    if not long:
        return ()
    most = window(model, long=True)
    if most < LONG:
        raise BadInput(
            f"{model} reads {most:,} tokens and has no window of a million; leave [1m] out, or say "
            "with --context-tokens what your server lets it read"
        )
    return () if window(model) >= LONG else (LONG_BETA,)


def nearest(name: str, values: Values) -> str:
    """Propose the short name that was meant, if there is one."""
    from difflib import get_close_matches

    found = get_close_matches(name.lower(), (*values.model_aliases, *sorted(SHORT)), 1, 0.6)
    return f"; did you mean {found[0]}?" if found else ""
