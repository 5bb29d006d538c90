"""A child's host lets nothing be written outside its worktree."""

from __future__ import annotations

import itertools
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from prong.host import LocalHost
from prong.host.local_host import ConfinedHost
from prong.host.worktree import create
from prong.testing.repository import Repo

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("W3")]


@pytest.fixture
async def host(repo: Repo, tmp_path: Path) -> AsyncIterator[ConfinedHost]:
    made = await create(LocalHost(repo.path), "x")
    pad = tmp_path / "pad"
    pad.mkdir()
    child = ConfinedHost(
        made.cwd,
        bounds=made.path,
        inherited=[made.parent],
        folders=[str(pad)],
        home=str(tmp_path),
    )
    yield child
    await child.close()


async def test_the_parents_paths_mean_the_childs_files(repo: Repo, host: ConfinedHost) -> None:
    """Reading, writing and resolving a path of the parent's happens in the worktree."""
    Path(host.root, "a.txt").write_text("the child's\n")

    assert host.resolve(f"{repo.path}/a.txt") == f"{host.root}/a.txt"
    assert host.resolve("../../../a.txt") == f"{host.root}/a.txt"
    assert host.resolve(str(repo.path)) == host.root
    assert host.follow(f"{repo.path}/a.txt") == f"{repo.path}/a.txt"
    assert await host.read(f"{repo.path}/a.txt") == b"the child's\n"
    await host.write(f"{repo.path}/src/new.txt", b"new")

    assert Path(host.root, "src/new.txt").read_bytes() == b"new"
    assert not (repo.path / "src/new.txt").exists()


async def test_a_path_of_a_forebear_further_up_is_moved_too(repo: Repo, host: ConfinedHost) -> None:
    """Paths of parent and grandparent both mean the worktree."""
    made = await create(LocalHost(host.root), "inner")
    inner = ConfinedHost(made.cwd, inherited=[host.root, str(repo.path)])
    for folder in (repo.path, host.root):
        assert inner.resolve(f"{folder}/a.txt") == f"{made.path}/a.txt"


@pytest.mark.parametrize(
    "path",
    [
        "{out}/f",
        "../../../../out/f",
        "~/out/f",
        "link/f",
        "deep/link/f",
        "file-link",
        "dangling",
        "link/../out/f",
        "{root}/link/f",
        "{repo}/link/f",
        "/proc/self/root{out}/f",
    ],
)
async def test_writing_outside_is_refused(
    repo: Repo, host: ConfinedHost, tmp_path: Path, path: str
) -> None:
    """Neither dots, home, links nor other names for the same folder lead out."""
    out = tmp_path / "out"
    out.mkdir()
    (out / "there").write_text("old")
    root = Path(host.root)
    (root / "deep").mkdir()
    (root / "link").symlink_to(out)
    (root / "deep/link").symlink_to("../link")
    (root / "file-link").symlink_to(out / "there")
    (root / "dangling").symlink_to(out / "f")

    with pytest.raises(OSError):
        await host.write(path.format(out=out, root=root, repo=repo.path), b"bad")

    assert [p.name for p in out.iterdir()] == ["there"]
    assert (out / "there").read_text() == "old"


async def test_a_linked_folder_of_the_parent_is_read_but_not_written(
    repo: Repo, host: ConfinedHost
) -> None:
    """What worktree and parent share by a link stays the parent's."""
    repo.write("node_modules/p", "js")
    Path(host.root, "node_modules").symlink_to(repo.path / "node_modules")
    place = host.resolve("node_modules/p")
    assert await host.read(place) == b"js"
    for path in ("node_modules/p", place, f"{repo.path}/node_modules/new"):
        with pytest.raises(PermissionError):
            await host.write(path, b"bad")
    assert [p.name for p in (repo.path / "node_modules").iterdir()] == ["p"]
    assert (repo.path / "node_modules/p").read_text() == "js"


async def test_a_path_that_became_a_link_after_the_check_is_not_read(
    host: ConfinedHost, tmp_path: Path
) -> None:
    """What was checked as a file of the worktree does not turn into another one."""
    (tmp_path / "secret").write_text("secret")
    checked = host.resolve("a.txt")
    Path(checked).unlink()
    Path(checked).symlink_to(tmp_path / "secret")
    with pytest.raises(PermissionError):
        await host.read(checked)
    with pytest.raises(PermissionError):
        await host.stat(checked)


async def test_no_race_leads_out(host: ConfinedHost, tmp_path: Path) -> None:
    """While a folder is swapped with a link to the outside, no write lands there."""
    out, root = tmp_path / "out", Path(host.root)
    out.mkdir()
    (root / "parked").mkdir()
    sub = root / "sub"
    stop = threading.Event()

    def swap() -> None:
        for number in itertools.count():
            if stop.is_set():
                return
            with suppress(OSError):
                sub.rename(root / f"parked/{number}")
            with suppress(OSError):
                sub.symlink_to(out)
            with suppress(OSError):
                sub.unlink()
            with suppress(OSError):
                sub.mkdir()

    thread = threading.Thread(target=swap)
    thread.start()
    landed = 0
    try:
        for number in itertools.count():
            # While the link stays, as whoever swaps is held up, all of them could be refused.
            if number >= 600 and landed:
                break
            try:
                await host.write(f"sub/f{number}", b"x")
                landed += 1
            except OSError:
                continue
    finally:
        stop.set()
        thread.join()
    assert list(out.iterdir()) == []


async def test_named_folders_may_be_written(host: ConfinedHost, tmp_path: Path) -> None:
    """The scratchpad is open, and permission bits are kept as everywhere."""
    await host.write(f"{tmp_path}/pad/new/f", b"1")
    assert (tmp_path / "pad/new/f").read_bytes() == b"1"
    Path(host.root, "run.sh").write_text("old")
    Path(host.root, "run.sh").chmod(0o750)
    await host.write("run.sh", b"new" * (1 << 20))
    assert Path(host.root, "run.sh").stat().st_mode & 0o777 == 0o750
    assert not [p for p in Path(host.root).iterdir() if p.name.endswith(".tmp")]


async def test_processes_start_in_the_worktree(
    repo: Repo, host: ConfinedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shell starts there, the parent's folder means it too, and git is not led astray."""
    monkeypatch.setenv("GIT_DIR", f"{repo.path}/.git")
    for cwd in (None, str(repo.path)):
        process = await host.start("pwd; git rev-parse --show-toplevel", cwd=cwd)
        output = b"".join([chunk async for chunk in process.output()])
        assert output.decode().splitlines() == [host.root, host.root]
        assert (await host.run(["pwd"], cwd=cwd)).output.decode().strip() == host.root
    with pytest.raises(PermissionError):
        await host.start("pwd", cwd="/")
    with pytest.raises(PermissionError):
        await host.run(["pwd"], cwd=str(repo.path.parent))
