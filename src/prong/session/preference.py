"""Settings about children, as the supervisor needs them."""

from __future__ import annotations

import msgspec

from prong.cost.budget import Bounds
from prong.errors import UsageError
from prong.session.place import Place
from prong.team.departure import ForkSettings
from prong.team.office import PATIENCE


def fork_settings(place: Place) -> ForkSettings:
    """Read what the user set about forks.

    Raises UsageError if it makes no sense.
    """
    given = place.settings.map("fork")
    names = {"breakEven": "break_even"} | {key: key for key in ("dispatch", "schedule", "turns")}
    chosen = {
        name: given[key] for key, name in names.items() if given.get(key) not in (None, "auto")
    }
    try:
        return msgspec.convert(chosen, ForkSettings)
    except msgspec.ValidationError as error:
        raise UsageError(f"the setting fork is wrong: {error}") from error


def task_budget(place: Place) -> Bounds:
    """Read what every child may spend at most.

    Raises UsageError if it makes no sense.
    """
    try:
        return msgspec.convert(place.settings.map("taskBudget"), Bounds)
    except msgspec.ValidationError as error:
        raise UsageError(f"the setting taskBudget is wrong: {error}") from error


def patience(place: Place) -> float | None:
    """Say how long a parent waits for a child in the foreground; 0 is for ever."""
    seconds = place.settings.number("foregroundSeconds")
    return PATIENCE if seconds is None else seconds or None


def wakes_once(place: Place, *, attended: bool) -> bool:
    """Whether a fan-out wakes its parent once, when all are done: each wake reads the history."""
    return place.settings.map("fork").get("wake", "each" if attended else "all") == "all"
