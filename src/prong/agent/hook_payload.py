"""What hooks are told of a call: its input, and what it gave, in the form that they know.

Scripts that people have read an object of a tool's own in `tool_response`; what the model was told
stands beside it, as text, for every tool alike.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast

import msgspec

from prong.agent.agent import Agent
from prong.entry import Call, plain
from prong.system.path_form import is_absolute
from prong.tools.filter import is_mcp
from prong.tools.tool import CallOutcome, Failed

_PATHS = ("file_path", "notebook_path")


def call_payload(agent: Agent, call: Call) -> dict[str, Any]:
    """Give what hooks are told of a call: paths of files in it are absolute."""
    raw = call.arguments.encode() or b"{}"
    given = msgspec.json.decode(raw)
    if isinstance(given, dict):
        whole = cast("dict[str, Any]", given)
        folder = agent.context.host.root
        longer = {
            name: os.path.join(folder, os.path.expanduser(path))  # noqa: PTH111, PTH118 - strings
            for name in _PATHS
            if isinstance(path := whole.get(name), str) and not is_absolute(path)
        }
        raw = msgspec.json.encode(whole | longer) if longer else raw
    return {"tool_name": call.name, "tool_input": msgspec.Raw(raw), "tool_use_id": call.id}


def outcome_payload(
    outcome: CallOutcome, seconds: float, *, interrupted: bool = False
) -> dict[str, Any]:
    """Give what hooks are told of what a call has given, as the model reads it."""
    told: dict[str, Any] = {"duration_ms": round(seconds * 1000)}
    if isinstance(outcome, Failed):
        return told | {"error": outcome.why, "is_interrupt": interrupted}
    return told | {"tool_text": plain(outcome.parts)}


_ResponseForm: TypeAlias = Callable[[Mapping[str, Any], str], Any]


def tool_response(payload: Mapping[str, Any]) -> Any:
    """Put what a call has given into the form that hooks know of its tool.

    It is made where hooks are run, if there are any: a long text takes a while to be read.
    """
    name, given, text = (
        _plain(payload.get(key)) for key in ("tool_name", "tool_input", "tool_text")
    )
    text = text if isinstance(text, str) else ""
    if isinstance(name, str) and is_mcp(name):
        return [{"type": "text", "text": text}]
    form = _FORMS.get(str(name))
    if form is None or not isinstance(given, dict):
        return {"content": [{"type": "text", "text": text}]}
    return form(cast("dict[str, Any]", given), text)


def _plain(value: object) -> object:
    return msgspec.json.decode(value) if isinstance(value, msgspec.Raw) else value


def _command(given: Mapping[str, Any], text: str) -> Any:
    del given
    printed = "" if text == "(no output)" else text
    return {"stdout": printed, "stderr": "", "interrupted": False, "isImage": False}


def _read(given: Mapping[str, Any], text: str) -> Any:
    lines = [found[1] for line in text.split("\n") if (found := re.fullmatch(r" *\d+\t(.*)", line))]
    return {
        "type": "text",
        "file": {
            "filePath": given.get("file_path", ""),
            "content": "\n".join(lines) if lines else text,
            "numLines": len(lines),
            "startLine": given.get("offset") or 1,
        },
    }


def _written(given: Mapping[str, Any], text: str) -> Any:
    kind = "create" if text.startswith("made ") else "update"
    path, content = given.get("file_path", ""), given.get("content", "")
    return {"type": kind, "filePath": path, "content": content, "success": True}


def _edited(given: Mapping[str, Any], text: str) -> Any:
    del text
    return {
        "filePath": given.get("file_path", ""),
        "oldString": given.get("old_string", ""),
        "newString": given.get("new_string", ""),
        "replaceAll": bool(given.get("replace_all")),
        "success": True,
    }


def _found(given: Mapping[str, Any], text: str) -> Any:
    lines = [line for line in text.split("\n") if line and not line.startswith("[")]
    names = {"filenames": lines, "numFiles": len(lines), "content": text}
    return names | ({"mode": given["output_mode"]} if "output_mode" in given else {})


def _delegated(given: Mapping[str, Any], text: str) -> Any:
    status = "async_launched" if given.get("run_in_background") else "completed"
    prompt = given.get("prompt", "")
    return {"status": status, "prompt": prompt, "content": [{"type": "text", "text": text}]}


_FORMS: dict[str, _ResponseForm] = {
    "Bash": _command,
    "Read": _read,
    "Write": _written,
    "Edit": _edited,
    "Glob": _found,
    "Grep": _found,
    "Agent": _delegated,
}
