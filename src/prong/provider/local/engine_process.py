"""The engine as a child process: started on first use, shared by all agents, gone with us.

The child holds the read end of a pipe whose other end only we hold, so it learns of our end however
we end. A connection is a request; to close it gives the request up.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import anyio
import msgspec
from anyio.abc import SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from prong.errors import Unreachable
from prong.provider.local.gguf import Header
from prong.provider.local.installation import cache_mb, number
from prong.system.process_tree import detached

_PASSED = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH", "SYSTEMROOT")
_LONGEST = 1 << 22
_PARTING = 3.0
"""Seconds in which a process has ended whose connection broke: a busy machine takes its time."""
_PATIENCE = 30.0
_decode = msgspec.json.Decoder(tuple[str, Any]).decode


class EngineLost(Exception):
    """The engine's process ended, or never began; the text says how."""


class EngineConnection:
    """A connection to the engine."""

    def __init__(self, stream: SocketStream, engine: Engine) -> None:
        """Wrap a connected socket."""
        self._stream = stream
        self._in = BufferedByteReceiveStream(stream)
        self._engine = engine

    async def send(self, message: Any) -> None:
        """Send one message."""
        try:
            await self._stream.send(msgspec.json.encode(message) + b"\n")
        except (anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            raise EngineLost(self._engine.fate()) from error

    async def next(self) -> tuple[str, Any]:
        """Wait for one message: its kind and its content."""
        try:
            return _decode(await self._in.receive_until(b"\n", _LONGEST))
        except (
            anyio.EndOfStream,
            anyio.IncompleteRead,
            anyio.BrokenResourceError,
            anyio.ClosedResourceError,
        ) as error:
            raise EngineLost(self._engine.fate()) from error

    async def __aenter__(self) -> Self:
        """Use the connection for one request."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the request up if it still runs."""
        with anyio.CancelScope(shield=True):
            await self._stream.aclose()


class Engine:
    """One model's process."""

    def __init__(
        self, model: Path, library: Path, env: Mapping[str, str], keep: Path | None = None
    ) -> None:
        """Start nothing yet; `keep` is where computed prefixes outlive the process.

        Raises:
            NoSuchModel: the file is none.
            UsageError: a setting is not what it should be.

        """
        self.model = model
        number(env, "PRONG_LOCAL_THREADS", 1, least=1)
        number(env, "PRONG_LOCAL_DISK_MB", 0, least=0)
        self.window = Header(model).window(cache_mb(env))
        """How many tokens a conversation may have."""
        self._library = library
        self._env = environment(env, keep)
        self._lock = anyio.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._folder: Path | None = None
        self._said: IO[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The process, while there is one."""
        child = self._child
        return child.pid if child is not None and child.poll() is None else None

    async def connect(self) -> EngineConnection:
        """Open a connection, starting the process if there is none.

        Raises Lost if it does not come up.
        """
        async with self._lock:
            if self.pid is None:
                self._reset()
                await anyio.to_thread.run_sync(self._start)
                await self._wait_up()
        assert self._folder is not None
        try:
            return EngineConnection(await anyio.connect_unix(self._folder / "s"), self)
        except OSError as error:
            raise EngineLost(self.fate()) from error

    def fate(self) -> str:
        """Say what became of the process."""
        child = self._child
        if child is None:
            return "it was never started"
        try:
            # A broken connection is seen a moment before the end of its process is.
            code = child.wait(_PARTING)
        except subprocess.TimeoutExpired:
            return "it closed the connection"
        how = f"it was killed by signal {-code}" if code < 0 else f"it ended with code {code}"
        said = self._tail()
        return f"{how}: {said}" if said else how

    def close(self) -> None:
        """End the process; it stores what is worth storing first."""
        child, self._child = self._child, None
        if child is not None and child.stdin is not None:
            child.stdin.close()
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        self._reset()

    def _start(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="prong-"))
        self._said = (self._folder / "stderr").open("w+b")
        # -P: the folder we are in may belong to anybody, so nothing is imported from it.
        self._child = subprocess.Popen(
            [
                *(sys.executable, "-P", "-m", "prong.provider.local.engine"),
                *(str(self._folder / "s"), str(self.model), str(self._library)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._said,
            env=self._env,
            cwd="/",
            **detached(),
        )

    async def _wait_up(self) -> None:
        assert self._folder is not None
        with anyio.move_on_after(_PATIENCE):
            while self.pid is not None:
                if (self._folder / "s").exists():
                    return
                await anyio.sleep(0.01)
        raise EngineLost(self.fate())

    def _tail(self) -> str:
        if self._said is None:
            return ""
        self._said.seek(0)
        lines = self._said.read()[-4_096:].decode("utf-8", "replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def _reset(self) -> None:
        child, self._child = self._child, None
        if child is not None and child.stdin is not None:
            child.stdin.close()
            child.wait()
        if self._said is not None:
            self._said.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._said = self._folder = None


def environment(env: Mapping[str, str], keep: Path | None) -> dict[str, str]:
    """Pass on what the engine needs, and no keys."""
    passed = {
        name: value
        for name, value in env.items()
        if name in _PASSED or name.startswith(("OMP_", "PRONG_LOCAL_"))
    }
    passed["PYTHONPATH"] = str(Path(__file__).parents[3])
    passed.setdefault("OMP_WAIT_POLICY", "passive")
    passed["PRONG_LOCAL_CACHE_MB"] = str(cache_mb(env))
    if keep is not None:
        passed["PRONG_LOCAL_KEEP"] = os.fspath(keep)
    return passed


def unreachable(error: EngineLost, model: Path) -> Unreachable:
    """Make the error of an engine that is gone."""
    return Unreachable(
        f"the embedded engine for {model.name} is gone: {error}; it is started again on next use"
    )
