"""Carries out what a user types, for whatever shows what came of it."""

from __future__ import annotations

from typing import Protocol

import anyio
import anyio.to_thread

from prong.command import Accepted, Branch, Command, Outcome, Refused, Rename, Say, UseSkill
from prong.errors import ProngError
from prong.face.handover import Following, drafted
from prong.face.line import describe_outcome
from prong.face.slash import Show, nearest, read_slash
from prong.face.wish import shown
from prong.session import Session


class Outlet(Protocol):
    """What says things to the user, and asks them."""

    def tell(self, lines: list[tuple[str, str]]) -> None:
        """Say lines, each with a style."""
        ...

    async def agree(self, question: str) -> bool:
        """Ask the user a question of the face's own."""
        ...


class Carrier:
    """Sends commands to a session, one message after the other, and says what came of them."""

    def __init__(self, session: Session, outlet: Outlet) -> None:
        """Send to a session; what there is to say goes to the outlet."""
        self._session = session
        self._outlet = outlet
        self._order = anyio.Lock()
        """Messages are sent in the order in which they were typed, hooks or not."""
        self.idle = True
        """Whether no message is being worked on, as far as was said here."""
        self.following: Following | None = None
        """The session to go on with, once there is one."""
        self.under_way = 0
        """Commands that have not ended yet."""

    async def say(self, command: Say | UseSkill) -> Outcome:
        """Say something to the agent."""
        async with self._order:
            self.idle = False
            outcome = await self._session.send(command)
            self.idle = isinstance(outcome, Refused)
            return outcome

    def rest(self, *, idle: bool) -> None:
        """Take note whether the session waits for the user."""
        self.idle = idle

    async def obey(self, line: str) -> None:
        """Do what a line with a slash says."""
        try:
            for step in read_slash(line, self._session.view()):
                if isinstance(step, Show):
                    await self._show(step)
                elif not await self.carry_out(step):
                    self._correct(step)
                    return
        except ProngError as error:
            self._outlet.tell([(str(error), "bad")])

    def _correct(self, command: Command) -> None:
        """Name the command that was probably meant by one that there is not."""
        if not isinstance(command, UseSkill) or self._session.records.skill(command.name):
            return
        if close := nearest(command.name):
            self._outlet.tell([(f"did you mean /{close}?", "dim")])

    async def carry_out(self, command: Command) -> bool:
        """Send a command and say what came of it; gives whether it was accepted."""
        if not await self._may_cost(command):
            return False
        self.under_way += 1
        try:
            if isinstance(command, Say | UseSkill):
                outcome = await self.say(command)
            else:
                outcome = await self._session.send(command)
        finally:
            self.under_way -= 1
        if isinstance(command, Branch) and isinstance(outcome, Accepted):
            copy = outcome.ids[0]
            told = f"this is a copy; session {self._session.id} stays as it is"
            self.following = Following(copy, drafted(outcome.text), told)
            outcome = Accepted(f"going on as {copy}; this session stays as it is")
        self._outlet.tell(describe_outcome(command, outcome))
        return isinstance(outcome, Accepted)

    async def _may_cost(self, command: Command) -> bool:
        """Say what a command costs more than going on, and ask if that is much."""
        loss = self._session.records.loss(command)
        if loss is None:
            return True
        self._outlet.tell([(f"({loss.text})", "dim")])
        if loss.extra is None or loss.extra <= self._session.records.confirm_above:
            return True
        agreed = await self._outlet.agree(f"that is ${loss.extra:.2f} more; go on?")
        if not agreed:
            self._outlet.tell([("(left as it was)", "dim")])
        return agreed

    async def _show(self, wish: Show) -> None:
        if wish.what == "resume" and wish.rest.endswith(".jsonl"):
            made = await anyio.to_thread.run_sync(self._session.records.take_over, wish.rest)
            self._outlet.tell([(text, "") for text in (made.text, *made.notes)])
            self.following = Following(made.id)
            return
        if wish.what == "resume" and wish.rest:
            self.following = Following(self._session.records.other(wish.rest).id)
            return
        self._outlet.tell([(text, "") for text in await shown(self._session, wish)])


class Titling:
    """Has the session named after its first turn that worked, for the list of sessions."""

    def __init__(self, session: Session) -> None:
        """Name a session."""
        self._session = session
        self._turned = anyio.Event()
        self._asking = anyio.CancelScope()

    def turned(self) -> None:
        """Take note that a turn has worked."""
        self._turned.set()

    def cancel(self) -> None:
        """Give up, as when the user interrupts."""
        self._asking.cancel()

    async def run(self) -> None:
        """Wait for the turn, and have the session named."""
        await self._turned.wait()
        if self._session.records.wants_title:
            # A scope of its own: an interrupt before this was not meant for it.
            with anyio.CancelScope() as self._asking:
                await self._session.send(Rename())
