"""What a session has that may lead a team of agents."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TYPE_CHECKING

import anyio.abc

from prong.errors import BadInput, NotPossibleNow, ProngError
from prong.event import MAIN
from prong.journal.note import MemberSpec, TeamKept
from prong.session.foundation import Foundation

if TYPE_CHECKING:
    # Loaded only where there is a team.
    from prong.team.leader import Leader
    from prong.team.local_team import LocalTeams
    from prong.team.supervisor import Supervisor


def may_lead(base: Foundation) -> bool:
    """Say whether the main agent may lead a team.

    Raises UsageError if it was asked for and cannot be.
    """
    place = base.place
    wanted = place.options.team
    if base.replay is not None:
        begun = base.noted.team is not None
        if wanted and not begun:
            raise NotPossibleNow(
                "the session was begun without teams, and their tools are part of its "
                "conversation; start a new one, or leave out --team"
            )
        return begun
    on = place.settings.values.team.enabled if wanted is None else wanted
    if not on or (wanted is None and place.options.coordinator):
        return False
    if place.options.coordinator:
        raise BadInput("a coordinator's workers are no team; leave out --team or --coordinator")
    if not place.settings.values.background:
        raise BadInput(
            "a team works in the background, and the setting background is false; change it, or "
            "leave out --team"
        )
    return True


def membership_of(base: Foundation) -> MemberSpec | None:
    """Say which member of which team the main agent is; None if it is none.

    A copy of a member's session is none. Raises NotPossibleNow if it was begun as another.
    """
    noted, given = base.noted.member_of, base.place.options.member
    if base.place.options.fork_session:
        return None
    if given is not None and noted is not None and given.name != noted.name:
        raise NotPossibleNow(f"this session is {noted.name} of {noted.team}, and not {given.name}")
    return given or noted


def make_teams(base: Foundation, group: anyio.abc.TaskGroup) -> LocalTeams:
    """Make what the members of teams in this process have together."""
    from prong.team.local_team import LocalTeams
    from prong.team.team_mail import TeamMail

    mail = TeamMail(
        home=base.place.store,
        group=group,
        delivery=base.board.delivery,
        emit=base.bus.emit,
        past=base.replay,
    )
    return LocalTeams(mail, base.board)


def make_leader(
    base: Foundation, supervisor: Supervisor, teams: LocalTeams, group: anyio.abc.TaskGroup
) -> Leader:
    """Make the main agent's way to lead a team."""
    from prong.session.pane_members import PaneMembers
    from prong.team.leader import Leader

    detached = PaneMembers(base, supervisor.registry, group)
    return Leader(supervisor, teams.mail, base.journal, base.journal.session, detached)


async def settle_team(leader: Leader, running: Container[str], warn: Callable[[str], None]) -> None:
    """Let members that were not taken up again count as ended; that this failed is said."""
    try:
        await leader.settle(running)
    except (ProngError, OSError) as error:
        warn(f"the team could not be looked through: {error}")


async def take_up_team(base: Foundation, leader: Leader) -> None:
    """Lead the team again that a resumed session led; a copy of a session leads none."""
    kept = base.noted.team
    if kept is None or base.place.options.fork_session:
        base.journal.note(MAIN, TeamKept())
        return
    await leader.take_up(kept)
