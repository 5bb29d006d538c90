"""Who is in a team: `team.json`, replaced whole."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from prong.errors import NotPossibleNow

TEAM_VERSION = 1
"""Of the file that this program writes, and the newest it reads."""

MemberState = Literal["starting", "working", "idle", "ended"]


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """One member, as the others need to know it."""

    name: str
    colour: str = ""
    type: str = ""
    """Of agent; empty for a fork of the leader."""
    backend: str = ""
    """What opened its pane; empty if it runs in the leader's process."""
    session: str = ""
    """Of its own; empty in the leader's process."""
    pane: str = ""
    pid: int = 0
    started: float = 0.0
    """Seconds since the epoch."""
    state: MemberState = "starting"


class Team(msgspec.Struct, frozen=True, kw_only=True):
    """A team as its file has it."""

    version: int = TEAM_VERSION
    name: str
    description: str = ""
    leader: str
    """The leader's session."""
    created: float = 0.0
    members: tuple[Member, ...] = ()

    def member(self, name: str) -> Member | None:
        """Give the member of that name."""
        return next((member for member in self.members if member.name == name), None)

    @property
    def active(self) -> tuple[Member, ...]:
        """Those that have not ended."""
        return tuple(member for member in self.members if member.state != "ended")


class _Versioned(msgspec.Struct, frozen=True):
    version: int


def decode_team(data: bytes, path: Path) -> Team:
    """Read a team's file; raises NotPossibleNow if it is damaged or newer."""
    try:
        version = msgspec.json.decode(data, type=_Versioned).version
        if version > TEAM_VERSION:
            raise NotPossibleNow(
                f"{path} was written by a newer Prong (version {version}, this one reads "
                f"{TEAM_VERSION}); update Prong"
            )
        return msgspec.json.decode(data, type=Team)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise NotPossibleNow(
            f"{path} is damaged ({error}); mend it, or remove the folder and create the team anew"
        ) from error


def encode_team(team: Team) -> bytes:
    """Write a team's file."""
    return msgspec.json.format(msgspec.json.encode(team), indent=2) + b"\n"
