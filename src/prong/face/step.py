"""One step of a run in a line, for who wants to look on at a run without a terminal."""

from __future__ import annotations

from prong.event import (
    AgentStarted,
    Event,
    PromptMoved,
    ReplyFinished,
    RequestFailed,
    RequestSent,
    RequestSettled,
    ToolFinished,
    ToolStarted,
)
from prong.face.line import describe_usage


def describe_step(event: Event, *, debug: bool) -> str:
    """Say what an agent does; with `debug` also what is sent, and what came back."""
    match event:
        case AgentStarted(kind=kind, model=model) if kind != "main":
            return f"started: {kind}, {model}"
        case ToolStarted(title=title, name=name):
            return f"> {title or name}"
        case ToolFinished(failed=True, refused=False, text=text):
            return f"! {text.strip().partition(chr(10))[0][:200]}"
        case _:
            return _sent(event) if debug else ""


def _sent(event: Event) -> str:
    match event:
        case RequestSent():
            what = f" ({event.sidecar})" if event.sidecar else ""
            return f"request{what} to {event.model}: {event.bytes:,} bytes, {event.entries} entries"
        case ReplyFinished():
            return (
                f"reply after {event.latency:.1f} s ({event.stop}): {describe_usage(event.usage)}"
            )
        case RequestFailed():
            return f"request failed: {event.why}"
        case PromptMoved():
            return f"prompt moved ({event.reason}): {event.detail}"
        case RequestSettled():
            return f"permission: {event.outcome}"
        case _:
            return ""
