"""A real podman whose images, containers and volumes are a test's own; nothing is pulled."""

from __future__ import annotations

import io
import json
import os
import resource
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import prong

PODMAN = shutil.which("podman")
IMAGE = "prong-test:1"
_HYBRID = Path("/sys/fs/cgroup/unified/cgroup.controllers")
"""Both kinds of control groups at once, which crun refuses."""
_LINKS = ("bin", "sbin", "lib", "lib64")
_PLACES = ("usr", "etc", "tmp", "root", "proc", "sys", "dev", "run", "var")


class PodmanEngine:
    """An engine with one image, which is this machine's programs in a root of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        """To be put on the PATH: holds a `podman` with a configuration of its own."""

    def __call__(self, *words: str, stdin: bytes = b"") -> str:
        """Run a command of it that must succeed."""
        argv = [str(self.bin / "podman"), *words]
        done = subprocess.run(argv, input=stdin, capture_output=True, check=False)
        if done.returncode != 0:
            raise EngineFailed(done.stderr.decode(errors="replace").strip())
        return done.stdout.decode().strip()

    @property
    def target(self) -> dict[str, Any]:
        """Give a target: our own Python is there at its own place, and the network is the host's."""
        options = ["--network=host", *(f"--volume={one}:{one}:ro" for one in _mounted())]
        given = {"launcher": "container", "engine": "podman", "image": IMAGE}
        return {**given, "options": options, "python": sys.executable}

    @property
    def volume(self) -> Path:
        """Give where the volume of the target `box` is on this machine."""
        return self.folder / "graph" / "volumes" / "prong-box" / "_data"

    def containers(self) -> list[str]:
        """Give the containers that there are, running or not."""
        return self("ps", "--all", "--quiet", "--no-trunc").split()


class EngineFailed(Exception):
    """What the engine said."""


def _mounted() -> list[str]:
    source = str(Path(prong.__file__).parents[1])
    found = ["/usr", *(f"/{one}" for one in _LINKS if not _is_link(one))]
    for one in (sys.base_prefix, sys.prefix, source):
        if not any(Path(one).is_relative_to(known) for known in found):
            found.append(one)
    return found


def _is_link(name: str) -> bool:
    return Path("/", name).is_symlink() or not Path("/", name).exists()


def _root() -> bytes:
    """Make the files of the image: folders for what is mounted, and who is root."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name in _PLACES:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            tar.addfile(entry)
        for name in _LINKS:
            entry = tarfile.TarInfo(name)
            entry.mode = 0o755
            entry.type = tarfile.SYMTYPE if _is_link(name) else tarfile.DIRTYPE
            entry.linkname = f"usr/{name}" if _is_link(name) else ""
            tar.addfile(entry)
        for name, text in (("passwd", "root:x:0:0:root:/root:/bin/sh\n"), ("group", "root:x:0:\n")):
            entry = tarfile.TarInfo(f"etc/{name}")
            entry.size, entry.mode = len(text), 0o644
            tar.addfile(entry, io.BytesIO(text.encode()))
    return made.getvalue()


def _configure(engine: PodmanEngine) -> None:
    folder = engine.folder
    (folder / "storage.conf").write_text(
        f'[storage]\ndriver = "vfs"\ngraphroot = "{folder}/graph"\nrunroot = "{folder}/run"\n'
    )
    # The usual limits may be above what this process is allowed to give.
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    limits = [f"nofile={most}:{most}", "nproc=1024:1024"]
    groups = "disabled" if shutil.which("crun") else "enabled"
    (folder / "containers.conf").write_text(
        f'[containers]\ncgroups = "{groups}"\ndefault_ulimits = {json.dumps(limits)}\n'
        f'[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "none"\n'
        f'tmp_dir = "{folder}/libpod"\n'
    )
    engine.bin.mkdir()
    program = engine.bin / "podman"
    line = f'exec {PODMAN} "$@"'
    if _HYBRID.exists() and os.getuid() == 0:
        # Seen by this engine alone.
        line = f"exec unshare -m sh -c 'umount {_HYBRID.parent}; {line}' podman \"$@\""
    program.write_text(
        f"#!/bin/sh\nexport CONTAINERS_CONF={folder}/containers.conf\n"
        f"export CONTAINERS_STORAGE_CONF={folder}/storage.conf\n{line}\n"
    )
    program.chmod(0o755)


@contextmanager
def podman_engine(folder: Path) -> Generator[PodmanEngine, None, None]:
    """Give an engine that can run containers; skips the test if there can be none here."""
    if PODMAN is None:
        pytest.skip("there is no podman here")
    engine = PodmanEngine(folder)
    _configure(engine)
    try:
        engine("import", "-", IMAGE, stdin=_root())
        options = engine.target["options"]
        engine("run", "--rm", "--init", "--pull=never", *options, IMAGE, "/bin/true")
    except EngineFailed as error:
        pytest.skip(f"podman cannot run a container here: {str(error).splitlines()[-1]}")
    try:
        yield engine
    finally:
        engine("rm", "--all", "--force", "--time=0")
