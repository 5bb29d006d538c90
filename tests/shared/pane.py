"""A terminal that is none of those we know, and back-ends in it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from prong.host import LocalHost
from prong.host.pane import PaneBackend, PaneMark, PaneSetup, PaneSpec
from prong.host.pane.factory import make_backend

MARK = PaneMark("crew", "s1", "alice").text
Bench = Callable[..., PaneBackend]


def program_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a folder that is first on the path, and forget the terminal that the test runs in."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("TMUX", "TMUX_PANE", "ITERM_SESSION_ID", "WEZTERM_PANE", "TERM_PROGRAM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def maker(host: LocalHost) -> Bench:
    """Give what makes a back-end by its name."""

    def make(name: str, *, command: tuple[str, ...] = (), beside: int = 2, seconds: float = 30):
        setup = PaneSetup(
            host=host, team="crew", leader="s1", beside=beside, command=command, seconds=seconds
        )
        return make_backend(name, setup)

    return make


def spec(member: str = "alice", **fields: object) -> PaneSpec:
    """Describe a pane, with words that no shell may read."""
    words = ("prong", "--member", "crew/alice $x;")
    given: dict[str, object] = {"member": member, "argv": words, "cwd": "/", "title": "Al"}
    return PaneSpec(**(given | fields))  # type: ignore[arg-type] - fields of a test
