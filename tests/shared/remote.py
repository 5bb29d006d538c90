"""A session in a repository whose forks can work elsewhere."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from prong.team.placed_worker import PlacedWorker
from prong.testing import Script, World, Worlds
from prong.testing.process_table import read_processes
from prong.testing.repository import Repo


class PlacedHere(PlacedWorker):
    """What Ray would place on a machine, in the process of a test."""

    def __init__(self, machine: str = "here") -> None:
        """Take the name of its machine."""
        super().__init__("")
        self._machine = machine

    async def node(self) -> str:
        """Give the name of the machine."""
        return self._machine

    def _watch(self) -> None:
        # One that nobody asks for anything ends its process, which here runs the tests.
        pass


def remote_settings(folder: Path, **target: Any) -> str:
    """Name one target, which keeps its copies in a folder of the test."""
    given = {"launcher": "process", "folder": str(folder), **target}
    return msgspec.json.encode(
        {"remote": {"targets": {"box": given}}, "retry": {"tries": 1}}
    ).decode()


def several_targets(folder: Path, *names: str, default: str = "") -> str:
    """Name several targets, each with a folder of its own for its copies."""
    targets = {one: {"launcher": "process", "folder": str(folder / one)} for one in names}
    remote = {"targets": targets, **({"default": default} if default else {})}
    return msgspec.json.encode({"remote": remote, "retry": {"tries": 1}}).decode()


def prepare_repository(root: Path) -> Repo:
    """Make a repository with a commit, and a change that is not committed."""
    repo = Repo(root)
    repo.git("init", "-q", "-b", "main")
    repo.git("config", "user.name", "Tester")
    repo.git("config", "user.email", "tester@example.invalid")
    repo.write("a.txt", "one\n")
    repo.write("sub/b.txt", "two\n")
    repo.commit("first")
    repo.write("sub/b.txt", "two, and more\n")
    return repo


@asynccontextmanager
async def remote_world(
    world: Worlds, script: Script, folder: Path, *, target: Any = None, **options: Any
) -> AsyncGenerator[tuple[World, Repo], None]:
    """Open a session in a repository, with one remote target."""
    given = {"settings": remote_settings(folder, **(target or {})), "mode": "bypassPermissions"}
    async with world(script, **{**given, **options}) as w:
        yield w, prepare_repository(w.root)


def copies(folder: Path) -> list[Path]:
    """Give the workspaces that are over there."""
    return sorted(folder.glob("*/.prong/worktrees/*"))


def children_of(pid: int) -> list[int]:
    """Give the workers that a process has started."""
    table = read_processes()
    return [one for one in table.holding(b"\0worker\0") if table.parents[one] == pid]
