"""Questions that wait for somebody's answer.

A permission request is an event with a reply slot. All agents of a session share them: a child's
question appears in the same face as its parent's, in an envelope with the child's path, and the
answer goes back to that child alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import count
from typing import Protocol, TypeAlias, get_args

import anyio
import msgspec
from msgspec import Struct, field

from prong.errors import BadInput, ProngError
from prong.event import Event, PermissionAsked, QuestionAsked, RequestSettled, Warned
from prong.ids import AgentPath, RequestId
from prong.question import Answer, PlanMode
from prong.tools.python_call import FunctionRaised, LoopHold, call_python

Asked: TypeAlias = PermissionAsked | QuestionAsked
Respond: TypeAlias = Callable[[str, Asked], Awaitable[Answer | None] | Answer | None]
"""Answers for the user; gets the agent's path and the request. None: nobody can answer.

A plain function runs in a thread, so that it may wait for the user."""


class RuleStore(Protocol):
    """Keeps rules for later sessions."""

    def offer(self, rules: Sequence[str]) -> str:
        """Give the file that would keep these rules; empty if they cannot be kept."""
        ...

    def add(self, rules: Sequence[str]) -> None:
        """Keep them.

        Raises ConfigError if that is not possible: then nothing has changed.
        """
        ...


class OpenQuestions:
    """Hands questions out and answers back, each exactly once."""

    def __init__(
        self,
        respond: Respond | None = None,
        *,
        attended: bool = False,
        rules: RuleStore | None = None,
    ) -> None:
        """Take a function that answers, or say that a face is there to send answers.

        `rules` keeps what is allowed for later sessions; without it nothing is.
        """
        self._respond = respond
        self._rules = rules
        self.attended = attended
        self._guests = 0
        self._slots: dict[str, _PendingAnswer] = {}
        self._numbers = count(1)
        self.pending: dict[str, tuple[str, Asked]] = {}
        """Requests without an answer, in the order in which they came."""

    @property
    def answerable(self) -> bool:
        """Whether there is anybody to answer."""
        return self.attended or self._guests > 0 or self._respond is not None

    def file_for(self, rules: Sequence[str]) -> str:
        """Give the file that would keep rules for later sessions; empty if there is none."""
        return "" if self._rules is None else self._rules.offer(rules)

    def number(self) -> RequestId:
        """Make an id for a request."""
        return RequestId(f"ask-{next(self._numbers)}")

    async def ask(
        self,
        path: AgentPath,
        asked: Asked,
        emit: Callable[[Event], None],
        *,
        moot: Callable[[], bool] | None = None,
    ) -> Answer | None:
        """Put a question and wait for the answer; None if nobody can answer it.

        `moot` says whether what is asked for has been allowed in the meantime.
        """
        if not self.answerable:
            return None
        slot = self._slots[asked.request_id] = _PendingAnswer(moot)
        self.pending[asked.request_id] = (path, asked)
        emit(asked)
        answer = None
        try:
            with slot.scope:
                if self._respond is None:
                    await anyio.sleep_forever()
                else:
                    answer = self._taken(await _responded(self._respond, path, asked), asked, emit)
            answer = slot.answer or answer
        finally:
            self._slots.pop(asked.request_id, None)
            self.pending.pop(asked.request_id, None)
            emit(RequestSettled(request_id=asked.request_id, outcome=_outcome(answer)))
        return answer

    def lend(self) -> None:
        """One more is there to send answers, beside whoever was there from the beginning."""
        self._guests += 1

    def give_back(self) -> None:
        """One of these has gone; without anybody left what waits for an answer is unanswerable."""
        self._guests -= 1
        self._give_up()

    def leave(self) -> None:
        """Nobody is there any more to send answers: what waits for one is unanswerable."""
        self.attended = False
        self._give_up()

    def _give_up(self) -> None:
        if not self.answerable:
            for slot in self._slots.values():
                slot.scope.cancel()

    def settle(self, answer: Answer) -> bool:
        """Deliver an answer; False if nothing waits for it.

        Raises UsageError if it does not fit the question, ConfigError if rules cannot be kept as it
        asks: then the question stays open.
        """
        slot = self._slots.get(answer.request_id)
        if slot is None or slot.answer is not None:
            return False
        self._keep(self.pending[answer.request_id][1], answer)
        slot.answer = answer
        slot.scope.cancel()
        return True

    def _taken(
        self, answer: Answer | None, asked: Asked, emit: Callable[[Event], None]
    ) -> Answer | None:
        """Take the answer of the caller's function; if its rules cannot be kept, it is for once."""
        if answer is None:
            return None
        try:
            self._keep(asked, answer)
        except BadInput as error:
            raise BadInput(f"the respond function failed: {error}") from error
        except ProngError as error:
            emit(Warned(text=f"{error}; it is allowed this once"))
            return msgspec.structs.replace(answer, always=False, remember="")
        return answer

    def _keep(self, asked: Asked, answer: Answer) -> None:
        """Check an answer against its question, and store the rules that were shown with it."""
        plan = isinstance(asked, PermissionAsked) and bool(asked.plan)
        if answer.mode not in get_args(PlanMode):
            raise BadInput(f"after a plan there is no permission mode {answer.mode!r}")
        if answer.mode and not (plan and answer.allow):
            raise BadInput("only who approves a plan can say in which mode to go on")
        if answer.remember != "project" or not answer.allow:
            return
        if self._rules is None or not isinstance(asked, PermissionAsked) or not asked.file:
            raise BadInput("no rule can be kept for this; allow it once or for the session")
        self._rules.add(asked.suggestion)

    def review(self) -> None:
        """Allow what waits and need not be asked for any more, after a rule has been added."""
        for request_id, slot in list(self._slots.items()):
            if slot.moot is not None and slot.answer is None and slot.moot():
                self.settle(Answer(request_id))


class _PendingAnswer(Struct):
    """Where the answer to one question goes; its arrival ends the wait for it."""

    moot: Callable[[], bool] | None
    answer: Answer | None = None
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)


async def _responded(respond: Respond, path: AgentPath, asked: Asked) -> Answer | None:
    """Ask the caller's function; what it does wrong is told as its own."""
    try:
        answer = await call_python(partial(respond, path, asked), LoopHold(), kind="respond")
    except FunctionRaised as raised:
        error = raised.error
        raise BadInput(f"the respond function failed: {type(error).__name__}: {error}") from error
    if answer is not None and not isinstance(answer, Answer):
        raise BadInput(
            f"the respond function failed: it gave {answer!r}, and must give an Answer or None"
        )
    return answer


def _outcome(answer: Answer | None) -> str:
    if answer is None:
        return "unanswered"
    return "allowed" if answer.allow else "refused"
