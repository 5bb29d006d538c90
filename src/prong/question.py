"""What the user is asked, and how it is answered."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

PlanMode: TypeAlias = Literal["", "default", "acceptEdits", "auto", "dontAsk", "bypassPermissions"]
"""The permission mode after a plan; empty for the one from before it."""


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
    """The same as `remember="session"`."""
    text: str = ""
    """Why not, the answer to a question (one line per question), or a plan as edited."""
    remember: Literal["", "session", "project"] = ""
    """How long the suggested rules are to allow it: this once, for the rest of the session, or in
    all later sessions of the project too, by the settings file that the request names."""
    mode: PlanMode = ""
    """For a plan that is approved: the permission mode to go on in."""

    def __post_init__(self) -> None:
        """Read the older word for a rule of the session."""
        if self.always and not self.remember:
            msgspec.structs.force_setattr(self, "remember", "session")
