"""Questions of a session as an editor puts them, and its answers; pure.

What an editor answers is trusted to be the user's word, and nothing else: an answer that is not
among those that were offered is a no.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import msgspec

from prong.event import PermissionAsked
from prong.face.acp.call_content import (
    CallFolder,
    diffs_of,
    intended,
    kind_of_tool,
    locations_of,
    raw_arguments,
    read_arguments,
)
from prong.face.acp.editor_answer import AskedCall, FormParams, PermissionChoice, PermissionParams
from prong.face.acp.editor_value import ChosenOption, FormGiven
from prong.face.acp.session_update import CallContent, Meta, call_text
from prong.face.output import flat, printable
from prong.question import Answer, Question

_ONCE = PermissionChoice(option_id="once", name="Allow once", kind="allow_once")
_NO = PermissionChoice(option_id="no", name="Reject", kind="reject_once")
_APPROVE = PermissionChoice(option_id="approve", name="Approve the plan", kind="allow_once")
_ACCEPT = PermissionChoice(
    option_id="accept_edits", name="Approve, and accept edits", kind="allow_always"
)
_KEEP = PermissionChoice(option_id="no", name="Keep planning", kind="reject_once")
_NO_ANSWER = PermissionChoice(option_id="no", name="No answer", kind="reject_once")


def permission_params(
    session_id: str,
    asked: PermissionAsked,
    call_id: str,
    *,
    badge: str,
    folder: CallFolder,
    meta: Meta,
) -> PermissionParams:
    """Make a permission request; the badge says which agent asks."""
    arguments = read_arguments(asked.arguments)
    return PermissionParams(
        session_id=session_id,
        tool_call=AskedCall(
            tool_call_id=call_id,
            title=flat(f"{badge}{asked.title}"),
            kind=kind_of_tool(asked.tool),
            status="pending",
            content=_asked_content(asked, arguments, folder),
            locations=locations_of(arguments, folder) or msgspec.UNSET,
            raw_input=raw_arguments(asked.arguments),
            meta=meta,
        ),
        options=_choices_of(asked),
    )


def _asked_content(
    asked: PermissionAsked, arguments: dict[str, Any], folder: CallFolder
) -> tuple[CallContent, ...]:
    if asked.plan:
        return (call_text(printable(asked.plan)),)
    shown: tuple[CallContent, ...] = diffs_of(asked.preview, folder) or intended(
        asked.tool, arguments
    )
    return (*shown, call_text(asked.why)) if asked.why else shown


def _choices_of(asked: PermissionAsked) -> tuple[PermissionChoice, ...]:
    if asked.plan:
        return (_APPROVE, _ACCEPT, _KEEP)
    rules = flat(", ".join(asked.suggestion))
    lasting: list[PermissionChoice] = []
    if asked.suggestion:
        name = f"Allow for this session: {rules}"
        lasting.append(PermissionChoice(option_id="session", name=name, kind="allow_always"))
    if asked.file:
        name = f"Always allow: {rules} (in {asked.file})"
        lasting.append(PermissionChoice(option_id="project", name=name, kind="allow_always"))
    return (_ONCE, *lasting, _NO)


def permission_answer(asked: PermissionAsked, chosen: ChosenOption) -> Answer:
    """Read the answer to a permission request."""
    offered = {choice.option_id for choice in _choices_of(asked)}
    option = chosen.option_id if chosen.outcome == "selected" else ""
    if option not in offered or option == "no":
        return Answer(asked.request_id, allow=False)
    match option:
        case "session":
            return Answer(asked.request_id, remember="session")
        case "project":
            return Answer(asked.request_id, remember="project")
        case "accept_edits":
            return Answer(asked.request_id, mode="acceptEdits")
        case _:
            return Answer(asked.request_id)


def form_params(session_id: str, questions: Sequence[Question], *, badge: str) -> FormParams:
    """Make a form of questions: for each one of its options, or words of the user's own."""
    properties: dict[str, Any] = {}
    for number, question in enumerate(questions, 1):
        properties[f"answer{number}"] = _field(question)
        properties[f"other{number}"] = {
            "type": "string",
            "title": f"{question.header or 'Or'}: in your own words",
        }
    lines = "\n".join(question.question for question in questions)
    return FormParams(
        session_id=session_id,
        mode="form",
        message=printable(f"{badge}{lines}"),
        requested_schema={"type": "object", "properties": properties},
    )


def _field(question: Question) -> dict[str, Any]:
    options = [
        {"const": one.label, "title": one.label}
        | ({"description": one.description} if one.description else {})
        for one in question.options
    ]
    head = {"title": question.header or question.question, "description": question.question}
    if question.multiple:
        return {"type": "array", **head, "items": {"anyOf": options}}
    return {"type": "string", **head, "oneOf": options}


def form_answer(request_id: str, questions: Sequence[Question], given: FormGiven) -> Answer:
    """Read a form that was filled in; one that was not, or in part, is no answer."""
    content = given.content or {}
    lines = [_line(content, number) for number in range(1, len(questions) + 1)]
    if given.action != "accept" or not all(lines):
        return Answer(request_id, allow=False)
    return Answer(request_id, text="\n".join(lines))


def _line(content: dict[str, Any], number: int) -> str:
    """Give one answer in one line."""
    chosen: object = content.get(f"answer{number}")
    picked = cast("list[object]", chosen) if isinstance(chosen, list) else [chosen]
    given: list[object] = [*picked, content.get(f"other{number}")]
    words = [one for one in given if isinstance(one, str) and one.strip()]
    return ", ".join(" ".join(word.split()) for word in words)


def question_params(
    session_id: str, question: Question, call_id: str, *, badge: str
) -> PermissionParams:
    """Make a permission request of a question, for editors that know no forms."""
    told = "\n".join(
        f"{one.label}: {one.description}" for one in question.options if one.description
    )
    only = "One answer can be given here." if question.multiple else ""
    content = tuple(call_text(text) for text in (told, only) if text)
    return PermissionParams(
        session_id=session_id,
        tool_call=AskedCall(
            tool_call_id=call_id,
            title=flat(f"{badge}{question.question}"),
            kind="other",
            status="pending",
            content=content,
        ),
        options=(
            *(
                PermissionChoice(
                    option_id=f"option-{place}", name=flat(one.label), kind="allow_once"
                )
                for place, one in enumerate(question.options)
            ),
            _NO_ANSWER,
        ),
    )


def question_answer(question: Question, chosen: ChosenOption) -> str:
    """Read the answer to a question that was put as a permission request; empty for none."""
    if chosen.outcome != "selected":
        return ""
    offered = {f"option-{place}": one.label for place, one in enumerate(question.options)}
    return offered.get(chosen.option_id, "")


def agreement_params(session_id: str, question: str, call_id: str) -> PermissionParams:
    """Make a permission request of a question of our own, to be answered by yes or no."""
    return PermissionParams(
        session_id=session_id,
        tool_call=AskedCall(
            tool_call_id=call_id, title=question, kind="other", status="pending", content=()
        ),
        options=(
            PermissionChoice(option_id="once", name="Go on", kind="allow_once"),
            PermissionChoice(option_id="no", name="Leave it", kind="reject_once"),
        ),
    )
