"""Hooks as files declare them: commands, addresses and models that may block what they are told of.

A hook is honoured in full or not at all. What a file says of one that guards something and that
cannot be honoured is fatal: to go on without it, or with half of it, would be to go on unguarded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias, cast, get_args

import msgspec

from prong.config.document import Document, PathStep
from prong.config.hook_way import (
    WAYS,
    HookFault,
    HookPost,
    HookQuestion,
    HookTool,
    HookWay,
    read_way,
    way_fault,
)
from prong.errors import ConfigError
from prong.foreign_number import is_number
from prong.system.bash_program import bash_program
from prong.tools.rule import BadRule, Rule, parse_rule

EventName: TypeAlias = Literal[
    "PreToolUse",
    "PermissionRequest",
    "PostToolUse",
    "PostToolUseFailure",
    "UserPromptSubmit",
    "SessionStart",
    "SessionEnd",
    "Stop",
    "SubagentStart",
    "SubagentStop",
    "PreCompact",
    "PreModelSwitch",
    "PostModelSwitch",
    "WorktreeCreate",
    "WorktreeRemove",
    "Notification",
]
EVENTS: tuple[str, ...] = get_args(EventName)
GATES = frozenset(
    {"PreToolUse", "UserPromptSubmit", "SubagentStart", "WorktreeCreate", "PreModelSwitch"}
)
"""Events whose hooks let something begin: without their answer it does not."""
ENDS = frozenset({"Stop", "SubagentStop"})
"""Events whose hooks may keep somebody from ending: to block is to go on."""
GUARDS = GATES | ENDS | {"PermissionRequest", "PreCompact"}
"""Events whose hooks may forbid something."""
CALLS = frozenset({"PreToolUse", "PermissionRequest", "PostToolUse", "PostToolUseFailure"})
"""Events of a call, which a rule can choose by what the call does."""

NAMED = frozenset(EVENTS) - {"UserPromptSubmit", "Stop"}
"""Events that have a name to be matched: a tool's, a type's, a model's, how a session begins."""

SECONDS = 600.0
_SECONDS = {"UserPromptSubmit": 30.0, "PreModelSwitch": 30.0, "PostModelSwitch": 30.0}
_SECONDS["SessionEnd"] = 10.0
"""How long a command may take that does not say so itself: somebody waits there."""
_LAST_SECONDS = 60.0
"""How long one may take at most when the session ends."""

_KINDS = "command, http, mcp_tool or prompt"
_JUDGING = 30.0
"""How long a model may take that is asked."""

_DEFAULTS: dict[str, tuple[object, ...]] = {
    "type": ("command",),
    "shell": ("bash",),
    "async": (False, True),
    "asyncRewake": (False, True),
    "once": (False,),
}
"""Keys of a hook of which only these values can be honoured."""
_OTHER_KEYS = frozenset({"command", "args", "timeout", "statusMessage", "description", "if"})
_THEIR_KEYS = frozenset({"url", "headers", "allowedEnvVars", "prompt", "model"}) | frozenset(
    {"server", "tool", "input", "continueOnBlock"}
)
"""Keys that mean something to another program; any others in its files mean nothing there, too."""
_OLD_NAMES = {"Agent": "Task"}
"""Tools that older matchers know by another name."""
_PLACES = ("CLAUDE_PROJECT_DIR", "PRONG_PROJECT_DIR")
_NO_PLACES = ("${CLAUDE_PLUGIN_ROOT}", "${CLAUDE_PLUGIN_DATA}")
_INTERPRETER = r"(?:ba|da|z|k|a)?sh|(?P<python>python[0-9.]*)|(?P<other>node|perl|ruby|php|lua)"


def name_matches(event: str, matcher: str, name: str) -> bool:
    """Say whether a matcher lets a name through; where there is no name, it chooses nothing.

    Words with `|` or `,` between them are names; with any other sign it is a regular expression,
    which may be found anywhere in the name.
    """
    if matcher in ("", "*") or event not in NAMED:
        return True
    names = {name, _OLD_NAMES.get(name, name)} if event in CALLS else {name}
    if re.fullmatch(r"[\w\- ,|]+", matcher, re.ASCII):
        return not names.isdisjoint(word.strip() for word in re.split(r"[|,]", matcher))
    return any(re.search(matcher, one) is not None for one in names)


class Hook(msgspec.Struct, frozen=True):
    """One thing that is done on one event: a command, or what stands in its place."""

    event: str
    matcher: str
    """Names, or a regular expression for one, see `name_matches`; empty for all."""
    command: str
    """A command line for the shell or, with arguments, a program."""
    seconds: float
    path: str
    """The file it was written in."""
    args: tuple[str, ...] | None = None
    """The program's arguments, which no shell sees; None if there is a shell."""
    rule: Rule | None = None
    """What a call must do for the hook to be run; None for whatever it does."""
    waits: bool = True
    """Whether what it is told of waits for it; one that does not can forbid nothing."""
    wakes: bool = False
    """Whether an agent is told, and woken, if such a hook objects."""
    way: HookWay | None = None
    """What is told or asked in place of a command."""

    def matches(self, event: str, name: str) -> bool:
        """Say whether this hook is for the event."""
        return event == self.event and name_matches(event, self.matcher, name)

    def argv(self, root: str) -> list[str]:
        """Give the program and its arguments; a shell finds the project in its environment.

        Raises FileNotFoundError if there is no shell.
        """
        if self.args is None:
            return [bash_program(), "-c", self.command]
        words = [self.command, *self.args]
        for name in _PLACES:
            words = [word.replace(f"${{{name}}}", root) for word in words]
        return words

    @property
    def line(self) -> str:
        """Show what is run, told or asked."""
        match self.way:
            case HookPost(url=url):
                return f"POST {url}"
            case HookQuestion(prompt=prompt, model=model):
                return f"a question to {model or 'a small model'}: {' '.join(prompt.split())}"
            case HookTool(server=server, tool=tool):
                return f"the tool {tool} of the MCP server {server}"
            case None:
                pass
        if self.args is None:
            return self.command
        from shlex import join

        return join([self.command, *self.args])

    @property
    def terms(self) -> str:
        """Show when it is run beside what its matcher says, and how."""
        beside = "" if self.waits else "async, wakes" if self.wakes else "async"
        told = (f"if {self.rule}" if self.rule is not None else "", beside)
        return ", ".join(one for one in told if one)


class Declared(msgspec.Struct, frozen=True):
    """The hooks of a file, and what is wrong with the others."""

    hooks: tuple[Hook, ...] = ()
    problems: tuple[ConfigError, ...] = ()
    fatal: tuple[ConfigError, ...] = ()
    """Those problems that leave something unguarded."""
    warnings: tuple[str, ...] = ()
    """What is left out without a fault: events of another program."""


class _HookReader:
    """Hooks in the making."""

    def __init__(self, document: Document, *, foreign: bool) -> None:
        self._document = document
        self._foreign = foreign
        self.idle: list[str] = []
        """Keys of another program's file that it does not know itself."""
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
            entry = self._meant(entry) if self._foreign else entry
            if (found := _fault(event, entry)) is not None:
                why, key = found
                steps = ("hooks", position, *([key] if key else []))
                self.wrong(why, event, event, number, *steps)
            else:
                self.hooks.append(_hook(self._document.path, event, matcher, entry))

    def _meant(self, entry: dict[str, object]) -> dict[str, object]:
        """Leave out what has no effect in the program whose file it is."""
        known = (_OTHER_KEYS | _THEIR_KEYS | _DEFAULTS.keys()) - {"once"}
        self.idle += [key for key in entry if key not in known and not key.startswith(("_", "/"))]
        return {key: value for key, value in entry.items() if key in known}


def parse_hooks(document: Document, *, foreign: bool) -> Declared:
    """Read the `hooks` of a settings file; what is wrong is named and the rest is kept.

    A foreign file may use events that only its own program has.
    """
    value = document.value.get("hooks")
    if not isinstance(value, dict):
        problem = document.problem("'hooks' must be an object of events", "hooks")
        return Declared(problems=(problem,), fatal=(problem,))
    reading = _HookReader(document, foreign=foreign)
    elsewhere: list[str] = []
    for event, groups in cast("dict[str, object]", value).items():
        if event not in EVENTS:
            meant = _meant(event)
            if foreign and (event in _ELSEWHERE or not meant):
                elsewhere.append(event)
            else:
                hint = f"; did you mean {meant}?" if meant and meant != event else ""
                why = f"unknown hook event {event!r}{hint}; known are {', '.join(EVENTS)}"
                reading.wrong(why, meant, event)
        elif not isinstance(groups, list):
            reading.wrong(f"hooks of {event} must be a list", event, event)
        else:
            for number, group in enumerate(cast("list[object]", groups)):
                reading.group(event, number, group)
    never = f"hooks of {', '.join(elsewhere)}: that never happens here" if elsewhere else ""
    idle = f"keys of hooks without effect: {', '.join(dict.fromkeys(reading.idle))}"
    left = [never, idle if reading.idle else ""]
    warnings = tuple(f"{document.path}: {what}" for what in left if what)
    return Declared(tuple(reading.hooks), tuple(reading.problems), tuple(reading.fatal), warnings)


_ELSEWHERE = frozenset(
    {"PermissionDenied", "PostCompact", "PostToolBatch", "StopFailure", "UserPromptExpansion"}
)
"""Events of another program whose names are like some of ours."""


def _meant(event: str) -> str:
    """Name the guard that a wrong event was to be; empty if it is like none."""
    from difflib import get_close_matches

    names = {name.lower(): name for name in sorted(GUARDS)}
    close = get_close_matches(event.lower(), names, n=1, cutoff=0.85)
    return names[close[0]] if close else ""


def _hook(path: str, event: str, matcher: str, entry: dict[str, object]) -> Hook:
    args = cast("list[str] | None", entry.get("args"))
    way = read_way(entry)
    usual = _JUDGING if isinstance(way, HookQuestion) else _SECONDS.get(event, SECONDS)
    seconds = float(cast("float", entry.get("timeout", usual)))
    rule = _rule(entry.get("if"))
    assert not isinstance(rule, BadRule), "it was looked over"
    return Hook(
        event,
        matcher,
        "" if way is not None else str(entry["command"]),
        min(seconds, _LAST_SECONDS) if event == "SessionEnd" else seconds,
        path,
        None if args is None else tuple(args),
        rule,
        waits=not (entry.get("async") or entry.get("asyncRewake")),
        wakes=entry.get("asyncRewake") is True,
        way=way,
    )


def _rule(text: object) -> Rule | BadRule | None:
    """Read what a hook's `if` says: as a rule that forbids, it takes in what it may mean."""
    if text is None:
        return None
    if not isinstance(text, str):
        return BadRule(repr(text), 0, "it must be a text such as Bash(git *)")
    return parse_rule(text, effect="deny", source="session")


def _fault(event: str, entry: dict[str, object]) -> HookFault | None:
    """Say why a hook cannot be honoured as it is written, and which key says so."""
    if entry.get("type") in WAYS:
        return way_fault(event, entry) or _seconds_fault(entry) or _rule_fault(event, entry)
    checks: tuple[Callable[[dict[str, object]], HookFault | None], ...] = (
        _key_fault,
        _command_fault,
        _seconds_fault,
        _program_fault,
    )
    found = next((found for check in checks if (found := check(entry)) is not None), None)
    return found or _rule_fault(event, entry)


def _rule_fault(event: str, entry: dict[str, object]) -> HookFault | None:
    """Find a choice by what a call does that chooses nothing."""
    rule = _rule(entry.get("if"))
    if isinstance(rule, BadRule):
        return f"'if' is not a rule: {rule.why}", "if"
    if rule is not None and event not in CALLS:
        return f"'if' chooses calls, and {event} is not of one, so it would never run", "if"
    return None


def _key_fault(entry: dict[str, object]) -> HookFault | None:
    if (kind := entry.get("type", "command")) != "command":
        return f"hooks of type {kind!r} are not supported; use {_KINDS}", "type"
    for key, value in entry.items():
        if key in _OTHER_KEYS or value in _DEFAULTS.get(key, ()):
            continue
        return f"{key!r}: {msgspec.json.encode(value).decode()} of a hook is not supported", key
    return None


def _command_fault(entry: dict[str, object]) -> HookFault | None:
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


def _seconds_fault(entry: dict[str, object]) -> HookFault | None:
    seconds = entry.get("timeout", 60)
    if not is_number(seconds) or seconds <= 0:
        return "'timeout' must be a number of seconds above 0", "timeout"
    return None


def _program_fault(entry: dict[str, object]) -> HookFault | None:
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
