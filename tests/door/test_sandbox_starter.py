"""The starter, by which everybody but root starts commands in a view of the files."""

from __future__ import annotations

import errno
import gc
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import anyio
import pytest

from prong.host import LocalHost
from prong.host import process as process_module
from prong.host.sandbox import NONE, spawn, starter
from prong.host.sandbox.starter import STARTER
from prong.tools.derive import working
from shared.sandbox import Bench, views

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("L13"), views]


@pytest.fixture
async def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    monkeypatch.setattr(spawn, "enters_by_thread", lambda: False)
    made = Bench(tmp_path)
    yield made
    await made.host.close()


def running() -> int:
    assert STARTER.pid is not None
    return STARTER.pid


def exists(pid: int) -> bool:
    """Whether a process is there and is no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except OSError:
        return False
    return state not in {b"Z", b"X"}


def words_of(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""


async def gone(pid: int) -> None:
    """Wait until a process has ended with all its threads, which hold what it had open."""
    with anyio.fail_after(50):
        while exists(pid) or len(list(Path(f"/proc/{pid}/task").glob("*"))) > 1:
            await anyio.sleep(0.01)


async def test_one_starter_for_all_commands(bench: Bench) -> None:
    """It is there from the first command on, and ends with the last host."""
    # Of hosts that nobody has any more, some may be there until they are looked for.
    gc.collect()
    profile = working(bench.policy())
    assert (await bench.run("echo one", profile)).text == "one\n"
    pid = running()
    assert (await bench.run("echo two; exit 3", profile))[:2] == (3, "two\n")
    assert running() == pid
    other = LocalHost(bench.root)
    await other.close()
    await bench.host.close()

    assert STARTER.pid is None
    assert not Path(f"/proc/{pid}").exists()


async def test_a_hundred_at_once(bench: Bench) -> None:
    """Each has its own output and exit code, and leaves nothing open behind."""
    profile = working(bench.policy())
    await bench.run("true", profile)
    folder = Path(f"/proc/{running()}/fd")
    before, found = len(list(folder.iterdir())), dict[int, tuple[int, str]]()

    async def one(number: int) -> None:
        ended = await bench.run(f"sleep 0.1; echo {number}; exit {number}", profile)
        found[number] = (ended.code, ended.text)

    async with anyio.create_task_group() as group:
        for number in range(100):
            group.start_soon(one, number)

    assert found == {number: (number, f"{number}\n") for number in range(100)}
    with anyio.fail_after(50):
        while len(list(folder.iterdir())) > before:
            await anyio.sleep(0.01)


async def test_one_that_was_killed_is_replaced(bench: Bench) -> None:
    """The next command does not notice that the starter is gone."""
    profile = working(bench.policy())
    await bench.run("true", profile)
    pid = running()
    os.kill(pid, signal.SIGKILL)
    await gone(pid)

    assert (await bench.run("echo on", profile)).text == "on\n"
    assert running() != pid


async def test_commands_of_one_that_was_killed_end(bench: Bench) -> None:
    """Who could not be told how a command ends ends it, with its group, as by force."""
    line = "sleep 1000 & echo $!; wait"
    process = await bench.host.start(line, env={}, profile=working(bench.policy()))
    chunks = process.output()
    inner = int(await anext(aiter(chunks)))
    os.kill(running(), signal.SIGKILL)
    with anyio.fail_after(50):
        assert await process.wait() == -signal.SIGKILL
    await gone(inner)
    await gone(process.pid)
    await process.kill()
    process.leave()


@pytest.mark.parametrize(
    ("program", "why"), [("/nonesuch", "its starter: No such file"), ("/bin/false", "was ended")]
)
async def test_one_that_cannot_be_started(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, program: str, why: str
) -> None:
    """Then no command is, which says so; and the next one tries again."""
    profile = working(bench.policy())
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", program)
        for _ in range(2):
            with pytest.raises(OSError, match=f"sandbox could not be made.*{why}"):
                await bench.run("touch made", profile)
    assert not (bench.root / "made").exists()
    assert (await bench.run("echo on", profile)).text == "on\n"


async def test_one_that_was_halted_halts_nobody(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that is not started in time is not started later either."""
    profile = working(bench.policy())
    await bench.run("true", profile)
    pid = running()
    os.kill(pid, signal.SIGSTOP)
    monkeypatch.setattr(starter, "_PATIENCE", 0.2)
    with pytest.raises(OSError, match="not be made in time"):
        await bench.run("touch made", profile)
    monkeypatch.undo()
    monkeypatch.setattr(spawn, "enters_by_thread", lambda: False)
    await gone(pid)

    assert (await bench.run("ls made", profile)).code != 0


async def test_what_was_started_without_an_answer_is_ended(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However far a command has come when the starter is given up, nothing of it goes on."""
    profile = working(bench.policy())
    # By this the command is known from all others, also from those of other tests.
    forever = f"4243.{uuid4().int}".encode()
    for patience in (0.0004, 0.0006, 0.0008, 0.001, 0.0015, 0.002):
        await bench.run("true", profile)
        with monkeypatch.context() as patch, suppress(OSError):
            patch.setattr(starter, "_PATIENCE", patience)
            line = f"exec sleep {forever.decode()}"
            process = await bench.host.start(line, env={}, profile=profile)
            await process.kill()
    # Who was ended by force takes a while to end; who was missed would not end at all.
    with anyio.fail_after(50):
        while found := [path for path in Path("/proc").iterdir() if forever in words_of(path)]:
            await anyio.sleep(0.05)
    assert not found


async def test_errors_are_those_of_any_start(bench: Bench) -> None:
    """A folder or program that is not there, words that cannot be, too much of them: as ever."""
    profile = working(bench.policy())
    away = bench.root / "away"
    with pytest.raises(FileNotFoundError) as lost:
        await bench.run("true", profile, cwd=str(away))
    assert lost.value.filename == str(away)
    with pytest.raises(OSError, match="cannot be started") as odd:
        await bench.run("echo a\0b", profile)
    assert odd.value.errno == errno.EINVAL
    with pytest.raises(OSError, match="Argument list too long") as long:
        await bench.run(f"true {'x' * (1 << 18)}", profile)
    assert long.value.errno == errno.E2BIG
    room = bench.host._furnish(profile, str(bench.root), {})
    with pytest.raises(FileNotFoundError) as unknown:
        spawn.spawn(
            ["nonesuch"],
            room,
            cwd=str(bench.root),
            env={},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(),
            start_new_session=True,
        )
    assert unknown.value.filename == "nonesuch"
    room.leave()


async def test_a_folder_that_is_removed_before_the_start(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that is gone when the command would start there is named, and nothing starts."""
    away = bench.root / "away"
    away.mkdir()
    find = spawn._view

    def remove(room: object) -> object:
        away.rmdir()
        return find(room)  # pyright: ignore[reportArgumentType] - as it came

    monkeypatch.setattr(spawn, "_view", remove)
    with pytest.raises(FileNotFoundError) as lost:
        await bench.run("true", working(bench.policy()), cwd=str(away))
    assert lost.value.filename == str(away)


async def test_a_large_environment(bench: Bench) -> None:
    """As much as the kernel takes arrives whole, whatever its letters."""
    env = {f"V{n}": "é\udc80" * 20_000 for n in range(15)}
    line = 'for n in {0..14}; do v=V$n; printf %s "${!v}" | sha1sum; done | uniq -c'
    process = await bench.host.start(line, env=env, profile=working(bench.policy()))
    said = b"".join([chunk async for chunk in process.output()])
    plain = await bench.host.start(line, env=env)

    assert said == b"".join([chunk async for chunk in plain.output()])
    assert said.split()[0] == b"15"
    process.leave()


async def test_a_command_has_what_it_was_given_and_nothing_else(bench: Bench) -> None:
    """No descriptor of the starter's, signals as programs expect them, a session of its own."""
    line = (
        "ls -l /proc/$$/fd 2>/dev/null | grep -c 'socket\\|memfd'; grep SigIgn /proc/$$/status; "
        "ps -o pid=,pgid=,sid= $$ | tr -s ' ' '\\n' | sort -u | grep -c ."
    )
    held, plain = [
        (await bench.run(line, one)).text.split() for one in (working(bench.policy()), NONE)
    ]

    assert held[0] == plain[0] == "0"
    assert held[3] == plain[3] == "1"
    # Two signals are the C library's own, for its threads.
    ignored = [int(one[2], 16) & ~(0b11 << 31) for one in (held, plain)]
    assert ignored[0] == ignored[1]


async def test_what_is_printed_at_the_end_is_kept_apart(bench: Bench) -> None:
    """Descriptors keep their numbers, also those that the starter uses itself."""
    process = await bench.host.start(
        "cd sub; echo said", env={}, profile=working(bench.policy()), at_exit="pwd"
    )
    said = b"".join([chunk async for chunk in process.output()])
    await process.wait()

    assert said == b"said\n"
    assert process.exit_output().strip() == str(bench.root / "sub")
    process.leave()


async def test_it_knows_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither its environment nor its words hold anything of ours."""
    monkeypatch.setenv("SOME_KEY", "s3cret-of-ours")
    await bench.run("true", working(bench.policy()))
    for name in ("environ", "cmdline"):
        assert b"s3cret" not in Path(f"/proc/{running()}/{name}").read_bytes()


async def test_no_command_gets_at_it(bench: Bench) -> None:
    """What it sees, holds and remembers is out of reach for what it has started."""
    profile = working(bench.policy("Read(.env)"))
    await bench.run("true", profile)
    at, secret = f"/proc/{running()}", f"{bench.root}/.env"
    for line in (
        f"cat {at}/root{secret}",
        f"cd {at}/cwd && cat .{secret}",
        f"cat {at}/task/*/root{secret}",
        f"head -c 1 {at}/mem",
        f"cat {at}/environ {at}/maps",
        f"readlink {at}/fd/0 || cat {at}/fd/*",
        f"readlink {at}/ns/mnt {at}/exe",
        f"nsenter -U -m -t {running()} cat {secret}",
    ):
        ended = await bench.run(line, profile)
        assert ended.code != 0, (line, ended)
        assert "SECRET" not in ended.text, line


async def test_a_signal_ends_a_command_as_ever(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The code says which, and to kill a command ends its group."""
    # It ends when it is asked to, however long that takes here.
    monkeypatch.setattr(process_module, "GRACE", 60.0)
    profile = working(bench.policy())
    assert (await bench.run("kill -USR1 $$; sleep 9", profile)).code == -signal.SIGUSR1
    process = await bench.host.start("sleep 1000 & echo $!; wait", env={}, profile=profile)
    inner = int(await anext(aiter(process.output())))
    await process.kill()

    assert await process.wait() == -signal.SIGTERM
    await gone(inner)
    process.leave()


PROGRAM = """
import asyncio, sys
from pathlib import Path
from prong.host.sandbox import spawn
from prong.host.sandbox.starter import STARTER
from prong.tools.derive import working
from shared.sandbox import Bench

spawn.enters_by_thread = lambda: False

async def main():
    bench = Bench(Path(sys.argv[1]))
    process = await bench.host.start("sleep 1000", env={}, profile=working(bench.policy()))
    print(STARTER.pid, process.pid, flush=True)
    await asyncio.sleep(1000)

asyncio.run(main())
"""


async def test_all_ends_with_a_prong_that_is_killed(tmp_path: Path) -> None:
    """The starter ends by itself, and the guardian ends the commands, as ever."""
    words = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=env) as program:
        assert program.stdout is not None
        numbers = [int(word) for word in program.stdout.readline().split()]
        assert len(numbers) == 2
        program.kill()
    for number in numbers:
        await gone(number)
