"""The door to the models: providers, and what those of a session share."""

from prong.provider.api import Api, Patience
from prong.provider.backend import Backend, Resources
from prong.provider.base import (
    Endpoint,
    Noticed,
    Preparing,
    Provider,
    Retrying,
    Streamed,
    Trait,
)
from prong.provider.connect import Providers
from prong.provider.http import Http, Limits
from prong.provider.pick import is_local, pick
from prong.provider.transport import Response, Transport

__all__ = [
    "Api",
    "Backend",
    "Endpoint",
    "Http",
    "Limits",
    "Noticed",
    "Patience",
    "Preparing",
    "Provider",
    "Providers",
    "Resources",
    "Response",
    "Retrying",
    "Streamed",
    "Trait",
    "Transport",
    "is_local",
    "pick",
]
