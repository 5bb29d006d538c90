"""Prong's end of the starter, which starts commands in views for who is not root.

It is started with the first such command, and again if it was ended. What it has started is its
child and not ours: it tells how that ended, and keeps the number until we know. If it is ended by
force, nobody could tell, so its commands are ended too.
"""

from __future__ import annotations

import errno
import marshal
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from prong.foreign_number import whole_number
from prong.host.guardian import MARK
from prong.system.process_tree import call_in_copies

Binding: TypeAlias = tuple[bytes, tuple[tuple[str, int], ...], int, bytes]
"""What `bind` takes."""
StartOrder: TypeAlias = tuple[
    list[str], dict[str, str], dict[str, object], Binding, tuple[int, ...]
]
"""Words, environment, view, binding, and the numbers that the streams are to have."""

_BOOT = """
import sys
from types import ModuleType
folder, name = sys.argv[2], ""
for part in ("prong", "host", "sandbox"):
    name = f"{name}.{part}".lstrip(".")
    sys.modules[name] = ModuleType(name)
    sys.modules[name].__path__ = [folder + "/" + name.replace(".", "/")]
from prong.host.sandbox.start_server import serve
serve(int(sys.argv[1]))
"""
"""Loads the starter's own modules, and nothing that the packages they are in would load."""
_INHERITED = ("LD_LIBRARY_PATH", "LC_ALL", "LC_CTYPE", "LANG")
"""What the interpreter itself may need, and what says how paths are written."""
_PATIENCE = 20.0
"""Seconds in which a command has to be started."""
_MOMENT = 0.1
"""Seconds after which a process that was being born has its own environment."""


class _Unanswered(OSError):
    """Nobody can say whether the command was started."""


class Started:
    """A process that the starter has started."""

    def __init__(self, pid: int, end: socket.socket) -> None:
        """Take its number, and the socket by which its end is told."""
        self.pid = pid
        self.returncode: int | None = None
        self._end = end

    def fileno(self) -> int:
        """Give what can be read from once it has ended, or the starter has."""
        return self._end.fileno()

    def wait(self) -> int:
        """Wait for its end; gives the exit code, negative for a signal."""
        assert sys.platform == "linux"
        if self.returncode is None:
            told = b""
            with suppress(ConnectionError):
                told = self._end.recv(32)
            if not told:
                with suppress(OSError):
                    os.killpg(self.pid, signal.SIGKILL)
            self.returncode = int(told or -signal.SIGKILL)
            self._end.close()
        return self.returncode


class Starter:
    """The one starter of this process."""

    def __init__(self) -> None:
        """Start nothing yet."""
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._lock = threading.Lock()
        # A copy of this process would keep the socket open after the original's end.
        call_in_copies(self._forget)

    @property
    def pid(self) -> int | None:
        """The starter's process, while there is one."""
        return self._process.pid if self._process is not None else None

    def start(self, order: StartOrder, streams: Sequence[int]) -> tuple[Started, int]:
        """Let a command be started; gives it, and what holds its view.

        Raises OSError if it cannot be started, or not be held.
        """
        assert sys.platform == "linux"
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(_PATIENCE)
        try:
            paper = _written(order)
            try:
                self._hand_over([paper, theirs.fileno(), *streams])
            finally:
                os.close(paper)
                theirs.close()
            return self._answer(ours)
        except _Unanswered:
            ours.close()
            # It must not start later, nor go on if it was started all the same.
            self.end()
            _end_stray(order[1])
            raise
        except BaseException:
            ours.close()
            raise

    def _answer(self, ours: socket.socket) -> tuple[Started, int]:
        assert sys.platform == "linux"
        try:
            told, given, _, _ = socket.recv_fds(ours, 1 << 16, 1, socket.MSG_CMSG_CLOEXEC)
        except TimeoutError as error:
            raise _Unanswered(errno.ETIMEDOUT, "the sandbox could not be made in time") from error
        except ConnectionError:
            told, given = b"", []
        if told.startswith(b"+"):
            ours.settimeout(None)
            return Started(int(told[1:]), ours), given[0]
        if not told:
            why = "the sandbox could not be made: its starter was ended"
            raise _Unanswered(errno.EIO, why)
        number, why, path = marshal.loads(told[1:])  # noqa: S302 - the starter has written it
        raise OSError(number, why, path) if path is not None else OSError(number, why)

    def _hand_over(self, descriptors: list[int]) -> None:
        assert sys.platform == "linux"
        with self._lock:
            if self._control is not None:
                with suppress(ConnectionError):
                    socket.send_fds(self._control, [b"!"], descriptors)
                    return
                # Somebody has ended it.
                self._end()
            self._begin()
            assert self._control is not None
            with suppress(ConnectionError):
                socket.send_fds(self._control, [b"!"], descriptors)

    def _begin(self) -> None:
        assert sys.platform == "linux"
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(_PATIENCE)
        folder = os.path.abspath(f"{__file__}/../../../..")  # noqa: PTH100 - strings throughout
        words = ("-I", "-S", "-X", f"utf8={sys.flags.utf8_mode}", "-c", _BOOT)
        try:
            self._process = subprocess.Popen(
                [sys.executable, *words, str(theirs.fileno()), folder],
                cwd="/",
                env={name: os.environ[name] for name in _INHERITED if name in os.environ},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            why = f"the sandbox could not be made (its starter: {error.strerror})"
            raise OSError(error.errno, why) from error
        finally:
            theirs.close()
        self._control = ours

    def end(self) -> None:
        """End it, and with it what it has started and still runs."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        control, self._control = self._control, None
        process, self._process = self._process, None
        if process is not None:
            # Not asked: it may have been halted.
            process.kill()
            process.wait()
        if control is not None:
            control.close()

    def _forget(self) -> None:
        if self._control is not None:
            self._control.close()
        self._control = self._process = None
        self._lock = threading.Lock()


def _end_stray(env: Mapping[str, str]) -> None:
    """End a command of which the number is not known, by the mark that the guardian knows too."""
    assert sys.platform == "linux"
    if MARK not in env:
        return
    time.sleep(_MOMENT)
    mark = f"{MARK}={env[MARK]}".encode()
    for name in os.listdir("/proc"):  # noqa: PTH208 - strings throughout
        with suppress(OSError):
            pid = whole_number(name)
            if pid is not None and mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                os.kill(pid, signal.SIGKILL)


def _written(order: StartOrder) -> int:
    """Put an order into a file without a name."""
    assert sys.platform == "linux"
    paper = os.memfd_create("order", os.MFD_CLOEXEC)
    try:
        data = memoryview(marshal.dumps(order))
        while data:
            data = data[os.write(paper, data) :]
    except BaseException:
        os.close(paper)
        raise
    return paper


STARTER = Starter()
"""Of this process, for all sessions in it."""
