"""Ends members of teams, and teams, from a shell: their leader may be at work or gone."""

from __future__ import annotations

from collections.abc import Sequence

import anyio.to_thread

from prong.errors import NotPossibleNow, ProngError, UnknownName
from prong.host.pane import PaneSetup, sweep
from prong.host.pane.factory import make_backend
from prong.host.process_end import end_process
from prong.journal.store import home
from prong.mail import Member, Team, TeamFolder
from prong.mail.socket_folder import remove_sockets


async def end_member(name: str, member: str) -> list[str]:
    """End a member at once: it is let go, and ended where it runs.

    One in its leader's process is ended by that, as soon as it sees so. Raises UsageError.
    """
    folder = TeamFolder.open(home(), name)
    team = folder.team
    if (found := team.member(member)) is None:
        there = ", ".join(one.name for one in team.members) or "none"
        raise UnknownName(f"there is no member {member!r} in {name}; there are: {there}")
    await _let_go(folder, found)
    left = [one.name for one in team.members if one is not found]
    return [f"{member} is out of {name}, and ends", *await _sweep(team, found.backend, keep=left)]


async def delete_team(name: str, *, force: bool = False) -> list[str]:
    """Remove a team with everything in it; says what that was.

    Raises UsageError if members are at work, unless it is forced: then they are ended at once.
    """
    folder = TeamFolder.open(home(), name)
    team = folder.team
    living = [one.name for one in team.living]
    if living and not force:
        raise NotPossibleNow(
            f"{', '.join(living)} of {name} still run; end them by prong team kill {name} MEMBER, "
            f"or delete the team with --force, which ends them at once"
        )
    held = folder.inventory()
    for member in team.living:
        await _let_go(folder, member)
    backends = {one.backend for one in team.members}
    left = [told for one in backends for told in await _sweep(team, one)]
    await anyio.to_thread.run_sync(lambda: folder.delete(force=force))
    own = [one for one in team.members if one.session]
    return [
        f"{name} is deleted, with {held}",
        *([f"ended: {', '.join(living)}"] if living else []),
        *left,
        *(f"what {one.name} did is kept: prong --resume {one.session}" for one in own),
    ]


async def _let_go(folder: TeamFolder, member: Member) -> None:
    """Take a member out of its team, and end its process if that is its own."""
    folder.remove(member.name)
    folder.ring(member.name)
    if member.backend and member.pid:
        try:
            await end_process(member.pid, member.since)
        except PermissionError as error:
            raise NotPossibleNow(
                f"{member.name} is out of the team, but its process {member.pid} is another user's"
            ) from error
        remove_sockets(folder.path, member.name)


async def _sweep(team: Team, backend: str, *, keep: Sequence[str] = ()) -> list[str]:
    """Close the panes that are left of members that are not to be kept; says if it could not."""
    if not backend:
        return []
    from prong.config.option import Options
    from prong.config.place import look_around
    from prong.host import LocalHost

    try:
        place = look_around(Options())
        setup = PaneSetup(
            host=LocalHost(place.cwd, place.home),
            team=team.name,
            leader=team.leader,
            command=place.settings.values.team.command,
        )
        await sweep(make_backend(backend, setup), keep=keep)
    except (ProngError, OSError) as error:
        return [f"panes of {backend} could not be looked at: {error}"]
    return []
