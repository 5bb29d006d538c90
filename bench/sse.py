"""Decode streamed replies, against what the vendors' SDKs make of the same bytes."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import anthropic
import httpx2
import openai
from anthropic._streaming import Stream as AnthropicStream
from anthropic.types import RawMessageStreamEvent
from conversation import prose
from measure import Row, at_least, ms, race
from openai._streaming import Stream as OpenAIStream
from openai.types.chat import ChatCompletionChunk
from openai.types.responses import ResponseStreamEvent

from prong.wire import Ended, dialect

PIECE, PIECES = 18, 3_000
CHUNK = 4096
MODEL = "a-model"


def _event(value: dict[str, Any], name: str = "") -> bytes:
    line = f"event: {name}\n" if name else ""
    return f"{line}data: {json.dumps(value)}\n\n".encode()


def _texts() -> list[str]:
    text = prose(random.Random(11), PIECE * PIECES)
    return [text[at : at + PIECE] for at in range(0, len(text), PIECE)]


def _named(values: Iterable[dict[str, Any]]) -> bytes:
    return b"".join(_event(value, value["type"]) for value in values)


def _messages() -> Iterator[dict[str, Any]]:
    usage = {"input_tokens": 10, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": MODEL, "content": []}
    message |= {"stop_reason": None, "stop_sequence": None, "usage": usage}
    yield {"type": "message_start", "message": message}
    yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    for text in _texts():
        delta = {"type": "text_delta", "text": text}
        yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    call = {"type": "tool_use", "id": "toolu_1", "name": "Write", "input": {}}
    yield {"type": "content_block_start", "index": 1, "content_block": call}
    for text in ('{"text": "', *(json.dumps(text)[1:-1] for text in _texts()), '"}'):
        delta = {"type": "input_json_delta", "partial_json": text}
        yield {"type": "content_block_delta", "index": 1, "delta": delta}
    yield {"type": "content_block_stop", "index": 1}
    end = {"stop_reason": "tool_use", "stop_sequence": None}
    yield {"type": "message_delta", "delta": end, "usage": {"output_tokens": 900}}
    yield {"type": "message_stop"}


def _chat() -> bytes:
    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return _event(
            {
                "id": "chatcmpl-1",
                "object": "chat.completion.chunk",
                "created": 1,
                "model": MODEL,
                "choices": [choice],
            }
        )

    pieces = [chunk({"role": "assistant", "content": ""})]
    pieces += [chunk({"content": text}) for text in _texts()]
    pieces += [chunk({}, "stop"), b"data: [DONE]\n\n"]
    return b"".join(pieces)


def _responses() -> Iterator[dict[str, Any]]:
    response = {"id": "resp_1", "object": "response", "created_at": 1, "model": MODEL, "output": []}
    response |= {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    item = {"id": "msg_1", "type": "message", "role": "assistant", "content": []}
    at = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    yield {"type": "response.created", "response": response | {"status": "in_progress"}}
    added = item | {"status": "in_progress"}
    yield {"type": "response.output_item.added", "output_index": 0, "item": added}
    for text in _texts():
        yield {"type": "response.output_text.delta", "delta": text, "logprobs": [], **at}
    text = {"type": "output_text", "text": "".join(_texts()), "annotations": []}
    whole = item | {"status": "completed", "content": [text]}
    yield {"type": "response.output_item.done", "output_index": 0, "item": whole}
    yield {
        "type": "response.completed",
        "response": response | {"status": "completed", "output": [whole]},
    }


def _chunks(stream: bytes) -> list[bytes]:
    return [stream[at : at + CHUNK] for at in range(0, len(stream), CHUNK)]


def _ours(name: str, chunks: list[bytes]) -> Callable[[], int]:
    speaks = dialect(name)

    def decode() -> int:
        decoder = speaks.decoder()
        events = [event for chunk in chunks for event in decoder.feed(chunk)]
        events += decoder.close()
        assert isinstance(events[-1], Ended), events[-1]
        return len(events)

    return decode


def _theirs(stream: Any, cast_to: Any, client: Any, chunks: list[bytes]) -> Callable[[], int]:
    def decode() -> int:
        response = httpx2.Response(200, content=iter(chunks))
        return sum(1 for _ in stream(cast_to=cast_to, response=response, client=client))

    return decode


def rows() -> Iterator[Row]:
    claude = anthropic.Anthropic(api_key="none", base_url="http://127.0.0.1:9")
    gpt = openai.OpenAI(api_key="none", base_url="http://127.0.0.1:9")
    openai_name = f"openai {openai.__version__}"
    for name, made, against, stream, cast_to, client in (
        (
            "anthropic",
            _named(_messages()),
            f"anthropic {anthropic.__version__}",
            AnthropicStream,
            RawMessageStreamEvent,
            claude,
        ),
        (
            "responses",
            _named({**each, "sequence_number": n} for n, each in enumerate(_responses())),
            openai_name,
            OpenAIStream,
            ResponseStreamEvent,
            gpt,
        ),
        ("chat", _chat(), openai_name, OpenAIStream, ChatCompletionChunk, gpt),
    ):
        chunks = _chunks(made)
        ours, theirs = _ours(name, chunks), _theirs(stream, cast_to, client, chunks)
        assert theirs() >= PIECES
        own, other = race((ours, theirs), rounds=12)
        yield at_least(
            f"SSE decoding of {name}, against {against}",
            other / own,
            5,
            f"{ms(own)} to {ms(other)}; {ours()} events, {len(made) // 1000} kB",
        )
