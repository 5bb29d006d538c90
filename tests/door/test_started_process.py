"""Processes as the system knows them: ended with all they started, told apart, and piped to."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from prong.system.identity import is_alive, presence, started
from prong.system.peer import PeerProcess, peer_process
from prong.system.pipe_end import PipeSink, PipeSource, read_input
from prong.system.process_tree import ProcessTree, apart, detached, end_foreign
from prong.system.stop_signal import ignore_stops, received, stop_signals

pytestmark = [pytest.mark.anyio, pytest.mark.door]

TWO = "sleep 100 & echo there; wait"
"""A shell with a child; both hold its output, which ends when neither is left."""


@contextmanager
def running(line: str, *, session: bool = True) -> Generator[subprocess.Popen[bytes]]:
    """Start a shell, and wait for its first word."""
    words = ["sh", "-c", line]
    with subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=session) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"there\n"
            yield process
        finally:
            if session:
                ProcessTree(process.pid).force()
            process.kill()


def rest(process: subprocess.Popen[bytes]) -> bytes:
    """Give what is said until nobody is left who could say something."""
    assert process.stdout is not None
    return process.stdout.read()


@contextmanager
def zombie() -> Generator[int]:
    """Give a process that has ended and that nobody has looked after."""
    with subprocess.Popen(["true"], **apart()) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        yield process.pid


@pytest.mark.spec("T6")
def test_a_tree_is_ended_whole() -> None:
    """Asked or forced, all that a process has started ends with it."""
    for word, code in (("ask", -signal.SIGTERM), ("force", -signal.SIGKILL)):
        with running(TWO) as process:
            tree = ProcessTree(process.pid)
            assert tree.exists()
            assert tree.has_live_member()
            assert getattr(tree, word)()
            assert rest(process) == b""
            assert process.wait() == code


def test_of_a_tree_that_has_ended_nothing_is_asked() -> None:
    """Whoever asks hears that there is nobody."""
    with running("echo there; exec sleep 100") as process:
        tree = ProcessTree(process.pid)
        assert tree.force()
        process.wait()

        assert (tree.exists(), tree.ask(), tree.force()) == (False, False, False)


@pytest.mark.spec("T6")
def test_a_tree_that_is_asked_may_say_something() -> None:
    """Who asks leaves time for last words; force does not."""
    heard = "trap 'echo heard; exit 3' TERM; echo there; while :; do sleep 0.01; done"
    with running(heard) as process:
        assert ProcessTree(process.pid).ask()
        assert (rest(process), process.wait()) == (b"heard\n", 3)


def test_what_has_ended_does_not_run() -> None:
    """One that nobody has looked after has its number still, and is no live member of its tree."""
    with zombie() as pid:
        tree = ProcessTree(pid)

        assert (tree.exists(), tree.has_live_member()) == (True, False)
        assert (presence(pid), is_alive(pid, started(pid))) == ("there", False)
    assert presence(pid) == "gone"


def test_a_process_is_the_one_that_it_was() -> None:
    """A number alone proves nothing: it must have been started at that moment."""
    own = os.getpid()

    assert is_alive(own, started(own))
    assert not is_alive(own, started(own) + 1)
    assert presence(2**70) == "gone"
    assert not is_alive(2**70, 0)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_process_of_another_user_is_there() -> None:
    """What may not be signalled is not gone."""
    with running(TWO) as process:
        asked = (
            "import os; from prong.system.identity import presence; "
            f"os.setuid(65534); print(presence({process.pid}))"
        )
        done = subprocess.run([sys.executable, "-c", asked], capture_output=True, check=True)

    assert done.stdout.decode().strip() == "another's"


def test_a_process_may_be_called_anything(tmp_path: Path) -> None:
    """A name with brackets and blanks in it is not taken for what stands behind it."""
    odd = tmp_path / "a) S 1 (b"
    odd.symlink_to("/bin/sleep")
    with subprocess.Popen([str(odd), "100"], **apart()) as process:
        since = started(process.pid)
        alive, member = is_alive(process.pid, since), ProcessTree(process.pid).has_live_member()
        process.kill()

    assert (alive, member) == (True, True)
    assert since >= started(os.getpid())


def test_what_is_to_outlive_this_process_leads_a_session() -> None:
    """A signal to the terminal's processes does not reach it."""
    for more in (apart(), detached()):
        with subprocess.Popen(["sleep", "100"], **more) as process:
            leads = os.getsid(process.pid) == process.pid
            process.kill()
        assert leads


@pytest.mark.spec("T8")
def test_one_that_is_no_child_of_ours_is_ended_with_what_it_leads() -> None:
    """Of a session all ends; who leads none ends alone, and those beside it live."""
    with running(TWO) as process:
        end_foreign(process.pid)
        assert rest(process) == b""
        assert process.wait() == -signal.SIGKILL
    with running("echo there; exec sleep 100", session=False) as process:
        end_foreign(process.pid)
        assert process.wait() == -signal.SIGKILL


async def test_what_is_read_from_a_pipe_is_never_waited_for() -> None:
    """Nothing yet, something, and the end are three things."""
    fd, sink = os.pipe()
    source = PipeSource(fd)
    assert source.read_nowait() is None
    os.write(sink, b"x")
    await source.wait()
    assert source.read_nowait() == b"x"
    os.close(sink)
    await source.wait()
    assert source.read_nowait() == b""
    source.close()


async def test_a_pipe_that_is_full_is_waited_for() -> None:
    """What finds no room is written once there is some."""
    source, fd = os.pipe()
    sink = PipeSink(fd)
    full = 0
    while True:
        try:
            full += os.write(fd, bytes(4096))
        except BlockingIOError:
            break
    written: list[int] = []

    async def write() -> None:
        written.append(await sink.write(memoryview(b"late")))

    async with anyio.create_task_group() as group:
        group.start_soon(write)
        await anyio.wait_all_tasks_blocked()
        assert not written
        assert len(os.read(source, full)) == full
    sink.close()

    assert (written, os.read(source, 10)) == ([4], b"late")
    os.close(source)


def test_a_pipe_is_closed_once() -> None:
    """Its number may be another file's by then."""
    source, fd = os.pipe()
    sink = PipeSink(fd)
    sink.close()
    os.dup2(source, fd)
    sink.close()
    os.fstat(fd)
    os.close(fd)
    os.close(source)


async def test_input_may_be_a_file(tmp_path: Path) -> None:
    """It cannot be waited for, and need not be."""
    (tmp_path / "input").write_text("all of it")
    with (tmp_path / "input").open("rb") as file:
        assert await read_input(file.fileno()) == b"all of it"
        assert await read_input(file.fileno()) == b""


@contextmanager
def handled(number: signal.Signals, handler: signal.Handlers) -> Generator[None]:
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


@pytest.mark.spec("L12")
def test_a_hang_up_that_is_ignored_stays_so() -> None:
    """Under nohup a program goes on when its terminal has gone; else that is a wish for its end."""
    with handled(signal.SIGHUP, signal.SIG_DFL):
        assert set(stop_signals()) == {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    with handled(signal.SIGHUP, signal.SIG_IGN):
        assert set(stop_signals()) == {signal.SIGINT, signal.SIGTERM}


@pytest.mark.spec("L12")
async def test_a_signal_is_heard_in_place_of_what_it_would_do() -> None:
    """Only for the length of the block; who is ending ignores all but an interrupt."""
    with handled(signal.SIGTERM, signal.SIG_DFL), handled(signal.SIGHUP, signal.SIG_DFL):
        with received(signal.SIGTERM) as signals:
            os.kill(os.getpid(), signal.SIGTERM)
            async for number in signals:
                assert number == signal.SIGTERM
                break
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
        interrupt = signal.getsignal(signal.SIGINT)
        ignore_stops()
        found = [signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGHUP)]
        assert found == [signal.SIG_IGN, signal.SIG_IGN]
        assert signal.getsignal(signal.SIGINT) == interrupt


class Gone:
    """Stands for a connection that has ended."""

    def extra(self, _: object) -> socket.socket:
        ended = socket.socket()
        ended.close()
        return ended


@pytest.mark.spec("X3", "L13")
async def test_who_is_at_the_other_end_is_what_the_system_says(tmp_path: Path) -> None:
    """Process and user of who connected; where the system does not say, nobody."""
    path = str(tmp_path / "s")
    connects = f"import socket, sys; s = socket.socket(1); s.connect({path!r}); sys.stdin.read()"
    async with await anyio.create_unix_listener(path) as listener:
        words = [sys.executable, "-c", connects]
        with subprocess.Popen(words, stdin=subprocess.PIPE) as other:
            async with await listener.accept() as stream:
                found = peer_process(stream)
            other.communicate()

    assert found is not None
    assert found == PeerProcess(other.pid, os.getuid())
    assert found.is_ours
    assert not PeerProcess(os.getuid(), os.getuid() + 1).is_ours
    assert peer_process(cast("Any", Gone())) is None
