"""An answer, ready to be put into an API's own shape."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from prong.entry import Usage
from prong.testing.request import Request, count_bytes
from prong.testing.script import Call, Part, Step, Stop, Think

EPOCH = 1_790_000_000
"""The wall time at which every server's clock begins."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """One answer with all ids given out."""

    id: str
    request: Request
    step: Step
    parts: tuple[Part, ...]
    usage: Usage
    created: int
    piece: int
    """How many characters a piece of a stream holds."""
    prefix: bytes
    """What thinking is bound to."""
    diagnosis: Any = None
    prewarm: bool = False

    @property
    def model(self) -> str:
        """The model that was asked for."""
        return self.request.model

    @property
    def reason(self) -> Stop:
        """Why it ends."""
        return "length" if self.prewarm else self.step.reason


def output_tokens(step: Step) -> int:
    """Count the tokens of an answer."""
    if step.output_tokens is not None:
        return step.output_tokens
    return sum(
        count_bytes((part.name + part.json if isinstance(part, Call) else part.text).encode())
        for part in step.parts
    )


def reasoning_tokens(parts: tuple[Part, ...]) -> int:
    """Count the tokens of an answer's thinking."""
    return sum(count_bytes(part.text.encode()) for part in parts if isinstance(part, Think))


def pieces(text: str, size: int) -> Iterator[str]:
    """Cut a text into the pieces of a stream."""
    for start in range(0, len(text), size):
        yield text[start : start + size]


def event(name: str | None, data: object) -> bytes:
    """Make one event of a stream."""
    opening = b"event: %s\n" % name.encode() if name else b""
    return b"%sdata: %s\n\n" % (opening, msgspec.json.encode(data))
