"""A program that stands for another: it writes down its calls, and answers as it was told."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import msgspec

_SCRIPT = """
import base64, json, os, sys, time
calls, answers = sys.argv[1:3]
words = sys.argv[3:]
said = sys.stdin.read() if not sys.stdin.isatty() else ""
line = json.dumps({"words": words, "stdin": said, "cwd": os.getcwd()}) + "\\n"
try:
    with open(calls) as file:
        earlier = [json.loads(one)["words"] for one in file]
except FileNotFoundError:
    earlier = []
fd = os.open(calls, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
os.write(fd, line.encode())
with open(answers) as file:
    known = json.load(file)
fitting = [one for one in known if words[: len(one["words"])] == one["words"]]
if not fitting:
    sys.exit("no answer was given for: " + " ".join(words))
longest = max(len(one["words"]) for one in fitting)
fitting = [one for one in fitting if len(one["words"]) == longest]
begin = fitting[0]["words"]
number = sum(one[: len(begin)] == begin for one in earlier)
answer = fitting[min(number, len(fitting) - 1)]
time.sleep(answer["seconds"])
sys.stdout.write(answer["output"])
sys.stdout.flush()
sys.stdout.buffer.write(base64.b64decode(answer["data"]))
sys.stderr.write(answer["errors"])
sys.stdout.flush()
sys.exit(answer["code"])
"""


class RecordedCall(msgspec.Struct, frozen=True):
    """One call of a program."""

    words: tuple[str, ...]
    """Its arguments."""
    stdin: str
    cwd: str


class ProgramAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What the program says to calls whose arguments begin with some words."""

    words: tuple[str, ...]
    output: str = ""
    data: bytes = b""
    """What it prints after that, if it is no text."""
    errors: str = ""
    code: int = 0
    seconds: float = 0.0
    """How long it takes."""


class ProgramRecorder:
    """A program in a folder, to be put on the PATH; what it is not told to answer fails."""

    def __init__(self, folder: Path, name: str) -> None:
        """Make the program; the folder is there."""
        self.path = folder / name
        self._calls = folder / f".{name}.calls"
        self._answers = folder / f".{name}.answers"
        self._known: list[ProgramAnswer] = []
        self._store()
        words = [sys.executable, "-I", "-S", "-c", _SCRIPT, str(self._calls), str(self._answers)]
        self.path.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', "utf-8")
        self.path.chmod(0o755)

    def answer(
        self,
        *words: str,
        output: str = "",
        data: bytes = b"",
        errors: str = "",
        code: int = 0,
        seconds: float = 0.0,
    ) -> None:
        """Answer calls that begin with these words; of several answers each is used once, in order.

        The last of them is used ever after. The longest beginning that fits counts.
        """
        answer = ProgramAnswer(
            words=words, output=output, data=data, errors=errors, code=code, seconds=seconds
        )
        self._known.append(answer)
        self._store()

    def forget(self) -> None:
        """Forget the calls that were made, and all answers."""
        self._calls.unlink(missing_ok=True)
        self._known = []
        self._store()

    def _store(self) -> None:
        self._answers.write_bytes(msgspec.json.encode(self._known))

    @property
    def calls(self) -> list[RecordedCall]:
        """The calls that were made, in order."""
        if not self._calls.exists():
            return []
        lines = self._calls.read_bytes().splitlines()
        return [msgspec.json.decode(line, type=RecordedCall) for line in lines]
