"""The fan-out with nothing but a raw HTTP client and plain subprocesses; run as a program.

Message lists, `json.dumps` of each whole request, `httpx2`, events split and read by hand: the
least that does the same work, without an SDK, a journal, a policy or an event that anybody sees.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from typing import Any

import httpx2
import rival
import scenario
from fork_prong import peak, resident

Message = dict[str, Any]
_MARKED = {"type": "ephemeral"}
_SYSTEM = [{"type": "text", "text": scenario.system(), "cache_control": _MARKED}]


async def ask(client: httpx2.AsyncClient, url: str, messages: list[Message]) -> list[Message]:
    """Send a conversation and give the blocks of the reply."""
    last = messages[-1]["content"]
    tip = {**messages[-1], "content": [*last[:-1], {**last[-1], "cache_control": _MARKED}]}
    body = {
        "model": scenario.MODEL,
        "max_tokens": 8_000,
        "stream": True,
        "system": _SYSTEM,
        "tools": rival.TOOLS,
        "messages": [*messages[:-1], tip],
    }
    headers = {"content-type": "application/json", "x-api-key": "k"}
    blocks: dict[int, Message] = {}
    content = json.dumps(body).encode()
    async with client.stream("POST", url, headers=headers, content=content) as response:
        async for line in response.aiter_lines():
            if line.startswith("data: "):
                _grow(blocks, json.loads(line[6:]))
    for block in blocks.values():
        if "partial" in block:
            block["input"] = json.loads(block.pop("partial"))
    return [blocks[index] for index in sorted(blocks)]


def _grow(blocks: dict[int, Message], event: Message) -> None:
    if event["type"] == "content_block_start":
        blocks[event["index"]] = event["content_block"]
    elif event["type"] == "content_block_delta":
        block, delta = blocks[event["index"]], event["delta"]
        if delta["type"] == "text_delta":
            block["text"] += delta["text"]
        elif delta["type"] == "input_json_delta":
            block["partial"] = block.get("partial", "") + delta["partial_json"]


async def work(url: str, tokens: int, folder: str) -> dict[str, Any]:
    """Answer once, fan out, and say what that took."""
    url = f"{url}/v1/messages"
    limits = httpx2.Limits(max_connections=None)
    async with httpx2.AsyncClient(limits=limits, timeout=240) as client:

        async def perform(call: Message, messages: list[Message], reply: list[Message]) -> Message:
            if call["name"] == "Bash":
                text = await rival.shell(call["input"]["command"], folder)
            else:
                held = [rival.result(one["id"], "Started.") for one in _calls(reply)]
                told = [*held, {"type": "text", "text": call["input"]["prompt"]}]
                said = {"role": "assistant", "content": reply}
                text = await run([*messages, said, {"role": "user", "content": told}])
            return rival.result(call["id"], text)

        async def run(messages: list[Message]) -> str:
            while True:
                reply = await ask(client, url, messages)
                calls = _calls(reply)
                if not calls:
                    return "".join(one["text"] for one in reply)
                done = await asyncio.gather(*(perform(call, messages, reply) for call in calls))
                said = {"role": "assistant", "content": reply}
                messages = [*messages, said, {"role": "user", "content": done}]

        ready = [*scenario.history(tokens), _said("user", "Are you ready?")]
        answer = await run(ready)
        memory, cpu = resident(), time.process_time()
        text = await run([*ready, _said("assistant", answer), _said("user", scenario.GO)])
        cpu = time.process_time() - cpu
    return {"ok": text == scenario.CLOSING, "cpu": cpu, "peak": peak() - memory}


def _calls(reply: list[Message]) -> list[Message]:
    return [one for one in reply if one["type"] == "tool_use"]


def _said(role: str, text: str) -> Message:
    return {"role": role, "content": [{"type": "text", "text": text}]}


def main(url: str, tokens: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(asyncio.run(work(url, int(tokens), folder))))


if __name__ == "__main__":
    main(*sys.argv[1:])
