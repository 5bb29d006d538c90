"""What is wrong with a machine or a repository fails the task before its agent starts, with why."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from prong.event import AgentStarted, TaskFinished, ToolFinished, WorkKept
from prong.testing import Script, World, Worlds, call, report, say
from prong.testing.repository import Repo
from prong.testing.ssh_host import SshHost, make_key, ssh_host
from shared.remote import copies, remote_world
from shared.ssh import needs_sshd

pytestmark = [pytest.mark.anyio, pytest.mark.spec("R1", "R3")]


def script(*steps: Any) -> Script:
    return Script([say("hello")], {"Directive:\nP1": [*steps, report("one")]}, forever=say("ok"))


def program(path: Path, *lines: str) -> str:
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)
    return str(path)


async def refused(w: World, repo: Repo) -> str:
    """Fork, and give why it failed: nothing was asked of the model, and no name is taken."""
    await w.session.run("Hi")
    (found,) = await w.session.fork(["P1"], isolation="remote")
    assert found.status == "failed"
    assert len(w.server.records) == 1
    assert len(w.told(TaskFinished)) == 1
    assert repo.git("for-each-ref", "refs/prong", "refs/heads/prong") == ""
    return found.detail


def no_git(folder: Path) -> str:
    (folder / "bare").mkdir()
    for name in ("env", "mkdir", "rm", "sh"):
        (folder / "bare" / name).symlink_to(f"/bin/{name}")
    return program(folder / "python", f'PATH={folder / "bare"} exec {sys.executable} "$@"')


def no_prong(folder: Path) -> str:
    return program(folder / "python", f'exec {sys.executable} -I -S -c "import prong"')


def no_python(folder: Path) -> str:
    return program(folder / "python", "exec python9")


def other_version(folder: Path) -> str:
    lines = (
        f"exec {sys.executable} -P -c '",
        "import prong.about",
        'prong.about.__version__ = "9.9"',
        "from prong.face.cli import main",
        'main(["worker", "--stdio"])',
        "'",
    )
    return program(folder / "python", *lines)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (no_git, "git was not found"),
        (no_prong, "Prong is not installed for"),
        (no_python, "name the Python that has Prong with 'python'"),
        (other_version, "it is Prong 9.9 on box"),
    ],
)
async def test_what_a_machine_lacks(
    world: Worlds, tmp_path: Path, make: Callable[[Path], str], why: str
) -> None:
    """No git, no Prong, no Python, another version: one sentence with the remedy."""
    target = {"python": make(tmp_path)}
    async with remote_world(world, script(), tmp_path / "far", target=target) as (w, repo):
        assert why in await refused(w, repo)


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshHost]:
    with ssh_host(tmp_path / "ssh") as host:
        monkeypatch.setenv("PATH", f"{host.bin}:{os.environ['PATH']}")
        yield host


@needs_sshd
@pytest.mark.parametrize(
    ("what", "why"),
    [
        (
            "changed",
            "the host key has changed: find out why; if that is right, 'ssh-keygen -R far'",
        ),
        ("unknown", "the host is not known: connect once with 'ssh far'"),
        ("python", "there is no python9 there: name the Python that has Prong with 'python'"),
    ],
)
async def test_what_ssh_says(
    world: Worlds, tmp_path: Path, box: SshHost, what: str, why: str
) -> None:
    """A host key that has changed or is not known, and no Python, by a real sshd."""
    target = {"launcher": "ssh", "host": box.name, "python": sys.executable}
    if what == "python":
        target["python"] = "python9"
    else:
        box.forget()
    if what == "changed":
        box.know(make_key(tmp_path / "other"))
    async with remote_world(world, script(), tmp_path / "far", target=target) as (w, repo):
        assert why in await refused(w, repo)


async def test_no_repository(world: Worlds, tmp_path: Path) -> None:
    """A folder that is no repository cannot be sent, and it is said what to do."""
    async with remote_world(world, script(), tmp_path / "far") as (w, repo):
        subprocess.run(["rm", "-rf", str(repo.path / ".git")], check=True)
        await w.session.run("Hi")
        (found,) = await w.session.fork(["P1"], isolation="remote")

        assert found.status == "failed"
        assert "is not in a git repository: run 'git init' there" in found.detail
        assert len(w.server.records) == 1


async def test_no_commits(world: Worlds, tmp_path: Path) -> None:
    """Of a repository without commits all files go, and what was done comes back."""
    steps = [call("Bash", {"command": "cat only.txt"}), call("Bash", {"command": "touch new"})]
    async with remote_world(world, script(*steps), tmp_path / "far") as (w, repo):
        subprocess.run(["rm", "-rf", str(repo.path / ".git")], check=True)
        repo.git("init", "-q", "-b", "main")
        repo.write("only.txt", "first words\n")
        await w.session.run("Hi")
        (found,) = await w.session.fork(["P1"], isolation="remote")

        assert (found.status, found.detail) == ("completed", "")
        assert w.told(ToolFinished)[0].text == "first words"
        assert "new" in repo.git("ls-tree", "--name-only", found.branch).split()
        assert repo.git("branch", "--show-current") == "main"


async def test_submodules(world: Worlds, tmp_path: Path) -> None:
    """They are empty there, which the agent is told, and stay as they are in what comes back."""
    other = Repo(tmp_path / "other")
    other.path.mkdir()
    other.git("init", "-q", "-b", "main")
    other.git("config", "user.name", "Tester")
    other.git("config", "user.email", "tester@example.invalid")
    other.write("inner.txt", "inner\n")
    other.commit("inner")
    steps = [call("Bash", {"command": "ls -A lib | wc -l"}), call("Bash", {"command": "touch new"})]
    async with remote_world(world, script(*steps), tmp_path / "far") as (w, repo):
        allow = ("-c", "protocol.file.allow=always")
        repo.git(*allow, "submodule", "--quiet", "add", str(other.path), "lib")
        repo.commit("with a submodule")
        before = repo.fingerprint()
        await w.session.run("Hi")
        (found,) = await w.session.fork(["P1"], isolation="remote")

        assert (found.status, found.detail) == ("completed", "")
        assert w.told(ToolFinished)[0].text.strip() == "0"
        assert "submodules are empty" in str(w.bodies()[1]["messages"])
        assert repo.git("rev-parse", f"{found.branch}:lib") == repo.git("rev-parse", "HEAD:lib")
        assert found.files == ("new",)
        assert repo.fingerprint() == before


@pytest.mark.parametrize("how", ["at first", "at work"])
async def test_a_full_disk(world: Worlds, tmp_path: Path, how: str) -> None:
    """No room for the repository: nothing starts. No room for the work: it is kept there."""
    far = tmp_path / "far"
    far.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1500k", "tmpfs", str(far)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("no small disk can be made here")
    fill = call("Bash", {"command": "echo mine > mine.txt; cat /dev/urandom > large.bin"})
    try:
        async with remote_world(world, script(fill), far) as (w, repo):
            if how == "at first":
                repo.path.joinpath("large.bin").write_bytes(os.urandom(4_000_000))
                assert "No space left on device" in await refused(w, repo)
                return
            await w.session.run("Hi")
            (found,) = await w.session.fork(["P1"], isolation="remote")

            assert w.told(ToolFinished)[0].failed
            assert "No space left on device" in w.told(ToolFinished)[0].text
            (kept,) = w.told(WorkKept)
            (folder,) = copies(far)
            assert (kept.path, kept.uncommitted) == (f"box:{folder}", True)
            assert (folder / "mine.txt").read_text() == "mine\n"
            assert any("No space left" in text for text in w.warnings), w.warnings
            assert len([one for one in w.told(AgentStarted) if one.kind == "fork"]) == 1
            assert found.branch
    finally:
        subprocess.run(["umount", "-l", str(far)], check=True)
