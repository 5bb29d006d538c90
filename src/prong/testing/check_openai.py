"""What the two OpenAI APIs refuse."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from prong.testing.request import Request, invalid, is_string

_COMMON_FIELDS = frozenset(
    {
        "metadata", "model", "moderation", "parallel_tool_calls", "prompt_cache_key",
        "prompt_cache_options", "prompt_cache_retention", "safety_identifier", "service_tier",
        "store", "stream", "stream_options", "temperature", "tool_choice", "tools",
        "top_logprobs", "top_p", "user",
    }
)  # fmt: skip
_RESPONSES_FIELDS = _COMMON_FIELDS | {
    "access_programs", "background", "context_management", "conversation", "image", "include",
    "input", "instructions", "max_output_tokens", "max_tool_calls", "previous_response_id",
    "prompt", "reasoning", "text", "truncation",
}  # fmt: skip
_CHAT_FIELDS = _COMMON_FIELDS | {
    "audio", "frequency_penalty", "function_call", "functions", "logit_bias", "logprobs",
    "max_completion_tokens", "max_tokens", "messages", "modalities", "n", "prediction",
    "presence_penalty", "reasoning_effort", "response_format", "seed", "stop", "verbosity",
    "web_search_options",
}  # fmt: skip
_ITEM_ROLES = ("user", "assistant", "system", "developer")
_T = TypeVar("_T")


class _Item(msgspec.Struct):
    type: str | None = None
    role: str | None = None
    call_id: str | None = None


class _ToolCall(msgspec.Struct):
    id: str = ""


class _ChatMessage(msgspec.Struct):
    role: str | None = None
    tool_call_id: str | None = None
    tool_calls: list[_ToolCall] | None = None


def _decode(raw: msgspec.Raw, kind: type[_T], name: str) -> list[_T]:
    try:
        return msgspec.json.decode(raw, type=list[kind])
    except msgspec.DecodeError as error:
        raise invalid(f"Invalid type for '{name}': {error}") from error


def _fields(request: Request, allowed: frozenset[str], message: str) -> None:
    # Compatible servers with models of their own take more, so only OpenAI's are this strict.
    if not request.model.startswith("gpt-"):
        return
    for name in request.fields:
        if name not in allowed:
            raise invalid(message.format(name))


def _temperature(request: Request) -> None:
    wanted = request.field("temperature")
    if isinstance(wanted, int | float) and not 0 <= wanted <= 2:
        raise invalid(f"Invalid 'temperature': {wanted}. Expected a value from 0 to 2.")


def _marks(request: Request) -> None:
    for block in request.blocks:
        if block.mark is not None and block.section != "messages":
            raise invalid(f"Unknown parameter: '{block.where}.prompt_cache_breakpoint'.")


def check_responses(request: Request) -> None:
    """Refuse what the Responses API would refuse."""
    _fields(request, _RESPONSES_FIELDS, "Unknown parameter: '{}'.")
    _temperature(request)
    _marks(request)
    if request.field("previous_response_id") is not None:
        raise invalid("Previous response not found: this server keeps no conversations.")
    if is_string(request.fields["input"]):
        return
    calls: set[str] = set()
    answered: set[str] = set()
    for item in _decode(request.fields["input"], _Item, "input"):
        kind, call = item.type, item.call_id or ""
        if kind == "function_call":
            calls.add(call)
        elif kind == "function_call_output":
            if call not in calls:
                raise invalid(f"No tool call found for function call output with call_id {call}.")
            answered.add(call)
        elif kind in (None, "message") and item.role not in _ITEM_ROLES:
            raise invalid(
                f"Invalid value: '{item.role}'. Supported values are: 'assistant', "
                f"'system', 'developer', and 'user'."
            )
    for call in calls - answered:
        raise invalid(f"No tool output found for function call {call}.")


def check_chat(request: Request) -> None:
    """Refuse what the Chat Completions API would refuse."""
    _fields(request, _CHAT_FIELDS, "Unrecognized request argument supplied: {}")
    _temperature(request)
    _marks(request)
    messages = _decode(request.fields["messages"], _ChatMessage, "messages")
    if not messages:
        raise invalid("Invalid 'messages': empty array. Expected at least one message.")
    open_calls: list[str] = []
    for index, message in enumerate(messages):
        role, call = message.role, message.tool_call_id or ""
        if role not in (*_ITEM_ROLES, "tool", "function"):
            raise invalid(f"Invalid value: '{role}' at messages[{index}].role.")
        if role == "tool":
            if call not in open_calls:
                raise invalid(
                    f"Invalid parameter: messages with role 'tool' must be a response to a "
                    f"preceding message with 'tool_calls'. (messages.[{index}].role)"
                )
            open_calls.remove(call)
            continue
        _no_open_calls(open_calls)
        open_calls = [one.id for one in message.tool_calls or ()]
    _no_open_calls(open_calls)


def _no_open_calls(open_calls: list[str]) -> None:
    if open_calls:
        raise invalid(
            f"An assistant message with 'tool_calls' must be followed by tool messages responding "
            f"to each 'tool_call_id'. The following tool_call_ids did not have response messages: "
            f"{', '.join(open_calls)}"
        )
