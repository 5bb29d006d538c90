"""Forks on another machine: their start, events and delay, memory, and bytes on the line.

python bench/remote.py
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
from fork_prong import entries
from measure import Row, show

from prong.event import TextDelta
from prong.host import LocalHost
from prong.host.bundle import offer, pack
from prong.host.git import Git
from prong.host.worktree import reserve
from prong.session import Session, open_session
from prong.testing import (
    Options,
    Script,
    Server,
    ServerProcess,
    Step,
    call,
    delay,
    inside,
    report,
    say,
)
from prong.testing.ray_cluster import HAS_RAY, ray_cluster
from prong.testing.request import Request

TOKENS = 500_000
MANY = (1, 8, 32)
ROOM = (1, 2, 4)
STREAMS = 20
WORDS = 3_000
TICKS = 12
REPOSITORY = 20
BUNDLE = 10_000
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


def workers(folder: Path) -> set[int]:
    """Give the processes that hold workspaces in a folder, by git's own word."""
    words = [lock.read_text().split() for lock in folder.glob("*/.git/worktrees/*/locked")]
    return {int(one[one.index("process") + 1]) for one in words}


def memory(pid: int) -> tuple[int, int, int]:
    """Give what a process holds, the most that it has held, and what nobody else has of it."""
    status = Path(f"/proc/{pid}/status").read_text()
    held, most = (int(status.partition(f"{one}:")[2].split()[0]) for one in ("VmRSS", "VmHWM"))
    parts = Path(f"/proc/{pid}/smaps_rollup").read_text()
    own = (int(parts.partition(f"Private_{one}:")[2].split()[0]) for one in ("Clean", "Dirty"))
    return held * 1024, most * 1024, sum(own) * 1024


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
    found = [memory(one) for one in workers(far)]
    held, most, own = (sum(column) for column in zip(*found, strict=True))
    for place in far.glob("*/.prong/worktrees"):
        (place / "go").write_text("")
    await session.wait_settled()
    receipts = session.receipts()
    assert [one.status for one in receipts] == ["completed"] * many
    sent = sum(one.bytes_sent for one in receipts)
    return {
        "workers": len(found),
        "held": held,
        "peak": most,
        "own": own,
        "sent": sent,
        "prompt": prompt,
    }


async def work(url: str, many: int, folder: Path, target: str) -> dict[str, float]:
    async with opened(url, folder, json.loads(target)) as session:
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


def tell_time(request: Request) -> Step:
    """Answer by what time it is: all machines here have one clock."""
    if not any(rb"Directive:\nTICK-" in one.raw for one in request.blocks):
        return say("Ok.")
    done = sum(one.kind == "tool_use" for one in request.blocks)
    if done >= TICKS:
        return report()
    return say(f"{time.time()} ", then=call("Bash", {"command": f"sleep 0.4; : {done}"}))


async def serve_time() -> None:
    async with Server(tell_time, options=Options(keep_bodies=False)) as server:
        print(server.url, flush=True)
        await anyio.sleep_forever()


@contextmanager
def clock() -> Generator[str]:
    """Give the address of a server that says what time it is, in a process of its own."""
    words = [sys.executable, __file__, "clock"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


async def tick(session: Session, isolation: Any, many: int) -> list[float]:
    """Give the seconds from a server's word to its event here, with so many forks at once."""
    await session.run("Are you ready?")
    took: list[float] = []
    async with anyio.create_task_group() as group:

        async def read() -> None:
            async for one in session.events():
                # The last of each is its report.
                if isinstance(one.event, TextDelta) and one.event.text[0].isdigit():
                    took.append(time.time() - float(one.event.text))  # noqa: PERF401 - never ends

        group.start_soon(read)
        directives = [f"TICK-{number}. Say." for number in range(1, many + 1)]
        await session.start_forks(directives, isolation=isolation)
        await session.wait_settled()
        group.cancel_scope.cancel()
    assert [one.status for one in session.receipts()] == ["completed"] * many
    return sorted(took)


async def timed(url: str, folder: Path, target: dict[str, Any], isolation: Any) -> dict[str, Any]:
    async with opened(url, folder / "one", target) as session:
        took = await start(session, isolation, 4)
    async with opened(url, folder / "two", target) as session:
        rate = await pour(session, isolation, STREAMS)
    with clock() as url:
        async with opened(url, folder / "three", target) as session:
            late = await tick(session, isolation, STREAMS)
    half, most = late[len(late) // 2], late[len(late) * 99 // 100]
    return {"cold": took[0], "warm": min(took[1:]), "rate": rate, "half": half, "most": most}


def launchers(folder: Path) -> Iterator[tuple[str, dict[str, Any], str | None]]:
    """Give what can be measured here, each while it is there."""
    yield "local fork", {"launcher": "process"}, None
    yield "local fork in a worktree", {"launcher": "process"}, "worktree"
    yield "process", {"launcher": "process"}, "remote"
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from prong.testing.ssh_host import HAS_SSH, ssh_host

    if HAS_SSH:
        with ssh_host(folder / "ssh") as host:
            os.environ["PATH"] = f"{host.bin}:{os.environ['PATH']}"
            yield "ssh", {"launcher": "ssh", "host": host.name, "python": sys.executable}, "remote"
    if HAS_RAY:
        with ray_cluster() as up:
            yield "ray", {"launcher": "ray", "address": up.address}, "remote"


def measured(many: int, target: dict[str, Any] | None = None) -> dict[str, float]:
    with (
        tempfile.TemporaryDirectory() as folder,
        ServerProcess(script(many), options=Options(keep_bodies=False)) as server,
    ):
        told = json.dumps(target or {"launcher": "process"})
        given = [sys.executable, __file__, server.url, str(many), folder, told]
        done = subprocess.run(given, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)


def on_cluster() -> Iterator[Row]:
    """Let Ray find room for several workers on one machine, and on two, and count what is there."""
    if not HAS_RAY:
        return
    with ray_cluster() as up:
        target: dict[str, Any] = {"launcher": "ray", "address": up.address}
        for room in ROOM:
            one = {**target, "labels": {"zone": "b"}, "workers": room}
            for many in MANY:
                here = measured(many, {**one, "resources": {"CPU": 2 / room}})
                yield counted(f"{many} forks, 1 machine with room for {room}", here, machines=1)
        both = measured(8, {**target, "workers": 4})
        yield counted("8 forks, 2 machines with room for 4", both, machines=2)


def counted(what: str, here: dict[str, float], *, machines: int) -> Row:
    workers = f"{here['workers']:.0f} workers, {here['own'] / _MB:.1f} MB of their own"
    text = f"{workers}, {here['sent'] / _MB:.1f} MB sent"
    good = here["workers"] == machines and here["sent"] < 2 * machines * here["prompt"]
    return Row(f"remote: {what}", text, f"{machines} workers, 1 prompt each", good)


def compared() -> Iterator[Row]:
    """Compare ways to start a fork, in one process after the other."""
    plain = {f"PLAIN-{number}.": [report()] for number in range(1, 9)}
    text = " ".join(f"word{number}" for number in range(WORDS))
    # Pieces that arrive together become one event.
    apart = delay(between=0.001, then=say(text))
    streams = {f"POUR-{number}.": [apart] for number in range(1, STREAMS + 1)}
    given = Script([], {**plain, **streams}, forever=say("Ok."))
    with tempfile.TemporaryDirectory() as folder:
        for name, target, isolation in launchers(Path(folder)):
            place = Path(tempfile.mkdtemp(dir=folder))
            with ServerProcess(given, options=Options(keep_bodies=False)) as server:
                found = anyio.run(timed, server.url, place, target, isolation)
            took = f"{found['cold']:.2f} s, then {found['warm']:.2f} s"
            yield Row(f"remote: {name}, wish to first request", took)
            rate = f"{found['rate']:,.0f} per second"
            yield Row(f"remote: {name}, events of {STREAMS} forks at once", rate)
            late = (
                f"{found['half'] * 1e3:.0f} ms, for one in a hundred {found['most'] * 1e3:.0f} ms"
            )
            yield Row(f"remote: {name}, delay of events of {STREAMS} forks at once", late)


async def bundled(folder: Path) -> tuple[int, int]:
    """Give the bytes of all of a repository, and of three changed files of it, as they are sent."""
    project = folder / "project"
    repository(project)
    for number in range(REPOSITORY * 10):
        (project / f"{number}.bin").write_bytes(os.urandom(_MB // 10))
    for number in range(3):
        lines = (f"a{number}_{n} = {n * 7919 % 1_000}\n" for n in range(2_000))
        (project / f"{number}.py").write_text("".join(lines))
    git = Git(LocalHost(str(project)), str(project))
    who = ("-c", "user.name=T", "-c", "user.email=t@example.invalid")
    await git.run("add", ".")
    await git.run(*who, "commit", "-qm", "large")
    there = await git.run("rev-parse", "HEAD")
    for number in range(3):
        with (project / f"{number}.py").open("a") as file:
            file.write(f"changed = {number}\n")
    near = await reserve(LocalHost(str(project)), "it", base="snapshot")
    start = near.snapshot_commit
    offered = await offer(git, start)
    assert there in offered
    whole, changed = folder / "whole", folder / "changed"
    await pack(git, "it", start, (), str(whole))
    await pack(git, "it", start, (there,), str(changed))
    return whole.stat().st_size, changed.stat().st_size


def sent() -> Row:
    with tempfile.TemporaryDirectory() as folder:
        whole, changed = anyio.run(bundled, Path(folder))
    text = f"{changed:,} bytes; all of it {whole / _MB:.1f} MB"
    what = f"remote: 3 changed files of a repository of {REPOSITORY} MB"
    return Row(what, text, f"< {BUNDLE // 1000} kB", changed < BUNDLE)


def rows() -> Iterator[Row]:
    yield sent()
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
    yield from on_cluster()


if __name__ == "__main__":
    if sys.argv[1:] == ["clock"]:
        anyio.run(serve_time)
    elif sys.argv[1:]:
        url, many, folder, target = sys.argv[1:]
        print(json.dumps(anyio.run(work, url, int(many), Path(folder), target)))
    else:
        raise SystemExit(show(rows()))
