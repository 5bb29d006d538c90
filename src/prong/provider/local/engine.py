"""The engine's process: `python -m prong.provider.local.engine SOCKET MODEL LIBRARY`.

It serves one model on a Unix socket, one connection for each request, in JSON lines. A connection
that closes gives its request up. The process ends when its standard input does, which is when the
process that started it ends, however that happens.

To the engine: one `CompletionRequest`, or {"figures": true} for its memory and its cache. From it,
each as [kind, content]: progress, ready, admitted, began, piece, done, error, figures.
"""

from __future__ import annotations

import mmap
import os
import selectors
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from prong.foreign_json import NOT_JSON
from prong.foreign_number import whole_number
from prong.provider.local.binding import Model, Native, Unusable
from prong.provider.local.core import Core, threads
from prong.provider.local.installation import CACHE_MB
from prong.provider.local.job import CompletionRequest, Job
from prong.provider.local.keep import Keep
from prong.system.user_socket import open_user_socket

_decode = msgspec.json.Decoder(CompletionRequest).decode
_LONGEST = 1 << 26
_SHOWN_STEP = 0.05


class ServedConnection:
    """One connection."""

    def __init__(self, sock: socket.socket) -> None:
        """Take an accepted socket."""
        self.sock = sock
        self.job: Job | None = None
        self.open = True
        self._in = bytearray()
        sock.settimeout(10)

    def tell(self, kind: str, content: Any) -> None:
        """Send one message; a reader that is gone or asleep loses its connection."""
        if not self.open:
            return
        try:
            self.sock.sendall(msgspec.json.encode([kind, content]) + b"\n")
        except OSError:
            self.open = False

    def read(self) -> bytes | None:
        """Read what came: a whole line, nothing yet (empty), or the end (None)."""
        try:
            data = self.sock.recv(1 << 20)
        except OSError:
            return None
        self._in += data
        if not data or len(self._in) > _LONGEST:
            return None
        end = self._in.find(b"\n")
        if end < 0:
            return b""
        line = bytes(self._in[:end])
        del self._in[: end + 1]
        return line


class EngineServer:
    """Connections around one core."""

    def __init__(self, path: str, model: Path, library: Path) -> None:
        """Listen before anything is loaded, so that progress has readers."""
        self._model_path, self._library = model, library
        self._selector = selectors.DefaultSelector()
        self._listener = open_user_socket(socket.SOCK_STREAM)
        # The name appears only when there is somebody to answer.
        self._listener.bind(f"{path}.new")
        self._listener.listen(64)
        Path(f"{path}.new").rename(path)
        self._lines: dict[int, ServedConnection] = {}
        self._waiting: list[tuple[ServedConnection, bytes]] = []
        self._core: Core | None = None
        self._broken = ""
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(sys.stdin.buffer, selectors.EVENT_READ)
        self._ended = False
        self._shown = 0.0

    def run(self) -> None:
        """Serve until the standard input ends."""
        self._poll(10)
        try:
            self._core = self._load()
        except Unusable as error:
            self._broken = str(error)
        for line in list(self._lines.values()):
            self._greet(line)
        if self._core is None:
            # Whoever asks again gets a new process: the file or the free memory may have changed.
            return
        core = self._core
        while not self._ended:
            self._poll(0 if core.busy else None)
            if core.busy and not self._ended:
                core.step()
                self._part()
        core.close()

    @property
    def ended(self) -> bool:
        """Whether whoever started us has ended, or wants us to."""
        return self._ended

    def _load(self) -> Core:
        env = os.environ
        cache_mb = _number(env.get("PRONG_LOCAL_CACHE_MB"), CACHE_MB)
        _check_room(self._model_path.stat().st_size, cache_mb << 20, room())
        native = Native(self._library)
        model = Model(native, self._model_path, self._loading)
        core = Core(
            native,
            model,
            cache_mb=cache_mb,
            threads=_number(env.get("PRONG_LOCAL_THREADS"), threads()),
        )
        folder, limit = (
            env.get("PRONG_LOCAL_KEEP", ""),
            _number(env.get("PRONG_LOCAL_DISK_MB"), 512),
        )
        if folder and limit:
            core.keep = Keep(Path(folder), self._model_path, limit)
        return core

    def _loading(self, share: float) -> bool:
        self._poll(0)
        if share < min(1.0, self._shown + _SHOWN_STEP):
            return not self._ended
        self._shown = share
        for line in self._lines.values():
            line.tell("progress", {"what": "load", "done": round(share * 100), "total": 100})
        return not self._ended

    def _poll(self, timeout: float | None) -> None:
        for key, _ in self._selector.select(timeout):
            if key.fileobj is self._listener:
                self._accept()
            elif key.fd == sys.stdin.fileno():
                self._ended = not os.read(key.fd, 4096) or self._ended
            else:
                self._read(self._lines[key.fd])
        if self._core is not None:
            waiting, self._waiting = self._waiting, []
            for line, data in waiting:
                self._take(self._core, line, data)

    def _accept(self) -> None:
        sock, _ = self._listener.accept()
        line = ServedConnection(sock)
        self._lines[sock.fileno()] = line
        self._selector.register(sock, selectors.EVENT_READ)
        if self._core is not None:
            self._greet(line)

    def _greet(self, line: ServedConnection) -> None:
        core = self._core
        if core is None:
            line.tell("error", {"kind": "model", "message": self._broken})
            return
        line.tell(
            "ready",
            {
                "context": core.context_tokens,
                "cells": core.cache.room,
                "cell_bytes": core.model.cell_bytes,
                "model": core.model.description,
                "own_template": core.template.own,
                "faithful": core.template.faithful,
                "shares": core.model.partial,
                "note": "; ".join(filter(None, (core.template.note, core.kept_note))),
                "form": msgspec.to_builtins(core.form),
            },
        )

    def _read(self, line: ServedConnection) -> None:
        data = line.read()
        if data is None:
            self._close(line)
        elif data:
            self._waiting.append((line, data))

    def _take(self, core: Core, line: ServedConnection, data: bytes) -> None:
        if b'"figures"' in data[:12]:
            figures = {"cells": core.cache.cells, "jobs": len(core.jobs), "resident": _resident()}
            line.tell("figures", figures)
            return
        try:
            ask = _decode(data)
        except NOT_JSON as error:
            line.tell("error", {"kind": "request", "message": str(error)})
            return
        line.job = core.submit(ask, line.tell)

    def _part(self) -> None:
        for line in [line for line in self._lines.values() if not line.open]:
            self._close(line)

    def _close(self, line: ServedConnection) -> None:
        line.open = False
        if line.job is not None and self._core is not None:
            self._core.cancel(line.job)
        self._selector.unregister(line.sock)
        del self._lines[line.sock.fileno()]
        line.sock.close()


def _check_room(weights: int, cache: int, free: int) -> None:
    """Refuse what the system would have to kill somebody for; it would not be us alone."""
    if weights + cache > free:
        raise Unusable(
            f"there is too little memory: the model takes {weights >> 20:,} MB and its cache "
            f"{cache >> 20:,} MB, {free >> 20:,} MB are free; choose a smaller model or set "
            "PRONG_LOCAL_CACHE_MB lower"
        )


def room() -> int:
    """Say how many bytes of memory are free: on the machine, or in our share of it."""
    found = [1 << 62]
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().split("\n")
        line = next(line for line in lines if line.startswith("MemAvailable"))
        found.append(int(line.split()[1]) << 10)
    with suppress(OSError, ValueError):
        group = Path("/sys/fs/cgroup")
        most = int((group / "memory.max").read_text())
        stat = dict(row.split() for row in (group / "memory.stat").read_text().splitlines())
        # Copies of files are given back when room is needed.
        used = int((group / "memory.current").read_text()) - int(stat.get("file", 0))
        found.append(most - used)
    return min(found)


def _resident() -> int:
    """Give the bytes of memory this process has; 0 where nobody tells."""
    with suppress(OSError, ValueError, IndexError), Path("/proc/self/statm").open() as file:
        return int(file.read().split()[1]) * mmap.PAGESIZE
    return 0


def _number(text: str | None, default: int) -> int:
    found = whole_number((text or "").strip())
    return default if found is None else found


def main(arguments: list[str]) -> int:
    """Serve one model."""
    path, model, library = arguments
    server = EngineServer(path, Path(model), Path(library))
    server.run()
    if server.ended:
        _tidy(Path(path))
    return 0


def _tidy(path: Path) -> None:
    """Remove the folder that was made for us; whoever made it may have been killed."""
    with suppress(OSError):
        for file in (path, path.with_name("stderr")):
            file.unlink(missing_ok=True)
        path.parent.rmdir()


if __name__ == "__main__":
    # The end of the process frees everything; unwinding the library could only hang.
    sys.stdout.flush()
    os._exit(main(sys.argv[1:]))
