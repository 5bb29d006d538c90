"""Adds servers to the files that name them, and takes them out; whatever else they hold stays."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

import msgspec

from prong.config.document import parse_document, read_document
from prong.config.server import SECTION, ServerSpec, parse_servers
from prong.config.server_file import PROJECT_FILE, USER_FILE
from prong.errors import BadInput, ConfigError, NotPossibleNow, UnknownName
from prong.host import make_private
from prong.system.descriptor import open_unlinked, sync
from prong.system.path_form import real_path

EditScope: TypeAlias = Literal["local", "project", "user"]
SCOPES: tuple[EditScope, ...] = ("local", "project", "user")
_NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"


class ServerFile(msgspec.Struct, frozen=True):
    """The place where Prong keeps the servers of one scope."""

    home: str
    root: str
    scope: EditScope

    @property
    def path(self) -> Path:
        """The file."""
        if self.scope == "project":
            return Path(self.root) / PROJECT_FILE
        return Path(self.home) / USER_FILE

    @property
    def _steps(self) -> tuple[str, ...]:
        return ("projects", self.root) if self.scope == "local" else ()

    def add(self, name: str, value: dict[str, Any]) -> ServerSpec:
        """Keep a server; gives it as it will be read.

        Raises UsageError if its name cannot be one or is taken, ConfigError if it makes no sense or
        the file cannot be changed: then it is as it was.
        """
        if not re.fullmatch(_NAME, name) or "__" in name:
            raise BadInput(f"{name!r} cannot be a server's name: use letters, digits, - and _")
        text = msgspec.json.encode({SECTION: {name: value}}).decode()
        servers, wrong = parse_servers(parse_document(str(self.path), text), None, scope=self.scope)
        if wrong:
            raise BadInput(wrong[0].why)

        def put(section: dict[str, Any]) -> None:
            if name in section:
                raise NotPossibleNow(
                    f"{self.path} has a server {name!r} already; remove it first: prong mcp remove "
                    f"{name} --scope {self.scope}"
                )
            section[name] = value

        self._change(put)
        return servers[0]

    def remove(self, name: str) -> None:
        """Take a server out.

        Raises UsageError if it is not there, ConfigError if the file cannot be changed.
        """

        def take(section: dict[str, Any]) -> None:
            if name not in section:
                raise UnknownName(f"{self.path} has no server {name!r} of scope {self.scope}")
            del section[name]

        self._change(take)

    def names(self) -> list[str]:
        """Name the servers that stand there."""
        found, _ = parse_servers(read_document(self.path), None, *self._steps)
        return [one.name for one in found]

    def _change(self, change: Callable[[dict[str, Any]], None]) -> None:
        from filelock import FileLock, Timeout

        try:
            if self.scope != "project":
                make_private(self.path.parent)
            with FileLock(Path(self.home) / ".prong" / "mcp.lock", timeout=10):
                document = read_document(self.path)
                if isinstance(document, ConfigError):
                    raise document
                value = {} if document is None else document.value
                change(_section(value, (*self._steps, SECTION), self.path))
                self._write(value)
        except Timeout as error:
            raise ConfigError(self.path, "another process holds it; try again") from error
        except OSError as error:
            why = f"cannot be written ({error.strerror}), so nothing has changed"
            raise ConfigError(self.path, why) from error

    def _write(self, value: dict[str, Any]) -> None:
        path = Path(real_path(self.path))
        mode = path.stat().st_mode & 0o777 if path.exists() else None
        if mode is None:
            mode = 0o644 if self.scope == "project" else 0o600
        fresh = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        number = open_unlinked(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with os.fdopen(number, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")
            file.flush()
            sync(number)
        fresh.replace(path)


def _section(value: dict[str, Any], steps: tuple[str, ...], path: Path) -> dict[str, Any]:
    """Go down to an object, making what is missing."""
    for step in steps:
        inner: object = value.setdefault(step, {})
        if not isinstance(inner, dict):
            raise ConfigError(path, f"{step!r} must be an object; correct it")
        value = cast("dict[str, Any]", inner)
    return value
