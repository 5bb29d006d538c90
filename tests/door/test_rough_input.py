"""Words and files that nobody meant: a sentence and an exit code, never a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from prong.config.option import Options
from prong.config.place import folders
from prong.errors import BadInput
from prong.testing import Worlds, say

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("L12")]

LONG = "x" * 5000

WORDS = {
    "trust, long": ("trust", LONG),
    "trust, a file": ("trust", "/dev/zero"),
    "explain, long": ("explain", LONG),
    "explain, two": ("explain", LONG, f"{LONG}:1"),
    "explain, number": ("explain", f"{LONG}:2"),
    "verify, long": ("verify", LONG),
    "verify, file": ("verify", f"{LONG}.jsonl"),
    "show, long": ("show", LONG),
    "cost, long": ("cost", LONG),
    "receipt, long": ("receipt", LONG, LONG),
    "resume, long": ("-p", "hi", "--resume", LONG),
    "id, long": ("-p", "hi", "--session-id", LONG),
    "schema, endless": ("-p", "hi", "--json-schema", "/dev/zero"),
    "schema, long": ("-p", "hi", "--json-schema", LONG),
    "schema, deep": ("-p", "hi", "--json-schema", '{"not":' * 5000 + "{}" + "}" * 5000),
    "settings, endless": ("-p", "hi", "--settings", "/dev/zero"),
    "settings, long": ("-p", "hi", "--settings", LONG),
    "settings, nobody's": ("-p", "hi", "--settings", "~nobody-here/x.json"),
    "settings, deep": ("-p", "hi", "--settings", '{"a":' * 5000 + "1" + "}" * 5000),
    "servers, long": ("-p", "hi", "--mcp-config", LONG),
    "servers, nobody's": ("-p", "hi", "--mcp-config", "~nobody-here/x.json"),
    "folder, long": ("-p", "hi", "--add-dir", LONG),
    "folder, nobody's": ("-p", "hi", "--add-dir", "~nobody-here/x"),
    "cwd, long": ("-p", "hi", "-C", LONG),
    "agents, long": ("agents", "-C", LONG),
    "merge, long": ("merge", "-C", LONG),
}


@pytest.mark.parametrize("name", WORDS)
async def test_odd_words_are_refused_in_a_sentence(world: Worlds, program: Any, name: str) -> None:
    """What cannot be used is said on standard error, and nothing is asked of the model."""
    async with world([say("Hi.")], opens=False) as w:
        done = await program.run(w, *WORDS[name])
        told = done.stderr.decode()
        assert done.returncode in {1, 2}, told[-500:]
        assert "Traceback" not in told
        assert told.startswith("prong: ")
        assert not w.server.records


@pytest.mark.parametrize("words", [("-p", "Hi"), ("sessions",)])
def test_a_current_folder_that_was_removed_is_said(tmp_path: Path, words: tuple[str, ...]) -> None:
    """It is a mistake of whoever starts the program, not a file that is missing somewhere."""
    (tmp_path / "gone").mkdir()
    done = subprocess.run(
        ["sh", "-c", 'cd gone && rmdir ../gone && exec "$@"', "sh", sys.executable, "-P", "-m",
         "prong", *words],
        capture_output=True, text=True, check=False, cwd=tmp_path, stdin=subprocess.DEVNULL,
        env={"HOME": str(tmp_path), "PATH": os.environ["PATH"],
             "ANTHROPIC_BASE_URL": "http://127.0.0.1:1"},
    )  # fmt: skip
    assert done.stderr == "prong: the current folder was removed; go to another\n"
    assert done.returncode == 2


@pytest.mark.parametrize("depth", [1000, 100_000])
async def test_input_that_nests_too_deep_is_skipped(
    world: Worlds, program: Any, depth: int
) -> None:
    """A line that cannot be read is named, and the next one counts."""
    deep = b'{"type": "say", "text": ' + b"[" * depth + b"]" * depth + b"}"
    given = b"\n".join([deep, b'{"type": "say", "text": "Go"}'])
    async with world([say("Hi.")], opens=False) as w:
        words = ("--input-format", "stream-json", "--output-format", "stream-json")
        done = await program.run(w, *words, stdin=given)
        assert done.returncode == 0
        assert b"Traceback" not in done.stderr
        assert b"prong: input line" in done.stderr
        assert len(w.server.records) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
@pytest.mark.parametrize("words", [("trust",), ("trust", "--remove"), ("-p", "hi")])
async def test_a_home_that_cannot_be_written(
    world: Worlds, program: Any, words: tuple[str, ...]
) -> None:
    """It is said what cannot be written, and that nothing was decided."""
    async with world([say("Hi.")], opens=False) as w:
        w.home.chmod(0o500)
        done = await program.run(w, *words)
        w.home.chmod(0o700)
        assert done.returncode in {1, 2}
        assert "cannot be" in done.stderr.decode()
        assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("inside", ["", "sub"])
def test_a_folder_that_may_not_be_entered(tmp_path: Path, inside: str) -> None:
    """It is told apart from one that there is not, and looked for in no other."""
    closed = tmp_path / "closed"
    (closed / "sub").mkdir(parents=True)
    closed.chmod(0)
    try:
        with unprivileged(), pytest.raises(BadInput, match="cannot be entered, for want of perm"):
            folders(Options(cwd=closed / inside))
    finally:
        closed.chmod(0o700)
    with pytest.raises(BadInput, match="is not a folder; choose one"):
        folders(Options(cwd=tmp_path / "nowhere"))


@contextmanager
def unprivileged() -> Generator[None]:
    """Be somebody whom permissions bind."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("words", [("trust",), ("trust", "--remove"), ("-p", "hi", "--bare")])
async def test_a_home_that_is_no_folder(
    world: Worlds, program: Any, words: tuple[str, ...]
) -> None:
    """Where nothing can be kept, nothing is decided or begun."""
    async with world([say("Hi.")], opens=False) as w:
        Path(w.home / ".prong").write_text("in the way")
        done = await program.run(w, *words)
        assert done.returncode in {1, 2}
        assert " cannot be " in done.stderr.decode()
        assert not w.server.records
        assert b"Traceback" not in done.stderr


async def test_a_damaged_session_is_listed_and_explained(world: Worlds, program: Any) -> None:
    """One bad byte in the first record: `sessions`, `verify`, `--resume` and `-c` all say it."""
    async with world([say("Hi."), say("Again.")], opens=False) as w:
        await program.run(w, "-p", "hello", "--session-id", "mine")
        (path,) = w.home.glob(".prong/projects/*/mine.jsonl")
        data = path.read_bytes()
        path.write_bytes(data.replace(b'"k":"open"', b'"k":"opem"', 1))
        listed = await program.run(w, "sessions")
        assert b"mine" in listed.stdout
        assert b"damaged: the checksum of line 1 (byte 0) does not match" in listed.stdout
        checked = await program.run(w, "verify", "mine")
        assert checked.returncode == 1
        assert b"damaged at line 1, byte 0: the checksum does not match" in checked.stdout
        for words in (("--resume", "mine"), ("-c",), ("-c", "--fork-session")):
            done = await program.run(w, "-p", "more", *words)
            assert done.returncode == 1
            assert b"mine.jsonl:1 (byte 0): the checksum does not match" in done.stderr
            assert b"Traceback" not in done.stderr
        assert len(w.server.records) == 1


async def test_an_empty_journal_is_told_of_in_one_voice(world: Worlds, program: Any) -> None:
    """What a killed start left empty is in no list, cannot be resumed, and can be begun."""
    async with world([say("Hi."), say("Again.")], opens=False) as w:
        await program.run(w, "-p", "hello", "--session-id", "mine")
        (path,) = w.home.glob(".prong/projects/*/mine.jsonl")
        path.write_bytes(b"")
        assert b"mine" not in (await program.run(w, "sessions")).stdout
        for words in (("verify", "mine"), ("-p", "x", "--resume", "mine")):
            done = await program.run(w, *words)
            assert (done.returncode, b"--session-id mine" in done.stderr) == (1, True)
        done = await program.run(w, "-p", "hello", "--session-id", "mine")
        assert (done.returncode, done.stdout) == (0, b"Again.\n")
