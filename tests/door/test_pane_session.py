"""Panes of a leader that does not run inside tmux, and a tmux that is missing, old or unwilling."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio
import pytest

from prong.errors import NotInstalled, PaneFailed
from prong.host import LocalHost
from prong.host.pane import PaneSpec
from prong.host.pane.tmux_server import is_new
from shared.tmux import panes_of

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.door,
    pytest.mark.spec("M9"),
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give a home whose default tmux server is the test's own, and end that server."""
    folder = Path(tempfile.mkdtemp(prefix="pt"))
    for name in ("TMUX", "TMUX_PANE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TMUX_TMPDIR", str(folder))
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
    yield folder
    for socket in folder.glob("tmux-*/*"):
        # By its name: whatever the test has done to the environment, no other server is meant.
        subprocess.run(["tmux", "-S", str(socket), "kill-server"], check=False, capture_output=True)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[LocalHost]:
    local = LocalHost(tmp_path)
    yield local
    await local.close()


def spec(member: str) -> PaneSpec:
    return PaneSpec(member=member, argv=("cat",), cwd="/")


def sessions() -> list[str]:
    done = subprocess.run(
        ["tmux", "list-sessions", "-F", "#{session_name}"],
        check=False,
        capture_output=True,
        text=True,
    )
    return done.stdout.split()


async def test_outside_of_tmux_there_is_a_session_of_ours(home, host):
    """The teammates share a session on the user's server, and the way to it is told."""
    panes = panes_of(host, team="my crew.1")
    assert await panes.panes() == []
    first = await panes.open(spec("alice"))
    second = await panes.open(spec("bob"))

    assert first.note.endswith("look at it with: tmux attach -t prong-my-crew-1")
    assert second.note.endswith("tmux attach -t prong-my-crew-1")
    assert sessions() == ["prong-my-crew-1"]
    for pane in (first, second):
        await panes.close(pane.id)
    assert sessions() == []


async def test_a_session_of_that_name_that_is_not_ours(home, host):
    """A session of the user's that has our name stays as it is, ours has another."""
    subprocess.run(["tmux", "new-session", "-d", "-s", "prong-crew", "--", "cat", "-"], check=True)
    opened = await panes_of(host).open(spec("alice"))

    assert opened.note.endswith("tmux attach -t prong-crew-2")
    assert sorted(sessions()) == ["prong-crew", "prong-crew-2"]


async def test_a_hidden_pane_of_a_session_of_ours(home, host):
    """Hiding works where there is no leader's window, too."""
    panes = panes_of(host)
    first = await panes.open(spec("alice"))
    await panes.open(spec("bob"))
    await panes.hide(first.id)
    hidden = [pane.member for pane in await panes.panes() if pane.hidden]
    await panes.show(first.id)

    assert hidden == ["alice"]
    assert [pane.hidden for pane in await panes.panes()] == [False, False]


@pytest.mark.parametrize("value", ["/nowhere/socket,1,0", "nonsense", ",,"])
async def test_a_variable_that_names_a_server_which_is_gone(home, host, monkeypatch, value):
    """With TMUX left over from a server that is dead, the user's own server is used."""
    monkeypatch.setenv("TMUX", value)
    monkeypatch.setenv("TMUX_PANE", "%7")
    panes = panes_of(host)
    opened = await panes.open(spec("alice"))

    assert opened.note.endswith("tmux attach -t prong-crew")
    assert [pane.member for pane in await panes.panes()] == ["alice"]


async def test_a_pane_of_the_leader_that_is_not_there(home, host, monkeypatch):
    """With TMUX_PANE left over from elsewhere, the teammates get a session of ours."""
    subprocess.run(["tmux", "new-session", "-d", "-s", "user", "--", "cat", "-"], check=True)
    socket = next(home.glob("tmux-*/default"))
    monkeypatch.setenv("TMUX", f"{socket},1,0")
    monkeypatch.setenv("TMUX_PANE", "%77")
    opened = await panes_of(host).open(spec("alice"))

    assert opened.note.endswith("tmux attach -t prong-crew")


async def test_sessions_that_would_end_unattached(home, host):
    """A configuration that ends sessions nobody looks at does not end ours."""
    (home / ".tmux.conf").write_text("set -g destroy-unattached on\n")
    panes = panes_of(host)
    await panes.open(spec("alice"))

    assert [pane.member for pane in await panes.panes()] == ["alice"]


@pytest.mark.parametrize("conf", ["set -s exit-unattached on\n", "kill-server\n"])
async def test_a_server_that_ends_at_once(home, host, conf):
    """A configuration that ends the server nobody looks at is an error that says so."""
    (home / ".tmux.conf").write_text(conf)

    async def open_until_it_fails() -> None:
        # It lives on if whoever asks next is there before it has noticed that the last is gone.
        while True:
            await panes_of(host).open(spec("alice"))

    told = r"exit-unattached|server is gone|start Prong inside tmux"
    with anyio.fail_after(60), pytest.raises(PaneFailed, match=told):
        await open_until_it_fails()


def program(folder: Path, text: str) -> None:
    """Put a program named tmux first on the path."""
    path = folder / "tmux"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.mark.parametrize("version", ["2.9a", "3.1c", "1.8"])
async def test_an_old_tmux(home, host, monkeypatch, version):
    """A tmux that lacks what is needed is refused with the version that has it."""
    program(home, f"echo tmux {version}")
    monkeypatch.setenv("PATH", f"{home}:/usr/bin:/bin")
    with pytest.raises(NotInstalled, match=rf"tmux {version} is too old: 3\.2 is needed.*update"):
        await panes_of(host).open(spec("alice"))


@pytest.mark.parametrize("inside", [True, False])
async def test_no_tmux(home, host, monkeypatch, inside):
    """A tmux that is not there is an error that says how to get it."""
    if inside:
        monkeypatch.setenv("TMUX", "/nowhere,1,0")
    for name in ("env", "sh"):
        (home / name).symlink_to(shutil.which(name) or "")
    with monkeypatch.context() as patched:
        patched.setenv("PATH", str(home))
        with pytest.raises(NotInstalled, match=r"tmux is not installed; install it .apt install"):
            await panes_of(host).open(spec("alice"))


async def test_a_tmux_that_talks_nonsense(home, host, monkeypatch):
    """What is no list of panes, and no pane, is an error with what was said."""
    program(home, 'case "$1" in -V) echo tmux 3.4;; *) echo hello there;; esac')
    monkeypatch.setenv("PATH", f"{home}:/usr/bin:/bin")
    with pytest.raises(PaneFailed, match="hello there"):
        await panes_of(host).open(spec("alice"))


@pytest.mark.parametrize(
    ("version", "new"),
    [
        ("3.2", True),
        ("3.3a", True),
        ("next-3.5", True),
        ("master", True),
        ("openbsd-6.9", True),
        ("3.10", True),
        ("4.0", True),
        ("3.1b", False),
        ("2.9", False),
        ("next-3.1", False),
    ],
)
def test_versions_are_read(version, new):
    """Numbers count, whatever stands around them; what has none is of the newest source."""
    assert is_new(version) is new
