"""What an editor is sent, in the protocol's own words."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType, field

Meta: TypeAlias = dict[str, Any] | UnsetType
"""What stands beside the protocol's own fields."""


class _ToEditor(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """What all of these share."""


class TextBlock(_ToEditor, frozen=True, kw_only=True, tag_field="type", tag="text"):
    """A piece of text; Markdown."""

    text: str


class CallText(_ToEditor, frozen=True, kw_only=True, tag_field="type", tag="content"):
    """Text that belongs to a tool call."""

    content: TextBlock


class CallDiff(_ToEditor, frozen=True, kw_only=True, tag_field="type", tag="diff"):
    """A change of a file, or of a part of one."""

    path: str
    new_text: str
    old_text: str | None = None
    """None for a file that was not there."""


CallContent: TypeAlias = CallText | CallDiff


class CallLocation(_ToEditor, frozen=True, kw_only=True):
    """Where a tool works."""

    path: str
    line: int | None = None


CallKind: TypeAlias = Literal[
    "read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"
]
CallStatus: TypeAlias = Literal["pending", "in_progress", "completed", "failed"]


class _Update(_ToEditor, frozen=True, kw_only=True, tag_field="sessionUpdate"):
    """What all updates of a session share."""

    meta: Meta = field(default=UNSET, name="_meta")


class UserChunk(_Update, frozen=True, kw_only=True, tag="user_message_chunk"):
    """More of a message of the user."""

    content: TextBlock
    message_id: str


class ReplyChunk(_Update, frozen=True, kw_only=True, tag="agent_message_chunk"):
    """More of a reply."""

    content: TextBlock
    message_id: str


class ThoughtChunk(_Update, frozen=True, kw_only=True, tag="agent_thought_chunk"):
    """More of what the model thinks."""

    content: TextBlock
    message_id: str


class _CallFields(_Update, frozen=True, kw_only=True):
    tool_call_id: str
    kind: CallKind | UnsetType = UNSET
    status: CallStatus | UnsetType = UNSET
    name: str | UnsetType = UNSET
    content: tuple[CallContent, ...] | UnsetType = UNSET
    locations: tuple[CallLocation, ...] | UnsetType = UNSET
    raw_input: msgspec.Raw | UnsetType = UNSET


class CallStart(_CallFields, frozen=True, kw_only=True, tag="tool_call"):
    """A tool call that the editor has not heard of."""

    title: str


class CallUpdate(_CallFields, frozen=True, kw_only=True, tag="tool_call_update"):
    """What has changed of a tool call."""

    title: str | UnsetType = UNSET


class PlanEntry(_ToEditor, frozen=True, kw_only=True):
    """One thing to do."""

    content: str
    priority: Literal["high", "medium", "low"]
    status: Literal["pending", "in_progress", "completed"]


class PlanUpdate(_Update, frozen=True, kw_only=True, tag="plan"):
    """The agent's list of things to do."""

    entries: tuple[PlanEntry, ...]


class CommandHint(_ToEditor, frozen=True, kw_only=True):
    """What may follow the name of a command."""

    hint: str


class OfferedCommand(_ToEditor, frozen=True, kw_only=True):
    """A command that can be typed with a slash."""

    name: str
    description: str
    input: CommandHint | None = None


class CommandsUpdate(_Update, frozen=True, kw_only=True, tag="available_commands_update"):
    """The commands that can be typed with a slash."""

    available_commands: tuple[OfferedCommand, ...]


class ModeUpdate(_Update, frozen=True, kw_only=True, tag="current_mode_update"):
    """The mode is another."""

    current_mode_id: str


class OptionValue(_ToEditor, frozen=True, kw_only=True):
    """A value that an option can have."""

    value: str
    name: str
    description: str | None = None


class ConfigOption(_ToEditor, frozen=True, kw_only=True, tag_field="type", tag="select"):
    """Something that the user can choose."""

    id: str
    name: str
    category: str
    current_value: str
    options: tuple[OptionValue, ...]


class ConfigUpdate(_Update, frozen=True, kw_only=True, tag="config_option_update"):
    """What can be chosen, and what is, has changed."""

    config_options: tuple[ConfigOption, ...]


class TitleUpdate(_Update, frozen=True, kw_only=True, tag="session_info_update"):
    """The session has a name, or another."""

    title: str | None


class Money(_ToEditor, frozen=True, kw_only=True):
    """Money."""

    amount: float
    currency: str


class UsageUpdate(_Update, frozen=True, kw_only=True, tag="usage_update"):
    """How full the context is, and what the session has cost."""

    used: int
    size: int
    cost: Money | UnsetType = UNSET


class NoticeUpdate(_Update, frozen=True, kw_only=True, tag="notice"):
    """Something that the user should know."""

    severity: Literal["info", "warning", "error"]
    title: str


class CompactionUpdate(_Update, frozen=True, kw_only=True, tag="compaction_update"):
    """The conversation was replaced by a summary."""

    compaction_id: str
    status: Literal["in_progress", "completed", "failed", "cancelled"]


class SubagentUpdate(_Update, frozen=True, kw_only=True, tag="subagent_update"):
    """A session below this one."""

    session_id: str
    title: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    capabilities: dict[str, Any] | UnsetType = UNSET
    state: dict[str, Any] | UnsetType = UNSET


SessionUpdate: TypeAlias = (
    UserChunk
    | ReplyChunk
    | ThoughtChunk
    | CallStart
    | CallUpdate
    | PlanUpdate
    | CommandsUpdate
    | ModeUpdate
    | ConfigUpdate
    | TitleUpdate
    | UsageUpdate
    | NoticeUpdate
    | CompactionUpdate
    | SubagentUpdate
)


class UpdateParams(_ToEditor, frozen=True, kw_only=True):
    """An update, and of which session."""

    session_id: str
    update: SessionUpdate


def reply_text(text: str, message_id: str) -> ReplyChunk:
    """Make a piece of a reply."""
    return ReplyChunk(content=TextBlock(text=text), message_id=message_id)


def thought_text(text: str, message_id: str) -> ThoughtChunk:
    """Make a piece of what the model thinks."""
    return ThoughtChunk(content=TextBlock(text=text), message_id=message_id)


def call_text(text: str) -> CallText:
    """Make text that belongs to a tool call."""
    return CallText(content=TextBlock(text=text))
