"""Teams as a person sees them from a shell or a session: what their folders hold, in lines."""

from __future__ import annotations

from pathlib import Path

from prong.errors import BadInput, ProngError
from prong.journal.store import home
from prong.mail import OUTSIDE, Member, Message, Team, TeamFolder, teams

_SHOWN = 70


def list_teams() -> list[str]:
    """Name the user's teams, each with its members' states."""
    store = home()
    lines: list[str] = []
    for name in teams(store):
        try:
            team = TeamFolder.open(store, name).team
        except ProngError as error:
            # One that cannot be read hides no other.
            lines.append(f"{name}  {error}")
            continue
        states = ", ".join(f"{one.name} {_state(one, team)}" for one in team.members)
        lines.append(f"{name}  {states or 'no members'}  (session {team.leader})")
    return lines or ["there are no teams"]


def show_team(name: str, store: Path | None = None) -> list[str]:
    """Show a team: its members with what they are, and its tasks."""
    team = TeamFolder.open(store or home(), name).team
    about = f": {team.description}" if team.description else ""
    return [
        f"{team.name}{about}  ({_leader(team)})",
        *(f"  {_member(one, team)}" for one in team.members),
        *list_shared_tasks(name, store),
    ]


def _leader(team: Team) -> str:
    if team.led:
        return f"led by session {team.leader}"
    return f"its leader is not open: prong --resume {team.leader}"


def _member(member: Member, team: Team) -> str:
    kind = member.type or "fork"
    where = member.backend or "in-process"
    own = f", session {member.session}" if member.session else ""
    about = f": {member.title}" if member.title else ""
    return f"{member.name:12} {_state(member, team):8} {kind}, {where}{own}{about}"


def _state(member: Member, team: Team) -> str:
    """Say what a member is at; one whose process is gone has not said so."""
    return "killed" if member in team.active and member not in team.living else member.state


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
