"""The programs that terminals are steered by: run for a short time, their failures in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from prong.errors import NotInstalled, PaneFailed
from prong.host.host import Finished, Host

_LIMIT = 1 << 20
"""Bytes of an answer that are read."""
_WORDS = 400
"""Characters of a program's complaint that are passed on."""
_NOT_FOUND = 127


class PaneProgram(msgspec.Struct, frozen=True, kw_only=True):
    """A program by which panes are opened and closed."""

    host: Host
    argv: tuple[str, ...]
    """The program, and what stands before every call."""
    name: str
    """What users call it."""
    remedy: str
    """What to do if it is not there."""
    seconds: float
    """How long it may take to answer."""

    async def ask(self, *words: str, stdin: bytes = b"") -> Finished:
        """Run it, whatever comes of it.

        Raises NotInstalled if it is not there, PaneFailed if it does not answer in time.
        """
        try:
            ended = await self.host.run(
                (*self.argv, *words), stdin=stdin, seconds=self.seconds, limit=_LIMIT
            )
        except (FileNotFoundError, PermissionError) as error:
            raise NotInstalled(f"{self.name} is not installed; {self.remedy}") from error
        except OSError as error:
            raise PaneFailed(f"{self.name} could not be started: {error}") from error
        if ended.code == _NOT_FOUND and self.argv[0] == "env":
            raise NotInstalled(f"{self.name} is not installed; {self.remedy}")
        if ended.timed_out:
            verb = _verb(words)
            raise PaneFailed(
                f"{self.name}{verb} did not answer within {self.seconds:g} s; it was ended"
            )
        if ended.cut:
            raise PaneFailed(f"{self.name}{_verb(words)} answered with more than {_LIMIT} bytes")
        return ended

    async def run(self, *words: str, stdin: bytes = b"") -> str:
        """Run it and give what it printed.

        Raises PaneFailed with its own words if it fails, and what `ask` raises.
        """
        ended = await self.ask(*words, stdin=stdin)
        if ended.code != 0:
            said = complaint(ended)
            raise PaneFailed(f"{self.name}{_verb(words)} failed: {said}", detail=said)
        return ended.output.decode(errors="replace").strip()


def _verb(words: Sequence[str]) -> str:
    return f" {words[0]}" if words and not words[0].startswith("-") else ""


def complaint(ended: Finished) -> str:
    """Give what a program said when it failed, in one line."""
    said = ended.errors.decode(errors="replace") or ended.output.decode(errors="replace")
    shown = " ".join("".join(c if c.isprintable() else " " for c in said).split())
    how = f"code {ended.code}" if ended.code >= 0 else f"killed by signal {-ended.code}"
    return shown[:_WORDS] or how


def with_variables(argv: Sequence[str], env: Mapping[str, str]) -> tuple[str, ...]:
    """Give a program its variables by its arguments, where a terminal has no other way."""
    if not env:
        return tuple(argv)
    return ("env", *(f"{name}={value}" for name, value in env.items()), *as_words(argv))


def as_words(argv: Sequence[str]) -> tuple[str, ...]:
    """Give a program of a single word, or one that looks like a variable, as several words.

    A terminal may take a single word for a line of a shell, `env` one with a `=` for a variable.
    """
    if len(argv) == 1 or "=" in argv[0]:
        return ("sh", "-c", 'exec "$0" "$@"', *argv)
    return tuple(argv)
