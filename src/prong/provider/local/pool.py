"""The embedded engine as a back-end: one process for each model file, shared by all who ask.

Sessions of one event loop share engines too, if these would be started alike; an engine ends with
the last session that uses it. What an engine has to say is said in each session.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, TypeAlias

import anyio
import msgspec
from anyio.lowlevel import RunVar

from prong.provider.backend import Backend, Resources
from prong.provider.local.embedded import Local, Notes
from prong.provider.local.engine_process import Engine, environment
from prong.provider.local.installation import library, weights

_EngineKey: TypeAlias = tuple[Path, frozenset[tuple[str, str]]]
"""The model's file, and the environment of its process."""


class _Shared(msgspec.Struct, eq=False):
    """An engine, and how many sessions use it."""

    engine: Engine
    users: int = 0


_running: RunVar[dict[_EngineKey, _Shared]] = RunVar("_running")
"""Of an event loop, because the lock of an engine belongs to one."""


class Engines(Backend):
    """The engines that a session uses."""

    images: ClassVar[bool] = False

    def __init__(self, resources: Resources) -> None:
        """Start nothing; in the folder computed prefixes outlive the session."""
        super().__init__(resources)
        self._notes: dict[_EngineKey, Notes] = {}

    def connect(self, model: str) -> Local:
        """Make the provider of a model file, or of the bundled one.

        Raises:
            NoSuchModel: there is no such file, or it is not a model.
            UsageError: the engine is not installed.

        """
        name = f"local:{model}" if model else "local"
        path, env, folder = weights(name), self.resources.env, self.resources.folder
        key = (path, frozenset(environment(env, folder).items()))
        engines = _engines()
        shared = engines.get(key)
        if shared is None:
            shared = engines[key] = _Shared(Engine(path, library(), env, folder))
        if key not in self._notes:
            self._notes[key] = Notes()
            shared.users += 1
        return Local(shared.engine, name, notes=self._notes[key])

    async def aclose(self) -> None:
        """Give up all engines; those that nobody else uses end."""
        engines = _engines()
        while self._notes:
            key, _ = self._notes.popitem()
            shared = engines[key]
            shared.users -= 1
            if not shared.users:
                # Whoever comes now starts another: this one is about to end.
                del engines[key]
                await anyio.to_thread.run_sync(shared.engine.close)


def _engines() -> dict[_EngineKey, _Shared]:
    engines = _running.get(None)
    if engines is None:
        engines = dict[_EngineKey, _Shared]()
        _running.set(engines)
    return engines
