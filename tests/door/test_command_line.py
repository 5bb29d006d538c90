"""The words of the command line, and characters that the surroundings cannot hold."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from prong.errors import UsageError
from prong.face import cli
from prong.testing import Worlds, call, say
from prong.testing.program import Program
from prong.testing.repository import Repo

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("L12")]

POOR = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.mark.parametrize("output", ["text", "json", "stream-json"])
async def test_a_poor_locale_loses_no_answer(world: Worlds, program: Any, output: str) -> None:
    """What cannot be encoded is written another way, on both streams; what was said arrives."""
    script = [call("Bash", {"command": "touch é"}), say("Grüße, 世界 🙂")]
    async with world(script, opens=False) as w:
        done = await program.run(w, "-p", "Größe?", "--output-format", output, **POOR)
        assert done.returncode == 0, done.stderr
        assert b"Traceback" not in done.stderr
        if output == "text":
            assert done.stdout.decode() == "Gr\\xfc\\xdfe, \\u4e16\\u754c \\U0001f642\n"
            assert rb"touch \xe9" in done.stderr, "the refused call is told"
        else:
            last = json.loads(done.stdout.splitlines()[-1])
            assert last["text"] == "Grüße, 世界 🙂"
        assert "Größe?" in w.server.records[0].request.last_text


async def test_bytes_that_are_no_text_are_no_traceback(world: Worlds, program: Any) -> None:
    """A prompt of any bytes is asked; what is no text in it is replaced."""
    async with world([say("Aye.")], opens=False) as w:
        done = await program.run(w, "-p", "a\udcffb")
        assert (done.returncode, done.stdout) == (0, b"Aye.\n"), done.stderr
        assert "a\ufffdb" in w.server.records[0].request.last_text


WRONG: list[tuple[list[str], bytes]] = [
    (["--modle", "x", "-p", "hi"], b"no option --modle; did you mean --model?"),
    (["-p", "hi", "--modle=x"], b"no option --modle; did you mean --model?"),
    (["-p", "hi", "--xyzzy"], b"no option --xyzzy; --help lists them"),
    (["-p", "hello", "world"], b"'world' is one word too many"),
    (["sesions"], b"did you mean 'prong sessions'?"),
    (["recept", "--json"], b"did you mean 'prong receipt'?"),
    (["-C", ".", "mrege"], b"did you mean 'prong merge'?"),
    (["-C", "/nowhere/at/all", "merge"], b"-C /nowhere/at/all"),
    (["-p", "--disallowed-tools", "Bash", "Edit"], b"'Edit' is one word too many"),
    (["--allowedTools", "Read", "Bash(git log:*)", "-p"], b"with commas between them"),
]


@pytest.mark.parametrize(("words", "told"), WRONG)
async def test_the_wrong_word_is_named(
    world: Worlds, program: Any, words: list[str], told: bytes
) -> None:
    """A slip is named and nothing is sent to a model."""
    async with world([], opens=False) as w:
        done = await program.run(w, *words)
        assert done.returncode == 2, done.stdout
        assert told in done.stderr
        assert not w.server.records


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["help"], ["--help"]),
        (["help", "merge"], ["merge", "--help"]),
        (["version"], ["--version"]),
    ],
)
async def test_help_is_no_message(
    world: Worlds, program: Any, words: list[str], option: list[str]
) -> None:
    """`prong help` and `prong version` are answered by the program, and no model is asked."""
    async with world([], opens=False) as w:
        done = await program.run(w, *words)
        assert (done.returncode, done.stderr) == (0, b"")
        assert done.stdout == (await program.run(w, *option)).stdout
        assert not w.server.records


@pytest.mark.parametrize(
    "words",
    [
        ["-p", "--allowed-tools", "Read", "ping"],
        ["-p", "--allowed-tools", "Read,Edit", "--allowed-tools", "Grep", "ping"],
        ["-p", "--tools", "Read", "ping"],
        ["-p", "--tools", "", "ping"],
        ["-p", "--", "ping"],
        ["-C", ".", "-p", "ping"],
    ],
)
async def test_an_option_does_not_eat_the_prompt(
    world: Worlds, program: Any, words: list[str]
) -> None:
    """An option takes one value; what follows is the prompt."""
    async with world([say("pong")], opens=False) as w:
        done = await program.run(w, *words)
        assert (done.returncode, done.stdout) == (0, b"pong\n"), done.stderr
        assert w.server.records[0].request.last_text == "ping"


@pytest.mark.parametrize("led", [["-C", "sub"], ["--cwd=sub"], ["-Csub"]])
async def test_a_folder_may_stand_before_a_command(
    world: Worlds, program: Any, led: list[str]
) -> None:
    """`prong -C DIR COMMAND` is the command, in that folder."""
    async with world([say("Hello.")], files={"sub/a": ""}, opens=False) as w:
        repo = Repo(w.root / "sub")
        repo.git("init", "-q")
        me = ("-c", "user.name=me", "-c", "user.email=me@localhost")
        repo.git(*me, "commit", "-q", "--allow-empty", "-m", "First")
        assert (await program.run(w, "-p", "Hi", "-C", "sub", "-n", "it")).returncode == 0
        listed = await program.run(w, *led, "sessions", "--json")
        assert [one["title"] for one in json.loads(listed.stdout)] == ["it"]
        merged = await program.run(w, *led, "merge", "--json")
        assert json.loads(merged.stdout)["steps"] == []


@pytest.mark.parametrize("output", ["text", "json"])
async def test_an_empty_reply_is_told(world: Worlds, program: Any, output: str) -> None:
    """A reply without a word is no failure, and is said to be one without a word."""
    async with world([say("")], opens=False) as w:
        done = await program.run(w, "-p", "Hi", "--output-format", output)
        assert done.returncode == 0
        if output == "text":
            assert (done.stdout, done.stderr) == (b"", b"prong: done: the last reply had no text\n")
        else:
            summary = json.loads(done.stdout)
            assert (summary["why"], summary["detail"]) == ("done", "the last reply had no text")


Terminal = Callable[..., AbstractAsyncContextManager[Any]]


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
@pytest.mark.parametrize("variable", ["TERM=dumb", "NO_COLOR=1"])
async def test_no_colour_where_none_is_wanted(
    world: Worlds, terminal: Terminal, variable: str
) -> None:
    """A terminal that is dumb, and a user who wants none, see no colour."""
    name, _, value = variable.partition("=")
    async with (
        world([call("Bash", {"command": "ls"}), say("")], opens=False) as w,
        terminal(w, **{name: value}) as screen,
    ):
        await screen.see("> ")
        screen.type("Go")
        await screen.see("* ", "(the last reply had no text)")
        assert "\x1b[" not in screen.tmux("capture-pane", "-p", "-e", "-t", "it")


@pytest.mark.spec("X2")
@pytest.mark.parametrize(
    ("ssh", "remedy"), [("", ""), ("10.0.0.1 1 10.0.0.2 22", "; ssh -t makes one")]
)
async def test_without_a_terminal_it_says_why(
    world: Worlds, program: Program, ssh: str, remedy: str
) -> None:
    """Piped, it goes line by line and says why on standard error, and over ssh what would help."""
    more = {"SSH_CONNECTION": ssh} if ssh else {}
    async with world([say("Hello.")], opens=False) as w:
        done = await program.run(w, stdin=b"Hi\n", **more)
        told = f"(line by line: standard input is no terminal{remedy})\n"
        assert (done.returncode, done.stderr.decode()) == (0, told)
        assert b"Hello." in done.stdout


async def test_a_dash_is_what_comes_on_standard_input(world: Worlds, program: Program) -> None:
    """As with other programs; nothing there is no prompt, and talking has none to read."""
    async with world([say("Hello.")], opens=False) as w:
        done = await program.run(w, "-p", "-", stdin=b"Say hello\n")
        assert (done.returncode, done.stdout) == (0, b"Hello.\n")
        assert w.server.records[0].request.last_text == "Say hello\n"

        done = await program.run(w, "-p", "-")
        assert (done.returncode, len(w.server.records)) == (2, 1)
        assert b"nothing came on standard input" in done.stderr
        done = await program.run(w, "-")
        assert (done.returncode, len(w.server.records)) == (2, 1)
        assert b"a prompt of '-' is read from standard input, for runs" in done.stderr


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("login", "ANTHROPIC_API_KEY"),
        ("config", "settings.json"),
        ("update", "pipx upgrade"),
        ("resume", "prong --resume"),
        ("exec", "prong -p"),
        ("sesions", "did you mean 'prong sessions'"),
    ],
)
def test_commands_of_other_programs_are_not_sent(word: str, said: str) -> None:
    """What is meant is named in place of paying a model for the word."""
    with pytest.raises(UsageError, match=re.escape(said)):
        cli._refuse_slip(word)
