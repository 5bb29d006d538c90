"""What the user is asked, and how it is answered."""

from __future__ import annotations

import msgspec


class Choice(msgspec.Struct, frozen=True):
    """One option of a question."""

    label: str
    description: str = ""


class Question(msgspec.Struct, frozen=True):
    """One question of AskUserQuestion."""

    question: str
    header: str = ""
    options: tuple[Choice, ...] = ()
    multiple: bool = False


class Answer(msgspec.Struct, frozen=True, tag_field="type", tag="answer"):
    """Answers a permission request or a question; a command."""

    request_id: str
    allow: bool = True
    always: bool = False
    """Allow by the suggested rules for the rest of the session."""
    text: str = ""
    """Why not, the answer to a question (one line per question), or a plan as edited."""
