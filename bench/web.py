"""The page: its first picture, and its frames while many agents work; in a real chromium."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any

import conversation
import msgspec
from measure import Row, show, under

from prong.cost import Charge
from prong.entry import CallId, Usage, user_text
from prong.event import (
    AgentStarted,
    Envelope,
    Event,
    SessionStarted,
    ToolFinished,
    ToolStarted,
    TurnStarted,
)
from prong.ids import AgentPath
from prong.journal.record import Opened
from prong.journal.writer import Journal
from prong.prompt import Prompt

ROUNDS = 3
MODEL = "claude-sonnet-5-5"
FRAMES = """async (seconds) => {
  const taken = [];
  let last = performance.now();
  const end = last + seconds * 1000;
  while (last < end) {
    const now = await new Promise(requestAnimationFrame);
    taken.push(now - last);
    last = now;
  }
  return taken.slice(2);
}"""


def charge(agent: str, prompt: Prompt, read: int) -> Charge:
    usage = Usage(uncached=10, read=read, written_5m=500, output=100)
    return Charge(
        agent=AgentPath(agent), model=MODEL, usage=usage, cost=0.01, digest=prompt.digest, marks=3
    )


def wide(path: Path, forks: int, size: int) -> None:
    """Write the journal of forks that share a conversation."""
    base = conversation.prompt(size)
    opened = Opened(session=path.stem, created=time.time(), cwd="/", program="bench")
    with Journal.create(path, opened) as journal:
        journal.keep("main", base)
        journal.request(charge("main", base, 0))
        for number in range(forks):
            prompt = base.append(user_text(f"Part {number}."))
            journal.keep(f"main/fork-{number}", prompt)
            journal.request(charge(f"main/fork-{number}", prompt, size // 4))


def long(path: Path, size: int) -> None:
    """Write the journal of one conversation, with a request for every reply."""
    opened = Opened(session=path.stem, created=time.time(), cwd="/", program="bench")
    prompt = Prompt(conversation.head())
    with Journal.create(path, opened) as journal:
        for number, entry in enumerate(conversation.entries(size)):
            prompt = prompt.append(entry)
            journal.keep("main", prompt)
            if number % 50 == 0:
                journal.request(charge("main", prompt, len(prompt) // 4))


class GrowingJournal:
    """A journal to which forks add requests while they work."""

    def __init__(self, path: Path, agents: int) -> None:
        self._journal, replay = Journal.resume(path)
        self._prompts = {
            f"main/fork-{number}": replay.known[replay.requests[number + 1].row.digest]
            for number in range(agents)
        }
        self.written = 0

    def request(self, agent: str) -> None:
        """Let a fork say something more, and be answered."""
        self.written += 1
        prompt = self._prompts[agent].append(user_text(f"Step {self.written}."))
        self._prompts[agent] = prompt
        self._journal.keep(agent, prompt)
        self._journal.request(charge(agent, prompt, len(prompt) // 4))

    def close(self) -> None:
        self._journal.close()


def burst(path: Path, journal: GrowingJournal, *, agents: int, rate: int, seconds: float) -> int:
    """Write the events of agents at work, so many a second, as a session would.

    Every twentieth time a request is stored as well.
    """
    paths = [AgentPath(f"main/fork-{number}") for number in range(agents)]
    seq = 0
    with path.open("ab", buffering=0) as file:

        def put(agent: AgentPath, event: Event) -> None:
            nonlocal seq
            seq += 1
            file.write(msgspec.json.encode(Envelope(seq, time.time(), agent, event)) + b"\n")

        main = AgentPath("main")
        put(main, SessionStarted(path.parent.name, MODEL, "/", (), "default"))
        put(main, AgentStarted("main", MODEL))
        put(main, TurnStarted("Go"))
        for each in paths:
            put(each, AgentStarted("fork", MODEL, parent=main, title="part", task_id=each))  # pyright: ignore[reportArgumentType] - any id
            put(each, TurnStarted())
        began, number = time.monotonic(), 0
        while number < rate * seconds:
            agent, call = paths[number // 2 % agents], CallId(f"c{number // 2}")
            if number % 2:
                put(agent, ToolFinished(call, "Bash", failed=False, text="ok " * 50))
            else:
                put(agent, ToolStarted(call, "Bash", '{"command": "make"}', "make"))
            number += 1
            if number % 20 == 0:
                journal.request(agent)
            time.sleep(max(0.0, began + number / rate - time.monotonic()))
    return number


@contextmanager
def opened(path: Path) -> Generator[tuple[Any, str]]:
    """Serve a journal, and open a browser."""
    from playwright.sync_api import sync_playwright

    argv = [sys.executable, "-m", "prong", "web", "--no-open", str(path)]
    server = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert server.stdout is not None
        with sync_playwright() as driver:
            browser = driver.chromium.launch(
                executable_path=shutil.which("chromium"),
                args=["--no-sandbox", "--enable-precise-memory-info"],
            )
            yield (
                browser.new_page(viewport={"width": 1280, "height": 800}),
                server.stdout.readline(),
            )
            browser.close()
    finally:
        server.terminate()
        server.wait()


def until(page: Any, fact: str) -> None:
    """Wait for something to be so; the page's policy lets no text be run in it, so it is asked."""
    while not page.evaluate(fact):
        time.sleep(0.005)


def first_picture(path: Path, requests: int) -> tuple[float, float, tuple[float, float]]:
    """Give the seconds from the start of `prong web` to a picture, and from opening the page.

    And the bytes that the tab then takes: of its scripts, and of its whole process.
    """
    start = time.perf_counter()
    with opened(path) as (page, address):
        asked = time.perf_counter()
        page.goto(address.strip())
        until(page, f"window.__prong?.rows().length === {requests}")
        page.evaluate(
            "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )
        ended = time.perf_counter()
        memory = page.evaluate("performance.memory.usedJSHeapSize"), tab_memory()
    return ended - start, ended - asked, memory


def in_tab(memory: tuple[float, float]) -> str:
    scripts, process = memory
    return f"{scripts / 1e6:.0f} MB of scripts in the tab, {process / 1e6:.0f} MB its process"


def browser_processes() -> list[int]:
    """Give the processes below this one that are a browser's."""
    parents: dict[int, int] = {}
    names: dict[int, bytes] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int(
                (folder / "stat").read_text().rsplit(")", 1)[1].split()[1]
            )
            names[int(folder.name)] = (folder / "cmdline").read_bytes()
        except (OSError, IndexError):
            continue

    def is_ours(pid: int) -> bool:
        while pid > 1 and pid != os.getpid():
            pid = parents.get(pid, 0)
        return pid == os.getpid()

    return [pid for pid, name in names.items() if b"chromium" in name and is_ours(pid)]


def tab_memory() -> float:
    """Give the bytes of the largest process of a tab, what it shares with others in proportion."""
    found = [0.0]
    for pid in browser_processes():
        folder = Path(f"/proc/{pid}")
        if b"--type=renderer" in (folder / "cmdline").read_bytes():
            told = re.search(r"^Pss:\s+(\d+)", (folder / "smaps_rollup").read_text(), re.MULTILINE)
            found.append(1_024 * float(told[1]) if told else 0.0)
    return max(found)


def at_work(look: str) -> tuple[float, float]:
    """Give the events a second of a session, and its processor time for each, while one looks on.

    `look` is nobody, a browser, or one that was stopped after it had opened the page. The session
    has a processor, and the page's server and the browser the others: what is looked for is
    whether it waits for them, and not what a processor can do at once.
    """
    argv = [sys.executable, str(Path(__file__).parent / "web_session.py")]
    session = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert session.stdin is not None
    assert session.stdout is not None
    first, *others = sorted(os.sched_getaffinity(0))
    if others:
        os.sched_setaffinity(session.pid, {first})
    path = Path(session.stdout.readline().strip())

    def work() -> tuple[float, float]:
        assert session.stdin is not None
        assert session.stdout is not None
        print("go", file=session.stdin, flush=True)
        events, seconds, processor = map(float, session.stdout.readline().split())
        session.wait()
        return events / seconds, processor / events

    if look == "nobody":
        return work()
    os.sched_setaffinity(0, others or {first})
    try:
        return watched(path, work, stop=look == "a stopped browser")
    finally:
        os.sched_setaffinity(0, {first, *others})


def watched(
    path: Path, work: Callable[[], tuple[float, float]], *, stop: bool
) -> tuple[float, float]:
    """Let a session work while a browser looks at it, which may have been stopped."""
    with opened(path) as (page, address):
        page.goto(address.strip())
        until(page, "window.__prong?.rows().length === 1")
        stopped = browser_processes() if stop else []
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        try:
            return work()
        finally:
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)


def looked_at() -> Iterator[Row]:
    """Compare a session that nobody looks at with ones that are, in turns."""
    looks = ("nobody", "a browser", "a stopped browser")
    found: dict[str, list[tuple[float, float]]] = {look: [] for look in looks}
    for _ in range(ROUNDS):
        for look in looks:
            found[look].append(at_work(look))
    best = {
        look: (max(rate for rate, _ in each), min(cpu for _, cpu in each))
        for look, each in found.items()
    }
    alone_rate, alone_cpu = best["nobody"]
    for look in looks[1:]:
        rate, cpu = best[look]
        detail = f"{rate:.0f} events a second, {alone_rate:.0f} without; {rate / alone_rate:.2f}x"
        what = f"processor time of a session's event, with {look} against none"
        yield under(what, cpu / alone_cpu, 1.1, detail)


def frames(path: Path, tab: str, agents: int, rate: int) -> tuple[list[float], int, int]:
    """Give how long each frame of a tab took while events came, and how many calls and rows."""
    seconds = 6.0
    wide(path, agents, 100_000)
    journal = GrowingJournal(path, agents)
    path.with_suffix("").mkdir()
    path.with_suffix(".lock").write_text(f"{os.getpid()}\n")
    events = path.with_suffix("") / "events.jsonl"
    with opened(path) as (page, address):
        page.goto(address.strip())
        page.get_by_role("tab", name=tab).click()
        writer = Thread(
            target=burst,
            args=(events, journal),
            kwargs={"agents": agents, "rate": rate, "seconds": seconds},
        )
        writer.start()
        until(page, f"window.__prong.state().agents.size > {agents}")
        taken = page.evaluate(FRAMES, seconds - 1)
        writer.join()
        time.sleep(1)
        shown = page.evaluate(
            "[...window.__prong.state().transcripts.values()].reduce((n, t) => n + t.length, 0)"
        )
        rows_shown = page.evaluate("window.__prong.rows().length")
    journal.close()
    assert rows_shown == 1 + agents + journal.written, (rows_shown, journal.written)
    return taken, shown, rows_shown


def calmest(folder: Path, tab: str) -> tuple[list[float], int, int]:
    """Try up to three times: other work of the machine shows in single frames."""
    found: list[tuple[list[float], int, int]] = []
    while len(found) < 3:
        found.append(frames(folder / f"{tab}{len(found)}.jsonl", tab, 64, 1_000))
        if max(found[-1][0]) < 33:
            break
    return min(found, key=lambda one: max(one[0]))


def rows() -> Iterator[Row]:
    if find_spec("playwright") is None or shutil.which("chromium") is None:
        yield Row("the page", "playwright or chromium is not installed")
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wide(folder / "wide.jsonl", 256, 1_000_000)
        whole, page, memory = first_picture(folder / "wide.jsonl", 257)
        detail = f"{whole:.2f} s with the start of the program; {in_tab(memory)}"
        yield under("256 forks of 1 MB: the page's first picture", page, 1, detail, " s")
        long(folder / "long.jsonl", 100_000_000)
        size = (folder / "long.jsonl").stat().st_size
        found = re.findall(rb'"k":"request"', (folder / "long.jsonl").read_bytes())
        whole, page, memory = first_picture(folder / "long.jsonl", len(found))
        detail = f"{whole:.2f} s with the start; {size / 1e6:.0f} MB; {in_tab(memory)}"
        yield under("a journal of 100 MB: the page's first picture", page, 2, detail, " s")
        for tab in ("Bytes", "Agents", "Timeline", "Transcript"):
            taken, shown, requests = calmest(folder, tab)
            rate = 1_000 * len(taken) / sum(taken)
            detail = f"{rate:.0f} frames a second; {shown} calls, {requests} requests"
            what = f"64 forks, 1,000 events a second: the worst frame of {tab}"
            yield under(what, max(taken), 33, detail, " ms")
        yield from looked_at()


if __name__ == "__main__":
    raise SystemExit(show(rows()))
