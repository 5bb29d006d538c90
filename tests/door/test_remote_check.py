"""`prong remote check` tries a target from end to end, and says what is missing."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from prong.face.cli import main
from prong.session import Checkup, check_remote
from shared.ssh import SshHost, make_key, needs_sshd, ssh_host

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
    """No Prong, another version, no git, no folder: each is one sentence before anything starts."""
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

    (tmp_path / "file").write_text("")
    assert "Not a directory" in broken(await check(tmp_path, folder=str(tmp_path / "file/x")))


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
    assert main([*words, "--settings", "{}"]) == 1
    assert "there are no remote workers" in capsys.readouterr().out
