"""What the real APIs refuse, with messages worded after theirs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

import msgspec

from prong.testing.cache import is_empty_text
from prong.testing.check_gemini import check_gemini
from prong.testing.check_openai import check_chat, check_responses
from prong.testing.request import Block, Refused, Request, array_items, invalid, text_of

_ANTHROPIC_FIELDS = frozenset(
    {
        "max_tokens", "messages", "model", "cache_control", "container", "diagnostics",
        "inference_geo", "metadata", "output_config", "service_tier", "speed", "stop_sequences",
        "system", "thinking", "tool_choice", "tools", "user_profile_id", "workspace_id", "stream",
        "temperature", "top_k", "top_p",
    }
)  # fmt: skip
_BETA_FIELDS = frozenset(
    {"context_management", "mcp_servers", "output_format", "fallbacks", "compaction", "thread"}
)


class _Ids(msgspec.Struct):
    id: msgspec.Raw = msgspec.Raw()
    tool_use_id: msgspec.Raw = msgspec.Raw()


_ids_of = msgspec.json.Decoder(_Ids)
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])


def check(request: Request, *, counting: bool = False) -> None:
    """Refuse what the real API would refuse; `counting` is a request to count tokens only.

    Raises:
        Refused: with the status, kind and message to answer with.

    """
    match request.api:
        case "anthropic":
            _anthropic(request, counting=counting)
        case "responses":
            check_responses(request)
        case "chat":
            check_chat(request)
        case "gemini":
            check_gemini(request)


def check_fit(request: Request, tokens: int, limit: int | None) -> None:
    """Refuse a prompt that is longer than the model can read."""
    if limit is None or tokens <= limit:
        return
    if request.api == "anthropic":
        raise invalid(f"prompt is too long: {tokens} tokens > {limit} maximum")
    if request.api == "gemini":
        raise invalid(
            f"The input token count ({tokens}) exceeds the maximum number of tokens allowed "
            f"({limit})."
        )
    raise Refused(
        400,
        "invalid_request_error",
        f"This model's maximum context length is {limit} tokens. However, your messages resulted "
        f"in {tokens} tokens. Please reduce the length of the messages.",
        "context_length_exceeded",
    )


def _anthropic(request: Request, *, counting: bool) -> None:
    allowed = _ANTHROPIC_FIELDS
    if request.headers.get("anthropic-beta"):
        allowed = allowed | _BETA_FIELDS
    for name in request.fields:
        if name not in allowed:
            raise invalid(f"{name}: Extra inputs are not permitted")
    if not counting:
        _max_tokens(request)
    _temperature(request)
    _names(request)
    _turns(request)


def _max_tokens(request: Request) -> None:
    most = request.field("max_tokens")
    if "max_tokens" not in request.fields:
        raise invalid("max_tokens: Field required")
    if not isinstance(most, int) or isinstance(most, bool):
        raise invalid("max_tokens: Input should be a valid integer")
    if most < 0:
        raise invalid("max_tokens: Input should be greater than or equal to 0")
    if most == 0:
        _prewarm(request)


def _temperature(request: Request) -> None:
    wanted = request.field("temperature")
    if wanted is None:
        return
    if not isinstance(wanted, int | float) or not 0 <= wanted <= 1:
        raise invalid("temperature: range: 0..1")
    if request.object("thinking").get("type") in ("enabled", "adaptive") and wanted != 1:
        raise invalid("`temperature` may only be set to 1 when thinking is enabled.")


def _prewarm(request: Request) -> None:
    """Refuse what a request that only fills the cache cannot have."""
    thinking = request.object("thinking")
    choice = request.object("tool_choice")
    config = request.object("output_config")
    for wrong, what in (
        (request.stream, "stream: true"),
        (thinking.get("type") == "enabled", "thinking.type: enabled"),
        ("format" in config, "output_config.format"),
        (choice.get("type") in ("any", "tool"), f"tool_choice.type: {choice.get('type')}"),
    ):
        if wrong:
            raise invalid(f"max_tokens: 0 is not supported with {what}")


def _names(request: Request) -> None:
    names: set[str] = set()
    for block in request.blocks:
        if block.section != "tools":
            continue
        name = text_of(_members.decode(block.raw).get("name"))
        if name in names:
            raise invalid("tools: Tool names must be unique.")
        names.add(name)


def _turns(request: Request) -> None:
    blocks = [block for block in request.blocks if block.section == "messages"]
    if not array_items(request.fields["messages"], "messages"):
        raise invalid("messages: at least one message is required")
    _nonempty_messages(request, blocks)
    for block in blocks:
        if block.role not in ("user", "assistant", "system"):
            raise invalid(f"messages.{block.item}.role: Input should be 'user' or 'assistant'")
        if is_empty_text(block):
            raise invalid("messages: text content blocks must be non-empty")
    if blocks and blocks[0].role != "user":
        raise invalid('messages: first message must use the "user" role')
    turns = [list(turn) for _, turn in groupby(blocks, key=lambda block: block.role)]
    for index, turn in enumerate(turns):
        before = turns[index - 1] if index else []
        after = turns[index + 1] if index + 1 < len(turns) else []
        if turn[0].role == "assistant":
            _answered(turn, after)
        else:
            _answers(turn, before)


def _nonempty_messages(request: Request, blocks: Sequence[Block]) -> None:
    filled = {block.item for block in blocks}
    messages = array_items(request.fields["messages"], "messages")
    for index in set(range(len(messages))) - filled:
        is_last = index == len(messages) - 1
        role = text_of(_members.decode(messages[index]).get("role"))
        if role != "system" and not (is_last and role == "assistant"):
            raise invalid(
                f"messages.{index}: all messages must have non-empty content except for the "
                f"optional final assistant message"
            )


def _ids(blocks: Iterable[Block], kind: str, name: str) -> list[tuple[Block, str]]:
    return [
        (block, text_of(getattr(_ids_of.decode(block.raw), name)))
        for block in blocks
        if block.kind == kind
    ]


def _answered(turn: list[Block], after: list[Block]) -> None:
    """Each call has its result at the beginning of the next turn."""
    calls = _ids(turn, "tool_use", "id")
    ids = [one for _, one in calls]
    if len(set(ids)) != len(ids):
        raise invalid("messages: `tool_use` ids must be unique")
    got = {one for _, one in _ids(after, "tool_result", "tool_use_id")}
    missing = [one for one in ids if one not in got]
    if missing:
        raise invalid(
            f"messages.{turn[0].item}: `tool_use` ids were found without `tool_result` blocks "
            f"immediately after: {', '.join(missing)}. Each `tool_use` block must have a "
            f"corresponding `tool_result` block in the next message."
        )


def _answers(turn: list[Block], before: list[Block]) -> None:
    """Each result answers a call of the turn before, once, and results come first."""
    calls = {one for _, one in _ids(before, "tool_use", "id")}
    seen: set[str] = set()
    for block, one in _ids(turn, "tool_result", "tool_use_id"):
        if one not in calls:
            raise invalid(
                f"{block.where}: unexpected `tool_use_id` found in `tool_result` blocks: {one}. "
                f"Each `tool_result` block must have a corresponding `tool_use` block in the "
                f"previous message."
            )
        if one in seen:
            raise invalid(
                f"{block.where}: each tool_use must have a single result. Found multiple "
                f"`tool_result` blocks with id: {one}"
            )
        seen.add(one)
    kinds = [block.kind == "tool_result" for block in turn]
    if calls and True in kinds and not all(kinds[: sum(kinds)]):
        raise invalid(
            f"messages.{turn[0].item}: `tool_use` ids were found without `tool_result` blocks "
            f"immediately after: {', '.join(sorted(calls))}. `tool_result` blocks must come first "
            f"in the content of a message."
        )
