"""The protocol's own JSON schema, read from the official package where that is installed."""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

SDK = Path(sys.prefix) / "editors/node_modules/@agentclientprotocol/sdk"
"""Where `make test` installs the official package for node."""
SCHEMA = SDK / "schema/v1/schema.unstable.json"


@cache
def _schema() -> dict[str, Any]:
    return json.loads(SCHEMA.read_text("utf-8"))


@cache
def _names() -> dict[tuple[str, str], str]:
    """Give the type of each method's parameters and of its result."""
    found: dict[tuple[str, str], str] = {}
    for name, one in _schema()["$defs"].items():
        if method := one.get("x-method"):
            found[method, "result" if name.endswith("Response") else "params"] = name
    return found


@cache
def _checks(name: str) -> Draft202012Validator:
    return Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": _schema()["$defs"]})


class LineCheck:
    """Holds both directions of a conversation against the schema, line by line."""

    def __init__(self) -> None:
        self._asked: dict[tuple[str, Any], str] = {}
        self.problems: list[str] = []
        self.checked = 0

    def take(self, side: str, line: dict[str, Any]) -> None:
        """Check a line of one side, `editor` or `agent`."""
        if not SCHEMA.exists():
            return
        other = "agent" if side == "editor" else "editor"
        if method := line.get("method"):
            if "id" in line:
                self._asked[side, line["id"]] = method
            self._check(method, "params", line.get("params", {}))
        elif "error" in line:
            self._against("Error", line["error"])
        elif asked := self._asked.get((other, line.get("id"))):
            self._check(asked, "result", line["result"])
        else:
            self.problems.append(f"an answer to nothing: {line}")
        if line.get("jsonrpc") != "2.0":
            self.problems.append(f"no JSON-RPC: {line}")

    def _check(self, method: str, what: str, value: Any) -> None:
        name = _names().get((method, what))
        if name is None:
            self.problems.append(f"{method} has no {what} in the schema")
        else:
            self._against(name, value)

    def _against(self, name: str, value: Any) -> None:
        self.checked += 1
        self.problems += [
            f"{name}: {error.json_path}: {error.message[:300]}"
            for error in _checks(name).iter_errors(value)
        ]
