"""Questions over the lower part of the screen: which is put, and what a key answers.

A key answers only what its sender has seen: nothing is being typed, the question has been on the
screen for a while, and no key came in that while. Until then keys go into the line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import TypeAlias

import anyio
import msgspec
from msgspec.structs import replace

from prong.entry import CallId
from prong.event import MAIN, PermissionAsked, QuestionAsked
from prong.face.draw.dialog import Dialog, Option, Picked, draw_question
from prong.face.draw.row import Row, Span, fit
from prong.face.draw.stack import RowSource
from prong.face.edit.key import TEXT, KeyPress
from prong.foreign_number import whole_number
from prong.ids import RequestId
from prong.question import Answer, Question
from prong.view import AskedView

_OWN = "consent-"
"""How the ids of questions of the face's own begin; each has another."""
_YES_NO = (Option("y", "yes"), Option("n", "no"))
_DIGITS = 9
"""Choices that have a key of their own."""
_ABOVE = 2
"""Rows above the first choice that say what is asked."""


class Wording(msgspec.Struct, frozen=True):
    """An answer in words of one's own, to be typed behind a prompt."""

    request_id: str
    prompt: str
    text: str = ""
    """What was typed of it already."""
    refuses: bool = False


class Rewriting(msgspec.Struct, frozen=True):
    """A plan that is to be edited."""

    request_id: str
    plan: str


DialogAnswer: TypeAlias = Answer | Wording | Rewriting


def is_own(request_id: str) -> bool:
    """Whether a question is the face's own."""
    return request_id.startswith(_OWN)


class OwnQuestion:
    """Questions of the face's own, which the session knows nothing of; one at a time."""

    def __init__(self) -> None:
        """Nothing is asked."""
        self._order = anyio.Lock()
        self._numbers = count(1)
        self._settled = anyio.Event()
        self._given = False
        self.asked: tuple[AskedView, ...] = ()
        """What is asked now, if anything is."""

    async def ask(self, question: str, stir: Callable[[], None]) -> bool:
        """Wait for the user's answer; `stir` has the question drawn, and taken away."""
        async with self._order:
            self._given, self._settled = False, anyio.Event()
            self.asked = (_consent_to(question, next(self._numbers)),)
            stir()
            try:
                await self._settled.wait()
            finally:
                self.asked = ()
                stir()
            return self._given

    def take(self, answer: Answer) -> None:
        """Take the answer to what is asked; one to a question before it answers nothing."""
        if any(one.asked.request_id == answer.request_id for one in self.asked):
            self._settle(given=answer.allow)

    def refuse(self) -> None:
        """Answer what is asked, if anything is, with no."""
        if self.asked:
            self._settle(given=False)

    def _settle(self, *, given: bool) -> None:
        self._given = given
        self._settled.set()


def _consent_to(question: str, number: int) -> AskedView:
    asked = PermissionAsked(
        request_id=RequestId(f"{_OWN}{number}"), call_id=CallId(""), tool="", title=question, why=""
    )
    return AskedView(MAIN, asked, 0.0)


class Asking:
    """Puts one question at a time."""

    def __init__(self, quiet: float) -> None:
        """Let keys answer after a pause of so many seconds."""
        self._quiet = quiet
        self._picked = Picked()
        self._followed = False
        """Whether the cursor has moved since the question was drawn."""
        self._top = 0
        self._since = 0.0
        self._typed_at = 0.0
        self._first = ""
        """The question that somebody wants to answer before the others."""
        self.asked: AskedView | None = None
        """The question that is on the screen."""
        self.waiting = 0

    def see(self, questions: Sequence[AskedView], at: float) -> bool:
        """Take in what is asked at a time; says whether there is a question that was not there."""
        self.waiting = len(questions)
        wanted = [one for one in questions if one.asked.request_id == self._first]
        found = next(iter([*wanted, *questions]), None)
        before = "" if self.asked is None else self.asked.asked.request_id
        if found is not None and found.asked.request_id != before:
            self._picked, self._top, self._since = Picked(), 0, at
            self.asked = found
            return True
        self.asked = found
        return False

    def prefer(self, request_id: str) -> None:
        """Put a question before the others."""
        self._first = request_id

    def note_typing(self, at: float) -> None:
        """Take note that something was typed at a time."""
        self._typed_at = at

    def armed(self, at: float) -> bool:
        """Whether a key that is pressed at a time may answer."""
        if self.asked is None:
            return False
        return at - max(self._since, self._typed_at) >= self._quiet

    def roll(self, step: int) -> None:
        """Go down or up in what is asked for."""
        self._top = max(0, self._top + step)

    def press(self, key: KeyPress) -> DialogAnswer | None:
        """Take a key; gives what it answers, if anything."""
        if self.asked is None:
            return None
        asked = self.asked.asked
        if isinstance(asked, QuestionAsked):
            return self._choose(asked, key)
        return _permit(asked, key)

    def word(self, wording: Wording, text: str) -> Answer | None:
        """Take an answer in words; gives all of it, None as long as more questions are put with it.

        They answer the question that the cursor is on, beside what is marked if it may be several.
        """
        asked = None if self.asked is None else self.asked.asked
        if not isinstance(asked, QuestionAsked) or asked.request_id != wording.request_id:
            return Answer(wording.request_id, allow=not wording.refuses, text=text)
        number, _ = self._picked.at
        # The lines of an answer are those of its questions.
        words = text if len(asked.questions) == 1 else " ".join(text.split())
        self._picked = replace(self._picked, worded={**self._picked.worded, number: words})
        self._followed = True
        return self._go_on(asked)

    def takes(self, key: KeyPress) -> bool:
        """Whether a key means something to the question, and not to the line."""
        if self.asked is None:
            return False
        if isinstance(self.asked.asked, QuestionAsked):
            return key.name in {TEXT, "up", "down", "enter"}
        return key.name in {"up", "down"} or (
            key.name == TEXT and any(key.text == one.key for one in _options(self.asked.asked))
        )

    def key_of(self, row: Row) -> str:
        """Give the key that answers what stands on a row; empty if none does."""
        question, colon, place = row.key.partition(":")
        if not colon:
            return row.key if len(row.key) == 1 else ""
        here = question == str(self._picked.at[0]) and int(place) < _DIGITS
        return str(int(place) + 1) if here else ""

    def draw(self, width: int, height: int, way_out: str = "") -> list[Row]:
        """Draw the question in so many lines; what can be answered is always in sight.

        If something else was begun before, it says how to be done with that.
        """
        if self.asked is None:
            return []
        own = _YES_NO if is_own(self.asked.asked.request_id) else ()
        dialog = draw_question(
            self.asked, width, waiting=self.waiting, options=own, picked=self._picked
        )
        rows = self._windowed(dialog, width, height)
        if way_out:
            told = f"   your line first: send it, or {way_out}; then this can be answered"
            rows.append(fit([Span(told, "dim")], width))
        return rows

    def _windowed(self, dialog: Dialog, width: int, height: int) -> list[Row]:
        room = max(1, height - len(dialog.head) - len(dialog.foot))
        size = len(dialog.body)
        if size > room:
            room = max(1, room - 1)
        if self._followed:
            self._follow(dialog.body, room)
        self._top = max(0, min(self._top, size - room))
        body = list(dialog.body.window(self._top, self._top + room))
        if size > room:
            told = f"  lines {self._top + 1} to {self._top + len(body)} of {size}; Up and Down"
            body.append(fit([Span(told, "dim")], width))
        return [*dialog.head, *body, *dialog.foot]

    def _follow(self, body: RowSource, room: int) -> None:
        """Bring the choice that the cursor is on into sight, the first with its question."""
        self._followed = False
        number, place = self._picked.at
        rows = body.window(0, len(body))
        found = [at for at, row in enumerate(rows) if row.key == f"{number}:{place}"]
        if not found:
            return
        first = found[0] if place else found[0] - _ABOVE
        self._top = max(min(self._top, first), found[-1] - room + 1, 0)

    def _choose(self, asked: QuestionAsked, key: KeyPress) -> DialogAnswer | None:
        number, place = self._picked.at
        question = asked.questions[number]
        count = len(question.options)
        self._followed = True
        if key.name in {"up", "down"} and count:
            step = 1 if key.name == "down" else -1
            self._picked = replace(self._picked, at=(number, (place + step) % count))
            return None
        if key.name == "enter" and count:
            return self._next(asked, question)
        if key.name != TEXT:
            return None
        if 0 < (chosen := whole_number(key.text) or 0) <= count:
            self._picked = replace(self._picked, at=(number, chosen - 1))
            return self._mark() if question.multiple else self._next(asked, question)
        if key.text == " ":
            return self._mark() if question.multiple else None
        return Wording(asked.request_id, "answer> ", key.text)

    def _mark(self) -> None:
        self._picked = replace(self._picked, chosen=self._picked.chosen ^ {self._picked.at})

    def _next(self, asked: QuestionAsked, question: Question) -> Answer | None:
        """Take the choice, and go on to the next question or answer all of them."""
        number, _ = self._picked.at
        chosen = self._picked.chosen
        if not question.multiple or not any(one[0] == number for one in chosen):
            kept = {one for one in chosen if one[0] != number}
            chosen = frozenset(kept | {self._picked.at})
        self._picked = replace(self._picked, chosen=chosen)
        return self._go_on(asked)

    def _go_on(self, asked: QuestionAsked) -> Answer | None:
        """Go on to the next question; after the last, answer all of them."""
        number, _ = self._picked.at
        if number + 1 < len(asked.questions):
            self._picked = replace(self._picked, at=(number + 1, 0))
            return None
        lines = [_answered(one, at, self._picked) for at, one in enumerate(asked.questions)]
        return Answer(asked.request_id, text="\n".join(lines))


def _answered(question: Question, number: int, picked: Picked) -> str:
    places = sorted(place for at, place in picked.chosen if at == number)
    labels = [question.options[place].label for place in places]
    return ", ".join([*labels, *filter(None, [picked.worded.get(number)])])


def _options(asked: PermissionAsked) -> Sequence[Option]:
    from prong.face.draw.dialog import options_of

    return _YES_NO if is_own(asked.request_id) else options_of(asked)


def _permit(asked: PermissionAsked, key: KeyPress) -> DialogAnswer | None:
    if key.name != TEXT or not any(key.text == one.key for one in _options(asked)):
        return None
    match key.text:
        case "y":
            return Answer(asked.request_id)
        case "s":
            return Answer(asked.request_id, remember="session")
        case "a" if asked.plan:
            return Answer(asked.request_id, mode="acceptEdits")
        case "a":
            return Answer(asked.request_id, remember="project")
        case "e":
            return Rewriting(asked.request_id, asked.plan)
        case _ if is_own(asked.request_id):
            return Answer(asked.request_id, allow=False)
        case _:
            prompt = "what to change> " if asked.plan else "why not (Enter for no reason)> "
            return Wording(asked.request_id, prompt, refuses=True)
