"""AskUserQuestion: let the user choose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from prong.entry import CallId
from prong.question import Choice, Question
from prong.tools.access import Access
from prong.tools.tool import CallOutcome, Context, Failed, SideEffect, done


class QuestionOption(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing the user may choose."""

    label: Annotated[str, Meta(min_length=1, description="1 to 5 words")]
    description: Annotated[str, Meta(description="What choosing it means")] = ""


class QuestionItem(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One question as the model writes it."""

    question: Annotated[str, Meta(min_length=1)]
    options: Annotated[tuple[QuestionOption, ...], Meta(min_length=2, max_length=4)]
    header: Annotated[str, Meta(description="At most 12 characters")] = ""
    multi_select: Annotated[bool, Meta(description="Several may be chosen")] = msgspec.field(
        default=False, name="multiSelect"
    )


class QuestionArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What AskUserQuestion is called with."""

    questions: Annotated[tuple[QuestionItem, ...], Meta(min_length=1, max_length=4)]


class AskUserQuestion:
    """Puts questions to the user and waits."""

    name = "AskUserQuestion"
    effect: SideEffect = "writes"
    arguments: type[msgspec.Struct] = QuestionArguments
    budget = 20_000

    def title(self, args: QuestionArguments) -> str:
        """Show the first question."""
        first = args.questions[0].question
        more = len(args.questions) - 1
        return f"{first} (and {more} more)" if more else first

    def access(self, args: QuestionArguments, context: Context) -> Sequence[Access]:
        """Touch nothing."""
        del args, context
        return ()

    async def run(self, call_id: CallId, args: QuestionArguments, context: Context) -> CallOutcome:
        """Ask, and give back what the user said."""
        del call_id
        for item in args.questions:
            labels = [o.label for o in item.options]
            if len(set(labels)) < len(labels):
                return Failed(f"Two options of {item.question!r} have the same label.")
        answer = await context.ask([_question(item) for item in args.questions])
        if answer is None:
            return Failed(
                "Nobody is there to answer. Decide by what you know, and say in your reply what "
                "you assumed."
            )
        return done(_paired(args.questions, answer))


def _question(item: QuestionItem) -> Question:
    options = tuple(Choice(o.label, o.description) for o in item.options)
    return Question(item.question, item.header, options, item.multi_select)


def _paired(questions: Sequence[QuestionItem], answer: str) -> str:
    lines = answer.strip("\n").split("\n")
    if len(questions) > 1 and len(lines) == len(questions):
        pairs = zip(questions, lines, strict=True)
        return "The user answered:\n" + "\n".join(f"- {q.question} {a}" for q, a in pairs)
    return f"The user answered: {answer}" if answer.strip() else "The user gave an empty answer."
