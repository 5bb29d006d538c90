"""Looks options over before anything is made of them: nothing is left behind by a wrong one."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, cast

import msgspec

from prong.config.function_hook import read_hooks
from prong.config.option import Options
from prong.config.setting import SOURCES
from prong.config.tool_choice import read_tools
from prong.config.type_option import read_types
from prong.errors import BadInput
from prong.tools.schema import schema

_KINDS = {
    "array": "a list of texts",
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "object": "a mapping",
    "null": "",
}
_ANY = frozenset({"agents", "env", "extra", "hooks", "tools"})
"""Options that may hold what JSON does not know, or are checked elsewhere."""
_TEXTS = tuple[str, ...]
_READ: dict[str, Any] = {
    "cwd": str,
    "store": str | None,
    "allow": _TEXTS,
    "ask": _TEXTS,
    "deny": _TEXTS,
    "add_dirs": _TEXTS,
    "betas": _TEXTS,
    "setting_sources": _TEXTS | None,
    "plugin_dirs": _TEXTS,
    "settings": str | None,
    "mcp_config": _TEXTS,
    "json_schema": str | None,
}
"""Options that may be given in several forms, as they are once they have been looked over."""
_FLAGS = {
    "max_usd": "--max-budget-usd",
    "max_output": "--max-output-tokens",
    "add_dirs": "--add-dir",
    "plugin_dirs": "--plugin-dir",
}


def checked(options: Options) -> Options:
    """Give the options as they were meant, lists as tuples and paths as texts.

    Raises UsageError, with the option's name, if one cannot be obeyed.
    """
    options = _typed(options)
    _check_session(options)
    _check_bounds(options)
    for folder in options.add_dirs:
        place = os.path.join(options.cwd, os.path.expanduser(folder))  # noqa: PTH111, PTH118 - any word
        if not os.path.isdir(place):  # noqa: PTH112 - likewise
            raise BadInput(f"--add-dir {folder!r} is not a folder; make it, or leave it out")
    return options


def _typed(options: Options) -> Options:
    given = {name: _plain(name, getattr(options, name)) for name in options.__struct_fields__}
    try:
        typed = msgspec.convert(given, _plain_options())
    except msgspec.ValidationError as error:
        raise BadInput(_said(str(error))) from error
    read = msgspec.structs.asdict(typed)
    tools = read_tools(options.tools)
    functions = [one for one in tools or () if not isinstance(one, str)]
    return msgspec.structs.replace(
        options,
        **read,
        tools=tools,
        hooks=read_hooks(options.hooks),
        agents=read_types(options.agents, functions),
    )


@cache
def _plain_options() -> type[msgspec.Struct]:
    """Make the type of those options that JSON could say."""
    fields = msgspec.structs.fields(Options)
    return msgspec.defstruct(
        "Options", [(f.name, _READ.get(f.name, f.type)) for f in fields if f.name not in _ANY]
    )


def _plain(name: str, value: Any) -> Any:
    """Give paths as texts; and what files hold, or could, as the JSON that stands in them."""
    if isinstance(value, os.PathLike):
        return os.fspath(cast("os.PathLike[str]", value))
    if name == "json_schema" and isinstance(value, type):
        return _schema_of(cast("type[object]", value))
    if name in ("settings", "json_schema", "mcp_config") and isinstance(value, Mapping):
        text = _as_json(name, cast("Mapping[str, Any]", value))
        return [text] if name == "mcp_config" else text
    if name in ("mcp_config", "add_dirs", "plugin_dirs") and isinstance(value, list | tuple):
        return [_item(name, one) for one in cast("Sequence[object]", value)]
    return value


def _item(name: str, one: object) -> object:
    if isinstance(one, Mapping):
        return _as_json(name, cast("Mapping[str, Any]", one))
    return _plain("", one)


def _as_json(name: str, value: Mapping[str, Any]) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, RecursionError) as error:
        hint = "; functions that are hooks go into hooks=[...]" if name == "settings" else ""
        raise BadInput(f"the option {name} holds what JSON cannot say: {error}{hint}") from error


def _schema_of(kind: type[object]) -> str:
    try:
        return schema(kind).decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise BadInput(f"the option json_schema is a type of no schema: {error}") from error


def _said(why: str) -> str:
    """Say in plain words what is wrong, without the value: it may be a secret."""
    place = re.search(r"at `\$\.(\w+)(\S*)`", why)
    kinds = re.search(r"Expected `([^`]+)`", why)
    name, inside = (place[1], place[2]) if place else ("", "")
    if name == "cache_ttl":
        return "the option cache_ttl must be 5m or 1h (OpenAI: 30m or 12h)"
    if kinds is None:
        return f"the option {name} is wrong: {why}"
    named = [_KINDS.get(kind.strip(), kind.strip()) for kind in kinds[1].split("|")]
    wanted = " or ".join(kind for kind in named if kind)
    if inside:
        return f"each item of the option {name} must be {wanted}"
    hint = f"; write {name}=[...]" if wanted.startswith("a list") else ""
    return f"the option {name} must be {wanted}{hint}"


def _check_session(options: Options) -> None:
    """Refuse options that cannot be obeyed together."""
    resumes = options.resume is not None or options.continue_last
    if options.resume is not None and options.continue_last:
        raise BadInput("--resume names a session and --continue means the last; give one")
    if options.fork_session and not resumes:
        raise BadInput("--fork-session copies a session: say which with --resume or --continue")
    if resumes and not options.persist and not options.fork_session:
        raise BadInput("a resumed session is kept; add --fork-session for a copy that is not")
    if options.worktree is not None and resumes:
        raise BadInput("a resumed session stays in its folder; leave out --worktree")
    if options.agent is not None and options.coordinator:
        raise BadInput("--coordinator is a role of its own; leave out --agent")
    wrong = [name for name in options.setting_sources or () if name not in SOURCES]
    if wrong:
        raise BadInput(
            f"--setting-sources: there is no source {wrong[0]!r}; they are user, project and local"
        )
    if options.bare and options.memory:
        raise BadInput("--bare reads nothing but the folder, notes neither; give no --memory on")
    if options.session_id is not None and resumes and not options.fork_session:
        raise BadInput("a resumed session keeps its id; add --fork-session for a copy of that id")


def _check_bounds(options: Options) -> None:
    for name in ("max_turns", "max_tokens", "max_output", "context_tokens"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise BadInput(f"{_flag(name)} is {value}; it must be above 0, or be left out")
    usd = options.max_usd
    if usd is not None and not (math.isfinite(usd) and usd >= 0):
        raise BadInput(f"--max-budget-usd is {usd:g}; it must be an amount, not below 0")
    if options.seed is not None and options.seed < 0:
        raise BadInput(f"--seed is {options.seed}; it must not be below 0")
    share = options.compact_at
    if share is not None and not 0 <= share <= 1:
        raise BadInput(f"compact_at is {share:g}; it must be a share from 0 (never) to 1")


def _flag(name: str) -> str:
    return _FLAGS.get(name, f"--{name.replace('_', '-')}")
