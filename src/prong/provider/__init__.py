"""The door to the models: one HTTP client, and providers on top of it."""

from prong.provider.api import Api, Patience
from prong.provider.base import (
    Endpoint,
    Noticed,
    Preparing,
    Provider,
    Retrying,
    Streamed,
    Trait,
)
from prong.provider.http import Http, Limits
from prong.provider.pick import is_local, pick

__all__ = [
    "Api",
    "Endpoint",
    "Http",
    "Limits",
    "Noticed",
    "Patience",
    "Preparing",
    "Provider",
    "Retrying",
    "Streamed",
    "Trait",
    "is_local",
    "pick",
]
