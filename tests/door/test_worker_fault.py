"""A worker that fails, lies or dies: one failed task with a reason, and nothing else."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path

import anyio
import msgspec
import pytest

from prong.agent import Respond
from prong.command import Stop
from prong.entry import User, plain
from prong.event import PermissionAsked, QuestionAsked, TaskFinished, TextDelta
from prong.question import Answer
from prong.team.pipe import Processes
from prong.team.worker_line import Waits
from prong.testing import Script, Step, World, Worlds, call, delay, report, say
from prong.testing.worker import FAULTS
from shared.remote import children_of

pytestmark = pytest.mark.anyio

PROCESS = msgspec.json.encode({"agents": {"backend": "process"}}).decode()


def processes(folder: Path) -> list[int]:
    """Give the processes that work in a folder of the test."""
    found: list[int] = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            cwd = (place / "cwd").readlink()
        except OSError:
            continue
        if cwd.is_relative_to(folder) and int(place.name) != os.getpid():
            found.append(int(place.name))
    return found


async def gone(folder: Path) -> None:
    with anyio.fail_after(40):
        while processes(folder):
            await anyio.sleep(0.02)


def notices(w: World) -> list[str]:
    """Give the tasks that the main agent was told of."""
    entries = w.parts.agent.conversation.prompt.entries()
    texts = [plain(e.parts) for kind, e in entries if kind == "notice" and isinstance(e, User)]
    return [one for text in texts for one in re.findall("<task-id>(.*?)</task-id>", text)]


def replace_worker(w: World, fault: str, waits: Waits) -> None:
    command = (sys.executable, "-m", "prong.testing.worker", fault)
    supervisor = w.parts.supervisor
    runner = Processes(command, waits=waits)
    supervisor.services = msgspec.structs.replace(supervisor.services, runner=runner)


@pytest.mark.spec("T4", "S9")
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_of_a_worker_fails_its_task(
    world: Worlds, tmp_path: Path, fault: str
) -> None:
    """Whatever a worker does, its task fails once with a reason, and nobody may do more by it."""
    silent = fault in {"says nothing", "falls silent"}
    waits = Waits(start=1.0, silence=1.0, stop=0.5) if silent else Waits(stop=0.5)
    script = Script([say("hello")], forever=say("I see."))
    async with world(script, settings=PROCESS, attended=True) as w:
        await w.session.run("Hi")
        replace_worker(w, fault, waits)
        (task,) = await w.session.start_forks(["ONE."])
        with anyio.fail_after(40):
            await w.session.wait_settled()

        (child,) = w.parts.supervisor.children
        assert child.status == "failed"
        assert child.run.detail.startswith("the process in which it ran failed: ")
        assert "Traceback" not in child.run.detail
        assert "inside Prong" not in child.run.detail
        ended = [one for one in w.told(TaskFinished) if one.task_id == task]
        assert [one.status for one in ended] == ["failed"]
        assert w.parts.agent.policy.policy.mode == "default"
        assert notices(w) == [task]
        assert child.agent.conversation.prompt.nodes()[-1].kind == "directive"
        assert not child.account.rows
        await gone(tmp_path)


MOMENTS: dict[str, list[Step]] = {
    "born": [],
    "sends": [delay(30.0)],
    "streams": [delay(between=0.5, then=say("I begin, and do not end. " * 40))],
    "works": [call("Bash", {"command": "touch began; sleep 333"})],
    "asks": [call("Bash", {"command": "touch made"})],
}


def workers(folder: Path) -> list[int]:
    """Give the workers, without those that they begin: these have their words for a moment."""
    begun = children_of(os.getpid())
    return [one for one in processes(folder) if one in begun]


def streamed(w: World) -> bool:
    """Whether a piece of a child's reply has come."""
    return any(isinstance(e.event, TextDelta) and e.agent != "main" for e in w.envelopes)


async def reached(w: World, moment: str, asked: anyio.Event) -> None:
    with anyio.fail_after(40):
        while not workers(w.folder):
            await anyio.sleep(0.005)
        while moment == "sends" and len(w.server.records) < 2:
            await anyio.sleep(0.01)
        while moment == "streams" and not streamed(w):
            await anyio.sleep(0.01)
        while moment == "works" and not (w.root / "began").exists():
            await anyio.sleep(0.01)
        if moment == "asks":
            await asked.wait()


def waiting(asked: anyio.Event) -> Respond:
    """Answer the first question never, and all others with yes."""

    async def respond(path: str, request: PermissionAsked | QuestionAsked) -> Answer:
        if isinstance(request, PermissionAsked) and "made" in request.title and not asked.is_set():
            asked.set()
            await anyio.sleep_forever()
        return Answer(request.request_id)

    return respond


@pytest.mark.spec("T4", "L8")
@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_killed_worker_is_told_of_once(world: Worlds, tmp_path: Path, moment: str) -> None:
    """Killed at any moment, its task fails once; nothing of it lives on, and it can be woken."""
    asked = anyio.Event()
    script = Script([say("hello")], {"ONE.": MOMENTS[moment]}, forever=report("after all"))
    async with world(script, settings=PROCESS, respond=waiting(asked)) as w:
        await w.session.run("Hi")
        (task,) = await w.session.start_forks(["ONE."])
        await reached(w, moment, asked)
        (worker,) = workers(tmp_path)
        os.kill(worker, signal.SIGKILL)
        with anyio.fail_after(40):
            await w.session.wait_settled()

        (child,) = w.parts.supervisor.children
        assert child.status == "failed"
        assert "killed by SIGKILL" in child.run.detail
        assert [one.status for one in w.told(TaskFinished)] == ["failed"]
        assert notices(w) == [task]
        await gone(tmp_path)
        await w.session.say("Go on.", to=task)
        await w.session.wait_settled()
        assert (child.status, child.report.result) == ("completed", "after all")
        assert [one.status for one in w.told(TaskFinished)] == ["failed", "completed"]
        assert notices(w) == [task, task]


async def test_a_worker_that_does_not_listen_is_ended(world: Worlds, tmp_path: Path) -> None:
    """A stop does not wait for a worker that has no ear for it."""
    script = Script([say("hello")], forever=say("I see."))
    async with world(script, settings=PROCESS, attended=True) as w:
        await w.session.run("Hi")
        replace_worker(w, "falls silent", Waits(stop=0.2))
        (task,) = await w.session.start_forks(["ONE."])
        with anyio.fail_after(40):
            while not processes(tmp_path):
                await anyio.sleep(0.01)
            await w.session.send(Stop(task))
            await w.session.wait_settled()

        (child,) = w.parts.supervisor.children
        assert child.status == "killed"
        await gone(tmp_path)


async def test_what_only_this_process_has_is_refused(world: Worlds) -> None:
    """A child whose model is reached by what cannot be shared does not run elsewhere, or half."""
    script = Script([say("hello")], forever=say("I see."))
    async with world(script, settings=PROCESS, attended=True, api="chat") as w:
        await w.session.run("Hi")
        await w.session.start_forks(["ONE."])
        await w.session.wait_settled()

        (child,) = w.parts.supervisor.children
        assert child.status == "failed"
        assert "this process alone has" in child.run.detail
        assert "agents.backend" in child.run.detail
