"""The unmodified `anthropic` and `openai` clients against the loopback server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from prong.testing import (
    Server,
    call,
    calls,
    fail,
    refuse,
    say,
    think,
    truncate,
)

pytestmark = [pytest.mark.anyio, pytest.mark.door]

CLAUDE = "claude-sonnet-5-5"
GPT = "gpt-6-sol"
LONG = "a long text " * 400
READ_TOOL: dict[str, Any] = {
    "name": "Read",
    "description": "Reads a file.",
    "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}},
}


@asynccontextmanager
async def anthropic(server: Server) -> AsyncIterator[AsyncAnthropic]:
    async with AsyncAnthropic(base_url=server.url, api_key="k", max_retries=0) as client:
        yield client


@asynccontextmanager
async def openai(server: Server) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=server.url + "/v1", api_key="k", max_retries=0) as client:
        yield client


def user(text: str, *, marked: bool = False) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "text", "text": text}
    if marked:
        block["cache_control"] = {"type": "ephemeral"}
    return {"role": "user", "content": [block]}


async def test_anthropic_whole() -> None:
    """A message that is not streamed has the text, the usage and the stop reason."""
    async with Server([say("Hello.")]) as server, anthropic(server) as client:
        message = await client.messages.create(
            model=CLAUDE,
            max_tokens=100,
            messages=[user("Hi")],  # type: ignore[list-item]
        )

        assert message.content[0].text == "Hello."  # type: ignore[union-attr]
        assert message.stop_reason == "end_turn"
        assert message.usage.input_tokens == 7
        assert message.usage.output_tokens == 2
        assert message._request_id == "req_000001"


async def test_anthropic_stream_with_thinking_and_calls() -> None:
    """A stream carries thinking with its signature, text and parallel calls, and accumulates."""
    step = think(
        "Let me see.",
        then=say("I read both.", then=calls(("Read", {"path": "a"}), ("Read", {"path": "é" * 60}))),
    )
    async with Server([step, say("Done.")]) as server, anthropic(server) as client:
        history: list[Any] = [user("Read them")]
        async with client.messages.stream(
            model=CLAUDE,
            max_tokens=100,
            messages=history,
            tools=[READ_TOOL],  # type: ignore[list-item]
        ) as stream:
            message = await stream.get_final_message()

        kinds = [block.type for block in message.content]
        assert kinds == ["thinking", "text", "tool_use", "tool_use"]
        assert message.content[3].input == {"path": "é" * 60}  # type: ignore[union-attr]
        assert message.stop_reason == "tool_use"

        history.append(
            {
                "role": "assistant",
                "content": [b.model_dump(exclude_none=True) for b in message.content],
            }
        )
        results = [
            {"type": "tool_result", "tool_use_id": b.id, "content": "x"}
            for b in message.content
            if b.type == "tool_use"
        ]
        history.append({"role": "user", "content": results})
        after = await client.messages.create(
            model=CLAUDE,
            max_tokens=100,
            messages=history,
            tools=[READ_TOOL],  # type: ignore[list-item]
        )

        assert after.content[0].text == "Done."  # type: ignore[union-attr]


async def test_anthropic_cache_counts() -> None:
    """The second request reads what the first wrote at its mark."""
    async with Server([say("One."), say("Two.")]) as server, anthropic(server) as client:
        first = await client.messages.create(
            model=CLAUDE,
            max_tokens=9,
            messages=[user(LONG, marked=True)],  # type: ignore[list-item]
        )
        second = await client.messages.create(
            model=CLAUDE,
            max_tokens=9,
            messages=[
                user(LONG),
                {"role": "assistant", "content": "One."},
                user("more", marked=True),
            ],  # type: ignore[list-item]
        )

        assert first.usage.cache_creation_input_tokens == second.usage.cache_read_input_tokens
        assert (first.usage.cache_creation_input_tokens or 0) > 1000
        assert second.usage.input_tokens == 0
