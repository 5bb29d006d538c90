"""Which model answers, where it is, and the head that is rendered for it."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from collections.abc import Set as AbstractSet

import msgspec

from prong.agent.spec import INHERIT
from prong.config.alias import SHORT, betas, in_environment, long_name, nearest
from prong.config.option import Options
from prong.config.place import Place
from prong.config.sampling import changed, sampling
from prong.entry import ToolSpec
from prong.errors import BadInput, ProngError, UnknownName
from prong.journal.note import ModelChosen
from prong.prompt import Head
from prong.provider import (
    Endpoint,
    Patience,
    Provider,
    Providers,
    is_local,
    is_loopback,
    kind_of_server,
    pick,
    read_url,
)
from prong.system.identity import system_name
from prong.text import load_text
from prong.tools.delegate import AgentTool
from prong.wire import HeadSpec, dialect
from prong.wire.brief import readable

_ODD = r"[^A-Za-z0-9_.-]"


class Chosen(msgspec.Struct, frozen=True):
    """A model, and the way to it."""

    named: str
    """Its name in full, with whatever says where it is."""
    model: str
    endpoint: Endpoint
    base_url: str | None = None
    """As asked for; None is the vendor's own, or what the environment says."""
    api: str | None = None
    patience: Patience = msgspec.field(default_factory=Patience)
    diagnose: bool = False
    """Whether to ask for the provider's own cache diagnostics."""
    betas: tuple[str, ...] = ()
    """What its requests must name so that the model does what was asked for."""

    @property
    def recorded(self) -> ModelChosen:
        """What a resumed session needs to find its model again; never a key."""
        return ModelChosen(self.named, self.base_url, self.api)

    @property
    def images(self) -> bool:
        """Whether the model can be shown pictures."""
        return self.endpoint.images

    def connect(self, providers: Providers) -> Provider:
        """Make the provider."""
        names = frozenset({AgentTool.name})
        return providers.connect(
            self.endpoint, self.model, patience=self.patience, dispatching=names
        )


def choose(place: Place, named: str | None, before: ModelChosen | None = None) -> Chosen:
    """Find the model: as asked now, as a resumed session had it, by settings, or by key.

    Raises UsageError if none is named anywhere, Unauthorised if its key is missing.
    """
    options, values, env = place.options, place.settings.values, _environment(place)
    recorded = before or ModelChosen("")
    short = named or recorded.model or values.model or in_environment(values, env)
    if not short:
        raise BadInput(
            "no model was named and no key is set: set ANTHROPIC_API_KEY or OPENAI_API_KEY, or "
            "name a model (--model, PRONG_MODEL, model=); the model local needs no key"
        )
    full = long_name(short, values, env)
    name = str(full)
    same = not named or recorded.model in {named, name}
    old = recorded if same else ModelChosen("")
    headers = {**values.headers, **options.headers}
    base_url, api, key = options.base_url, options.api, options.api_key
    kind, other = kind_of_server(full.name), named != options.model
    if kind != "none":
        base_url = base_url or old.base_url or values.base_url
        api = api or old.api or values.api
    elif other:
        # What options say is of the session's model; this one is another, and has no server.
        base_url = api = None
    if other and kind != "address":
        key = None
    try:
        endpoint, model = pick(
            full.name,
            base_url=base_url,
            api=api,
            key=key,
            key_helper=values.api_key_helper,
            headers=headers.items(),
            explicit=values.cache_marks,
            env=env,
        )
    except UnknownName as error:
        if short in values.model_aliases:
            why = f"; it is what the setting modelAliases has for {short!r}"
        else:
            why = nearest(short, values)
        raise UnknownName(f"{error}{why}") from None
    patience = msgspec.convert(dict(values.retry), Patience)
    asks = values.cache_diagnostics and _diagnoses(endpoint)
    asked = betas(model, long=full.long)
    return Chosen(name, model, endpoint, base_url, api, patience, asks, asked)


def unknown_models(place: Place) -> list[str]:
    """Say which models that settings and types of agents name are known to nobody."""
    values = place.settings.values
    named = [("the setting exploreModel", values.explore_model)]
    # The setting agents.model is the model of every type that names none.
    named += [(f"the agent type {kind.name}", kind.model) for kind in place.types.values()]
    first = {name: who for who, name in reversed(named) if name and name not in {INHERIT, *SHORT}}
    told: list[str] = []
    for name, who in first.items():
        try:
            choose(place, name)
        except UnknownName as error:
            told.append(f"{who} names a model that cannot be asked: {error}")
        except ProngError:
            continue
    return told


def _environment(place: Place) -> Mapping[str, str]:
    return {**place.env, **place.settings.values.env}


def render_head(
    place: Place,
    chosen: Chosen,
    tools: tuple[ToolSpec, ...],
    *,
    cache_key: str,
    effort: str | None = None,
) -> Head:
    """Render the head of a new prompt; it is never rendered again.

    `effort` is what was chosen while the session ran, if anything was.
    """
    options = place.options
    spec = HeadSpec(
        model=chosen.model,
        system=system_of(place),
        tools=readable(tools, None if is_local(chosen.model) else options.context_tokens),
        effort=effort or options.effort or place.settings.values.effort,
        thinking=options.thinking,
        extra=sampling(place, chosen.endpoint.dialect),
        betas=tuple(dict.fromkeys([*chosen.betas, *options.betas])),
        cache_key=cache_key,
        explicit_marks=chosen.endpoint.explicit,
    )
    return Head(dialect(chosen.endpoint.dialect, explicit=chosen.endpoint.explicit), spec)


def left_out(options: Options, head: HeadSpec) -> list[str]:
    """Say which options a resumed session cannot take up, because its head was rendered before."""
    asked: dict[str, bool] = {
        "--system-prompt": options.system is not None and options.system not in head.system,
        "--append-system-prompt": bool(options.append_system)
        and options.append_system not in head.system,
        "--effort": options.effort is not None and options.effort != head.effort,
        "--thinking": options.thinking is not None and options.thinking != head.thinking,
        "--betas": not {*options.betas} <= {*head.betas},
        **changed(options, head.extra),
    }
    return [
        f"{name} is left out: a resumed session keeps the head it began with, so that its cache "
        "holds; start a new session for it"
        for name, is_new in asked.items()
        if is_new
    ]


def _diagnoses(endpoint: Endpoint) -> bool:
    """Whether a server says why its cache missed; others may refuse the field."""
    if endpoint.backend:
        return False
    host = read_url(endpoint.base_url).host
    return host in {"api.anthropic.com", "api.openai.com"} or is_loopback(host)


def system_of(place: Place) -> tuple[str, ...]:
    """Give the main agent's system text.

    The most general comes first, so that other sessions can share its cache.
    """
    options = place.options
    base, more = place.role or (load_text("system"), "")
    base = base if options.system is None else options.system
    parts = (base, more, surroundings(place), notes_of_servers(place), options.append_system)
    return tuple(part for part in parts if part)


def notes_of_servers(place: Place, *, only: AbstractSet[str] | None = None) -> str:
    """Hand on what servers say of themselves, as theirs: it tells of tools and commands nobody.

    `only` names the servers whose tools an agent has.
    """
    notes = [one for one in place.server_notes if only is None or one[0] in only]
    if not notes:
        return ""
    parts = [f"# What MCP servers say of themselves\n\n{load_text('server_notes').rstrip()}"]
    for name, text in notes:
        # A server must not end its own quotation.
        quoted = text.replace("</server", "<\\/server")
        parts.append(f'<server name="{re.sub(_ODD, "_", name)}">\n{quoted}\n</server>')
    return "\n\n".join(parts)


def surroundings(place: Place, *, instructions: bool = True) -> str:
    """Say where an agent is and, unless they are left out, what the project instructs."""
    facts = (
        "# Where you are\n\n"
        f"- Working folder: {place.cwd}\n"
        f"- Project folder: {place.root}\n"
        f"- Platform: {system_name()}\n"
        f"- Date: {time.strftime('%Y-%m-%d')}"
    )
    parts = [facts]
    found = place.instructions.items if place.instructions and instructions else ()
    if found:
        parts.append(
            "# Instructions of the user and the project\n\n"
            "They hold for this project and go before your habits; the nearest one wins."
        )
    parts += [f"## {one.label}\n\n{one.text}" for one in found]
    return "\n\n".join(parts)
