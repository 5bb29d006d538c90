"""Tools of MCP servers, as tools of ours.

The name, description and schema are the server's. They are fixed when the session starts, sorted by
name, so that the bytes of the tool list are the same in every request.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeAlias, cast

import msgspec
from msgspec import Meta

from prong.entry import CallId, Image, Part, Text
from prong.tools.access import Access, Using
from prong.tools.tool import CallOutcome, Context, Done, Failed, SideEffect

if TYPE_CHECKING:
    from mcp_types import BlobResourceContents, CallToolResult, ContentBlock, TextResourceContents

_LONGEST_NAME = 64
_LONGEST_DESCRIPTION = 4_000
_CHOICES = ("anyOf", "oneOf", "allOf")
"""Keys that providers do not take at the top of a schema."""
_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_LARGEST_PICTURE = 5_000_000
"""Letters of base64 that providers take of one picture."""
RESOURCES = "ReadResource"
"""What we call the tool that reads a server's resources."""

ResourceContents: TypeAlias = "Sequence[TextResourceContents | BlobResourceContents]"
Arguments: TypeAlias = dict[str, Any]
"""Arguments of a server's tool, which only the server can check in full."""


class ToolServer(Protocol):
    """A server that may be called."""

    async def call(
        self, name: str, arguments: dict[str, Any], show: Callable[[str], None]
    ) -> CallToolResult | Failed:
        """Call a tool by its full name; what the connection itself cannot do is a failure.

        `show` takes what the server says of its progress.
        """
        ...

    async def read(self, uri: str) -> ResourceContents | Failed:
        """Read a resource; without an address, list what there is."""
        ...


class McpTool(msgspec.Struct, frozen=True, kw_only=True):
    """One tool of one server; it brings its own description and schema."""

    connection: ToolServer
    server: str
    tool: str
    """The server's own name for it."""
    name: str
    description: str
    raw_schema: msgspec.Raw
    effect: SideEffect
    required: tuple[str, ...] = ()
    deferred: bool = False
    """Whether the model is not told of it, and has to find it."""

    @property
    def arguments(self) -> type[msgspec.Struct]:
        """Any object: what the server's schema allows is not known when this is written."""
        return cast("type[msgspec.Struct]", Arguments)

    @property
    def budget(self) -> int:
        """Characters a result may have."""
        return 50_000

    def title(self, args: Arguments) -> str:
        """Name the tool and the first of its arguments."""
        shown = msgspec.json.encode(args).decode()
        return f"{self.server}: {self.tool} {shown if len(shown) <= 80 else shown[:79] + '…'}"

    def access(self, args: Arguments, context: Context) -> Sequence[Access]:
        """Rules speak of it by its full name."""
        del args, context
        return (Using(self.name),)

    async def run(self, call_id: CallId, args: Arguments, context: Context) -> CallOutcome:
        """Call the server."""
        missing = [key for key in self.required if key not in args]
        if missing:
            return Failed(f"missing required argument: {', '.join(missing)}")
        answer = await self.connection.call(self.name, args, partial(context.show, call_id))
        if isinstance(answer, Failed):
            return answer
        parts = tuple(_parts(answer, pictures=context.images))
        if answer.is_error:
            texts = [part.text for part in parts if isinstance(part, Text)]
            return Failed("\n".join(texts) or "the tool failed without saying why")
        return Done(parts or (Text("(no output)"),))


class ResourceArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a server's resources are read by."""

    uri: Annotated[str, Meta(description="Its address; leave it out to list what there is")] = ""


class McpResources(msgspec.Struct, frozen=True, kw_only=True):
    """Reads the resources of one server; rules speak of it as of the server's own tools."""

    connection: ToolServer
    server: str
    name: str
    effect: SideEffect = "reads"
    budget: int = 50_000
    deferred: bool = False

    @property
    def description(self) -> str:
        """What the model is told."""
        return f"Read a resource of the MCP server {self.server} by its URI, or list its resources."

    @property
    def arguments(self) -> type[msgspec.Struct]:
        """The argument type."""
        return ResourceArguments

    def title(self, args: ResourceArguments) -> str:
        """Name the resource."""
        return f"{self.server}: {args.uri or 'list of resources'}"

    def access(self, args: ResourceArguments, context: Context) -> Sequence[Access]:
        """Rules speak of it by its full name."""
        del args, context
        return (Using(self.name),)

    async def run(self, call_id: CallId, args: ResourceArguments, context: Context) -> CallOutcome:
        """Read it."""
        del call_id
        found = await self.connection.read(args.uri)
        if isinstance(found, Failed):
            return found
        parts = tuple(resource_part(one, pictures=context.images) for one in found)
        return Done(parts or (Text("(no resources)"),))


ServedTool: TypeAlias = McpTool | McpResources


def full_name(server: str, tool: str, *, taken: Iterable[str] = ()) -> str:
    """Make `mcp__server__tool` of names that may hold anything; never one that is taken."""
    name = f"mcp__{clean_name(server)}__{clean_name(tool)}"
    if len(name) <= _LONGEST_NAME and name not in taken:
        return name
    mark = hashlib.sha256(f"{server}\0{tool}".encode()).hexdigest()[:8]
    return f"{name[: _LONGEST_NAME - 9]}_{mark}"


def server_prefix(server: str) -> str:
    """Give what the names of all tools of a server begin with."""
    return f"mcp__{clean_name(server)}__"[: _LONGEST_NAME - 9]


def clean_name(name: str) -> str:
    """Give a server's or tool's name as it stands in `mcp__server__tool`."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)


def bounded_description(text: str) -> str:
    """Cut a description that is far too long: it rides on every request."""
    if len(text) <= _LONGEST_DESCRIPTION:
        return text
    return f"{text[:_LONGEST_DESCRIPTION]}… (cut)"


def usable_schema(schema: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Make a schema that every provider takes, and say in words what had to be left out of it.

    One schema that a provider refuses would fail every request of the session. The server checks
    the arguments against its own schema in any case.
    """
    usable = {key: value for key, value in schema.items() if key not in _CHOICES}
    usable["type"] = "object"
    if not isinstance(usable.get("properties"), dict):
        usable["properties"] = {}
    choices = {key: value for key, value in schema.items() if key in _CHOICES}
    if not choices:
        return usable, ""
    return usable, f"\n\nThe arguments must also meet: {msgspec.json.encode(choices).decode()}"


def required_keys(schema: dict[str, Any]) -> tuple[str, ...]:
    """Name the arguments that a call must have."""
    required = schema.get("required")
    if not isinstance(required, list):
        return ()
    return tuple(key for key in cast("list[object]", required) if isinstance(key, str))


def _parts(answer: CallToolResult, *, pictures: bool) -> Iterable[Part]:
    if not answer.content and answer.structured_content is not None:
        yield Text(msgspec.json.encode(answer.structured_content).decode())
    for block in answer.content:
        yield content_part(block, pictures=pictures)


def content_part(block: ContentBlock, *, pictures: bool) -> Part:
    """Put a part of what a server gave before the model."""
    match block.type:
        case "text":
            return Text(block.text)
        case "image":
            return _picture(block.mime_type, block.data, pictures=pictures)
        case "audio":
            return Text(f"[audio, {block.mime_type}: it cannot be shown to the model]")
        case "resource_link":
            about = f": {block.description}" if block.description else ""
            return Text(f"[resource {block.name} at {block.uri}{about}]")
        case "resource":
            return resource_part(block.resource, pictures=pictures)


def _picture(kind: str, data: str, *, pictures: bool) -> Part:
    if not pictures:
        return Text(f"[picture, {kind}: this model cannot see pictures]")
    if kind not in _PICTURES:
        return Text(f"[picture, {kind}: this kind cannot be shown to the model]")
    if len(data) > _LARGEST_PICTURE:
        return Text(f"[picture, {kind}, {len(data) * 3 // 4:,} bytes: too large for the model]")
    return Image(kind, data)


def resource_part(resource: TextResourceContents | BlobResourceContents, *, pictures: bool) -> Part:
    """Put a resource before the model, with its address."""
    text = getattr(resource, "text", None)
    if isinstance(text, str):
        return Text(f"[resource {resource.uri}]\n{text}")
    kind = resource.mime_type or "unknown kind"
    data = str(getattr(resource, "blob", ""))
    if kind in _PICTURES:
        return _picture(kind, data, pictures=pictures)
    return Text(f"[resource {resource.uri}, {kind}, {len(data) * 3 // 4:,} bytes: not text]")
