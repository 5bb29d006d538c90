"""Models that are reached in a way of their own: brought by packages, chosen by a prefix."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Literal

import msgspec

from prong.errors import NotInstalled
from prong.provider.provider import Provider
from prong.provider.transport import Transport

GROUP = "prong.providers"
"""The entry points by which packages bring back-ends, each under the prefix that chooses it."""
_PREFIX = re.compile(r"([a-z][a-z0-9_-]*):")


class Resources(msgspec.Struct, frozen=True, kw_only=True):
    """What a back-end may use of the session that it serves."""

    transport: Transport
    """The session's HTTP client."""
    env: Mapping[str, str]
    """The environment; `os.environ` may be another."""
    folder: Path | None
    """A folder of its own for what outlives the session; not made yet. None: nothing may."""


class Backend(ABC):
    """Makes the providers of one prefix, for one session; an entry point names a subclass.

    What it says of itself is read before the first prompt is rendered, and never again.
    """

    dialect: ClassVar[Literal["anthropic", "responses", "chat"]] = "chat"
    """The form in which prompts are kept; `Provider.dialect` must be the same."""
    marks: ClassVar[bool] = False
    """Whether its models understand cache marks."""
    images: ClassVar[bool] = True
    """Whether its models can be shown pictures."""

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


def find(name: str) -> type[Backend] | None:
    """Load the back-end of a prefix; None if no package brings one.

    That reads the metadata of all packages, which takes its time: ask only where there is a prefix.

    Raises:
        UsageError: a package brings it, and it cannot be used.

    """
    from importlib.metadata import entry_points

    points = tuple(entry_points(group=GROUP, name=name))
    if not points:
        return None
    sources = sorted(
        f"{point.value} of {point.dist.name if point.dist else '?'}" for point in points
    )
    if len(sources) > 1:
        raise NotInstalled(
            f"the provider {name!r} is brought by several packages ({', '.join(sources)}); "
            "uninstall all but one"
        )
    try:
        loaded: object = points[0].load()
    except Exception as error:
        # Foreign code may fail in any way; the session must say whose it is.
        raise NotInstalled(
            f"the provider {name!r} ({sources[0]}) cannot be loaded: {error!r}; "
            "update or uninstall that package"
        ) from error
    if not (isinstance(loaded, type) and issubclass(loaded, Backend)):
        raise NotInstalled(
            f"the provider {name!r} ({sources[0]}) is no subclass of prong.provider.Backend; "
            "update or uninstall that package"
        )
    return loaded


def installed() -> list[str]:
    """List the prefixes that installed packages bring."""
    from importlib.metadata import entry_points

    return sorted({point.name for point in entry_points(group=GROUP)})
