"""How a model picks its words: what was asked for, and whether its API takes that.

The fields stand in the head, as every field that is the same for a whole conversation does: forks
share them with the head's bytes, the journal keeps them, and a resumed session goes on with them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from prong.config.option import Options
from prong.config.place import Place
from prong.errors import BadInput
from prong.wire import HeadSpec

FIELDS = ("temperature", "seed")
_HIGHEST = {"anthropic": 1.0, "responses": 2.0, "chat": 2.0, "claude-chat": 1.0, "gemini": 2.0}
"""The highest temperature of each API."""
_SEEDED = frozenset({"chat", "claude-chat", "gemini"})
"""APIs that take a seed; the embedded engine is asked in the form of `chat`."""


def sampling(place: Place, api: str) -> dict[str, Any]:
    """Give the fields of a request to an API that options and settings ask for.

    What a caller put into `extra` goes before settings, and is sent as it is.

    Raises UsageError if the API does not take one of them, or not beside thinking.
    """
    options, fields = place.options, dict[str, Any]()
    for name, value, origin in _asked(place):
        if name in options.extra:
            if getattr(options, name) not in (None, options.extra[name]):
                raise BadInput(f"{origin} says {value:g}, and extra something else; give one")
        else:
            fields[name] = value
            if why := _refusal(name, value, api, options.thinking):
                raise BadInput(f"{origin} is {value:g}, and {why}")
    return {**fields, **options.extra}


def _asked(place: Place) -> Iterator[tuple[str, float, str]]:
    """Give each field that is asked for, with its value and who asks."""
    for name in FIELDS:
        given, set_ = getattr(place.options, name), getattr(place.settings.values, name)
        if given is not None:
            yield name, given, f"--{name}"
        elif set_ is not None:
            yield name, set_, f"the setting {name} of {place.settings.where(name)[-1]}"


def _refusal(name: str, value: float, api: str, thinking: bool | int | None) -> str | None:  # noqa: FBT001 - a field's value
    """Say why an API does not take a value; None if it does."""
    if name == "seed":
        known = "the chat API, Gemini's and the embedded model do"
        return None if api in _SEEDED else f"the {api} API takes no seed; {known}"
    if not (math.isfinite(value) and 0 <= value <= _HIGHEST[api]):
        return f"the {api} API takes a temperature from 0 to {_HIGHEST[api]:g}"
    if api == "anthropic" and thinking and value != 1:
        return "a model that thinks takes no other than 1; leave one out, or say --thinking off"
    return None


def kept(options: Options, head: HeadSpec) -> Options:
    """Give the options of a resumed session: what is not asked for anew is as it was.

    So another model, or a typed child, gets what the conversation has had so far.
    """
    extra = {key: value for key, value in head.extra.items() if key not in FIELDS}
    before: dict[str, Any] = {
        "effort": head.effort,
        "thinking": head.thinking,
        **{name: head.extra.get(name) for name in FIELDS if name not in options.extra},
    }
    missing = {name: value for name, value in before.items() if getattr(options, name) is None}
    return msgspec.structs.replace(options, extra=options.extra or extra, **missing)


def changed(options: Options, extra: Mapping[str, Any]) -> dict[str, bool]:
    """Say of each field whether it is asked for otherwise than a head has it."""
    found = {f"--{name}": getattr(options, name) not in (None, extra.get(name)) for name in FIELDS}
    others = {key: value for key, value in extra.items() if key not in FIELDS}
    ours = {key: value for key, value in options.extra.items() if key not in FIELDS}
    differs = any(extra.get(key) != value for key, value in options.extra.items())
    return {**found, "extra fields": bool(options.extra) and (differs or ours != others)}
