"""The local host with real files and processes."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from prong.host import Finished, LocalHost
from prong.host import process as process_module
from prong.host.process import Group, LocalProcess, Pipe, Streams
from shared.running import runs, started_with

pytestmark = [pytest.mark.anyio, pytest.mark.spec("L2"), pytest.mark.door]


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[LocalHost]:
    local = LocalHost(tmp_path, home=str(tmp_path / "home"))
    yield local
    await local.close()


async def gone(pid: int) -> bool:
    """Wait until a process is gone, or a zombie that nobody reaps."""
    with anyio.move_on_after(50):
        while runs(pid):
            await anyio.sleep(0.01)
        return True
    return False


TIMES = (0.5, 5.0, 20.0)
"""Seconds to run for: who was ended before it had begun proves nothing, and is given longer."""


def descriptors() -> int:
    """Count the open descriptors of this process, but for those that nobody has any more."""
    gc.collect()
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


async def pid_in(path: Path) -> int:
    """Wait for a process to write its id."""
    with anyio.fail_after(50):
        while not (path.exists() and path.read_text().endswith("\n")):
            await anyio.sleep(0.01)
    return int(path.read_text())


async def test_a_write_keeps_the_permission_bits(host: LocalHost, tmp_path: Path) -> None:
    """A script stays executable, a private file private, and no temporary file stays behind."""
    for name, mode in (("run.sh", 0o755), ("secret", 0o600)):
        (tmp_path / name).write_text("old")
        (tmp_path / name).chmod(mode)
        await host.write(name, b"new")
        assert (tmp_path / name).read_text() == "new"
        assert (tmp_path / name).stat().st_mode & 0o7777 == mode
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run.sh", "secret"]


async def test_a_failed_write_leaves_the_old_content_and_no_rest(
    host: LocalHost, tmp_path: Path
) -> None:
    """A write that fails half-way (no room) changes nothing."""
    (tmp_path / "f").write_text("old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, hard))
    try:
        with pytest.raises(OSError):
            await host.write("f", b"x" * (1 << 18))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)
    assert (tmp_path / "f").read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["f"]


async def test_large_files_go_through(host: LocalHost, tmp_path: Path) -> None:
    """Files past the size that is handled on the spot read and write the same."""
    data = os.urandom(3 << 20)
    await host.write("big", data)
    assert (tmp_path / "big").read_bytes() == data
    assert await host.read("big") == data
    assert await host.read("big", offset=1 << 20, limit=5) == data[1 << 20 :][:5]


async def test_pipes_and_devices_are_refused_at_once(host: LocalHost, tmp_path: Path) -> None:
    """A FIFO without a writer does not hang the reader, and is not replaced by a file."""
    os.mkfifo(tmp_path / "fifo")
    with anyio.fail_after(50):
        for path in ("fifo", "/dev/zero"):
            with pytest.raises(OSError, match="regular"):
                await host.read(path)
        with pytest.raises(OSError, match="regular"):
            await host.write("fifo", b"x")
    found = await host.stat("fifo")
    assert found is not None
    assert found.kind == "other"


async def test_a_file_without_a_size_is_read_whole(host: LocalHost) -> None:
    """Files that only claim to be empty, as under /proc, are read to their end."""
    assert b"Linux" in await host.read("/proc/version")


async def test_input_and_output_larger_than_a_pipe(host: LocalHost) -> None:
    """Much input and much output at once do not lock each other."""
    data = os.urandom(1 << 20)
    finished = await host.run(["cat"], stdin=data)
    assert finished.output == data


async def test_environment_is_added_and_folder_set(host: LocalHost, tmp_path: Path) -> None:
    """A process sees its extra variable, the inherited ones and its folder."""
    (tmp_path / "sub").mkdir()
    process = await host.start(
        'printf "%s %s %s" "$EXTRA" "${PATH:+path}" "$PWD"',
        cwd=str(tmp_path / "sub"),
        env={"EXTRA": "1"},
    )
    assert b"".join([c async for c in process.output()]).decode() == f"1 path {tmp_path}/sub"


async def test_a_program_that_runs_too_long_is_killed_with_its_children(
    host: LocalHost, tmp_path: Path
) -> None:
    """When the time is up the whole group ends, and what was printed is kept."""
    program = ["bash", "-c", "echo early; sleep 500 & echo $! > new; mv new child; wait"]
    finished = Finished(0, b"")
    for seconds in TIMES:
        finished = await host.run(program, seconds=seconds)
        assert finished.timed_out
        assert finished.code < 0
        if (tmp_path / "child").exists():
            break
    assert finished.output == b"early\n"
    assert await gone(await pid_in(tmp_path / "child"))


async def test_a_cancelled_run_leaves_nothing_running(host: LocalHost, tmp_path: Path) -> None:
    """Cancelling the wait for a program ends the program."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(host.run, ["bash", "-c", "echo $$ > me; sleep 500"])
        await pid_in(tmp_path / "me")
        tasks.cancel_scope.cancel()
    assert await gone(await pid_in(tmp_path / "me"))


async def test_kill_ends_the_group_even_if_it_ignores_being_asked(
    host: LocalHost, tmp_path: Path
) -> None:
    """A group that ignores SIGTERM is forced."""
    process = await host.start("trap '' TERM; sleep 60 & echo $! > child; wait; sleep 60")
    child = await pid_in(tmp_path / "child")
    await process.kill()
    assert await gone(child)
    assert await process.wait() == -9


async def test_a_descendant_that_keeps_the_pipe_open_does_not_hang_the_reader(
    host: LocalHost, tmp_path: Path
) -> None:
    """Output ends shortly after the process does, and all it printed itself is there."""
    with anyio.fail_after(40):
        process = await host.start("echo before; sleep 60 & echo $! > child; echo after")
        text = b"".join([c async for c in process.output()])
        assert text == b"before\nafter\n"
        assert await process.wait() == 0
        finished = await host.run(["bash", "-c", "sleep 60 & echo hi"])
        assert finished.output == b"hi\n"
        assert not finished.timed_out
        child = await pid_in(tmp_path / "child")
        assert Path(f"/proc/{child}").exists()
        await host.close()
        assert await gone(child)


async def test_a_flooding_descendant_does_not_hold_the_reader(host: LocalHost) -> None:
    """Even a descendant that prints without end does not keep the output going."""
    with anyio.fail_after(40):
        process = await host.start("yes & echo started")
        size = 0
        async for chunk in process.output():
            size += len(chunk)
        assert size > 0
        await process.kill()


async def test_a_flood_leaves_the_loop_alive(host: LocalHost) -> None:
    """While a command floods its output other tasks still run, and the rest is dropped."""
    beats = 0
    finished = Finished(0, b"")

    async def beat() -> None:
        nonlocal beats
        while True:
            beats += 1
            await anyio.sleep(0.01)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(beat)
        for seconds in TIMES:
            beats = 0
            finished = await host.run(["yes"], seconds=seconds, limit=1000)
            if finished.cut and beats > 3:
                break
        assert finished.cut
        assert len(finished.output) == 1000
        assert beats > 3
        tasks.cancel_scope.cancel()


async def test_a_reader_may_leave_and_another_go_on(host: LocalHost, tmp_path: Path) -> None:
    """Output that a first reader left is there for the next one."""
    process = await host.start("echo one; until [ -e go ]; do sleep 0.01; done; echo two")
    output = process.output()
    assert await anext(output) == b"one\n"
    await output.aclose()  # pyright: ignore[reportAttributeAccessIssue] - it is a generator
    (tmp_path / "go").touch()
    assert b"".join([c async for c in process.output()]) == b"two\n"


async def test_standard_input_is_closed(host: LocalHost) -> None:
    """A command that reads its input ends at once."""
    with anyio.fail_after(50):
        process = await host.start("cat; echo done")
        assert b"".join([c async for c in process.output()]) == b"done\n"


async def test_what_cannot_be_started_raises(host: LocalHost) -> None:
    """A missing folder, an impossible word and a missing program are OSErrors; no pipe leaks."""
    await host.run(["true"])  # the guardian's pipe stays as long as the host
    before = descriptors()
    with pytest.raises(OSError):
        await host.start("true", cwd="/nowhere/at/all")
    with pytest.raises(OSError):
        await host.start("echo a\0b")
    with pytest.raises(OSError):
        await host.run(["echo", "a\0b"])
    assert descriptors() == before


async def test_commands_leave_no_descriptor_behind(host: LocalHost) -> None:
    """Descriptors of ended commands are closed."""
    await host.run(["true"])
    before = descriptors()
    for _ in range(5):
        await host.run(["echo", "hi"])
        process = await host.start("echo hi")
        assert [c async for c in process.output()] == [b"hi\n"]
        await process.wait()
    assert descriptors() == before


class ThreadGroup(Group):
    """A group on a machine without pidfds."""

    def _watch(self) -> None:
        self._watch_in_thread(asyncio.get_running_loop())


async def test_without_pidfds_a_thread_watches(tmp_path: Path) -> None:
    """Where the system has no pidfds the end of a process is seen all the same."""
    pipe = Pipe()
    group = ThreadGroup(
        ["sh", "-c", "echo hi; exit 4"],
        cwd=str(tmp_path),
        env=None,
        streams=Streams(subprocess.DEVNULL, pipe.sink, pipe.sink),
    )
    pipe.close_sink()
    process = LocalProcess(group, pipe)
    with anyio.fail_after(50):
        assert [c async for c in process.output()] == [b"hi\n"]
        assert await process.wait() == 4


SINK = "sink=$(trap -p EXIT | grep -o '>&[0-9]*' | tr -dc 0-9); "


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("exit 3", "end\n"),
        ("set -euxo pipefail; set -C; false", "end\n"),
        ("sleep 60 & disown", "end\n"),
        ("exec true", ""),
        ("kill -9 $$", ""),
        (SINK + 'eval "exec $sink>&-"', ""),
        (SINK + "head -c 1000000 /dev/zero >&$sink 2>/dev/null", None),
    ],
)
async def test_the_end_of_a_shell_is_told_or_not_and_nothing_hangs(
    host: LocalHost, command: str, told: str | None
) -> None:
    """However a command ends or treats the pipe, it ends, and its output shows nothing of that."""
    await (await host.start("true")).wait()
    before = descriptors()
    process = await host.start(command, at_exit="builtin echo end")
    with anyio.fail_after(50):
        await process.wait()
        printed = b"".join([part async for part in process.output()])
    said = process.exit_output()
    await process.kill()

    assert told is None or said == told
    assert b"descriptor" not in printed
    assert b"end" not in printed
    assert descriptors() <= before


async def test_a_signal_shows_in_the_code(host: LocalHost) -> None:
    """A process ended by a signal has its negative number as code."""
    process = await host.start("kill -9 $$")
    assert await process.wait() == -9


DEAF = """
import os, signal, sys, time
heard = []
if os.fork():
    signal.pause()
signal.signal(signal.SIGTERM, lambda *_: heard.append(1))
open("ready", "w").write(f"{os.getpid()}\\n")
while not heard:
    time.sleep(0.01)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
os.execvp("sleep", ["sleep", "600"])
"""


async def test_who_was_being_born_is_asked_again(
    host: LocalHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program whose shell took the signal before it began ends too, and no force is waited for."""
    monkeypatch.setattr(process_module, "GRACE", 600.0)
    (tmp_path / "deaf.py").write_text(DEAF)
    process = await host.start(f"exec {sys.executable} deaf.py")
    pid = await pid_in(tmp_path / "ready")
    with anyio.fail_after(50):
        await process.kill()

    assert await gone(pid)


POLITE = """
import signal, sys, time
told = []
signal.signal(signal.SIGTERM, lambda *_: told.append(1))
open("ready", "w").write(f"1\\n")
while not told:
    time.sleep(0.01)
for _ in range(30):
    time.sleep(0.01)
open("told", "w").write(str(len(told)))
"""


async def test_who_has_heard_is_asked_once(
    host: LocalHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that takes its time to end is left in peace meanwhile."""
    monkeypatch.setattr(process_module, "GRACE", 600.0)
    (tmp_path / "polite.py").write_text(POLITE)
    process = await host.start(f"exec {sys.executable} polite.py")
    await pid_in(tmp_path / "ready")
    with anyio.fail_after(50):
        await process.kill()

    assert (tmp_path / "told").read_text() == "1"


async def test_a_fork_bomb_ends_with_its_group(host: LocalHost) -> None:
    """A command that keeps starting others dies whole."""
    mark = f"prong-bomb-{os.getpid()}-{time.monotonic_ns()}"
    process = await host.start(
        f"f() {{ [ $1 -le 0 ] || {{ f $(($1-1)) & f $(($1-1)) & }}; exec -a {mark} sleep 60; }}; f 4"
    )
    await anyio.sleep(0.5)
    await process.kill()

    with anyio.fail_after(50):
        while started_with(mark):
            await anyio.sleep(0.02)
