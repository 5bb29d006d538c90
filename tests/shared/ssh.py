"""A real sshd on this machine, and an ssh that knows it; both end with the test."""

from __future__ import annotations

import getpass
import shutil
import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin:/sbin")
needs_sshd = pytest.mark.skipif(
    SSHD is None or shutil.which("ssh") is None, reason="there is no sshd here: openssh-server"
)


class SshHost:
    """A server, and the folder with the client's configuration."""

    name = "far"
    """What the client calls it."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port
        self.bin = folder / "bin"
        """To be put on the PATH: holds an `ssh` with a configuration of its own."""

    def know(self, key: Path) -> None:
        """Let the client take a public key for the host's."""
        kind, value, *_ = key.read_text().split()
        (self.folder / "known").write_text(f"[127.0.0.1]:{self.port} {kind} {value}\n")

    def forget(self) -> None:
        """Let the client not know the host."""
        (self.folder / "known").write_text("")


def make_key(path: Path) -> Path:
    """Make a key pair; gives the public one."""
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)]
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL)
    return path.with_suffix(".pub")


@contextmanager
def ssh_host(folder: Path) -> Generator[SshHost, None, None]:
    """Run an sshd on a port of 127.0.0.1 that lets a key in which was made for this."""
    assert SSHD is not None
    folder.mkdir(parents=True)
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = int(found.getsockname()[1])
    host = SshHost(folder, port)
    host.know(make_key(folder / "host"))
    (folder / "allowed").write_text(make_key(folder / "user").read_text())
    config = folder / "sshd_config"
    config.write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder / 'host'}\nPidFile none\n"
        f"AuthorizedKeysFile {folder / 'allowed'}\nStrictModes no\nUsePAM no\n"
        "PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\n"
    )
    (folder / "config").write_text(
        f"Host {host.name}\n HostName 127.0.0.1\n Port {port}\n User {getpass.getuser()}\n"
        f" IdentityFile {folder / 'user'}\n IdentitiesOnly yes\n IdentityAgent none\n"
        f" UserKnownHostsFile {folder / 'known'}\n GlobalKnownHostsFile /dev/null\n"
    )
    host.bin.mkdir()
    client = host.bin / "ssh"
    real = shutil.which("ssh")
    client.write_text(f'#!/bin/sh\nexec {real} -F {folder / "config"} "$@"\n')
    client.chmod(0o755)
    if Path("/run").is_dir() and getpass.getuser() == "root":
        Path("/run/sshd").mkdir(exist_ok=True)
    with (folder / "sshd.log").open("wb") as log:
        server = subprocess.Popen([SSHD, "-D", "-e", "-f", str(config)], stderr=log, stdout=log)
    try:
        _wait(port, server, folder / "sshd.log")
        yield host
    finally:
        server.terminate()
        server.wait()


def _wait(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(500):
        assert server.poll() is None, log.read_text()
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise AssertionError("sshd does not listen")
