"""kill -9, full disks and endless commands: what is stored stays valid, and nothing is lost."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from functools import partial
from math import inf
from typing import Any

import anyio
import pytest
from anyio.abc import Process

from prong.journal.eventlog import EventLog
from prong.testing import Script, Step, World, Worlds, call, calls, forks, report, say, stall
from prong.testing.request import Request
from prong.testing.span import check_events
from shared.running import runs
from shared.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("L1", "L8"), pytest.mark.hunt]

TURN = [
    say("I look.", then=calls(("Bash", {"command": "echo one >> log"}), ("Read", {"file_path": "a"}))),
    say("I write.", then=call("Bash", {"command": "echo two >> log; sleep 0.1"})),
    say("All is done."),
]  # fmt: skip


class Model:
    """Plays the turn, however often it is broken off: by what stands in the conversation."""

    def __init__(self) -> None:
        self.victim: Process | None = None
        self.kill_at = -1
        self.seen = 0

    def __call__(self, request: Request) -> Step:
        if self.victim is not None:
            self.seen += 1
            if self.seen == self.kill_at:
                self.victim.kill()
        replies = sum(block.kind == "tool_use" for block in request.blocks)
        return TURN[0] if replies == 0 else TURN[1] if replies <= 2 else TURN[2]


async def _killed(w: World, program: Any, model: Model, words: list[str], after: float) -> bool:
    """Run and kill; say whether it was killed before its end."""
    # What it asks before it is known here is not for the one before it to be killed for.
    model.victim = None
    process: Process = await program.start(w, "-p", "Go on", *words)
    model.victim, model.seen = process, 0
    async with process:
        assert process.stdin is not None
        await process.stdin.aclose()
        with anyio.move_on_after(after):
            await process.wait()
        if process.returncode is None:
            process.kill()
        return await process.wait() < 0


@pytest.mark.timeout(240)
async def test_kill_at_many_points(world: Worlds, program: Any) -> None:
    """After a kill at any request or moment the session goes on with a valid conversation."""
    model = Model()
    allowed = ["--permission-mode", "bypassPermissions"]
    async with world(model, files={"a": "alpha\n"}, opens=False) as w:
        points = [(1, inf), (2, inf), (3, inf), *((-1, 0.25 + 0.06 * n) for n in range(8))]
        words = allowed
        for kill_at, after in points:
            model.kill_at = kill_at
            await _killed(w, program, model, words, after)
            if any((w.store / "projects").glob("*/*.jsonl")):
                words = [*allowed, "--continue"]
                checked = await program.run(w, "verify", "--json")
                assert checked.returncode == 0, checked.stdout
        model.victim = None
        done = await program.run(w, "-p", "Finish", "--continue", *allowed)
        assert done.returncode == 0, done.stderr
        assert done.stdout == b"All is done.\n"
        # The server answers a conversation with an unanswered call by 400.
        assert {r.status for r in w.server.records} <= {0, 200}
        said = json.dumps(w.bodies()[-1]["messages"])
        assert said.count('"Go on"') >= 3
        log = (w.root / "log").read_text()
        assert log.count("one") == 1
        [events] = (w.store / "projects").glob("*/*/events.jsonl")
        told = EventLog(events)
        check_events(told.replay(0, told.seq))


async def test_kill_in_mid_stream_loses_only_the_reply(world: Worlds, program: Any) -> None:
    """The half-streamed reply is not stored; the message is."""
    async with world([stall(600, then=say("Half. " * 40)), say("Whole.")], opens=False) as w:
        process: Process = await program.start(w, "-p", "Precious words")
        async with process:
            assert process.stdin is not None
            await process.stdin.aclose()
            while not w.server.records or w.server.records[0].status != 200:
                await anyio.sleep(0.02)
            process.kill()
            await process.wait()
        done = await program.run(w, "-p", "Again", "--continue")
        assert done.stdout == b"Whole.\n"
        body = w.server.records[1].body.decode()
        assert "Precious words" in body
        assert "Half." not in body


@pytest.mark.spec("T2", "T5")
async def test_kill_after_a_command_was_sent_to_the_background(world: Worlds, program: Any) -> None:
    """It ends with Prong, and whoever resumes is told once, with what it had printed."""
    command = "echo $$ > pid; echo half; touch up; exec sleep 600"
    words = ["--permission-mode", "bypassPermissions"]
    begun = [call("Bash", {"command": command}), stall(600, then=say("Never."))]
    script = Script(begun, forever=say("I see."))
    async with world(script, opens=False) as w:
        streams = ("--input-format", "stream-json", "--output-format", "stream-json")
        process: Process = await program.start(w, *streams, *words)
        async with process:
            assert process.stdin is not None
            assert process.stdout is not None
            await process.stdin.send(b'{"type": "say", "text": "Go"}\n')
            while not (w.root / "up").exists():
                await anyio.sleep(0.02)
            await process.stdin.send(b'{"type": "background"}\n')
            seen = b""
            while b'"task_started"' not in seen:
                seen += await process.stdout.receive()
            # Whether anything more is printed until then is not said.
            await until(lambda: len(w.server.records) >= 2)
            process.kill()
            await process.wait()
        done = await program.run(w, "-p", "Go on", "--continue", *words)
        assert done.stdout == b"I see.\n", done.stderr
        body = w.server.records[-1].body.decode()
        assert body.count("Goes on in the background as task-1") == 1
        assert body.count("<task-notification>") == 1
        assert "ended with the session" in body
        pid = int((w.root / "pid").read_text())
        while runs(pid):
            await anyio.sleep(0.02)


async def _with_files_up_to(
    size: int, w: World, program: Any
) -> subprocess.CompletedProcess[bytes]:
    """Ask where no file can grow beyond a size, as on a full disk."""
    limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (size, size))
    return await anyio.to_thread.run_sync(
        lambda: subprocess.run(
            [sys.executable, "-m", "prong", "-p", "Go", "--allowed-tools", "Bash"],
            cwd=w.root,
            env=program.environment(w),
            capture_output=True,
            stdin=subprocess.DEVNULL,
            preexec_fn=limit,  # the child has one thread here
            check=False,
        )
    )


@pytest.mark.parametrize("size", [60_000, 90_000])
async def test_a_full_disk(world: Worlds, program: Any, size: int) -> None:
    """When nothing more can be written it is said; what was stored before is good."""
    script = [call("Bash", {"command": "seq 4000"}) for _ in range(6)]
    async with world([*script, say("Done."), say("Room again.")], opens=False) as w:
        done = await _with_files_up_to(size, w, program)
        assert done.returncode == 1, (done.returncode, done.stderr)
        assert b"everything before is safe" in done.stderr
        assert b"Traceback" not in done.stderr
        checked = await program.run(w, "verify")
        assert checked.returncode == 0, checked.stdout
        w.server.moves_prefix = "a reply that could not be stored is not repeated"
        named = done.stderr.decode().split("--resume ")[1].split()[0]
        again = await program.run(w, "-p", "Again", "--resume", named, "--allowed-tools", "Bash")
        assert again.returncode == 0, again.stderr


@pytest.mark.parametrize("size", [50, 20_000, 30_000])
async def test_a_disk_that_is_full_from_the_start(world: Worlds, program: Any, size: int) -> None:
    """No session is named that is not there: it is said that nothing was stored, and to ask again."""
    async with world([say("Room again.")], opens=False) as w:
        done = await _with_files_up_to(size, w, program)
        assert done.returncode == 1, (done.returncode, done.stderr)
        assert b"nothing was stored yet: free some space, then ask again" in done.stderr
        assert b"--resume" not in done.stderr
        assert b"Traceback" not in done.stderr
        assert not w.server.records
        again = await program.run(w, "-p", "Go")
        assert again.stdout == b"Room again.\n", again.stderr


async def test_a_command_that_never_ends(world: Worlds, program: Any) -> None:
    """It is stopped at its timeout, and the model is told."""
    # Time enough for a shell to say its first words, however busy the machine is.
    command = {"command": "echo so far; sleep 600", "timeout": 10_000}
    script = [call("Bash", command), say("I see.")]
    async with world(script, opens=False) as w:
        done = await program.run(w, "-p", "Go", "--allowed-tools", "Bash")
        assert done.stdout == b"I see.\n"
        told = w.server.records[1].request.last_text
        assert "so far" in told


async def test_a_fork_is_told_of_its_command_after_a_kill(world: Worlds, program: Any) -> None:
    """A notice that a child had not stored reaches it when it is taken up, and nobody hangs."""
    background = call("Bash", {"command": "echo x", "run_in_background": True})
    routes = {"Part 1.": [background, stall(600, then=say("Never.")), report()]}
    script = Script([forks("Part 1."), say("I wait.")], routes, forever=say("Done."))
    free = ("--permission-mode", "bypassPermissions")
    async with world(script, opens=False) as w:
        process: Process = await program.start(w, "-p", "Go", "--session-id", "it", *free)
        async with process:
            assert process.stdin is not None
            await process.stdin.aclose()
            outboxes: list[bytes] = []
            while not any(b'"delivered"' in data for data in outboxes):
                outboxes = [path.read_bytes() for path in w.store.rglob("outbox.jsonl")]
                await anyio.sleep(0.02)
            while len(w.server.records) < 4:
                await anyio.sleep(0.02)
            process.kill()
            await process.wait()
        with anyio.fail_after(120):
            done = await program.run(w, "-p", "--resume", "it", *free)
        assert done.returncode == 0, done.stderr
        told = w.server.lineages()
        (child,) = [name for name in told if name != "main"]
        assert told[child][-1].body.count(b"<task-id>task-1</task-id>") == 1


async def _kill_at(w: World, process: Process, request: int) -> None:
    """Kill -9 while the answer to a request is awaited."""
    async with process:
        assert process.stdin is not None
        await process.stdin.aclose()
        while len(w.server.records) < request:
            await anyio.sleep(0.02)
        process.kill()
        await process.wait()


@pytest.mark.parametrize("resume", ["--resume=it", "--continue"])
@pytest.mark.parametrize("request_number", [1, 2])
async def test_a_killed_turn_is_taken_up(
    world: Worlds, program: Any, resume: str, request_number: int
) -> None:
    """Resumed without a prompt, the turn goes on with the message, which is not said again."""
    before = [call("Read", {"file_path": "a"})][: request_number - 1]
    script = [*before, stall(600, then=say("Never.")), say("Answered.")]
    async with world(script, files={"a": "alpha"}, opens=False) as w:
        process: Process = await program.start(w, "-p", "Precious words", "--session-id", "it")
        await _kill_at(w, process, request_number)
        done = await program.run(w, "-p", resume)
        assert (done.returncode, done.stdout) == (0, b"Answered.\n"), done.stderr
        assert b"no answer to 'Precious words'" in done.stderr
        assert w.server.records[-1].body.count(b"Precious words") == 1
        again = await program.run(w, "-p", resume)
        assert again.returncode == 2
        assert b"nothing in this session waits" in again.stderr
