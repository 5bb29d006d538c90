"""A tmux server of the test's own, and a program that tells how it was started."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from prong.host import LocalHost
from prong.host.pane import PaneSetup
from prong.host.pane.tmux import TmuxPanes

TELL = """
import json, os, sys
out = sys.argv[1]
told = {"argv": sys.argv[2:], "cwd": os.getcwd(), "env": dict(os.environ), "pid": os.getpid()}
with open(out + ".new", "w") as file:
    json.dump(told, file)
os.rename(out + ".new", out)
print("started", flush=True)
sys.stdin.read()
"""


class TmuxTerminal:
    """A tmux server on a private socket, in which a leader runs."""

    def __init__(self, folder: Path, socket: Path) -> None:
        self.folder = folder
        self.socket = socket
        self.told = folder / "told.json"

    def tmux(self, *words: str) -> str:
        """Ask the server, as the user would."""
        done = subprocess.run(
            ["tmux", "-u", "-S", str(self.socket), *words],
            capture_output=True,
            check=True,
            text=True,
        )
        return done.stdout.strip()

    def ask(self, target: str, form: str) -> str:
        return self.tmux("display-message", "-p", "-t", target, form)

    def ids(self) -> list[str]:
        return self.tmux("list-panes", "-a", "-F", "#{pane_id}").split()

    @property
    def state(self) -> str:
        """What must stay as it was: focus, zoom, layout and options of the leader's window."""
        form = "#{pane_id} #{window_id} #{window_layout} #{window_zoomed_flag} #{pane_height}"
        active = self.tmux("display-message", "-p", "-t", "user:", form)
        return "\n".join([active, self.tmux("show-options", "-w", "-t", "user:")])

    def teller(self, *words: str) -> tuple[str, ...]:
        """Give a program that writes down how it was started, and waits."""
        return (sys.executable, "-S", "-c", TELL, str(self.told), *words)

    async def started(self) -> dict[str, object]:
        """Wait for what that program has written."""
        with anyio.fail_after(50):
            while not self.told.exists():
                await anyio.sleep(0.02)
        text = self.told.read_text("utf-8")
        self.told.unlink()
        return json.loads(text)


@contextmanager
def terminal(
    monkeypatch: pytest.MonkeyPatch, *, size: str = "200x50", conf: str = ""
) -> Generator[TmuxTerminal]:
    """Run a tmux server whose session `user` holds the leader in a pane; it is always ended."""
    # A socket's path must be short.
    folder = Path(tempfile.mkdtemp(prefix="pt"))
    (folder / "tmux.conf").write_text(conf)
    here = TmuxTerminal(folder, folder / "s")
    clean = {k: v for k, v in os.environ.items() if not k.startswith("TMUX")}
    columns, lines = size.split("x")
    try:
        subprocess.run(
            [
                *("tmux", "-S", str(here.socket), "-f", str(folder / "tmux.conf"), "new-session"),
                *("-d", "-s", "user", "-x", columns, "-y", lines, "--", "cat", "-"),
            ],
            check=True,
            env=clean,
        )
        pane = here.ask("user:", "#{pane_id}")
        monkeypatch.setenv("TMUX", f"{here.socket},{here.ask('user:', '#{pid}')},0")
        monkeypatch.setenv("TMUX_PANE", pane)
        yield here
    finally:
        subprocess.run(
            ["tmux", "-S", str(here.socket), "kill-server"], check=False, capture_output=True
        )
        shutil.rmtree(folder, ignore_errors=True)


def panes_of(
    host: LocalHost,
    *,
    team: str = "crew",
    leader: str = "s1",
    beside: int = 2,
    seconds: float = 50,
) -> TmuxPanes:
    """Give the back-end of a leader."""
    setup = PaneSetup(host=host, team=team, leader=leader, beside=beside, seconds=seconds)
    return TmuxPanes(setup)
