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
    """Nothing is pulled, the worker is the container's program, and a volume outlives it.

    What it says is logged nowhere, no byte of it is a key, and no proxy of this machine goes along.
    """
    programs(tmp_path, monkeypatch, "podman", "docker")
    more = ("--network=host", "--memory=4g")
    target = RemoteTarget(launcher="container", image="prong:1", options=more)
    usual = ("run", "-i", "--rm", "--init", "--pull=never", "--log-driver=none", "--detach-keys=")
    volume = ("--volume", "prong-box:/var/prong", "--entrypoint", "python3", "prong:1")

    argv = ContainerLauncher().argv("box", target)
    assert argv == ("docker", *usual, *more, *volume, *WORKER)
    (tmp_path / "docker").unlink()
    argv = ContainerLauncher().argv("box", target)
    assert argv == ("podman", *usual, "--http-proxy=false", *more, *volume, *WORKER)
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
        (
            "ssh",
            255,
            "IDENTIFICATION HAS CHANGED!\r\nHost key for [10.0.0.7]:2222 has changed and you have",
            "ssh-keygen -R '[10.0.0.7]:2222'",
        ),
        ("ssh", 255, "me@box: Permission denied (publickey).", "without a password"),
        ("ssh", 255, "Could not resolve hostname box", "no host of that name"),
        ("ssh", 127, "sh: 1: python3: not found", "there is no python3 there"),
        ("ssh", 1, "/usr/bin/python3: No module named prong", "Prong is not installed"),
        (
            "ray",
            1,
            "no worker could be placed: ModuleNotFoundError: No module named 'prong'",
            "for the Python that runs Ray",
        ),
        ("ray", 1, "[Errno 2] No such file or directory: '/p'", "there is no python there"),
        ("container", 125, "docker: Error: No such image: i", "'i' is not on this machine"),
        ("container", 125, "Error: i: image not known", "'i' is not on this machine"),
        ("container", 1, "Cannot connect to the Docker daemon at unix:///x", "does not run"),
        ("container", 1, "failed to connect to the docker API at unix:///x", "does not run"),
        ("container", 125, "Cannot connect to Podman. Please verify it", "does not run"),
        (
            "container",
            125,
            "Error: unknown flag: --x\nSee 'podman run --help'",
            "does not know one of the target's 'options'",
        ),
        (
            "container",
            126,
            "permission denied while trying to connect to the Docker daemon socket at unix:///x",
            "this user may not use docker",
        ),
        (
            "container",
            125,
            'Error: lookup init binary: exec: "catatonit": executable file not found in $PATH',
            "install catatonit",
        ),
        (
            "container",
            125,
            "Error: container-init binary not found on the host: stat /x: no such file or directory",
            "install catatonit",
        ),
        (
            "container",
            1,
            "ERROR (catatonit:2): failed to exec pid1: No such file or directory",
            "there is no python3 in the image",
        ),
        (
            "container",
            127,
            "[FATAL tini (7)] exec python3 failed: No such file or directory",
            "there is no python3 there",
        ),
        ("process", 1, "OSError: [Errno 28] No space left on device", "the disk over there"),
        ("ssh", 3, "something else", ""),
        ("ssh", 1, "PermissionError: [Errno 13] Permission denied: '/home/me/.cache/x'", ""),
        ("ssh", 126, "sh: 1: /opt/python3: Permission denied", ""),
        ("ssh", 1, "TimeoutError: timed out", ""),
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
