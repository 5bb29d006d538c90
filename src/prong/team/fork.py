"""What a fork is, as pure functions.

    base  = the parent's prompt + its dispatching reply + one constant placeholder for every call
    child = base + its directive

Siblings share one base object. The parent's own result for a fork call is the same placeholder, so
that its next request extends the same base: N + 1 readers of one prefix. Nothing in these bytes
depends on a child, a clock or a path.
"""

from __future__ import annotations

import re
from functools import lru_cache

import msgspec

from prong.entry import Call, CallId, Result, Results, Text, User
from prong.prompt import Prompt

PLACEHOLDER = (
    "Dispatched. This stands in for the outcome, which only the caller gets; that of a background "
    "agent as a task notification."
)
"""What stands as the result of a call that a fork came of, for the parent and every child.

For a child it stands for the other calls of that reply too, so it says nothing that is true of
forks alone, and nothing of whether a call is done.
"""


def placeholders(calls: tuple[Call, ...]) -> Results:
    """Answer every call of a reply with the constant placeholder."""
    return Results(tuple(Result(call.id, (Text(PLACEHOLDER),)) for call in calls))


def base(prompt: Prompt, calls: tuple[Call, ...]) -> Prompt:
    """Extend a parent's prompt, which ends with its dispatching reply, by the placeholders."""
    return prompt.append(placeholders(calls))


def carrying_base(prompt: Prompt, calls: tuple[Call, ...]) -> Prompt:
    """Make a base that leaves the last call unanswered: its result will carry the directive.

    For models that drop earlier thinking as soon as plain user text arrives: results alone do not.
    """
    *others, _ = calls
    return prompt.append(placeholders(tuple(others))) if others else prompt


def child(base: Prompt, directive: str, *, carrier: CallId | None = None) -> Prompt:
    """Extend a fork base by what one child is to do, or by a result of the carrier that says so."""
    if carrier is None:
        return base.append(User((Text(directive),), "directive"))
    told = Results((Result(carrier, (Text(f"{PLACEHOLDER}\n\n{directive}"),)),))
    return base.append_encoded("directive", "user", base.head.dialect.encode(told))


class ForkReport(msgspec.Struct, frozen=True):
    """What a fork gave back, by field."""

    text: str
    """All of it."""
    structured: bool
    """Whether it was of the agreed form; if not, all of it is the result."""
    scope: str = ""
    result: str = ""
    key_files: str = ""
    files_changed: str = ""
    issues: str = ""


_FIELDS = {
    "scope": "scope",
    "result": "result",
    "key files": "key_files",
    "files changed": "files_changed",
    "issues": "issues",
}
_LABEL = (
    r"(?im)^[ \t]*(?:[#>*_-]+[ \t]*)?(?:\*\*|__)?(Scope|Result|Key files|Files changed|Issues)"
    r"(?:\*\*|__)?[ \t]*:[ \t]*(?:\*\*|__)?"
)


@lru_cache(maxsize=1)  # an event tells of it, and then a notice
def parse_report(text: str) -> ForkReport:
    """Read a report; one that is off the format arrives whole, marked as unstructured."""
    labels = list(re.finditer(_LABEL, text))
    fields: dict[str, str] = {}
    for label, following in zip(labels, [*labels[1:], None], strict=False):
        name = _FIELDS[label[1].lower()]
        end = following.start() if following else len(text)
        fields.setdefault(name, text[label.end() : end].strip())
    if "scope" not in fields or "result" not in fields:
        return ForkReport(text, structured=False, result=text.strip())
    return ForkReport(text, structured=True, **fields)
