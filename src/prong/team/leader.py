"""A main agent as the leader of a team: begins it, starts its members, ends it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import anyio.to_thread

from prong.agent.speaker import must_be
from prong.entry import CallId
from prong.errors import NotPossibleNow, ProngError, UsageError
from prong.event import MAIN, Warned
from prong.journal.note import MemberSpec, TeamKept
from prong.journal.recorder import Recorder
from prong.mail import EVERYONE, LEADER, Member, Team, TeamFolder
from prong.team.led_team import LedTeam
from prong.team.membership import Membership
from prong.team.supervisor import Supervisor
from prong.team.team_list import use_list
from prong.team.team_mail import TeamMail
from prong.tools.delegate import SpawnArguments
from prong.tools.team_task import SharedTaskArguments
from prong.tools.teamwork import TeamMessageArguments
from prong.tools.tool import CallOutcome, Failed, done

COLOURS = ("blue", "green", "magenta", "cyan", "yellow", "red")
"""What members are told apart by, in turn."""
IN_PROCESS = "in-process"

_NO_TEAM = "there is no team yet; TeamCreate begins one"


@dataclass(slots=True)
class Leader:
    """A main agent that may lead a team, one at a time."""

    supervisor: Supervisor
    mail: TeamMail
    recorder: Recorder
    session: str
    led: LedTeam | None = field(default=None)
    """Its team, if there is one."""

    leads = True

    def must_lead(self) -> LedTeam:
        """Give the team; raises NotPossibleNow if there is none."""
        if self.led is None:
            raise NotPossibleNow(_NO_TEAM)
        return self.led

    async def take_up(self, kept: TeamKept) -> None:
        """Lead the team again that a stored session led; that it cannot is said."""
        if not kept.team:
            return
        try:
            folder = await self.mail.open_folder(kept.team)
            if folder.team.leader != self.session:
                raise NotPossibleNow(f"another session leads {kept.team} now")
            await self._lead(folder, kept)
        except (ProngError, OSError) as error:
            warned = f"the team {kept.team} cannot be led any more: {error}"
            self.mail.emit(MAIN, Warned(text=warned))
            self.recorder.note(MAIN, TeamKept())

    async def _lead(self, folder: TeamFolder, kept: TeamKept) -> None:
        led = LedTeam(Membership(folder, LEADER, MAIN), self.mail, self.recorder, kept)
        self.led = led
        await self.mail.listen(led)

    async def create(self, name: str, description: str) -> CallOutcome:
        """Begin a team."""
        if self.led is not None:
            led = self.led.membership.folder.name
            return Failed(f"you lead {led} already; end it by TeamDelete before you begin another")
        must_be(MAIN)
        make = partial(
            TeamFolder.create, self.mail.home, name, session=self.session, description=description
        )
        try:
            await anyio.to_thread.run_sync(make)
            kept = TeamKept(team=name)
            self.recorder.note(MAIN, kept)
            await self._lead(await self.mail.open_folder(name), kept)
        except UsageError as error:
            return Failed(str(error))
        return done(f"You lead the team {name}. TeamSpawn starts its members.")

    async def spawn(self, calls: Sequence[tuple[CallId, SpawnArguments]]) -> list[CallOutcome]:
        """Start members, as one fan-out."""
        must_be(MAIN)
        found = [await self._admit(args) for _, args in calls]
        given = [
            (call_id, args, member)
            for (call_id, args), member in zip(calls, found, strict=True)
            if isinstance(member, MemberSpec)
        ]
        started = iter(
            await self.supervisor.delegate(
                MAIN,
                [(call_id, args) for call_id, args, _ in given],
                members={call_id: member for call_id, _, member in given},
            )
            if given
            else ()
        )
        outcomes: list[CallOutcome] = []
        for member in found:
            outcome = member if isinstance(member, Failed) else next(started)
            if isinstance(member, MemberSpec) and isinstance(outcome, Failed):
                await self._dismiss(member.name)
            outcomes.append(outcome)
        return outcomes

    async def _admit(self, args: SpawnArguments) -> MemberSpec | Failed:
        """Take a member into the team before it is started: it needs a key and a box."""
        if self.led is None:
            return Failed(_NO_TEAM)
        if args.backend not in {None, IN_PROCESS}:
            return Failed(f"there is no back-end {args.backend!r} here; leave it out")
        folder = self.led.membership.folder
        if not self.supervisor.registry.is_free(args.name):
            return Failed(f"{args.name!r} is taken already; choose another name")
        try:
            team = await self.led.read()
            colour = COLOURS[len(team.members) % len(COLOURS)]
            member = Member(
                name=args.name,
                colour=colour,
                type=args.subagent_type or "",
                started=time.time(),
            )
            await anyio.to_thread.run_sync(folder.add, member)
        except UsageError as error:
            return Failed(str(error))
        return MemberSpec(team=folder.name, name=args.name, colour=colour, plan=args.plan)

    async def _dismiss(self, name: str) -> None:
        assert self.led is not None
        await anyio.to_thread.run_sync(self.led.membership.folder.remove, name)

    async def send(self, args: TeamMessageArguments) -> CallOutcome | None:
        """Send a message, an answer or a request; None if it is not for a member at work."""
        if self.led is None:
            return None
        if args.to == LEADER:
            return Failed("you are the leader")
        try:
            team = await self.led.read()
            member = team.member(args.to)
            if args.to == EVERYONE:
                return await self._broadcast(self.led, team, args)
            if member is None or (member.state == "ended" and not member.backend):
                # An agent that has ended goes on by the way of all agents.
                return None
            return await self._tell(self.led, args)
        except UsageError as error:
            return Failed(str(error))

    async def _broadcast(self, led: LedTeam, team: Team, args: TeamMessageArguments) -> CallOutcome:
        if args.shutdown:
            for member in team.active:
                await led.ask_to_end(member.name, args.message)
            return done(f"Asked to end: {', '.join(one.name for one in team.active) or 'nobody'}.")
        if args.approve is not None or args.request_id:
            return Failed("a request is answered to the one who asked; name it")
        if not args.message.strip():
            return Failed("the message is empty")
        await led.tell(EVERYONE, args.message)
        return done("Sent to all.")

    async def _tell(self, led: LedTeam, args: TeamMessageArguments) -> CallOutcome:
        name = args.to
        if args.shutdown:
            request_id = await led.ask_to_end(name, args.message)
            return done(f"{name} is asked to end ({request_id}); its answer comes as a message.")
        if args.approve is not None:
            await led.answer_plan(
                name, approve=args.approve, feedback=args.message, request_id=args.request_id
            )
            verdict = "approved" if args.approve else "not approved"
            return done(f"{name} is told that its plan is {verdict}.")
        if args.request_id:
            return Failed("say whether you approve")
        if not args.message.strip():
            return Failed("the message is empty")
        await led.tell(name, args.message)
        return done(f"Sent to {name}.")

    async def propose(self) -> CallOutcome:
        """Refuse: a leader's plan is the user's to approve."""
        raise AssertionError("a leader proposes by the session's own plan mode")

    async def task(self, args: SharedTaskArguments) -> CallOutcome:
        """Do something with the shared list."""
        if self.led is None:
            return Failed(_NO_TEAM)
        return await use_list(self.mail, self.led.membership, args)

    async def delete(self) -> CallOutcome:
        """End the team, if nobody of it is at work."""
        if self.led is None:
            return Failed(_NO_TEAM)
        must_be(MAIN)
        folder = self.led.membership.folder
        try:
            await anyio.to_thread.run_sync(folder.delete)
        except UsageError as error:
            return Failed(str(error))
        self.mail.leave(MAIN)
        self.mail.forget(folder.name)
        self.led = None
        self.recorder.note(MAIN, TeamKept())
        return done(f"The team {folder.name} is gone.")
