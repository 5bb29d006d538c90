"""Hooks as files declare them: commands that are told of events and may block them.

A hook is honoured in full or not at all. What a file says of one that guards something and that
cannot be honoured is fatal: to go on without it, or with half of it, would be to go on unguarded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias, cast, get_args

import msgspec

from prong.config.document import Document, PathStep
from prong.errors import ConfigError

EventName: TypeAlias = Literal[
    "PreToolUse",
    "PermissionRequest",
    "PostToolUse",
    "UserPromptSubmit",
    "SessionStart",
    "Stop",
    "SubagentStart",
    "SubagentStop",
    "PreCompact",
    "WorktreeCreate",
    "WorktreeRemove",
    "Notification",
]
EVENTS: tuple[str, ...] = get_args(EventName)
GATES = frozenset({"PreToolUse", "UserPromptSubmit", "SubagentStart", "WorktreeCreate"})
"""Events whose hooks let something begin: without their answer it does not."""
ENDS = frozenset({"Stop", "SubagentStop"})
"""Events whose hooks may keep somebody from ending: to block is to go on."""
GUARDS = GATES | ENDS | {"PermissionRequest"}
"""Events whose hooks may forbid something."""

NAMED = frozenset(EVENTS) - {"UserPromptSubmit", "Stop", "PreCompact", "Notification"}
"""Events that have a name to be matched: a tool's, a type's, how a session begins."""

_DEFAULTS: dict[str, tuple[object, ...]] = {
    "type": ("command",),
    "shell": ("bash",),
    "async": (False,),
    "asyncRewake": (False,),
    "once": (False,),
}
"""Keys of a hook of which only the value that Prong works by can be honoured."""
_OTHER_KEYS = frozenset({"command", "args", "timeout", "statusMessage", "description"})
_PLACES = ("CLAUDE_PROJECT_DIR", "PRONG_PROJECT_DIR")
_NO_PLACES = ("${CLAUDE_PLUGIN_ROOT}", "${CLAUDE_PLUGIN_DATA}")
_INTERPRETER = r"(?:ba|da|z|k|a)?sh|(?P<python>python[0-9.]*)|(?P<other>node|perl|ruby|php|lua)"


def name_matches(event: str, matcher: str, name: str) -> bool:
    """Say whether a matcher lets a name through; where there is no name, it chooses nothing."""
    if matcher in ("", "*") or event not in NAMED:
        return True
    return re.fullmatch(matcher, name) is not None


class Hook(msgspec.Struct, frozen=True):
    """One command that is run on one event."""

    event: str
    matcher: str
    """A regular expression that must match the whole of a name, if there is one; empty for all."""
    command: str
    """A command line for the shell or, with arguments, a program."""
    seconds: float
    path: str
    """The file it was written in."""
    args: tuple[str, ...] | None = None
    """The program's arguments, which no shell sees; None if there is a shell."""

    def matches(self, event: str, name: str) -> bool:
        """Say whether this hook is for the event."""
        return event == self.event and name_matches(event, self.matcher, name)

    def argv(self, root: str) -> list[str]:
        """Give the program and its arguments; a shell finds the project in its environment."""
        if self.args is None:
            return ["bash", "-c", self.command]
        words = [self.command, *self.args]
        for name in _PLACES:
            words = [word.replace(f"${{{name}}}", root) for word in words]
        return words

    @property
    def line(self) -> str:
        """Show what is run."""
        if self.args is None:
            return self.command
        from shlex import join

        return join([self.command, *self.args])


class Declared(msgspec.Struct, frozen=True):
    """The hooks of a file, and what is wrong with the others."""

    hooks: tuple[Hook, ...] = ()
    problems: tuple[ConfigError, ...] = ()
    fatal: tuple[ConfigError, ...] = ()
    """Those problems that leave something unguarded."""


class _HookReader:
    """Hooks in the making."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self.hooks: list[Hook] = []
        self.problems: list[ConfigError] = []
        self.fatal: list[ConfigError] = []

    def wrong(self, why: str, event: str, *steps: PathStep) -> None:
        """Complain about something below `hooks`."""
        guards = event in GUARDS
        tail = "; it would guard nothing, so correct it or take it out" if guards else "; left out"
        problem = self._document.problem(why + tail, "hooks", *steps)
        self.problems.append(problem)
        if guards:
            self.fatal.append(problem)

    def group(self, event: str, number: int, group: object) -> None:
        """Read the hooks that share a matcher."""
        parts = cast("dict[str, object]", group) if isinstance(group, dict) else {}
        matcher, commands = parts.get("matcher", ""), parts.get("hooks")
        if not isinstance(commands, list) or not isinstance(matcher, str):
            why = 'a hook entry must be {"matcher": "...", "hooks": [...]}'
            self.wrong(why, event, event, number)
            return
        try:
            re.compile("" if matcher == "*" else matcher)
        except re.error as error:
            why = f"matcher {matcher!r} is not a regular expression: {error}"
            self.wrong(why, event, event, number, "matcher")
            return
        for position, item in enumerate(cast("list[object]", commands)):
            entry = cast("dict[str, object]", item) if isinstance(item, dict) else {}
            if (found := _fault(entry)) is not None:
                why, key = found
                steps = ("hooks", position, *([key] if key else []))
                self.wrong(why, event, event, number, *steps)
            else:
                self.hooks.append(_hook(self._document.path, event, matcher, entry))


def parse_hooks(document: Document, *, foreign: bool) -> Declared:
    """Read the `hooks` of a settings file; what is wrong is named and the rest is kept.

    A foreign file may use events that only its own program has.
    """
    value = document.value.get("hooks")
    if not isinstance(value, dict):
        problem = document.problem("'hooks' must be an object of events", "hooks")
        return Declared(problems=(problem,), fatal=(problem,))
    reading = _HookReader(document)
    for event, groups in cast("dict[str, object]", value).items():
        if event not in EVENTS:
            meant = _meant(event)
            if meant or not foreign:
                hint = f"; did you mean {meant}?" if meant and meant != event else ""
                why = f"unknown hook event {event!r}{hint}; known are {', '.join(EVENTS)}"
                reading.wrong(why, meant, event)
        elif not isinstance(groups, list):
            reading.wrong(f"hooks of {event} must be a list", event, event)
        else:
            for number, group in enumerate(cast("list[object]", groups)):
                reading.group(event, number, group)
    return Declared(tuple(reading.hooks), tuple(reading.problems), tuple(reading.fatal))


def _meant(event: str) -> str:
    """Name the guard that a wrong event was to be; empty if it is like none."""
    from difflib import get_close_matches

    names = {name.lower(): name for name in sorted(GUARDS)}
    close = get_close_matches(event.lower(), names, n=1, cutoff=0.85)
    return names[close[0]] if close else ""


def _hook(path: str, event: str, matcher: str, entry: dict[str, object]) -> Hook:
    args = cast("list[str] | None", entry.get("args"))
    return Hook(
        event,
        matcher,
        str(entry["command"]),
        float(cast("float", entry.get("timeout", 60))),
        path,
        None if args is None else tuple(args),
    )


def _fault(entry: dict[str, object]) -> tuple[str, str] | None:
    """Say why a hook cannot be honoured as it is written, and which key says so."""
    checks: tuple[Callable[[dict[str, object]], tuple[str, str] | None], ...] = (
        _key_fault,
        _command_fault,
        _seconds_fault,
        _program_fault,
    )
    return next((found for check in checks if (found := check(entry)) is not None), None)


def _key_fault(entry: dict[str, object]) -> tuple[str, str] | None:
    if (kind := entry.get("type", "command")) != "command":
        return f"hooks of type {kind!r} are not supported; use 'command'", "type"
    for key, value in entry.items():
        if key in _OTHER_KEYS or value in _DEFAULTS.get(key, ()):
            continue
        return f"{key!r}: {msgspec.json.encode(value).decode()} of a hook is not supported", key
    return None


def _command_fault(entry: dict[str, object]) -> tuple[str, str] | None:
    command, args = entry.get("command"), entry.get("args")
    if not isinstance(command, str) or not command.strip():
        return "a hook must have a 'command'", ""
    if args is None:
        return ("'args' must be a list of texts", "args") if "args" in entry else None
    words = cast("list[object]", args) if isinstance(args, list) else [None]
    if not all(isinstance(word, str) for word in words):
        return "'args' must be a list of texts", "args"
    unknown = [name for name in _NO_PLACES for word in (command, *words) if name in str(word)]
    return (f"{unknown[0]} is of a plug-in, and there are none here", "") if unknown else None


def _seconds_fault(entry: dict[str, object]) -> tuple[str, str] | None:
    seconds = entry.get("timeout", 60)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds <= 0:
        return "'timeout' must be a number of seconds above 0", "timeout"
    return None


def _program_fault(entry: dict[str, object]) -> tuple[str, str] | None:
    """Find an interpreter without a program: it would run the event it is told of.

    In an event stands text that a model chose.
    """
    command, args = str(entry["command"]), cast("list[str] | None", entry.get("args"))
    from shlex import split

    try:
        words = [command, *args] if args is not None else split(command)
    except ValueError:
        return None
    if any(mark in command for mark in "|&;<>\n") and args is None:
        return None
    while words and words[0] in ("exec", "env"):
        words = words[1:]
    if words and _reads_program(words[0].rpartition("/")[2], words[1:]):
        why = f"{words[0]!r} is given no program and would run what it is told as one"
        return f"{why}; name a script, or put it into 'args'", "command"
    return None


def _reads_program(name: str, args: Sequence[str]) -> bool:
    found = re.fullmatch(_INTERPRETER, name)
    if found is None:
        return False
    letters = "cmVh" if found["python"] else "eEprvh" if found["other"] else "c"
    for arg in args:
        if not arg.startswith("-") or arg == "-":
            return arg in ("-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")
        if arg.startswith("--"):
            if arg.partition("=")[0] in ("--eval", "--print", "--version", "--help", "--run"):
                return False
        elif any(letter in letters for letter in arg[1:]):
            return False
    return True
