"""Sessions on a host of the caller's: agents touch the world through it and nothing else."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest

import prong
from prong.errors import UsageError
from prong.host import Finished, LocalHost
from prong.testing import MemoryHost, Script, Worlds, call, calls, forks, report, say
from prong.testing.host import Command
from shared.structure import naming, short

pytestmark = [pytest.mark.anyio, pytest.mark.spec("L3")]

LINE = "A line that says something about the project.\n"
EDIT = {"file_path": "a.py", "old_string": "x = 1", "new_string": "x = 2"}


async def test_files_are_read_and_changed_in_memory(world: Worlds) -> None:
    """Read, Edit and Write work on the host's files, and this machine has none of them."""
    host = MemoryHost({"a.py": "x = 1\n"})
    script = [
        call("Read", {"file_path": "a.py"}),
        calls(("Edit", EDIT), ("Write", {"file_path": "sub/b.py", "content": "y = 1\n"})),
        say("Done."),
    ]
    async with world(script, host=host, mode="acceptEdits") as w:
        turn = await w.session.run("Go")

        assert (turn.text, turn.why) == ("Done.", "done")
        assert "x = 1" in w.server.records[1].body.decode()
        assert host.files["/project/a.py"] == b"x = 2\n"
        assert host.files["/project/sub/b.py"] == b"y = 1\n"
        assert not w.root.exists()
        assert w.started.cwd == "/project"


async def test_commands_and_searches_run_on_the_host(world: Worlds) -> None:
    """Bash and Grep ask the host; what the table says is what the model reads."""

    def answer(command: Command) -> Finished | str:
        if "rg" in command.line.split(" ")[0]:
            return "./a.py\0"
        return "from the table" if command.line == "make it" else Finished(3, b"", b"no such thing")

    host = MemoryHost({"a.py": "x = 1\n"}, answer)
    script = [
        call("Bash", {"command": "make it"}),
        call("Bash", {"command": "break it"}),
        call("Grep", {"pattern": "x"}),
        say("Done."),
    ]
    async with world(script, host=host, mode="bypassPermissions") as w:
        assert (await w.session.run("Go")).ok
        first, second, third = (r.body.decode() for r in w.server.records[1:])

        assert "from the table" in first
        assert "Exit code 3" in second
        assert "a.py" in third
        assert [command.cwd for command in host.commands] == ["/project"] * 3


async def test_large_results_are_kept_by_the_host(world: Worlds) -> None:
    """What is too long for the conversation is in the host's storage, where Read finds it."""
    host = MemoryHost({"big.txt": LINE * 4000}, lambda _: LINE * 4000)
    script = [call("Bash", {"command": "print it"}), call("Read", {"file_path": "big.txt"})]
    async with world([*script, say("Done.")], host=host, mode="bypassPermissions") as w:
        assert (await w.session.run("Go")).ok
        kept = [path for path in host.files if path.startswith("/storage/")]

        assert kept
        assert {host.files[path] for path in kept} == {(LINE * 4000).encode()}
        assert kept[0] in w.server.records[1].body.decode()


@pytest.mark.spec("F4", "F12")
async def test_forks_work_in_memory(world: Worlds) -> None:
    """Forks share their parent's host: what one writes is there for the others."""
    host = MemoryHost({"a.txt": LINE})
    script = Script(
        [call("Read", {"file_path": "a.txt"}), forks("Part 1.", "Part 2."), say("x"), say("done")],
        {
            part: [call("Write", {"file_path": f"{n}.txt", "content": part}), report()]
            for n, part in enumerate(("Part 1.", "Part 2."), 1)
        },
        forever=say("done"),
    )
    async with world(script, host=host, mode="bypassPermissions") as w:
        assert (await w.session.run("Go")).text == "done"

        assert host.files["/project/1.txt"] == b"Part 1."
        assert host.files["/project/2.txt"] == b"Part 2."
        assert {child.status for child in w.parts.supervisor.children} == {"completed"}


@pytest.mark.spec("F14")
async def test_a_worktree_that_the_host_cannot_make_is_no_worktree(world: Worlds) -> None:
    """A child that was to be isolated does not run where it is not."""
    script = Script(
        [forks("Part 1.", isolation="worktree"), say("x")],
        {"Part 1.": [report()]},
        forever=say("done"),
    )
    async with world(script, host=MemoryHost(), mode="bypassPermissions") as w:
        await w.session.run("Go")
        (child,) = w.parts.supervisor.children

        assert child.status == "failed"
        assert "git cannot be run" in child.run.detail


async def test_a_session_goes_on_where_its_host_is(world: Worlds) -> None:
    """A resumed session finds the host's files as the first left them."""
    host = MemoryHost({"a.py": "x = 1\n"})
    script = [call("Read", {"file_path": "a.py"}), say("Read."), call("Edit", EDIT), say("Done.")]
    async with world(script, host=host, mode="acceptEdits", opens=False) as w:
        async with w.open() as session:
            await session.run("Go")
        async with w.open(resume=session.id) as session:
            await session.run("Go on")

        assert host.files["/project/a.py"] == b"x = 2\n"


async def test_a_host_that_shows_keys_is_refused(
    world: Worlds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host of the caller's must withhold what commands may not see; a session says which."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-" + "x" * 20)
    monkeypatch.setenv("HOME", str(tmp_path / "elsewhere"))
    host = LocalHost(tmp_path)
    with pytest.raises(UsageError, match="would see ANTHROPIC_API_KEY"):
        async with prong.open_session(host=host, model="claude-sonnet-5-5", api_key="k"):
            pass
    safe = LocalHost(tmp_path, withhold=["ANTHROPIC_API_KEY"], storage=str(tmp_path / "kept"))
    async with (
        world([say("Hello.")], opens=False) as w,
        prong.open_session(host=safe, **w.given) as session,
    ):
        assert (await session.run("Hi")).text == "Hello."
        assert os.path.realpath(tmp_path) == session.view().cwd


def test_hosts_are_named_at_the_root_alone() -> None:
    """Above `host` only the root does, and what it stands in; doors to folders, teams, machines."""
    named = {short(module) for module in naming("LocalHost", "ConfinedHost")}
    above = {name for name in named if not name.startswith("host.")}

    doors = {"session.project", "session.team_end", "session.remote_check"}
    assert above == {"session.opening", "session.own_worktree", *doors}


@pytest.mark.parametrize(
    "module", ["agent/dispatch", "agent/life", "tools/shell", "tools/collector"]
)
def test_tools_and_results_go_through_the_host(module: str) -> None:
    """Neither running calls nor storing their results touches this machine by itself."""
    path = Path(prong.__file__).parent / f"{module}.py"
    imported = {
        alias.name
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }

    assert not imported & {"os", "Path", "pathlib", "tempfile", "make_private", "open"}
