"""A conversation of a given size, as a coding agent has them: prose, calls, long results."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from prong.entry import CallId, Entry, Reply, Result, Results, Text, ToolSpec, user_text
from prong.prompt import Head, Prompt
from prong.wire import HeadSpec, dialect

_TEXT = (
    "the scheduler takes a task from the queue and runs it in a worker; if it fails, the error is "
    "stored – with its trace – and 'retry' decides: return self._queue.pop(key, None)\n    if x > 3"
)
_WORDS = _TEXT.split(" ")


def prose(chance: random.Random, size: int) -> str:
    return " ".join(chance.choices(_WORDS, k=size // 4))[:size]


def head() -> Head:
    import msgspec

    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    raw = msgspec.Raw(json.dumps(schema).encode())
    tools = tuple(ToolSpec(f"Tool{n}", f"Does the work number {n}.", raw) for n in range(12))
    spec = HeadSpec(model="claude-sonnet-5-5", system=("You work on code.",), tools=tools)
    return Head(dialect("anthropic"), spec)


def entries(size: int) -> Iterator[Entry]:
    """Give entries until their texts hold so many characters."""
    chance = random.Random(7)
    made, number = 0, 0
    yield user_text("Find out why the retry of a failed task is lost.")
    while made < size:
        number += 1
        call = {"path": f"src/queue/part{number}.py", "note": prose(chance, 80)}
        id_ = f"toolu_{number:024}"
        text = prose(chance, 300)
        blocks = (
            json.dumps({"type": "text", "text": text}).encode(),
            json.dumps({"type": "tool_use", "id": id_, "name": "Tool3", "input": call}).encode(),
        )
        yield Reply(blocks, "anthropic", text=text, stop="calls")
        result = prose(chance, min(4_000, size - made))
        yield Results((Result(CallId(id_), (Text(result),)),))
        made += len(text) + len(result) + 200


def prompt(size: int) -> Prompt:
    return Prompt(head()).append(*entries(size))


def request(conversation: Prompt) -> dict[str, Any]:
    """Give the same request as plain values, as a caller of an SDK holds it."""
    return json.loads(conversation.body())
