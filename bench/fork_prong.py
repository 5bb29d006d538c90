"""Prong's side of the fan-out; run as a program of its own, so that its work is measured alone."""

from __future__ import annotations

import gc
import json
import os
import sys
import tempfile
import time
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import scenario

from prong.entry import CallId, Entry, Reply, Result, Results, Text, user_text
from prong.session import Session, open_session
from prong.testing import inside


def entries(tokens: int) -> list[Entry]:
    """Give the history as entries."""
    made: list[Entry] = []
    for message in scenario.history(tokens):
        blocks = message["content"]
        if message["role"] == "assistant":
            raw = tuple(msgspec.json.encode(block) for block in blocks)
            calls = blocks[-1]["type"] == "tool_use"
            reply = Reply(raw, "anthropic", blocks[0]["text"], stop="calls" if calls else "end")
            made.append(reply)
        elif blocks[0]["type"] == "text":
            made.append(user_text(blocks[0]["text"]))
        else:
            result = Result(CallId(blocks[0]["tool_use_id"]), (Text(blocks[0]["content"]),))
            made.append(Results((result,)))
    return made


def resident() -> int:
    """Give the bytes of memory this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def peak() -> int:
    """Give the most it has held since it was started.

    Not getrusage's: that of a process started by vfork begins with its parent's.
    """
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def opened(url: str, folder: str, **more: Any) -> AbstractAsyncContextManager[Session]:
    """Open a session in a folder with the file that the children read."""
    Path(folder, scenario.FILE).write_text(scenario.CONTENT)
    options: dict[str, Any] = {
        "model": scenario.MODEL,
        "cwd": folder,
        "base_url": url,
        "api_key": "k",
        "store": f"{folder}/store",
        "mode": "bypassPermissions",
        "system": scenario.system(),
        "bare": True,
    }
    return open_session(**{**options, **more})


async def work(url: str, tokens: int, folder: str) -> dict[str, Any]:
    """Open a session with a history, let it fan out, and say what that took."""
    async with opened(url, folder) as session:
        inside(session).agent.conversation.append(*entries(tokens))
        return await measured(session)


async def measured(session: Session) -> dict[str, Any]:
    """Let a session answer once and then fan out, and say what that took."""
    await session.run("Are you ready?")
    gc.collect()
    memory, cpu, wall = resident(), time.process_time(), time.monotonic()
    turn = await session.run(scenario.GO)
    cpu, wall = time.process_time() - cpu, time.monotonic() - wall
    receipts = session.receipts()
    return {
        "ok": turn.text == scenario.CLOSING,
        "detail": turn.detail,
        "cpu": cpu,
        "wall": wall,
        "memory": resident() - memory,
        "peak": peak() - memory,
        "completed": sum(receipt.status == "completed" for receipt in receipts),
        "session": session.id,
    }


def main(url: str, tokens: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(anyio.run(work, url, int(tokens), folder)))


if __name__ == "__main__":
    main(*sys.argv[1:])
