"""Anthropic's Messages API as clouds carry it: the same body, less what stands in the address.

The model is told by the URL, the version by the body. What is cut
off and put in stands before the prompt's first tool and behind its last entry, and is the same for
every request of a model: bodies extend each other as ever.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import msgspec

from prong.errors import NotInstalled, NotPossibleNow
from prong.provider.signing import OutboundRequest

_MODEL = re.compile(rb'\{"model":("(?:[^"\\]|\\.)*")')
_STREAM = b',"stream":true'


class HostedRequest(msgspec.Struct, frozen=True):
    """What a cloud must be told of a request to the Messages API."""

    model: str
    """Without the prefix that chose the cloud."""
    stream: bool
    body: tuple[bytes, ...]


def hosted(request: OutboundRequest, version: str, *, plain: bool) -> HostedRequest:
    """Take a request to the Messages API apart.

    A `plain` one is understood as the API itself does: by its headers, and with `stream` in it.

    Raises NotPossibleNow if it is another request, such as one for a list of models.
    """
    if not request.body:
        raise NotPossibleNow(f"a cloud carries the Messages API alone, not {request.url}")
    first, last = request.body[0], request.body[-1]
    found = _MODEL.match(first)
    assert found is not None, "a head of the Messages API begins with the model"
    named = msgspec.json.decode(found[1], type=str)
    told: dict[str, Any] = {"anthropic_version": version}
    if not plain:
        told |= _betas(request.headers)
    opening = msgspec.json.encode(told)[:-1]
    return HostedRequest(
        named.partition(":")[2],
        _STREAM in last,
        (
            opening,
            first[found.end() :],
            *request.body[1:-1],
            last if plain else last.replace(_STREAM, b"", 1),
        ),
    )


def _betas(headers: Sequence[tuple[str, str]]) -> Mapping[str, list[str]]:
    asked = [value for name, value in headers if name == "anthropic-beta"]
    return {"anthropic_beta": asked[0].split(",")} if asked else {}


def library(module: str, extra: str) -> Any:
    """Load a part of the library that signs for a cloud; neither has types.

    Raises NotInstalled if it is not there.
    """
    try:
        return import_module(module)
    except ImportError as error:
        remedy = f"run 'pip install prong[{extra}]'"
        raise NotInstalled(f"{extra}: models need more packages ({error}); {remedy}") from error
