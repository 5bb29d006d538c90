"""Questions of MCP servers to the user, in whatever face there is.

What a server asks for is a flat form: each field is one question. Nobody answers for the user: with
nobody there it is declined, and the user is told.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import msgspec

from prong.agent import OpenQuestions
from prong.event import MAIN, Event, QuestionAsked, Warned
from prong.question import Answer, Choice, Question
from prong.session.server_address import may_visit

if TYPE_CHECKING:
    from mcp_types import ElicitRequestParams, ElicitResult

_FIELDS = 20
_TEXT = 500
_DONE, _SKIP, _DECLINE = "Done", "Skip", "Decline"
FormValue: TypeAlias = str | int | float | bool | list[str] | None


class FormField(msgspec.Struct, frozen=True):
    """One field of a form, as far as it can be asked for in words."""

    key: str
    question: Question
    kind: str
    values: dict[str, FormValue] = {}
    """What the labels of its options stand for."""

    def read(self, text: str) -> FormValue:
        """Read an answer.

        Raises ValueError if it is not of the kind that was asked for.
        """
        text = text.strip()
        if self.question.multiple:
            chosen = [part.strip() for part in text.split(",") if part.strip()]
            return [str(self.values.get(one, one)) for one in chosen]
        if text in self.values:
            return self.values[text]
        if self.question.options:
            raise ValueError(f"{text!r} is none of the choices")
        match self.kind:
            case "integer":
                return int(text)
            case "number":
                return float(text)
            case _:
                return text


class Elicitations:
    """Puts questions of servers to the user, in the name of the main agent."""

    def __init__(self, questions: OpenQuestions, emit: Callable[[Event], None]) -> None:
        """Take who is asked, and where to say what came of it."""
        self._questions = questions
        self._emit = emit

    async def elicit(self, server: str, params: ElicitRequestParams) -> ElicitResult:
        """Ask; it is declined if nobody is there to answer."""
        from mcp_types import ElicitResult

        if not self._questions.answerable:
            what = " ".join(params.message.split())[:_TEXT]
            self._warn(f"MCP server {server!r} asks: {what}; nobody is here, so it was declined")
            return ElicitResult(action="decline")
        if params.mode == "url":
            return await self._visit(server, params.message, params.url)
        fields = _fields(server, params.message, params.requested_schema)
        if fields is None:
            self._warn(f"MCP server {server!r} asks for what no form can hold; it was declined")
            return ElicitResult(action="decline")
        content: dict[str, FormValue] = {}
        for field in fields:
            answer = await self._ask(field.question)
            if answer is None:
                return ElicitResult(action="cancel")
            word = answer.text.strip()
            if not answer.allow or word.lower() == _DECLINE.lower():
                return ElicitResult(action="decline")
            if word and word.lower() != _SKIP.lower():
                try:
                    content[field.key] = field.read(word)
                except ValueError as error:
                    self._warn(f"MCP server {server!r} is given no answer: {error}")
                    return ElicitResult(action="decline")
        content.pop("", None)
        return ElicitResult(action="accept", content=cast("Any", content))

    async def _visit(self, server: str, message: str, url: str) -> ElicitResult:
        """Show an address; whether to go there is the user's decision, and done by hand."""
        from mcp_types import ElicitResult

        if not may_visit(url):
            self._warn(f"MCP server {server!r} wants {url[:_TEXT]!r} visited, which was declined")
            return ElicitResult(action="decline")
        choices = (Choice(_DONE, "I have been there"), Choice(_DECLINE, "I do not go there"))
        text = f"MCP server {server} wants you to visit {url[:_TEXT]}\n{message[:_TEXT]}"
        answer = await self._ask(Question(text, "MCP", choices))
        good = answer is not None and answer.allow and answer.text.strip() == _DONE
        return ElicitResult(action="accept" if good else "decline")

    async def _ask(self, question: Question) -> Answer | None:
        asked = QuestionAsked(request_id=self._questions.number(), questions=(question,))
        return await self._questions.ask(MAIN, asked, self._emit)

    def _warn(self, text: str) -> None:
        self._emit(Warned(text=text))


def _fields(server: str, message: str, schema: dict[str, Any]) -> list[FormField] | None:
    """Make questions of a schema; None if it holds what a line cannot answer."""
    lead = f"MCP server {server} asks: {message[:_TEXT]}"
    properties: object = schema.get("properties")
    if not isinstance(properties, dict) or len(cast("dict[str, object]", properties)) > _FIELDS:
        return None if properties else [_confirm(lead)]
    needed = cast("object", schema.get("required"))
    required = cast("list[object]", needed) if isinstance(needed, list) else []
    fields: list[FormField] = []
    for key, value in cast("dict[str, object]", properties).items():
        shape = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        ways = (_DECLINE,) if key in required else (_SKIP, _DECLINE)
        field = _field(key, shape, lead, ways)
        if field is None:
            return None
        fields.append(field)
    return fields or [_confirm(lead)]


def _confirm(lead: str) -> FormField:
    question = Question(lead, "MCP", (Choice("Yes"), Choice(_DECLINE)))
    return FormField("", question, "boolean", {"Yes": True})


def _field(key: str, shape: dict[str, Any], lead: str, ways: tuple[str, ...]) -> FormField | None:
    kind = shape.get("type", "string")
    named = str(shape.get("title") or key)
    about = f" ({str(shape['description'])[:_TEXT]})" if shape.get("description") else ""
    text = f"{lead}\n{named}{about}".strip()
    if kind == "boolean":
        values: dict[str, FormValue] = {"Yes": True, "No": False}
    elif kind == "array":
        items = shape.get("items")
        values = _choices(cast("dict[str, Any]", items) if isinstance(items, dict) else {})
    elif kind in {"string", "number", "integer"}:
        values = _choices(shape)
    else:
        return None
    options = tuple(Choice(label) for label in (*values, *ways)) if values else ()
    if not values:
        text += f" [or {' or '.join(way.lower() for way in ways)}]"
    question = Question(text, "MCP", options, multiple=kind == "array")
    return FormField(key, question, str(kind), values)


def _choices(shape: dict[str, Any]) -> dict[str, FormValue]:
    """Read what may be chosen from, in the ways in which forms say it."""
    named = shape.get("oneOf") or shape.get("anyOf")
    if isinstance(named, list):
        pairs = [cast("dict[str, Any]", one) for one in cast("list[object]", named) if one]
        return {str(one.get("title") or one.get("const")): one.get("const") for one in pairs}
    values = shape.get("enum")
    if not isinstance(values, list):
        return {}
    labels = shape.get("enumNames")
    given = cast("list[FormValue]", values)
    told = cast("list[object]", labels) if isinstance(labels, list) else given
    return {str(label): value for label, value in zip(told, given, strict=False)}
