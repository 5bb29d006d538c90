"""Carries out what a user types, for whatever shows what came of it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import anyio
import anyio.to_thread

from prong.command import (
    Accepted,
    Aside,
    Branch,
    Command,
    Fork,
    Outcome,
    Refused,
    Rename,
    Say,
    UseSkill,
)
from prong.errors import ProngError
from prong.face.edit.buffer import Buffer
from prong.face.handover import Following, drafted
from prong.face.line import describe_outcome
from prong.face.slash import Show, nearest, read_slash
from prong.face.wish import shown
from prong.session import Session

_BESIDE = "(asked beside the conversation; the answer comes here)"
_WORN = {"+": "good", "-": "bad", "@": "dim", "d": "bold", "i": "dim"}
"""How a line of a diff is shown, by its first letter; one that is as it was begins with a blank."""


class Outlet(Protocol):
    """What says things to the user, and asks them."""

    def tell(self, lines: list[tuple[str, str]]) -> None:
        """Say lines, each with a style."""
        ...

    def tell_forks(self, ids: tuple[str, ...]) -> None:
        """Say that forks work; what can be taken back is not said of one that has ended."""
        ...

    def tell_wait(self, text: str) -> AbstractContextManager[None]:
        """Say what is waited for; where that can be taken back, until it has come.

        What is told meanwhile may come while the user does something else, and must not be missed.
        """
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
        waits = self._outlet.tell_wait(_BESIDE) if isinstance(command, Aside) else nullcontext()
        with waits:
            outcome = await self._send(command)
            await self._tell_outcome(command, outcome)
        return isinstance(outcome, Accepted)

    async def _send(self, command: Command) -> Outcome:
        self.under_way += 1
        try:
            if isinstance(command, Say | UseSkill):
                return await self.say(command)
            return await self._session.send(command)
        finally:
            self.under_way -= 1

    async def _tell_outcome(self, command: Command, outcome: Outcome) -> None:
        if isinstance(command, Branch) and isinstance(outcome, Accepted):
            copy = outcome.ids[0]
            told = f"this is a copy; session {self._session.id} stays as it is"
            self.following = Following(copy, await self._draft(command), told)
            outcome = Accepted(f"going on as {copy}; this session stays as it is")
        if isinstance(command, Fork) and isinstance(outcome, Accepted):
            self._outlet.tell_forks(outcome.ids)
        else:
            self._outlet.tell(describe_outcome(command, outcome))

    async def _draft(self, branch: Branch) -> Buffer:
        """Give the message before which a copy ends, to be changed; nothing if it has all."""
        found = await self._session.records.messages() if branch.before else []
        return next(
            (drafted(o.text, o.pictures) for o in found if o.number == branch.before), Buffer()
        )

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
        worn = _WORN if wish.what == "diff" else {}
        lines = await shown(self._session, wish)
        self._outlet.tell([(text, worn.get(text[:1], "")) for text in lines])


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
