"""The parser against real bash: which programs does a line run?

The parser either says what a line runs or that it does not know. Lines are made of hostile pieces,
or of honest ones that were spoilt at a few places. Those of which the parser is certain are run by
bash, in the *reading* profile, with a `PATH` of programs that note their names and words before
they become the real ones. One that the parser did not name is a failure, and so is a word that is
not as it said.

    python -m prong.testing.torture programs --count 5000 --seed 1
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import anyio
import msgspec
from anyio.from_thread import BlockingPortal, start_blocking_portal

from prong.host import LocalHost
from prong.testing.shell_campaign import PROGRAMS, generate, mutate
from prong.testing.torture import Trial
from prong.tools.commandline import Parsed, Simple, parse_command
from prong.tools.derive import reading
from prong.tools.ground import Policy, Sandboxing

HONEST = [
    "cat f | sort | wc -l",
    "find . -name f | xargs wc -l",
    "find . -name f -exec grep -l one {} +",
    "for i in f x; do head -1 $i; done",
    "for i in f x; do echo $i; cat $i; done | sort",
    "if grep -q one f; then cat x; else ls; fi",
    "while read -r a; do echo $a; done < f; ls",
    "case a in a) cat f;; *) ls;; esac",
    "cat <<E | tr a-z A-Z\none $HOME two\nE",
    "cat <<'E'\n$(ls)\nE",
    "(cat f; ls) | head -3",
    "{ cat f && cat x; } 2>&1 | sort",
    "env A=1 cat f",
    "timeout 5 nice -n1 cat f",
    "diff <(sort f) <(sort x)",
    'x=f; cat $x; ls "$x" | wc',
    'echo "a $(cat f) b"; ls',
    "echo `cat f` 'cat x' \\; ls",
    "[ -n a ] && cat f || ls",
    "[[ a == a ]] && cat f",
    "! grep two f; ls",
    "time cat f",
    "cat f # ls\nwc x",
    "cat f \\\n x; ls",
    "bash -c 'cat f; ls' | wc",
    "echo f x | xargs -n1 cat",
    "sed -n 1p f; cut -c1 x; tr a b < f",
    "echo $((1 + 2)) ${HOME} ${x:-y}; ls",
    "cat {f,x} | grep o",
]
_SECONDS = 20.0
"""A bound for a line that never ends: one that is only slow must not be taken for it."""
_END = "\x1e"
"""Stands behind the last word of a program."""


class Run(msgspec.Struct, frozen=True):
    """A program that was really run."""

    name: str
    words: tuple[str, ...]


class Recorder:
    """A folder in which lines are run, and programs that note that they were."""

    def __init__(self, folder: Path, portal: BlockingPortal) -> None:
        self._programs, self.work, self._log = (folder / n for n in ("bin", "work", "log"))
        self._portal = portal
        self._programs.mkdir()
        self.work.mkdir()
        for name, text in (("f", "one\n"), ("x", "two\n")):
            (self.work / name).write_text(text)
        for name in (*PROGRAMS, "zap"):
            self._note(name)
        self.host = LocalHost(self.work, str(self.work), storage=str(folder / "store"))
        box = Sandboxing(on=True, ability=self.host.ability)
        policy = Policy(root=str(self.work), home=str(self.work), sandbox=box)
        self._profile = msgspec.structs.replace(reading(policy), writable=(str(self._log),))

    def _note(self, name: str) -> None:
        real = shutil.which(name) or "/bin/true"
        path = self._programs / name
        # Written at once, so that programs that run at the same time do not mix.
        path.write_text(
            f"#!/bin/sh\nprintf '%s\\037' {name} \"$@\" '{_END}' >> {self._log}\n"
            f'exec {os.path.realpath(real)} "$@"\n'
        )
        path.chmod(0o755)

    def run(self, line: str, *, seconds: float = _SECONDS) -> list[Run]:
        """Run a line for so long; give the programs that it ran."""
        self._log.write_bytes(b"")
        self._portal.call(self._run, line, seconds)
        found: list[Run] = []
        for part in self._log.read_text(errors="replace").split(f"{_END}\x1f"):
            name, *words = part.split("\x1f")[:-1] or [""]
            if name:
                found.append(Run(name, tuple(words)))
        # The first is the bash that runs the line.
        assert not found or found[0] == Run("bash", ("-c", line)), found[0]
        return found[1:]

    async def _run(self, line: str, seconds: float) -> None:
        # The nesting of functions is bounded, or a line could be a bomb by chance.
        env = {"PATH": str(self._programs), "HOME": str(self.work), "FUNCNEST": "20"}
        process = await self.host.start(line, env=env, profile=self._profile)
        with anyio.move_on_after(seconds):
            async for _ in process.output():
                pass
            await process.wait()
        await process.kill()
        process.leave()


def draw(rng: random.Random) -> str:
    """Build one line."""
    if rng.random() < 0.4:
        return generate(rng)
    line = rng.choice(HONEST)
    for _ in range(rng.choice([0, 1, 1, 1, 2, 3])):
        line = mutate(rng, line)
    return line


def compare(parsed: Parsed, ran: Sequence[Run]) -> str:
    """Say what was run that a parse does not have; empty if nothing was."""
    if parsed.opaque or any(_runs_file(simple) for simple in parsed.commands):
        return ""
    for one in ran:
        named = [simple for simple in parsed.commands if simple.name == one.name]
        # What runs by the language of another program, sed's for one, is told apart as code.
        if not named and not parsed.code:
            return f"ran {one.name} {' '.join(one.words)}"
        if named and not any(_fits(parsed, simple, one) for simple in named):
            return f"ran {one.name} with {one.words}"
    return ""


def _runs_file(simple: Simple) -> bool:
    """Whether it is a shell with a script of which nobody knows what is in it."""
    words = [word.text for word in simple.words[1:]]
    return simple.name == "bash" and bool(words) and not words[0].startswith("-")


def _fits(parsed: Parsed, simple: Simple, ran: Run) -> bool:
    """Whether the words that were certain are there, in their order; all of them, if all were."""
    words = simple.words[1:]
    if simple.within >= 0 and parsed.commands[simple.within].name in {"xargs", "find"}:
        # They put words of their own in and behind it.
        return True
    if all(word.plain for word in words):
        return tuple(word.text for word in words) == ran.words
    rest = iter(ran.words)
    return all(word.text in rest for word in words if word.plain)


@contextmanager
def recorder() -> Generator[Recorder]:
    """Make a folder for a campaign."""
    with tempfile.TemporaryDirectory() as folder, start_blocking_portal() as portal:
        made = Recorder(Path(folder).resolve(), portal)
        try:
            yield made
        finally:
            portal.call(made.host.close)


@contextmanager
def trials() -> Generator[Trial]:
    """Try lines in a folder that they share."""
    with recorder() as place:

        def trial(rng: random.Random) -> str:
            line = draw(rng)
            parsed = parse_command(line, str(place.work), str(place.work))
            if parsed.opaque or not place.host.ability.writes:
                return ""
            wrong = compare(parsed, place.run(line))
            return f"{wrong}: {line!r}" if wrong else ""

        yield trial


def power(count: int, seed: int) -> tuple[int, int]:
    """Count the lines that the parser is certain of, and the programs that they run."""
    rng = random.Random(seed)  # noqa: S311 - the same lines for the same seed
    known = programs = 0
    with recorder() as place:
        for _ in range(count):
            line = draw(rng)
            if not parse_command(line, str(place.work), str(place.work)).opaque:
                known += 1
                programs += len(place.run(line))
    return known, programs
