"""The option `agents`: types of agents as values, as a mapping, or as the JSON of the flag."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, cast

import msgspec
from msgspec.structs import replace

from prong.agent.spec import RESERVED, AgentType
from prong.config.document import parse_document
from prong.config.front import Front
from prong.config.function_hook import read_hooks
from prong.config.slip import check_rule
from prong.errors import BadInput, ConfigError
from prong.host.target import read_isolation
from prong.tools import filter as tool_filter
from prong.tools.function import AnyFunctionTool, as_tool

NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"

_Words = Annotated[str, msgspec.Meta(min_length=1)]


class _GivenType(msgspec.Struct, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A type as `--agents` gives it."""

    description: _Words
    prompt: _Words
    tools: list[str] | str | None = None
    disallowed_tools: list[str] | str = ""
    model: str = ""
    permission_mode: Literal[
        "default", "acceptEdits", "plan", "auto", "dontAsk", "bypassPermissions", "bubble"
    ] = "acceptEdits"
    max_turns: Annotated[int, msgspec.Meta(gt=0)] | None = None
    skills: list[str] | str = ""
    mcp_servers: list[str] | dict[str, Any] | str | None = None
    servers: dict[str, Any] = {}
    background: bool = False
    effort: str = ""
    isolation: str = ""
    initial_prompt: str = ""
    omit_instructions: bool = False


def read_types(given: object, functions: Iterable[AnyFunctionTool] = ()) -> tuple[AgentType, ...]:
    """Read the option; a model that none names is empty.

    Functions among the tools of a type are made tools. They may not be called like others of the
    session, since rules speak of all by their names; `functions` are the session's.

    Raises BadInput if a type is not as it must be, or two have one name.
    """
    if given is None:
        return ()
    if isinstance(given, str):
        document = parse_document("--agents", given)
        if isinstance(document, ConfigError):
            raise BadInput(str(document))
        return tuple(_mapped("--agents", document.value))
    if isinstance(given, Mapping):
        return tuple(_mapped("agents", cast("Mapping[object, object]", given)))
    if not isinstance(given, Sequence):
        raise BadInput("the option agents must be a list of AgentType; write agents=[...]")
    known = {tool.name: tool for tool in functions}
    kinds = tuple(_checked(one, known) for one in cast("Sequence[object]", given))
    names = [kind.name for kind in kinds]
    for name in names:
        if names.count(name) > 1:
            raise BadInput(f"agents: two types are called {name!r}")
    return kinds


def check_name(name: str, path: str, line: int | None) -> None:
    """Demand that a type may be called so.

    Raises ConfigError.
    """
    if not re.fullmatch(NAME, name):
        why = f"name {name!r} may have letters, digits, '-', '_' and '.' only, 64 at most"
        raise ConfigError(path, why, line=line)
    if name.lower() in RESERVED:
        raise ConfigError(path, f"the name {name!r} is taken; choose another", line=line)


def unkept(deny: Sequence[str]) -> list[str]:
    """Say which uses a type forbids by words that forbid nothing, such as `bash(rm:*)`."""
    found = [check_rule(text, "deny", foreign=True) for text in tool_filter.denied_uses(deny)]
    return [one.why for one in found if one is not None and not one.harmless]


def _mapped(path: str, value: Mapping[Any, object]) -> Iterator[AgentType]:
    for name, one in value.items():
        yield _made(path, name, one, source="flag", path=path)


def _made(where: str, name: object, value: object, **more: Any) -> AgentType:
    """Make a type from what it is given as: a mapping, or a type whose fields are to be checked."""
    try:
        if not isinstance(name, str):
            raise BadInput(f"{where}: the name {name!r} is not a text")
        check_name(name, where, None)
        given = msgspec.convert(value, _GivenType, from_attributes=True)
    except msgspec.ValidationError as error:
        raise BadInput(f"{where}: {name}: {error}") from error
    except ConfigError as error:
        raise BadInput(str(error)) from error
    try:
        read_isolation(given.isolation)
    except BadInput as error:
        raise BadInput(f"{where}: {name}: {error}") from error
    tools, servers = given.tools, given.mcp_servers
    allow = None if tools is None else _listed(tools)
    deny = _listed(given.disallowed_tools)
    if wrong := [*tool_filter.problems((*(allow or ()), *deny)), *unkept(deny)]:
        raise BadInput(f"{where}: {name}: {wrong[0]}")
    own = {**given.servers, **(servers if isinstance(servers, dict) else {})}
    fields: dict[str, Any] = msgspec.structs.asdict(given) | {
        "tools": allow,
        "disallowed_tools": deny,
        "skills": _listed(given.skills),
        "mcp_servers": _server_names(servers, own),
        "servers": own,
    }
    return AgentType(name=name, **fields, **more)


def _server_names(
    servers: list[str] | dict[str, Any] | str | None, own: Mapping[str, Any]
) -> tuple[str, ...] | None:
    """Name the servers a type may use: those it names, and those it brings itself."""
    if servers is None:
        return None
    named = () if isinstance(servers, dict) else _listed(servers)
    return tuple(dict.fromkeys((*named, *own)))


def _checked(kind: object, known: dict[str, AnyFunctionTool]) -> AgentType:
    """Look a type over that was given as a value; its functions join those that are known."""
    if not isinstance(kind, AgentType):
        raise BadInput("each item of the option agents must be an AgentType")
    tools: object = kind.tools
    listed = tools if isinstance(tools, Sequence) and not isinstance(tools, str) else ()
    functions = [_known(as_tool(one), known) for one in listed if callable(one)]
    names = [one for one in listed if not callable(one)]
    bare = replace(kind, tools=names if listed else kind.tools)
    hooks = read_hooks(kind.hooks, of=f"the hooks of the type {kind.name}")
    source = kind.source if kind.custom else "program"
    made = _made("agents", kind.name, bare, hooks=hooks, source=source, path=kind.path)
    return replace(made, tools=(*(made.tools or ()), *functions)) if functions else made


def _known(tool: AnyFunctionTool, known: dict[str, AnyFunctionTool]) -> AnyFunctionTool:
    for other in known.values():
        if tool_filter.is_same(tool.name, other.name):
            if tool is not other and tool.__wrapped__ != other.__wrapped__:
                raise BadInput(
                    f"two functions are called {tool.name!r}; choose another with name=..."
                )
            return other
    return known.setdefault(tool.name, tool)


def _listed(value: list[str] | str) -> tuple[str, ...]:
    return Front({"it": value if isinstance(value, str) else tuple(value)}, "", {}).list("it")
