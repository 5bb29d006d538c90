"""A conversation as Markdown, for people to read."""

from __future__ import annotations

from collections.abc import Iterator

from prong.face.line import describe_end
from prong.view import (
    Accounted,
    AgentView,
    Called,
    Item,
    PartialReply,
    Replied,
    Restarted,
    Said,
    TurnEnded,
    View,
)

_LONGEST = 4_000
"""Characters of a tool's result that are written."""


def as_markdown(view: View) -> str:
    """Write a session's conversation: what was said, replied and called, in order."""
    title = view.title or view.session_id
    head = [f"# {title}", "", f"Session {view.session_id}, {view.model}, in {view.cwd}", ""]
    return "\n".join([*head, *_agent(view.main)])


def _agent(agent: AgentView) -> Iterator[str]:
    for item in agent.transcript:
        yield from (f"{part}\n" for part in _parts(item))


def _parts(item: Item) -> Iterator[str]:
    """Write an item in paragraphs."""
    match item:
        case Said():
            yield from _said(item)
        case Replied(text=text):
            if text.strip():
                yield f"## Reply\n\n{text}"
        case PartialReply(text=text):
            yield f"## Reply, broken off\n\n{text}"
        case Called():
            yield f"### {item.title or item.name} ({item.state})\n\n{_fenced(_result(item))}"
        case Accounted(receipts=receipts):
            yield "\n".join(f"- {one.text}" for one in receipts)
        case Restarted(reason=reason, detail=detail):
            yield f"---\n\nA new prompt ({reason}): {detail}"
        case TurnEnded(why=why, detail=detail):
            yield describe_end(why, detail)


def _said(item: Said) -> Iterator[str]:
    match item.kind:
        case "user":
            yield f"## User\n\n{item.text}"
        case "reply":
            yield f"## Reply\n\n{item.text}"
        case kind:
            yield f"### {kind}\n\n{_fenced(item.text)}"


def _result(call: Called) -> str:
    text = call.shown or call.text
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST]}\n… {len(text) - _LONGEST:,} more characters"


def _fenced(text: str) -> str:
    """Put a text between fences that do not occur in it."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"
