"""Which API a model's name means, where it is, and with which key."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

from prong.errors import BadInput, NotInstalled, Unauthorised, UnknownName
from prong.extension import installed
from prong.provider.address import read_url
from prong.provider.azure import azure_base, has_deployment, is_azure
from prong.provider.backend import Backend, find_backend, prefix_of
from prong.provider.provider import Endpoint
from prong.provider.vendor import KEY_HEADERS, VENDORS, ApiKey, key_for, vendor_of

LOCAL = "local:"
"""Stands for the base URL of the embedded engine."""
_APIS = {
    "anthropic": "anthropic",
    "openai": "responses",
    "responses": "responses",
    "openai-responses": "responses",
    "openai-chat": "chat",
    "chat": "chat",
    "gemini": "gemini",
}
_AZURE = "azure"
_PREFIXES = ("anthropic", "openai", "openai-chat", "chat", "gemini", _AZURE)
_OPENAI_NAME = r"(gpt|o1|o3|o4|codex|chatgpt)(?![a-z])"
_CLAUDE_NAME = r"(?<![a-z0-9])claude-(?=[a-z0-9])"
"""Claude's models, whatever a gateway puts in front of their names."""
_GATEWAY_NAMES = (
    "ANTHROPIC_MODEL",
    "ANTHROPIC_DEFAULT_OPUS_MODEL",
    "ANTHROPIC_DEFAULT_SONNET_MODEL",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL",
)
"""By which people say what the gateway at ANTHROPIC_BASE_URL calls its models."""
_GPT_VERSION = r"gpt-([0-9]{1,2})(?:\.([0-9]{1,2}))?(?![0-9])"
_EXPLICIT_SINCE = (5, 6)


def pick(
    model: str,
    *,
    base_url: str | None = None,
    api: str | None = None,
    key: str | None = None,
    key_helper: str | None = None,
    headers: Iterable[tuple[str, str]] = (),
    explicit: bool | None = None,
    env: Mapping[str, str],
) -> tuple[Endpoint, str]:
    """Choose the endpoint for a model, and give the model's name without a prefix.

    Raises:
        UsageError: the name does not say which API is meant, or the URL is wrong.
        Unauthorised: the vendor's own API needs a key, and there is none.

    """
    headers = tuple(headers)
    base = base_url or env.get("PRONG_BASE_URL", "").strip()
    if is_local(model):
        return _embedded(base_url, api), model
    if (own := _backend_of(model)) is not None:
        _refuse_unheeded(model, own, base_url=base_url, api=api, key=key)
        given = _headers((), None, (*_custom(own.dialect, env), *headers))
        return _at_backend(model, own, base, given), model
    prefixed, name = _split(model)
    dialect = _dialect(prefixed, name, api or "", env, base=base)
    base = _vendor_base(prefixed, name, dialect, env, base)
    # Claude, too, can be had at Azure: by Anthropic's own rules.
    azure = dialect != "anthropic" and (prefixed == _AZURE or is_azure(base))
    vendor = VENDORS[_AZURE] if azure else vendor_of(dialect)
    at_vendor = not vendor.url or read_url(base).host == read_url(vendor.url).host
    given = (*_custom(dialect, env), *headers)
    found = key_for(vendor, key, env, at_vendor=at_vendor)
    keyless = found is None and KEY_HEADERS.isdisjoint(name.lower() for name, _ in given)
    # It is Anthropic's key that such a command gives: no other vendor is sent it.
    helper = (key_helper or "") if keyless and dialect == "anthropic" else ""
    if keyless and at_vendor and not helper:
        raise Unauthorised(
            f"there is no key for {base}; set {vendor.keys[0][0]} or PRONG_API_KEY, or choose "
            "another server with --base-url"
        )
    if dialect == "chat" and re.search(_CLAUDE_NAME, name.lower()) and explicit is not False:
        dialect, explicit = "claude-chat", True
    elif explicit is None:
        explicit = dialect == "anthropic" or (vendor.url != "" and at_vendor and _knows_marks(name))
    endpoint = Endpoint(
        base_url=base.rstrip("/"),
        dialect=dialect,
        headers=_headers(vendor.headers, found, given),
        key_source="the setting apiKeyHelper" if helper else found.source if found else "",
        key_helper=helper,
        explicit=explicit,
    )
    return endpoint, name


def _vendor_base(prefixed: str, name: str, dialect: str, env: Mapping[str, str], given: str) -> str:
    """Give where a vendor's API is: as asked for, as its variables say, or its own server."""
    if prefixed == _AZURE:
        return azure_base(name, dialect, env, given)
    vendor = vendor_of(dialect)
    named = (given, *(env.get(one, "").strip() for one in vendor.bases))
    return next(filter(None, named), vendor.url)


def is_local(model: str) -> bool:
    """Whether a model's name means the embedded engine."""
    return model == "local" or model.startswith(LOCAL)


def kind_of_server(model: str) -> Literal["address", "backend", "none"]:
    """Say what a model is asked at: an address, one that a back-end signs for, or no server."""
    if is_local(model):
        return "none"
    found = _backend_of(model)
    return "address" if found is None else "backend" if found.served else "none"


def _embedded(base_url: str | None, api: str | None) -> Endpoint:
    """Give the endpoint of the embedded engine: known without a look at what is installed."""
    if base_url or (api and _api(api, "--api") != "chat"):
        given = f"--base-url {base_url}" if base_url else f"--api {api}"
        raise BadInput(f"local runs on this machine and asks no server; leave {given} out")
    return Endpoint(
        base_url=LOCAL, dialect="chat", explicit=False, images=False, backend=LOCAL[:-1]
    )


def _backend_of(model: str) -> type[Backend] | None:
    """Find the back-end of a model's prefix; None if it has no such prefix."""
    prefix = prefix_of(model)
    found = find_backend(prefix) if prefix and prefix not in _PREFIXES else None
    if found is not None and not model.removeprefix(f"{prefix}:"):
        raise BadInput(f"{model!r} names no model; write {prefix}:NAME")
    return found


def _refuse_unheeded(
    model: str, found: type[Backend], *, base_url: str | None, api: str | None, key: str | None
) -> None:
    """Refuse what the back-end of a model would not heed."""
    prefix = prefix_of(model)
    if base_url and not found.served:
        raise BadInput(f"{prefix}: models are at no address; leave --base-url {base_url} out")
    if api and _api(api, "--api") != found.dialect:
        raise BadInput(f"the model's prefix means {found.dialect}, --api means {api}; give one")
    if key:
        raise BadInput(
            f"{prefix}: models take no key of ours (api_key=): they find their credentials "
            "themselves"
        )


def _at_backend(
    model: str, found: type[Backend], base: str, headers: tuple[tuple[str, str], ...]
) -> Endpoint:
    """Give the endpoint of a model by its back-end."""
    prefix = prefix_of(model)
    served = bool(base) and found.served
    if served:
        read_url(base)
    return Endpoint(
        base_url=base.rstrip("/") if served else f"{prefix}:",
        dialect=found.dialect,
        headers=headers if found.served else (),
        explicit=found.marks,
        images=found.images,
        backend=prefix,
    )


def _split(model: str) -> tuple[str, str]:
    prefix, colon, rest = model.partition(":")
    if colon and prefix in _PREFIXES:
        if not rest:
            raise BadInput(f"{model!r} names no model; write {prefix}:NAME")
        return _APIS.get(prefix, prefix), rest
    if not model.strip():
        raise BadInput("no model was named; choose one with --model")
    return "", model


def _dialect(prefixed: str, name: str, api: str, env: Mapping[str, str], *, base: str) -> str:
    asked = _api(api, "--api") if api else ""
    if asked and prefixed not in {"", _AZURE, asked}:
        raise BadInput(f"the model's prefix means {prefixed}, --api means {asked}; give one")
    if asked or prefixed not in {"", _AZURE}:
        return asked or prefixed
    preset = env.get("PRONG_API", "").strip()
    if preset:
        return _api(preset, "PRONG_API")
    if has_deployment(base or env.get("OPENAI_BASE_URL", "")):
        return "chat"
    if base and read_url(base).host == read_url(VENDORS["google"].url).host:
        return "chat" if "/openai" in base else "gemini"
    return _by_name(name, env, has_base=bool(base) or prefixed == _AZURE)


def _by_name(name: str, env: Mapping[str, str], *, has_base: bool) -> str:
    lower = name.lower()
    if lower.startswith("claude") or (not has_base and _is_gateways(name, env)):
        return "anthropic"
    if re.match(_OPENAI_NAME, lower):
        return "responses"
    google = key_for(VENDORS["google"], None, env, at_vendor=True) is not None
    gateway = env.get("OPENAI_BASE_URL", "").strip() != ""
    if lower.startswith("gemini-") and not has_base and (google or not gateway):
        return "gemini"
    if has_base or gateway:
        return "chat"
    if prefix := prefix_of(name):
        there = ", ".join(sorted({one.name for one in installed("prong.providers")}))
        raise NotInstalled(
            f"no provider {prefix!r} is installed (there are {there}); install "
            f"the package that brings it, or, if {name!r} is the model's whole name, give the "
            "server with --base-url"
        )
    there = f"write anthropic:{name} if ANTHROPIC_BASE_URL has it, or " if _gateway(env) else ""
    raise UnknownName(
        f"the name {name!r} does not say where the model is; {there}give its server with "
        "--base-url (it is asked by the chat API, unless --api names another)"
    )


def _gateway(env: Mapping[str, str]) -> str:
    return env.get("ANTHROPIC_BASE_URL", "").strip()


def _is_gateways(name: str, env: Mapping[str, str]) -> bool:
    """Whether Anthropic's own variables name a model so: whatever it is, it is asked there."""
    named = (env.get(one, "").strip().removesuffix("[1m]") for one in _GATEWAY_NAMES)
    return _gateway(env) != "" and name in named


def _api(text: str, source: str) -> str:
    found = _APIS.get(text.lower())
    if found is None:
        raise BadInput(f"{source} is {text!r}; it must be anthropic, responses, chat or gemini")
    return found


def _custom(dialect: str, env: Mapping[str, str]) -> list[tuple[str, str]]:
    """Read the headers that a variable asks for, one in a line; they are for one vendor's API."""
    lines = env.get("ANTHROPIC_CUSTOM_HEADERS", "").splitlines() if dialect == "anthropic" else []
    pairs = [line.partition(":") for line in lines if line.strip()]
    if any(not colon or not name.strip() for name, colon, _ in pairs):
        # What stands there may be a secret, so it is not shown.
        raise BadInput("ANTHROPIC_CUSTOM_HEADERS must be lines of the form 'Name: value'")
    return [(name.strip(), value.strip()) for name, _, value in pairs]


def _headers(
    usual: tuple[tuple[str, str], ...],
    key: ApiKey | None,
    given: tuple[tuple[str, str], ...],
) -> tuple[tuple[str, str], ...]:
    own = list(usual)
    if key is not None and KEY_HEADERS.isdisjoint(name.lower() for name, _ in given):
        own.append(key.header)
    # Of one name the last counts: what options say is behind what variables say.
    return tuple({name.lower(): value for name, value in (*own, *given)}.items())


def _knows_marks(name: str) -> bool:
    found = re.match(_GPT_VERSION, name.lower())
    return found is not None and (int(found[1]), int(found[2] or 0)) >= _EXPLICIT_SINCE


def local_model() -> Path:
    """Find the bundled model, and that the engine which runs it is there.

    Raises NoSuchModel or NotInstalled.
    """
    from prong.provider.local.installation import library, weights

    library()
    return weights("local")
