"""Servers that a type of agent brings: they run with the session, for that type alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prong.agent.spec import AgentType, AgentTypes
from prong.config.document import Document
from prong.config.server import ServerSpec, parse_servers
from prong.config.server_file import Configured
from prong.errors import ConfigError
from prong.tools.mcp import clean_name


def join_servers(
    servers: Configured, types: AgentTypes, *, strict: bool, env: Mapping[str, str]
) -> Configured:
    """Put the servers of types among those of a session.

    One that has the name of another server is left out: tools are known by their server's name.
    With `strict` all of them are.
    """
    private: dict[str, str] = {}
    problems, warnings = list(servers.problems), list(servers.warnings)
    taken = {clean_name(server.name): server for server in servers.servers}
    for kind in types.values():
        if kind.servers and strict:
            names = ", ".join(kind.servers)
            warnings.append(f"servers {names} of the agent type {kind.name} left out")
            continue
        own, wrong = _own(kind, env)
        problems += wrong
        for server in own:
            name = clean_name(server.name)
            if taken.setdefault(name, server) is not server:
                told = f"{kind.path}: the server {server.name} of the agent type {kind.name} is "
                warnings.append(f"{told}left out, since another has that name")
                continue
            private[server.name] = kind.name
    listed = tuple(sorted(taken.values(), key=lambda server: server.name))
    return Configured(listed, problems, warnings, private)


def type_servers(kind: AgentType) -> list[ServerSpec]:
    """Give the servers of a type as they are written, for people to read."""
    return _own(kind, None)[0]


def _own(
    kind: AgentType, env: Mapping[str, str] | None
) -> tuple[list[ServerSpec], list[ConfigError]]:
    if not kind.servers:
        return [], []
    value: dict[str, Any] = {"mcpServers": dict(kind.servers)}
    return parse_servers(Document(kind.path or "agents", "{}", value), env)
