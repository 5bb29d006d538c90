"""Git settings that commands get by their environment, which a repository cannot override.

A folder of somebody else's may hold a whole repository without a work tree, with settings of its
own, and git would take it for the one to work on as soon as it is run there. The setting that is
read by the most harmless commands, `core.fsmonitor`, names a program.
"""

from __future__ import annotations

from collections.abc import Mapping

from prong.foreign_number import whole_number

_SETTINGS = {"safe.bareRepository": "explicit", "core.fsmonitor": "false"}


def guard_git(*environs: Mapping[str, str]) -> dict[str, str]:
    """Return the variables to add to an environment, after the settings it may carry already.

    It may be given in parts, of which the first that has a variable counts.
    """
    found = (environ.get("GIT_CONFIG_COUNT") for environ in environs)
    count = next((value for value in found if value is not None), "")
    start = whole_number(count) or 0
    added = {"GIT_CONFIG_COUNT": str(start + len(_SETTINGS))}
    for number, (key, value) in enumerate(_SETTINGS.items(), start):
        added |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return added
