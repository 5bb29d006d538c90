"""Whose API it is: where it is if nobody says otherwise, and how it is shown a key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

KeyForm: TypeAlias = Literal["bearer", "x-api-key", "api-key", "x-goog-api-key"]
"""The header that a key goes into; `bearer` is Authorization."""
KEY_HEADERS = frozenset({"authorization", "x-api-key", "api-key", "x-goog-api-key"})
OWN_KEY = "PRONG_API_KEY"
"""A key for whatever server is used."""


class Vendor(msgspec.Struct, frozen=True, kw_only=True):
    """What differs between those whose APIs are spoken."""

    url: str = ""
    """Of its own server; empty if it has many."""
    bases: tuple[str, ...]
    """Variables that say where its API is instead."""
    form: KeyForm
    keys: tuple[tuple[str, KeyForm], ...]
    """Variables that hold a key, each with the form in which it is sent."""
    headers: tuple[tuple[str, str], ...] = ()


class ApiKey(msgspec.Struct, frozen=True):
    """A key, and where it came from."""

    value: str
    source: str
    form: KeyForm

    @property
    def header(self) -> tuple[str, str]:
        """What is sent."""
        if self.form == "bearer":
            return "authorization", f"Bearer {self.value}"
        return self.form, self.value


VENDORS = {
    "anthropic": Vendor(
        url="https://api.anthropic.com/v1",
        bases=("ANTHROPIC_BASE_URL",),
        form="x-api-key",
        keys=(("ANTHROPIC_API_KEY", "x-api-key"), ("ANTHROPIC_AUTH_TOKEN", "bearer")),
        headers=(("anthropic-version", "2023-06-01"),),
    ),
    "openai": Vendor(
        url="https://api.openai.com/v1",
        bases=("OPENAI_BASE_URL",),
        form="bearer",
        keys=(("OPENAI_API_KEY", "bearer"),),
    ),
    "google": Vendor(
        url="https://generativelanguage.googleapis.com/v1beta",
        bases=("GOOGLE_GEMINI_BASE_URL",),
        form="x-goog-api-key",
        keys=(("GEMINI_API_KEY", "x-goog-api-key"), ("GOOGLE_API_KEY", "x-goog-api-key")),
    ),
    "azure": Vendor(
        bases=(),
        form="api-key",
        keys=(
            ("AZURE_OPENAI_API_KEY", "api-key"),
            ("AZURE_OPENAI_AD_TOKEN", "bearer"),
            ("OPENAI_API_KEY", "api-key"),
        ),
    ),
}
_OF_DIALECT = {
    "anthropic": "anthropic",
    "responses": "openai",
    "chat": "openai",
    "gemini": "google",
}
_BEDROCK_TOKEN = "AWS_BEARER_TOKEN_BEDROCK"  # noqa: S105 - the name of a variable
KEY_VARIABLES = tuple(
    dict.fromkeys(
        (OWN_KEY, *(name for one in VENDORS.values() for name, _ in one.keys), _BEDROCK_TOKEN)
    )
)
"""Every variable that a key is taken from."""


def is_on(env: Mapping[str, str], variable: str) -> bool:
    """Say whether a variable that switches something is set to anything but off."""
    return env.get(variable, "").strip().lower() not in {"", "0", "false", "no", "off"}


def vendor_of(dialect: str) -> Vendor:
    """Give the vendor who made an API."""
    return VENDORS[_OF_DIALECT[dialect]]


def key_for(
    vendor: Vendor, given: str | None, env: Mapping[str, str], *, at_vendor: bool
) -> ApiKey | None:
    """Find the key for a vendor's API: as given, of whatever server, the vendor's own."""
    if given and given.strip():
        return ApiKey(given.strip(), "the options", vendor.form)
    # A token is for a gateway, which need not see the vendor's key as well.
    keys = vendor.keys if at_vendor else sorted(vendor.keys, key=lambda one: one[1] != "bearer")
    own: tuple[str, KeyForm] = (OWN_KEY, vendor.form)
    for variable, form in (own, *keys):
        if value := env.get(variable, "").strip():
            return ApiKey(value, variable, form)
    return None
