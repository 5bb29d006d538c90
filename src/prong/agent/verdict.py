"""Hooks as the loop sees them: an event goes out, a verdict comes back."""

from __future__ import annotations

from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from prong.agent.call_match import CallMatch

Permission: TypeAlias = Literal["allow", "ask", "deny"]

_STRICTNESS: dict[Permission, int] = {"allow": 0, "ask": 1, "deny": 2}


class Verdict(msgspec.Struct, frozen=True):
    """What the hooks of one event said together."""

    block: str | None = None
    """Why it must not happen, in words for the model; None if it may."""
    permission: Permission | None = None
    """The strictest answer that hooks gave to a question of permission; None if none did."""
    reason: str = ""
    """Why hooks answered so."""
    context: tuple[str, ...] = ()
    """Texts to put before the model."""
    warnings: tuple[str, ...] = ()
    """What went wrong or should be shown to the user; work goes on."""
    updated: str | None = None
    """The arguments that a call is to have instead of its own, as JSON; None if it stays."""
    stop: str | None = None
    """Why the turn must end now; None if it may go on."""
    output: str | None = None
    """What the model is to read in place of what a call gave; None if that stays."""


UNASKED = Verdict()
"""Given by hooks that have nobody to tell and waited for nothing; known by identity alone."""


class Hooks(Protocol):
    """Commands of the user that watch and guard what an agent does."""

    def listens(self, event: str) -> bool:
        """Whether an event of a call may concern anybody; what they are told takes a while."""
        ...

    async def fire(
        self,
        event: str,
        payload: dict[str, Any],
        matcher: str = "",
        call: CallMatch | None = None,
    ) -> Verdict:
        """Tell the hooks of an event; `matcher` is what they select by, such as a tool's name.

        Of an event of a call some select by what that does; without it they are told anyway.
        """
        ...


def settle(decided: Permission, verdict: Verdict) -> Permission:
    """Join the gate's decision with the hooks' answer.

    A hook makes a decision stricter, or answers a question with permission; a denial stands.
    """
    if verdict.block is not None:
        return "deny"
    if verdict.permission is None:
        return decided
    if decided == "ask" and verdict.permission == "allow":
        return "allow"
    return max(decided, verdict.permission, key=_STRICTNESS.__getitem__)
