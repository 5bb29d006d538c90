"""A session with a fan-out in the middle of its work, told by events, and screens of text."""

from __future__ import annotations

import json
from collections.abc import Iterable

import msgspec

from prong.entry import CallId, Usage
from prong.event import (
    MAIN,
    AgentFinished,
    AgentStarted,
    CacheMissed,
    Envelope,
    Event,
    InputTaken,
    PermissionAsked,
    ReceiptIssued,
    ReplyFinished,
    RequestSent,
    SessionStarted,
    TaskStarted,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnStarted,
)
from prong.face.draw.row import Row
from prong.ids import AgentPath, RequestId, TaskId
from prong.view import View, fold_all

DIFF = """\
--- src/retry.py
+++ src/retry.py
@@ -10,4 +10,5 @@ def retry(call):
     for attempt in range(tries):
-        wait = 2 ** attempt
+        wait = min(60, 2 ** attempt)
+        log(wait)
         sleep(wait)
     return None"""


def sent(number: int) -> Event:
    return RequestSent(
        request_id=RequestId(f"r{number}"), model="m", digest="", bytes=9, entries=1, lives=300.0
    )


def replied(number: int, text: str, usage: Usage, cost: float, thinking: str = "") -> Event:
    return ReplyFinished(
        request_id=RequestId(f"r{number}"),
        text=text,
        thinking=thinking,
        stop="calls",
        stop_detail="",
        usage=usage,
        cost=cost,
        uncached=cost * 8,
        model="m",
        latency=1.0,
        first_event=0.5,
    )


def called(call_id: str, name: str, title: str, **arguments: object) -> Event:
    return ToolStarted(
        call_id=CallId(call_id), name=name, title=title, arguments=json.dumps(arguments)
    )


def returned(call_id: str, name: str, text: str, **more: object) -> Event:
    event = ToolFinished(call_id=CallId(call_id), name=name, failed=False, text=text)
    return msgspec.structs.replace(event, **more)


def fork(name: str, call_id: str, title: str) -> tuple[str, Event]:
    started = AgentStarted(
        kind="fork", model="m", parent=MAIN, title=title, task_id=TaskId(name), call_id=call_id
    )
    return f"main/{name}", started


def receipt(name: str, *, read: int, miss: str = "", siblings: int = 0) -> Event:
    told = {
        "task_id": name,
        "fan": "fork-1",
        "siblings": siblings,
        "bytes_shared": 25_896,
        "tokens_shared": 6_425,
        "read": read,
        "cost": 0.0325,
        "uncached": 0.3225,
        "miss": miss,
    }
    text = f"{name} completed: read {read:,} of 6,425 shared, $0.0325, saved $0.2900 (90%)"
    data = msgspec.Raw(msgspec.json.encode(told))
    return ReceiptIssued(task_id=TaskId(name), receipt=data, text=text)


def story() -> list[tuple[str, Event]]:
    """Tell of a message, three forks at work, one of which asks and one of which missed."""
    hit, missed = Usage(uncached=10, read=990), Usage(uncached=480, read=520)
    return [
        (
            "main",
            SessionStarted(
                session_id="s", model="claude-sonnet-5-5", cwd="/w", tools=(), mode="default"
            ),
        ),
        ("main", AgentStarted(kind="main", model="claude-sonnet-5-5")),
        ("main", TurnStarted(text="fix the scheduler")),
        ("main", InputTaken(kind="user", text="fix the scheduler")),
        ("main", sent(1)),
        ("main", replied(1, "", Usage(uncached=30, read=970), 0.2, "Where is it? Let me look.")),
        ("main", called("c0", "Read", "Read src/retry.py", file_path="src/retry.py")),
        ("main", returned("c0", "Read", "1 import time\n2 import os\n3\n")),
        ("main", called("c1", "Edit", "Edit src/retry.py", file_path="src/retry.py")),
        ("main", returned("c1", "Edit", "edited", shown=DIFF, duration=2.4)),
        ("main", sent(2)),
        ("main", replied(2, "I'll split this in **three**:\n\n1. test\n2. callers", hit, 0.11)),
        ("main", called("c2", "Agent", "Agent fork: write the test")),
        fork("fork-1", "c2", "write the test"),
        ("main", returned("c2", "Agent", "started")),
        ("main", called("c3", "Agent", "Agent fork: list the callers")),
        fork("fork-2", "c3", "list the callers"),
        ("main", returned("c3", "Agent", "started")),
        ("main", called("c4", "Agent", "Agent fork: look for 漢字 in names")),
        fork("fork-3", "c4", "look for 漢字 in names"),
        ("main", returned("c4", "Agent", "started")),
        *(
            (f"main/fork-{n}", event)
            for n, usage in ((1, hit), (2, hit), (3, missed))
            for event in (sent(10 + n), replied(10 + n, "ok", usage, 0.02))
        ),
        ("main/fork-3", CacheMissed(predicted=990, read=520, why="the entry was not found")),
        ("main/fork-3", receipt("fork-3", read=3_341, miss="the provider did not find the entry")),
        ("main/fork-3", AgentFinished(status="completed", result="none")),
        ("main/fork-1", called("d1", "Edit", "Edit retry.py")),
        (
            "main/fork-2",
            PermissionAsked(
                request_id=RequestId("q1"),
                call_id=CallId("d2"),
                tool="Bash",
                title="rm -rf build",
                why="no rule allows it",
                suggestion=("Bash(rm:*)",),
                arguments=json.dumps({"command": "rm -rf build\u202e && echo x"}),
            ),
        ),
        ("main", TaskStarted(task_id=TaskId("bash-1"), title="make test", kind="command")),
        ("main", sent(3)),
        ("main", TextDelta(text="While they work I read `a.py`")),
    ]


def view_of(told: Iterable[tuple[str, Event]]) -> View:
    return fold_all(
        Envelope(
            0 if isinstance(event, TextDelta) else number, float(number), AgentPath(path), event
        )
        for number, (path, event) in enumerate(told, 1)
    )


def text(rows: Iterable[Row]) -> str:
    return "\n".join(row.text.rstrip() for row in rows)
