"""What members of a team tell each other, as values."""

from __future__ import annotations

from typing import TypeAlias

import msgspec


class _Body(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    """Base of everything that can be in a mail."""


class Message(_Body, frozen=True, tag="message"):
    """Something said; the only kind that anybody may send to anybody."""

    text: str
    summary: str = ""
    """A few words for a list."""


class PermissionRequest(_Body, frozen=True, tag="permission_request"):
    """A member asks the leader whether a call may run."""

    request_id: str
    tool: str
    title: str
    why: str = ""
    suggestion: tuple[str, ...] = ()
    """Rules that would allow it for the rest of the session."""
    arguments: str = ""
    """The call's arguments as JSON."""
    preview: str = ""
    """What the call would change, as a diff."""


class PermissionResponse(_Body, frozen=True, tag="permission_response"):
    """The leader's answer to a member's request."""

    request_id: str
    allow: bool
    always: bool = False
    """Allow by the suggested rules for the rest of the session."""
    text: str = ""


class PermissionSettled(_Body, frozen=True, tag="permission_settled"):
    """A member's request needs no answer any more: it was answered there, or its call is gone."""

    request_id: str
    outcome: str


class PlanRequest(_Body, frozen=True, tag="plan_request"):
    """A member asks the leader to approve its plan."""

    request_id: str
    plan: str


class PlanResponse(_Body, frozen=True, tag="plan_response"):
    """The leader's answer to a plan."""

    request_id: str
    approve: bool
    feedback: str = ""


class ShutdownRequest(_Body, frozen=True, tag="shutdown_request"):
    """The leader asks a member to end."""

    request_id: str
    reason: str = ""


class ShutdownResponse(_Body, frozen=True, tag="shutdown_response"):
    """A member ends, or says why it does not."""

    request_id: str
    agree: bool
    reason: str = ""


class Idle(_Body, frozen=True, tag="idle"):
    """A member has nothing to do."""

    summary: str = ""


MailBody: TypeAlias = (
    Message
    | PermissionRequest
    | PermissionResponse
    | PermissionSettled
    | PlanRequest
    | PlanResponse
    | ShutdownRequest
    | ShutdownResponse
    | Idle
)


class Mail(msgspec.Struct, frozen=True, kw_only=True):
    """One mail, proved to be from its sender and for whoever reads it."""

    id: str
    """One for all copies of a broadcast, and never used again."""
    sender: str
    to: str
    """The reader's name, or `*` if it went to everyone."""
    at: float
    """Seconds since the epoch, by the sender's clock."""
    body: MailBody
