"""What a sandbox has refused, read from what a command printed; pure.

The kernel tells the process and nobody else, so the output is all there is to go by. A path that
the profile does forbid is a finding; anything else that looks like a refusal is a guess, and said
to be one.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterator

from msgspec import Struct

from prong.host.sandbox import Profile
from prong.system.path_form import normal_path
from prong.tools.ground import is_inside

# Patterns are texts: they are compiled when a command has failed, which many sessions never see.
_REFUSED = (
    r"(?i)permission denied|operation not permitted|read-only file system|device or resource busy"
    r"|errno (?:1|13|16|30)\b|\bE(?:ACCES|PERM|ROFS|BUSY)\b"
)
_UNREACHED = (
    r"(?i)could not resolve|name resolution|network is unreachable|getaddrinfo|failed to connect"
    r"|socket: permission denied|connection refused|ENOTFOUND"
)
_QUOTED = r"'([^'\n]+)'|\"([^\"\n]+)\"|‘([^’\n]+)’"
_MOST = 5
"""Paths that are named at most."""
_LINES = 400


class KernelRefusal(Struct, frozen=True):
    """What a command was refused."""

    paths: tuple[str, ...] = ()
    """Paths that it may not change by its profile, and that it complained of."""
    network: bool = False
    guess: bool = False
    """Something was refused, and it is not known whether by the sandbox."""

    @property
    def some(self) -> bool:
        """Whether anything was."""
        return bool(self.paths or self.network or self.guess)


def find_refusal(profile: Profile, text: str, cwd: str) -> KernelRefusal:
    """Read what a command printed that failed; nothing is found where nothing was held."""
    if profile.name == "none":
        return KernelRefusal()
    paths: dict[str, None] = {}
    network = guess = False
    for line in text.splitlines()[-_LINES:]:
        if not profile.network and re.search(_UNREACHED, line):
            network = True
        elif re.search(_REFUSED, line):
            found = [path for path in _named(line, cwd) if forbids(profile, path)]
            paths.update(dict.fromkeys(found[:1]))
            guess = guess or not found
    return KernelRefusal(tuple(paths)[:_MOST], network, guess and not paths and not network)


def _named(line: str, cwd: str) -> Iterator[str]:
    """Yield what may be paths in a line, the likeliest first."""
    found = [text for match in re.finditer(_QUOTED, line) for text in match.groups() if text]
    # `program: path: reason` is how most say it.
    before = line[: refused.start()] if (refused := re.search(_REFUSED, line)) else ""
    parts = [part.strip() for part in before.rstrip(": ").split(": ")]
    found += [part.rpartition(" ")[2] for part in parts[:0:-1]]
    found += [word.strip(":,()[]") for word in line.split() if "/" in word]
    for one in found:
        if one:
            yield normal_path(os.path.join(cwd, one))  # noqa: PTH118 - pure text


def forbids(profile: Profile, path: str) -> bool:
    """Whether a path may not be changed, or not be read."""
    if any(re.fullmatch(one.regex, path, re.IGNORECASE | re.DOTALL) for one in profile.hidden):
        return True
    kept = (one for one in profile.kept if "*" not in one)
    if any(is_inside(path, one) for one in kept):
        return True
    return not any(is_inside(path, one) for one in profile.writable)


def for_model(profile: Profile, refusal: KernelRefusal) -> str:
    """Say to the model what was refused, and by what."""
    held = f"its sandbox (profile '{profile.name}')"
    if refusal.paths:
        return f"[{held} does not let the command touch {', '.join(refusal.paths)}.]".replace(
            "[its", "[Its"
        )
    if refusal.network:
        return f"[The command has no network in {held}.]"
    return f"[Something was refused; it may have been {held}, which shows only to the command.]"


def for_user(profile: Profile, refusal: KernelRefusal) -> str:
    """Say to the user what was refused, and what would allow it."""
    if refusal.network:
        return 'the sandbox gave the command no network; "sandbox": {"network": "always"} does'
    if not refusal.paths:
        return "the command may have been refused something by the sandbox"
    named = ", ".join(refusal.paths)
    # What is not there yet can be made only in a folder that is open.
    folders = dict.fromkeys(path.rpartition("/")[0] or "/" for path in refusal.paths)
    wanted = ", ".join(f'"{folder}"' for folder in folders)
    if any(any(is_inside(path, one) for one in profile.writable) for path in refusal.paths):
        return f"the sandbox keeps {named}, which is protected or under a rule"
    return (
        f"the sandbox did not let the command write {named}; "
        f'"sandbox": {{"writable": [{wanted}]}} in the settings does'
    )
