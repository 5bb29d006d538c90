"""Whole sessions as on Windows and on macOS: what those systems lack is hidden from the process.

This is no such machine. What it shows is that no code on the way needs what is not there, and that
the code written for the other system does the same as ours.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import prong
from prong.testing import Script, ServerProcess, call, forks, report, say
from prong.testing.repository import make_repo
from shared.running import runs

pytestmark = pytest.mark.door

Run = Callable[..., subprocess.CompletedProcess[str]]

STORY = """
import anyio, sys
from pathlib import Path
import prong

async def main():
    given = dict(model="claude-sonnet-5-5", mode="bypassPermissions")
    async with prong.open_session(**given) as session:
        turn = await session.run("Go")
        print(sys.platform, turn.text, turn.why)
        first = session.view().session_id
    async with prong.open_session(**given, resume=first) as session:
        turn = await session.run("And now?")
        print(turn.text)

anyio.run(main)
"""

HOLD = """
import anyio, sys
import prong

async def main():
    async with prong.open_session(model="claude-sonnet-5-5", session_id="held") as session:
        await session.run("Go")
        print("open", flush=True)
        sys.stdin.readline()

anyio.run(main)
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Give a project with a commit."""
    make_repo(tmp_path / "project")
    return tmp_path / "project"


def environment(root: Path, server: ServerProcess, **more: str) -> dict[str, str]:
    """Give the environment in which a program talks to a server."""
    return {
        "HOME": str(root.parent),
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(Path(prong.__file__).parents[1]),
        "ANTHROPIC_API_KEY": "a key",
        "ANTHROPIC_BASE_URL": server.url,
        "PRONG_BASH": "/bin/bash",
        **more,
    }


def program(platform: str, *words: str) -> list[str]:
    """Give the words that run something as on another system."""
    return [sys.executable, "-m", "prong.testing.other_platform", platform, *words]


def run(
    root: Path, server: ServerProcess, platform: str, *words: str, stdin: str = "", **env: str
) -> subprocess.CompletedProcess[str]:
    """Run something to its end as on another system."""
    return subprocess.run(
        program(platform, *words),
        input=stdin,
        cwd=root,
        env=environment(root, server, **env),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize("platform", ["windows", "macos"])
def test_forks_worktrees_and_resume(root: Path, platform: str) -> None:
    """A session by the library forks into worktrees, runs commands, ends, and is taken up again."""
    script = Script(
        [
            call("Read", {"file_path": "a.txt"}),
            forks("P1", "P2", isolation="worktree"),
            say("waiting"),
            say("done"),
            say("resumed"),
        ],
        {
            "P1": [
                call("Read", {"file_path": "a.txt"}),
                call("Write", {"file_path": "a.txt", "content": "theirs\n"}),
                call("Bash", {"command": "cat a.txt && git commit -qam change && cd src && pwd"}),
                report("changed"),
            ],
            "P2": [report()],
        },
    )
    with ServerProcess(script) as server:
        done = run(root, server, platform, "-c", STORY)

    assert done.stdout.splitlines() == [
        f"{ {'windows': 'win32', 'macos': 'darwin'}[platform] } done done",
        "resumed",
    ], done.stderr
    shown = subprocess.run(
        ["git", "show", "prong/part-1:a.txt"], cwd=root, capture_output=True, check=True
    )
    assert shown.stdout == b"theirs\n"
    assert (root / "a.txt").read_text().startswith("one\n")


@pytest.mark.parametrize("platform", ["windows", "macos"])
def test_headless(root: Path, platform: str) -> None:
    """`prong -p` runs a command, keeps what it wrote, and answers."""
    command = call("Bash", {"command": "echo from bash > made.txt; echo $((6 * 7)); pwd"})
    with ServerProcess([command, say("Done.")]) as server:
        words = ("-m", "prong", "-p", "Go", "--dangerously-skip-permissions")
        done = run(root, server, platform, *words, "--output-format", "stream-json")

    assert done.returncode == 0, done.stderr
    assert r"42\n" in done.stdout
    assert (root / "made.txt").read_text() == "from bash\n"


@pytest.mark.parametrize("platform", ["windows", "macos"])
def test_the_line_face(root: Path, platform: str) -> None:
    """`prong` with lines from a pipe answers line by line, and leaves."""
    with ServerProcess([say("Hello to you.")]) as server:
        done = run(root, server, platform, "-m", "prong", "--plain", stdin="Hi\n/exit\n")

    assert "Hello to you." in done.stdout
    assert done.returncode == 0, done.stderr


def test_commands_on_standard_input(root: Path) -> None:
    """Commands come as lines on standard input, which Windows cannot wait for beside others."""
    line = '{"type":"user","message":{"role":"user","content":"Hi"}}\n'
    with ServerProcess([say("Heard.")]) as server:
        words = (
            "-m",
            "prong",
            "-p",
            "--input-format",
            "stream-json",
            "--output-format",
            "stream-json",
        )
        done = run(root, server, "windows", *words, stdin=line)

    assert "Heard." in done.stdout, done.stderr


def test_without_a_bash_there_is_no_tool_for_commands(root: Path) -> None:
    """On a Windows without bash the model is offered no Bash, and that is said, once."""
    with ServerProcess([say("Fine.")]) as server:
        done = run(
            root, server, "windows", "-m", "prong", "-p", "Hi", PRONG_BASH="", PATH="/nowhere"
        )
        (request,) = server.requests(bodies=True)

    assert done.stderr.count("No Bash: ") == 1
    assert "Bash" not in [tool["name"] for tool in json.loads(request["body"])["tools"]]


@pytest.mark.parametrize("bash", ["/bin/bash", ""])
def test_a_hook_without_a_shell_blocks(root: Path, bash: str) -> None:
    """A hook that cannot be run, as there is no bash, forbids what it guards; with one it is run."""
    hook = {"matcher": "Write", "hooks": [{"type": "command", "command": "exit 0"}]}
    settings = root.parent / ".prong" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps({"hooks": {"PreToolUse": [hook]}}))
    script = [call("Write", {"file_path": "new.txt", "content": "x"}), say("Done.")]
    with ServerProcess(script) as server:
        words = ("-m", "prong", "-p", "Go", "--dangerously-skip-permissions")
        run(root, server, "windows", *words, PRONG_BASH=bash, PATH="/nowhere")

    assert (root / "new.txt").exists() is bool(bash)


def test_two_processes_and_one_session(root: Path) -> None:
    """A session that is open as on Windows cannot be opened twice, and can after a kill."""
    with ServerProcess([say("Held."), say("Mine now.")]) as server:
        first = subprocess.Popen(
            program("windows", "-c", HOLD),
            cwd=root,
            env=environment(root, server),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert first.stdout is not None
        with first:
            assert first.stdout.readline() == b"open\n"
            second = run(root, server, "windows", "-m", "prong", "-p", "x", "--resume", "held")
            first.kill()
        third = run(root, server, "windows", "-m", "prong", "-p", "x", "--resume", "held")

    assert f"is open in another process (pid {first.pid})" in second.stderr
    assert third.stdout == "Mine now.\n", third.stderr


def test_an_interrupt_ends_what_runs(root: Path) -> None:
    """Ctrl+C ends `-p` in order, and the command that runs with all that it started."""
    command = "echo $$ > pid; sleep 600 & echo $! >> pid; touch begun; wait"
    with ServerProcess([call("Bash", {"command": command})]) as server:
        words = ("-m", "prong", "-p", "Go", "--dangerously-skip-permissions")
        process = subprocess.Popen(
            program("windows", *words), cwd=root, env=environment(root, server)
        )
        with process:
            while not (root / "begun").exists():
                assert process.poll() is None
                time.sleep(0.02)
            process.send_signal(signal.SIGINT)

    assert process.returncode != 0
    # They were killed; when the system has them gone is its own affair.
    for pid in (root / "pid").read_text().split():
        while runs(int(pid)):
            time.sleep(0.02)


def test_doctor_says_what_is_missing(root: Path) -> None:
    """`prong doctor` as on Windows names the sandbox, bash and the engine, each with a remedy."""
    with ServerProcess() as server:
        done = run(root, server, "windows", "-m", "prong", "doctor", PRONG_BASH="", PATH="/nowhere")

    for text in ("there is none for Windows", "no tool for commands", "Unix socket"):
        assert text in " ".join(done.stdout.split())


def test_what_is_hidden_is_gone(root: Path) -> None:
    """The stand-in hides modules and names, and refuses what Windows refuses."""
    text = """
import os, signal, socket, subprocess, sys
for name in ("fcntl", "termios", "pwd", "resource"):
    try:
        __import__(name)
    except ModuleNotFoundError:
        pass
    else:
        raise SystemExit(name)
print(sys.platform, *(hasattr(m, n) for m, n in (
    (os, "fork"), (os, "pread"), (os, "killpg"), (signal, "SIGKILL"), (socket, "AF_UNIX"))))
try:
    subprocess.Popen(["true"], pass_fds=(2,))
except ValueError as error:
    print(error)
try:
    open("/proc/self/stat")
except FileNotFoundError:
    print("no /proc")
"""
    with ServerProcess() as server:
        done = run(root, server, "windows", "-c", text)

    assert done.stdout.splitlines() == [
        "win32 False False False False False",
        "pass_fds is not supported on Windows platforms",
        "no /proc",
    ], done.stderr
