"""What a tool call is about to touch, said before it happens: the gate decides on these alone."""

from __future__ import annotations

from msgspec import Struct


class Reading(Struct, frozen=True, tag=True):
    """A file or folder will be read."""

    path: str
    """Absolute, with symbolic links resolved by the caller."""


class Writing(Struct, frozen=True, tag=True):
    """A file will be made, changed or removed."""

    path: str
    """Absolute, with symbolic links resolved by the caller."""


class Running(Struct, frozen=True, tag=True):
    """A bash command line will be run."""

    command: str
    cwd: str
    """The absolute folder it starts in."""


class Using(Struct, frozen=True, tag=True):
    """Anything else: an MCP tool, a function, a skill, an agent type, a web address."""

    specifier: str = ""
    """What stands in the brackets of a rule: a skill's name, an agent's type, `domain:host`."""
    reads: bool = False
    """Whether whoever gave the session this tool vouches that it changes nothing."""


Access = Reading | Writing | Running | Using
