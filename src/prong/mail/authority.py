"""Who may tell whom what, and what names there can be; pure."""

from __future__ import annotations

import re

from prong.errors import BadInput
from prong.mail.body import (
    Idle,
    MailBody,
    Message,
    PermissionRequest,
    PermissionResponse,
    PermissionSettled,
    PlanRequest,
    PlanResponse,
    ShutdownRequest,
    ShutdownResponse,
)

LEADER = "leader"
"""The name of the leader in every team."""
OUTSIDE = "outside"
"""Whoever writes from a shell: `prong team send`."""
EVERYONE = "*"
"""As a recipient: all but the sender."""
RESERVED = frozenset({LEADER, OUTSIDE, "user", "main", "tasks", "team"})
"""Names that no member can have."""

NAME_LENGTH = 40
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")


def may(body: MailBody, sender: str, recipient: str, leader: str = LEADER) -> str | None:
    """Say why a mail may not be sent, or None if it may."""
    if sender == recipient:
        return f"{sender} cannot write to itself"
    if recipient == OUTSIDE:
        return "nobody reads mail to outside; write to the leader"
    if isinstance(body, Message):
        return None
    match body:
        case PermissionResponse() | PlanResponse() | ShutdownRequest():
            if sender != leader:
                return f"only the leader decides; {sender} may ask it, or send a message"
        case (
            PermissionRequest() | PermissionSettled() | PlanRequest() | ShutdownResponse() | Idle()
        ):
            if sender == OUTSIDE:
                return "from outside only messages can be sent"
            if recipient != leader:
                return f"this is for the leader alone; send {recipient} a message"
    return "only a message can go to everyone; name one member" if recipient == EVERYONE else None


def is_name(name: str) -> bool:
    """Whether a team could have that name, and a member, unless it is reserved."""
    return len(name) <= NAME_LENGTH and _NAME.fullmatch(name) is not None


def check_name(name: str, *, of: str = "member") -> str:
    """Give a name that is one of a team or a member, else raise BadInput."""
    if not is_name(name):
        shown = name if len(name) <= NAME_LENGTH else name[:NAME_LENGTH] + "…"
        raise BadInput(
            f"{shown!r} cannot be the name of a {of}: take 1 to {NAME_LENGTH} lower-case letters, "
            f"digits and hyphens, with a letter or digit first and last"
        )
    if of == "member" and name in RESERVED:
        raise BadInput(f"{name!r} cannot be the name of a member: it has a meaning of its own")
    return name
