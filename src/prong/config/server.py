"""Which MCP servers are configured: `.mcp.json`, the user's own files and `--mcp-config`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import msgspec

from prong.config.document import Document, PathStep, parse_document, read_document
from prong.config.setting import Settings
from prong.errors import ConfigError

PROJECT_FILE = ".mcp.json"
_USER_FILES = (".claude.json", ".prong/mcp.json")
_VARIABLE = r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}"


class ServerSpec(msgspec.Struct, frozen=True, kw_only=True):
    """How to reach one server: a command to start, or an address."""

    name: str
    path: str
    """The file it was written in."""
    line: int
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str = ""
    url: str = ""
    headers: dict[str, str] = {}

    @property
    def summary(self) -> str:
        """What is started or connected to, in one line; no secrets."""
        return self.url or " ".join((self.command, *self.args))


class Configured(msgspec.Struct):
    """The servers of a session, sorted by name."""

    servers: tuple[ServerSpec, ...] = ()
    problems: list[ConfigError] = []
    warnings: list[str] = []
    private: Mapping[str, str] = {}
    """Those of which only agents of one type have the tools, and which type that is."""


def configured_servers(
    home: str,
    root: str,
    settings: Settings,
    *,
    trusted: bool,
    flags: Sequence[str] = (),
    strict: bool = False,
    env: Mapping[str, str] | None = None,
) -> Configured:
    """Read all places; later ones win: the user's files, the project's, `--mcp-config`.

    `strict` leaves all but the flags out.

    Raises ConfigError if something is wrong with a flag: what was asked for by name must be there.
    """
    env = os.environ if env is None else env
    found = Configured()
    taken: dict[str, ServerSpec] = {}
    for path in () if strict else [Path(home) / name for name in _USER_FILES]:
        _take(taken, found, *read_servers(path, env=env))
    if not strict:
        project = Path(root) / PROJECT_FILE
        servers, problems = read_servers(project, env=env)
        if servers and not trusted:
            names = ", ".join(server.name for server in servers)
            found.warnings.append(
                f"{project}: servers {names} left out, because the folder is not trusted; run "
                "'prong trust' in it to let them run"
            )
            servers = []
        _take(taken, found, [one for one in servers if _is_on(one.name, settings)], problems)
    for flag in flags:
        servers, problems = _flag_servers(flag, env)
        if problems:
            raise problems[0]
        _take(taken, found, servers, ())
    found.servers = tuple(server for _, server in sorted(taken.items()))
    return found


def _is_on(name: str, settings: Settings) -> bool:
    """Say whether the settings want a server of the project: all, unless they choose."""
    values = settings.values
    chosen = values.enabled_mcpjson_servers
    if name in values.disabled_mcpjson_servers:
        return False
    return not chosen or name in chosen or values.enable_all_project_mcp_servers


def _take(
    taken: dict[str, ServerSpec],
    found: Configured,
    servers: Sequence[ServerSpec],
    problems: Sequence[ConfigError],
) -> None:
    found.problems += problems
    taken.update({server.name: server for server in servers})


def _flag_servers(flag: str, env: Mapping[str, str]) -> tuple[list[ServerSpec], list[ConfigError]]:
    if flag.lstrip().startswith("{"):
        return parse_servers(parse_document("--mcp-config", flag), env)
    path = Path(os.path.expanduser(flag))  # noqa: PTH111 - leaves ~nobody alone
    missing = ConfigError(flag, "no such file; give --mcp-config a JSON file or a JSON object")
    return parse_servers(read_document(path) or missing, env)


def read_servers(
    path: Path, *, env: Mapping[str, str] | None
) -> tuple[list[ServerSpec], list[ConfigError]]:
    """Read the `mcpServers` of one file; what is wrong is named and the rest is kept.

    Without an environment variables stay as they are written, for people to read.
    """
    return parse_servers(read_document(path), env)


def parse_servers(
    document: Document | ConfigError | None, env: Mapping[str, str] | None
) -> tuple[list[ServerSpec], list[ConfigError]]:
    """Read the `mcpServers` of a document, as `read_servers` does."""
    if document is None:
        return [], []
    if isinstance(document, ConfigError):
        return [], [document]
    value = document.value.get("mcpServers", {})
    if not isinstance(value, dict):
        return [], [document.problem("'mcpServers' must be an object of servers", "mcpServers")]
    servers: list[ServerSpec] = []
    problems: list[ConfigError] = []
    for name, one in cast("dict[str, object]", value).items():
        try:
            servers.append(_server(document, name, one, env))
        except ConfigError as error:
            problems.append(error)
    return servers, problems


def _server(
    document: Document, name: str, value: object, env: Mapping[str, str] | None
) -> ServerSpec:
    steps: tuple[PathStep, ...] = ("mcpServers", name)
    line = document.problem("", *steps).line or 1
    if not isinstance(value, dict):
        raise document.problem(f"server {name!r} must be an object", *steps)
    parts = _ServerFields(document, name, cast("dict[str, object]", value), env)
    kind = parts.text("type")
    command, url = parts.text("command"), parts.text("url")
    if kind not in ("", "stdio", "http", "streamable-http", "streamableHttp"):
        why = f"server {name!r} is of type {kind!r}; supported are 'stdio' and 'http'"
        raise document.problem(why, *steps, "type")
    if bool(command) == bool(url):
        why = f"server {name!r} must have either a 'command' to start or a 'url'"
        raise document.problem(why, *steps)
    if url and env is not None and not url.startswith(("http://", "https://")):
        why = f"server {name!r}: 'url' must begin with http:// or https://"
        raise document.problem(why, *steps, "url")
    return ServerSpec(
        name=name,
        path=document.path,
        line=line,
        command=command,
        args=parts.texts("args"),
        env=parts.map("env"),
        cwd=parts.text("cwd"),
        url=url,
        headers=parts.map("headers"),
    )


class _ServerFields(msgspec.Struct, frozen=True):
    """The fields of one server, variables filled in."""

    document: Document
    name: str
    value: dict[str, object]
    env: Mapping[str, str] | None

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
        return self.document.problem(text, "mcpServers", self.name, *steps)
