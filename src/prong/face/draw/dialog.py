"""Questions that wait for the user: what is asked, by whom, and what can be answered."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import cast

import msgspec

from prong.event import MAIN, PermissionAsked, QuestionAsked
from prong.face.draw.markdown import draw_markdown
from prong.face.draw.patch import draw_diff, is_diff
from prong.face.draw.row import EMPTY, Row, Span, cells, fit, wrap
from prong.face.draw.stack import Drawn, Plain, RowSource, Stack
from prong.question import Question
from prong.view import AskedView

_INDENT = Span("  ")


class Option(msgspec.Struct, frozen=True):
    """One way to answer."""

    key: str
    label: str
    rule: str = ""
    """What it allows beyond this once."""


class Picked(msgspec.Struct, frozen=True):
    """What has been chosen so far of questions with choices."""

    at: tuple[int, int] = (0, 0)
    """The question and the option that the cursor is on."""
    chosen: frozenset[tuple[int, int]] = frozenset()
    worded: dict[int, str] = {}
    """Answers in words of one's own, by the number of their question."""


class Dialog(msgspec.Struct, frozen=True):
    """A question as rows; only the body may be scrolled, so the answers are always in sight."""

    head: tuple[Row, ...]
    body: RowSource
    foot: tuple[Row, ...]


_START = Picked()


def options_of(asked: PermissionAsked) -> tuple[Option, ...]:
    """Name the ways to answer a request for leave."""
    if asked.plan:
        return (
            Option("y", "approve"),
            Option("a", "approve and accept edits"),
            Option("e", "edit"),
            Option("n", "no, and say what to change"),
        )
    rules = ", ".join(asked.suggestion)
    session = (Option("s", "for this session", rules),) if rules else ()
    always = (Option("a", f"always, by {short_file(asked.file)}", rules),) if asked.file else ()
    return (Option("y", "once"), *session, *always, Option("n", "no, and say why"))


def short_file(path: str) -> str:
    """Name a settings file by its folder and name."""
    return "/".join(path.split("/")[-2:])


def draw_question(
    asked: AskedView,
    width: int,
    *,
    waiting: int = 1,
    options: Sequence[Option] = (),
    picked: Picked = _START,
) -> Dialog:
    """Draw the first of the questions that wait."""
    if isinstance(asked.asked, QuestionAsked):
        head = _head(asked.agent, "asks", "", width, waiting)
        body = _questions(asked.asked.questions, width, picked)
        return Dialog((head,), Drawn(body), (_hint(asked.asked.questions, width),))
    request = asked.asked
    word = "has a plan" if request.plan else "may it?"
    head = _head(asked.agent, word, request.title, width, waiting)
    foot = _options(options or options_of(request), width)
    return Dialog((head,), _request(request, width), tuple(foot))


def _head(agent: str, word: str, title: str, width: int, waiting: int) -> Row:
    """Say who asks, and how many questions wait."""
    badge = "main" if agent == MAIN else agent.removeprefix(f"{MAIN}/")
    queue = f" 1 of {waiting} " if waiting > 1 else ""
    spans = [Span("── "), Span(f" {badge} ", "badge"), Span(f" {word} ", "asks")]
    used = sum(cells(span.text) for span in spans) + cells(queue) + 3
    shown = fit([Span(title, "strong")], max(0, width - used)).spans
    rest = width - sum(cells(span.text) for span in (*spans, *shown)) - cells(queue) - 1
    return fit([*spans, *shown, Span(f" {'─' * max(0, rest)}", "dim"), Span(queue)], width)


def _request(request: PermissionAsked, width: int) -> RowSource:
    """Show exactly what would be done; nothing of it is left out."""
    why = wrap([Span(request.why, "dim")], width, first=[_INDENT], rest=[_INDENT])
    if request.plan:
        return Drawn(draw_markdown(request.plan, width))
    if is_diff(request.preview):
        return Stack(Drawn(draw_diff(request.preview, width, lead=_INDENT)), Drawn(why))
    parts: list[RowSource] = []
    for name, text in _arguments(request.arguments):
        if name != "command":
            label = wrap([Span(f"{name}:", "dim")], width, first=[_INDENT])
            parts.append(Drawn(label))
        parts.append(Plain(text, width, lead=Span("    "), style="code"))
    if request.preview:
        parts.append(Plain(request.preview, width, lead=_INDENT))
    if not parts:
        parts.append(Drawn(wrap([Span(request.title)], width, first=[_INDENT], rest=[_INDENT])))
    return Stack(*parts, Drawn(why))


def _arguments(text: str) -> list[tuple[str, str]]:
    """Read the arguments of a call; what cannot be read is shown as it is."""
    if not text or text == "{}":
        return []
    try:
        read: object = json.loads(text)
    except (ValueError, RecursionError):
        read = None
    if not isinstance(read, dict):
        return [("arguments", text)]
    found = cast("dict[str, object]", read)
    return [
        (name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        for name, value in found.items()
    ]


def _options(options: Sequence[Option], width: int) -> list[Row]:
    rows: list[Row] = []
    for option in options:
        spans = [Span(f"[{option.key}]", "key"), Span(f" {option.label}")]
        if option.rule:
            spans.append(Span(f": {option.rule}", "dim"))
        rows += wrap(spans, width, first=[_INDENT], rest=[Span("      ")], key=option.key)
    return rows


def _questions(questions: Sequence[Question], width: int, picked: Picked) -> list[Row]:
    rows: list[Row] = []
    for number, question in enumerate(questions):
        if number:
            rows.append(EMPTY)
        if question.header and len(questions) > 1:
            rows.append(fit([_INDENT, Span(question.header, "dim")], width))
        rows += wrap([Span(question.question, "strong")], width, first=[_INDENT], rest=[_INDENT])
        for place in range(len(question.options)):
            rows += _choice(question, (number, place), width, picked)
        if words := picked.worded.get(number):
            lead = Span("     [x] " if question.multiple else "     (x) ", "bullet")
            rows += wrap([Span(words, "strong")], width, first=[lead], rest=[Span(" " * 9)])
    return rows


def _choice(question: Question, at: tuple[int, int], width: int, picked: Picked) -> list[Row]:
    option = question.options[at[1]]
    mark = "x" if at in picked.chosen else " "
    box = f"[{mark}] " if question.multiple else f"({mark}) "
    here = at == picked.at
    spans = [Span(option.label, "strong" if here else "")]
    if option.description:
        spans.append(Span(f" - {option.description}", "dim"))
    lead = [Span("> " if here else "  ", "asks"), Span(f"{at[1] + 1}. "), Span(box, "bullet")]
    rest = [Span(" " * sum(cells(span.text) for span in lead))]
    return wrap(spans, width, first=lead, rest=rest, key=f"{at[0]}:{at[1]}")


def _hint(questions: Sequence[Question], width: int) -> Row:
    marks = "space marks, " if any(question.multiple for question in questions) else ""
    told = f"numbers or arrows, {marks}enter answers, or type your own"
    return fit([_INDENT, Span(told, "dim")], width)
