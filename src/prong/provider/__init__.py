"""The door to the models: providers, and what those of a session share."""

from prong.provider.address import is_loopback, read_url
from prong.provider.api import Api, Patience
from prong.provider.azure import azure_deployment
from prong.provider.backend import Backend, Resources, find_backend
from prong.provider.connect import Providers
from prong.provider.http import Http, HttpLimits
from prong.provider.pick import is_local, kind_of_server, local_model, pick
from prong.provider.provider import (
    Endpoint,
    Noticed,
    Preparing,
    Provider,
    Retrying,
    Streamed,
    Trait,
)
from prong.provider.public_address import AddressGuard, is_public
from prong.provider.secret import Secrets, gather, in_headers
from prong.provider.shared_http import SharedHttp
from prong.provider.transport import Response, Transport
from prong.provider.transport import read as read_body
from prong.provider.vendor import KEY_VARIABLES, is_on

__all__ = [
    "KEY_VARIABLES",
    "AddressGuard",
    "Api",
    "Backend",
    "Endpoint",
    "Http",
    "HttpLimits",
    "Noticed",
    "Patience",
    "Preparing",
    "Provider",
    "Providers",
    "Resources",
    "Response",
    "Retrying",
    "Secrets",
    "SharedHttp",
    "Streamed",
    "Trait",
    "Transport",
    "azure_deployment",
    "find_backend",
    "gather",
    "in_headers",
    "is_local",
    "is_loopback",
    "is_on",
    "is_public",
    "kind_of_server",
    "local_model",
    "pick",
    "read_body",
    "read_url",
]
