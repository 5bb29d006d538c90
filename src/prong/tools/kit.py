"""The tools of one agent: an ordered set, frozen for the life of its head."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from prong.entry import Call, ToolSpec
from prong.foreign_json import NOT_JSON
from prong.text import load_text
from prong.tools.schema import schema
from prong.tools.tool import Failed, Tool


class Kit:
    """Tools by name, in the order in which the model sees them."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        """Take the tools; two of one name are a mistake of ours."""
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            assert tool.name not in self._tools, tool.name
            self._tools[tool.name] = tool

    def __iter__(self) -> Iterator[Tool]:
        """Go through the tools in order."""
        return iter(self._tools.values())

    def __len__(self) -> int:
        """Count the tools."""
        return len(self._tools)

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in order, of those too that the model has to find."""
        return tuple(self._tools)

    @property
    def shown(self) -> tuple[str, ...]:
        """The names that stand in every request."""
        return tuple(tool.name for tool in self._told())

    def _told(self) -> Iterator[Tool]:
        return (tool for tool in self if not getattr(tool, "deferred", False))

    def get(self, name: str) -> Tool | None:
        """Find a tool."""
        return self._tools.get(name)

    def parse(self, call: Call) -> tuple[Tool, Any] | Failed:
        """Find a call's tool and read its arguments."""
        tool = self._tools.get(call.name)
        if tool is None:
            return Failed(f"there is no tool {call.name!r}; the tools are {', '.join(self.shown)}")
        try:
            # A server's tool, or one made for a schema of the caller's, reads its own arguments.
            own = getattr(tool, "decode", None)
            if own is not None:
                return tool, own(call.arguments)
            return tool, msgspec.json.decode(call.arguments or "{}", type=tool.arguments)
        except msgspec.ValidationError as error:
            return Failed(f"the arguments of {call.name} are not of its schema: {error}")
        except NOT_JSON as error:
            return Failed(
                f"the arguments of {call.name} are not valid JSON ({error}); the call may have "
                f"been cut off, so send it again, whole, in smaller parts if it was long"
            )

    def specs(self) -> tuple[ToolSpec, ...]:
        """Describe the tools to the model.

        A tool may bring its own `description` and `raw_schema`; for others it is one of
        our own texts, and the schema is that of the argument type.
        """
        return tuple(
            ToolSpec(
                tool.name,
                getattr(tool, "description", None) or load_text(f"tool/{tool.name}"),
                getattr(tool, "raw_schema", None) or msgspec.Raw(schema(tool.arguments)),
            )
            for tool in self._told()
        )
