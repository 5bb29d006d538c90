"""All hosts keep one contract."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from prong.host import Finished, Host, LocalHost
from prong.host.local_host import ConfinedHost
from prong.testing.host import Command, MemoryHost

pytestmark = [pytest.mark.anyio, pytest.mark.spec("L2"), pytest.mark.door]

COMMANDS = {
    "printf hi": "hi",
    "sh -c 'printf out; printf err >&2; exit 3'": Finished(3, b"out", b"err"),
    "cat": b"fed",
    "printf one": "one",
    "exit 7": Finished(7, b""),
}


@pytest.fixture(params=["local", "memory", "confined"])
async def host(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Host]:
    if request.param == "memory":
        yield MemoryHost(
            {"dir/a.txt": "alpha", "top.txt": b"0123456789", "/outside/s.txt": "secret"},
            COMMANDS,
            links={"link.txt": "dir/a.txt", "out": "/outside", "loop": "loop"},
        )
        return
    root, home, outside = tmp_path / "project", tmp_path / "home", tmp_path / "outside"
    for folder in (root / "dir", home, outside):
        folder.mkdir(parents=True)
    (root / "dir/a.txt").write_text("alpha")
    (root / "top.txt").write_text("0123456789")
    (outside / "s.txt").write_text("secret")
    (root / "link.txt").symlink_to("dir/a.txt")
    (root / "out").symlink_to(outside)
    (root / "loop").symlink_to("loop")
    kept = str(tmp_path / "kept")
    confined = ConfinedHost(str(root), folders=[str(outside)], home=str(home), storage=kept)
    free = LocalHost(str(root), home=str(home), storage=kept)
    local = confined if request.param == "confined" else free
    yield local
    await local.close()


async def test_paths_resolve(host: Host) -> None:
    """Paths are taken from the root or home, dots and links are followed."""
    assert host.resolve("dir/../top.txt") == f"{host.root}/top.txt"
    assert host.resolve("~/x") == f"{host.home}/x"
    assert host.resolve("~") == host.home
    assert host.resolve("/a/./b/../c") == "/a/c"
    assert host.resolve("link.txt") == f"{host.root}/dir/a.txt"
    assert host.resolve(".") == host.root
    assert host.resolve("missing/x") == f"{host.root}/missing/x"


async def test_a_path_means_one_place_where_nothing_is_inherited(host: Host) -> None:
    """What a path means to a tool is then what it means to a process."""
    assert not host.inherited
    for path in (".", "~", "top.txt", "link.txt", "out/s.txt", "loop", "dir/../missing/x", "a\0b"):
        assert host.resolve(path) == host.follow(path)


async def test_a_link_out_of_the_root_resolves_to_its_target(host: Host) -> None:
    """What lies behind a link is named by its real place."""
    assert not host.resolve("out/s.txt").startswith(host.root + "/")
    assert host.resolve("out/s.txt").endswith("/outside/s.txt")


async def test_stat_tells_what_is_there(host: Host) -> None:
    """Files, folders and nothing are told apart, through links too."""
    found = await host.stat("top.txt")
    assert found is not None
    assert (found.kind, found.size) == ("file", 10)
    folder = await host.stat("dir")
    assert folder is not None
    assert folder.kind == "folder"
    assert await host.stat("nowhere") is None
    assert await host.stat("top.txt/below") is None
    linked = await host.stat("link.txt")
    assert linked is not None
    assert linked.size == 5


async def test_read_takes_a_range(host: Host) -> None:
    """Offset and limit select bytes; past the end there are none."""
    assert await host.read("top.txt") == b"0123456789"
    assert await host.read("top.txt", offset=3, limit=4) == b"3456"
    assert await host.read("top.txt", offset=8, limit=4) == b"89"
    assert await host.read("top.txt", offset=50) == b""
    assert await host.read("top.txt", limit=0) == b""
    assert await host.read("link.txt") == b"alpha"


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("nowhere", FileNotFoundError),
        ("dir", IsADirectoryError),
        ("top.txt/below", NotADirectoryError),
        ("loop", OSError),
        ("a\0b", OSError),
    ],
)
async def test_what_cannot_be_read_raises(host: Host, path: str, error: type[OSError]) -> None:
    """Reading what is no file raises an OSError of the fitting kind."""
    with pytest.raises(error):
        await host.read(path)


async def test_write_makes_folders_and_replaces(host: Host) -> None:
    """A write makes missing folders; a second one replaces the content; links are followed."""
    await host.write("new/deep/f.txt", b"1")
    await host.write("new/deep/f.txt", b"22")
    assert await host.read("new/deep/f.txt") == b"22"
    assert await host.list("new/deep") == ["f.txt"]
    await host.write("link.txt", b"through")
    assert await host.read("dir/a.txt") == b"through"
    assert host.resolve("link.txt") == f"{host.root}/dir/a.txt"


@pytest.mark.parametrize("path", ["dir", "top.txt/below", "loop", "a\0b"])
async def test_what_cannot_be_written_raises(host: Host, path: str) -> None:
    """Writing over a folder, below a file, or through a loop raises and changes nothing."""
    with pytest.raises(OSError):
        await host.write(path, b"x")
    assert await host.list("dir") == ["a.txt"]
    assert await host.read("top.txt") == b"0123456789"


async def test_list_names_what_a_folder_holds(host: Host) -> None:
    """Names come sorted, links among them; a file or nothing raises."""
    assert await host.list(".") == ["dir", "link.txt", "loop", "out", "top.txt"]
    with pytest.raises(OSError):
        await host.list("top.txt")
    with pytest.raises(OSError):
        await host.list("nowhere")


async def test_run_keeps_the_streams_apart(host: Host) -> None:
    """A program's output, errors and exit code arrive; the limit cuts and says so."""
    assert await host.run(["printf", "hi"]) == Finished(0, b"hi")
    both = await host.run(["sh", "-c", "printf out; printf err >&2; exit 3"])
    assert both == Finished(3, b"out", b"err")
    assert await host.run(["cat"], stdin=b"fed") == Finished(0, b"fed")
    assert await host.run(["printf", "hi"], limit=1) == Finished(0, b"h", cut=True)
    with pytest.raises(OSError):
        await host.run(["no-such-program-anywhere"])


async def test_start_streams_and_ends(host: Host) -> None:
    """A command line's output is streamed and its exit code waited for."""
    process = await host.start("printf one")
    assert b"".join([chunk async for chunk in process.output()]) == b"one"
    assert await process.wait() == 0
    failing = await host.start("exit 7")
    assert [chunk async for chunk in failing.output()] == []
    assert await failing.wait() == 7
    assert process.pid != failing.pid
    await failing.kill()


async def test_memory_commands_may_be_a_function() -> None:
    """A function sees the command, its folder, environment and input."""
    seen: list[Command] = []

    def answer(command: Command) -> str:
        seen.append(command)
        return "ok"

    host = MemoryHost(commands=answer)
    assert (await host.run(["a", "b c"], env={"X": "1"}, stdin=b"in", cwd="/w")).output == b"ok"
    assert seen == [Command("a 'b c'", "/w", {"X": "1"}, b"in")] == host.commands


async def test_memory_files_may_be_read_only() -> None:
    """A read-only file refuses to be written and keeps its content."""
    host = MemoryHost({"f": "1"}, readonly=["f"])
    with pytest.raises(PermissionError):
        await host.write("f", b"2")
    assert await host.read("f") == b"1"


async def test_what_is_stored_can_be_read(host: Host) -> None:
    """Storage keeps files by name and files that grow, and the host reads both."""
    path = host.storage.write("results/a.txt", b"one")
    assert host.storage.write("results/a.txt", b"two") == path
    sink, other = host.storage.create("output/x-"), host.storage.create("output/x-")
    for part in (b"a", b"b"):
        sink.write(part)
    sink.close()
    other.close()

    assert await host.read(path) == b"two"
    assert await host.read(sink.path) == b"ab"
    assert sink.path != other.path
    assert all(one.startswith(f"{host.storage.path}/") for one in (path, sink.path, other.path))


async def test_what_a_shell_says_at_its_end_is_kept_apart(host: Host) -> None:
    """What is printed `at_exit` is no output, and is given once; without it there is nothing."""
    process = await host.start("printf hi", at_exit="builtin echo left")
    printed = b"".join([part async for part in process.output()])
    await process.wait()

    assert printed == b"hi"
    assert process.exit_output() == ("" if isinstance(host, MemoryHost) else "left\n")
    assert process.exit_output() == ""
    plain = await host.start("printf hi")
    await plain.wait()
    assert plain.exit_output() == ""


@pytest.mark.spec("F14", "W2")
async def test_a_host_within_bounds(host: Host) -> None:
    """It works in its root, takes a forebear's path for its own, and writes nowhere else."""
    await host.write("tree/sub/x.txt", b"child")
    tree = host.resolve("tree")
    child = host.at(f"{tree}/sub", bounds=tree, inherited=[host.root])

    assert child.root == f"{tree}/sub"
    assert (child.home, child.storage.path) == (host.home, host.storage.path)
    assert child.inherited == (host.root,)
    assert child.resolve(f"{host.root}/top.txt") == f"{tree}/top.txt"
    assert await child.stat(f"{host.root}/top.txt") is None
    await child.write(f"{host.root}/top.txt", b"mine")
    assert await host.read("top.txt") == b"0123456789"
    assert await host.read("tree/top.txt") == b"mine"
    for outside in ("~/x", f"{host.home}/x", "/nowhere/x"):
        with pytest.raises(PermissionError):
            await child.write(outside, b"x")
    assert await child.read(child.storage.write("kept.txt", b"all")) == b"all"
    grandchild = child.at(tree, inherited=[child.root, *child.inherited])
    assert grandchild.resolve(f"{host.root}/top.txt") == f"{tree}/top.txt"
    await child.close()
    await grandchild.close()


async def test_a_confined_host_can_be_left(host: Host) -> None:
    """Worktrees are made by a host of the same root that has no bounds."""
    await host.write("tree/x.txt", b"child")
    child = host.at(host.resolve("tree"), inherited=[host.root])
    free = child.unconfined()

    assert (free.root, free.home, free.inherited) == (child.root, host.home, ())
    await free.write(f"{host.root}/top.txt", b"changed")
    assert await host.read("top.txt") == b"changed"
    await free.close()
    await child.close()


@pytest.mark.spec("F14", "W2")
async def test_a_host_within_bounds_goes_nowhere_else(host: Host) -> None:
    """A link that leads out of the bounds is not followed, they are no file, nothing starts outside."""
    child = host.at(host.root)

    for use in (child.stat, child.read, child.list):
        with pytest.raises(PermissionError):
            await use(f"{host.root}/out/s.txt")
    for path in (f"{host.root}/out/s.txt", host.root):
        with pytest.raises(PermissionError):
            await child.write(path, b"x")
    for cwd in (host.home, f"{host.root}/out"):
        with pytest.raises(PermissionError):
            await child.start("printf one", cwd=cwd)
        with pytest.raises(PermissionError):
            await child.run(["printf", "hi"], cwd=cwd)
    assert (await child.run(["printf", "hi"], cwd=host.root)).output == b"hi"
    await child.close()
