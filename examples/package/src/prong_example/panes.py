"""Panes that are log files: for a machine without any terminal program, watched by `tail -f`."""

import json
import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

from prong.host.pane import OpenedPane, Pane, PaneBackend, PaneSpec


class LoggedPanes(PaneBackend):
    """Runs each teammate in the background, with a file for what it would show."""

    name = "logged"

    async def open(self, spec: PaneSpec) -> OpenedPane:
        """Start the program in a session of its own, and write down whose it is."""
        folder = self._folder()
        folder.mkdir(parents=True, exist_ok=True)
        mark = self.setup.mark(spec.member).text
        pid = _start(spec, folder)
        note = {"mark": mark, "pid": pid, "title": spec.heading}
        (folder / f"{pid}.json").write_text(json.dumps(note))
        return OpenedPane(str(pid), f"tail -f {folder / f'{spec.member}.log'}")

    async def panes(self) -> list[Pane]:
        """List those that were written down with a mark of this leader's."""
        found: list[Pane] = []
        for file in sorted(self._folder().glob("*.json")):
            note = json.loads(file.read_text())
            member = self.setup.member(note["mark"])
            if member is not None:
                dead = not _runs(note["pid"])
                found.append(Pane(id=file.stem, member=member, pid=note["pid"], dead=dead))
        return found

    async def title(self, pane_id: str, text: str) -> None:
        """Change the title that was written down."""
        with suppress(FileNotFoundError):
            file = self._folder() / f"{pane_id}.json"
            file.write_text(json.dumps({**json.loads(file.read_text()), "title": text}))

    async def close(self, pane_id: str) -> None:
        """End the program, and forget it."""
        if any(pane.id == pane_id for pane in await self.panes()):
            with suppress(ProcessLookupError):
                os.killpg(int(pane_id), signal.SIGTERM)
            (self._folder() / f"{pane_id}.json").unlink(missing_ok=True)

    def _folder(self) -> Path:
        return Path(self.setup.host.home, ".cache", "prong-logged-panes")


def _start(spec: PaneSpec, folder: Path) -> int:
    with (folder / f"{spec.member}.log").open("ab") as log:
        started = subprocess.Popen(
            spec.argv,
            cwd=spec.cwd,
            env={**os.environ, **spec.env},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    started.returncode = 0  # nobody waits for it: it outlives this process
    return started.pid


def _runs(pid: int) -> bool:
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
