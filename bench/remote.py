"""Forks on another machine: memory of their worker, bytes on the line, and the start of one.

python bench/remote.py
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
from fork_prong import entries
from measure import Row, show

from prong.session import Session, open_session
from prong.testing import Options, Script, ServerProcess, call, inside, report, say

TOKENS = 500_000
MANY = (1, 8, 32)
_MB = 1024 * 1024
WAIT = call("Bash", {"command": "touch began; while [ ! -e ../go ]; do sleep 0.2; done"})


def script(many: int) -> Script:
    routes = {f"PART-{number}.": [WAIT, report()] for number in range(1, many + 1)}
    return Script([say("Yes.")], routes, forever=say("Ok."))


def repository(folder: Path) -> None:
    folder.mkdir()
    (folder / "a.txt").write_text("one\n")
    for words in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=T", "-c", "user.email=t@example.invalid", "commit", "-qm", "first"],
    ):
        subprocess.run(["git", *words], cwd=folder, check=True)


def worker() -> int:
    """Give the one worker that this process has started."""
    found: list[int] = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((place / "stat").read_bytes().rpartition(b")")[2].split()[1])
            if parent == os.getpid() and b"\0worker\0" in (place / "cmdline").read_bytes():
                found.append(int(place.name))
        except OSError:
            continue
    (one,) = found
    return one


def memory(pid: int) -> tuple[int, int]:
    """Give what a process holds, and the most that it has held."""
    status = Path(f"/proc/{pid}/status").read_text()
    held = int(status.partition("VmRSS:")[2].split()[0]) * 1024
    return held, int(status.partition("VmHWM:")[2].split()[0]) * 1024


def opened(url: str, folder: Path) -> Any:
    repository(folder / "project")
    far = {"launcher": "process", "folder": str(folder / "far")}
    return open_session(
        model="claude-sonnet-5-5",
        base_url=url,
        api_key="k",
        cwd=str(folder / "project"),
        store=str(folder / "store"),
        mode="bypassPermissions",
        env={"HOME": str(folder), "PATH": os.environ["PATH"]},
        settings=json.dumps({"remote": {"targets": {"box": far}}}),
    )


async def began(far: Path, many: int) -> None:
    while len(list(far.glob("*/.prong/worktrees/*/began"))) < many:
        await anyio.sleep(0.02)


async def share(session: Session, folder: Path, many: int) -> dict[str, float]:
    """Let so many forks of a long conversation work at once, and look at their worker."""
    far = folder / "far"
    inside(session).agent.conversation.append(*entries(TOKENS))
    await session.run("Are you ready?")
    prompt = len(inside(session).agent.conversation.prompt)
    directives = [f"PART-{number}. Wait." for number in range(1, many + 1)]
    await session.start_forks(directives, isolation="remote")
    with anyio.fail_after(300):
        await began(far, many)
    held, most = memory(worker())
    for place in far.glob("*/.prong/worktrees"):
        (place / "go").write_text("")
    await session.wait_settled()
    receipts = session.receipts()
    assert [one.status for one in receipts] == ["completed"] * many
    sent = sum(one.bytes_sent for one in receipts)
    return {"held": held, "peak": most, "sent": sent, "prompt": prompt}


async def work(url: str, many: int, folder: Path) -> dict[str, float]:
    async with opened(url, folder) as session:
        return await share(session, folder, many)


def measured(many: int) -> dict[str, float]:
    with (
        tempfile.TemporaryDirectory() as folder,
        ServerProcess(script(many), options=Options(keep_bodies=False)) as server,
    ):
        given = [sys.executable, __file__, server.url, str(many), folder]
        done = subprocess.run(given, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)


def rows() -> Iterator[Row]:
    found = {many: measured(many) for many in MANY}
    one = found[1]
    for many in MANY:
        here = found[many]
        text = f"{here['held'] / _MB:.1f} MB, at most {here['peak'] / _MB:.1f} MB"
        crossed = f"{here['sent'] / _MB:.1f} MB sent for a prompt of {here['prompt'] / _MB:.1f} MB"
        yield Row(f"remote: worker of {many} forks of {TOKENS:,} tokens", f"{text}; {crossed}")
    most = max(MANY)
    each = (found[most]["held"] - one["held"]) / (most - 1) / _MB
    yield Row(
        "remote: memory that a further fork takes there", f"{each:.2f} MB", "< 1 MB", each < 1
    )


if __name__ == "__main__":
    if sys.argv[1:]:
        print(json.dumps(anyio.run(work, sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))))
    else:
        raise SystemExit(show(rows()))
