"""What an editor sends with a message or a new session, as a session takes it."""

from __future__ import annotations

import os.path
from collections.abc import Sequence
from typing import Any

from prong.entry import Image, Part, Text
from prong.errors import BadInput
from prong.face.acp.editor_value import EditorServerSpec, EmbeddedResource, PromptBlock
from prong.system.path_form import is_absolute, real_path

_FILE = "file://"


def parts_of(blocks: Sequence[PromptBlock]) -> tuple[Part, ...]:
    """Read the pieces of a message.

    Raises BadInput if one is of a kind that no model here can be given.
    """
    return tuple(_part(block) for block in blocks)


def _part(block: PromptBlock) -> Part:
    match block.type:
        case "text":
            return Text(block.text)
        case "image" if block.data:
            return Image(block.mime_type or "image/png", block.data)
        case "resource_link":
            return Text(_link(block.uri or "", block.name))
        case "resource" if block.resource is not None:
            return _resource(block.resource)
        case _:
            raise BadInput(
                f"a message can hold text, pictures and resources, not {block.type!r} as it came"
            )


def _link(uri: str, name: str) -> str:
    """Name a file by its path, as a user does; anything else by its address."""
    if uri.startswith(_FILE):
        return f"@{path_of(uri)}"
    return f"[{name}]({uri})" if name else uri


def path_of(uri: str) -> str:
    """Give the path of a file's address; a place in the file stays behind it."""
    from urllib.parse import unquote

    path, mark, place = uri.removeprefix(_FILE).partition("#")
    return f"{unquote(path)}{mark}{place}"


def _resource(resource: EmbeddedResource) -> Part:
    kind = resource.mime_type or ""
    if resource.blob is not None and kind.startswith("image/"):
        return Image(kind, resource.blob)
    name = path_of(resource.uri) if resource.uri.startswith(_FILE) else resource.uri
    if resource.text is None:
        raise BadInput(f"{name} is {kind or 'binary'}, of which a model can be given nothing")
    return Text(f'<context ref="{name}">\n{resource.text}\n</context>')


def server_config(servers: Sequence[EditorServerSpec]) -> dict[str, Any]:
    """Give an editor's MCP servers as a file of servers holds them.

    Raises BadInput if one is reached in a way that is not supported.
    """
    return {"mcpServers": {server.name: _server(server) for server in servers}}


def _server(server: EditorServerSpec) -> dict[str, Any]:
    match server.type:
        case "stdio":
            return {
                "command": _literal(server.command),
                "args": [_literal(word) for word in server.args],
                "env": {one.name: _literal(one.value) for one in server.env},
            }
        case "http":
            headers = {one.name: _literal(one.value) for one in server.headers}
            return {"type": "http", "url": _literal(server.url), "headers": headers}
        case other:
            raise BadInput(
                f"the server {server.name!r} is of type {other!r}; supported are stdio and http"
            )


def _literal(text: str) -> str:
    """Write a text so that no variable of the environment is put into it."""
    return text.replace("${", "${PRONG_LITERAL:-$}{")


def must_be_folder(path: str) -> str:
    """Give a folder that an editor names as it is on disk.

    Raises BadInput if it is not absolute, or no folder.
    """
    if not is_absolute(path) or not os.path.isdir(path):  # noqa: PTH112 - any word
        raise BadInput(f"{path!r} is no folder; an absolute path of one is needed")
    return real_path(path)
