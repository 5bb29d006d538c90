"""A session whose main agent is a member of a team: how it joins, asks its leader, and is seen.

What a member does is the same as in its leader's process (`team/teammate`). Here is what a session
of its own needs beside that: its leader is asked by mail what it would be asked in one dialog, and
sees its events over a socket.
"""

from __future__ import annotations

import os
from functools import partial

import anyio
import anyio.abc
import anyio.to_thread

from prong.agent.speaker import speaking
from prong.errors import ProngError, UnknownName
from prong.event import MAIN, PermissionAsked, RequestSettled, TitleChanged, Warned
from prong.journal.note import MemberKept, MemberOf, MemberSpec, Titled
from prong.mail import LEADER, PermissionRequest, PermissionSettled, TeamFolder
from prong.mail.socket_folder import VIEW, new_socket_path
from prong.session.bus import Subscription
from prong.session.foundation import Foundation
from prong.session.parts import Parts
from prong.session.view_socket import shown
from prong.system.identity import started
from prong.team.local_team import LocalTeams
from prong.team.member_record import MemberRecord
from prong.team.teammate import Teammate, own_request


async def join_team(
    parts: Parts,
    base: Foundation,
    teams: LocalTeams,
    spec: MemberSpec,
    group: anyio.abc.TaskGroup,
) -> Teammate | None:
    """Let the main agent be at work as a member; None if it has none to work with any more.

    Raises ProngError if its leader has started it, and there is no such member.
    """
    agent, by_hand = parts.agent, base.place.options.member is None
    try:
        folder = await teams.mail.open_folder(spec.team)
        sign_in = partial(_sign_in, folder, spec.name, base.journal.session, by_hand=by_hand)
        await anyio.to_thread.run_sync(sign_in)
    except UnknownName as error:
        if not by_hand:
            raise
        agent.emit(Warned(text=f"{error}; this session goes on without a team"))
        return None
    base.journal.note(MAIN, MemberOf(spec))
    _entitle(parts, f"{spec.name} of {spec.team}")
    kept = base.noted.member or MemberKept(planning=spec.plan)
    record = MemberRecord(agent.conversation, kept)
    if kept.agreed:
        # Somebody has resumed it by hand: it is at work again.
        record.begin_again()
    with speaking(MAIN):
        teammate = await teams.join(agent, spec, record)
    events = parts.bus.subscribe(None)
    group.start_soon(_ask_leader, teammate, events)
    await group.start(_show, parts, teammate)
    return teammate


def _entitle(parts: Parts, title: str) -> None:
    """Let the session have a member's name, by which it is told from others in its pane."""
    if parts.journal.tally.title != title:
        parts.journal.note(MAIN, Titled(title))
        parts.agent.emit(TitleChanged(title=title))


def _sign_in(folder: TeamFolder, name: str, session: str, *, by_hand: bool) -> None:
    """Say that a member is at work in this process: at once, so that nobody sees half of it.

    Raises UnknownName if there is no such member any more.
    """
    known, pid = folder.team.member(name), os.getpid()
    if known is None or known.session not in {"", session}:
        raise UnknownName(f"the team {folder.name} has let {name} go")
    # Whoever resumes it does so in a terminal of their own.
    pane = {"pane": ""} if by_hand else {}
    run = known.runs + 1
    since = started(pid)
    folder.change(name, state="working", session=session, pid=pid, since=since, runs=run, **pane)


async def _show(
    parts: Parts, teammate: Teammate, *, task_status: anyio.abc.TaskStatus[None]
) -> None:
    """Show the session's events to the leader; without a socket it works unseen, and says so."""
    folder, name = teammate.membership.folder, teammate.membership.name
    try:
        path = new_socket_path(folder.path, name, VIEW)
        async with shown(parts.bus, parts.journal.session, path):
            task_status.started()
            await anyio.sleep_forever()
    except (OSError, ProngError) as error:
        parts.agent.emit(Warned(text=f"the leader cannot see what is done here: {error}"))
        task_status.started()


async def _ask_leader(teammate: Teammate, events: Subscription) -> None:
    """Ask the leader by mail what is asked here: whoever answers first has answered."""
    open_requests: set[str] = set()
    with speaking(MAIN), events:
        async for envelope in events:
            try:
                match envelope.event:
                    case PermissionAsked() as asked if not asked.plan:
                        open_requests.add(asked.request_id)
                        await _post(teammate, _request(asked))
                    case RequestSettled(request_id=request_id) if request_id in open_requests:
                        open_requests.discard(request_id)
                        await _post(teammate, _settled(envelope.event))
                    case _:
                        pass
            except (ProngError, OSError) as error:
                why = f"the leader could not be asked: {error}; answer here"
                teammate.agent.emit(Warned(text=why))


async def _post(teammate: Teammate, body: PermissionRequest | PermissionSettled) -> None:
    await teammate.mail.post(teammate.membership, LEADER, body)


def _settled(event: RequestSettled) -> PermissionSettled:
    return PermissionSettled(request_id=own_request(event.request_id), outcome=event.outcome)


def _request(asked: PermissionAsked) -> PermissionRequest:
    return PermissionRequest(
        request_id=own_request(asked.request_id),
        tool=asked.tool,
        title=asked.title,
        why=asked.why,
        suggestion=asked.suggestion,
        arguments=asked.arguments,
        preview=asked.preview,
    )
