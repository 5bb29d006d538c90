"""Standard streams that are closed, or cannot be used, in real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from prong.testing import World, Worlds, call, say
from prong.testing.program import Program

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("L12")]

NEEDS_FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
CLOSED = "prong: standard output is closed, so nothing was done"


async def run(w: World, streams: str, *words: str) -> subprocess.CompletedProcess[bytes]:
    """Run a program with streams as a shell redirects them."""
    shell = ["sh", "-c", f'exec "$@" {streams}', "sh", sys.executable, *words]
    env = Program().environment(w)
    return await anyio.run_process(shell, check=False, cwd=w.root, env=env)


@pytest.mark.parametrize("streams", ["<&-", "2>&-", "<&- 2>&-", "2>/dev/full"])
async def test_the_answer_comes(world: Worlds, program: Any, streams: str) -> None:
    """A missing input is none, a missing standard error loses only what is said there."""
    # That a call was not allowed is said on standard error.
    async with world([call("Bash", {"command": "touch x"}), say("Hi.")], opens=False) as w:
        done = await run(w, streams, "-m", "prong", "-p", "Hello")
        told = b"" if "2>" in streams else b"prong: not allowed"
        assert (done.returncode, done.stdout) == (0, b"Hi.\n"), done.stderr
        assert done.stderr.startswith(told)
        assert b"Traceback" not in done.stderr
        checked = await program.run(w, "verify")
        assert checked.returncode == 0, checked


WORDS = {
    "text": ("-p", "Hello"),
    "json": ("-p", "Hello", "--output-format", "json"),
    "lines": ("-p", "Hello", "--output-format", "stream-json"),
    "terminal": (),
    "list": ("sessions",),
    "version": ("--version",),
    "editor": ("acp",),
    "worker": ("worker", "--stdio"),
}


@pytest.mark.parametrize("name", WORDS)
async def test_a_closed_output_is_said_before_anything_is_asked(world: Worlds, name: str) -> None:
    """Nothing is begun whose answer nobody could get."""
    async with world([say("Hi.")], opens=False) as w:
        done = await run(w, ">&-", "-m", "prong", *WORDS[name])
        told = done.stderr.decode()
        assert (done.returncode, done.stdout) == (2, b"")
        assert told.startswith(CLOSED)
        assert told.count("\n") == 1
        assert not w.server.records


@pytest.mark.parametrize(
    "words",
    [WORDS["text"], WORDS["json"], WORDS["lines"], ("sessions", "--help"), ("--version",)],
    ids=" ".join,
)
@NEEDS_FULL
async def test_an_output_that_cannot_be_written_is_named(
    world: Worlds, words: tuple[str, ...]
) -> None:
    """The one sentence says what it was that is full."""
    async with world([say("Hi.")], opens=False) as w:
        done = await run(w, "> /dev/full", "-m", "prong", *words)
        said = "prong: standard output: No space left on device\n"
        assert (done.returncode, done.stderr.decode()) == (1, said)


@NEEDS_FULL
async def test_an_editor_that_cannot_be_answered(world: Worlds) -> None:
    """Whoever started it learns that it was the stream of the answers."""
    asked = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}
    async with world([], opens=False) as w:
        await anyio.Path(w.root, "asked").write_text(json.dumps(asked) + "\n")
        done = await run(w, "< asked > /dev/full", "-m", "prong", "acp")
        said = "prong: standard output: No space left on device\n"
        assert (done.returncode, done.stderr.decode()) == (1, said)


@NEEDS_FULL
async def test_a_talk_that_could_not_be_written_is_no_success(world: Worlds) -> None:
    """Whoever talks line by line into a full file is told in the end, and by the exit code."""
    async with world([say("Hi.")], opens=False) as w:
        await anyio.Path(w.root, "said").write_text("Hello\n/exit\n")
        done = await run(w, "< said > /dev/full", "-m", "prong", "--plain")
        assert done.returncode == 1
        assert done.stderr.decode().endswith("standard output: No space left on device\n")


async def test_an_input_that_cannot_be_read_is_named(world: Worlds) -> None:
    """The one sentence says what it was that is open for writing only."""
    async with world([say("Hi.")], opens=False) as w:
        done = await run(w, "0> written", "-m", "prong", "-p", "Hello")
        said = "prong: standard input: Bad file descriptor\n"
        assert (done.returncode, done.stderr.decode()) == (1, said)
        assert not w.server.records


@pytest.mark.parametrize("words", [(), ("acp",), ("-p", "--input-format", "stream-json")], ids=str)
async def test_without_input_there_is_nothing_to_do(world: Worlds, words: tuple[str, ...]) -> None:
    """Whoever would talk to somebody ends as at the end of what they say."""
    async with world([], opens=False) as w:
        closed = await run(w, "<&-", "-m", "prong", *words)
        ended = await run(w, "< /dev/null", "-m", "prong", *words)
        assert (closed.returncode, ended.returncode) == (0, 0), closed.stderr
        assert len(closed.stdout.splitlines()) == len(ended.stdout.splitlines())
        assert b"Traceback" not in closed.stderr


LIBRARY = """
import json, os, sys
import prong
from prong.session import describe_backends
with prong.Client(model="claude-sonnet-5-5") as client:
    text = client.run("Hello").text
    held = [os.path.samestat(os.fstat(n), os.stat(os.devnull)) for n in range(3)]
    client.loop.call(describe_backends)
with open("told.json", "w") as file:
    json.dump([text, held, [sys.stdin, sys.stdout, sys.stderr]], file)
"""


async def test_a_program_without_streams_can_use_the_library(world: Worlds) -> None:
    """No file of a session gets the number of a closed stream, and nothing is put in its place."""
    async with world([call("Bash", {"command": "echo a"}), say("Hi.")], opens=False) as w:
        done = await run(w, "<&- >&- 2>&-", "-c", LIBRARY)
        assert done.returncode == 0
        told = json.loads(await anyio.Path(w.root, "told.json").read_text())
        assert told == ["Hi.", [True] * 3, [None] * 3]


async def test_nobody_reads_standard_error(world: Worlds) -> None:
    """Whoever hears of failures being gone does not end the work."""
    async with world([call("Bash", {"command": "touch x"}), say("Hi.")], opens=False) as w:
        reads, writes = os.pipe()
        os.close(reads)
        try:
            done = await anyio.run_process(
                [sys.executable, "-m", "prong", "-p", "Hello"],
                input=b"",
                stderr=writes,
                check=False,
                cwd=w.root,
                env=Program().environment(w),
            )
        finally:
            os.close(writes)
        assert (done.returncode, done.stdout) == (0, b"Hi.\n")
