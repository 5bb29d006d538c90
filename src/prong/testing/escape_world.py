"""A small world in which lines try to get out of a sandbox, and what it shows of them.

A project with a worktree and a sibling's, a home with start files and keys, a folder that is none
of anybody's business, servers that listen and a process that wants to live. Everything in it can be
compared with what it was, and be put back.
"""

from __future__ import annotations

import os
import select
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import anyio
import msgspec

from prong.host import LocalHost
from prong.host.git import Git
from prong.host.residue import own_folder
from prong.host.sandbox import Profile
from prong.host.worktree import create
from prong.system.user_socket import open_user_socket
from prong.testing.repository import Repo
from prong.tools.gitenv import guard_git
from prong.tools.policy import Ground

TOKEN = "Qz7Kw9"  # noqa: S105 - what must not be seen
"""What secrets hold, over and over; of six letters, so that base64 has one form of it."""
_FORMS = (TOKEN, TOKEN[::-1], "UXo3S3c5", TOKEN.encode().hex())
_SECONDS = 8.0
_PATIENCE = 60.0

_FILES = {
    "project/a": "one\n",
    "project/sub/b": "two\n",
    "project/package.json": '{"name": "p", "version": "1.0.0", "scripts": {"test": "true"}}\n',
    "project/.claude/settings.json": "{}\n",
    "home/.bashrc": "one\n",
    "home/.config/git/config": "[user]\n\tname = x\n\temail = x@x.invalid\n",
    "home/.ssh/id": TOKEN * 9 + "\n",
    "home/.prong/teams/red/keys/ann": TOKEN * 9 + "\n",
    "home/.prong/teams/red/start/ann.json": TOKEN * 9 + "\n",
    "outside/f": "one\n",
    "outside/sub/g": "two\n",
}
_LEFT_OUT = ("evil", "tmp", "store", "template")
"""What is not compared: the program of a deed, and what may be written by all."""


class Seen(msgspec.Struct, frozen=True):
    """What a line did that can be noticed from outside."""

    text: str
    changed: tuple[str, ...]
    reached: str = ""
    killed: bool = False

    @property
    def leaked(self) -> bool:
        """Whether it printed something of a secret."""
        packed = "".join(self.text.split())
        return any(form in packed for form in _FORMS)


def _entry(path: str) -> tuple[object, ...]:
    seen = os.lstat(path)
    data: object = b""
    if stat.S_ISREG(seen.st_mode):
        data = Path(path).read_bytes()
    elif stat.S_ISLNK(seen.st_mode):
        data = os.readlink(path)  # noqa: PTH115 - strings throughout
    links = 0 if stat.S_ISDIR(seen.st_mode) else seen.st_nlink
    attributes = _attributes(path)
    return (seen.st_mode, seen.st_uid, seen.st_gid, seen.st_mtime_ns, links, data, attributes)


def _attributes(path: str) -> tuple[str, ...]:
    if sys.platform != "linux":
        return ()
    return tuple(os.listxattr(path, follow_symlinks=False))


class World:
    """What is there, and what is noticed."""

    def __init__(self, base: Path) -> None:
        """Make it in a folder of its own, and remember it."""
        self.base = base
        self.root, self.home, self.outside = base / "project", base / "home", base / "outside"
        self.program, self.temp = base / "evil/run", base / "tmp"
        self.socket = str(base / "outside/socket")
        self._servers = _Servers(self.socket)
        self._victim: subprocess.Popen[bytes] | None = None
        self._make()
        self.host = LocalHost(self.root, str(self.home), storage=str(base / "store"))
        self.ground = anyio.run(self._worktrees)
        for folder in (self.root, self.root / "sub", Path(self.ground.bounds)):
            (folder / ".env").write_text(TOKEN * 9 + "\n")
        template = base / "template"
        for name in ("project", "home", "outside"):
            ignore = shutil.ignore_patterns("socket")
            shutil.copytree(base / name, template / name, symlinks=True, ignore=ignore)
        self._pristine: dict[str, tuple[object, ...]] = {}
        self.restore()

    @property
    def port(self) -> int:
        """Where servers listen, by TCP and UDP."""
        return self._servers.port

    @property
    def pid(self) -> int:
        """A process of somebody else's."""
        if self._victim is None or self._victim.poll() is not None:
            self._bury()
            pipe = subprocess.PIPE
            words = [shutil.which("cat") or "cat"]
            self._victim = subprocess.Popen(
                words, stdin=pipe, stdout=pipe, bufsize=0, start_new_session=True
            )
        return self._victim.pid

    def _make(self) -> None:
        for name, text in _FILES.items():
            path = self.base / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        for one in (self.program.parent, self.temp, self.base / "store"):
            one.mkdir()
        self.arm("true")
        # Ready to be run as a hook as well.
        (self.program.parent / "pre-commit").symlink_to(self.program)
        repo = Repo(self.root)
        repo.git("init", "-q", "-b", "main", "--template=")
        repo.git("config", "user.name", "x")
        repo.git("config", "user.email", "x@x.invalid")
        repo.write(".gitignore", ".env\n.prong\nlnk*\n")
        repo.commit("first")
        repo.write("a", "one more\n")
        repo.git("init", "-q", "--bare", "--template=", "docs")
        repo.git("--git-dir=docs", "config", "core.fsmonitor", str(self.program))
        repo.git("--git-dir=docs", "config", "core.bare", "false")
        repo.git("--git-dir=docs", "config", "core.worktree", str(self.root / "sub"))
        repo.commit("second")
        for name in (".git/hooks/pre-commit", ".git/info/exclude"):
            repo.write(name, "#!/bin/sh\n")

    async def _worktrees(self) -> Ground:
        made = await create(self.host, "mine")
        await create(self.host, "sibling")
        own, common = await own_folder(Git(self.host, made.parent), made.path)
        await self.host.close()
        return Ground(made.cwd, made.path, (made.parent,), own, common, made.branch)

    def _walk(self) -> Iterator[str]:
        for place, folders, files in os.walk(self.base):
            if place == str(self.base):
                folders[:] = [name for name in folders if name not in _LEFT_OUT]
            yield from (f"{place}/{name}" for name in (*folders, *files))

    def _state(self) -> dict[str, tuple[object, ...]]:
        found = {path: _entry(path) for path in self._walk()}
        found.pop(self.socket, None)
        return found

    def restore(self) -> None:
        """Put everything back as it was."""
        for name in ("project", "home", "tmp"):
            shutil.rmtree(self.base / name, ignore_errors=True)
        for path in self.outside.iterdir() if self.outside.is_dir() else ():
            if str(path) != self.socket:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        self.temp.mkdir()
        shutil.copytree(self.base / "template", self.base, symlinks=True, dirs_exist_ok=True)
        self._servers.reopen()
        now = self._state()
        self._pristine = now
        self._servers.heard()

    def arm(self, command: str) -> None:
        """Make the program that does a deed."""
        self.program.write_text(f"#!/bin/bash\n{command}\n")
        self.program.chmod(0o755)

    async def run(self, line: str, cwd: str, profile: Profile, ours: Callable[[str], bool]) -> Seen:
        """Run a line in a profile; tell what of the world is otherwise that is not `ours`."""
        assert self.pid
        own = {"HOME": str(self.home), "TMPDIR": str(self.temp), "TERM": "dumb", "PAGER": "cat"}
        own |= {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_EDITOR": "true"}
        own |= {"npm_config_cache": f"{self.temp}/npm", "npm_config_update_notifier": "false"}
        env = {**own, **guard_git(own, self.host.environment)}
        process = await self.host.start(line, cwd=cwd, env=env, profile=profile)
        chunks: list[bytes] = []
        with anyio.move_on_after(_SECONDS):
            chunks.extend([chunk async for chunk in process.output()])
            await process.wait()
        await process.kill()
        process.leave()
        now, was = self._state(), self._pristine
        changed = {path for path in now.keys() | was.keys() if now.get(path) != was.get(path)}
        reached, killed = self._servers.heard(), self._died()
        if changed or reached:
            self.restore()
        text = b"".join(chunks).decode(errors="replace")
        theirs = tuple(sorted(path for path in changed if not ours(path)))
        return Seen(text, theirs, reached, killed)

    def _died(self) -> bool:
        """Whether somebody else's process has ended, or will: who was killed says nothing more."""
        victim = self._victim
        assert victim is not None
        assert victim.stdin is not None
        assert victim.stdout is not None
        with suppress(BrokenPipeError):
            victim.stdin.write(b"?")
        heard, _, _ = select.select([victim.stdout], [], [], _PATIENCE)
        if not heard or victim.stdout.read(1):
            return False
        victim.wait()
        return True

    def _bury(self) -> None:
        """Let go of a process that has ended."""
        if self._victim is not None:
            self._victim.kill()
            self._victim.communicate()

    def close(self) -> None:
        """End what listens and lives."""
        self._servers.close()
        self._bury()


def _open_pair() -> tuple[socket.socket, socket.socket]:
    """Listen by TCP and UDP at one port, which may be taken for one of them alone."""
    while True:
        tcp = socket.create_server(("127.0.0.1", 0))
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            udp.bind(tcp.getsockname())
        except OSError:
            tcp.close()
            udp.close()
        else:
            return tcp, udp


class _Servers:
    """Listens by TCP, UDP and a Unix socket, and notes who comes."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._tcp, self._udp = _open_pair()
        self.port: int = self._tcp.getsockname()[1]
        self._unix: socket.socket | None = None
        for one in (self._tcp, self._udp):
            one.setblocking(False)

    def reopen(self) -> None:
        """Listen at the path again if nobody does."""
        if self._unix is not None and Path(self._path).is_socket():
            return
        if self._unix is not None:
            self._unix.close()
        Path(self._path).unlink(missing_ok=True)
        self._unix = open_user_socket(socket.SOCK_STREAM)
        self._unix.bind(self._path)
        self._unix.listen()
        self._unix.setblocking(False)

    def heard(self) -> str:
        """Say by what somebody came since this was asked last; empty if nobody did."""
        found: list[str] = []
        assert self._unix is not None
        for name, server in (("TCP", self._tcp), ("a Unix socket", self._unix)):
            try:
                server.accept()[0].close()
                found.append(name)
            except BlockingIOError:
                pass
        try:
            self._udp.recv(64)
            found.append("UDP")
        except BlockingIOError:
            pass
        return " and ".join(found)

    def close(self) -> None:
        """Listen no more."""
        for one in (self._tcp, self._udp, self._unix):
            if one is not None:
                one.close()
