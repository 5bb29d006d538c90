"""The members of a led team that work in sessions of their own, in panes of the user's terminal.

They are started by a file and a pane, seen by their events, and asked and answered by mail. Whether
one is alive is looked for every second: whatever way it ends, its leader is told once, what it had
asked needs no answer any more, and the tasks it had taken are free. One that is resumed by hand is
seen again, and its next end is another.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import anyio
import anyio.abc
import anyio.to_thread
import msgspec
from msgspec.structs import replace

from prong.agent.speaker import speaking
from prong.cost.receipt import Receipt, issued
from prong.entry import CallId
from prong.errors import NotPossibleNow, ProngError, UnknownName
from prong.event import MAIN, AgentStarted, PermissionAsked, Warned
from prong.host.pane import PaneBackend, PaneSetup, PaneSpec, pane_colour, sweep
from prong.host.pane.choice import IN_PROCESS, choose
from prong.host.pane.factory import make_backend
from prong.host.pane.survey import survey
from prong.host.process_end import end_process
from prong.ids import AgentPath, RequestId, TaskId, below
from prong.journal import store
from prong.journal.note import AskedByMember, MemberSpec, ReceiptClosed
from prong.journal.replay import read_journal
from prong.mail import LEADER, Member, PermissionResponse, SharedTasks, TeamFolder
from prong.mail.socket_folder import VIEW, socket_paths
from prong.session.foundation import Foundation
from prong.session.member_events import MemberEvents
from prong.session.member_origin import make_start, unfit
from prong.session.member_output import MemberOutput
from prong.session.member_receipt import member_receipt
from prong.session.member_start import drop_start, write_start
from prong.system.identity import is_alive
from prong.system.standard_stream import is_terminal
from prong.team.led_team import LedTeam
from prong.team.received import Received
from prong.team.registry import Registry
from prong.tools.delegate import SpawnArguments

_PROGRAM = (sys.executable, "-P", "-m", "prong")
_LOOK = 1.0
"""Seconds between two looks whether a member is alive."""
_SLOW = 60.0
"""Seconds in which a member must have said that it is there."""


class _PaneMember(msgspec.Struct):
    """A member that is looked after."""

    member: Member
    """As it was when it was last looked at."""
    events: MemberEvents
    why: str = ""
    """Why it ends, if that is known before it has."""
    failed: bool = False
    """Whether its program ended before it had joined: its pane says why, and stays."""
    ended: anyio.Event = msgspec.field(default_factory=anyio.Event)


class PaneMembers:
    """Starts members in panes, watches them, and ends them."""

    def __init__(self, base: Foundation, registry: Registry, group: anyio.abc.TaskGroup) -> None:
        """Start nothing yet."""
        self._base = base
        self._registry = registry
        self._group = group
        self._watched: dict[str, _PaneMember] = {}
        self._asked: dict[str, anyio.CancelScope] = {}
        self._output = MemberOutput(base.place.cwd, base.place.store)
        past = base.replay.each(ReceiptClosed) if base.replay is not None else ()
        self._receipts = {agent: note.value for agent, note in past if note.value.session}

    async def choose(self, args: SpawnArguments) -> str:
        """Say where a member is to run: in this process, or by which back-end.

        What a session of its own could not honour in full runs here, unless a back-end is named.
        Raises UsageError if the one that is wanted cannot be used, or none can.
        """
        values, wanted = self._base.place.settings.values.team, args.backend
        why = "" if wanted == IN_PROCESS else unfit(self._base.place, args)
        if why and wanted is not None:
            raise NotPossibleNow(f"{args.name} cannot run by {wanted}: {why}; leave out `backend`")
        if why:
            return IN_PROCESS
        interactive = self._base.questions.attended and is_terminal(sys.stdin)
        facts = await survey(self._base.host, interactive=interactive, command=values.command)
        return choose(facts, wanted or values.backend).name

    async def start(self, led: LedTeam, member: Member, args: SpawnArguments) -> str:
        """Start a member; gives what is to be told of where it is.

        Raises ProngError, OSError; nothing is left behind then.
        """
        folder = led.membership.folder
        spec = MemberSpec(team=folder.name, name=member.name, colour=member.colour, plan=args.plan)
        start = await make_start(self._base, spec, member.session, args)
        await anyio.to_thread.run_sync(write_start, folder, start)
        try:
            opened = await self._backend(folder, member.backend).open(
                PaneSpec(
                    member=member.name,
                    argv=(*_PROGRAM, "--member", f"{spec.team}/{spec.name}"),
                    cwd=self._base.place.cwd,
                    title=f"{member.name}: {args.description}",
                    colour=pane_colour(member.colour),
                    env={"PRONG_HOME": str(self._base.place.store)},
                )
            )
        except BaseException:
            drop_start(folder, member.name)
            raise
        change = partial(folder.change, member.name, pane=opened.id)
        self._watch(led, await anyio.to_thread.run_sync(change), anew=True)
        return opened.note

    def _backend(self, folder: TeamFolder, name: str) -> PaneBackend:
        values = self._base.place.settings.values.team
        setup = PaneSetup(
            host=self._base.host,
            team=folder.name,
            leader=self._base.journal.session,
            beside=values.window,
            command=values.command,
        )
        return make_backend(name, setup)

    async def take_up(self, led: LedTeam) -> None:
        """See to the members of a team that is led again; panes that nobody is in are closed.

        Of who has ended in the meantime the leader is told now.
        """
        team = await led.read()
        detached = [one for one in team.members if one.backend]
        for member in detached:
            if member.state != "ended" or not self._is_told(member):
                self._watch(led, member, anew=False)
        for asked in led.kept.asked:
            self.ask(led, asked)
        await self.sweep(led, keep=[one.name for one in detached if one.state != "ended"])

    async def sweep(self, led: LedTeam, keep: Sequence[str] = ()) -> None:
        """Close the panes that are left of members that are not to be kept; a failure is said."""
        team = await led.read()
        for name in {one.backend for one in team.members if one.backend}:
            try:
                await sweep(self._backend(led.membership.folder, name), keep=keep)
            except (ProngError, OSError) as error:
                why = f"panes of the team {team.name} could not be looked at: {error}"
                self._base.emit(Warned(text=why))

    async def look(self, led: LedTeam) -> None:
        """See to members that were resumed by hand."""
        for member in (await led.read()).active:
            # One that is just being started is watched as soon as it has a pane.
            if member.backend and member.state != "starting":
                self._watch(led, member, anew=False)

    def _watch(self, led: LedTeam, member: Member, *, anew: bool) -> None:
        if member.name in self._watched:
            return
        begins = AgentStarted(
            kind="typed" if member.type else "fork",
            agent_type=member.type,
            model=self._base.chosen.model,
            parent=MAIN,
            title=member.title,
            task_id=TaskId(member.name),
            member=member.name,
            colour=member.colour,
            run=max(1, member.runs),
            resumed=not anew,
            session=member.session,
        )
        events = MemberEvents(_path(member.name), begins, self._base.bus.emit)
        watched = self._watched[member.name] = _PaneMember(member, events)
        self._group.start_soon(partial(self._see, led, watched, anew=anew))

    async def _see(self, led: LedTeam, watched: _PaneMember, *, anew: bool) -> None:
        """Show what a member does for as long as it lives, and then see to its end."""
        folder, name = led.membership.folder, watched.member.name
        why = ""
        async with anyio.create_task_group() as group:
            sockets = socket_paths(folder.path, name, VIEW)
            group.start_soon(partial(self._follow, watched.events, sockets, anew=anew))
            gone = await self._until_gone(folder, watched)
            why = watched.why or gone
            group.cancel_scope.cancel()
        try:
            await self._bury(led, watched, why)
        except (ProngError, OSError) as error:
            self._base.emit(Warned(text=f"after {name} had ended: {error}"))
        finally:
            watched.events.end(why)
            watched.ended.set()
            del self._watched[name]

    async def _follow(self, events: MemberEvents, sockets: Sequence[Path], *, anew: bool) -> None:
        """Show what a member does; one that shows nonsense is only seen no more."""
        try:
            await events.follow(sockets, anew=anew)
        except ProngError as error:
            self._base.emit(Warned(text=str(error)))

    def close(self) -> None:
        """Show no member any more: they work on, and are found again when the team is."""
        for watched in self._watched.values():
            watched.events.end("the session that leads it was closed; it works on")

    async def _until_gone(self, folder: TeamFolder, watched: _PaneMember) -> str:
        """Wait for a member's end; gives how it ended, empty if it left in order."""
        name = watched.member.name
        while True:
            try:
                member = await anyio.to_thread.run_sync(lambda: folder.team.member(name))
            except UnknownName as error:
                return str(error)
            except (ProngError, OSError):
                # What cannot be read now tells nothing of the member.
                member = watched.member
            if member is None:
                return "it was let go"
            watched.member = member
            if member.state == "ended":
                return ""
            if member.pid and not is_alive(member.pid, member.since):
                return f"its process {member.pid} is gone"
            if not member.pid and (why := await self._unborn(folder, watched)):
                return why
            await anyio.sleep(_LOOK)

    async def _unborn(self, folder: TeamFolder, watched: _PaneMember) -> str:
        """Say why a member will not join that has not joined yet; empty if it may."""
        member = watched.member
        try:
            panes = await self._backend(folder, member.backend).panes()
        except (ProngError, OSError):
            panes = []
        pane = next((one for one in panes if one.id == member.pane), None)
        if pane is not None and pane.dead:
            watched.failed = True
            return f"before it had joined the team, {pane.ending}; its pane says why"
        if time.time() - member.started > _SLOW:
            return f"it said nothing for {_SLOW:g} seconds after its start"
        return ""

    async def _bury(self, led: LedTeam, watched: _PaneMember, why: str) -> None:
        """Let a member be at work no longer, and have the leader told so once."""
        folder, member = led.membership.folder, watched.member
        watched.events.begin()
        await self._account(member, "killed" if why else "completed")
        led.forget_asked(member.name)
        led.forget_plan(member.name)
        for key in [one for one in self._asked if one.startswith(f"{member.name}:")]:
            self._asked[key].cancel()
        with suppress(UnknownName):
            # A team that is gone has neither tasks nor states.
            await self._release(led, member)
        if not watched.failed:
            await self._shut(folder, member)
        text = f"{member.name} has ended{f': {why}' if why else ''}. Its tasks are free again."
        self._tell(led, member, text)

    async def _release(self, led: LedTeam, member: Member) -> None:
        """Let a member count as ended and its tasks be free, unless it has begun another run."""
        folder = led.membership.folder
        now = await anyio.to_thread.run_sync(lambda: folder.team.member(member.name))
        if now is not None and now.runs == member.runs:
            release = partial(SharedTasks.release, owner=member.name, by=LEADER)
            await led.mail.use_tasks(led.membership, release)
            await anyio.to_thread.run_sync(folder.end, member.name, member.runs)

    async def _shut(self, folder: TeamFolder, member: Member) -> None:
        """Close a member's pane, and see that its process is gone with all that it started."""
        if member.pane:
            await self._backend(folder, member.backend).close(member.pane)
        if member.pid:
            await end_process(member.pid, member.since)

    async def _account(self, member: Member, status: str) -> None:
        """Store and tell the receipt of a member that has ended."""
        found = await anyio.to_thread.run_sync(self._receipt, member)
        if found is None:
            return
        receipt = replace(found, status=status, delivered="notice")
        if self._receipts.get(receipt.agent) != receipt:
            self._base.journal.note(receipt.agent, ReceiptClosed(receipt))
            self._receipts[receipt.agent] = receipt
            self._base.bus.emit(receipt.agent, issued(receipt))

    def receipts(self) -> list[Receipt]:
        """Give the receipts of all members so far; of those at work by what they have paid."""
        found = [self._receipt(one.member) for one in self._watched.values()]
        live = {receipt.agent: receipt for receipt in found if receipt is not None}
        return list((self._receipts | live).values())

    def _receipt(self, member: Member) -> Receipt | None:
        """Make a member's receipt; None if there is nothing yet to be reckoned from."""
        place, client = self._base.place, self._registry.agents[MAIN].client
        try:
            own = read_journal(store.location(place.cwd, member.session, place.store))
            leader = read_journal(self._base.journal.path)
        except (ProngError, OSError):
            return None
        if MAIN not in own.agents:
            return None
        head = own.agents[MAIN].head
        price = self._registry.prices.of(head.model)
        path = _path(member.name)
        return member_receipt(path, own, leader, rule=client.rule(head), price=price)

    def _is_told(self, member: Member) -> bool:
        return self._base.board.delivery.outbox.knows(_end_id(member))

    def _tell(self, led: LedTeam, member: Member, text: str) -> None:
        outbox, box = self._base.board.delivery.outbox, led.membership.box
        self._base.board.delivery.receive(
            Received(
                id=_end_id(member),
                agent=MAIN,
                sender=member.name,
                box=box,
                cursor=outbox.cursor(box) or (0, 0, 0),
                text=text,
            )
        )

    def ask(self, led: LedTeam, asked: AskedByMember) -> None:
        """Put what a member wants before whoever answers for the leader."""
        self._group.start_soon(self._ask, led, asked)

    async def _ask(self, led: LedTeam, asked: AskedByMember) -> None:
        path, key = _path(asked.member), f"{asked.member}:{asked.request_id}"
        question = PermissionAsked(
            request_id=RequestId(key),
            call_id=CallId(""),
            tool=asked.tool,
            title=asked.title,
            why=asked.why,
            suggestion=asked.suggestion,
            # Rules for later sessions are kept here, where they were asked for.
            file=self._base.questions.file_for(asked.suggestion),
            arguments=asked.arguments,
            preview=asked.preview,
        )
        if (watched := self._watched.get(asked.member)) is not None:
            watched.events.begin()
        emit = partial(self._base.bus.emit, path)
        answer = None
        with anyio.CancelScope() as self._asked[key]:
            answer = await self._base.questions.ask(path, question, emit)
        del self._asked[key]
        if answer is None:
            return
        body = PermissionResponse(
            request_id=asked.request_id,
            allow=answer.allow,
            always=bool(answer.remember),
            text=answer.text,
        )
        try:
            with speaking(MAIN):
                await led.mail.post(led.membership, asked.member, body)
            led.forget_asked(asked.member, asked.request_id)
        except (ProngError, OSError) as error:
            self._base.emit(Warned(text=f"{asked.member} could not be answered: {error}"))

    def settle(self, member: str, request_id: str) -> None:
        """Take a question back that was answered elsewhere."""
        if (scope := self._asked.get(f"{member}:{request_id}")) is not None:
            scope.cancel()

    async def end(self, led: LedTeam, name: str) -> None:
        """End a member at once, with all that it has started.

        Raises UsageError if there is no such member at work in a session of its own, ProngError.
        """
        member = await self._must_have(led, name)
        if member.state == "ended":
            raise NotPossibleNow(f"{name} has ended already")
        if (watched := self._watched.get(name)) is not None:
            watched.why = "it was stopped"
        await self._shut(led.membership.folder, member)

    async def output(self, led: LedTeam, name: str, *, wait: float) -> str:
        """Tell what is new of a member, having waited so long for its end; raises ProngError."""
        if (watched := self._watched.get(name)) is not None:
            with anyio.move_on_after(wait):
                await watched.ended.wait()
        member = await self._must_have(led, name)
        return await anyio.to_thread.run_sync(self._output.read, member)

    async def arrange(self, led: LedTeam, name: str, action: str) -> str:
        """Take a member's pane out of sight, or bring it back; says what was done.

        Raises UsageError if there is no such member in a pane, ProngError.
        """
        member = await self._must_have(led, name)
        if not member.pane:
            raise NotPossibleNow(f"{name} was resumed by hand and has no pane of ours")
        backend = self._backend(led.membership.folder, member.backend)
        await (backend.hide if action == "hide" else backend.show)(member.pane)
        return f"{name} is {'out of' if action == 'hide' else 'in'} sight"

    async def _must_have(self, led: LedTeam, name: str) -> Member:
        member = (await led.read()).member(name)
        if member is None or not member.backend:
            raise UnknownName(f"there is no member {name!r} in a pane")
        return member


def _path(name: str) -> AgentPath:
    return below(MAIN, TaskId(name))


def _end_id(member: Member) -> str:
    """Name the notice of a member's end: each of its runs has one."""
    return f"end-{member.name}-{member.session}-{member.runs}"
