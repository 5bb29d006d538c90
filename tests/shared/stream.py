"""Streams of replies, and what a dialect's decoder makes of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from prong.wire import Ended, Fault, WireEvent, dialect


def sse(*events: dict[str, Any] | str) -> bytes:
    texts = (event if isinstance(event, str) else json.dumps(event) for event in events)
    return "".join(f"data: {text}\n\n" for text in texts).encode()


def decode(name: str, *events: dict[str, Any] | str) -> list[WireEvent]:
    decoder = dialect(name).decoder()
    return decoder.feed(sse(*events)) + decoder.close()


def ended(events: Sequence[WireEvent]) -> Ended:
    assert isinstance(events[-1], Ended), events[-1]
    return events[-1]


def fault(events: Sequence[WireEvent]) -> Fault:
    assert isinstance(events[-1], Fault), events[-1]
    return events[-1]
