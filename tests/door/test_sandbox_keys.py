"""Secrets of teams against real commands: hidden in every profile, wherever the state folder is."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest

from prong.host import LocalHost
from prong.host.sandbox import Profile, spawn
from prong.host.sandbox.room import furnish as make_room
from prong.tools.derive import reading, working, worktree
from prong.tools.policy import Ground, Policy
from prong.tools.seal import sealed_in
from shared.sandbox import ABLE, Bench, at_work, kernel, views

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("L13")]


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    made = Bench(tmp_path)
    yield made
    await made.host.close()


@pytest.fixture(params=["thread", "starter"])
def road(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Go both ways into a view: root's own, and that of everybody else."""
    if request.param == "starter":
        monkeypatch.setattr(spawn, "enters_by_thread", lambda: False)
    elif os.geteuid() != 0:
        pytest.skip("only root enters a view by a thread")
    return request.param


def furnish(bench: Bench, store: Path) -> Policy:
    """Make two teams with keys and starts in a state folder, and a policy that knows of it."""
    for team in ("red", "blue"):
        for name in ("keys/ann", "start/ann.json"):
            secret = store / "teams" / team / name
            secret.parent.mkdir(parents=True, mode=0o700)
            secret.write_text(f"KEY of {team}")
            secret.chmod(0o600)
        (store / "teams" / team / "tasks").write_text("open\n")
    return msgspec.structs.replace(bench.policy(), sealed=sealed_in((str(store),)))


def ways(store: Path) -> tuple[str, ...]:
    keys = store / "teams/red/keys"
    return (
        f"cat {keys}/ann",
        f"cat {store}/teams/*/keys/*",
        f"cat {store}/teams/*/start/*",
        f"cd {store}/teams/blue && cat start/ann.json; mv start s; cat s/ann.json",
        f"cd {store}/teams/blue && cat keys/ann",
        f"grep -r KEY {store}",
        f"python3 -c 'print(open(\"{keys}/ann\").read())'",
        f"tar c {store} | strings",
        f"cd {keys}; cat ann; cat /proc/self/cwd/ann",
        f"ln {keys}/ann $TMPDIR/x; ln -s {keys} l; cat $TMPDIR/x l/ann; rm -f l",
        f"cp -r {store}/teams copy; cat copy/*/keys/*; rm -rf copy",
        f"umount {keys}; unshare -Ur umount {keys}; cat {keys}/ann",
    )


async def hides(bench: Bench, profile: Profile, store: Path, cwd: str | None = None) -> None:
    for line in ways(store):
        ended = await bench.run(line, profile, cwd=cwd)
        assert "KEY of" not in ended.text, (profile.name, line, ended)


@kernel
async def test_reading_shows_no_key(bench: Bench) -> None:
    """A command that only reads gets at no key, and at what lies beside them."""
    store = bench.home / ".prong"
    profile = reading(furnish(bench, store))

    await hides(bench, profile, store)
    assert (await bench.run(f"cat {store}/teams/red/tasks", profile)).text == "open\n"


@views
async def test_working_shows_no_key(bench: Bench, road: str) -> None:
    """Nor does a command that was allowed, wherever the keys are."""
    for store in (bench.home / ".prong", bench.root / "state"):
        profile = working(furnish(bench, store))
        await hides(bench, profile, store)


@views
async def test_a_worktree_shows_no_key(bench: Bench, road: str) -> None:
    """Nor does one of a child in a worktree."""
    store = bench.home / ".prong"
    policy = furnish(bench, store)
    first, path = await at_work(bench, "child")
    own, common = first.pinned[0], str(bench.root / ".git")
    ground = Ground(path, path, (str(bench.root),), own, common, "prong/child")

    await hides(bench, worktree(policy, ground), store, cwd=path)


@kernel
async def test_without_views_keys_elsewhere_are_hidden_all_the_same(bench: Bench) -> None:
    """Where there are no namespaces, Landlock hides what lies outside the open folders."""
    weaker = msgspec.structs.replace(ABLE, views=False)
    bench.host = LocalHost(bench.root, str(bench.home), ability=weaker)
    store = bench.home / ".prong"
    profile = working(furnish(bench, store))

    await hides(bench, profile, store)
    ended = await bench.run("echo x > b && cat b a && python3 -c 'print(6 * 7)'", profile)
    assert ended.text == "x\none\n42\n"


@views
async def test_keys_cannot_be_put_where_they_are_not_looked_for(bench: Bench, road: str) -> None:
    """No folder that leads to them can be renamed, so that the next command would find them."""
    store = bench.root / "state"
    profile = working(furnish(bench, store))
    for line in (
        "mv state s",
        "mv state/teams s",
        "mv state/teams/red/keys k",
        "mv state/teams/red r",
    ):
        await bench.run(line, profile)
        ended = await bench.run("cat s/teams/red/keys/ann s/red/keys/ann k/ann r/keys/ann", profile)
        assert "KEY of" not in ended.text, (line, ended)


@kernel
async def test_sockets_of_teams_are_out_of_reach(bench: Bench) -> None:
    """No command connects to one, whatever services it may reach, nor sees it or makes its own."""
    with TemporaryDirectory(prefix="prong-", dir="/tmp") as folder:
        path = f"{folder}/1f"
        policy = msgspec.structs.replace(
            bench.policy(temp=("/tmp",)), sealed=sealed_in((), (folder,))
        )
        connect = (
            f'python3 -c \'import socket; s = socket.socket(socket.AF_UNIX); s.connect("{path}"); '
            f'print("in" + "side")\'; ls {folder}; rm -f {path}; mv {folder} {folder}x'
        )
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path)
            server.listen()
            profiles = [reading(policy), *([working(policy)] if ABLE.views else [])]
            for profile in (
                *profiles,
                *(msgspec.structs.replace(p, daemons=True) for p in profiles),
            ):
                ended = await bench.run(connect, profile)
                assert "inside" not in ended.text, profile.name
                assert Path(path).is_socket()
                assert (profile.name == "reading") or "1f\n" not in ended.text


@kernel
@pytest.mark.skipif(not ABLE.filters, reason="nothing keeps commands from sockets here")
async def test_a_folder_of_sockets_is_hidden_only_where_one_could_be_reached(
    bench: Bench, tmp_path: Path
) -> None:
    """Landlock hides by naming all that is beside, and a folder in a full /tmp has much of that."""
    folder = tmp_path / "prong-0"
    folder.mkdir()
    policy = msgspec.structs.replace(bench.policy(), sealed=sealed_in((), (str(folder),)))
    hidden = {
        daemons: furnished(msgspec.structs.replace(reading(policy), daemons=daemons), tmp_path)
        for daemons in (False, True)
    }
    assert str(folder) not in hidden[False]
    assert str(folder) in hidden[True]


def furnished(profile: Profile, folder: Path) -> tuple[str, ...]:
    """Give what is hidden from a command of a profile."""
    room = make_room(
        profile, ABLE, cwd=str(folder), env={}, home=str(folder), aside=str(folder), lingering=[]
    )
    room.leave()
    return room.hidden


@kernel
async def test_a_state_folder_behind_links(bench: Bench, tmp_path: Path) -> None:
    """Keys are hidden by what the paths lead to: a link on the way changes nothing."""
    far = tmp_path / "far"
    policy = furnish(bench, far)
    (bench.home / ".prong").symlink_to(far)
    (far / "teams/red").rename(tmp_path / "red")
    (far / "teams/red").symlink_to(tmp_path / "red")
    policy = msgspec.structs.replace(policy, sealed=sealed_in((f"{bench.home}/.prong",)))
    profiles = [reading(policy), *([working(policy)] if ABLE.views else [])]
    for profile in profiles:
        for store in (far, bench.home / ".prong"):
            await hides(bench, profile, store)
        ended = await bench.run(f"cat {tmp_path}/red/keys/ann", profile)
        assert "KEY of" not in ended.text
