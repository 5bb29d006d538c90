"""What of the model's keys is kept from commands, and which values are masked."""

from __future__ import annotations

import os

from prong.config.place import Place
from prong.provider.pick import KEY_VARIABLES
from prong.provider.secret import Secrets, gather, in_headers


def withheld(place: Place) -> frozenset[str]:
    """Name the variables that no command, hook or background shell is given."""
    return frozenset(KEY_VARIABLES) - {*place.settings.texts("passEnv")}


def secrets(place: Place) -> Secrets:
    """Find the keys of all providers that this session may come to use."""
    settings = place.settings
    sources = (os.environ, place.env, settings.map("env"))
    named = (str(source.get(name, "")) for source in sources for name in KEY_VARIABLES)
    headers = (*settings.map("headers").items(), *place.options.headers.items())
    return gather((*named, place.options.api_key or "", *in_headers(headers)))
