"""What an editor sends: the parameters of its requests, and its answers to ours.

In the protocol's own words, less what Prong has no use for. What is unknown is left out.
"""

from __future__ import annotations

from typing import Any

import msgspec


class _FromEditor(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """What all of these share."""


class FormAbility(_FromEditor, frozen=True, kw_only=True):
    """In which ways an editor can ask its user for values."""

    form: dict[str, Any] | None = None


class UpdateAbility(_FromEditor, frozen=True, kw_only=True):
    """Which updates of a session an editor takes beyond the usual."""

    compaction: dict[str, Any] | None = None
    notices: dict[str, Any] | None = None


class EditorAbility(_FromEditor, frozen=True, kw_only=True):
    """What an editor can do."""

    session: UpdateAbility | None = None
    subagents: dict[str, Any] | None = None
    elicitation: FormAbility | None = None

    @property
    def notices(self) -> bool:
        """Whether it shows notices."""
        return self.session is not None and self.session.notices is not None

    @property
    def compactions(self) -> bool:
        """Whether it shows that a conversation was compacted."""
        return self.session is not None and self.session.compaction is not None

    @property
    def forms(self) -> bool:
        """Whether it can ask its user for values."""
        return self.elicitation is not None and self.elicitation.form is not None

    @property
    def children(self) -> bool:
        """Whether it knows sessions below sessions."""
        return self.subagents is not None


class InitializeParams(_FromEditor, frozen=True, kw_only=True):
    """How an editor begins."""

    protocol_version: int
    client_capabilities: EditorAbility = EditorAbility()


class AuthenticateParams(_FromEditor, frozen=True, kw_only=True):
    """Which way to authenticate the user has chosen."""

    method_id: str


class NamedValue(_FromEditor, frozen=True, kw_only=True):
    """A variable of the environment, or a header."""

    name: str
    value: str


class EditorServerSpec(_FromEditor, frozen=True, kw_only=True):
    """An MCP server that the editor wants a session to have."""

    name: str
    type: str = "stdio"
    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[NamedValue, ...] = ()
    url: str = ""
    headers: tuple[NamedValue, ...] = ()


class OpenParams(_FromEditor, frozen=True, kw_only=True):
    """How a session is to be opened: anew, loaded, resumed or as a copy."""

    cwd: str
    session_id: str = ""
    """Empty for a new one."""
    additional_directories: tuple[str, ...] | None = None
    mcp_servers: tuple[EditorServerSpec, ...] | None = None
    system_prompt: dict[str, Any] | None = None


class SessionParams(_FromEditor, frozen=True, kw_only=True):
    """Which session is meant."""

    session_id: str


class ListParams(_FromEditor, frozen=True, kw_only=True):
    """Which stored sessions are wanted."""

    cwd: str | None = None
    cursor: str | None = None


class ModeParams(_FromEditor, frozen=True, kw_only=True):
    """The mode that the user has chosen."""

    session_id: str
    mode_id: str


class ConfigParams(_FromEditor, frozen=True, kw_only=True):
    """The value of an option that the user has chosen."""

    session_id: str
    config_id: str
    value: str | bool


class CancelParams(_FromEditor, frozen=True, kw_only=True):
    """Which request is taken back."""

    request_id: int | str | None


class EmbeddedResource(_FromEditor, frozen=True, kw_only=True):
    """A file, or something like it, that a message brings along."""

    uri: str
    mime_type: str | None = None
    text: str | None = None
    blob: str | None = None


class PromptBlock(_FromEditor, frozen=True, kw_only=True):
    """One piece of a message: text, image, resource_link, resource, audio."""

    type: str
    text: str = ""
    data: str = ""
    mime_type: str | None = None
    name: str = ""
    uri: str | None = None
    resource: EmbeddedResource | None = None


class PromptParams(_FromEditor, frozen=True, kw_only=True):
    """What the user says."""

    session_id: str
    prompt: tuple[PromptBlock, ...]


class ChosenOption(_FromEditor, frozen=True, kw_only=True):
    """What became of a permission request."""

    outcome: str
    option_id: str = ""


class PermissionGiven(_FromEditor, frozen=True, kw_only=True):
    """The answer to a permission request."""

    outcome: ChosenOption


class FormGiven(_FromEditor, frozen=True, kw_only=True):
    """The answer to a form."""

    action: str
    content: dict[str, Any] | None = None
