"""One call of a hook that is a Python function: what it is told, and what it may say.

There is one type for each event, with the fields that a command gets as JSON on its standard input.
The hint of a function's parameter says which event it is for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct


class HookInput(Struct, frozen=True, kw_only=True):
    """What every hook is told."""

    session_id: str
    transcript_path: str
    """The session's journal."""
    cwd: str


class PreToolUseInput(HookInput, frozen=True, kw_only=True):
    """A call is about to run; it can be refused, asked about, let through or changed."""

    tool_name: str
    tool_input: dict[str, Any]


class PermissionRequestInput(HookInput, frozen=True, kw_only=True):
    """A call would be asked about; a decision to allow or deny it answers in the user's place."""

    tool_name: str
    tool_input: dict[str, Any]


class PostToolUseInput(HookInput, frozen=True, kw_only=True):
    """A call has run; the model is told of an objection, and of what a hook adds."""

    tool_name: str
    tool_input: dict[str, Any]
    tool_response: str


class UserPromptSubmitInput(HookInput, frozen=True, kw_only=True):
    """Something is said to the main agent; it can be refused, or added to."""

    prompt: str


class SessionStartInput(HookInput, frozen=True, kw_only=True):
    """The session begins."""

    source: Literal["startup", "resume"]


class StopInput(HookInput, frozen=True, kw_only=True):
    """The main agent is done; to deny that is to let it go on, with the reason before it."""

    stop_hook_active: bool
    """Whether it has gone on for a hook already."""


class PreCompactInput(HookInput, frozen=True, kw_only=True):
    """The conversation is about to be replaced by a summary; context is for whoever writes it."""

    trigger: str
    focus: str


class _ChildInput(HookInput, frozen=True, kw_only=True):
    agent_path: str
    agent_type: str
    """`fork` for a fork."""
    task_id: str
    parent_path: str
    description: str
    run: int
    """1, and more each time it is woken."""
    worktree_path: str
    worktree_branch: str


class SubagentStartInput(_ChildInput, frozen=True, kw_only=True):
    """An agent is about to begin, or to go on; it can be refused."""


class SubagentStopInput(_ChildInput, frozen=True, kw_only=True):
    """An agent has ended; one that is `completed` can be made to go on."""

    status: Literal["completed", "failed", "killed"]
    stop_hook_active: bool


class WorktreeCreateInput(_ChildInput, frozen=True, kw_only=True):
    """An agent's worktree is there; it can be refused."""


class WorktreeRemoveInput(_ChildInput, frozen=True, kw_only=True):
    """An unchanged worktree has been removed."""


INPUTS: dict[str, type[HookInput]] = {
    kind.__name__.removesuffix("Input"): kind
    for kind in (
        PreToolUseInput,
        PermissionRequestInput,
        PostToolUseInput,
        UserPromptSubmitInput,
        SessionStartInput,
        StopInput,
        PreCompactInput,
        SubagentStartInput,
        SubagentStopInput,
        WorktreeCreateInput,
        WorktreeRemoveInput,
    )
}
"""What the hooks of each event are told."""


class HookResult(Struct, frozen=True, kw_only=True):
    """What a hook says of an event; what is left out is as if it had not been asked."""

    decision: Literal["allow", "ask", "deny"] | None = None
    """May it happen? `ask` has the user asked; to deny the end of an agent is to let it go on."""
    reason: str = ""
    """Why, for the model."""
    updated_input: Mapping[str, Any] | None = None
    """In place of a call's whole input."""
    context: str = ""
    """What the model should know."""
    message: str = ""
    """What the user should know."""
    stop: str | None = None
    """Why the turn must end now."""
