"""Which folders the user trusts to bring their own hooks, servers, agents and rules."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import cast

import msgspec

from prong.config.document import Document, read_document
from prong.errors import ConfigError
from prong.host import make_private
from prong.system.descriptor import sync


class _Decisions(msgspec.Struct, frozen=True):
    """What the file holds."""

    folders: dict[str, bool] = {}
    rules: dict[str, tuple[str, ...]] = {}
    """Rules in local settings that the user has put there, by folder."""


class Trust(msgspec.Struct, frozen=True):
    """The user's decisions, kept in `~/.prong/trust.json`; the nearest folder above decides."""

    home: str

    @property
    def path(self) -> Path:
        """Where the decisions are kept."""
        return Path(self.home) / ".prong/trust.json"

    def is_trusted(self, path: str) -> bool:
        """Say whether a folder, or the nearest one above it with a decision, is trusted.

        A file that cannot be read trusts nothing; `problem` says what is wrong with it.
        """
        try:
            return self.decision(path) or False
        except ConfigError:
            return False

    def decision(self, path: str) -> bool | None:
        """Give the user's decision on a folder or the nearest one above it; None if there is none.

        Raises ConfigError if the file of decisions is damaged.
        """
        decisions = self._read().folders
        place = Path(path).resolve()
        for folder in (place, *place.parents):
            if (decision := decisions.get(str(folder))) is not None:
                return decision
        return None

    def problem(self) -> ConfigError | None:
        """Say what is wrong with the file, if anything."""
        try:
            self._read()
        except ConfigError as error:
            return error
        return None

    def trust(self, path: str) -> None:
        """Trust a folder and all below it.

        Raises ConfigError if the file of decisions is damaged: it is not overwritten.
        """
        self._decide(path, trusted=True)

    def distrust(self, path: str) -> None:
        """Take trust back from a folder and all below it, even if one above is trusted.

        Raises ConfigError if the file of decisions is damaged: it is not overwritten.
        """
        self._decide(path, trusted=False)

    def vouched(self, path: str) -> frozenset[str]:
        """Give the rules that the user has kept for a folder themselves, trusted or not.

        A file that cannot be read vouches for none.
        """
        try:
            kept = self._read().rules.get(str(Path(path).resolve()), ())
        except ConfigError:
            return frozenset()
        return frozenset(kept)

    def vouch(self, path: str, rules: Sequence[str]) -> None:
        """Take note that rules in a folder's local settings are the user's own.

        Raises ConfigError if the file of decisions is damaged: it is not overwritten.
        """
        self._change(partial(_vouch, str(Path(path).resolve()), tuple(rules)))

    def _read(self) -> _Decisions:
        document = read_document(self.path)
        if isinstance(document, ConfigError):
            raise document
        if document is None:
            return _Decisions()
        return _Decisions(_folders(document), _rules(document))

    def _decide(self, path: str, *, trusted: bool) -> None:
        self._change(partial(_decide, Path(path).resolve(), trusted=trusted))

    def _change(self, change: Callable[[_Decisions], _Decisions]) -> None:
        from filelock import FileLock, Timeout

        try:
            make_private(self.path.parent)
            with FileLock(f"{self.path}.lock", timeout=10):
                self._write(change(self._read()))
        except Timeout as error:
            raise ConfigError(self.path, "another process holds it; try again") from error
        except OSError as error:
            why = f"cannot be written ({error.strerror}), so nothing was decided"
            raise ConfigError(self.path, why) from error

    def _write(self, decisions: _Decisions) -> None:
        ordered: dict[str, object] = {"folders": dict(sorted(decisions.folders.items()))}
        if decisions.rules:
            ordered["rules"] = dict(sorted(decisions.rules.items()))
        data = msgspec.json.format(msgspec.json.encode(ordered)) + b"\n"
        fresh = self.path.with_suffix(f".{os.getpid()}.tmp")
        with fresh.open("wb") as file:
            file.write(data)
            file.flush()
            sync(file.fileno())
        fresh.replace(self.path)


def _decide(place: Path, before: _Decisions, *, trusted: bool) -> _Decisions:
    """Decide about a folder: that replaces what was decided about what is in it."""

    def stays(folder: str) -> bool:
        return not Path(folder).is_relative_to(place)

    folders = {name: one for name, one in before.folders.items() if stays(name)}
    rules = {name: one for name, one in before.rules.items() if trusted or stays(name)}
    return _Decisions({**folders, str(place): trusted}, rules)


def _vouch(folder: str, rules: tuple[str, ...], before: _Decisions) -> _Decisions:
    kept = tuple(dict.fromkeys((*before.rules.get(folder, ()), *rules)))
    return _Decisions(before.folders, {**before.rules, folder: kept})


def _folders(document: Document) -> dict[str, bool]:
    found = _object(document, "folders")
    for folder, decision in found.items():
        if not isinstance(decision, bool):
            why = "a folder's trust must be true or false"
            raise document.problem(why, "folders", folder)
    return cast("dict[str, bool]", found)


def _rules(document: Document) -> dict[str, tuple[str, ...]]:
    found = _object(document, "rules")
    try:
        return msgspec.convert(found, dict[str, tuple[str, ...]])
    except msgspec.ValidationError as error:
        raise document.problem("a folder's rules must be a list of texts", "rules") from error


def _object(document: Document, key: str) -> dict[str, object]:
    found = document.value.get(key, {})
    if not isinstance(found, dict):
        raise document.problem(f"'{key}' must be an object", key)
    return cast("dict[str, object]", found)


def needs_trust(home: str, root: str) -> list[str]:
    """List what a folder wants to run or widen, one line each, for the question to the user.

    Raises ConfigError if a file of settings cannot be read: nobody could say what it wants.
    """
    from prong.config.listing import list_files
    from prong.config.server import parse_servers
    from prong.config.server_file import project_documents
    from prong.config.setting import load_settings
    from prong.config.skill_search import project_skill_grants

    settings = load_settings(home, root, trusted=False, vouched=Trust(home).vouched(root))
    if settings.fatal:
        raise settings.fatal[0]
    wants = list(settings.withheld)
    for document in project_documents(root):
        servers, _ = parse_servers(document, None)
        wants += [f"server {server.name} runs {server.summary}" for server in servers]
    for kind in (".prong", ".claude", ".agents"):
        listed = list_files(Path(root) / kind / "agents", suffix=".md")
        wants += [_agent_wants(file, root) for file in listed.paths]
    wants += project_skill_grants(home, root)
    return wants


def _agent_wants(file: Path, root: str) -> str:
    """Name an agent's file, and what would be run for it."""
    from prong.config.agent_file import read_agent_file
    from prong.config.document import read_text
    from prong.config.type_server import type_servers

    named = f"agent {file.relative_to(root)}"
    text = read_text(file)
    try:
        kind = read_agent_file(file, text, "project").kind if isinstance(text, str) else None
    except ConfigError:
        return named
    servers = type_servers(kind) if kind is not None else []
    hooks = kind.hooks if kind is not None else ()
    runs = [f"whose server {server.name} runs {server.summary}" for server in servers]
    runs += [f"whose hook {hook.event} runs {hook.line}" for hook in hooks]
    return ", ".join([named, *runs])
