"""The program lines by which workers are started, and what their failures mean."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from prong.errors import NotInstalled, UnknownName
from prong.host.launcher import WORKER, ContainerLauncher, SshLauncher, make_launcher
from prong.host.target import RemoteTarget
from prong.testing import ProgramRecorder

pytestmark = pytest.mark.spec("R1", "R4")


def programs(folder: Path, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    for name in names:
        ProgramRecorder(folder, name)
    monkeypatch.setenv("PATH", str(folder))


def test_ssh_is_the_users_own_and_never_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host is a word of its own after `--`, and the line over there is quoted."""
    programs(tmp_path, monkeypatch, "ssh")
    target = RemoteTarget(launcher="ssh", host="me@box", python="~/my env/bin/python")
    argv = SshLauncher().argv("box", target)

    assert argv[0] == "ssh"
    assert "BatchMode=yes" in argv
    assert argv[-3:-1] == ("--", "me@box")
    assert argv[-1] == (
        "exec env -u SSH_CLIENT -u SSH2_CLIENT ~/'my env/bin/python' -P -m prong worker --stdio"
    )


def test_a_container_is_run_from_an_image_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is pulled, the worker is the container's program, and a volume outlives it."""
    programs(tmp_path, monkeypatch, "podman")
    target = RemoteTarget(launcher="container", image="prong:1")
    argv = ContainerLauncher().argv("box", target)

    assert argv[:5] == ("podman", "run", "-i", "--rm", "--init")
    assert "--pull=never" in argv
    assert argv[argv.index("--volume") + 1] == "prong-box:/var/prong"
    assert argv[argv.index("--entrypoint") + 1 :] == ("python3", "prong:1", *WORKER)
    with pytest.raises(NotInstalled, match="there is no docker here"):
        ContainerLauncher().argv(
            "box", RemoteTarget(launcher="container", image="i", engine="docker")
        )


@pytest.mark.parametrize("launcher", ["ssh", "container"])
def test_a_missing_program_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, launcher: str
) -> None:
    """Without ssh, docker or podman nothing is started, and what to install is named."""
    programs(tmp_path, monkeypatch)
    target = RemoteTarget(launcher=launcher, host="h", image="i")
    with pytest.raises(NotInstalled, match="install"):
        make_launcher(launcher).argv("box", target)


@pytest.mark.parametrize(
    ("launcher", "code", "errors", "means"),
    [
        ("ssh", 255, "Host key verification failed.", "connect once with 'ssh box'"),
        ("ssh", 255, "WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!", "ssh-keygen -R box"),
        ("ssh", 255, "me@box: Permission denied (publickey).", "without a password"),
        ("ssh", 255, "Could not resolve hostname box", "no host of that name"),
        ("ssh", 127, "sh: 1: python3: not found", "there is no python3 there"),
        ("ssh", 1, "/usr/bin/python3: No module named prong", "Prong is not installed"),
        ("container", 125, "docker: Error: No such image: i", "'i' is not on this machine"),
        ("container", 1, "Cannot connect to the Docker daemon at unix:///x", "does not run"),
        ("process", 1, "OSError: [Errno 28] No space left on device", "the disk over there"),
        ("ssh", 3, "something else", ""),
    ],
)
def test_a_failure_is_explained(launcher: str, code: int, errors: str, means: str) -> None:
    """What a program says when it cannot start a worker becomes what to do about it."""
    target = RemoteTarget(launcher=launcher, host="box", image="i")
    found = make_launcher(launcher).remedy(target, code, errors)
    assert means in found
    assert bool(means) == bool(found)


def test_an_unknown_launcher_is_refused() -> None:
    """A name that neither we nor a package has is an error that names ours."""
    with pytest.raises(UnknownName, match="process, ssh, container and ray"):
        make_launcher("carrier-pigeon")


def test_a_process_is_this_program() -> None:
    """By default the worker is run by the very Python that runs the session."""
    argv = make_launcher("process").argv("here", RemoteTarget(launcher="process"))
    assert argv == (sys.executable, *WORKER)
