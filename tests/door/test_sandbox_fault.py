"""The sandbox where less can be held, and against what happens while a command runs."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import anyio
import msgspec
import pytest

from prong.host import LocalHost
from prong.host import process as process_module
from prong.host.sandbox import NONE, Ability, linux_ability, places, spawn
from prong.tools.derive import reading, working
from shared.sandbox import ABLE, Bench, kernel, views

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


@kernel
async def test_without_views_writes_are_held_by_folders(bench: Bench) -> None:
    """Where namespaces are forbidden, nothing outside the writable folders is written all the same."""
    weaker = msgspec.structs.replace(ABLE, views=False)
    bench.host = LocalHost(bench.root, str(bench.home), ability=weaker)
    profile = working(bench.policy())

    assert not weaker.holds(profile)
    assert (await bench.run("echo x > b; cat b", profile)).text == "x\n"
    assert (await bench.run("echo x > ../outside/f", profile)).code != 0
    ended = await bench.run("python3 -c 'import socket; socket.socket(socket.AF_UNIX)'", profile)
    assert ended.code != 0


@kernel
@pytest.mark.parametrize("abi", [1, 2, 3, 4, 5])
async def test_an_old_landlock_still_holds_what_it_can(bench: Bench, abi: int) -> None:
    """By the rules of an old version commands run, and plain writes are refused."""
    if abi > ABLE.abi:
        pytest.skip(f"this kernel has version {ABLE.abi}")
    bench.host = LocalHost(
        bench.root, str(bench.home), ability=msgspec.structs.replace(ABLE, abi=abi)
    )
    profile = reading(bench.policy())

    assert (await bench.run("cat a", profile)).text == "one\n"
    assert (await bench.run("echo x > a; rm a; touch b", profile)).code != 0
    assert (bench.root / "a").read_text() == "one\n"
    assert (await bench.run(f"kill -0 {os.getpid()}", profile)).code != 0


async def test_without_a_sandbox_commands_run_as_ever(bench: Bench) -> None:
    """A host that can hold nothing says so, and runs what the gate let through."""
    bench.host = LocalHost(bench.root, str(bench.home), ability=Ability())

    assert not bench.host.ability.some
    assert (await bench.run("echo x > b; cat b", reading(bench.policy()))).text == "x\n"


@kernel
async def test_the_host_itself_stays_free(bench: Bench) -> None:
    """What a command is held to binds neither Prong nor the commands after it."""
    await bench.run("true", reading(bench.policy()))
    (bench.root / "made").write_text("x")

    assert (await bench.run("echo x > made2 && cat made2", NONE)).text == "x\n"


@kernel
async def test_a_project_behind_a_link(bench: Bench, tmp_path: Path) -> None:
    """A project that is reached by a symbolic link is held like any other."""
    link = tmp_path / "link"
    link.symlink_to(bench.root)
    bench.host = LocalHost(link, str(bench.home))
    profile = working(msgspec.structs.replace(bench.policy(), root=str(link)))

    assert (await bench.run("echo x > b && cat b", profile)).text == "x\n"
    if ABLE.views:
        assert (await bench.run("echo x > .git/hooks/a", profile)).code != 0
    assert (await bench.run("echo x > a", reading(bench.policy()), cwd=str(link))).code != 0


@kernel
async def test_a_folder_that_is_renamed_meanwhile(bench: Bench) -> None:
    """A command goes on in a folder that was renamed under it, and writes nowhere else."""
    profile = working(bench.policy())
    process = await bench.host.start(
        "until test -e go; do sleep 0.02; done; echo x > late; echo y > ../outside/f; pwd -P",
        env={},
        profile=profile,
    )
    moved = bench.root.with_name("moved")
    bench.root.rename(moved)
    (moved / "go").touch()
    with anyio.fail_after(40):
        said = b"".join([chunk async for chunk in process.output()])
        await process.wait()
    await process.kill()
    process.leave()

    assert (bench.outside / "f").read_text() == "theirs\n"
    assert said


@views
async def test_what_is_made_in_a_renamed_folder_is_found(bench: Bench, road: str) -> None:
    """A protected file is taken away also where the project, or the folder of the command, went."""
    profile = working(bench.policy(), cwd=f"{bench.root}/sub")
    line = "mv ../sub ../other; mkdir ../other/.claude; echo x > ../other/.claude/settings.json"
    ended = await bench.run(line, profile, cwd=f"{bench.root}/sub")
    assert [text for text in ended.undone if "other/.claude is protected" in text], ended
    assert not (bench.root / "other/.claude").exists()

    process = await bench.host.start(
        "until test -e go; do sleep 0.02; done; echo x > .mcp.json", env={}, profile=profile
    )
    moved = bench.root.with_name("moved")
    bench.root.rename(moved)
    (moved / "go").touch()
    with anyio.fail_after(50):
        await process.wait()
    await process.kill()

    assert [text for text in process.leave() if "moved/.mcp.json is protected" in text]
    assert not (moved / ".mcp.json").exists()


@kernel
async def test_a_command_that_leaves_its_group_is_held_on(bench: Bench) -> None:
    """A daemon outlives its command, as before, and can still write nowhere."""
    late = "until test -e go; do sleep 0.02; done; touch made; touch $0/done"
    line = (
        f"setsid sh -c '{late}' $PWD/sub >/dev/null 2>&1 & "
        "until test $(ps -o sid= $!) -eq $!; do sleep 0.02; done; echo $!"
    )
    with anyio.fail_after(40):
        ended = await bench.run(line, reading(bench.policy()))
        assert runs(int(ended.text)), "it has outlived its command"
        (bench.root / "go").touch()
        while runs(int(ended.text)):
            await anyio.sleep(0.02)

    assert ended.code == 0
    assert not (bench.root / "made").exists()
    assert not (bench.root / "sub/done").exists()


@kernel
async def test_a_killed_command_leaves_no_folder(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The temporary folder of a command that is killed is removed like any other's."""
    # It ends when it is asked to, however long that takes here.
    monkeypatch.setattr(process_module, "GRACE", 60.0)
    process = await bench.host.start(
        "echo $TMPDIR; touch $TMPDIR/x; sleep 60", env={}, profile=reading(bench.policy())
    )
    first = await anext(aiter(process.output()))
    await process.kill()
    process.leave()

    assert await process.wait() == -signal.SIGTERM
    assert not Path(first.decode().strip()).exists()


@kernel
async def test_too_many_files_to_hide_is_no_start(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A guard that cannot be kept in full keeps the command from starting, and says why."""
    monkeypatch.setattr("prong.host.sandbox.places.MOST", 3)

    with pytest.raises(OSError, match="files would have to be looked at"):
        await bench.run("true", reading(bench.policy("Read(.env)")))


@views
async def test_a_command_has_terminals_of_its_own(bench: Bench, road: str) -> None:
    """It can make terminals, and neither sees nor writes to those of others."""
    theirs, slave = os.openpty()
    name = os.ttyname(slave)
    script = "import pty; print(pty.spawn(['sh', '-c', 'tty; test -t 1 && echo terminal']))"
    try:
        ended = await bench.run(f'python3 -c "{script}"', working(bench.policy()))
        assert "terminal" in ended.text, ended
        ended = await bench.run(
            f"ls /dev/pts; echo x > {name} && echo WROTE", working(bench.policy())
        )
        assert "WROTE" not in ended.text
        ended = await bench.run(f"echo x > {name} && echo WROTE", reading(bench.policy()))
        assert "WROTE" not in ended.text
    finally:
        os.close(theirs)
        os.close(slave)


@kernel
async def test_what_was_made_by_leave_is_not_taken_away(bench: Bench) -> None:
    """A file that a tool writes, or a command that the user said yes to, stays when others end."""
    running = await bench.host.start("sleep 1", env={}, profile=working(bench.policy()))
    await bench.host.write(f"{bench.root}/.claude/agents/a.md", b"approved")
    opened = working(bench.policy(), opened=(f"{bench.root}/.mcp.json",))
    ended = await bench.run("echo '{}' > .mcp.json", opened)
    await running.wait()

    assert ended.undone == []
    assert list(running.leave()) == []
    assert (bench.root / ".claude/agents/a.md").read_bytes() == b"approved"
    assert (bench.root / ".mcp.json").exists()


LEAVING = {
    "setsid": "setsid sh -c '{late}' >/dev/null 2>&1 & {left}",
    "twice": "( ( setsid sh -c '{late}' >/dev/null 2>&1 & ) & ); {left}",
    "nohup": "nohup setsid sh -c '{late}' >/dev/null 2>&1 & disown; {left}",
    "closed": "setsid sh -c 'exec 0<&- 1>&- 2>&-; cd /; {late}' & {left}",
    "cleared": "env -i /usr/bin/setsid /bin/sh -c '{late}' >/dev/null 2>&1 & {left}",
}
"""Ways of a process to leave its group, its session and its streams; its command ends after that."""


@views
@pytest.mark.parametrize("way", LEAVING)
async def test_what_a_daemon_makes_late_is_taken_away(bench: Bench, road: str, way: str) -> None:
    """A process that outlives its command makes a protected file: the next command finds it."""
    profile = working(bench.policy())
    late = f"touch {bench.root}/away; until test -e {bench.root}/go; do sleep 0.02; done; "
    late += f"echo x > {bench.root}/.mcp.json; touch {bench.root}/did; sleep 60"
    left = f"until test -e {bench.root}/away; do sleep 0.02; done"
    with anyio.fail_after(40):
        ended = await bench.run(LEAVING[way].format(late=late, left=left), profile)
        assert ended.undone == []
        (bench.root / "go").touch()
        while not (bench.root / "did").exists():
            await anyio.sleep(0.02)
        ended = await bench.run("cat .mcp.json", profile)

    assert [text for text in ended.undone if ".mcp.json is protected" in text], ended
    assert "x" not in ended.text
    assert not (bench.root / ".mcp.json").exists()


def runs(pid: int) -> bool:
    """Whether a process is there and is no zombie."""
    with suppress(OSError):
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state not in {"Z", "X"}
    return False


@views
async def test_no_daemon_outlives_the_host(bench: Bench, road: str) -> None:
    """What left its command's group ends with the host, is named, and has made nothing by then."""
    told: list[str] = []
    bench.host.warn = told.append
    trap = (
        'trap "echo x > .claude; exec sleep 60" TERM; echo $$ > pid; while :; do sleep 0.05; done'
    )
    line = f"setsid sh -c '{trap}' >/dev/null 2>&1 & until test -s pid; do sleep 0.02; done"
    with anyio.fail_after(40):
        await bench.run(line, working(bench.policy()))
        pid = int((bench.root / "pid").read_text())
        os.kill(pid, 0)
        await bench.host.close()

    assert not runs(pid)
    assert [text for text in told if str(pid) in text]
    assert not (bench.root / ".claude").exists()


@views
async def test_no_command_is_taken_for_the_rest_of_another(bench: Bench, road: str) -> None:
    """Commands that end while others start leave these alone, whatever numbers their views get."""
    profile, codes = working(bench.policy()), list[int]()

    async def run_some() -> None:
        for _ in range(6):
            process = await bench.host.start("sleep 0.02", cwd=str(bench.root), profile=profile)
            codes.append(await process.wait())
            await process.kill()
            process.leave()

    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(run_some)
    await bench.host.close()
    assert codes == [0] * 30


@views
async def test_what_others_make_later_stays(bench: Bench, road: str) -> None:
    """Once nothing of a command is left, or by leave, what appears at a protected path is let be."""
    profile = working(bench.policy())
    await bench.run("true", profile)
    (bench.root / ".mcp.json").write_text("mine")
    away = "setsid sh -c 'touch away; exec sleep 60' >/dev/null 2>&1 &"
    await bench.run(f"{away} until test -e away; do sleep 0.02; done", profile)
    await bench.host.write(f"{bench.root}/.claude/agents/a.md", b"approved")

    assert (await bench.run("true", profile)).undone == []
    assert (bench.root / ".mcp.json").read_text() == "mine"
    assert (bench.root / ".claude/agents/a.md").exists()


@views
@pytest.mark.parametrize(
    "line",
    [
        "systemd-run --wait touch {made}",
        "systemd-run --user --wait touch {made}",
        "echo 'touch {made}' | at now",
        "echo 'touch {made}' | batch",
        "echo '* * * * * touch {made}' | crontab -",
        "echo '* * * * * root touch {made}' > /etc/cron.d/made",
    ],
)
async def test_nobody_else_does_it_later(bench: Bench, road: str, line: str) -> None:
    """Services that run things at another time, or for others, take no orders from a command."""
    with anyio.fail_after(50):
        ended = await bench.run(line.format(made=bench.outside / "made"), working(bench.policy()))

    assert ended.code != 0
    assert not (bench.outside / "made").exists()


def test_what_a_path_leads_to_is_found_as_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The quick look gives what a look at each part does, for links, dots and what is not there."""
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/f").touch()
    for name, target in (("l", "a/b"), ("a/up", ".."), ("loop", "loop"), ("gone", "nowhere")):
        (tmp_path / name).symlink_to(target)
    monkeypatch.chdir(tmp_path)
    names = ["a", "a/b", "a/f", "l", "a/up", "a/up/a/f", "a/up/l", "loop", "gone", "none", "a/f/x"]
    names += [
        "a/./b",
        "a//b",
        "a/b/",
        "a/b/..",
        "l/..",
        "l/../f",
        "loop/x",
        "gone/x",
        "a/b/é\udcff",
    ]
    for name in (*names, "..", "."):
        for path in (name, f"{tmp_path}/{name}"):
            expected = os.path.realpath(path) if os.path.exists(path) else None  # noqa: PTH110 - as it is given
            assert places.real(path) == expected, path


@kernel
@pytest.mark.parametrize("error", [OSError(), ValueError("not a number"), TypeError()])
def test_what_fails_in_whatever_way_cannot_be_held(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """A way to bind a process that was not seen to work counts as none."""

    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(linux_ability, "restrict", refuse)

    assert linux_ability.probe() == linux_ability.KernelAbility(0)
