"""Which model answers, where it is, and the head that is rendered for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from prong.entry import ToolSpec
from prong.errors import UsageError
from prong.prompt import Head
from prong.provider import Api, Endpoint, Http, Provider, is_local, pick
from prong.session.option import Options
from prong.session.place import Place
from prong.session.text import text
from prong.wire import HeadSpec, Ttl, dialect

if TYPE_CHECKING:
    from prong.provider.local import Engines

EngineSource: TypeAlias = "Callable[[], Engines]"
"""Gives the session's engines; they are loaded only when one is wanted."""

_DEFAULTS = (("ANTHROPIC_API_KEY", "claude-sonnet-5-5"), ("OPENAI_API_KEY", "gpt-6.1-sol"))


@dataclass(frozen=True, slots=True)
class Chosen:
    """A model as the user named it, and the way to it."""

    named: str
    model: str
    endpoint: Endpoint
    base_url: str | None = None
    """As asked for; None is the vendor's own, or what the environment says."""
    api: str | None = None

    def connect(self, http: Http, engines: EngineSource) -> Provider:
        """Make the provider; an engine is asked for only if the model is an embedded one."""
        endpoint = self.endpoint
        if is_local(self.model):
            return engines().local(self.model)
        return Api(http, endpoint, dialect(endpoint.dialect, explicit=endpoint.explicit))


def choose(place: Place, named: str | None, before: Mapping[str, Any] | None = None) -> Chosen:
    """Find the model: as asked now, as a resumed session had it, by settings, or by key.

    Raises UsageError if none is named anywhere, Unauthorised if its key is missing.
    """
    options, settings, env = place.options, place.settings, _environment(place)
    recorded = dict(before or {})
    name = named or recorded.get("model") or settings.text("model") or env.get("PRONG_MODEL")
    if not name:
        name = next((model for key, model in _DEFAULTS if env.get(key)), None)
    if not name:
        raise UsageError(
            "no model was named and no key is set: use --model, PRONG_MODEL, or set "
            "ANTHROPIC_API_KEY or OPENAI_API_KEY; --model local needs no key"
        )
    same = not named or named == recorded.get("model")
    old = recorded if same else {}
    headers = {**settings.map("headers"), **options.headers}
    base_url = options.base_url or old.get("base_url") or settings.text("baseUrl")
    api = options.api or old.get("api") or settings.text("api")
    endpoint, model = pick(
        name,
        base_url=base_url,
        api=api,
        key=options.api_key,
        headers=headers.items(),
        env=env,
    )
    return Chosen(name, model, endpoint, base_url, api)


def remembered(chosen: Chosen) -> dict[str, Any]:
    """Give what a resumed session needs to find its model again; never a key."""
    return {"model": chosen.named, "base_url": chosen.base_url, "api": chosen.api}


def _environment(place: Place) -> Mapping[str, str]:
    return {**place.env, **{k: str(v) for k, v in place.settings.map("env").items()}}


def render_head(
    place: Place, chosen: Chosen, tools: tuple[ToolSpec, ...], *, cache_key: str
) -> Head:
    """Render the head of a new prompt; it is never rendered again."""
    options, settings = place.options, place.settings
    spec = HeadSpec(
        model=chosen.model,
        system=_system(place),
        tools=tools,
        effort=options.effort or settings.text("effort"),
        thinking=options.thinking,
        extra=options.extra,
        cache_key=cache_key,
        explicit_marks=chosen.endpoint.explicit,
    )
    return Head(dialect(chosen.endpoint.dialect, explicit=chosen.endpoint.explicit), spec)


def cache_ttl(options: Options, place: Place) -> Ttl | None:
    """Give the time to live of cache marks, if one was asked for.

    Raises UsageError if there is no such time.
    """
    wanted = options.cache_ttl or place.settings.text("cacheTtl")
    if wanted not in {None, "5m", "1h", "30m", "12h"}:
        raise UsageError(f"cacheTtl is {wanted!r}; it must be 5m or 1h (OpenAI: 30m or 12h)")
    return cast("Ttl | None", wanted)


def _system(place: Place) -> tuple[str, ...]:
    """Put the most general text first, so that other sessions can share its cache."""
    options = place.options
    base = text("system") if options.system is None else options.system
    return tuple(part for part in (base, _surroundings(place), options.append_system) if part)


def _surroundings(place: Place) -> str:
    import platform

    facts = (
        "# Where you are\n\n"
        f"- Working folder: {place.cwd}\n"
        f"- Project folder: {place.root}\n"
        f"- Platform: {platform.system()} {platform.machine()}\n"
        f"- Date: {time.strftime('%Y-%m-%d')}"
    )
    parts = [facts]
    found = place.instructions.items if place.instructions else ()
    if found:
        parts.append(
            "# Instructions of the user and the project\n\n"
            "They hold for this project and go before your habits; the nearest one wins."
        )
    parts += [f"## {one.label}\n\n{one.text}" for one in found]
    return "\n\n".join(parts)
