"""What an editor is answered and asked, beside updates, in the protocol's own words."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from prong.about import __version__
from prong.face.acp.session_update import (
    CallContent,
    CallKind,
    CallLocation,
    CallStatus,
    ConfigOption,
    Meta,
)

VERSION = 1
"""The version of the protocol."""
KEY_METHOD = "environment"
"""The one way to authenticate: a key that was there when the program started."""


class _EditorResult(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """What all of these share."""


class Nothing(_EditorResult, frozen=True, kw_only=True):
    """It is done, and there is nothing to say."""


class InitializeResult(_EditorResult, frozen=True, kw_only=True, omit_defaults=False):
    """Who we are and what we can do."""

    protocol_version: int
    agent_capabilities: dict[str, Any]
    agent_info: dict[str, str]
    auth_methods: list[dict[str, Any]]


class ModeChoice(_EditorResult, frozen=True, kw_only=True):
    """A permission mode."""

    id: str
    name: str
    description: str


class ModeState(_EditorResult, frozen=True, kw_only=True):
    """The permission modes, and which it is."""

    current_mode_id: str
    available_modes: tuple[ModeChoice, ...]


class OpenResult(_EditorResult, frozen=True, kw_only=True):
    """A session that has been opened."""

    modes: ModeState
    config_options: tuple[ConfigOption, ...]
    session_id: str | UnsetType = UNSET
    """Of one that the editor did not know."""


class ConfigResult(_EditorResult, frozen=True, kw_only=True, omit_defaults=False):
    """What can be chosen, after a choice."""

    config_options: tuple[ConfigOption, ...]


class ListedSession(_EditorResult, frozen=True, kw_only=True):
    """A stored session."""

    session_id: str
    cwd: str
    title: str
    updated_at: str


class ListResult(_EditorResult, frozen=True, kw_only=True):
    """Stored sessions."""

    sessions: tuple[ListedSession, ...]
    next_cursor: str | UnsetType = UNSET


class TokenCount(_EditorResult, frozen=True, kw_only=True, omit_defaults=False):
    """Tokens of a session so far."""

    total_tokens: int
    input_tokens: int
    output_tokens: int
    thought_tokens: int
    cached_read_tokens: int
    cached_write_tokens: int


class PromptResult(_EditorResult, frozen=True, kw_only=True):
    """How the work on a message has ended."""

    stop_reason: Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"]
    usage: TokenCount


class PermissionChoice(_EditorResult, frozen=True, kw_only=True):
    """One answer to a permission request."""

    option_id: str
    name: str
    kind: Literal["allow_once", "allow_always", "reject_once", "reject_always"]


class AskedCall(_EditorResult, frozen=True, kw_only=True):
    """The tool call that a permission request is about."""

    tool_call_id: str
    title: str
    kind: CallKind
    status: CallStatus
    content: tuple[CallContent, ...]
    locations: tuple[CallLocation, ...] | UnsetType = UNSET
    raw_input: msgspec.Raw | UnsetType = UNSET
    meta: Meta = msgspec.field(default=UNSET, name="_meta")


class PermissionParams(_EditorResult, frozen=True, kw_only=True):
    """A permission request."""

    session_id: str
    tool_call: AskedCall
    options: tuple[PermissionChoice, ...]


class FormParams(_EditorResult, frozen=True, kw_only=True):
    """A form that the user is to fill in."""

    session_id: str
    mode: str
    message: str
    requested_schema: dict[str, Any]


def initialized() -> InitializeResult:
    """Say who we are and what we can do."""
    return InitializeResult(
        protocol_version=VERSION,
        agent_info={"name": "prong", "title": "Prong", "version": __version__},
        agent_capabilities={
            "loadSession": True,
            "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
            "mcpCapabilities": {"http": True, "sse": False},
            "sessionCapabilities": {
                "list": {},
                "fork": {},
                "resume": {},
                "close": {},
                "additionalDirectories": {},
            },
        },
        auth_methods=[
            {
                "id": KEY_METHOD,
                "name": "A key in the environment",
                "description": "Set ANTHROPIC_API_KEY or OPENAI_API_KEY in the environment that "
                "the editor gives to the agent, or name a model that needs no key: prong acp "
                "--model local",
            }
        ],
    )
