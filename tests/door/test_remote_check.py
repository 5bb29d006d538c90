"""`prong remote check` tries a target from end to end, and says what is missing."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from prong.face.cli import main
from prong.session import Checkup, check_remote
from prong.testing.ssh_host import SshHost, make_key, ssh_host
from shared.ssh import needs_sshd
from shared.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.spec("R1", "R3", "R4")]


def settings(**target: Any) -> str:
    return msgspec.json.encode({"remote": {"targets": {"box": target}}}).decode()


def program(path: Path, *lines: str) -> str:
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)
    return str(path)


async def check(place: Path, /, **target: Any) -> tuple[Checkup, ...]:
    given = {"launcher": "process", "folder": str(place / "far"), **target}
    return await check_remote(str(place), settings=settings(**given))


def broken(found: tuple[Checkup, ...]) -> str:
    (one,) = [one for one in found if one.state == "broken"]
    return one.text


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshHost]:
    with ssh_host(tmp_path / "ssh") as host:
        monkeypatch.setenv("PATH", f"{host.bin}:{os.environ['PATH']}")
        yield host


async def test_a_target_that_works(tmp_path: Path) -> None:
    """A repository goes there and comes back, and nothing of it is left there."""
    found = await check(tmp_path)

    assert [one.topic for one in found if "sandbox" not in one.topic] == [
        "target",
        "worker",
        "work",
    ]
    assert {one.state for one in found} <= {"good", "limited"}
    assert not list((tmp_path / "far").iterdir())


@needs_sshd
async def test_a_host_behind_ssh(tmp_path: Path, box: SshHost) -> None:
    """The same by a real ssh and sshd."""
    found = await check(tmp_path, launcher="ssh", host=box.name, python=sys.executable)

    assert [one.text for one in found if one.state == "broken"] == []
    assert found[-1].topic == "work"


@needs_sshd
async def test_what_ssh_refuses_is_explained(tmp_path: Path, box: SshHost) -> None:
    """An unknown host, a changed key, a host that lets nobody in: each with what to do."""
    ssh = {"launcher": "ssh", "host": box.name, "python": sys.executable}
    box.forget()
    assert "the host is not known: connect once with 'ssh far'" in broken(
        await check(tmp_path, **ssh)
    )
    box.know(make_key(tmp_path / "other"))
    assert "ssh-keygen -R far" in broken(await check(tmp_path, **ssh))
    box.know(box.folder / "host.pub")
    (box.folder / "allowed").write_text("")
    assert "without a password" in broken(await check(tmp_path, **ssh))
    (box.folder / "allowed").write_text((box.folder / "user.pub").read_text())
    assert "there is no python9 there" in broken(
        await check(tmp_path, **{**ssh, "python": "python9"})
    )


async def test_what_is_missing_there_is_said(tmp_path: Path) -> None:
    """No Prong, another version, no git, a shell that talks, no folder: each is one sentence."""
    none = program(tmp_path / "none", f'exec {sys.executable} -I -S -c "import prong"')
    assert "Prong is not installed" in broken(await check(tmp_path, python=none))

    lines = (
        f"exec {sys.executable} -P -c '",
        "import prong.about",
        'prong.about.__version__ = "9.9"',
        "from prong.face.cli import main",
        'main(["worker", "--stdio"])',
        "'",
    )
    other = program(tmp_path / "other", *lines)
    assert "it is Prong 9.9 on box" in broken(await check(tmp_path, python=other))

    (tmp_path / "bare").mkdir()
    for name in ("env", "mkdir", "rm", "sh"):
        (tmp_path / "bare" / name).symlink_to(f"/bin/{name}")
    line = f'PATH={tmp_path / "bare"} exec {sys.executable} "$@"'
    assert "git was not found" in broken(
        await check(tmp_path, python=program(tmp_path / "bald", line))
    )

    chatty = program(tmp_path / "chatty", "echo 'Welcome, you!'", f'exec {sys.executable} "$@"')
    told = broken(await check(tmp_path, python=chatty))
    assert "before its first word came 'Welcome, you!'" in told
    assert "~/.bashrc" in told
    mute = program(tmp_path / "mute", "exit 0")
    assert "it ended with code 0 before its first word" in broken(
        await check(tmp_path, python=mute)
    )

    (tmp_path / "file").write_text("")
    assert "Not a directory" in broken(await check(tmp_path, folder=str(tmp_path / "file/x")))


@pytest.mark.parametrize("step", ["init", "fetch", "worktree add", "bundle create"])
async def test_a_trial_that_fails_leaves_nothing_there(tmp_path: Path, step: str) -> None:
    """Wherever it fails, the copy that was made for it is gone again: each try makes another."""
    (tmp_path / "bin").mkdir()
    fails = f'case " $* " in *" {step} "*) echo "it breaks" >&2; exit 1;; esac'
    program(tmp_path / "bin" / "git", fails, f'exec {shutil.which("git")} "$@"')
    line = f'PATH={tmp_path / "bin"}:$PATH exec {sys.executable} "$@"'

    told = broken(await check(tmp_path, python=program(tmp_path / "weak", line)))
    assert "it breaks" in told
    assert not list((tmp_path / "far").iterdir())


@pytest.mark.parametrize(
    ("where", "number", "code"),
    [("there", signal.SIGTERM, 143), ("between", signal.SIGINT, 130)],
)
async def test_one_that_is_stopped_leaves_nothing(
    tmp_path: Path, where: str, number: signal.Signals, code: int
) -> None:
    """Here and there, also when the repository has arrived and nothing was asked for yet."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "temporary").mkdir()
    git, reached = shutil.which("git"), tmp_path / "reached"
    hold = f"[ -e {reached} ] || {{ touch {reached}; exec sleep 600; }}"
    arrived = f"{tmp_path}/far/*/.prong/storage/check"
    cases = {
        "there": f'case " $* " in *" worktree add "*) {hold};; esac',
        "between": f"for one in {arrived}; do if [ -e $one ]; then {hold}; fi; done",
    }
    program(tmp_path / "bin" / "git", cases[where], f'exec {git} "$@"')
    slow, plain = f"{tmp_path / 'bin'}:{os.environ['PATH']}", os.environ["PATH"]
    there = slow if where == "there" else plain
    python = program(tmp_path / "python", f'PATH={there} exec {sys.executable} "$@"')
    env = {
        **os.environ,
        "PATH": plain if where == "there" else slow,
        "TMPDIR": str(tmp_path / "temporary"),
    }
    given = settings(launcher="process", folder=str(tmp_path / "far"), python=python)
    words = ["-m", "prong", "remote", "check", "-C", str(tmp_path), "--settings", given]
    async with await anyio.open_process([sys.executable, *words], env=env) as process:
        await until(reached.exists)
        process.send_signal(number)
        with anyio.fail_after(60):
            assert await process.wait() == code
            assert process.stderr is not None
            said = b"".join([one async for one in process.stderr]).decode()

    assert "Traceback" not in said
    assert "stopped: removing what was sent there" in said
    assert not list((tmp_path / "temporary").iterdir())
    assert not list((tmp_path / "far").iterdir())


FULL = """
import select, sys
from prong.team.message import Queued, frame

while not select.select([sys.stdin], [], [], 0.05)[0] or sys.stdin.buffer.read1():
    sys.stdout.buffer.write(frame(Queued(why="waits for room: it needs 9 CPU")))
    sys.stdout.buffer.flush()
"""


async def test_a_machine_without_room_is_not_waited_for_forever(tmp_path: Path) -> None:
    """It is told at once why nothing happens, and that is what is found in the end."""
    (tmp_path / "full.py").write_text(FULL)
    full = program(tmp_path / "full", f"exec {sys.executable} {tmp_path / 'full.py'}")
    told: list[str] = []
    given = {"launcher": "process", "python": full, "patience": 0.5}
    with anyio.fail_after(100):
        found = await check_remote(str(tmp_path), settings=settings(**given), tell=told.append)

    assert told == ["waits for room: it needs 9 CPU"]
    assert broken(found) == (
        "box: nothing could be tried for 0.5 seconds: waits for room: it needs 9 CPU"
    )


async def test_what_is_named_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that the finding names is there afterwards; nothing else of the trial is left."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    await check(tmp_path)
    assert not list((tmp_path / "temporary").iterdir())

    lines = ("echo 'a long story' >&2", "echo 'its end' >&2", "exit 9")
    told = broken(await check(tmp_path, python=program(tmp_path / "odd", *lines)))
    assert "its last words: its end; more in " in told
    file = Path(told.partition("more in ")[2].rstrip(")"))
    assert "a long story" in file.read_text()


async def test_a_target_that_is_not_there(tmp_path: Path) -> None:
    """An unknown name, a wrong target and an unknown launcher are errors of the settings."""
    assert "there is no remote target 'hut'; there are: box" in broken(
        await check_remote(str(tmp_path), "hut", settings=settings(launcher="process"))
    )
    assert "needs 'host'" in broken(
        await check_remote(str(tmp_path), settings=settings(launcher="ssh"))
    )
    assert "there is no launcher 'pigeon'" in broken(
        await check_remote(str(tmp_path), settings=settings(launcher="pigeon"))
    )


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`prong remote check` prints what was found, and its exit code says whether it works."""
    given = settings(launcher="process", folder=str(tmp_path / "far"))
    words = ["remote", "check", "box", "-C", str(tmp_path)]

    assert main([*words, "--settings", given]) == 0
    assert "+ work: what was written there came back" in capsys.readouterr().out
    between = ["remote", "check", "--json", "-C", str(tmp_path), "box", "--settings", given]
    assert main(between) == 0
    assert '"topic": "work"' in capsys.readouterr().out
    assert main([*words, "--settings", "{}"]) == 1
    assert "there is no machine to try: the setting remote.targets names" in capsys.readouterr().out


async def test_which_of_several_is_asked_in_words_of_the_command(tmp_path: Path) -> None:
    """Without a name, the only machine or the default is tried; else it is said what to type."""
    two = {name: {"launcher": "process"} for name in ("box", "hut")}
    given = msgspec.json.encode({"remote": {"targets": two}}).decode()
    told = broken(await check_remote(str(tmp_path), settings=given))
    assert told == "say which machine: 'prong remote check NAME' with one of: box, hut"


async def test_targets_of_a_folder_that_is_not_trusted(tmp_path: Path) -> None:
    """That they do not count is said where one of them is asked for."""
    (tmp_path / ".prong").mkdir()
    (tmp_path / ".prong" / "settings.json").write_text(settings(launcher="process"))

    found = await check_remote(str(tmp_path), "box")
    assert "there is no" in broken(found)
    (told,) = [one.text for one in found if one.topic == "settings"]
    assert "remote targets: left out, because the folder is not trusted" in told
