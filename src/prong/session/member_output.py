"""What a member that works in a session of its own has said and done, read from its record.

The record is the member's own and is complete, whoever led it meanwhile and whether or not it still
runs; how far each was told is remembered as long as this process leads.
"""

from __future__ import annotations

from pathlib import Path

from prong.event import MAIN
from prong.journal import store
from prong.journal.eventlog import NAME, EventLog
from prong.mail import Member
from prong.team.emitter import log_line
from prong.team.log import ANSWER
from prong.tools.collector import clean

_STATES = {
    "starting": "is being started",
    "working": "is at work",
    "idle": "has nothing to do and sleeps",
    "ended": "has ended",
}


class MemberOutput:
    """Tells of each member what is new since it was last asked about."""

    def __init__(self, cwd: str, home: Path) -> None:
        """Say where sessions are stored."""
        self._cwd = cwd
        self._home = home
        self._told: dict[str, int] = {}
        """The number of the last event of a session that was told."""

    def read(self, member: Member) -> str:
        """Tell how a member stands, and what it has said and done since."""
        fresh = "".join(self._fresh(member.session))
        text = clean(fresh).rstrip("\n") or "(nothing new)"
        if len(text) > ANSWER:
            text = f"[the beginning was left out]\n{text[-ANSWER:]}"
        head = f"{member.name} {_STATES[member.state]}. Session: {member.session}"
        return f"{head}\n{text}"

    def _fresh(self, session: str) -> list[str]:
        path = store.location(self._cwd, session, self._home).with_suffix("") / NAME
        log, since = EventLog(path), self._told.get(session, 0)
        if log.problem:
            return [f"[{path} cannot be read]"]
        events = [one.event for one in log.replay(since, log.seq) if one.agent == MAIN]
        self._told[session] = log.seq
        return [f"{line}\n" for event in events if (line := log_line(event))]
