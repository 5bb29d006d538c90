"""Forks on another machine: memory of their worker, bytes on the line, and the start of one.

python bench/remote.py
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
from fork_prong import entries
from measure import Row, show

from prong.event import TextDelta
from prong.session import Session, open_session
from prong.testing import Options, Script, ServerProcess, call, inside, report, say

TOKENS = 500_000
MANY = (1, 8, 32)
STREAMS = 20
WORDS = 3_000
_MB = 1024 * 1024
WAIT = call("Bash", {"command": "touch began; while [ ! -e ../go ]; do sleep 0.2; done"})


def script(many: int) -> Script:
    routes = {f"PART-{number}.": [WAIT, report()] for number in range(1, many + 1)}
    return Script([say("Yes.")], routes, forever=say("Ok."))


def repository(folder: Path) -> None:
    folder.mkdir(parents=True)
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


def opened(url: str, folder: Path, target: dict[str, Any]) -> Any:
    repository(folder / "project")
    far = {"folder": str(folder / "far"), **target}
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
    async with opened(url, folder, {"launcher": "process"}) as session:
        return await share(session, folder, many)


async def start(session: Session, isolation: Any, times: int) -> list[float]:
    """Give the seconds from the wish for a fork to its first request, for one after the other."""
    await session.run("Are you ready?")
    took: list[float] = []
    for number in range(1, times + 1):
        begun = time.time()
        (task,) = await session.start_forks([f"PLAIN-{number}. Say."], isolation=isolation)
        await session.wait_settled()
        agent = next(one for one in session.view().agents.values() if one.task_id == task)
        assert agent.ended == "completed", agent.detail
        took.append(agent.sent_at - begun)
    return took


async def pour(session: Session, isolation: Any, many: int) -> float:
    """Give the events per second of so many forks that all stream at once."""
    await session.run("Are you ready?")
    count, first, last = 0, 0.0, 0.0
    async with anyio.create_task_group() as group:

        async def read() -> None:
            nonlocal count, first, last
            async for one in session.events():
                if one.agent != "main" and isinstance(one.event, TextDelta):
                    count, last = count + 1, time.monotonic()
                    first = first or last

        group.start_soon(read)
        directives = [f"POUR-{number}. Say." for number in range(1, many + 1)]
        await session.start_forks(directives, isolation=isolation)
        await session.wait_settled()
        group.cancel_scope.cancel()
    assert [one.status for one in session.receipts()] == ["completed"] * many
    return count / (last - first)


async def timed(url: str, folder: Path, target: dict[str, Any], isolation: Any) -> dict[str, Any]:
    async with opened(url, folder / "one", target) as session:
        took = await start(session, isolation, 4)
    async with opened(url, folder / "two", target) as session:
        rate = await pour(session, isolation, STREAMS)
    return {"cold": took[0], "warm": min(took[1:]), "rate": rate}


def launchers(folder: Path) -> Iterator[tuple[str, dict[str, Any], str | None]]:
    """Give what can be measured here, each while it is there."""
    yield "local fork", {"launcher": "process"}, None
    yield "local fork in a worktree", {"launcher": "process"}, "worktree"
    yield "process", {"launcher": "process"}, "remote"
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from shared.ray_cluster import HAS_RAY, ray_cluster
    from shared.ssh import SSHD, ssh_host

    if SSHD is not None:
        with ssh_host(folder / "ssh") as host:
            os.environ["PATH"] = f"{host.bin}:{os.environ['PATH']}"
            yield "ssh", {"launcher": "ssh", "host": host.name, "python": sys.executable}, "remote"
    if HAS_RAY:
        with (
            tempfile.TemporaryDirectory(prefix="r", dir="/tmp") as ray,
            ray_cluster(Path(ray)) as up,
        ):
            yield "ray", {"launcher": "ray", "address": up.address}, "remote"


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


def compared() -> Iterator[Row]:
    """Compare ways to start a fork, in one process after the other."""
    plain = {f"PLAIN-{number}.": [report()] for number in range(1, 9)}
    text = " ".join(f"word{number}" for number in range(WORDS))
    streams = {f"POUR-{number}.": [say(text)] for number in range(1, STREAMS + 1)}
    given = Script([], {**plain, **streams}, forever=say("Ok."))
    with tempfile.TemporaryDirectory() as folder:
        for name, target, isolation in launchers(Path(folder)):
            place = Path(tempfile.mkdtemp(dir=folder))
            with ServerProcess(given, options=Options(keep_bodies=False)) as server:
                found = anyio.run(timed, server.url, place, target, isolation)
            took = f"{found['cold']:.2f} s, then {found['warm']:.2f} s"
            yield Row(f"remote: {name}, wish to first request", took)
            rate = f"{found['rate']:,.0f} per second"
            yield Row(f"remote: {name}, pieces of text of {STREAMS} forks at once", rate)


def rows() -> Iterator[Row]:
    yield from compared()
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
