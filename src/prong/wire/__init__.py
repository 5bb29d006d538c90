"""The bytes of each vendor. Pure: no I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from prong.errors import UnknownName
from prong.wire.dialect import (
    NO_MARK,
    Began,
    CallBegan,
    CallPiece,
    Decoder,
    Dialect,
    Encoded,
    Ended,
    Fault,
    HeadSpec,
    ResponseBounds,
    Tail,
    TextPiece,
    ThinkingPiece,
    Ttl,
    WireEvent,
    join_pieces,
)

if TYPE_CHECKING:
    from prong.wire.anthropic import Anthropic
    from prong.wire.chat import Chat
    from prong.wire.responses import Responses

__all__ = [
    "NO_MARK",
    "Anthropic",
    "Began",
    "CallBegan",
    "CallPiece",
    "Chat",
    "Decoder",
    "Dialect",
    "DialectName",
    "Encoded",
    "Ended",
    "Fault",
    "HeadSpec",
    "ResponseBounds",
    "Responses",
    "Tail",
    "TextPiece",
    "ThinkingPiece",
    "Ttl",
    "WireEvent",
    "dialect",
    "join_pieces",
]

DialectName: TypeAlias = Literal["anthropic", "responses", "chat", "claude-chat", "gemini"]
"""The dialects there are."""


def dialect(name: str, *, explicit: bool = True) -> Dialect:
    """Give the dialect of that name; `explicit` says whether the model understands cache marks.

    Raises:
        UsageError: There is no dialect of that name.

    """
    match name:
        case "anthropic":
            from prong.wire.anthropic import Anthropic

            return Anthropic()
        case "responses":
            from prong.wire.responses import Responses

            return Responses(explicit=explicit)
        case "chat":
            from prong.wire.chat import Chat

            return Chat(explicit=explicit)
        case "claude-chat":
            from prong.wire.claude_chat import ClaudeChat

            return ClaudeChat(explicit=explicit)
        case "gemini":
            from prong.wire.gemini import Gemini

            return Gemini()
        case _:
            raise UnknownName(f"no dialect {name!r}: choose anthropic, responses, chat or gemini")


def __getattr__(name: str) -> Any:
    """Load a dialect's class when it is asked for; most runs need one of the three."""
    if name in {"Anthropic", "Chat", "Responses"}:
        from importlib import import_module

        return getattr(import_module(f"prong.wire.{name.lower()}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
