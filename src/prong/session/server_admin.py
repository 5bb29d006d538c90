"""What can be done with MCP servers without a session: list, try, add, remove, log in and out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import anyio
import msgspec

from prong.config.option import Options
from prong.config.place import Place, look_around
from prong.config.server import ServerSpec
from prong.config.server_edit import SCOPES, ServerFile
from prong.errors import BadInput, ConfigError, NotPossibleNow, UnknownName
from prong.session.mcp_reach import reach_of
from prong.session.mcp_server import McpServer
from prong.session.mcp_servers import open_servers, served_tools
from prong.session.mcp_token import TokenFile
from prong.tools.mcp import full_name
from prong.tools.mcp_search import size_of


class ServerReport(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a server."""

    name: str
    scope: str
    transport: str
    summary: str
    path: str
    state: str = ""
    """`ready`, `starting` or `failed` if it was started; empty if it was not."""
    why: str = ""
    about: str = ""
    seconds: float = 0.0
    tools: tuple[str, ...] = ()
    bytes: int = 0
    """What its tools would put into every request."""
    prompts: tuple[str, ...] = ()
    """By the names that the user types after a slash."""
    resources: bool = False
    instructions: int = 0
    """Characters of what it says of itself."""


def report_on(server: McpServer) -> ServerReport:
    """Say how a server stands."""
    tools, features = served_tools(server), server.features
    return msgspec.structs.replace(
        _configured(server.spec),
        state=server.state,
        why="; ".join((server.failure, *features.notes)).strip("; "),
        about=features.about,
        seconds=server.seconds,
        tools=tuple(tool.name for tool in tools),
        bytes=size_of(tools),
        prompts=tuple(full_name(server.spec.name, prompt.name) for prompt in features.prompts),
        resources=features.resources,
        instructions=len(features.instructions),
    )


def _configured(spec: ServerSpec) -> ServerReport:
    return ServerReport(
        name=spec.name,
        scope=spec.scope,
        transport=spec.kind if not spec.url or spec.kind == "sse" else "http",
        summary=spec.summary,
        path=spec.path,
    )


def list_servers(cwd: str = ".") -> tuple[list[ServerReport], list[str]]:
    """Give the servers of a folder, and what is wrong with others."""
    place = look_around(Options(cwd=cwd))
    wrong = [*map(str, place.servers.problems), *place.servers.warnings]
    return [_configured(spec) for spec in place.servers.servers], wrong


def show_server(name: str, cwd: str = ".") -> list[str]:
    """Say all that is configured of a server; values that may be secrets are not shown.

    Raises UsageError if there is none.
    """
    place = look_around(Options(cwd=cwd))
    spec = _named(place, name)
    lines = [
        f"name       {spec.name}",
        f"scope      {spec.scope} ({spec.path}:{spec.line})",
        f"transport  {_configured(spec).transport}",
        f"{'address' if spec.url else 'command'}    {spec.summary}",
    ]
    lines += [f"env        {', '.join(spec.env)}"] if spec.env else []
    lines += [f"headers    {', '.join(spec.headers)}"] if spec.headers else []
    if spec.url:
        lines.append(f"login      {_login(place, spec)}")
    return lines


def _login(place: Place, spec: ServerSpec) -> str:
    try:
        login = TokenFile(place.home, spec.url).read()
    except ConfigError as error:
        return str(error)
    if login is None:
        return "none"
    return "ended; it is refreshed when it is used" if login.ended else "kept"


def _named(place: Place, name: str) -> ServerSpec:
    found = next((one for one in place.servers.servers if one.name == name), None)
    if found is None:
        known = ", ".join(one.name for one in place.servers.servers) or "none"
        said = "".join(f"; {one}" for one in (*place.servers.problems, *place.servers.warnings))
        raise UnknownName(f"there is no MCP server {name!r}; there are: {known}{said}")
    return found


async def check_servers(names: Sequence[str] = (), cwd: str = ".") -> list[ServerReport]:
    """Start servers, all or those that are named, and say what each has.

    Raises UsageError if there is none of a name.
    """
    place = look_around(Options(cwd=cwd))
    specs = [_named(place, name) for name in names] or [*place.servers.servers]
    reports: list[ServerReport] = []
    async with anyio.create_task_group() as group:
        servers = await open_servers(specs, group, reach_of(place))
        reports += [report_on(server) for server in servers.servers]
        await servers.aclose()
    return reports


def add_server(name: str, value: dict[str, Any], scope: str, cwd: str = ".") -> list[str]:
    """Keep a server; gives what to say of it.

    Raises UsageError if it cannot be one, ConfigError if its file cannot be changed.
    """
    file, place = _file(scope, cwd)
    spec = file.add(name, value)
    lines = [f"added {name} ({_configured(spec).transport}) to {file.path}"]
    if scope == "project" and not place.trusted:
        lines.append("the folder is not trusted, so it does not run yet; run: prong trust")
    return lines


def remove_server(name: str, scope: str | None, cwd: str = ".") -> str:
    """Take a server out of the scope that is given, or of the only one that has it.

    Raises UsageError if it is nowhere, or in several.
    """
    if scope is None:
        files = [file for file, _ in (_file(one, cwd) for one in SCOPES) if name in file.names()]
        if len(files) > 1:
            listed = ", ".join(file.scope for file in files)
            raise NotPossibleNow(f"{name!r} is in several scopes ({listed}); say which: --scope")
        if not files:
            place = look_around(Options(cwd=cwd))
            spec = _named(place, name)
            raise NotPossibleNow(f"{name!r} stands in {spec.path}, which Prong does not change")
        (file,) = files
    else:
        file, _ = _file(scope, cwd)
    file.remove(name)
    return f"removed {name} from {file.path}"


def _file(scope: str, cwd: str) -> tuple[ServerFile, Place]:
    if scope not in SCOPES:
        raise BadInput(f"there is no scope {scope!r}; the scopes are {', '.join(SCOPES)}")
    place = look_around(Options(cwd=cwd))
    return ServerFile(place.home, place.root, scope), place


async def log_in_at(name: str, show: Callable[[str], None], *, browse: bool, cwd: str = ".") -> str:
    """Log in at a server; gives what came of it.

    Raises UsageError if that is not possible.
    """
    from prong.session.mcp_login import log_in

    place = look_around(Options(cwd=cwd))
    return await log_in(_named(place, name), reach_of(place), show, browse=browse)


def log_out_of(name: str, cwd: str = ".") -> str:
    """Forget the login at a server; gives what came of it.

    Raises UsageError if there is no such server.
    """
    from prong.session.mcp_login import log_out

    place = look_around(Options(cwd=cwd))
    return log_out(_named(place, name), reach_of(place))
