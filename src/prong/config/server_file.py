"""Which MCP servers are configured, and for whom: the files that this and other programs write.

Later places win: the user's servers, the project's, those the user has in this folder alone, and
`--mcp-config`. Only the project's own files need trust, since only they are somebody else's.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, cast

import msgspec

from prong.config.document import Document, parse_document, read_document, read_text
from prong.config.server import SECTION, ServerSpec, parse_servers
from prong.config.setting import Settings
from prong.errors import ConfigError
from prong.foreign_number import is_number
from prong.tools.mcp import full_name

PROJECT_FILE = ".mcp.json"
USER_FILE = ".prong/mcp.json"
_CLAUDE = ".claude.json"
_CODEX = ".codex/config.toml"


class Configured(msgspec.Struct):
    """The servers of a session, sorted by name."""

    servers: tuple[ServerSpec, ...] = ()
    problems: list[ConfigError] = []
    warnings: list[str] = []
    private: Mapping[str, str] = {}
    """Those of which only agents of one type have the tools, and which type that is."""


class ServerBringer(Protocol):
    """A plug-in, as far as its servers are concerned."""

    def specs(self, env: Mapping[str, str] | None) -> tuple[list[ServerSpec], list[ConfigError]]:
        """Give its servers under names of their own, variables filled in."""
        ...


def configured_servers(
    home: str,
    root: str,
    settings: Settings,
    *,
    trusted: bool,
    flags: Sequence[str] = (),
    strict: bool = False,
    env: Mapping[str, str] | None = None,
    brought: Sequence[ServerBringer] = (),
) -> Configured:
    """Read all places; `strict` leaves all but the flags out, and what plug-ins have `brought`.

    Raises ConfigError if something is wrong with a flag: what was asked for by name must be there.
    """
    search = _ServerSearch(
        root, {"CLAUDE_PROJECT_DIR": root, **(os.environ if env is None else env)}
    )
    for one in brought:
        search.take(*one.specs(search.env))
    if not strict:
        search.look(home, settings, trusted=trusted)
    for flag in flags:
        document = _flag_document(flag)
        servers, problems = parse_servers(document, search.env, scope="flag")
        if problems:
            raise problems[0]
        search.taken.update({server.name: server for server in servers})
    search.settle()
    return search.found


class _ServerSearch:
    """The servers that were found so far, by name."""

    def __init__(self, root: str, env: Mapping[str, str]) -> None:
        self.root = root
        self.env = env
        self.found = Configured()
        self.taken: dict[str, ServerSpec] = {}

    def look(self, home: str, settings: Settings, *, trusted: bool) -> None:
        """Read the files of the user and of the folder, each once."""
        theirs, own = read_document(Path(home) / _CLAUDE), read_document(Path(home) / USER_FILE)
        off = _switched_off(theirs, self.root)
        for document in (read_codex(Path(home) / _CODEX), theirs, own):
            self.take(*parse_servers(document, self.env))
        self._look_in_project(settings, trusted=trusted, off=off)
        for document in (theirs, own):
            if isinstance(document, Document):
                steps = ("projects", self.root)
                self.take(*parse_servers(document, self.env, *steps, scope="local"))
        for name in off & self.taken.keys():
            del self.taken[name]

    def settle(self) -> None:
        """Sort the servers, and see that the names of their tools can be told apart."""
        leads: dict[str, ServerSpec] = {}
        for _, server in sorted(self.taken.items()):
            lead = full_name(server.name, "")
            if (other := leads.setdefault(lead, server)) is not server:
                why = f"server {server.name!r} is left out: its tools would be called like those of"
                problem = ConfigError(server.path, f"{why} {other.name!r}", line=server.line)
                self.found.problems.append(problem)
        for lead, server in leads.items():
            wider = [one for near, one in leads.items() if near != lead and lead.startswith(near)]
            self.found.warnings += [
                f"rules about mcp__{one.name} speak of the tools of the server {server.name!r} too"
                for one in wider
            ]
        self.found.servers = tuple(leads.values())

    def _look_in_project(self, settings: Settings, *, trusted: bool, off: frozenset[str]) -> None:
        for document in project_documents(self.root):
            servers, problems = parse_servers(document, self.env, scope="project")
            if servers and not trusted:
                names = ", ".join(server.name for server in servers)
                self.found.warnings.append(
                    f"{servers[0].path}: servers {names} left out, because the folder is not "
                    "trusted; run 'prong trust' in it to let them run"
                )
                servers = []
            wanted = [one for one in servers if _is_on(one.name, settings) and one.name not in off]
            self.take(wanted, problems)

    def take(self, servers: Sequence[ServerSpec], problems: Sequence[ConfigError]) -> None:
        """Put servers among those that were found; later ones win."""
        self.found.problems += problems
        self.taken.update({server.name: server for server in servers})


def project_documents(root: str) -> list[Document | ConfigError | None]:
    """Read the files of a folder that name servers."""
    return [read_codex(Path(root) / _CODEX), read_document(Path(root) / PROJECT_FILE)]


def _is_on(name: str, settings: Settings) -> bool:
    """Say whether the settings want a server of the project: all, unless they choose."""
    values = settings.values
    chosen = values.enabled_mcpjson_servers
    if name in values.disabled_mcpjson_servers:
        return False
    return not chosen or name in chosen or values.enable_all_project_mcp_servers


def _switched_off(document: Document | ConfigError | None, root: str) -> frozenset[str]:
    """Name the servers that the user has switched off for a folder in the other program."""
    if not isinstance(document, Document):
        return frozenset()
    projects = document.value.get("projects")
    folder = cast("dict[str, object]", projects).get(root) if isinstance(projects, dict) else None
    if not isinstance(folder, dict):
        return frozenset()
    kept = cast("dict[str, object]", folder)
    lists = [kept.get(key) for key in ("disabledMcpServers", "disabledMcpjsonServers")]
    named = [cast("list[object]", one) for one in lists if isinstance(one, list)]
    return frozenset(name for names in named for name in names if isinstance(name, str))


def _flag_document(flag: str) -> Document | ConfigError:
    if flag.lstrip().startswith("{"):
        return parse_document("--mcp-config", flag)
    path = Path(os.path.expanduser(flag))  # noqa: PTH111 - leaves ~nobody alone
    missing = ConfigError(flag, "no such file; give --mcp-config a JSON file or a JSON object")
    return read_document(path) or missing


def read_codex(path: Path) -> Document | ConfigError | None:
    """Read the servers of a `config.toml`, in the words of the other files."""
    text = read_text(path)
    if text is None or isinstance(text, ConfigError):
        return text
    if "mcp_servers" not in text:
        return None
    import tomllib

    try:
        value = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        return ConfigError(path, f"is not valid TOML: {error}; its servers are left out")
    tables: object = value.get("mcp_servers")
    if not isinstance(tables, dict):
        return None
    servers = {
        name: _from_codex(cast("dict[str, Any]", one)) if isinstance(one, dict) else one
        for name, one in cast("dict[str, object]", tables).items()
        if not isinstance(one, dict) or cast("dict[str, object]", one).get("enabled") is not False
    }
    return Document(str(path), "", {SECTION: servers})


def _from_codex(table: dict[str, Any]) -> dict[str, Any]:
    kept = {key: table[key] for key in ("command", "args", "env", "cwd", "url") if key in table}
    headers: Any = table.get("http_headers") or {}
    if isinstance(headers, dict) and isinstance(variable := table.get("bearer_token_env_var"), str):
        headers = {**cast("dict[str, Any]", headers), "Authorization": f"Bearer ${{{variable}}}"}
    if (seconds := table.get("tool_timeout_sec")) is not None:
        kept["timeout"] = seconds * 1000 if is_number(seconds) else seconds
    return {**kept, **({"headers": headers} if headers else {})}
