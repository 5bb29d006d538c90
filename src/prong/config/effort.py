"""Efforts that settings, options and types of agents ask for: which of them may be slips.

A server may know words that nobody here does, so one is sent as it stands, and the user is told.
"""

from __future__ import annotations

from prong.command import EFFORTS
from prong.config.place import Place
from prong.errors import nearest


def unknown_efforts(place: Place) -> list[str]:
    """Say which efforts that a session may ask for are known to nobody here, each once."""
    named = [(f"the agent type {kind.name}", kind.effort) for kind in place.types.values()]
    # The main agent's type has put its own among the options.
    named += [("--effort", place.options.effort)]
    named += [("the setting effort", place.settings.values.effort)]
    first = {effort: who for who, effort in reversed(named) if effort}
    told = ((who, doubt_effort(effort)) for effort, who in first.items())
    return [f"{who}: {why}" for who, why in told if why]


def doubt_effort(effort: str) -> str:
    """Say why an effort may be a slip; empty for one that some model is known to take."""
    if effort in EFFORTS:
        return ""
    meant = nearest(effort, EFFORTS)
    hint = f" (did you mean {meant!r}?)" if meant else ""
    return (
        f"the effort {effort!r} is not known here{hint}; there are {', '.join(EFFORTS)}. It is "
        "sent as it is, and the model's server decides"
    )
