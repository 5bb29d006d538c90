"""The sandbox on other kinds of file systems: a project and a home that are mounted from elsewhere."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from shared import forbidden
from shared.sandbox import ABLE, views

pytestmark = [pytest.mark.door, pytest.mark.spec("L13"), views]

KINDS = {
    "tmpfs": "mount -t tmpfs tmpfs {place}",
    "bind": "mount --bind {spare} {place}",
    "bind of a bind": "mount --bind {spare} {work} && mount --bind {work} {place}",
    "overlay": "mount -t overlay overlay -o lowerdir={spare},upperdir={upper},workdir={work} {place}",
    "fuse": "bindfs {spare} {place}",
}
"""Ways to put another file system where a home and a project will be."""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to mount")
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_announced_holds_on_other_file_systems(kind: str, tmp_path: Path) -> None:
    """Writes, protected paths and hidden files are held there as everywhere."""
    if kind == "fuse" and shutil.which("bindfs") is None:
        pytest.skip("needs bindfs")
    names = {name: tmp_path / name for name in ("place", "spare", "upper", "work")}
    for folder in names.values():
        folder.mkdir()
    mount = KINDS[kind].format(**{name: shlex.quote(str(path)) for name, path in names.items()})
    run = shlex.join([sys.executable, forbidden.__file__, "1", "", str(names["place"])])
    paths = [str(Path(forbidden.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    ended = subprocess.run(
        ["unshare", "-m", "sh", "-c", f"{mount} && exec {run}"],
        env={**os.environ, "PYTHONPATH": ":".join(paths)},
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr.decode()
    told = msgspec.json.decode(ended.stdout, type=forbidden.Told)

    assert told.ability == ABLE
    harm = ("inside", "outside", "protected", "hook", "moved", "denied", "modes", "socket")
    assert {name: told.reading[name] for name in harm} == dict.fromkeys(harm, "refused")
    held = ("outside", "protected", "hook", "moved", "denied", "modes")
    assert {name: told.working[name] for name in held} == dict.fromkeys(held, "refused")
    assert told.working["inside"] == "done"
