"""The engines of a session: one for each model file, shared by all agents."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import anyio

from prong.provider.backend import Backend, Resources
from prong.provider.local.place import library, weights
from prong.provider.local.process import Engine
from prong.provider.local.provider import Local


class Engines(Backend):
    """Engines by model file."""

    images: ClassVar[bool] = False

    def __init__(self, resources: Resources) -> None:
        """Start nothing; in the folder computed prefixes outlive the session."""
        super().__init__(resources)
        self._engines: dict[Path, Engine] = {}

    def connect(self, model: str) -> Local:
        """Make the provider of a model file, or of the bundled one.

        Raises:
            NoSuchModel: there is no such file, or it is not a model.
            UsageError: the engine is not installed.

        """
        name = f"local:{model}" if model else "local"
        path = weights(name)
        engine = self._engines.get(path)
        if engine is None:
            env, folder = self.resources.env, self.resources.folder
            engine = self._engines[path] = Engine(path, library(), env, folder)
        return Local(engine, name)

    async def aclose(self) -> None:
        """End all of them."""
        for engine in self._engines.values():
            await anyio.to_thread.run_sync(engine.close)
        self._engines.clear()
