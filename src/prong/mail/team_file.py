"""Who is in a team: `team.json`, replaced whole."""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from prong.errors import BadInput, NotPossibleNow, UnknownName
from prong.foreign_json import NOT_JSON
from prong.mail.authority import LEADER
from prong.mail.locked_file import COARSE_CLOCK, locked_folder, open_file, write_whole
from prong.system.identity import is_alive
from prong.wire.raw import dump

TEAM_VERSION = 1
"""Of the file that this program writes, and the newest it reads."""

MemberState = Literal["starting", "working", "idle", "ended"]


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """One member, as the others need to know it."""

    name: str
    colour: str = ""
    type: str = ""
    """Of agent; empty for a fork of the leader."""
    title: str = ""
    """What it is to do, in a few words."""
    backend: str = ""
    """What opened its pane; empty if it runs in the leader's process."""
    session: str = ""
    """Of its own; empty in the leader's process."""
    pane: str = ""
    pid: int = 0
    since: int = 0
    """When that process was started, as the system counts: its number may be another's later."""
    runs: int = 0
    """How often its session was opened as this member; only of one with a session of its own."""
    started: float = 0.0
    """When it was taken into the team, in seconds since the epoch."""
    state: MemberState = "starting"


class Team(msgspec.Struct, frozen=True, kw_only=True):
    """A team as its file has it."""

    version: int = TEAM_VERSION
    name: str
    description: str = ""
    leader: str
    """The leader's session."""
    pid: int = 0
    since: int = 0
    """The process in which it was last open, and when the system says that was started."""
    created: float = 0.0
    """Seconds since the epoch."""
    members: tuple[Member, ...] = ()
    """Without the leader."""

    def member(self, name: str) -> Member | None:
        """Give the member of that name."""
        return next((member for member in self.members if member.name == name), None)

    @property
    def names(self) -> tuple[str, ...]:
        """Everybody who has a box, the leader first."""
        return (LEADER, *(member.name for member in self.members))

    @property
    def active(self) -> tuple[Member, ...]:
        """Those that have not ended."""
        return tuple(member for member in self.members if member.state != "ended")

    @property
    def led(self) -> bool:
        """Whether the leader's session is open, as far as it is known."""
        return not self.pid or is_alive(self.pid, self.since)

    @property
    def living(self) -> tuple[Member, ...]:
        """Those that are at work: who was killed has not said that it ended."""
        return tuple(member for member in self.active if self._lives(member))

    def _lives(self, member: Member) -> bool:
        """Whether a member's process runs, as far as it is known."""
        if not member.backend:
            return self.led
        return not member.pid or is_alive(member.pid, member.since)


class _Versioned(msgspec.Struct, frozen=True):
    version: int


class _FileStamp(NamedTuple):
    """By what a file is told from the one that replaced it."""

    device: int
    inode: int
    changed: int
    size: int
    fresh: bool
    """Whether it may be replaced by one that looks the same: clocks of file systems are coarse."""


class TeamFile:
    """The file of one team."""

    def __init__(self, path: Path) -> None:
        """Name the file; the team's name is that of its folder."""
        self.path = path
        self.name = path.parent.name
        self._last: tuple[_FileStamp, Team] | None = None

    def read(self) -> Team:
        """Give what it holds now; raises UsageError if it is gone, damaged or newer."""
        last, stamp = self._last, self._stamp()
        if last is None or last[0] != stamp or stamp.fresh:
            last = self._last = (stamp, self._load())
        return last[1]

    def store(self, team: Team) -> None:
        """Replace it, under the lock; raises BadInput if a field is of a wrong type."""
        data = dump(team)
        try:
            msgspec.json.decode(data, type=Team)
        except NOT_JSON as error:
            raise BadInput(f"a team cannot be stored so: {error}") from error
        for torn in self.path.parent.glob(f".{self.path.name}.*"):
            torn.unlink(missing_ok=True)
        write_whole(self.path, msgspec.json.format(data, indent=2) + b"\n")

    @contextmanager
    def changing(self) -> Generator[Team]:
        """Hold the lock on the team's folder, so that what is read may be replaced."""
        try:
            with locked_folder(self.path.parent):
                yield self.read()
        except FileNotFoundError as error:
            raise UnknownName(f"the team {self.name} is gone") from error

    def _stamp(self) -> _FileStamp:
        try:
            found = self.path.lstat()
        except FileNotFoundError as error:
            raise UnknownName(f"the team {self.name} is gone") from error
        fresh = abs(time.time_ns() - found.st_mtime_ns) < COARSE_CLOCK
        return _FileStamp(found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size, fresh)

    def _load(self) -> Team:
        try:
            fd = open_file(self.path, os.O_RDONLY)
        except FileNotFoundError as error:
            raise UnknownName(f"the team {self.name} is gone") from error
        with os.fdopen(fd, "rb") as file:
            team = self._decode(file.read())
        if team.name != self.name:
            raise NotPossibleNow(
                f"{self.path} is of a team {team.name!r}; its mail is signed for that name, so "
                f"give the folder its name again"
            )
        return team

    def _decode(self, data: bytes) -> Team:
        try:
            version = msgspec.json.decode(data, type=_Versioned).version
            if version <= TEAM_VERSION:
                return msgspec.json.decode(data, type=Team)
        except NOT_JSON as error:
            raise NotPossibleNow(
                f"{self.path} is damaged ({error}); mend it, or remove its folder and create the "
                f"team anew"
            ) from error
        raise NotPossibleNow(
            f"{self.path} was written by a newer Prong (version {version}, this one reads "
            f"{TEAM_VERSION}); update Prong"
        )
