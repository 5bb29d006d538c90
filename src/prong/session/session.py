"""A session: one conversation with a user, and everything that works for it.

This is the caller's handle: commands go in, events come out, and a few methods put the two together
for programs. What a session is made of is in `parts`, what commands do in `perform`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar, overload

import anyio

from prong.agent import Turn
from prong.command import Command, Outcome, Say, UseSkill
from prong.cost.receipt import Receipt
from prong.entry import Part, Usage
from prong.errors import BadInput
from prong.prompt import Prompt
from prong.session import perform
from prong.session.answer_type import (
    AnswerType,
    ValueResult,
    ValueTurn,
    settle_result,
    settle_turn,
)
from prong.session.bus import LIMIT, Subscription
from prong.session.context_task import ContextTask
from prong.session.parts import Parts
from prong.session.records import Records
from prong.team.child import Child
from prong.team.result import ForkResult
from prong.tools.policy import Mode

if TYPE_CHECKING:
    from prong.view import View

_T = TypeVar("_T")

RunInput: TypeAlias = str | Sequence[Part] | UseSkill
"""What can be said to the main agent: a text, texts and pictures, or a skill to start."""


class Session:
    """One conversation; made by `prong.open_session`."""

    def __init__(self, parts: Parts, running: ContextTask[Parts]) -> None:
        """Use `prong.open_session`."""
        self._parts = parts
        self._running = running
        self.records = Records(parts)
        """What is stored of this session and of others."""

    def __repr__(self) -> str:
        return f"<Session {self.id} {self.model} {self.mode}>"

    @property
    def id(self) -> str:
        """The session's id, by which it can be resumed."""
        return self._parts.journal.session

    @property
    def model(self) -> str:
        """The model that answers."""
        return self._parts.agent.conversation.prompt.head.model

    @property
    def mode(self) -> Mode:
        """The permission mode."""
        return self._parts.agent.policy.policy.mode

    @property
    def usage(self) -> Usage:
        """All tokens so far."""
        return self._parts.ledger.usage

    @property
    def cost(self) -> float | None:
        """Dollars so far; None when a price is unknown."""
        return self._parts.ledger.cost

    @property
    def last(self) -> Turn | None:
        """The last turn that ended."""
        return self._parts.life.last

    @property
    def snapshot(self) -> Prompt:
        """The conversation as it stood when the last turn ended."""
        return self._parts.snapshot

    def events(self, since: int | None = 0, *, limit: int = LIMIT) -> Subscription:
        """Listen: to the recorded events after number `since`, then to everything that happens.

        By default from the session's first event on, in whatever process that was; with
        `since=session.records.began` from the opening of this one, with `since=None` from now on.
        Deltas are not recorded. A reader for whom more than `limit` events wait is made to skip
        them, and is told so by an `EventsSkipped`.
        """
        return self._parts.bus.subscribe(since, limit)

    def view(self) -> View:
        """Give the session as it is to be seen now; see `prong.view`."""
        return self._parts.bus.view()

    async def send(self, command: Command) -> Outcome:
        """Carry out a command; what a person could get wrong is `Refused`, and never raises."""
        return await perform.perform(self._parts, command)

    async def say(self, message: str | Sequence[Part]) -> Outcome:
        """Say something without waiting for an answer.

        While a turn runs it joins at the next turn boundary.
        """
        if isinstance(message, str):
            return await self.send(Say(message))
        return await self.send(Say(parts=tuple(message)))

    @overload
    async def run(
        self, message: RunInput, *, returns: None = None, wait_tasks: bool = True
    ) -> Turn: ...

    @overload
    async def run(
        self, message: RunInput, *, returns: type[_T], wait_tasks: bool = True
    ) -> ValueTurn[_T]: ...

    async def run(
        self, message: RunInput, *, returns: type[_T] | None = None, wait_tasks: bool = True
    ) -> Turn | ValueTurn[_T]:
        """Say something, or start a skill, and wait for the end of the work on it.

        With `wait_tasks` that is when no background task runs any more and what they reported has
        been worked on too; without it, the end of this turn. Cancelling the caller interrupts the
        turn. With `returns` the answer has to be of that type: the model is told what is wrong with
        one that is not, a few times, and the turn's `value` is what it gave.

        Raises SessionEnded if it has been closed, BadInput if no model can be asked for the type.
        """
        if returns is None:
            return await self._run(message, wait_tasks=wait_tasks)
        answer = self._answers(returns)
        turn = await self._run(message, answer.request, wait_tasks=wait_tasks)
        return await settle_turn(answer, turn, partial(self._run, wait_tasks=wait_tasks))

    def _answers(self, returns: type[_T]) -> AnswerType[_T]:
        if self._parts.place.options.json_schema is not None:
            raise BadInput("the session answers by its json_schema; leave out that or returns=...")
        return AnswerType(returns)

    async def _run(self, message: RunInput, more: str = "", *, wait_tasks: bool) -> Turn:
        life, inbox = self._parts.life, self._parts.agent.inbox
        taken: list[int] = []

        def take() -> None:
            taken.append(life.ended)

        try:
            if isinstance(message, UseSkill):
                said = await perform.use_skill(self._parts, message, more=more, taken=take)
            else:
                given = perform.told_with(more, message)
                said = await perform.say(self._parts, given, taken=take)
            if isinstance(said, perform.Refused):
                return Turn(text="", why="refused", detail=said.why)
            # A message that is neither waiting nor taken could not be stored: its turn has failed.
            await self._parts.bus.until(
                lambda: not inbox.holds(said) and (not taken or life.ended > taken[0])
            )
            assert life.last is not None
            if wait_tasks and life.last.why in {"done", "cut_off"}:
                await self.wait_settled()
            return life.last
        except anyio.get_cancelled_exc_class():
            life.interrupt()
            raise

    async def wait_settled(self) -> None:
        """Wait until no turn runs, nothing waits for the agent, and no background task runs."""
        parts = self._parts
        await parts.bus.until(lambda: not (parts.busy or parts.tasks.busy() or parts.owed))

    @overload
    async def fork(
        self,
        directives: Sequence[str],
        *,
        returns: None = None,
        notify: bool = False,
        isolation: Literal["worktree", "remote"] | None = None,
    ) -> list[ForkResult]: ...

    @overload
    async def fork(
        self,
        directives: Sequence[str],
        *,
        returns: type[_T],
        notify: bool = False,
        isolation: Literal["worktree", "remote"] | None = None,
    ) -> list[ValueResult[_T]]: ...

    async def fork(
        self,
        directives: Sequence[str],
        *,
        returns: type[_T] | None = None,
        notify: bool = False,
        isolation: Literal["worktree", "remote"] | None = None,
    ) -> list[ForkResult] | list[ValueResult[_T]]:
        """Split the main agent by hand: one fork per directive, all from its conversation as it is.

        Waits for all of them. With `notify` the conversation is told of their reports as well.
        `isolation` gives each a worktree of its own, here or on another machine. With `returns`
        each has to answer by a value of that type in place of a report, as in `run`. The command
        `Fork` does not wait.

        Raises BadInput if that is not a list of texts, or no model can be asked for the type,
        NotPossibleNow if forks are off, and SessionEnded if the session has been closed.
        """
        answer = None if returns is None else self._answers(returns)
        more = "" if answer is None else answer.request
        children = await perform.fork(
            self._parts, directives, notify=notify, isolation=isolation, more=more
        )
        if answer is None:
            return await self._parts.supervisor.wait(children)
        return await self._settle(answer, children)

    async def _settle(
        self, answer: AnswerType[_T], children: Sequence[Child]
    ) -> list[ValueResult[_T]]:
        """Wait for the answers of children; what one has to say again, it says beside others."""
        supervisor, found = self._parts.supervisor, dict[int, ValueResult[_T]]()

        async def settle(number: int, child: Child) -> None:
            (first,) = await supervisor.wait([child])
            say = partial(supervisor.ask_again, child)
            found[number] = await settle_result(answer, first, say)

        async with anyio.create_task_group() as group:
            for number, child in enumerate(children):
                group.start_soon(settle, number, child)
        return [found[number] for number in range(len(children))]

    async def start_forks(
        self,
        directives: Sequence[str],
        *,
        isolation: Literal["worktree", "remote"] | None = None,
    ) -> list[str]:
        """Fork by hand without waiting; their reports come as notices. Gives the task ids.

        Raises as `fork` does.
        """
        children = await perform.fork(self._parts, directives, isolation=isolation)
        return [child.spec.task_id for child in children]

    async def message(self, task_id: str, text: str) -> str:
        """Send a message to a child by name or id; it goes on from where it was.

        Raises UnknownName if there is no such child.
        """
        return await perform.tell(self._parts, task_id, text)

    def receipts(self) -> list[Receipt]:
        """Give the receipts of all children so far."""
        return self._parts.supervisor.registry.receipts()

    async def aside(self, question: str, *, purpose: str = "aside") -> str:
        """Ask something beside the conversation: it reads the same cache and leaves no trace.

        Raises ProviderError if there is no answer, BudgetSpent if a bound has been reached.
        """
        return await perform.aside(self._parts, question, purpose=purpose)

    async def close(self) -> None:
        """End the session and whatever it started, and wait for that; any task may, and twice.

        A turn that runs is stopped, what is stored can be resumed. What went wrong in closing, or
        inside Prong before, is raised once. Raises NotPossibleNow in another event loop than the
        one it was opened in.
        """
        await self._running.leave()
