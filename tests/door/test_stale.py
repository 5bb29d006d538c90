"""What a killed process has left where nobody else looks is removed by a later one."""

from __future__ import annotations

import os
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from prong.config.plugin_store import PluginStore
from prong.mail.socket_folder import sweep_sockets
from prong.provider.local.keep import Keep
from prong.testing import Worlds

pytestmark = [pytest.mark.anyio, pytest.mark.door]

DAYS = 2 * 86_400


def age(path: Path) -> Path:
    """Let a file be of the day before yesterday."""
    then = time.time() - DAYS
    os.utime(path, (then, then), follow_symlinks=False)
    return path


@pytest.fixture
def short() -> Iterator[Path]:
    """Give a folder in which sockets can be."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def left(path: Path) -> Path:
    """Make a socket as a killed process leaves it."""
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))
    return path


def test_only_sockets_that_are_old_and_deserted_go(short: Path) -> None:
    """Whoever listens stays, however long and by whatever kind; so does what is no socket."""
    with (
        socket.socket(socket.AF_UNIX) as listens,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as waits,
        socket.socket(socket.AF_UNIX) as busy,
        socket.socket(socket.AF_UNIX) as first,
    ):
        for name, one in (("listens", listens), ("waits", waits), ("busy", busy)):
            one.bind(str(short / name))
            age(short / name)
        listens.listen()
        busy.listen(0)
        first.connect(str(short / "busy"))
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as rung:
            rung.bind(str(short / "rung"))
        age(short / "rung")
        age(left(short / "dead"))
        left(short / "young")
        (short / "file").touch()
        age(short / "file")
        target = age(left(short.with_name(f"{short.name}.elsewhere")))
        (short / "link").symlink_to(target)
        age(short / "link")
        sweep_sockets(short)
        stay = {"listens", "waits", "busy", "young", "file", "link"}
        assert {one.name for one in short.iterdir()} == stay
        assert target.exists()
        target.unlink()
    sweep_sockets(short / "nowhere")


async def test_a_session_removes_sockets_of_the_dead(
    world: Worlds, short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that was killed and is never resumed leaves its socket to others to remove."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short))
    (short / "prong").mkdir(mode=0o700)
    dead = age(left(short / "prong/dead"))
    async with world([], allow_actions=True):
        with anyio.fail_after(50):
            while dead.exists():
                await anyio.sleep(0.02)


def test_parts_of_prefixes_go(tmp_path: Path) -> None:
    """What an engine was writing when it was killed is removed by the next; not what one writes."""
    model = tmp_path / "model"
    model.touch()
    Keep(tmp_path / "kept", model, 1)
    (folder,) = (tmp_path / "kept").iterdir()
    old, young = folder / "a.12.part", folder / "b.13.part"
    old.touch()
    young.touch()
    age(old)
    Keep(tmp_path / "kept", model, 1)
    assert list(folder.iterdir()) == [young]


def test_what_was_fetched_for_nobody_goes(tmp_path: Path) -> None:
    """What a killed `prong plugin add` had fetched is removed by the next one."""
    source = tmp_path / "source"
    (source / ".claude-plugin").mkdir(parents=True)
    (source / ".claude-plugin/plugin.json").write_text('{"name": "tool"}')
    store = PluginStore(str(tmp_path / "home"))
    folder = store.record.folder
    for name in (".fetch-old", ".fetch-young"):
        (folder / name / "source").mkdir(parents=True)
    age(folder / ".fetch-old")
    store.add(str(source), (), lambda _: True)
    assert {one.name for one in folder.glob(".fetch-*")} == {".fetch-young"}
