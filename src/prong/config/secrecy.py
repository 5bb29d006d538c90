"""What of the model's keys is kept from commands, and which values are masked."""

from __future__ import annotations

import os
import re
from collections.abc import Set as AbstractSet

from prong.config.place import Place
from prong.errors import BadInput
from prong.host import Host
from prong.provider import KEY_VARIABLES, Secrets, gather, in_headers

_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH", re.IGNORECASE)
_OTHERS = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
"""Keys that commands are given, because programs of a project live by them, and that are masked."""
_SHORTEST = 8
"""Letters that a value has at least which is nobody else's by chance."""


def withheld(place: Place) -> frozenset[str]:
    """Name the variables that no command, hook or background shell is given."""
    return provider_keys(place) | (_of_servers(place) - {*place.settings.values.pass_env})


def provider_keys(place: Place) -> frozenset[str]:
    """Name the keys of models, which not even a server is given unless its own `env` names one."""
    return frozenset(KEY_VARIABLES) - {*place.settings.values.pass_env}


def must_withhold(host: Host, names: AbstractSet[str]) -> None:
    """Demand that no process of a host sees a key.

    Raises UsageError.
    """
    if seen := sorted(names & host.environment.keys()):
        raise BadInput(
            f"commands of the given host would see {', '.join(seen)}: make it with withhold=..., "
            "or name what they may see in the setting passEnv"
        )


def _of_servers(place: Place) -> frozenset[str]:
    """Name the variables whose values MCP servers are given as keys."""
    given = [
        value
        for server in place.servers.servers
        for name, value in (*server.env.items(), *server.headers.items())
        if _SECRET.search(name)
    ]
    return frozenset(
        name
        for name, value in place.env.items()
        if _SECRET.search(name) and len(value) >= _SHORTEST and any(value in one for one in given)
    )


def secrets(place: Place) -> Secrets:
    """Find the keys of all providers that this session may come to use."""
    settings = place.settings
    sources = (os.environ, place.env, settings.values.env)
    named = (str(source.get(name, "")) for source in sources for name in (*KEY_VARIABLES, *_OTHERS))
    search = settings.values.web.search_headers
    headers = (*settings.values.headers.items(), *place.options.headers.items(), *search.items())
    return gather((*named, place.options.api_key or "", *in_headers(headers)))
