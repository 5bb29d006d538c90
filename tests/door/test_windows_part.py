"""What is written for Windows, part by part, with what this system has in the place of its calls."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import prong

pytestmark = pytest.mark.door

BEGIN = """
import errno, os, signal, subprocess, sys
from contextlib import suppress
import anyio
from prong.system import descriptor, held_folder, identity, named_input
from prong.system import pipe_end, process_tree, stop_signal

calls = sys.modules["prong.system.windows_call"]
with open("secret", "w") as file:
    file.write("secret")
with open("other", "w") as file:
    file.write("other")
os.symlink("secret", "link")

def refused(work):
    try:
        work()
    except OSError as error:
        return error.errno
    raise AssertionError("it was not refused")

def is_open(fd):
    with suppress(OSError):
        os.fstat(fd)
        return True
    return False

def sleeper():
    return subprocess.Popen(["sleep", "30"], **process_tree.apart())
"""

LINK = """
# It would be emptied before it is known for a link.
emptied = os.O_WRONLY | os.O_TRUNC
assert refused(lambda: descriptor.open_unlinked("link", emptied)) == errno.ELOOP
with open("secret") as file:
    assert file.read() == "secret"
os.close(descriptor.open_unlinked("secret", os.O_RDONLY))
os.close(descriptor.open_unlinked("new", os.O_WRONLY | os.O_CREAT))
"""

SWAPPED = """
given = []
def open_shared(path, flags):
    given.append(os.open("other", flags))
    return given[-1]
calls.open_shared = open_shared
assert refused(lambda: descriptor.open_unlinked("secret", os.O_RDONLY)) == errno.ELOOP
assert not is_open(given[0])
"""

READ = """
fd = os.open("secret", os.O_RDONLY)
os.lseek(fd, 1, os.SEEK_SET)
assert descriptor.read_at(fd, 2, 3) == b"re"
assert os.read(fd, 2) == b"ec"
"""

FOLDER = """
held = []
def hold_folder(path):
    held.append(os.open(path, os.O_RDONLY))
    return 1000 + held[-1]
calls.hold_folder = hold_folder
os.symlink(".", "folder")
for name in ("folder", "secret"):
    assert refused(lambda: held_folder.HeldFolder(name)) == errno.ENOTDIR
    assert not is_open(held[-1])
held_folder.HeldFolder("folder", follow=True).close()
with held_folder.HeldFolder(".") as folder:
    assert refused(lambda: folder.open("link", os.O_RDONLY)) == errno.ELOOP
    assert refused(lambda: folder.enter("folder")) == errno.ENOTDIR
"""

LOCK = """
with held_folder.HeldFolder(".") as one, held_folder.HeldFolder(".") as two:
    assert one.try_lock()
    assert not two.try_lock()
with held_folder.HeldFolder(".") as two:
    assert two.try_lock()
"""

ALIVE = """
own = os.getpid()
assert identity.is_alive(own, identity.started(own))
assert not identity.is_alive(own, identity.started(own) + 1)
"""

NAMED = """
with named_input.named_input(b"data") as (path, stdin):
    with open(path, "rb") as file:
        assert file.read() == b"data"
    assert stdin == b""
assert not os.path.exists(path)
"""

PIPE = """
async def main():
    fd, sink = os.pipe()
    source = pipe_end.PipeSource(fd)
    assert source.read_nowait() is None
    with anyio.fail_after(40):
        for number in b"12345":
            os.write(sink, bytes([number]))
            while len(source._found) < min(number - 48, 4):
                await anyio.sleep(0.001)
        await anyio.sleep(0.1)
        assert len(source._found) == 4, "more is not read before somebody asks"
        for number in b"12345":
            await source.wait()
            await source.wait()
            assert source.read_nowait() == bytes([number])
        os.close(sink)
        for _ in range(2):
            await source.wait()
            assert source.read_nowait() == b""
        while is_open(fd):
            await anyio.sleep(0.001)
    fd, sink = os.pipe()
    pipe_end.PipeSource(fd).close()
    assert not is_open(fd), "nobody had begun to read"

anyio.run(main)
"""

TREE = """
def enter_job(job, pid):
    raise OSError(errno.EACCES, "no")
with sleeper() as process:
    tree = process_tree.ProcessTree(process.pid)
    assert tree.exists()
    tree.close()
    assert process.wait() == -9, "what is left of a job ends with it"
    tree.close()
    assert not tree.exists()
calls.enter_job = enter_job
with sleeper() as process:
    assert refused(lambda: process_tree.ProcessTree(process.pid)) == errno.EACCES
    assert process.wait() == -9, "it was held until the job was made"
"""

BASH = """
from prong.system import bash_program

# By its name alone Windows would find another system's.
os.environ.pop("PRONG_BASH", None)
assert refused(bash_program.bash_program) == errno.ENOENT
assert bash_program.why_no_bash().startswith("No Bash: ")
os.environ["PRONG_BASH"] = "/bin/bash"
assert bash_program.bash_program() == "/bin/bash"
assert bash_program.why_no_bash() == ""
"""

SIGNAL = """
async def main():
    before = signal.getsignal(signal.SIGTERM)
    with stop_signal.received(*stop_signal.stop_signals()) as signals, anyio.fail_after(40):
        os.kill(os.getpid(), signal.SIGTERM)
        assert await anext(aiter(signals)) == signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) == before

anyio.run(main)
"""


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            LINK, id="a_link_is_not_opened_and_not_emptied", marks=pytest.mark.spec("L13")
        ),
        pytest.param(SWAPPED, id="nor_what_took_its_place", marks=pytest.mark.spec("L13")),
        pytest.param(READ, id="reading_at_a_place_moves_nothing"),
        pytest.param(FOLDER, id="no_link_is_held_as_a_folder", marks=pytest.mark.spec("L13")),
        pytest.param(LOCK, id="a_folder_has_one_holder", marks=pytest.mark.spec("L8")),
        pytest.param(ALIVE, id="a_process_is_the_one_that_it_was"),
        pytest.param(NAMED, id="a_named_input_is_removed"),
        pytest.param(PIPE, id="a_pipe_is_read_a_little_ahead"),
        pytest.param(TREE, id="a_job_ends_with_what_is_in_it", marks=pytest.mark.spec("T6")),
        pytest.param(BASH, id="no_bash_is_run_by_its_name", marks=pytest.mark.spec("L5")),
        pytest.param(SIGNAL, id="a_signal_is_heard_for_a_while", marks=pytest.mark.spec("L12")),
    ],
)
def test_a_part_does_as_the_others_do(tmp_path: Path, text: str) -> None:
    """What holds here by the kernel's own means holds there by what is done in its place."""
    done = subprocess.run(
        [sys.executable, "-m", "prong.testing.other_platform", "windows", "-c", BEGIN + text],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(prong.__file__).parents[1])},
        capture_output=True,
        text=True,
        start_new_session=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
