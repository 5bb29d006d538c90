"""The bytes of each vendor. Pure: no I/O."""

from prong.wire.base import (
    NO_MARK,
    Began,
    CallBegan,
    CallPiece,
    Decoder,
    Dialect,
    Encoded,
    Ended,
    Event,
    Fault,
    HeadSpec,
    Tail,
    TextPiece,
    ThinkingPiece,
    Ttl,
)

__all__ = [
    "NO_MARK",
    "Began",
    "CallBegan",
    "CallPiece",
    "Decoder",
    "Dialect",
    "Encoded",
    "Ended",
    "Event",
    "Fault",
    "HeadSpec",
    "Tail",
    "TextPiece",
    "ThinkingPiece",
    "Ttl",
]
