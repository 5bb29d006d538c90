"""An answer of a Python type: asked for in the message, read from the last reply, and checked.

Nothing of this is in the head of a prompt, which all turns and forks share: the schema rides on the
message that asks, and what is wrong with an answer is told in the next.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar, cast

import msgspec
from msgspec.structs import asdict

from prong.agent import Turn
from prong.entry import Usage
from prong.errors import BadInput, NoAnswer
from prong.foreign_json import NOT_JSON
from prong.team.result import ChildResult
from prong.text import load_text
from prong.tools.schema import decoder, schema

_T = TypeVar("_T")

TRIES = 3
"""Answers that a model may give until one is of the type."""

_FENCE = re.compile(r"```[\w-]*[ \t]*\n(.*?)```", re.DOTALL)
_BRACKETS = (("{", "}"), ("[", "]"))
_LONGEST_WHY = 1_000


class ValueTurn(Turn, Generic[_T], frozen=True, kw_only=True):
    """A turn that was to give a value of a type."""

    given: _T | msgspec.UnsetType = msgspec.UNSET

    @property
    def value(self) -> _T:
        """The answer.

        Raises NoAnswer, with the reason, if there is none.
        """
        return _value(self.given, self.detail or f"the turn ended with {self.why}")


class ValueResult(ChildResult, Generic[_T], frozen=True, kw_only=True):
    """What a child gave back that was to give a value of a type."""

    given: _T | msgspec.UnsetType = msgspec.UNSET

    @property
    def value(self) -> _T:
        """The answer.

        Raises NoAnswer, with the reason, if there is none.
        """
        return _value(self.given, self.detail or f"{self.task_id} ended as {self.status}")


def _value(given: _T | msgspec.UnsetType, why: str) -> _T:
    if given is msgspec.UNSET:
        raise NoAnswer(f"there is no answer: {why}")
    return cast("_T", given)


class UnreadAnswer(msgspec.Struct, frozen=True):
    """A text that is no answer of the type."""

    why: str


class AnswerType(Generic[_T]):
    """A type that answers are to be of."""

    def __init__(self, kind: type[_T]) -> None:
        """Take a type.

        Raises BadInput if no JSON schema can say it.
        """
        # Such as list[int] is no class, whatever its hint says.
        self.name = kind.__name__ if isinstance(cast("object", kind), type) else str(kind)
        try:
            said = schema(kind).decode()
            self._decoder = decoder(kind)
        except (TypeError, ValueError, RecursionError) as error:
            why = " ".join(str(error).split())
            raise BadInput(f"returns={self.name} cannot be asked of a model: {why}") from error
        self.request = f"{load_text('returns')}\n\n{said}"
        """What is said to the model beside what is asked of it."""

    def read(self, text: str) -> _T | UnreadAnswer:
        """Read an answer from a reply; words around it are passed over."""
        why = "it is not JSON"
        for candidate in _candidates(text):
            try:
                return cast("_T", self._decoder.decode(candidate))
            except msgspec.ValidationError as error:
                why = str(error)
            except NOT_JSON:
                continue
        return UnreadAnswer(why[:_LONGEST_WHY])

    def repair(self, unread: UnreadAnswer) -> str:
        """Say what was wrong with an answer."""
        return (
            f"Your last reply is no answer of the JSON schema: {unread.why}. Reply again with "
            "nothing but one JSON value of that schema."
        )

    def missing(self, unread: UnreadAnswer) -> str:
        """Say that there is no answer."""
        return f"the model gave no {self.name} in {TRIES} replies; of the last, {unread.why}"


def _candidates(text: str) -> Iterator[str]:
    """Give what may be the JSON of a reply: all of it, its last fence, from bracket to bracket."""
    yield text
    yield from reversed(_FENCE.findall(text))
    for opening, closing in _BRACKETS:
        start, end = text.find(opening), text.rfind(closing)
        if 0 <= start < end:
            yield text[start : end + 1]


async def settle_turn(
    answer: AnswerType[_T], first: Turn, say: Callable[[str], Awaitable[Turn]]
) -> ValueTurn[_T]:
    """Read the answer of a turn; while it is none, `say` what is wrong with it."""
    turns = [first]
    while turns[-1].ok:
        read = answer.read(turns[-1].text)
        if not isinstance(read, UnreadAnswer):
            return ValueTurn(**_together(turns), given=read)
        if len(turns) == TRIES:
            failed: dict[str, Any] = {"why": "error", "detail": answer.missing(read)}
            return ValueTurn(**_together(turns) | failed)
        turns.append(await say(answer.repair(read)))
    return ValueTurn(**_together(turns))


def _together(turns: Sequence[Turn]) -> dict[str, Any]:
    """Give the fields of the last turn, with what all of them took."""
    costs = [turn.cost for turn in turns]
    return asdict(turns[-1]) | {
        "turns": sum(turn.turns for turn in turns),
        "usage": sum((turn.usage for turn in turns), Usage()),
        "cost": None if None in costs else sum(cost for cost in costs if cost is not None),
    }


async def settle_result(
    answer: AnswerType[_T], result: ChildResult, say: Callable[[str], Awaitable[ChildResult]]
) -> ValueResult[_T]:
    """Read the answer of a child; while it is none, `say` what is wrong with it."""
    for tried in range(1, TRIES + 1):
        if result.status != "completed":
            break
        read = answer.read(result.text)
        if not isinstance(read, UnreadAnswer):
            return ValueResult(**asdict(result), given=read)
        if tried == TRIES:
            failed: dict[str, Any] = {"status": "failed", "detail": answer.missing(read)}
            return ValueResult(**asdict(result) | failed)
        result = await say(answer.repair(read))
    return ValueResult(**asdict(result))
