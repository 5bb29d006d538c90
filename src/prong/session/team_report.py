"""Teams as a person sees them from a shell or a session: what their folders hold, in lines."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

from prong.errors import BadInput, NotPossibleNow, UnknownName
from prong.journal.store import home
from prong.mail import OUTSIDE, Member, Message, TeamFolder, teams

_SHOWN = 70


def list_teams() -> list[str]:
    """Name the user's teams, each with its members' states."""
    store = home()
    lines: list[str] = []
    for name in teams(store):
        team = TeamFolder.open(store, name).team
        states = ", ".join(f"{one.name} {one.state}" for one in team.members) or "no members"
        lines.append(f"{name}  {states}  (session {team.leader})")
    return lines or ["there are no teams"]


def show_team(name: str, store: Path | None = None) -> list[str]:
    """Show a team: its members with what they are, and its tasks."""
    team = TeamFolder.open(store or home(), name).team
    about = f": {team.description}" if team.description else ""
    return [
        f"{team.name}{about}  (led by session {team.leader})",
        *(f"  {_member(one)}" for one in team.members),
        *list_shared_tasks(name, store),
    ]


def _member(member: Member) -> str:
    kind = member.type or "fork"
    where = member.backend or "in-process"
    return f"{member.name:12} {member.state:8} {kind}, {where}"


def list_shared_tasks(name: str, store: Path | None = None) -> list[str]:
    """List the tasks of a team, a line each."""
    tasks = TeamFolder.open(store or home(), name).tasks
    lines: list[str] = []
    for task in tasks.list():
        waits = tasks.waits_for(task.id) if task.status == "pending" else ()
        whose = f", {task.owner}" if task.owner else ""
        after = f", waits for {', '.join(waits)}" if waits else ""
        title = task.title if len(task.title) <= _SHOWN else f"{task.title[:_SHOWN]}…"
        lines.append(f"  {task.id:>3}. [{task.status}{whose}{after}] {title}")
    return lines or ["  no tasks"]


def send_from_outside(name: str, member: str, text: str) -> str:
    """Send a message to a member of a team, the leader or `*`, as somebody outside of it."""
    if not text.strip():
        raise BadInput("the message is empty")
    TeamFolder.open(home(), name).post(OUTSIDE, member, Message(text=text))
    return f"sent to {'all' if member == '*' else member} of {name}"


def end_member(name: str, member: str) -> str:
    """End a member at once: it is let go, and whoever runs it ends it as soon as it sees that."""
    folder = TeamFolder.open(home(), name)
    found = folder.team.member(member)
    if found is None:
        there = ", ".join(one.name for one in folder.team.members) or "none"
        raise UnknownName(f"there is no member {member!r} in {name}; there are: {there}")
    folder.remove(member)
    folder.ring(member)
    if found.backend and found.pid > 0:
        with suppress(ProcessLookupError):
            try:
                os.kill(found.pid, signal.SIGTERM)
            except PermissionError as error:
                why = f"{member} is out of the team, but its process {found.pid} is another user's"
                raise NotPossibleNow(why) from error
    return f"{member} is out of {name}, and ends"
