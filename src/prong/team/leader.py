"""A main agent as the leader of a team: begins it, starts its members, ends it."""

from __future__ import annotations

import time
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from functools import partial

import anyio.to_thread

from prong.agent.speaker import must_be
from prong.entry import CallId
from prong.errors import NotPossibleNow, ProngError, UnknownName
from prong.event import MAIN, Warned
from prong.host.pane.choice import IN_PROCESS
from prong.journal.note import MemberSpec, TeamKept
from prong.journal.recorder import Recorder
from prong.journal.store import new_id
from prong.mail import EVERYONE, LEADER, Member, SharedTasks, Team, TeamFolder
from prong.team.led_team import DetachedMembers, LedTeam
from prong.team.membership import Membership
from prong.team.supervisor import Supervisor
from prong.team.team_list import use_list
from prong.team.team_mail import NOT_STORED, TeamMail
from prong.tools.delegate import SpawnArguments
from prong.tools.team_task import SharedTaskArguments
from prong.tools.teamwork import TeamMessageArguments
from prong.tools.tool import CallOutcome, Failed, done

COLOURS = ("blue", "green", "magenta", "cyan", "yellow", "red")
"""What members are told apart by, in turn."""

_NO_TEAM = "there is no team yet; TeamCreate begins one"


@dataclass(slots=True)
class Leader:
    """A main agent that may lead a team, one at a time."""

    supervisor: Supervisor
    mail: TeamMail
    recorder: Recorder
    session: str
    detached: DetachedMembers
    _led: LedTeam | None = field(default=None)

    leads = True

    @property
    def led(self) -> LedTeam | None:
        """Its team, if there is one; one that somebody has removed is none."""
        if self._led is not None and not self._stands(self._led):
            self._forget(self._led)
        return self._led

    def _stands(self, led: LedTeam) -> bool:
        """Whether a team is still there, and this session's: it is looked for at every use."""
        try:
            return not led.lost and led.membership.folder.team.leader == self.session
        except UnknownName:
            return False
        except ProngError:
            # What cannot be read now need not be gone.
            return True

    def _forget(self, led: LedTeam) -> None:
        led.lose()
        self.mail.leave(MAIN)
        self.mail.forget(led.membership.folder.name)
        self.recorder.note(MAIN, TeamKept())
        self._led = None

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
            await self._lead(await self._own_folder(kept.team), kept)
            await self.detached.take_up(self.must_lead())
        except UnknownName as error:
            warned = f"the team {kept.team} cannot be led any more: {error}"
            self.mail.emit(MAIN, Warned(text=warned))
            self.recorder.note(MAIN, TeamKept())
        except (ProngError, OSError) as error:
            # It is there, and can be led again once that is mended.
            warned = f"the team {kept.team} cannot be led now: {error}"
            self.mail.emit(MAIN, Warned(text=warned))

    async def _own_folder(self, team: str) -> TeamFolder:
        """Open the folder of a team; raises UnknownName if it is not this session's any more."""
        folder = await self.mail.open_folder(team)
        if folder.team.leader != self.session:
            raise UnknownName(f"another session leads {team} now")
        return folder

    async def settle(self, running: Container[str]) -> None:
        """Let those of this process's members count as ended that do not run again."""
        if self.led is None:
            return
        folder = self.led.membership.folder
        team = await self.led.read()
        for member in team.active:
            if not member.backend and member.name not in running:
                change = partial(folder.change, member.name, state="ended")
                await anyio.to_thread.run_sync(change)
                release = partial(SharedTasks.release, owner=member.name)
                await self.mail.use_tasks(self.led.membership, release)

    async def _lead(self, folder: TeamFolder, kept: TeamKept) -> None:
        membership = Membership(folder, LEADER, MAIN)
        await anyio.to_thread.run_sync(folder.lead)
        self._led = LedTeam(membership, self.mail, self.recorder, kept, self.detached)
        await self.mail.listen(self._led)

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
        except NOT_STORED as error:
            return Failed(str(error))
        return done(f"You lead the team {name}. TeamSpawn starts its members.")

    async def spawn(self, calls: Sequence[tuple[CallId, SpawnArguments]]) -> list[CallOutcome]:
        """Start members: those of this process as one fan-out, the others one after the other."""
        must_be(MAIN)
        found = [(call_id, args, await self._admit(args)) for call_id, args in calls]
        here = {
            call_id: self._spec(one, args)
            for call_id, args, one in found
            if isinstance(one, Member) and not one.backend
        }
        started: dict[CallId, CallOutcome] = {}
        if here:
            given = [(call_id, args) for call_id, args in calls if call_id in here]
            begun = await self.supervisor.delegate(MAIN, given, members=here)
            started = dict(zip((call_id for call_id, _ in given), begun, strict=True))
        outcomes: list[CallOutcome] = []
        for call_id, args, one in found:
            if isinstance(one, Failed):
                outcomes.append(one)
                continue
            outcome = started[call_id] if call_id in here else await self._start(one, args)
            if isinstance(outcome, Failed):
                await self._dismiss(one.name)
            outcomes.append(outcome)
        return outcomes

    def _spec(self, member: Member, args: SpawnArguments) -> MemberSpec:
        team = self.must_lead().membership.folder.name
        return MemberSpec(team=team, name=member.name, colour=member.colour, plan=args.plan)

    async def _start(self, member: Member, args: SpawnArguments) -> CallOutcome:
        """Start a member in a session of its own."""
        try:
            note = await self.detached.start(self.must_lead(), member, args)
        except (ProngError, OSError) as error:
            return Failed(f"{member.name} could not be started: {error}")
        where = f" ({note})" if note else ""
        return done(f"{member.name} works in a pane of {member.backend}{where}.")

    async def _admit(self, args: SpawnArguments) -> Member | Failed:
        """Take a member into the team before it is started: it needs a key and a box."""
        if self.led is None:
            return Failed(_NO_TEAM)
        folder = self.led.membership.folder
        if not self.supervisor.registry.is_free(args.name):
            return Failed(f"{args.name!r} is taken already; choose another name")
        try:
            backend = await self.detached.choose(args)
            team = await self.led.read()
            member = Member(
                name=args.name,
                colour=COLOURS[len(team.members) % len(COLOURS)],
                type=args.subagent_type or "",
                title=args.description,
                backend="" if backend == IN_PROCESS else backend,
                session="" if backend == IN_PROCESS else new_id(),
                started=time.time(),
            )
            return await anyio.to_thread.run_sync(folder.add, member)
        except NOT_STORED as error:
            return Failed(str(error))

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
            if member.state == "ended":
                return Failed(
                    f"{member.name} has ended, and only the user can wake it: by "
                    f"prong --resume {member.session}"
                )
            return await self._tell(self.led, args)
        except NOT_STORED as error:
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

    async def stop(self, name: str) -> CallOutcome | None:
        """End a member at once that works in a session of its own; None if it is not for that."""
        if (led := self.led) is None or not await self._is_detached(led, name):
            return None
        must_be(MAIN)
        try:
            await self.detached.end(led, name)
        except ProngError as error:
            return Failed(str(error))
        return done(f"{name} and everything it started was stopped, and its pane is closed.")

    async def output(self, name: str, *, wait: float) -> CallOutcome | None:
        """Tell what is new of a member in a session of its own; None if it is not for that."""
        if (led := self.led) is None or not await self._is_detached(led, name):
            return None
        try:
            return done(await self.detached.output(led, name, wait=wait))
        except (ProngError, OSError) as error:
            return Failed(str(error))

    async def tell(self, name: str, text: str) -> CallOutcome | None:
        """Write to a member that works in a session of its own; None if it is not for that."""
        if (led := self.led) is None or not await self._is_detached(led, name):
            return None
        return await self.send(TeamMessageArguments(to=name, message=text))

    async def _is_detached(self, led: LedTeam, name: str) -> bool:
        """Whether a member of that name works in a session of its own, as far as can be read."""
        try:
            member = (await led.read()).member(name)
        except ProngError:
            return False
        return member is not None and bool(member.backend)

    async def propose(self) -> CallOutcome:
        """Refuse: a leader's plan is the user's to approve."""
        raise AssertionError("a leader proposes by the session's own plan mode")

    async def task(self, args: SharedTaskArguments) -> CallOutcome:
        """Do something with the shared list."""
        if self.led is None:
            return Failed(_NO_TEAM)
        return await use_list(self.mail, self.led.membership, args)

    async def delete(self, *, force: bool = False) -> CallOutcome:
        """End the team, if nobody of it is at work; by force after all were ended at once."""
        if (led := self.led) is None:
            return Failed(_NO_TEAM)
        must_be(MAIN)
        folder = led.membership.folder
        try:
            for member in (await led.read()).living if force else ():
                await self._end(led, member)
            held = await anyio.to_thread.run_sync(folder.inventory)
            if not (await led.read()).living:
                await self.detached.sweep(led)
            await anyio.to_thread.run_sync(folder.delete)
        except ProngError as error:
            return Failed(str(error))
        self._forget(led)
        return done(f"The team {folder.name} is gone, with {held}.")

    async def _end(self, led: LedTeam, member: Member) -> None:
        if member.backend:
            await self.detached.end(led, member.name)
        else:
            await self.supervisor.services.board.stop(member.name)
