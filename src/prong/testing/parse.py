"""Bodies of the three APIs, read into the normal form."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from prong.testing.model import is_claude
from prong.testing.request import (
    Api,
    Blocks,
    Counter,
    Members,
    Param,
    Request,
    Section,
    array_items,
    count_bytes,
    invalid,
    is_string,
    object_members,
    text_of,
)

MARKS: dict[Api, str] = {
    "anthropic": "cache_control",
    "responses": "prompt_cache_breakpoint",
    "chat": "prompt_cache_breakpoint",
    "gemini": "prompt_cache_breakpoint",
}

_ANTHROPIC_PARAMS: tuple[tuple[Section, str], ...] = (
    ("tools", "context_management"),
    ("system", "speed"),
    ("messages", "tool_choice"),
    ("messages", "thinking"),
)
_OPENAI_PARAMS = ("parallel_tool_calls", "prompt_cache_key", "service_tier", "reasoning_effort")


def parse(
    api: Api,
    body: bytes,
    headers: Mapping[str, str],
    count: Counter = count_bytes,
    pool: dict[bytes, bytes] | None = None,
) -> Request:
    """Read a body into the normal form; blocks found in the pool are shared, others added to it.

    Raises:
        Refused: the body is not what the API accepts as JSON of the right shape.

    """
    fields = object_members(body, "body")
    model = text_of(fields.get("model"))
    if not model:
        raise invalid("model: Field required")
    reader = _READERS[api]
    # A gateway hands Anthropic's marks on.
    mark = MARKS["anthropic"] if is_claude(model) else MARKS[api]
    blocks = Blocks(mark, count, {} if pool is None else pool)
    reader(fields, blocks)
    params = _anthropic_params if api == "anthropic" else _openai_params
    found = params(model, fields, headers)
    if api == "anthropic" and blocks.pictures:
        found.append(Param("messages", "images", b"true"))
    return Request(api, model, tuple(blocks.blocks), tuple(found), fields, headers)


def _anthropic(fields: Members, blocks: Blocks) -> None:
    blocks.add_all("tools", "", fields.get("tools"), "tools")
    blocks.add_all("system", "", fields.get("system"), "system")
    if "messages" not in fields:
        raise invalid("messages: Field required")
    for index, raw in enumerate(array_items(fields["messages"], "messages")):
        where = f"messages.{index}"
        message = object_members(raw, where)
        role = text_of(message.get("role"))
        content = message.get("content")
        if content is None:
            raise invalid(f"{where}.content: Field required")
        # Consecutive messages of one role are one turn, so a boundary as such is not hashed.
        opens = _rest(message, "role", "content")
        if is_string(content):
            place = f"{where}.content"
            blocks.add("messages", role, content, place, item=index, opens=opens, bare=True)
            continue
        for number, one in enumerate(array_items(content, where + ".content")):
            place = f"{where}.content.{number}"
            blocks.add("messages", role, one, place, item=index, opens=opens)
            opens = b""


def _anthropic_params(model: str, fields: Members, headers: Mapping[str, str]) -> list[Param]:
    params = [Param("tools", "model", model.encode())]
    betas = sorted(b.strip() for b in headers.get("anthropic-beta", "").split(",") if b.strip())
    if betas:
        params.append(Param("tools", "anthropic-beta", ",".join(betas).encode()))
    for section, name in _ANTHROPIC_PARAMS:
        if name in fields and not (name == "speed" and text_of(fields[name]) == "standard"):
            params.append(Param(section, name, bytes(fields[name])))
    if "output_config" in fields:
        config = object_members(fields["output_config"], "output_config")
        # The model's default effort, said or left out, is one and the same prompt.
        if text_of(config.get("effort")) not in ("", "high"):
            params.append(Param("messages", "effort", bytes(config["effort"])))
        if "format" in config:
            params.append(Param("messages", "output_format", bytes(config["format"])))
    return params


def _responses(fields: Members, blocks: Blocks) -> None:
    blocks.add_all("tools", "", fields.get("tools"), "tools")
    blocks.add_all("system", "", fields.get("instructions"), "instructions")
    given = fields.get("input")
    if given is None:
        raise invalid("Missing required parameter: 'input'.")
    if is_string(given):
        blocks.add("messages", "user", given, "input", bare=True)
        return
    _items(array_items(given, "input"), "input", blocks)


def _chat(fields: Members, blocks: Blocks) -> None:
    blocks.add_all("tools", "", fields.get("tools"), "tools")
    if "messages" not in fields:
        raise invalid("Missing required parameter: 'messages'.")
    _items(array_items(fields["messages"], "messages"), "messages", blocks)


_ROLES = {"function_call": "assistant", "reasoning": "assistant", "function_call_output": "tool"}


def _items(items: list[msgspec.Raw], name: str, blocks: Blocks) -> None:
    for index, raw in enumerate(items):
        where = f"{name}.{index}"
        item = object_members(raw, where)
        kind = text_of(item.get("type"))
        role = text_of(item.get("role")) or _ROLES.get(kind, "assistant")
        part_name = "output" if kind == "function_call_output" else "content"
        parts = item.get(part_name)
        if parts is None or bytes(memoryview(parts)[:1]) != b"[" or bytes(parts) == b"[]":
            blocks.add("messages", role, raw, where, item=index, opens=b"item")
            continue
        # The boundary between two messages is part of the key here, unlike at Anthropic.
        opens = b"item:" + _rest(item, part_name)
        for number, one in enumerate(array_items(parts, where)):
            place = f"{where}.{part_name}.{number}"
            blocks.add("messages", role, one, place, item=index, opens=opens)
            opens = b""


def _gemini(fields: Members, blocks: Blocks) -> None:
    for index, tool in enumerate(array_items(fields.get("tools", msgspec.Raw(b"[]")), "tools")):
        declared = object_members(tool, "tools").get("functionDeclarations")
        blocks.add_all("tools", "", declared, f"tools.{index}")
    if "systemInstruction" in fields:
        system = object_members(fields["systemInstruction"], "systemInstruction")
        blocks.add_all("system", "", system.get("parts"), "systemInstruction")
    if "contents" not in fields:
        raise invalid("* GenerateContentRequest.contents: contents is not specified")
    for index, raw in enumerate(array_items(fields["contents"], "contents")):
        where = f"contents.{index}"
        content = object_members(raw, where)
        role = "user" if text_of(content.get("role")) == "user" else "assistant"
        parts = content.get("parts")
        for number, one in enumerate(array_items(parts, where) if parts is not None else ()):
            place = f"{where}.parts.{number}"
            blocks.add("messages", role, one, place, item=index)


_READERS = {"anthropic": _anthropic, "responses": _responses, "chat": _chat, "gemini": _gemini}


def _rest(members: Members, *but: str) -> bytes:
    return b",".join(
        b"%s:%s" % (key.encode(), bytes(value)) for key, value in members.items() if key not in but
    )


def _openai_params(model: str, fields: Members, _headers: Mapping[str, str]) -> list[Param]:
    params = [Param("tools", "model", model.encode())]
    params += [Param("tools", n, bytes(fields[n])) for n in _OPENAI_PARAMS if n in fields]
    if "response_format" in fields:
        params.append(Param("tools", "text_format", bytes(fields["response_format"])))
    if "verbosity" in fields:
        params.append(Param("tools", "verbosity", bytes(fields["verbosity"])))
    for name, inner, called in (
        ("text", "format", "text_format"),
        ("text", "verbosity", "verbosity"),
        ("reasoning", "effort", "reasoning_effort"),
    ):
        if name in fields and bytes(fields[name]) != b"null":
            value = object_members(fields[name], name).get(inner)
            if value is not None:
                params.append(Param("tools", called, bytes(value)))
    return params
