"""The fan-out that every client is measured by: a long conversation, N children of three turns."""

from __future__ import annotations

import json
import random
from typing import Any

MODEL = "claude-sonnet-5-5"
SYSTEM_TOKENS = 4_000
REPORT_TOKENS = 300
FILE = "notes.txt"
CONTENT = "".join(f"line {n}: the queue keeps what the worker could not do\n" for n in range(20))
GO = "Split the rest of the work."
CLOSING = "All parts are done."
_TEXT = (
    "the scheduler takes a task from the queue and runs it in a worker; if it fails, the error is "
    "stored with its trace and 'retry' decides: return self._queue.pop(key, None) if x > 3"
)
_WORDS = _TEXT.split(" ")


def prose(seed: int, size: int) -> str:
    """Give so many characters of text."""
    return " ".join(random.Random(seed).choices(_WORDS, k=size // 3))[:size]


def system() -> str:
    """Give a system prompt of 4,000 tokens, at four characters each."""
    return "You work on code. " + prose(1, 4 * SYSTEM_TOKENS - 18)


def history(tokens: int) -> list[dict[str, Any]]:
    """Give a conversation of so many tokens: a request, then calls with long results."""
    messages: list[dict[str, Any]] = [_said("user", "Find out why the retry of a task is lost.")]
    left, number = 4 * tokens, 0
    while left > 0:
        number += 1
        id_ = f"toolu_h{number:018}"
        call = {"file_path": f"src/queue/part{number}.py"}
        use = {"type": "tool_use", "id": id_, "name": "Read", "input": call}
        text = {"type": "text", "text": prose(number, 300)}
        messages.append({"role": "assistant", "content": [text, use]})
        read = prose(-number, max(200, min(4_000, left - 700)))
        result = {"type": "tool_result", "tool_use_id": id_, "content": read}
        messages.append({"role": "user", "content": [result]})
        left -= sum(len(json.dumps(message)) for message in messages[-2:])
    messages.append(_said("assistant", "The retry is lost in the worker."))
    return messages


def directive(number: int) -> str:
    """Give what child `number` is to do; its name is the key of its route."""
    return f"PART-{number}. Look into part {number} of it and report."


def report(number: int) -> str:
    """Give a report of 300 tokens."""
    fields = f"Scope: part {number}\nResult: {prose(number, 4 * REPORT_TOKENS - 90)}\n"
    return f"{fields}Key files: {FILE}\nFiles changed: none\nIssues: none"


def _said(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": text}]}
