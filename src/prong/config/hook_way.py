"""Hooks that run no command: they tell an address, ask a model, or call a tool of a server."""

from __future__ import annotations

import re
from typing import Any, TypeAlias, cast

import msgspec

from prong.errors import UsageError
from prong.provider import read_url

HookFault: TypeAlias = tuple[str, str]
"""Why a hook cannot be honoured, and the key that says so."""

_COMMON = frozenset({"type", "timeout", "if", "statusMessage", "description", "once"})
_KEYS = {
    "http": _COMMON | {"url", "headers", "allowedEnvVars"},
    "prompt": _COMMON | {"prompt", "model", "continueOnBlock"},
    "mcp_tool": _COMMON | {"server", "tool", "input"},
}
WAYS = frozenset(_KEYS)
"""Types of hooks beside commands."""
_JUDGED = frozenset(
    {"PreToolUse", "PermissionRequest", "PostToolUse", "PostToolUseFailure", "UserPromptSubmit"}
    | {"Stop", "SubagentStop"}
)
"""Events that a model can be asked about: each has something to be let happen."""
_OURS = frozenset({"host", "content-length", "content-type", "transfer-encoding", "connection"})
"""Headers that are not the user's to set."""
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_PART = re.compile(r"\$\{([\w.]+)\}")
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


class HookPost(msgspec.Struct, frozen=True):
    """An address that is told of the event, and answers."""

    url: str
    headers: tuple[tuple[str, str], ...] = ()
    variables: tuple[str, ...] = ()
    """Those of the environment that may stand in a header."""

    def filled(self, env: dict[str, str]) -> tuple[tuple[str, str], ...]:
        """Give the headers with what variables hold; of one that is not allowed, nothing."""

        def value(found: re.Match[str]) -> str:
            name = found[1] or found[2]
            # No variable can begin another header.
            return " ".join(env.get(name, "").split()) if name in self.variables else ""

        return tuple((name.lower(), _VARIABLE.sub(value, text)) for name, text in self.headers)


class HookQuestion(msgspec.Struct, frozen=True):
    """A question to a model, beside the conversation."""

    prompt: str
    model: str = ""
    """Empty for a small one."""
    goes_on: bool = False
    """Whether the turn goes on where the answer is no."""


class HookTool(msgspec.Struct, frozen=True):
    """A tool of an MCP server, whose text is what a command would print."""

    server: str
    tool: str
    input: str = "{}"
    """Its arguments as JSON; in texts, `${path}` stands for a part of the event."""

    def filled(self, told: bytes) -> dict[str, Any]:
        """Give the arguments with what the event holds; of a part that is not there, nothing."""
        event = msgspec.json.decode(told)
        return {name: _put(value, event) for name, value in msgspec.json.decode(self.input).items()}


def _put(value: Any, event: Any) -> Any:
    if isinstance(value, list):
        return [_put(one, event) for one in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {name: _put(one, event) for name, one in cast("dict[str, Any]", value).items()}
    if not isinstance(value, str):
        return value
    return _PART.sub(lambda found: _part(event, found[1]), value)


def _part(event: Any, path: str) -> str:
    for step in path.split("."):
        event = cast("dict[str, Any]", event).get(step) if isinstance(event, dict) else None
    if event is None:
        return ""
    return event if isinstance(event, str) else msgspec.json.encode(event).decode()


HookWay: TypeAlias = HookPost | HookQuestion | HookTool


def way_fault(event: str, entry: dict[str, object]) -> HookFault | None:
    """Say why such a hook cannot be honoured as it is written, and which key says so."""
    kind = str(entry["type"])
    for key, value in entry.items():
        if key not in _KEYS[kind] or (key == "once" and value is not False):
            told = msgspec.json.encode(value).decode()
            return f"{key!r}: {told} of a hook of type {kind!r} is not supported", key
    match kind:
        case "http":
            return _post_fault(entry)
        case "prompt":
            return _question_fault(event, entry)
        case _:
            return _tool_fault(entry)


def read_way(entry: dict[str, object]) -> HookWay | None:
    """Read what such a hook does; None of one that runs a command. It was looked over."""
    match entry.get("type"):
        case "http":
            headers = cast("dict[str, str]", entry.get("headers", {}))
            allowed = cast("list[str]", entry.get("allowedEnvVars", []))
            return HookPost(str(entry["url"]).strip(), tuple(headers.items()), tuple(allowed))
        case "prompt":
            return HookQuestion(
                str(entry["prompt"]),
                str(entry.get("model") or ""),
                goes_on=entry.get("continueOnBlock") is True,
            )
        case "mcp_tool":
            given = msgspec.json.encode(entry.get("input", {}), order="deterministic").decode()
            return HookTool(str(entry["server"]), str(entry["tool"]), given)
        case _:
            return None


def _tool_fault(entry: dict[str, object]) -> HookFault | None:
    for key in ("server", "tool"):
        if not isinstance(name := entry.get(key), str) or not name.strip():
            return f"a hook of type 'mcp_tool' must have a '{key}'", ""
    if not isinstance(entry.get("input", {}), dict):
        return "'input' must be an object", "input"
    return None


def _post_fault(entry: dict[str, object]) -> HookFault | None:
    url, headers = entry.get("url"), entry.get("headers", {})
    if not isinstance(url, str):
        return "a hook of type 'http' must have a 'url'", ""
    try:
        read_url(url.strip())
    except UsageError as error:
        return f"'url': {error}", "url"
    allowed = entry.get("allowedEnvVars", [])
    if not isinstance(allowed, list) or not all(
        isinstance(one, str) for one in cast("list[object]", allowed)
    ):
        return "'allowedEnvVars' must be a list of texts", "allowedEnvVars"
    if not isinstance(headers, dict):
        return "'headers' must be an object of texts", "headers"
    for name, value in cast("dict[str, object]", headers).items():
        if not isinstance(value, str) or any(sign in value for sign in "\r\n\0"):
            return f"the header {name!r} must be a text of one line", "headers"
        if not _NAME.fullmatch(name) or name.lower() in _OURS:
            return f"the header {name!r} cannot be set", "headers"
    return None


def _question_fault(event: str, entry: dict[str, object]) -> HookFault | None:
    prompt, model = entry.get("prompt"), entry.get("model", "")
    if event not in _JUDGED:
        return f"a model cannot be asked about {event}; use 'command' or 'http'", "type"
    if not isinstance(prompt, str) or not prompt.strip():
        return "a hook of type 'prompt' must have a 'prompt'", ""
    if not isinstance(model, str):
        return "'model' must be a text", "model"
    if not isinstance(entry.get("continueOnBlock", False), bool):
        return "'continueOnBlock' must be true or false", "continueOnBlock"
    return None
