"""What Prong starts ends with it, also if it is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from prong.host.escape import escaped
from prong.host.guardian import GUARDIAN, MARK, Guardian
from prong.host.local_host import LocalHost
from prong.testing import Script, Worlds, call, forks, report, say
from shared.running import runs

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("T8")]

ALLOWED = ("--permission-mode", "bypassPermissions")
DAEMON = (
    "setsid sleep 1000 & until [ $(ps -o sid= -p $!) -eq $! ]; do sleep 0.02; done; "
    "ps -o pid= --ppid $PPID > seen; echo $! > daemon"
)
"""Starts a process that leaves its group; tells its number, and of all that Prong has started."""


async def gone(pid: int) -> bool:
    """Wait until a process is gone, or a zombie that nobody reaps."""
    with anyio.move_on_after(50):
        while runs(pid):
            await anyio.sleep(0.02)
        return True
    return False


def was_ended(process: subprocess.Popen[bytes]) -> bool:
    """Wait until a process was ended by a signal: by force, if it was kept from hearing the first."""
    return process.wait(60) in {-signal.SIGTERM, -signal.SIGKILL}


async def pid_in(path: Path) -> int:
    """Wait for a process to write its id."""
    with anyio.fail_after(40):
        while not (path.exists() and path.read_text().endswith("\n")):
            await anyio.sleep(0.02)
    return int(path.read_text())


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """Give a process that is none of Prong's business, in a group of its own."""
    with subprocess.Popen(["sleep", "1000"], start_new_session=True) as process:
        yield process
        process.kill()


@pytest.fixture
def group() -> Iterator[subprocess.Popen[bytes]]:
    """Give a process that a guardian is to end."""
    with subprocess.Popen(["sleep", "1000"], start_new_session=True) as process:
        yield process
        process.kill()


class Host:
    """Somebody who holds a guardian."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.warn: Callable[[str], None] | None = self.told.append


async def test_killed_with_commands_of_all_kinds(
    world: Worlds, program: Any, stranger: subprocess.Popen[bytes]
) -> None:
    """A kill ends foreground, background and a child's background commands, and nobody else's."""
    back = {"command": "echo $$ > back; sleep 1000", "run_in_background": True}
    far = {"command": "echo $$ > far; sleep 1000 & sleep 1000", "run_in_background": True}
    front = {"command": "until [ -s far ]; do sleep 0.02; done; echo $$ > front; sleep 1000"}
    script = Script(
        [call("Bash", back), forks("Part 1."), call("Bash", front), say("I see.")],
        {"Part 1.": [call("Bash", far), say("Waiting."), report()]},
        forever=say("Done."),
    )
    async with world(script, opens=False) as w:
        process = await program.start(w, "-p", "Go", *ALLOWED)
        async with process:
            await process.stdin.aclose()
            pids = [await pid_in(w.root / name) for name in ("front", "back", "far")]
            assert all(runs(pid) for pid in pids)
            process.kill()
            await process.wait()
        assert [await gone(pid) for pid in pids] == [True] * 3
        assert stranger.poll() is None
        others = {"events.jsonl", "outbox.jsonl"}
        (journal,) = [path for path in w.store.rglob("*.jsonl") if path.name not in others]
        with anyio.fail_after(50):
            # Their own children are ended with them, and may take a moment longer.
            while escaped(journal.stem):
                await anyio.sleep(0.02)
        done = await program.run(w, "-p", "Again", "--continue", *ALLOWED)
        assert done.returncode == 0, done.stderr
        told = w.server.records[-1].body.decode()
        assert told.count("ended with the session") >= 1
        assert b"still runs" not in done.stderr
        assert b"task-1 (echo $$ > back; sleep 1000) ended with the process" in done.stderr


async def test_a_daemon_does_not_hold_the_guardian(world: Worlds, program: Any) -> None:
    """Who has left the group lives on and is named at resume; the command it came from ends."""
    front = {"command": "echo $$ > front; sleep 1000"}
    script = [call("Bash", {"command": DAEMON}), call("Bash", front), say("I see.")]
    async with world(script, opens=False) as w:
        process = await program.start(w, "-p", "Go", *ALLOWED)
        async with process:
            await process.stdin.aclose()
            pid, daemon = await pid_in(w.root / "front"), await pid_in(w.root / "daemon")
            process.kill()
            await process.wait()
        try:
            assert await gone(pid)
            assert runs(daemon)
            done = await program.run(w, "-p", "Again", "--continue", *ALLOWED)
            assert f"process {daemon} (sleep 1000), which it started earlier" in str(done.stderr)
        finally:
            os.kill(daemon, signal.SIGKILL)


async def test_an_ordinary_end_leaves_nothing(world: Worlds, program: Any) -> None:
    """Neither the guardian nor commands outlive a session; a daemon that does is named."""
    back = {"command": "sleep 1000", "run_in_background": True}
    script = [call("Bash", c) for c in (back, {"command": DAEMON}, {"command": "sleep 1000"})]
    async with world(script, opens=False) as w:
        process = await program.start(w, "-p", "Go", *ALLOWED)
        async with process:
            await process.stdin.aclose()
            daemon = await pid_in(w.root / "daemon")
            process.terminate()
            with anyio.fail_after(40):
                said = b"".join([part async for part in process.stderr]).decode()
                await process.wait()
        try:
            children = [int(pid) for pid in (w.root / "seen").read_text().split()]
            assert len(children) == 3, "a guardian and two commands"
            assert not any(runs(pid) for pid in children)
            assert f"process {daemon} (sleep 1000), which it started, has left" in said
        finally:
            # If its command had ended before the signal came, the session ended it too.
            with suppress(ProcessLookupError):
                os.kill(daemon, signal.SIGKILL)


@pytest.fixture
def nobody() -> None:
    """Have no guardian of hosts that others have left open in this process."""
    GUARDIAN._holders.clear()
    GUARDIAN._groups.clear()
    GUARDIAN.release(Host())
    assert GUARDIAN.pid is None


@pytest.mark.usefixtures("nobody")
async def test_a_session_without_commands_has_no_guardian(world: Worlds) -> None:
    """Opening a session and talking starts no process."""
    async with world([say("Hello.")]) as w:
        await w.session.run("Hi")
        assert GUARDIAN.pid is None


@pytest.mark.usefixtures("nobody")
@pytest.mark.parametrize("halted", [False, True])
async def test_it_ends_with_the_last_host(tmp_path: Path, halted: bool) -> None:
    """One guardian serves all hosts, and is reaped when the last is closed, however slow it is."""
    one, other = LocalHost(tmp_path), LocalHost(tmp_path)
    await one.run(["true"])
    pid = GUARDIAN.pid
    assert pid is not None
    await other.run(["true"])
    assert GUARDIAN.pid == pid
    await one.close()
    assert runs(pid)
    if halted:
        os.kill(pid, signal.SIGSTOP)
    await other.close()
    assert GUARDIAN.pid is None
    assert not Path(f"/proc/{pid}").exists()


async def test_the_rest_of_a_group_ends_too(tmp_path: Path) -> None:
    """A group whose leader has ended is ended with what is left of it."""
    code = (
        "import anyio, os, signal, sys\n"
        "from prong.host import LocalHost\n"
        "async def main():\n"
        "    host = LocalHost(sys.argv[1])\n"
        "    await (await host.start('sleep 1000 & echo $! > rest')).wait()\n"
        "    copy = os.fork()\n"
        "    if not copy: signal.pause()\n"
        "    print(copy, flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "anyio.run(main)\n"
    )
    words = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        copy = int(process.stdout.readline())
        try:
            assert await gone(await pid_in(tmp_path / "rest")), "though a copy of its parent lives"
        finally:
            os.kill(copy, signal.SIGKILL)


async def test_a_number_that_is_in_use_again(
    stranger: subprocess.Popen[bytes], group: subprocess.Popen[bytes]
) -> None:
    """A group without its leader is not ours any more if there is a process of its number."""
    guardian = Guardian()
    guardian.ready()
    guardian.tell("=", stranger.pid)
    guardian.tell("+", group.pid)
    await _abandon(guardian)
    assert was_ended(group)
    assert stranger.poll() is None


async def test_killed_before_its_number_is_known(stranger: subprocess.Popen[bytes]) -> None:
    """A command that was started and not yet told of is found by its mark, with its group."""
    guardian = Guardian()
    env = {**os.environ, MARK: guardian.expect()}
    words = ["bash", "-c", "sleep 1000 & sleep 1000; true"]
    with subprocess.Popen(words, env=env, start_new_session=True) as command:
        await _abandon(guardian)
        assert was_ended(command)
    assert stranger.poll() is None


@pytest.mark.usefixtures("nobody")
async def test_what_could_not_be_started_is_not_looked_for(
    group: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    """An announcement is taken back, so that whoever has the mark by chance is left alone."""
    guardian = Guardian()
    guardian.ready()
    guardian.tell("+", group.pid)
    env = {**os.environ, MARK: guardian.expect()}
    with subprocess.Popen(["sleep", "1000"], env=env, start_new_session=True) as chance:
        guardian.give_up()
        await _abandon(guardian)
        assert was_ended(group)
        assert chance.poll() is None
        chance.kill()
    host = LocalHost(tmp_path / "nowhere")
    with pytest.raises(OSError, match="nowhere"):
        await host.start("true", env={})
    await host.close()
    assert GUARDIAN.pid is None


async def test_a_group_that_is_no_more_is_not_ended(
    stranger: subprocess.Popen[bytes], group: subprocess.Popen[bytes]
) -> None:
    """What was told to be empty is left alone, whatever its number is by now."""
    guardian = Guardian()
    guardian.ready()
    for pid in (1 << 30, stranger.pid, group.pid):
        guardian.tell("+", pid)
    guardian.tell("-", stranger.pid)
    await _abandon(guardian)
    assert was_ended(group)
    assert stranger.poll() is None


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
async def test_another_takes_its_place(group: subprocess.Popen[bytes], how: int) -> None:
    """A guardian that was killed or halted is replaced by one that knows as much."""
    guardian = Guardian()
    guardian.ready()
    first = guardian.pid
    assert first is not None
    guardian.tell("+", group.pid)
    os.kill(first, how)
    assert how == signal.SIGSTOP or await gone(first)
    for _ in range(20_000):
        guardian.tell("+", 1 << 30)
        if guardian.pid != first:
            break
    assert guardian.pid != first
    assert await gone(first)
    assert group.poll() is None
    await _abandon(guardian)
    assert was_ended(group)


async def test_without_a_guardian(monkeypatch: pytest.MonkeyPatch) -> None:
    """If there can be none it is said once, and everything else goes on."""
    guardian, host = Guardian(), Host()
    guardian.hold(host)
    monkeypatch.setenv("PATH", "/nowhere")
    for number in (1 << 30, (1 << 30) + 1):
        guardian.ready()
        guardian.tell("+", number)
        guardian.tell("-", number)
    (said,) = host.told
    assert "could not be started" in said
    guardian.release(host)


async def _abandon(guardian: Guardian) -> None:
    """Close the pipe as the kernel does when Prong is killed."""
    pid = guardian.pid
    assert pid is not None
    pipe = Path(f"/proc/{pid}/fd/0").readlink()
    for fd in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            if fd.readlink() == pipe:
                os.close(int(fd.name))
    # Its number may be another's by now, which a copy of this process would close.
    guardian._pipe = -1
