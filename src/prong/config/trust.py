"""Which folders the user trusts to bring their own hooks, servers, agents and rules."""

from __future__ import annotations

import os
from pathlib import Path
from typing import cast

import msgspec

from prong.config.document import read_document
from prong.errors import ConfigError
from prong.host import make_private


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
        decisions = self._read()
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

    def _read(self) -> dict[str, bool]:
        document = read_document(self.path)
        if isinstance(document, ConfigError):
            raise document
        if document is None:
            return {}
        folders = document.value.get("folders", {})
        if not isinstance(folders, dict):
            raise document.problem("'folders' must be an object", "folders")
        pairs = cast("dict[str, object]", folders)
        for folder, decision in pairs.items():
            if not isinstance(decision, bool):
                why = "a folder's trust must be true or false"
                raise document.problem(why, "folders", folder)
        return cast("dict[str, bool]", pairs)

    def _decide(self, path: str, *, trusted: bool) -> None:
        from filelock import FileLock, Timeout

        place = Path(path).resolve()
        try:
            make_private(self.path.parent)
            with FileLock(f"{self.path}.lock", timeout=10):
                self._write(place, trusted=trusted)
        except Timeout as error:
            raise ConfigError(self.path, "another process holds it; try again") from error
        except OSError as error:
            why = f"cannot be written ({error.strerror}), so nothing was decided"
            raise ConfigError(self.path, why) from error

    def _write(self, place: Path, *, trusted: bool) -> None:
        decisions = {
            folder: decision
            for folder, decision in self._read().items()
            # A decision about a folder replaces those about what is in it.
            if not Path(folder).is_relative_to(place)
        }
        decisions[str(place)] = trusted
        ordered = {"folders": dict(sorted(decisions.items()))}
        data = msgspec.json.format(msgspec.json.encode(ordered)) + b"\n"
        fresh = self.path.with_suffix(f".{os.getpid()}.tmp")
        with fresh.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self.path)


def needs_trust(home: str, root: str) -> list[str]:
    """List what a folder wants to run or widen, one line each, for the question to the user.

    Raises ConfigError if a file of settings cannot be read: nobody could say what it wants.
    """
    from prong.config.listing import list_files
    from prong.config.server import PROJECT_FILE, read_servers
    from prong.config.setting import load_settings
    from prong.config.skill_search import project_skill_grants

    settings = load_settings(home, root, trusted=False)
    if settings.fatal:
        raise settings.fatal[0]
    wants = list(settings.withheld)
    servers, _ = read_servers(Path(root) / PROJECT_FILE, env=None)
    wants += [f"server {server.name} runs {server.summary}" for server in servers]
    for kind in (".prong", ".claude", ".agents"):
        listed = list_files(Path(root) / kind / "agents", suffix=".md")
        wants += [f"agent {file.relative_to(root)}" for file in listed.paths]
    wants += project_skill_grants(home, root)
    return wants
