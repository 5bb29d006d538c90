"""The page: its first picture, and its frames while many agents work; in a real chromium."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator
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


def burst(path: Path, *, agents: int, rate: int, seconds: float) -> int:
    """Write the events of agents at work, so many a second, as a session would."""
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


def first_picture(path: Path, requests: int) -> tuple[float, float, float]:
    """Give the seconds from the start of `prong web` to a picture, and from opening the page."""
    start = time.perf_counter()
    with opened(path) as (page, address):
        asked = time.perf_counter()
        page.goto(address.strip())
        until(page, f"window.__prong?.rows().length === {requests}")
        page.evaluate(
            "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )
        ended = time.perf_counter()
        memory = page.evaluate("performance.memory.usedJSHeapSize")
    return ended - start, ended - asked, memory


def frames(path: Path, tab: str, agents: int, rate: int) -> tuple[list[float], int]:
    """Give how long each frame of a tab took while events came, and how many calls were shown."""
    seconds = 6.0
    wide(path, 3, 10_000)
    path.with_suffix("").mkdir()
    path.with_suffix(".lock").write_text(f"{os.getpid()}\n")
    events = path.with_suffix("") / "events.jsonl"
    with opened(path) as (page, address):
        page.goto(address.strip())
        page.get_by_role("tab", name=tab).click()
        writer = Thread(
            target=burst,
            args=(events,),
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
    return taken, shown


def rows() -> Iterator[Row]:
    if find_spec("playwright") is None or shutil.which("chromium") is None:
        yield Row("the page", "playwright or chromium is not installed")
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wide(folder / "wide.jsonl", 256, 1_000_000)
        whole, page, memory = first_picture(folder / "wide.jsonl", 257)
        detail = f"{whole:.2f} s with the start of the program; {memory / 1e6:.0f} MB in the tab"
        yield under("256 forks of 1 MB: the page's first picture", page, 1, detail, " s")
        long(folder / "long.jsonl", 100_000_000)
        size = (folder / "long.jsonl").stat().st_size
        found = re.findall(rb'"k":"request"', (folder / "long.jsonl").read_bytes())
        whole, page, memory = first_picture(folder / "long.jsonl", len(found))
        detail = f"{whole:.2f} s with the start; {size / 1e6:.0f} MB; tab {memory / 1e6:.0f} MB"
        yield under("a journal of 100 MB: the page's first picture", page, 2, detail, " s")
        for tab in ("Agents", "Timeline", "Transcript"):
            taken, shown = frames(folder / f"{tab}.jsonl", tab, 64, 1_000)
            detail = f"{1_000 * len(taken) / sum(taken):.0f} frames a second; {shown} calls shown"
            what = f"64 forks, 1,000 events a second: the worst frame of {tab}"
            yield under(what, max(taken), 33, detail, " ms")


if __name__ == "__main__":
    raise SystemExit(show(rows()))
