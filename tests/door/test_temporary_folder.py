"""What Prong makes for a while is in one folder, and goes with it, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from prong.host import LocalHost
from prong.host.guardian import GUARDIAN, Guardian
from prong.host.private import remove_tree
from prong.host.sandbox import Profile
from prong.testing import Worlds, call, say
from shared.sandbox import kernel, views

pytestmark = [pytest.mark.anyio, pytest.mark.door]

READING = Profile(name="reading", private=True)
_AT_WORK = """
import anyio
from prong.host import LocalHost
from prong.host.sandbox import Profile

async def main():
    command = 'mkdir "$TMPDIR/half"; echo x > "$TMPDIR/half/made"; sleep 1000'
    await LocalHost(".").start(command, env={}, profile=Profile(name="reading", private=True))
    await anyio.sleep_forever()

anyio.run(main)
"""


async def empty(folder: Path) -> bool:
    """Wait until nothing is in a folder."""
    with anyio.move_on_after(50):
        while list(folder.iterdir()):
            await anyio.sleep(0.02)
        return True
    return False


@contextmanager
def without_rights() -> Generator[None]:
    """Do something as a user who is not root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65_534)
    try:
        yield
    finally:
        os.seteuid(0)


@kernel
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
async def test_a_kill_leaves_no_file_of_a_command(tmp_path: Path, how: int) -> None:
    """The temporary folder of a command that ran goes with a killed process, and what is in it."""
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", _AT_WORK], env=env, cwd="/") as process:
        with anyio.fail_after(50):
            while not list(tmp_path.rglob("half/made")):
                await anyio.sleep(0.02)
        process.send_signal(how)
    assert await empty(tmp_path)


@views
@pytest.mark.parametrize("end", ["end", "kill"])
async def test_a_session_leaves_no_mask(world: Worlds, program: Any, end: str) -> None:
    """What is put over hidden files is gone after an ordinary end line by line, and a kill."""
    async with world([call("Bash", {"command": "touch ran"}), say("Done.")], opens=False) as w:
        (w.home / ".ssh").mkdir(parents=True)
        (w.home / ".ssh/id").write_text("PRIVATE")
        temp = w.root.parent / "temp"
        temp.mkdir()
        words = ("--permission-mode", "bypassPermissions")
        process = await program.start(w, *words, TMPDIR=str(temp))
        async with process:
            await process.stdin.send(b"Go\n")
            with anyio.fail_after(50):
                while not ((w.root / "ran").exists() and list(temp.glob("prong-*/folder"))):
                    await anyio.sleep(0.02)
            if end == "kill":
                process.kill()
            await process.stdin.aclose()
            await process.wait()
        assert await empty(temp)


async def test_it_goes_with_the_last_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that runs in one process shares a folder; one that is wanted later is another."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    guardian, first, second = Guardian(), LocalHost(tmp_path), LocalHost(tmp_path)
    guardian.hold(first)
    guardian.hold(second)
    folder = guardian.folder()
    assert guardian.folder() == folder
    assert Path(folder).stat().st_mode & 0o777 == 0o700
    guardian.release(first)
    assert Path(folder).is_dir()
    guardian.release(second)
    assert list(tmp_path.iterdir()) == []
    assert guardian.pid is None
    guardian.hold(first)
    assert guardian.folder() != folder
    guardian.release(first)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name", ["two  words", "$(touch made)", "-rf", "a\\tb", "\udcff", "two\n+ 1"]
)
async def test_a_folder_of_any_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The guardian removes what it was told of, whatever the name; what no line holds it leaves."""
    temp = tmp_path / name
    temp.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temp))
    guardian = Guardian()
    folder = Path(guardian.folder())
    (folder / "part").mkdir()
    (folder / "part/link").symlink_to(tmp_path)
    _abandon(guardian)
    if "\n" in name:
        assert folder.exists()
    else:
        assert await empty(temp)
    assert list(tmp_path.iterdir()) == [temp]


async def test_a_successor_knows_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A guardian that was killed did not remove it; the one in its place will."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    guardian = Guardian()
    folder = guardian.folder()
    first = guardian.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    for _ in range(20_000):
        guardian.tell("+", 1 << 30)
        if guardian.pid != first:
            break
    assert Path(folder).is_dir()
    _abandon(guardian)
    assert await empty(tmp_path)


@kernel
async def test_one_that_was_tidied_away_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands go on after a program has removed old temporary folders, or put a file there."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    guardian = Guardian()
    folder = Path(guardian.folder())
    folder.rmdir()
    folder.symlink_to("/")
    other = guardian.folder()
    assert other != str(folder)
    _abandon(guardian)
    with anyio.fail_after(50):
        while Path(other).exists():
            await anyio.sleep(0.02)
    assert folder.is_symlink()


@kernel
async def test_commands_have_folders_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two commands at once do not share one, and it is gone after each."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    host = LocalHost(tmp_path)
    processes = [
        await host.start('echo "$TMPDIR"; touch "$TMPDIR/a"', env={}, profile=READING)
        for _ in range(2)
    ]
    said = ["".join([chunk.decode() async for chunk in one.output()]) for one in processes]
    assert len(set(said)) == 2
    assert {Path(one.strip()).parent for one in said} == {Path(GUARDIAN.folder())}
    for one in processes:
        await one.wait()
        one.leave()
    # Those of others who run in this process may be there.
    assert not [one for one in said if Path(one.strip()).exists()]
    await host.close()


def test_nobody_needs_to_look_into_an_empty_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is put over hidden folders is closed to its owner as well, and is removed all the same."""
    monkeypatch.chdir(tmp_path)
    if os.geteuid() == 0:
        os.chown(tmp_path, 65_534, 65_534)
    with without_rights():
        for folder in (Path("masks/folder"), Path("masks/open/folder")):
            folder.mkdir(parents=True)
            folder.chmod(0)
        remove_tree("masks")
    assert list(tmp_path.iterdir()) == []


def _abandon(guardian: Guardian) -> None:
    """Close the pipe as the kernel does when Prong is killed."""
    os.close(guardian._pipe)
    guardian._pipe = -1
