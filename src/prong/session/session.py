"""A session: one conversation with a user, and everything that works for it.

This is the caller's handle: commands go in, events come out, and a few methods put the two together
for programs. What a session is made of is in `parts`, what commands do in `perform`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast, overload

import anyio

from prong.agent import Turn
from prong.command import Command, Outcome, Refused, Say, Tell, UseSkill
from prong.cost.receipt import Receipt
from prong.entry import Part, Usage
from prong.errors import BadInput
from prong.session import perform
from prong.session.answer_type import (
    AnswerType,
    ValueResult,
    ValueTurn,
    settle_result,
    settle_turn,
)
from prong.session.bus import LIMIT, Subscription
from prong.session.child_map import (
    AT_ONCE,
    follow_all,
    make_briefs,
    map_children,
    starter,
)
from prong.session.context_task import ContextTask
from prong.session.parts import Parts
from prong.session.records import Records
from prong.team import by_hand
from prong.team.child import Child
from prong.team.result import ChildResult
from prong.tools.policy import Mode

if TYPE_CHECKING:
    from prong.view import View

_T = TypeVar("_T")
_Item = TypeVar("_Item")

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

    async def say(self, message: str | Sequence[Part], *, to: str = "") -> Outcome:
        """Say something without waiting for an answer.

        While a turn runs it joins at the next turn boundary. With `to`, the name or id of a child,
        it is said to that one, which goes on from where it was; such a message is a text.
        """
        if to:
            if not isinstance(message, str):
                return Refused("a message to a child is a text")
            return await self.send(Tell(to, message))
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
            if isinstance(said, perform.SkillTask):
                return await self._reported(said.said, wait_tasks=wait_tasks)
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

    async def _reported(self, begun: str, *, wait_tasks: bool) -> Turn:
        """Give the turn that takes up what an agent reports, or say that it has begun."""
        before = self._parts.life.ended
        if wait_tasks:
            await self.wait_settled()
        last = self._parts.life.last
        if last is None or self._parts.life.ended == before:
            return Turn(text=begun, why="done")
        return last

    async def wait_settled(self, *, commands: bool = True) -> None:
        """Wait until no turn runs, nothing waits for the agent, and no background task runs.

        Without `commands` only agents are waited for: a server that was started runs on.
        """
        parts = self._parts

        def at_work() -> bool:
            return parts.busy or parts.tasks.busy(commands=commands) or parts.owed

        await parts.bus.until(lambda: not at_work())

    @overload
    async def fork(
        self,
        directives: Sequence[str],
        *,
        returns: None = None,
        notify: bool = False,
        isolation: str | None = None,
    ) -> list[ChildResult]: ...

    @overload
    async def fork(
        self,
        directives: Sequence[str],
        *,
        returns: type[_T],
        notify: bool = False,
        isolation: str | None = None,
    ) -> list[ValueResult[_T]]: ...

    async def fork(
        self,
        directives: Sequence[str],
        *,
        returns: type[_T] | None = None,
        notify: bool = False,
        isolation: str | None = None,
    ) -> list[ChildResult] | list[ValueResult[_T]]:
        """Split the main agent by hand: one fork per directive, all from its conversation as it is.

        Waits for all of them. With `notify` the conversation is told of their reports as well.
        `isolation` gives each a worktree of its own: "worktree" here, "remote" on another machine,
        "remote:NAME" on the one that the settings call so. With `returns`
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
        results = await follow_all(self._follow(answer), children)
        return cast("list[ChildResult] | list[ValueResult[_T]]", results)

    def _follow(self, answer: AnswerType[_T] | None) -> Callable[[Child], Awaitable[ChildResult]]:
        """Make what waits for a child, and for an answer of the type if one is wanted."""
        supervisor = self._parts.supervisor

        async def follow(child: Child) -> ChildResult:
            (result,) = await by_hand.wait(supervisor, [child])
            if answer is None:
                return result
            return await settle_result(
                answer, result, partial(by_hand.ask_again, supervisor, child)
            )

        return follow

    async def start_forks(
        self,
        directives: Sequence[str],
        *,
        isolation: str | None = None,
    ) -> list[str]:
        """Fork by hand without waiting; their reports come as notices. Gives the task ids.

        Raises as `fork` does.
        """
        children = await perform.fork(self._parts, directives, isolation=isolation)
        return [child.spec.task_id for child in children]

    @overload
    async def agent(
        self,
        kind: str,
        brief: str,
        *,
        returns: None = None,
        model: str | None = None,
        isolation: str | None = None,
    ) -> ChildResult: ...

    @overload
    async def agent(
        self,
        kind: str,
        brief: str,
        *,
        returns: type[_T],
        model: str | None = None,
        isolation: str | None = None,
    ) -> ValueResult[_T]: ...

    async def agent(
        self,
        kind: str,
        brief: str,
        *,
        returns: type[_T] | None = None,
        model: str | None = None,
        isolation: str | None = None,
    ) -> ChildResult | ValueResult[_T]:
        """Start an agent of a type, which knows nothing but its brief, and wait for it.

        With `returns` it has to answer by a value of that type. Cancelling the caller stops it.

        Raises UnknownName if there is no such type, BadInput if no model can be asked for what it
        is to return, NotPossibleNow if it cannot be started.
        """
        results = await self.map(
            (brief,), str, agent=kind, returns=returns, model=model, isolation=isolation
        )
        return results[0]

    @overload
    async def map(
        self,
        items: Iterable[_Item],
        brief: str | Callable[[_Item], str],
        *,
        returns: None = None,
        agent: str | None = None,
        limit: int = AT_ONCE,
        model: str | None = None,
        isolation: str | None = None,
    ) -> list[ChildResult]: ...

    @overload
    async def map(
        self,
        items: Iterable[_Item],
        brief: str | Callable[[_Item], str],
        *,
        returns: type[_T] | None,
        agent: str | None = None,
        limit: int = AT_ONCE,
        model: str | None = None,
        isolation: str | None = None,
    ) -> list[ValueResult[_T]]: ...

    async def map(
        self,
        items: Iterable[_Item],
        brief: str | Callable[[_Item], str],
        *,
        returns: type[_T] | None = None,
        agent: str | None = None,
        limit: int = AT_ONCE,
        model: str | None = None,
        isolation: str | None = None,
    ) -> list[ChildResult] | list[ValueResult[_T]]:
        """Give each item to a child of its own, `limit` of them at once; results come in order.

        The `brief` is a text with `{}` where the item goes, or a function that makes one of it.
        Children are forks of the conversation as it is now, or agents of the type `agent`. One that
        fails is a result that says so, and keeps nobody else from going on. With `returns` each has
        to answer by a value of that type. Cancelling the caller stops them.

        Raises as `fork` and `agent` do, before anything is started.
        """
        self._parts.must_live()
        answer = None if returns is None else self._answers(returns)
        texts = make_briefs(items, brief)
        start = starter(
            self._parts,
            agent,
            more="" if answer is None else answer.request,
            model=model,
            isolation=isolation,
        )
        results = await map_children(texts, start, self._follow(answer), limit=limit)
        return cast("list[ChildResult] | list[ValueResult[_T]]", results)

    def receipts(self) -> list[Receipt]:
        """Give the receipts of all children so far."""
        return self._parts.receipts()

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
