"""The engines of a session: one for each model file, shared by all agents."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import anyio

from prong.provider.local.place import library, weights
from prong.provider.local.process import Engine
from prong.provider.local.provider import Local


class Engines:
    """Engines by model file."""

    def __init__(self, env: Mapping[str, str], keep: Path | None = None) -> None:
        """Start nothing; `keep` is where computed prefixes outlive the session."""
        self._env = env
        self._keep = keep
        self._engines: dict[Path, Engine] = {}

    def local(self, model: str) -> Local:
        """Make the provider for `local` or `local:PATH`.

        Raises:
            NoSuchModel: there is no such file, or it is not a model.
            UsageError: the engine is not installed.

        """
        path = weights(model)
        engine = self._engines.get(path)
        if engine is None:
            engine = self._engines[path] = Engine(path, library(), self._env, self._keep)
        return Local(engine, model)

    async def aclose(self) -> None:
        """End all of them."""
        for engine in self._engines.values():
            await anyio.to_thread.run_sync(engine.close)
        self._engines.clear()
