"""The full screen: first paint, an idle one, twenty agents that stream, a hundred thousand rows."""

from __future__ import annotations

import os
import pty
import resource
import select
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
from measure import Row, show, under
from textual.events import Key

from prong.entry import Usage
from prong.event import MAIN
from prong.face.edit.buffer import Buffer
from prong.face.full.app import Full
from prong.face.full.board import Board
from prong.face.full.control import Control
from prong.face.full.reader import ConversationReader
from prong.testing import Script, delay, say, world
from prong.view import AgentView, Item, Replied, Said, Series, View

_SIZE = (140, 40)


def rows() -> Iterator[Row]:
    """Give the figures."""
    # First, as long as nothing else has grown the process.
    yield long_conversation()
    paint, worked, idle = first_paint()
    detail = f"processor time from the start on; {paint:.2f} s on the clock"
    yield under("full screen: first paint", worked, 0.4, detail, " s")
    yield under("full screen: idle, share of a core", idle * 100, 1.0, "over 5 s", " %")
    yield from anyio.run(streaming)


def first_paint() -> tuple[float, float, float]:
    """Start it on a terminal; gives seconds to its first rows by two clocks, and its idle share."""
    home = tempfile.mkdtemp()
    env = {"HOME": home, "PATH": os.environ["PATH"], "TERM": "xterm-256color", "LANG": "C.UTF-8"}
    env |= {"ANTHROPIC_API_KEY": "none", "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}
    began = time.monotonic()
    pid, terminal = pty.fork()
    if not pid:
        os.chdir(home)
        import fcntl
        import struct
        import termios

        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", _SIZE[1], _SIZE[0], 0, 0))
        os.execve(sys.executable, [sys.executable, "-m", "prong", "--full"], env)
    seen = b""
    while b"Shift+Tab" not in seen and time.monotonic() - began < 30:
        seen += _read(terminal, 0.5)
    paint, worked = time.monotonic() - began, _ticks(pid)
    _drain(terminal, 2)
    before = _ticks(pid)
    _drain(terminal, 5)
    idle = (_ticks(pid) - before) / 5
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return paint, worked, idle


def _read(terminal: int, seconds: float) -> bytes:
    ready, _, _ = select.select([terminal], [], [], seconds)
    return os.read(terminal, 65_536) if ready else b""


def _drain(terminal: int, seconds: float) -> None:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        _read(terminal, left)


def _ticks(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def streaming() -> Iterator[Row]:
    """Let twenty agents stream; how late is a task that sleeps meanwhile, and how late is a key?"""
    parts = [f"Part {number}." for number in range(1, 20)]
    words = say("Some **words** and `code`, on and on. " * 400)
    slow = delay(between=0.02, then=words)
    script = Script([say("Ready."), slow], {part: [slow] for part in parts}, forever=say("ok"))
    late: list[float] = []
    keys: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        async with (
            world(script, folder=Path(folder), attended=True) as w,
            anyio.create_task_group() as group,
        ):
            await w.session.run("Begin")
            events = w.session.events(since=None)
            control = Control(w.session, events, group, draft=Buffer(), quiet=0.5)
            app = Full(w.session, control, "dark", "", taken_over=True)
            async with app.run_test(size=_SIZE):
                await w.session.start_forks(parts)
                await w.session.say("Go on")
                end = time.monotonic() + 6
                while time.monotonic() < end:
                    began = time.monotonic()
                    await anyio.sleep(0.005)
                    late.append(time.monotonic() - began - 0.005)
                foot = app.query_one("#foot", Board)
                for count in range(1, 40):
                    began = time.monotonic()
                    app.post_message(Key("k", "k"))
                    while not any("k" * count in row.text for row in foot.rows):
                        await anyio.sleep(0.001)
                    keys.append(time.monotonic() - began)
                    await anyio.sleep(0.02)
            group.cancel_scope.cancel()
    return iter(
        [
            _delayed("20 agents stream: delay of the loop, p99", late),
            _delayed("20 agents stream: a key is drawn, p99", keys),
        ]
    )


def _delayed(what: str, times: list[float]) -> Row:
    times = sorted(times)
    detail = f"median {times[len(times) // 2] * 1e3:.1f}, worst {times[-1] * 1e3:.0f} ms"
    return under(what, times[int(len(times) * 0.99) - 1] * 1e3, 50, detail, " ms")


def long_conversation() -> Row:
    """Read a conversation of a hundred thousand rows, at its end and at two hundred places."""
    text = "\n\n".join(f"A paragraph of words, number {n}, that says little." for n in range(10))
    items: list[Item] = []
    for number in range(5_000):
        items.append(Said(1.0, "user", f"Question {number}?"))
        items.append(Replied(1.0, text, "", "end", Usage(), 0.0))
    agent = AgentView(path=MAIN, kind="main", transcript=Series(items))
    view = View(agents={MAIN: agent})
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.monotonic()
    reader = ConversationReader()
    reader.show(view, 80, 40, 1.0)
    for _ in range(200):
        reader.roll(-500)
        reader.show(view, 80, 40, 1.0)
    took = time.monotonic() - began
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    detail = f"200 jumps in {took:.2f} s"
    return under("100,000 rows: memory beside the conversation", grown, 60, detail, " MB")


if __name__ == "__main__":
    raise SystemExit(show(rows()))
