"""What servers put into a message of the user's: a prompt that was called, resources it names."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from prong.command import Refused
from prong.entry import Part, Text
from prong.event import Warned
from prong.session.parts import Parts
from prong.tools.mcp import content_part, resource_part
from prong.tools.tool import Failed

if TYPE_CHECKING:
    from mcp_types import Prompt

    from prong.session.mcp_server import McpServer

_NAMED = r"(?<!\S)@([\w.-]+):(\S+)"
_TAIL = ".,;:!?)]}\"'"
_MOST = 10
_LONGEST = 100_000


def is_server_prompt(parts: Parts, name: str) -> bool:
    """Whether a name after a slash is that of a server's prompt, be the server there yet or not."""
    return parts.servers is not None and parts.servers.owner(name) is not None


async def server_prompt(parts: Parts, name: str, words: str) -> tuple[Part, ...] | Refused:
    """Have a server write its prompt, with the words that follow its name as arguments."""
    server = parts.servers.owner(name) if parts.servers is not None else None
    assert server is not None
    assert parts.servers is not None
    await server.wait_settled()
    _, prompt = parts.servers.prompts().get(name, (server, None))
    if prompt is None:
        known = ", ".join(f"/{one}" for one in parts.servers.prompts()) or "none"
        why = f": {server.failure}" if server.failure else ""
        return Refused(f"there is no prompt /{name}{why}; there are: {known}")
    arguments = _arguments(prompt, words)
    if isinstance(arguments, Refused):
        return arguments
    found = await server.prompt(prompt.name, arguments)
    if isinstance(found, Failed):
        return Refused(found.why)
    pictures = parts.agent.context.images
    given: list[Part] = [
        Text(f"[Prompt {prompt.name!r} of the MCP server {server.spec.name}, called by the user]")
    ]
    for message in found.messages:
        if message.role == "assistant":
            given.append(Text("[assistant]"))
        given.append(_bounded(content_part(message.content, pictures=pictures)))
    return tuple(given)


def _arguments(prompt: Prompt, words: str) -> dict[str, str] | Refused:
    """Give each argument its word; the last has all that is left."""
    names = [one.name for one in prompt.arguments or ()]
    if len(names) == 1:
        parted = [words.strip()] if words.strip() else []
    else:
        try:
            parted = shlex.split(words)
        except ValueError:
            parted = words.split()
    if len(parted) > len(names) > 0:
        parted = [*parted[: len(names) - 1], " ".join(parted[len(names) - 1 :])]
    given = dict(zip(names, parted, strict=False))
    missing = [one.name for one in prompt.arguments or () if one.required and one.name not in given]
    if missing:
        usage = " ".join(name.upper() for name in names)
        return Refused(f"it lacks {', '.join(missing)}: /NAME {usage}")
    return given


async def with_resources(parts: Parts, message: Sequence[Part]) -> tuple[Part, ...]:
    """Put the resources behind a message that it names as `@server:uri`."""
    if parts.servers is None:
        return tuple(message)
    texts = [part.text for part in message if isinstance(part, Text)]
    named = [(m[1], m[2].rstrip(_TAIL)) for text in texts for m in re.finditer(_NAMED, text)]
    added: list[Part] = []
    for name, uri in list(dict.fromkeys(named))[:_MOST]:
        server = parts.servers.named(name)
        if server is not None and uri:
            added += await _resource(parts, server, uri)
    return (*message, *added)


async def _resource(parts: Parts, server: McpServer, uri: str) -> list[Part]:
    found = await server.read(uri)
    if isinstance(found, Failed):
        why = f"the resource @{server.spec.name}:{uri} could not be read: {found.why}"
        parts.agent.emit(Warned(text=why))
        return [Text(f"[{why}]")]
    pictures = parts.agent.context.images
    return [_bounded(resource_part(one, pictures=pictures)) for one in found]


def _bounded(part: Part) -> Part:
    if isinstance(part, Text) and len(part.text) > _LONGEST:
        return Text(
            f"{part.text[:_LONGEST]}\n[cut after {_LONGEST:,} of {len(part.text):,} characters]"
        )
    return part
