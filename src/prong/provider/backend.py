"""Models that are reached in a way of their own: brought by packages, chosen by a prefix."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Literal

import msgspec

from prong.extension import find_extension
from prong.provider.api import Patience
from prong.provider.provider import Provider
from prong.provider.transport import Transport

_PREFIX = re.compile(r"([a-z][a-z0-9_-]*):")


class Resources(msgspec.Struct, frozen=True, kw_only=True):
    """What a back-end may use of the session that it serves."""

    transport: Transport
    """The session's HTTP client."""
    env: Mapping[str, str]
    """The environment; `os.environ` may be another."""
    folder: Path | None
    """A folder of its own for what outlives the session; not made yet. None: nothing may."""
    base_url: str = ""
    """The server that was asked for, if one was: by an option, a setting or `PRONG_BASE_URL`."""
    headers: tuple[tuple[str, str], ...] = ()
    """What was asked to be sent with every request; names are lower case."""
    patience: Patience | None = None
    """How often and how long requests are to be tried again, as settings say."""


class Backend(ABC):
    """Makes the providers of one prefix, for one session.

    An entry point of `prong.providers` names a subclass, under the prefix that chooses it.

    What it says of itself is read before the first prompt is rendered, and never again.
    """

    dialect: ClassVar[Literal["anthropic", "responses", "chat"]] = "chat"
    """The form in which prompts are kept; `Provider.dialect` must be the same."""
    marks: ClassVar[bool] = False
    """Whether its models understand cache marks."""
    images: ClassVar[bool] = True
    """Whether its models can be shown pictures."""
    served: ClassVar[bool] = False
    """Whether it asks a server whose address and headers can be given, and heeds both."""

    def __init__(self, resources: Resources) -> None:
        """Start nothing: a session may end without a request."""
        self.resources = resources

    @abstractmethod
    def connect(self, model: str) -> Provider:
        """Make the provider of a model, named without the prefix; called for every agent.

        Raises ProngError if it cannot be used, and says what to do.
        """

    async def aclose(self) -> None:  # noqa: B027 - most have nothing to close
        """Give back whatever the providers share; the session is over."""


def prefix_of(model: str) -> str:
    """Give what of a model's name could be the prefix of a back-end; empty if nothing."""
    found = _PREFIX.match(model)
    return found[1] if found is not None else ""


def find_backend(name: str) -> type[Backend] | None:
    """Load the back-end of a prefix; None if no package brings one.

    That reads the metadata of all packages, which takes its time: ask only where there is a prefix.

    Raises:
        UsageError: a package brings it, and it cannot be used.

    """
    found = find_extension("prong.providers", name)
    if found is None:
        return None
    loaded = found.load()
    if not (isinstance(loaded, type) and issubclass(loaded, Backend)):
        raise found.wrong("is no subclass of prong.provider.Backend")
    return loaded
