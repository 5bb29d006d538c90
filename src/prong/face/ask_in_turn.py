"""Questions that wait for the user, put one at a time."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TypeAlias

from prong.errors import BadInput, UsageError
from prong.event import PermissionAsked, QuestionAsked
from prong.face.composer import Input
from prong.face.edit.external import edit
from prong.face.line import chosen, describe_question
from prong.face.screen import InputLine, InputPrompt, Screen
from prong.question import Answer
from prong.view import View

Asked: TypeAlias = PermissionAsked | QuestionAsked


class Questions:
    """What is asked, in the order in which it came.

    Only a line entered under a question's own prompt answers it, and that prompt is never shown
    without the question right above it.
    """

    def __init__(self, screen: Screen, given: Input) -> None:
        """Ask on a screen; answers are lines of the input."""
        self._screen = screen
        self._input = given
        self._open: dict[str, tuple[str, Asked]] = {}
        self._unfolded: set[str] = set()

    def __bool__(self) -> bool:
        """Whether anything is asked."""
        return bool(self._open)

    def pose(self) -> InputPrompt:
        """State the first question and give its prompt; without one, the prompt for messages."""
        if not self._open:
            return InputPrompt()
        agent, asked = next(iter(self._open.values()))
        badge = _badge(agent)
        whole = asked.request_id in self._unfolded
        # A command and a change are shown to the letter.
        words = isinstance(asked, QuestionAsked)
        for text, style in describe_question(asked, whole=whole):
            self._screen.line(badge + text, style=style, words=words)
        if len(self._open) > 1:
            self._screen.line(f"({len(self._open) - 1} more waiting)", style="dim")
        return InputPrompt(f"{badge}{_offer(asked)}", asked.request_id)

    def defer(self) -> InputPrompt:
        """Only say that something is asked: the line that is begun keeps its meaning."""
        agent, asked = next(iter(self._open.values()))
        self._screen.line(f"{_badge(agent)}asks, after this line: {_title(asked)}", style="bold")
        return InputPrompt()

    def add(self, agent: str, asked: Asked) -> None:
        """Take a question; it is put at once unless the user is at something else."""
        self._open[asked.request_id] = (agent, asked)
        now = self._input.asking
        if now is None:
            # Whoever reads lines asks before the next one.
            return
        if now.key:
            self._screen.line(f"({len(self._open) - 1} more waiting)", style="dim")
        elif self._input.untouched():
            self._input.switch(self.pose())
        else:
            self.defer()

    def drop(self, request_id: str) -> None:
        """Forget a question that is settled; if its prompt is open, another takes its place."""
        self._open.pop(request_id, None)
        now = self._input.asking
        if now is not None and now.key == request_id:
            free = self._open and self._input.untouched()
            self._input.switch(self.pose() if free else InputPrompt())

    def next(self) -> None:
        """Put the question that comes next, if one waits and nothing is being typed."""
        now = self._input.asking
        if self._open and now is not None and not now.key and self._input.untouched():
            self._input.switch(self.pose())

    def put_back(self, request_id: str, view: View) -> None:
        """Ask once more what still waits, since its answer was refused."""
        if (asked := view.questions.get(request_id)) is not None:
            self._open = {request_id: (asked.agent, asked.asked), **self._open}

    async def answer(self, line: InputLine) -> Answer | None:
        """Read a line as the answer to its question; None if it is none."""
        if line.key not in self._open:
            self._screen.line("(that question is settled; the line went nowhere)")
            return None
        _, asked = self._open[line.key]
        if _unfolds(asked, line.text):
            self._unfolded.add(line.key)
            return None
        try:
            with self._input.lend() if _edits(asked, line.text) else nullcontext():
                answer = await read_answer(asked, line.text.strip())
        except UsageError as error:
            self._screen.line(str(error), style="bad")
            return None
        # It may have been settled while a plan was in the editor.
        return answer if self._open.pop(line.key, None) is not None else None


def _unfolds(asked: Asked, text: str) -> bool:
    """Whether an answer asks for all of a change."""
    long = isinstance(asked, PermissionAsked) and bool(asked.preview)
    return long and text.strip().lower() in {"v", "view"}


def _edits(asked: Asked, text: str) -> bool:
    """Whether an answer asks for the user's editor."""
    return (
        isinstance(asked, PermissionAsked)
        and bool(asked.plan)
        and text.strip().lower() in {"e", "edit"}
    )


async def read_answer(asked: Asked, word: str) -> Answer:
    """Understand an answer to a question.

    Raises UsageError if it has to be given again.
    """
    if isinstance(asked, QuestionAsked):
        return Answer(asked.request_id, text=chosen(asked, word))
    if _edits(asked, word):
        return Answer(asked.request_id, text=await edit(asked.plan))
    if asked.plan and word.lower() in {"a", "accept"}:
        return Answer(asked.request_id, mode="acceptEdits")
    if word.lower() in {"y", "yes"}:
        return Answer(asked.request_id)
    if (kept := _lasting(asked, word.lower())) is not None:
        return kept
    refusal = "" if word.lower() in {"n", "no"} else word
    return Answer(asked.request_id, allow=False, text=refusal)


def _lasting(asked: PermissionAsked, word: str) -> Answer | None:
    """Understand a yes for more than this once; None if it is something else.

    Raises UsageError if there is no such yes here.
    """
    if word in {"s", "session"} and asked.suggestion:
        return Answer(asked.request_id, remember="session")
    if word in {"a", "always"} and asked.file:
        return Answer(asked.request_id, remember="project")
    if word in {"s", "session", "a", "always"} and not asked.plan:
        raise BadInput("that can be allowed this once only, or refused")
    return None


def _offer(asked: Asked) -> str:
    if isinstance(asked, QuestionAsked):
        return "? "
    if asked.plan:
        return "[y]es, [a]ccept edits too, [e]dit and approve, [n]o, or what to change: "
    session = "[s]ession, " if asked.suggestion else ""
    always = "[a]lways, " if asked.file else ""
    return f"{asked.tool}: [y]es, {session}{always}[n]o, or why not: "


def _title(asked: Asked) -> str:
    return asked.questions[0].question if isinstance(asked, QuestionAsked) else asked.title


def _badge(agent: str) -> str:
    return "" if agent == "main" else f"[{agent}] "
