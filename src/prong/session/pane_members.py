"""The members of a led team that work in sessions of their own, in panes of the user's terminal.

They are started by a file and a pane, seen by their events, and asked and answered by mail. Whether
one is alive is looked for every second: whatever way it ends, its leader is told once, what it had
asked needs no answer any more, and the tasks it had taken are free.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import anyio
import anyio.abc
import anyio.to_thread
from msgspec.structs import replace

from prong.agent.answer import unanswered
from prong.agent.speaker import speaking
from prong.agent.spec import AgentType
from prong.config.option import Options
from prong.entry import CallId
from prong.errors import NotPossibleNow, ProngError, UnknownName
from prong.event import MAIN, PermissionAsked, Warned
from prong.host.pane import PaneBackend, PaneSetup, PaneSpec, sweep
from prong.host.pane.choice import IN_PROCESS, choose
from prong.host.pane.factory import make_backend
from prong.host.pane.survey import survey
from prong.ids import RequestId, TaskId, below
from prong.journal import store
from prong.journal.branch import branch
from prong.journal.note import AskedByMember, MemberSpec
from prong.journal.replay import read_journal
from prong.mail import LEADER, Member, PermissionResponse, SharedTasks, TeamFolder
from prong.mail.socket_folder import socket_paths
from prong.prompt import Prompt
from prong.session.entrance import opened_as
from prong.session.foundation import Foundation
from prong.session.member_events import MemberEvents
from prong.session.member_session import VIEW
from prong.session.member_start import MemberStart, drop_start, plain_options, write_start
from prong.team.led_team import LedTeam
from prong.team.member_record import member_brief
from prong.team.received import Received
from prong.text import load_text
from prong.tools.delegate import SpawnArguments
from prong.wire import dialect

_PROGRAM = (sys.executable, "-P", "-m", "prong")
_OF_TERMINAL = re.compile(
    r"(TERM|TERMINFO|COLORTERM|COLUMNS|LINES|TMUX|WINDOWID|PWD|OLDPWD|SHLVL|SSH_TTY|_)$"
    r"|(TERM_PROGRAM|TERM_SESSION|TMUX_|ITERM_|WEZTERM_|KITTY_|VTE_|XTERM_)"
)
"""Variables that speak of the terminal one sits at, which a pane has of its own."""
_LOOK = 1.0
"""Seconds between two looks whether a member is alive."""
_SLOW = 60.0
"""Seconds in which a member must have said that it is there."""


class PaneMembers:
    """Starts members in panes, watches them, and ends them."""

    def __init__(self, base: Foundation, group: anyio.abc.TaskGroup) -> None:
        """Start nothing yet."""
        self._base = base
        self._group = group
        self._watched: dict[str, MemberEvents] = {}
        self._asked: dict[str, anyio.CancelScope] = {}

    async def choose(self, args: SpawnArguments) -> str:
        """Say where a member is to run: in this process, or by which back-end.

        What a session of its own could not honour in full runs here, unless a back-end is named.
        Raises UsageError if the one that is wanted cannot be used, or none can.
        """
        values, wanted = self._base.place.settings.values.team, args.backend
        unfit = "" if wanted == IN_PROCESS else self._unfit(args)
        if unfit and wanted is not None:
            raise NotPossibleNow(
                f"{args.name} cannot run by {wanted}: {unfit}; leave out `backend`"
            )
        if unfit:
            return IN_PROCESS
        interactive = self._base.questions.attended and sys.stdin.isatty()
        facts = await survey(self._base.host, interactive=interactive, command=values.command)
        return choose(facts, wanted or values.backend).name

    def _unfit(self, args: SpawnArguments) -> str:
        """Say why a member cannot be a session of its own; empty if it can."""
        options, kind = (
            self._base.place.options,
            self._base.place.types.get(args.subagent_type or ""),
        )
        if args.isolation:
            return "members with a worktree run in the leader's process"
        if options.hooks or any(callable(one) for one in options.tools or ()):
            return "functions that are tools or hooks cannot go to another process"
        if args.subagent_type is None or kind is None:
            return ""
        plain = AgentType(name=kind.name, description=kind.description, prompt=kind.prompt)
        same = {"model", "max_turns", "effort", "initial_prompt", "background", "source", "path"}
        fields = set(AgentType.__struct_fields__) - same
        if any(getattr(kind, name) != getattr(plain, name) for name in fields):
            return f"the type {kind.name} has tools, rules or hooks of its own"
        return ""

    async def start(self, led: LedTeam, member: Member, args: SpawnArguments) -> str:
        """Start a member; gives what is to be told of where it is.

        Raises ProngError, OSError; nothing is left behind then.
        """
        folder = led.membership.folder
        spec = MemberSpec(team=folder.name, name=member.name, colour=member.colour, plan=args.plan)
        start = await self._start(spec, member.session, args)
        await anyio.to_thread.run_sync(write_start, folder, start)
        try:
            opened = await self._backend(folder, member.backend).open(
                PaneSpec(
                    member=member.name,
                    argv=(*_PROGRAM, "--member", f"{spec.team}/{spec.name}"),
                    cwd=self._base.place.cwd,
                    title=f"{member.name}: {args.description}",
                    env={"PRONG_HOME": str(self._base.place.store)},
                )
            )
        except BaseException:
            drop_start(folder, member.name)
            raise
        change = partial(folder.change, member.name, pane=opened.id)
        await anyio.to_thread.run_sync(change)
        self._watch(led, member.name, member.session, anew=True)
        return opened.note

    async def _start(self, spec: MemberSpec, session: str, args: SpawnArguments) -> MemberStart:
        place = self._base.place
        env = {name: value for name, value in place.env.items() if not _OF_TERMINAL.match(name)}
        options = replace(
            place.options,
            resume=None,
            continue_last=False,
            fork_session=False,
            session_id=session,
            name=None,
            team=None,
            member=spec,
            json_schema=None,
            env=None,
            cwd=place.cwd,
            store=str(place.store),
        )
        if args.subagent_type is None:
            await self._copy(session)
            options = replace(options, resume=session, session_id=None)
            brief = member_brief(spec, args.prompt, forked=True)
        else:
            kind = self._kind(args.subagent_type)
            options = _typed(options, kind, args.model)
            said = _joined(kind.initial_prompt, args.prompt)
            brief = member_brief(spec, said, forked=False)
        return MemberStart(spec=spec, given=plain_options(options), env=env, brief=brief)

    def _kind(self, name: str) -> AgentType:
        kind = self._base.place.types.get(name)
        if kind is None:
            known = ", ".join(self._base.place.types)
            raise UnknownName(f"there is no agent type {name!r}; there are: {known}")
        return kind

    async def _copy(self, session: str) -> None:
        """Copy the conversation as it stood before the reply that starts the member."""
        journal, place = self._base.journal, self._base.place
        await journal.sync()
        replay = await anyio.to_thread.run_sync(read_journal, journal.path)
        prompt = replay.agents[MAIN]
        while unanswered(prompt) and prompt.tip is not None:
            prompt = Prompt(prompt.head, prompt.tip.parent)
        lines = {
            one.prompt.tip.digest: one.seq
            for one in replay.entries
            if one.agent == MAIN and one.prompt.tip is not None
        }
        if prompt.tip is None or prompt.tip.digest not in lines:
            raise NotPossibleNow("there is no conversation yet that a fork could go on from")
        make = partial(
            branch,
            journal.path,
            store.location(place.cwd, session, place.store),
            opened_as(place, session),
            dialect,
            upto=lines[prompt.tip.digest],
        )
        await anyio.to_thread.run_sync(make)

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
        """See to the members of a team that is led again; panes that nobody is in are closed."""
        team = await led.read()
        there = [one for one in team.active if one.backend]
        for member in there:
            self._watch(led, member.name, member.session, anew=False)
        for asked in led.kept.asked:
            self.ask(led, asked)
        for name in {one.backend for one in team.members if one.backend}:
            try:
                backend = self._backend(led.membership.folder, name)
                await sweep(backend, keep=[one.name for one in there])
            except (ProngError, OSError) as error:
                why = f"panes of the team {team.name} could not be looked at: {error}"
                self._base.emit(Warned(text=why))

    def _watch(self, led: LedTeam, name: str, session: str, *, anew: bool) -> None:
        self._group.start_soon(partial(self._see, led, name, session, anew=anew))

    async def _see(self, led: LedTeam, name: str, session: str, *, anew: bool) -> None:
        """Show what a member does for as long as it lives, and then see to its end."""
        folder = led.membership.folder
        path = below(MAIN, TaskId(name))
        events = self._watched[name] = MemberEvents(path, session, self._base.bus.emit)
        why = ""
        async with anyio.create_task_group() as group:
            sockets = socket_paths(folder.path, name, VIEW)
            group.start_soon(partial(self._follow, events, sockets, anew=anew))
            why = await self._until_gone(folder, name)
            group.cancel_scope.cancel()
        events.lose()
        try:
            await self._bury(led, name, why)
        except (ProngError, OSError) as error:
            self._base.emit(Warned(text=f"after {name} had ended: {error}"))

    async def _follow(self, events: MemberEvents, sockets: Sequence[Path], *, anew: bool) -> None:
        """Show what a member does; one that shows nonsense is only seen no more."""
        try:
            await events.follow(sockets, anew=anew)
        except ProngError as error:
            self._base.emit(Warned(text=str(error)))

    def close(self) -> None:
        """Show no member any more: they work on, and are found again when the team is."""
        for events in self._watched.values():
            events.lose()

    async def _until_gone(self, folder: TeamFolder, name: str) -> str:
        """Wait for a member's end; gives how it ended, empty if it left in order."""
        while True:
            await anyio.sleep(_LOOK)
            try:
                member = await anyio.to_thread.run_sync(lambda: folder.team.member(name))
            except (ProngError, OSError) as error:
                return str(error)
            if member is None:
                return "it was let go"
            if member.state == "ended":
                return ""
            if member.pid and not _lives(member.pid):
                return f"its process {member.pid} is gone"
            if not member.pid and time.time() - member.started > _SLOW:
                return f"it said nothing for {_SLOW:g} seconds after its start"

    async def _bury(self, led: LedTeam, name: str, why: str) -> None:
        """Let a member be at work no longer, and have the leader told so once."""
        folder = led.membership.folder
        member = await anyio.to_thread.run_sync(lambda: folder.team.member(name))
        led.forget_asked(name)
        led.forget_plan(name)
        for key in [one for one in self._asked if one.startswith(f"{name}:")]:
            self._asked[key].cancel()
        if member is not None:
            release = partial(SharedTasks.release, owner=name, by=LEADER)
            await led.mail.use_tasks(led.membership, release)
            await anyio.to_thread.run_sync(partial(folder.change, name, state="ended"))
            await self._backend(folder, member.backend).close(member.pane)
        text = f"{name} has ended{f': {why}' if why else ''}. Its tasks are free again."
        self._tell(led, f"{name}-{member.session if member else ''}", name, text)

    def _tell(self, led: LedTeam, key: str, sender: str, text: str) -> None:
        outbox, box = self._base.board.delivery.outbox, led.membership.box
        self._base.board.delivery.receive(
            Received(
                id=f"end-{key}",
                agent=MAIN,
                sender=sender,
                box=box,
                cursor=outbox.cursor(box) or (0, 0, 0),
                text=text,
            )
        )

    def ask(self, led: LedTeam, asked: AskedByMember) -> None:
        """Put what a member wants before whoever answers for the leader."""
        self._group.start_soon(self._ask, led, asked)

    async def _ask(self, led: LedTeam, asked: AskedByMember) -> None:
        path, key = below(MAIN, TaskId(asked.member)), f"{asked.member}:{asked.request_id}"
        question = PermissionAsked(
            request_id=RequestId(key),
            call_id=CallId(""),
            tool=asked.tool,
            title=asked.title,
            why=asked.why,
            arguments=asked.arguments,
            preview=asked.preview,
        )
        emit = partial(self._base.bus.emit, path)
        answer = None
        with anyio.CancelScope() as self._asked[key]:
            answer = await self._base.questions.ask(path, question, emit)
        del self._asked[key]
        if answer is None:
            return
        body = PermissionResponse(request_id=asked.request_id, allow=answer.allow, text=answer.text)
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

    async def arrange(self, led: LedTeam, name: str, action: str) -> str:
        """End a member at once, or take its pane out of sight and back; says what was done.

        Raises UsageError if there is no such member in a pane, ProngError.
        """
        folder = led.membership.folder
        member = (await led.read()).member(name)
        if member is None or not member.backend:
            raise UnknownName(f"there is no member {name!r} in a pane")
        backend = self._backend(folder, member.backend)
        match action:
            case "hide":
                await backend.hide(member.pane)
                return f"{name} is out of sight"
            case "show":
                await backend.show(member.pane)
                return f"{name} is in sight"
            case _:
                await backend.close(member.pane)
                return f"{name} is ended"


def _lives(pid: int) -> bool:
    """Whether a process runs; a terminal may be slow to take note of one that has ended."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - for each look
            return file.read().rpartition(b")")[2].split()[0] not in {b"Z", b"X"}
    except (OSError, IndexError):
        return True


def _typed(options: Options, kind: AgentType, model: str | None) -> Options:
    """Give the options of a session that is a member of a type."""
    own = None if kind.model == "inherit" else kind.model
    return replace(
        options,
        system=kind.prompt or None,
        append_system=_joined(options.append_system or "", load_text("teammate")),
        model=model or own or options.model,
        max_turns=kind.max_turns or options.max_turns,
        effort=kind.effort or options.effort,
    )


def _joined(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)
