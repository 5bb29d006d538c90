"""The unmodified `anthropic` and `openai` clients against the loopback server."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anthropic as anthropic_sdk
import openai as openai_sdk
import pytest
from anthropic import AsyncAnthropic
from openai import AsyncAzureOpenAI, AsyncOpenAI

from prong.testing import Server, break_off, call, calls, fail, refuse, say, think, truncate
from prong.testing.service import Options

pytestmark = [pytest.mark.anyio, pytest.mark.door]

CLAUDE = "claude-sonnet-5-5"
GPT = "gpt-6-sol"
LONG = "a long text " * 400
READ_TOOL: Any = {
    "name": "Read",
    "description": "Reads a file.",
    "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}},
}


@asynccontextmanager
async def anthropic(server: Server) -> AsyncGenerator[AsyncAnthropic]:
    async with AsyncAnthropic(base_url=server.url, api_key="k", max_retries=0) as client:
        yield client


@asynccontextmanager
async def openai(server: Server) -> AsyncGenerator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=server.url + "/v1", api_key="k", max_retries=0) as client:
        yield client


def _dumped(items: Any) -> Any:
    return [item.model_dump(exclude_none=True) for item in items]


def user(text: str, *, marked: bool = False) -> Any:
    block: dict[str, Any] = {"type": "text", "text": text}
    if marked:
        block["cache_control"] = {"type": "ephemeral"}
    return {"role": "user", "content": [block]}


async def test_anthropic_whole() -> None:
    """A message that is not streamed has the text, the usage and the stop reason."""
    async with Server([say("Hello.")]) as server, anthropic(server) as client:
        message: Any = await client.messages.create(
            model=CLAUDE,
            max_tokens=100,
            messages=[user("Hi")],
        )

        assert message.content[0].text == "Hello."
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
            tools=[READ_TOOL],
        ) as stream:
            message: Any = await stream.get_final_message()

        kinds = [block.type for block in message.content]
        assert kinds == ["thinking", "text", "tool_use", "tool_use"]
        assert message.content[3].input == {"path": "é" * 60}
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
        after: Any = await client.messages.create(
            model=CLAUDE,
            max_tokens=100,
            messages=history,
            tools=[READ_TOOL],
        )

        assert after.content[0].text == "Done."


async def test_anthropic_cache_counts() -> None:
    """The second request reads what the first wrote at its mark."""
    async with Server([say("One."), say("Two.")]) as server, anthropic(server) as client:
        first: Any = await client.messages.create(
            model=CLAUDE,
            max_tokens=9,
            messages=[user(LONG, marked=True)],
        )
        second: Any = await client.messages.create(
            model=CLAUDE,
            max_tokens=9,
            messages=[
                user(LONG),
                {"role": "assistant", "content": "One."},
                user("more", marked=True),
            ],
        )

        assert first.usage.cache_creation_input_tokens == second.usage.cache_read_input_tokens
        assert (first.usage.cache_creation_input_tokens or 0) > 1000
        assert second.usage.input_tokens == 0


async def test_anthropic_prewarm_and_diagnostics() -> None:
    """`max_tokens: 0` writes without output; the next request names it and hears no complaint."""
    async with (
        Server([say("Done.")], moves_prefix="a placeholder is replaced") as server,
        anthropic(server) as client,
    ):
        shared = user(LONG, marked=True)
        warm: Any = await client.messages.create(model=CLAUDE, max_tokens=0, messages=[shared])
        message: Any = await client.messages.create(
            model=CLAUDE,
            max_tokens=9,
            messages=[shared, user("go")],
            diagnostics={"previous_message_id": warm.id},
        )
        lost: Any = await client.messages.create(
            model=CLAUDE,
            max_tokens=0,
            messages=[user("go")],
            diagnostics={"previous_message_id": warm.id},
        )

        assert (warm.content, warm.stop_reason, warm.usage.output_tokens) == ([], "max_tokens", 0)
        assert message.usage.cache_read_input_tokens == warm.usage.cache_creation_input_tokens
        assert message.diagnostics is None
        assert lost.diagnostics
        assert lost.diagnostics.cache_miss_reason
        assert lost.diagnostics.cache_miss_reason.type == "messages_changed"


async def test_anthropic_count_tokens_and_models() -> None:
    """Counting is the sum over blocks; the models are those the server was given."""
    options = Options(models=(CLAUDE, "claude-opus-5-5"))
    async with Server(options=options) as server, anthropic(server) as client:
        count: Any = await client.messages.count_tokens(model=CLAUDE, messages=[user("Hi")])
        models: Any = await client.models.list()

        assert count.input_tokens == 7
        assert [model.id for model in models.data] == [CLAUDE, "claude-opus-5-5"]


@pytest.mark.parametrize(
    ("step", "error"),
    [
        (fail(429, "rate_limit_error", "slow down", retry_after=3), anthropic_sdk.RateLimitError),
        (fail(529, "overloaded_error", "Overloaded"), anthropic_sdk.OverloadedError),
        (fail(500, "api_error", "Internal"), anthropic_sdk.InternalServerError),
        (fail(403, "permission_error", "no"), anthropic_sdk.PermissionDeniedError),
    ],
)
async def test_anthropic_errors(step: Any, error: type[anthropic_sdk.APIStatusError]) -> None:
    """Errors on demand arrive as the client's own exceptions, with their request id."""
    async with Server([step]) as server, anthropic(server) as client:
        with pytest.raises(error) as raised:
            await client.messages.create(model=CLAUDE, max_tokens=9, messages=[user("Hi")])

        assert raised.value.request_id == "req_000001"
        assert raised.value.response.headers.get("retry-after") == (
            "3" if step.failure.retry_after else None
        )


async def test_wrong_key_and_unknown_model() -> None:
    """A wrong key is 401 and an unknown model 404, in each API's own words."""
    options = Options(key="right", models=("other",))
    async with Server(options=options) as server:
        async with anthropic(server) as claude, openai(server) as gpt:
            with pytest.raises(anthropic_sdk.AuthenticationError, match="invalid x-api-key"):
                await claude.messages.create(model=CLAUDE, max_tokens=9, messages=[user("Hi")])
            with pytest.raises(openai_sdk.AuthenticationError, match="Incorrect API key"):
                await gpt.responses.create(model=GPT, input="Hi")
        async with AsyncAnthropic(base_url=server.url, api_key="right", max_retries=0) as claude:
            with pytest.raises(anthropic_sdk.NotFoundError, match=f"model: {CLAUDE}"):
                await claude.messages.create(model=CLAUDE, max_tokens=9, messages=[user("Hi")])


async def test_anthropic_stops() -> None:
    """Refusals and the output limit have their stop reasons."""
    async with (
        Server([refuse(), truncate("half a")], moves_prefix="two questions") as server,
        anthropic(server) as client,
    ):
        refused: Any = await client.messages.create(
            model=CLAUDE, max_tokens=9, messages=[user("One")]
        )
        async with client.messages.stream(
            model=CLAUDE, max_tokens=9, messages=[user("Two")]
        ) as stream:
            limited: Any = await stream.get_final_message()

        assert refused.stop_reason == "refusal"
        assert limited.stop_reason == "max_tokens"


RESPONSES_TOOL: Any = {
    "type": "function",
    "name": "Read",
    "description": "Reads.",
    "parameters": {"type": "object", "properties": {}},
    "strict": False,
}


async def test_responses_whole_with_cache_counts() -> None:
    """Input counts include what was read and written; the second request reads the first."""
    first_item: Any = {"role": "user", "content": [{"type": "input_text", "text": LONG}]}
    async with Server([say("One."), say("Two.")]) as server, openai(server) as client:
        first: Any = await client.responses.create(
            model=GPT, input=[first_item], prompt_cache_key="k"
        )
        second: Any = await client.responses.create(
            model=GPT,
            input=[
                first_item,
                *_dumped(first.output),
                {"role": "user", "content": "more"},
            ],
            prompt_cache_key="k",
            prompt_cache_options={"comparison_response_id": first.id},
        )

        assert first.output_text == "One."
        assert first.usage
        assert second.usage
        assert first.usage.input_tokens == first.usage.input_tokens_details.cache_write_tokens
        assert second.usage.input_tokens_details.cached_tokens == first.usage.input_tokens
        assert second.prompt_cache_diagnostics
        assert second.prompt_cache_diagnostics.type == "cache_hit"


async def test_responses_stream_with_reasoning_and_calls() -> None:
    """A stream accumulates to the response that its last event carries."""
    step = think(
        "Let me see.",
        then=say("Reading.", then=calls(("Read", {"path": "a"}), ("Read", {"path": "b"}))),
    )
    async with Server([step, truncate("cut")]) as server, openai(server) as client:
        history: list[Any] = [{"role": "user", "content": "Read them"}]
        async with client.responses.stream(
            model=GPT,
            input=history,
            tools=[RESPONSES_TOOL],
            include=["reasoning.encrypted_content"],
        ) as stream:
            names = [event.type async for event in stream]
            response: Any = await stream.get_final_response()

        assert [item.type for item in response.output] == [
            "reasoning",
            "message",
            "function_call",
            "function_call",
        ]
        assert response.output[0].encrypted_content
        assert response.output_text == "Reading."
        assert names[0] == "response.created"
        assert names[-1] == "response.completed"

        history += [
            item.model_dump(exclude_none=True, exclude={"parsed_arguments"})
            for item in response.output
        ]
        history += [
            {"type": "function_call_output", "call_id": item.call_id, "output": "x"}
            for item in response.output
            if item.type == "function_call"
        ]
        after: Any = await client.responses.create(model=GPT, input=history, tools=[RESPONSES_TOOL])

        assert after.status == "incomplete"
        assert after.incomplete_details
        assert after.incomplete_details.reason == "max_output_tokens"


async def test_responses_prewarm() -> None:
    """A prewarm has no output and writes what the real request reads."""
    item: Any = {"role": "user", "content": [{"type": "input_text", "text": LONG}]}
    async with Server([say("Done.")]) as server, openai(server) as client:
        warm: Any = await client.responses.create(
            model=GPT, input=[item], prompt_cache_options={"prewarm": True}
        )
        real: Any = await client.responses.create(model=GPT, input=[item])

        assert warm.output == []
        assert warm.usage
        assert real.usage
        assert real.usage.input_tokens_details.cached_tokens == warm.usage.input_tokens


CHAT_TOOL: Any = {
    "type": "function",
    "function": {"name": "Read", "parameters": {"type": "object"}},
}


async def test_chat_whole_and_stream() -> None:
    """Calls, results, usage and both ways of answering work in one conversation."""
    async with (
        Server(
            [
                calls(("Read", {"path": "a"}), ("Read", {"path": "b"})),
                say("Done, at last, with all of it."),
            ]
        ) as server,
        openai(server) as client,
    ):
        history: list[Any] = [{"role": "user", "content": LONG}]
        first: Any = await client.chat.completions.create(
            model=GPT, messages=history, tools=[CHAT_TOOL]
        )
        message = first.choices[0].message
        assert first.choices[0].finish_reason == "tool_calls"
        assert message.tool_calls
        history.append(message.model_dump(exclude_none=True))
        history += [
            {"role": "tool", "tool_call_id": one.id, "content": "x"} for one in message.tool_calls
        ]

        stream: Any = await client.chat.completions.create(
            model=GPT,
            messages=history,
            tools=[CHAT_TOOL],
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = [chunk async for chunk in stream]

        text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        usage = chunks[-1].usage
        assert text == "Done, at last, with all of it."
        assert usage
        assert usage.prompt_tokens_details
        assert usage.prompt_tokens_details.cached_tokens
        assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens


async def test_chat_stream_accumulates_calls() -> None:
    """The client's own accumulator rebuilds streamed calls."""
    async with (
        Server([think("Hm.", then=calls(("Read", {"path": "a" * 90}), ("Read", {})))]) as server,
        openai(server) as client,
    ):
        async with client.chat.completions.stream(
            model=GPT, messages=[{"role": "user", "content": "go"}], tools=[CHAT_TOOL]
        ) as stream:
            final: Any = await stream.get_final_completion()

        made = final.choices[0].message.tool_calls
        assert made
        assert [one.function.arguments for one in made] == ['{"path":"' + "a" * 90 + '"}', "{}"]


async def test_openai_errors() -> None:
    """Errors have the shape, the code and the request id of the API."""
    options = Options(context=50)
    async with Server(
        [fail(429, "rate_limit_error", "slow down", retry_after=1), call("Read")],
        options=options,
        moves_prefix="an error each",
    ) as server:
        async with openai(server) as client:
            with pytest.raises(openai_sdk.RateLimitError) as limited:
                await client.responses.create(model=GPT, input="Hi")
            with pytest.raises(openai_sdk.BadRequestError) as overflow:
                await client.responses.create(model=GPT, input=LONG)
            models: Any = await client.models.list()

        assert limited.value.request_id == "req_000001"
        assert overflow.value.code == "context_length_exceeded"
        assert [model.id for model in models.data] == ["claude-sonnet-5-5", "gpt-6-sol"]


async def test_errors_in_mid_stream() -> None:
    """An error event under status 200 is an exception in each client."""
    step = break_off("server_error", "it broke")
    script = [step, step, step]
    async with Server(script, moves_prefix="three questions") as server:
        async with anthropic(server) as claude, openai(server) as gpt:
            with pytest.raises(anthropic_sdk.APIStatusError, match="it broke"):
                async with claude.messages.stream(
                    model=CLAUDE, max_tokens=9, messages=[user("Hi")]
                ) as stream:
                    await stream.get_final_message()
            answers: Any = await gpt.responses.create(model=GPT, input="Hi", stream=True)
            events = [event async for event in answers]
            chunks: Any = await gpt.chat.completions.create(
                model=GPT, messages=[{"role": "user", "content": "Hi"}], stream=True
            )
            with pytest.raises(openai_sdk.APIError, match="it broke"):
                _ = [chunk async for chunk in chunks]

        assert (events[-1].type, events[-1].message) == ("error", "it broke")


async def test_the_azure_client_is_answered() -> None:
    """The vendor's client finds its deployment, by its key and version, and reads the reply."""
    async with Server([say("Hello."), say("Again.")], options=Options(key="az")) as server:
        async with AsyncAzureOpenAI(
            azure_endpoint=server.url,
            azure_deployment="my-gpt",
            api_version="2026-09-01",
            api_key="az",
            max_retries=0,
        ) as client:
            reply = await client.chat.completions.create(
                model="my-gpt", messages=[{"role": "user", "content": "Hi"}]
            )
        with pytest.raises(openai_sdk.AuthenticationError):
            async with AsyncAzureOpenAI(
                azure_endpoint=server.url, api_version="1", api_key="no", max_retries=0
            ) as client:
                await client.chat.completions.create(
                    model="my-gpt", messages=[{"role": "user", "content": "Hi"}]
                )

    assert reply.choices[0].message.content == "Hello."
