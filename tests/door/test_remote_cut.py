"""A line that is cut while a workspace is made or given back is taken up again, as in a run."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from prong.event import LineChanged, TaskFinished, Warned, WorkKept
from prong.testing import Script, Worlds, call, report, say
from prong.testing.process_table import read_processes
from shared.remote import copies, remote_world

pytestmark = [pytest.mark.anyio, pytest.mark.spec("R3"), pytest.mark.hunt]

MADE = call("Write", {"file_path": "new.txt", "content": "made\n"})

RELAY = """
import os, pathlib, subprocess, sys, threading, time

here = pathlib.Path(__file__).parent
at = (here / "at").read_text().split()
worker = subprocess.Popen(["sh", "-c", sys.argv[-1]], stdin=-1, stdout=-1, start_new_session=True)

def down():
    while data := os.read(0, 65536):
        os.write(worker.stdin.fileno(), data)
    worker.stdin.close()

threading.Thread(target=down, daemon=True).start()

def cut():
    (here / "at").write_text(" ".join(at[1:]))
    if not (here / "unheard").exists():
        os._exit(255)
    # Whoever is over there does not hear of it.
    if os.fork():
        os._exit(255)
    os.setsid()
    os.closerange(0, 3)
    while (here / "unheard").exists():
        time.sleep(0.05)
    os._exit(0)

while lead := worker.stdout.read(8):
    data = worker.stdout.read(int.from_bytes(lead[:4]))
    if at and at[0].encode() in data:
        cut()
    os.write(1, lead + data)
os._exit(worker.wait())
"""
"""Stands for ssh: the line is cut when the worker says a word, which is not heard any more."""


@pytest.fixture
def cut_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], dict[str, Any]]:
    """Have an ssh whose line is cut at these words, one by one; gives a target for it."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "relay.py").write_text(RELAY)
    (programs / "ssh").write_text(f'#!/bin/sh\nexec {sys.executable} {programs}/relay.py "$@"\n')
    (programs / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")

    def target(words: str) -> dict[str, Any]:
        (programs / "at").write_text(words)
        return {"launcher": "ssh", "host": "far", "python": sys.executable, "patience": 30}

    return target


def script() -> Script:
    return Script([say("hello")], {"Directive:\nP1": [MADE, report("one")]}, forever=say("ok"))


@pytest.mark.parametrize("unheard", [False, True])
@pytest.mark.parametrize("word", ["commitsknown", "workspaceready", "workfound"])
async def test_it_is_done_again_by_itself(
    world: Worlds,
    tmp_path: Path,
    cut_at: Callable[[str], dict[str, Any]],
    word: str,
    *,
    unheard: bool,
) -> None:
    """Whether the workspace was made or not, the agent works in one, was told so, and comes back.

    So it does if the worker hears nothing of it: it has the lower number, and lets go.
    """
    far = tmp_path / "far"
    target = cut_at(word)
    if unheard:
        (tmp_path / "bin" / "unheard").touch()
    async with remote_world(world, script(), far, target=target) as (w, repo):
        await w.session.run("Hi")
        (found,) = await w.session.fork(["P1"], isolation="remote")

        assert (found.status, found.detail) == ("completed", "")
        told = [(one.state, one.text) for one in w.told(LineChanged)]
        assert told == [("cut", "the line to box was cut"), ("open", "")]
        (child,) = w.parts.supervisor.children
        assert child.spec.lease == 4
        assert len(w.told(TaskFinished)) == 1
        assert not [one for one in w.told(Warned) if "come back" in one.text]
        assert str(w.bodies()[1]).count("It is on another machine, box") == 1
        assert repo.git("show", f"{w.told(WorkKept)[-1].branch}:new.txt") == "made"
        assert w.told(WorkKept)[-1].path == ""
        assert not copies(far)
    (tmp_path / "bin" / "unheard").unlink(missing_ok=True)
    with anyio.fail_after(50):
        while read_processes().knowing(tmp_path):
            await anyio.sleep(0.05)


async def test_it_is_done_again_once(
    world: Worlds, tmp_path: Path, cut_at: Callable[[str], dict[str, Any]]
) -> None:
    """A second cut fails the task, and no name stays taken."""
    target = cut_at("commitsknown commitsknown")
    async with remote_world(world, script(), tmp_path / "far", target=target) as (w, repo):
        await w.session.run("Hi")
        (found,) = await w.session.fork(["P1"], isolation="remote")

        assert found.status == "failed"
        assert "it ended with code 255" in found.detail
        assert [one.state for one in w.told(LineChanged)] == ["cut", "open"]
        assert len(w.told(TaskFinished)) == 1
        assert repo.git("for-each-ref", "refs/prong", "refs/heads/prong") == ""


async def test_a_line_that_led_nowhere_fails_at_once(
    world: Worlds, tmp_path: Path, cut_at: Callable[[str], dict[str, Any]]
) -> None:
    """Without a first word of a worker there is nothing to get back to."""
    target = cut_at("ready")
    async with remote_world(world, script(), tmp_path / "far", target=target) as (w, repo):
        await w.session.run("Hi")
        (found,) = await w.session.fork(["P1"], isolation="remote")

        assert found.status == "failed"
        assert "it ended with code 255" in found.detail
        assert not w.told(LineChanged)
        assert repo.git("for-each-ref", "refs/prong", "refs/heads/prong") == ""


async def test_work_that_has_arrived_is_here_whatever_follows(
    world: Worlds, tmp_path: Path, cut_at: Callable[[str], dict[str, Any]]
) -> None:
    """If the last word was not heard, the branch is here, and it is said what is not known."""
    far = tmp_path / "far"
    async with remote_world(world, script(), far, target=cut_at("workspaceleft")) as (w, repo):
        await w.session.run("Hi")
        (found,) = await w.session.fork(["P1"], isolation="remote")

        assert found.status == "completed"
        (kept,) = w.told(WorkKept)
        assert repo.git("show", f"{kept.branch}:new.txt") == "made"
        assert (kept.files, kept.uncommitted) == (("new.txt",), False)
        (child,) = w.parts.supervisor.children
        assert "all that was done is here" in str(child.run.outcome)
        assert not [one for one in w.told(Warned) if "come back" in one.text]

        # Its workspace is gone over there, and another one is made from its branch.
        await w.session.say("Go on.", to=child.spec.task_id)
        await w.session.wait_settled()
        assert child.status == "completed"
        assert not copies(far)
        assert not [one for one in w.told(Warned) if "is lost" in one.text]


NOISE = """
import sys
from prong.team.message import Ready, frame
sys.stdin.buffer.read(8)
sys.stdout.buffer.write(frame(Ready(), 0)); sys.stdout.buffer.flush()
sys.stdin.buffer.read(8)
sys.stdout.buffer.write(b"Last login: today, and a long line of other words"); sys.stdout.flush()
sys.stdin.buffer.read()
"""


async def test_a_far_side_that_breaks_the_protocol_is_not_asked_again(
    world: Worlds, tmp_path: Path, cut_at: Callable[[str], dict[str, Any]]
) -> None:
    """What leads there is ended from here then, which is no line that was cut."""
    target = cut_at("")
    (tmp_path / "bin" / "relay.py").write_text(NOISE)
    async with remote_world(world, script(), tmp_path / "far", target=target) as (w, _):
        await w.session.run("Hi")
        (found,) = await w.session.fork(["P1"], isolation="remote")

        assert found.status == "failed"
        assert "what it sends is not of the protocol" in found.detail
        assert not w.told(LineChanged)
