"""Where a user's hooks may speak."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol

import msgspec


class Verdict(msgspec.Struct, frozen=True):
    """What the hooks of one event said, taken together."""

    block: str | None = None
    """Why the thing must not happen; None lets it happen."""
    permission: Literal["allow", "ask", "deny"] | None = None
    context: tuple[str, ...] = ()
    """Texts to put before the model."""
    warnings: tuple[str, ...] = ()


class Hooks(Protocol):
    """Runs the hooks of an event."""

    async def fire(self, event: str, payload: Mapping[str, Any], matcher: str = "") -> Verdict:
        """Run what the user bound to this event and to what `matcher` names."""
        ...


class NoHooks:
    """Nothing is bound."""

    async def fire(self, event: str, payload: Mapping[str, Any], matcher: str = "") -> Verdict:
        """Let it happen."""
        del event, payload, matcher
        return Verdict()
