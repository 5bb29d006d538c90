"""Holds what packages bring to what Prong relies on: tools, agent types, panes, launchers.

Providers are held by `prong.testing.conformance`.
"""

from __future__ import annotations

import inspect
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import msgspec

from prong.agent.spec import AgentType
from prong.errors import WorkerFailed
from prong.event import TaskFinished, ToolFinished
from prong.extension import GROUPS, Extension, installed
from prong.host import LocalHost
from prong.host.launcher import Launcher
from prong.host.pane import Pane, PaneBackend, PaneSetup, PaneSpec
from prong.host.target import RemoteTarget
from prong.session.diagnosis import try_extension
from prong.team.worker_line import Waits, WorkerLine
from prong.testing.scene import world
from prong.testing.script import Script, call, say
from prong.tools.function import as_tool
from prong.tools.kit import Kit

_BRIEF = "Say that you are there."
_WHILE = (sys.executable, "-c", "import time; time.sleep(600)")
_PATIENCE = 60.0
"""Seconds in which a pane must be gone that was closed."""


def check_package(name: str) -> list[Extension]:
    """Load all that an installed package brings, and give it.

    Raises AssertionError that says what cannot be used.
    """
    found = [one for group in GROUPS for one in installed(group) if one.package == name]
    assert found, f"the package {name} is not installed here, or has no entry points of Prong's"
    for one in found:
        try:
            try_extension(one)
        except Exception as error:
            raise AssertionError(str(error)) from error
    return found


async def check_tool(
    function: Callable[..., Any], arguments: Mapping[str, Any] | None = None
) -> str:
    """Check what a model is told of a function; with arguments, have a session call it.

    Gives what the model would read.

    Raises AssertionError that says what is wrong.
    """
    tool = as_tool(function)
    told = inspect.getdoc(function) or tool.description != f"Calls the function {tool.name}."
    assert told, f"{tool.name} has no docstring: a model cannot know what it is for"
    first, second = Kit([tool]).specs(), Kit([as_tool(function)]).specs()
    assert first == second, f"{tool.name} is described in another way each time"
    schema: object = msgspec.json.decode(first[0].schema)
    assert isinstance(schema, dict), f"{tool.name} has no object of parameters"
    if arguments is None:
        return ""
    script = [call(tool.name, dict(arguments)), say("Called.")]
    async with world(script, tools=[function], allow=(tool.name,)) as made:
        await made.session.run("Call it.")
        [ended] = made.told(ToolFinished)
    assert not ended.failed, f"{tool.name} failed: {ended.text}"
    return ended.text


async def check_agent_type(kind: AgentType) -> None:
    """Start an agent of a type in a session whose model is scripted.

    Raises AssertionError that says what is wrong.
    """
    given = {
        "description": kind.description,
        "prompt": kind.prompt,
        "tools": None if kind.tools is None else list(kind.tools),
        "disallowedTools": list(kind.disallowed_tools),
        "permissionMode": kind.permission_mode,
        "maxTurns": kind.max_turns,
    }
    shown = {"description": "a trial", "prompt": _BRIEF, "subagent_type": kind.name}
    script = Script([call("Agent", shown)], {_BRIEF: [say("I am there.")]}, forever=say("Heard."))
    agents = msgspec.json.encode({kind.name: given}).decode()
    try:
        async with world(script, agents=agents, mode="bypassPermissions") as made:
            await made.session.run("Start it.")
            ended = made.told(TaskFinished)
            calls = made.told(ToolFinished)
    except Exception as error:
        raise AssertionError(f"no session opens with the type {kind.name}: {error}") from error
    assert not calls[0].failed, f"no agent of the type {kind.name} starts: {calls[0].text}"
    assert [one.status for one in ended] == ["completed"], f"{kind.name} does not report"


async def check_pane_backend(kind: type[PaneBackend], *, command: tuple[str, ...] = ()) -> None:
    """Open a pane, find it again, name it and close it, twice over.

    It runs in a home of its own, and in the terminal that there is.

    Raises AssertionError that says what a leader could not live with.
    """
    assert kind.name, "it has no name"
    with tempfile.TemporaryDirectory(prefix="prong-panes-") as folder:
        host = LocalHost(folder, folder)
        try:
            await _try_panes(kind, host, folder, command)
        finally:
            await host.close()


async def _try_panes(
    kind: type[PaneBackend], host: LocalHost, folder: str, command: tuple[str, ...]
) -> None:
    setup = PaneSetup(host=host, team="check", leader="s1", command=command)
    backend = kind(setup)
    assert not await backend.panes(), "it lists panes before any is opened"
    opened = await backend.open(PaneSpec(member="alice", argv=_WHILE, cwd=folder, title="Alice"))
    try:
        assert opened.id, "an opened pane has no id"
        await backend.title(opened.id, "Alice, at work")
        # As a later process of the same leader would.
        [seen] = await kind(setup).panes()
        assert (seen.id, seen.member) == (opened.id, "alice"), f"it is found as {seen}"
        assert not seen.dead, "its program does not run when open() has returned"
        other = kind(msgspec.structs.replace(setup, leader="s2"))
        assert not await other.panes(), "another leader sees it"
        await other.close(opened.id)
        assert await backend.panes(), "another leader can close it"
    finally:
        await backend.close(opened.id)
    await _gone(backend)
    # It may have gone by itself.
    await backend.close(opened.id)
    await backend.title(opened.id, "gone")


async def _gone(backend: PaneBackend) -> None:
    left: list[Pane] = []
    with anyio.move_on_after(_PATIENCE):
        while left := await backend.panes():  # noqa: ASYNC110 - no terminal tells when
            await anyio.sleep(0.05)
    assert not left, f"a pane that was closed is still there: {left}"


async def check_launcher(launcher: Launcher, target: RemoteTarget) -> None:
    """Start a worker with a launcher, and hear its first word.

    Raises AssertionError that says what is wrong.
    """
    argv = launcher.argv("check", target)
    words: list[object] = list(argv)
    assert words, "its program line is empty"
    assert all(isinstance(word, str) for word in words), f"its program line holds no words: {argv}"
    assert launcher.folder(target), "it names no folder that outlives a worker"
    said: object = launcher.remedy(target, 127, "sh: python3: not found")
    assert isinstance(said, str), "remedy() gives no text"
    with tempfile.TemporaryDirectory(prefix="prong-launcher-") as folder:
        line = WorkerLine(argv, folder=str(Path(folder, "run")), waits=Waits())
        failed: WorkerFailed | None = None
        async with anyio.create_task_group() as group:
            group.start_soon(line.carry)
            try:
                await line.wait_ready()
            except WorkerFailed as error:
                failed = error
            await line.close(grace=1.0)
        if failed is not None:
            why = launcher.remedy(target, line.code or 0, line.errors.said())
            raise AssertionError(
                f"no worker answers: {failed} {line.errors.said()} {why}"
            ) from failed
