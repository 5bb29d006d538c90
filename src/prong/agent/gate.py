"""A call that was decided on: the call as it is to run, or why it must not."""

from __future__ import annotations

from typing import Any

import msgspec

from prong.entry import Call
from prong.host.sandbox import NONE, Profile
from prong.tools.tool import Tool


class CheckedCall(msgspec.Struct, frozen=True):
    """A call as it is to run, or why it must not."""

    call: Call
    tool: Tool
    args: Any
    refused: str | None = None
    """Why it must not run, in words for the model; None if it may."""
    notes: tuple[str, ...] = ()
    """What the model is told beside the result."""
    profile: Profile = NONE
    """What its processes are held to."""
