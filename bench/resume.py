"""Resume a journal that holds a million tokens of conversation."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import conversation
from measure import Row, under

from prong.journal.record import Opened
from prong.journal.writer import Journal
from prong.prompt import Prompt

TOKENS, LETTERS_PER_TOKEN = 1_000_000, 4.5
AGENT = "main"

# Tracing memory takes time, so the clock and the peak are read in different runs.
_CHILD = """
import sys, time, tracemalloc
from pathlib import Path
from prong.journal.writer import Journal
if sys.argv[2] == "memory":
    tracemalloc.start()
start, busy = time.perf_counter(), time.process_time()
journal, replay = Journal.resume(Path(sys.argv[1]))
taken = time.perf_counter() - start, time.process_time() - busy
assert len(replay.agents["main"]) > 4_500_000
peak = tracemalloc.get_traced_memory()[1]
journal.close()
print(*taken, peak)
"""


def _write(path: Path) -> None:
    opened = Opened(session=path.stem, created=time.time(), cwd="/", program="bench")
    prompt = Prompt(conversation.head())
    with Journal.create(path, opened) as journal:
        for entry in conversation.entries(int(TOKENS * LETTERS_PER_TOKEN)):
            prompt = prompt.append(entry)
            journal.keep(AGENT, prompt)


def _resumed(path: Path, what: str) -> tuple[float, ...]:
    argv = [sys.executable, "-c", _CHILD, str(path), what]
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    return tuple(float(word) for word in done.stdout.split())


def rows() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "long.jsonl"
        _write(path)
        size = path.stat().st_size
        wall, busy, _ = min(_resumed(path, "time") for _ in range(5))
        _, _, memory = _resumed(path, "memory")
    detail = f"{busy * 1e3:.0f} ms of processor time; {size / 1e6:.1f} MB"
    yield under("resume of a journal of 1,000,000 tokens", wall, 1, detail, " s")
    yield under("its peak memory, against the file", memory / size, 4, f"{memory / 1e6:.1f} MB")
