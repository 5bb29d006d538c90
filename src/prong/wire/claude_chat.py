"""Claude behind the Chat Completions API, as OpenRouter, LiteLLM and other gateways offer it.

The messages are the chat dialect's, and its replies are that dialect's too. What differs is the
cache: it is Anthropic's, so a prefix is kept only where a mark stands, and the mark is theirs.
"""

from __future__ import annotations

from typing import Any

from prong.wire.chat import Chat
from prong.wire.dialect import BOUNDS, Decoder, Encoded, HeadSpec, ResponseBounds, Tail, Ttl
from prong.wire.openai import ended
from prong.wire.raw import merge


class ClaudeChat(Chat, frozen=True):
    """The Chat Completions API with Anthropic's cache behind it."""

    @property
    def name(self) -> str:
        """Name it."""
        return "claude-chat"

    def head(self, spec: HeadSpec) -> Encoded:
        """Render everything before the first entry, ending inside the array of messages."""
        return self._head(spec, {})

    def tail(self, tail: Tail, spec: HeadSpec | None = None) -> bytes:
        """Give the rest of the body, from after the array of messages to the final brace."""
        del spec
        fields: dict[str, Any] = self._streaming(tail)
        limit = 1 if tail.prewarm else tail.max_tokens
        if limit is not None:
            fields["max_tokens"] = limit
        return ended(merge(fields, tail.extra))

    def mark(self, ttl: Ttl | None) -> bytes:
        """Give the bytes of a cache mark."""
        assert ttl in {None, "5m", "1h"}, f"Anthropic has no cache lifetime {ttl}"
        life = b"" if ttl is None else b',"ttl":"%s"' % ttl.encode()
        return b',"cache_control":{"type":"ephemeral"%s}' % life

    def decoder(self, bounds: ResponseBounds = BOUNDS) -> Decoder:
        """Make a decoder for one response."""
        from prong.wire.chat_stream import ClaudeChatStream

        return ClaudeChatStream(bounds)
