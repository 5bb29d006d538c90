"""How a configured MCP server is reached, as files and `--mcp-config` say it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, TypeAlias, cast

import msgspec

from prong.config.document import Document, PathStep
from prong.errors import ConfigError
from prong.foreign_number import is_number

SECTION = "mcpServers"
ServerTransport: TypeAlias = Literal["stdio", "http", "sse"]
ServerScope: TypeAlias = Literal["local", "project", "user", "flag"]
"""Who a server is for: this user in this folder, all who work in it, this user, one session."""
_KINDS: dict[str, ServerTransport] = {
    "": "stdio",
    "stdio": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamableHttp": "http",
    "sse": "sse",
}
_VARIABLE = r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}"


_PORTS = 1 << 16


class ServerLogin(msgspec.Struct, frozen=True):
    """As what a login at a server is asked for, where that was agreed on beforehand."""

    client_id: str = ""
    """That of a program which was registered there; empty to be registered on the spot."""
    port: int | None = None
    """The port of this machine that the browser is led back to; None for any."""
    unheeded: tuple[str, ...] = ()
    """Keys that have no effect."""


class ServerSpec(msgspec.Struct, frozen=True, kw_only=True):
    """How to reach one server: a command to start, or an address."""

    name: str
    path: str
    """The file it was written in."""
    line: int
    scope: ServerScope = "user"
    kind: ServerTransport = "stdio"
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str = ""
    url: str = ""
    headers: dict[str, str] = {}
    call_seconds: float | None = None
    """How long a call may go without a sign of life, in place of MCP_TOOL_TIMEOUT."""
    login: ServerLogin = ServerLogin()

    @property
    def summary(self) -> str:
        """What is started or connected to, in one line; no secrets."""
        return self.url or " ".join((self.command, *self.args))


def parse_servers(
    document: Document | ConfigError | None,
    env: Mapping[str, str] | None,
    *steps: PathStep,
    scope: ServerScope = "user",
) -> tuple[list[ServerSpec], list[ConfigError]]:
    """Read the `mcpServers` of the object to which the steps lead; what is wrong is named.

    Without an environment variables stay as they are written, for people to read.
    """
    if document is None:
        return [], []
    if isinstance(document, ConfigError):
        return [], [document]
    inner: object = document.value
    for step in steps:
        inner = cast("dict[PathStep, object]", inner).get(step) if isinstance(inner, dict) else None
    if not isinstance(inner, dict):
        return [], []
    steps = (*steps, SECTION)
    value = cast("dict[str, object]", inner).get(SECTION, {})
    if not isinstance(value, dict):
        return [], [document.problem(f"'{SECTION}' must be an object of servers", *steps)]
    servers: list[ServerSpec] = []
    problems: list[ConfigError] = []
    for name, one in cast("dict[str, object]", value).items():
        try:
            servers.append(_server(document, (*steps, name), name, one, env, scope))
        except ConfigError as error:
            problems.append(error)
    return servers, problems


def _server(
    document: Document,
    steps: tuple[PathStep, ...],
    name: str,
    value: object,
    env: Mapping[str, str] | None,
    scope: ServerScope,
) -> ServerSpec:
    line = document.problem("", *steps).line or 1
    if not isinstance(value, dict):
        raise document.problem(f"server {name!r} must be an object", *steps)
    parts = _ServerFields(document, steps, name, cast("dict[str, object]", value), env)
    command, url = parts.text("command"), parts.text("url")
    if bool(command) == bool(url):
        why = f"server {name!r} must have either a 'command' to start or a 'url'"
        raise document.problem(why, *steps)
    filled = env is not None or not url.startswith("${")
    if url and filled and not url.startswith(("http://", "https://")):
        why = f"server {name!r}: 'url' must begin with http:// or https://"
        raise document.problem(why, *steps, "url")
    return ServerSpec(
        name=name,
        path=document.path,
        line=line,
        scope=scope,
        kind=parts.kind(url=url),
        command=command,
        args=parts.texts("args"),
        env=parts.map("env"),
        cwd=parts.text("cwd"),
        url=url,
        headers=parts.map("headers"),
        call_seconds=parts.seconds("timeout"),
        login=parts.login(),
    )


class _ServerFields(msgspec.Struct, frozen=True):
    """The fields of one server, variables filled in."""

    document: Document
    steps: tuple[PathStep, ...]
    name: str
    value: dict[str, object]
    env: Mapping[str, str] | None

    def kind(self, *, url: str) -> ServerTransport:
        kind = self.text("type")
        if kind not in _KINDS:
            why = f"server {self.name!r} is of type {kind!r}; it must be stdio, http or sse"
            raise self.document.problem(why, *self.steps, "type")
        if kind and (_KINDS[kind] == "stdio") == bool(url):
            wrong = "url" if url else "command"
            why = f"server {self.name!r} is of type {kind!r}, which has no '{wrong}'"
            raise self.document.problem(why, *self.steps, "type")
        return _KINDS[kind] if kind else "http" if url else "stdio"

    def seconds(self, key: str) -> float | None:
        value = self.value.get(key)
        if value is None:
            return None
        if not is_number(value) or value <= 0:
            raise self._problem("must be a number of milliseconds above 0", key)
        return float(value) / 1000

    def login(self) -> ServerLogin:
        given = self.value.get("oauth")
        if given is None:
            return ServerLogin()
        if not isinstance(given, dict):
            raise self._problem("must be an object", "oauth")
        told = cast("dict[str, object]", given)
        client, port = told.get("clientId", ""), told.get("callbackPort")
        if not isinstance(client, str):
            raise self._problem("must be a text", "oauth", "clientId")
        if port is not None and (type(port) is not int or not 0 < port < _PORTS):
            raise self._problem("must be the number of a port", "oauth", "callbackPort")
        unheeded = tuple(key for key in told if key not in {"clientId", "callbackPort"})
        return ServerLogin(self._expand(client, "oauth", "clientId"), port, unheeded)

    def text(self, key: str) -> str:
        value = self.value.get(key, "")
        if not isinstance(value, str):
            raise self._problem("must be a text", key)
        return self._expand(value, key)

    def texts(self, key: str) -> tuple[str, ...]:
        value = self.value.get(key, [])
        if not isinstance(value, list):
            raise self._problem("must be a list of texts", key)
        found: list[str] = []
        for number, item in enumerate(cast("list[object]", value)):
            if not isinstance(item, str):
                raise self._problem("must be a list of texts", key, number)
            found.append(self._expand(item, key, number))
        return tuple(found)

    def map(self, key: str) -> dict[str, str]:
        value = self.value.get(key, {})
        if not isinstance(value, dict):
            raise self._problem("must be an object of texts", key)
        found: dict[str, str] = {}
        for name, item in cast("dict[str, object]", value).items():
            if not isinstance(item, str):
                raise self._problem("must be an object of texts", key, name)
            found[name] = self._expand(item, key, name)
        return found

    def _expand(self, text: str, *steps: PathStep) -> str:
        env = self.env
        if env is None:
            return text

        def replace(match: re.Match[str]) -> str:
            value = env.get(match[1])
            if not value and match[2] is not None:
                return match[2]
            if value is None:
                why = f"uses ${{{match[1]}}}, which is not set; set it or write a default, "
                raise self._problem(f"{why}${{{match[1]}:-...}}", *steps)
            return value

        return re.sub(_VARIABLE, replace, text)

    def _problem(self, why: str, *steps: PathStep) -> ConfigError:
        place = ".".join(str(step) for step in steps)
        text = f"server {self.name!r}: '{place}' {why}"
        return self.document.problem(text, *self.steps, *steps)
