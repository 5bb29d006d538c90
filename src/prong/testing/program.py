"""The real program as a process, in folders of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import anyio
from anyio.abc import Process

import prong
from prong.testing.scene import World


class Program:
    """The real `prong`, as a process in a world."""

    def environment(self, world: World, **more: str) -> dict[str, str]:
        """Give the environment in which it talks to the world's server."""
        # Where sockets are: the world's own folders are too far down for their short paths.
        run = {name: os.environ[name] for name in ("XDG_RUNTIME_DIR",) if name in os.environ}
        return {
            **run,
            "HOME": str(world.home),
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(Path(prong.__file__).parents[1]),
            "ANTHROPIC_API_KEY": "a key",
            "ANTHROPIC_BASE_URL": world.server.url,
            **more,
        }

    async def run(
        self, world: World, *words: str, stdin: bytes = b"", **env: str
    ) -> subprocess.CompletedProcess[bytes]:
        """Run it to its end in the project's folder."""
        return await anyio.run_process(
            [sys.executable, "-m", "prong", *words],
            input=stdin,
            check=False,
            cwd=world.root,
            env=self.environment(world, **env),
        )

    async def start(
        self, world: World, *words: str, stdout: int = subprocess.PIPE, **env: str
    ) -> Process:
        """Start it, with pipes."""
        return await anyio.open_process(
            [sys.executable, "-m", "prong", *words],
            stdout=stdout,
            cwd=world.root,
            env=self.environment(world, **env),
        )
