"""Settings about children, as the supervisor needs them."""

from __future__ import annotations

import msgspec

from prong.cost.budget import Bounds
from prong.session.place import Place
from prong.team.departure import ForkSettings
from prong.team.office import PATIENCE


def fork_settings(place: Place) -> ForkSettings:
    """Read what the user set about forks."""
    given = place.settings.map("fork")
    names = {"breakEven": "break_even"} | {key: key for key in ("dispatch", "schedule", "turns")}
    chosen = {
        name: given[key] for key, name in names.items() if given.get(key) not in (None, "auto")
    }
    return msgspec.convert(chosen, ForkSettings)


def task_budget(place: Place) -> Bounds:
    """Read what every child may spend at most."""
    return msgspec.convert(place.settings.map("taskBudget"), Bounds)


def patience(place: Place) -> float | None:
    """Say how long a parent waits for a child in the foreground; 0 is for ever."""
    seconds = place.settings.number("foregroundSeconds")
    return PATIENCE if seconds is None else seconds or None


def wakes_once(place: Place, *, attended: bool) -> bool:
    """Whether a fan-out wakes its parent once, when all are done: each wake reads the history."""
    return place.settings.map("fork").get("wake", "each" if attended else "all") == "all"
