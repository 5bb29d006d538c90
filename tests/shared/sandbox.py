"""A repository, a home with secrets and a host, for commands that are held to a profile."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import NamedTuple

import anyio
import pytest

from prong.host import LocalHost
from prong.host.git import Git
from prong.host.residue import own_folder
from prong.host.sandbox import Profile
from prong.host.sandbox.ability import detect
from prong.host.worktree import create
from prong.tools.derive import worktree
from prong.tools.ground import Sandboxing
from prong.tools.policy import Ground, Policy
from prong.tools.rule import Rule, parse_rule

ABLE = detect()
kernel = pytest.mark.skipif(not ABLE.writes, reason=f"needs Landlock and seccomp: {ABLE.why}")
views = pytest.mark.skipif(not (ABLE.writes and ABLE.views), reason=f"needs namespaces: {ABLE.why}")


class Ended(NamedTuple):
    code: int
    text: str
    undone: list[str]


class Bench:
    """A repository, a home with secrets, and a host to run commands on."""

    def __init__(self, folder: Path) -> None:
        self.root, self.home = folder / "project", folder / "home"
        self.outside = folder / "outside"
        for one in (self.root / "sub", self.home / ".ssh", self.outside):
            one.mkdir(parents=True)
        (self.home / ".ssh/id").write_text("PRIVATE")
        (self.outside / "f").write_text("theirs\n")
        (self.root / "a").write_text("one\n")
        (self.root / ".env").write_text("SECRET=1\n")
        (self.root / "sub/.env").write_text("SECRET=2\n")
        self.git("init -q -b main")
        self.git("add a")
        self.git("commit -qm first")
        self.host = LocalHost(self.root, str(self.home), storage=str(folder / "store"))

    def git(self, words: str) -> str:
        who = ("-c", "user.name=x", "-c", "user.email=x@x.invalid")
        env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
        argv = ["git", *who, *words.split()]
        ended = subprocess.run(
            argv, cwd=self.root, env=env, check=True, capture_output=True, text=True
        )
        return ended.stdout.strip()

    def policy(self, *denied: str, temp: tuple[str, ...] = ()) -> Policy:
        rules = [parse_rule(text, effect="deny", source="user") for text in denied]
        return Policy(
            root=str(self.root),
            home=str(self.home),
            rules=tuple(one for one in rules if isinstance(one, Rule)),
            sandbox=Sandboxing(on=True, ability=self.host.ability, temp=temp),
        )

    async def run(self, line: str, profile: Profile, *, cwd: str | None = None) -> Ended:
        env = {"GIT_OPTIONAL_LOCKS": "0", "GIT_AUTHOR_NAME": "x", "GIT_AUTHOR_EMAIL": "x@x.invalid"}
        env |= {"GIT_COMMITTER_NAME": "x", "GIT_COMMITTER_EMAIL": "x@x.invalid"}
        process = await self.host.start(line, cwd=cwd, env=env, profile=profile)
        with anyio.fail_after(60):
            said = b"".join([chunk async for chunk in process.output()])
            code = await process.wait()
        await process.kill()
        return Ended(code, said.decode(errors="replace"), list(process.leave()))


def state(*folders: Path) -> dict[str, object]:
    """Give what files hold and what is known of them."""
    found: dict[str, object] = {}
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            seen = path.lstat()
            data = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
            found[str(path)] = (data, seen.st_mode, seen.st_uid, seen.st_mtime_ns)
    return found


async def at_work(bench: Bench, slug: str) -> tuple[Profile, str]:
    made = await create(bench.host, slug)
    own, common = await own_folder(Git(bench.host, made.parent), made.path)
    ground = Ground(made.cwd, made.path, (made.parent,), own, common, made.branch)
    return worktree(bench.policy(), ground), made.path
