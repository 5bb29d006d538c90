"""Short words for figures: how long, how much, whose."""

from __future__ import annotations

from prong.event import MAIN
from prong.view import AgentView

_MINUTE, _HOUR = 60, 3_600


def lasted(seconds: float) -> str:
    """Say a span of time."""
    whole = max(0, int(seconds))
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE}:{whole % _MINUTE:02}"
    return f"{whole // _HOUR}:{whole % _HOUR // _MINUTE:02}:{whole % _MINUTE:02}"


def dollars(amount: float | None) -> str:
    """Say an amount in the least room; an unknown price is never shown as nothing."""
    if amount is None:
        return "$?"
    if amount and abs(amount) < 0.01:
        return f"${amount:.4f}"
    return f"${amount:.2f}"


def tokens(count: int) -> str:
    """Say a number of tokens in four characters or so."""
    if count < 1_000:
        return str(count)
    if count < 1_000_000:
        return f"{count / 1_000:.1f}k" if count < 10_000 else f"{count // 1_000}k"
    return f"{count / 1_000_000:.1f}M"


def percent(share: float | None) -> str:
    """Say a share; what falls short of all is never rounded up to it."""
    if share is None:
        return "?"
    return f"{min(99, round(share * 100)) if share < 1 else 100}%"


def place_of(agent: AgentView) -> str:
    """Say where an agent works, if that is not in this session and on this machine."""
    if agent.target:
        return f"on {agent.target}{f'/{agent.node[:8]}' if agent.node else ''}"
    # Who works for a member in a pane is there too, and stands below it.
    return "in its pane" if agent.session and agent.parent == MAIN else ""


def name_of(agent: AgentView) -> str:
    """Give the last part of an agent's path."""
    return agent.path.rpartition("/")[2]
