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
    """A file with the conversation so far, a JSON object in each line; empty if there is none."""
    cwd: str
    """Where the agent's commands start now."""
    permission_mode: str = "default"
    prompt_id: str = ""
    """Names what the user has said that this is about."""
    agent_id: str = ""
    """The id of the agent that this is about; empty for the main agent."""
    agent_type: str = ""
    """Its type, `fork` for a fork; empty for the main agent."""


class PreToolUseInput(HookInput, frozen=True, kw_only=True):
    """A call is about to run; it can be refused, asked about, let through or changed."""

    tool_name: str
    tool_input: dict[str, Any]
    """Paths of files in it are absolute."""
    tool_use_id: str = ""


class PermissionRequestInput(HookInput, frozen=True, kw_only=True):
    """A call would be asked about; a decision to allow or deny it answers in the user's place."""

    tool_name: str
    tool_input: dict[str, Any]
    tool_use_id: str = ""


class PostToolUseInput(HookInput, frozen=True, kw_only=True):
    """A call has run; the model is told of an objection, and of what a hook adds."""

    tool_name: str
    tool_input: dict[str, Any]
    tool_response: Any
    """What it gave, in a form of the tool's own: of Bash an object with `stdout`, and so on."""
    tool_text: str
    """What it gave, as the model reads it."""
    tool_use_id: str = ""
    duration_ms: int = 0


class PostToolUseFailureInput(HookInput, frozen=True, kw_only=True):
    """A call has run and failed; the model is told of what a hook adds."""

    tool_name: str
    tool_input: dict[str, Any]
    error: str
    is_interrupt: bool = False
    tool_use_id: str = ""
    duration_ms: int = 0


class UserPromptSubmitInput(HookInput, frozen=True, kw_only=True):
    """Something is said to the main agent; it can be refused, or added to."""

    prompt: str


class SessionStartInput(HookInput, frozen=True, kw_only=True):
    """A conversation begins: with the session, after `/clear`, or with a summary."""

    source: Literal["startup", "resume", "fork", "clear", "compact"]
    model: str = ""
    seconds_since_last_response: int | None = None
    """Of a session that is resumed; None if it is not."""
    context_tokens: int | None = None
    prompt_cache_likely_expired: bool | None = None


class SessionEndInput(HookInput, frozen=True, kw_only=True):
    """A conversation is over, with the session or by `/clear`; nobody can keep it."""

    reason: Literal["clear", "prompt_input_exit", "other"]
    """`prompt_input_exit` if a person sat at a session that ends."""


class StopInput(HookInput, frozen=True, kw_only=True):
    """The main agent is done; to deny that is to let it go on, with the reason before it."""

    stop_hook_active: bool
    """Whether it has gone on for a hook already."""
    last_assistant_message: str = ""


class PreCompactInput(HookInput, frozen=True, kw_only=True):
    """The conversation is about to be replaced by a summary; context is for whoever writes it."""

    trigger: Literal["manual", "auto"]
    custom_instructions: str | None = None
    """What the user wants it to be about."""
    detail: str = ""
    """Why, in words."""


class _ModelSwitchInput(HookInput, frozen=True, kw_only=True):
    from_model: str
    to_model: str
    context_tokens: int = 0
    """That the other model has to read anew."""
    prompt_cache_warm: bool = False
    cache_ttl: str = ""
    estimated_cache_write_usd: float | None = None
    """What that costs more than going on; None if a price is unknown."""
    cost: str = ""
    """The same in a sentence."""


class PreModelSwitchInput(_ModelSwitchInput, frozen=True, kw_only=True):
    """Another model is to answer; it can be refused."""


class PostModelSwitchInput(_ModelSwitchInput, frozen=True, kw_only=True):
    """Another model answers from now on."""


class NotificationInput(HookInput, frozen=True, kw_only=True):
    """Somebody is wanted at the terminal; nothing waits for the hook."""

    message: str
    title: str = ""
    notification_type: str = ""
    """`permission_prompt`, `agent_needs_input` or `idle_prompt`."""


class _ChildInput(HookInput, frozen=True, kw_only=True):
    agent_path: str
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
    last_assistant_message: str = ""
    agent_transcript_path: str = ""
    """A file with what it did itself, like that of the session."""


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
        PostToolUseFailureInput,
        UserPromptSubmitInput,
        SessionStartInput,
        SessionEndInput,
        StopInput,
        PreCompactInput,
        PreModelSwitchInput,
        PostModelSwitchInput,
        NotificationInput,
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
    updated_output: str | None = None
    """In place of what the model would read of a call that has run."""
    context: str = ""
    """What the model should know."""
    message: str = ""
    """What the user should know."""
    stop: str | None = None
    """Why the turn must end now."""
