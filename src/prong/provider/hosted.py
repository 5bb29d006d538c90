"""Anthropic's Messages API as clouds carry it: the same body, less what stands in the address.

The model is told by the URL, the version by the body. What is cut
off and put in stands before the prompt's first tool and behind its last entry, and is the same for
every request of a model: bodies extend each other as ever.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, ClassVar

import msgspec

from prong.errors import NotInstalled, NotPossibleNow
from prong.provider.backend import Backend, Resources
from prong.provider.provider import Endpoint, Provider
from prong.provider.signing import OutboundRequest, SignedApi, SigningTransport
from prong.provider.throttle import Throttle
from prong.provider.vendor import is_on
from prong.wire import dialect

_MODEL = re.compile(rb'\{"model":("(?:[^"\\]|\\.)*")')
_STREAM = b',"stream":true'
_TOKEN = "ANTHROPIC_AUTH_TOKEN"  # noqa: S105 - the name of a variable


class GatewayPass(msgspec.Struct, frozen=True):
    """What leaves the signature to a gateway, and what it is shown instead."""

    on: bool
    """Nothing is signed."""
    token: str
    """For the gateway; empty if none was set for it, or a header says who asks."""


def gateway_pass(given: Resources, switch: str, *, named: bool) -> GatewayPass:
    """Say whether a gateway signs; only one whose address was `named` is shown its token."""
    # A header that was given to say who asks is not written over.
    if "authorization" in dict(given.headers):
        return GatewayPass(on=True, token="")
    skips = is_on(given.env, switch)
    token = given.env.get(_TOKEN, "").strip() if skips and named else ""
    return GatewayPass(on=skips, token=token)


class CloudSigner(SigningTransport):
    """Sends requests of the Messages API to a cloud."""

    base: str
    """Where that is."""
    gate: GatewayPass
    """Whether something there signs in our place."""

    @abstractmethod
    def __init__(self, given: Resources) -> None:
        """Find out where that is, of what the session has; raises ProngError if that cannot be.

        Credentials are looked for when they are needed.
        """
        super().__init__(given.transport)


class CloudBackend(Backend):
    """The models of a cloud that carries the Messages API."""

    dialect: ClassVar = "anthropic"
    marks: ClassVar = True
    served: ClassVar = True
    prefix: ClassVar[str]
    """What chooses it."""
    key_source: ClassVar[str]
    """Where its credentials are from, for people."""
    signer: ClassVar[type[CloudSigner]]
    """What signs its requests."""

    def __init__(self, resources: Resources) -> None:
        """Read no credentials yet."""
        super().__init__(resources)
        self._throttle = Throttle()
        self._signer: CloudSigner | None = None

    def connect(self, model: str) -> Provider:
        """Make the provider of a model."""
        del model
        if self._signer is None:
            self._signer = self.signer(self.resources)
        return SignedApi(
            self._signer,
            Endpoint(
                base_url=self._signer.base,
                dialect="anthropic",
                headers=self.resources.headers,
                key_source=_TOKEN if self._signer.gate.token else self.key_source,
                backend=self.prefix,
            ),
            dialect("anthropic"),
            patience=self.resources.patience,
            throttle=self._throttle,
        )


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
