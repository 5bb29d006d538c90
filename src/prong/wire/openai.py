"""What OpenAI's two APIs share: whole messages, marks, functions, results as plain text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from prong.entry import Image, Part, Role, Text, ToolSpec
from prong.wire.dialect import NO_MARK, Encoded, Ttl
from prong.wire.fault import read_fault
from prong.wire.raw import members, tidy

FAILED: Final = "[failed]"
"""Opens a failed result: there is no flag for it."""


class OpenAI(msgspec.Struct, frozen=True):
    """The part of a dialect that is the same for both APIs."""

    explicit: bool = True
    """Whether the model understands cache marks and what else came with them."""

    def glue(self, before: Role | None, role: Role) -> bytes:
        """Give the bytes between two entries; no message reaches into the next."""
        del role
        return b"" if before is None else b","

    def mark(self, ttl: Ttl | None) -> bytes:
        """Give the bytes of a cache mark."""
        assert ttl in {None, "30m", "12h"}, f"OpenAI has no cache lifetime {ttl}"
        life = b"" if ttl is None else b',"ttl":"%s"' % ttl.encode()
        return b',"prompt_cache_breakpoint":{"mode":"explicit"%s}' % life

    def fault(self, status: int, body: bytes) -> tuple[str, str]:
        """Read an error response: the provider's kind and message."""
        return read_fault(status, body)

    def opened(self, fields: Mapping[str, Any], array: bytes, system: bytes, texts: int) -> Encoded:
        """Render a head that ends inside the array, behind the message of its system texts."""
        data = b"{" + members(fields) + b',"%s":[' % array
        if not texts:
            return Encoded(data, NO_MARK, 1)
        data += system
        # The comma belongs to the head, so that glue does not depend on whether there is a system.
        return Encoded(data + b",", self.mark_at(data), texts)

    def mark_at(self, data: bytes) -> int:
        """Find where a mark goes in a message whose content, an array, comes last."""
        # The brace of its last part, then `]}`.
        return len(data) - 3 if self.explicit else NO_MARK


def ended(fields: Mapping[str, Any]) -> bytes:
    """Render the end of a body, from after the array to the final brace."""
    rest = members(fields)
    return b"," + rest + b"}" if rest else b"}"


def function(tool: ToolSpec) -> dict[str, Any]:
    """Describe a tool."""
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": msgspec.Raw(tidy(tool.schema)),
    }


def result_parts(content: str | tuple[Part, ...]) -> tuple[tuple[Part, ...], bool]:
    """Read a result's content back: what it holds, and whether it failed."""
    if isinstance(content, str):
        rest = content.removeprefix(FAILED + "\n")
        return (Text(rest),), rest != content
    failed = content[0] == Text(FAILED)
    return content[1:] if failed else content, failed


def data_url(image: Image) -> str:
    """Write a picture."""
    return f"data:{image.media_type};base64,{image.data}"


def image_of(url: str) -> Image:
    """Read a picture from a data URL."""
    media_type, _, data = url.removeprefix("data:").partition(";base64,")
    return Image(media_type, data)
