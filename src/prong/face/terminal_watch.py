"""Puts the terminal back if Prong is ended by force.

Nothing that runs inside Prong can do that, so a small shell does: it reads from a pipe which face
has the terminal, and acts when the pipe ends before it was told that all is over. In a session of
its own it outlives a Ctrl+C, and is held up by no job control.

An interactive shell takes the terminal back and sets it to its own liking; it is given a moment to
do so. Keys that are signals then are on, as they never are in a face of ours: only where they are
off after that moment the settings are changed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Literal

from prong.face.output import feed
from prong.system.process_tree import detached

_SCRIPT = r"""# Puts the terminal back, once Prong is gone without having done so.
trap '' HUP INT QUIT TERM TSTP TTOU
exec 3>&1
face=line
while read -r word; do face=$word; done
case $face in
  over) exit ;;
  full) printf '\033[<u\033[?1000l\033[?1002l\033[?1003l\033[?1006l\033[?1015l\033[?1004l\033[?2048l\033[?1049l' ;;
  *) printf '\r\n' ;;
esac
printf '\033[?2004l\033[?25h\033[0m\033[23;2t'
sleep 0.2
case $(stty -a <&3) in
  *-isig*) stty "$1" <&3 || stty sane <&3 ;;
esac
"""  # noqa: E501 - one word for a terminal

WatchedFace = Literal["line", "full", "over"]


class TerminalWatch:
    """Tells the watcher which face has the terminal."""

    def __init__(self, pipe: int = -1) -> None:
        """Take the end of its pipe; -1 if nobody watches."""
        self._pipe = pipe

    def tell(self, face: WatchedFace) -> None:
        """Say which face has the terminal from now on, or that it was given back."""
        if self._pipe >= 0:
            # A watcher that is gone watches no more, and is no reason to stop.
            with suppress(OSError):
                feed(self._pipe, f"{face}\n".encode())


@contextmanager
def watched_terminal() -> Generator[TerminalWatch]:
    """Have the terminal put back if this process is ended by force meanwhile."""
    # A console of Windows is put back by itself.
    raw = sys.platform != "win32" and sys.stdin.isatty() and sys.stdout.isatty()
    started = _start() if raw else None
    if started is None:
        yield TerminalWatch()
        return
    watcher, pipe = started
    watch = TerminalWatch(pipe)
    try:
        yield watch
    finally:
        watch.tell("over")
        os.close(pipe)
        watcher.wait()


def _start() -> tuple[subprocess.Popen[bytes], int] | None:
    """Start the watcher; gives it and the end of the pipe by which it is told."""
    reads, writes = os.pipe()
    try:
        watcher = subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT, "prong-terminal", _settings()],
            stdin=reads,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={"PATH": "/usr/bin:/bin"},
            **detached(),
        )
    except OSError:
        os.close(writes)
        return None
    finally:
        os.close(reads)
    return watcher, writes


def _settings() -> str:
    """Give the terminal's settings as `stty` takes them."""
    if sys.platform != "linux":
        return "sane"
    import termios

    try:
        came, out, control, local, _, _, keys = termios.tcgetattr(sys.stdin.fileno())
    except termios.error:
        return "sane"
    values = (came, out, control, local, *(key if isinstance(key, int) else key[0] for key in keys))
    return ":".join(f"{value:x}" for value in values)
