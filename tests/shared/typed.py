"""Steps and views for stories of typed children."""

from __future__ import annotations

from typing import Any

from prong.testing import Step, World, call


def agent(prompt: str, kind: str | None = None, **more: Any) -> Step:
    given = {"description": "a part", "prompt": prompt, **more}
    return call("Agent", given | ({"subagent_type": kind} if kind else {}))


def result(w: World, number: int = -1) -> str:
    """Give the text of the tool results of a request of the main agent."""
    body = [
        r.json for r in w.server.records if r.json["system"][0]["text"].startswith("You are Pr")
    ]
    blocks = body[number]["messages"][-1]["content"]
    return "\n".join(
        part["text"] for b in blocks if b["type"] == "tool_result" for part in b["content"]
    )


def of(w: World, key: str) -> list[Any]:
    """Give the requests of the child whose brief holds a key."""
    return [body for body in w.bodies() if key in str(body["messages"][0])]
