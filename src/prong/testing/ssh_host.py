"""A real sshd on this machine, and an ssh that knows it; both end with their block."""

from __future__ import annotations

import getpass
import shutil
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from prong.errors import NotInstalled
from prong.testing.local_port import free_port

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin:/sbin")
"""The server's program, if it is installed."""
HAS_SSH = SSHD is not None and shutil.which("ssh") is not None

_TRIES = 5
"""Ports that are tried: what was free may be taken by another before the server has it."""


class SshHost:
    """A server, and the folder with the client's configuration."""

    name = "far"
    """What the client calls it."""

    def __init__(self, folder: Path, port: int, pid: int) -> None:
        """Take the folder of all its files, its port at 127.0.0.1, and its process."""
        self.folder = folder
        self.port = port
        self.pid = pid
        """Below it is all that clients have started."""
        self.bin = folder / "bin"
        """To be put on the PATH: holds an `ssh` with a configuration of its own."""

    def know(self, key: Path) -> None:
        """Let the client take a public key for the host's."""
        kind, value, *_ = key.read_text().split()
        (self.folder / "known").write_text(f"{self.name} {kind} {value}\n")

    def forget(self) -> None:
        """Let the client not know the host."""
        (self.folder / "known").write_text("")

    def reach_by(self, port: int) -> None:
        """Let the client go by another port, of something that leads to the host."""
        folder = self.folder
        (folder / "config").write_text(
            f"Host {self.name}\n HostName 127.0.0.1\n Port {port}\n User {getpass.getuser()}\n"
            f" HostKeyAlias {self.name}\n"
            f" IdentityFile {folder / 'user'}\n IdentitiesOnly yes\n IdentityAgent none\n"
            f" UserKnownHostsFile {folder / 'known'}\n GlobalKnownHostsFile /dev/null\n"
        )


def make_key(path: Path) -> Path:
    """Make a key pair; gives the public one."""
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)]
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL)
    return path.with_suffix(".pub")


@contextmanager
def ssh_host(folder: Path) -> Generator[SshHost]:
    """Run an sshd on a port of 127.0.0.1 that lets a key in which was made for this.

    Raises NotInstalled if there is none.
    """
    if not HAS_SSH:
        raise NotInstalled("there is no sshd here: install Debian's openssh-server")
    folder.mkdir(parents=True)
    (folder / "bin").mkdir()
    host_key = make_key(folder / "host")
    (folder / "allowed").write_text(make_key(folder / "user").read_text())
    client = folder / "bin" / "ssh"
    client.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {folder / "config"} "$@"\n')
    client.chmod(0o755)
    if Path("/run").is_dir() and getpass.getuser() == "root":
        Path("/run/sshd").mkdir(exist_ok=True)
    server, port = _start(folder)
    try:
        host = SshHost(folder, port, server.pid)
        host.know(host_key)
        host.reach_by(port)
        yield host
    finally:
        server.terminate()
        server.wait()


def _start(folder: Path) -> tuple[subprocess.Popen[bytes], int]:
    """Run the server at a port that is its own."""
    log = folder / "sshd.log"
    for _ in range(_TRIES):
        port = free_port()
        (folder / "sshd_config").write_text(
            f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder / 'host'}\nPidFile none\n"
            f"AuthorizedKeysFile {folder / 'allowed'}\nStrictModes no\nUsePAM no\n"
            "PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\n"
            # By default some of those who come at once are turned away, by chance.
            "MaxStartups 100\n"
        )
        with log.open("wb") as said:
            words = [str(SSHD), "-D", "-e", "-f", str(folder / "sshd_config")]
            server = subprocess.Popen(words, stderr=said, stdout=said)
        while server.poll() is None:
            if b"listening on" in log.read_bytes():
                return server, port
            time.sleep(0.02)
    raise AssertionError(f"sshd does not listen: {log.read_text()}")
