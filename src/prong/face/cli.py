"""The command line.

Nothing heavy is imported before it is known to be needed: `prong --version` must answer at once,
and `prong -p` must have its request on the wire soon after.
"""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, cast

from prong.about import __version__
from prong.face.output import flush, show, tell
from prong.system.standard_stream import STDOUT, hold_streams, lead_nowhere, named, wait_input

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

_COMMANDS = {
    "sessions": "list the sessions of this folder, or of all",
    "verify": "check a session's journal, record by record",
    "merge": "bring the branches of children into the current one",
    "team": "teams of agents: list, show, send, tasks, kill, delete",
    "memory": "notes for later sessions of this folder: show, path, clear",
    "trust": "let this folder's own agents, hooks, servers and rules work",
}
_FILES = {
    "show": "print what was said in a session: as Markdown, HTML, lines, or an outline",
    "export": "write what was said in a session to a file",
    "import": "take over a session of Claude Code or Codex",
}
_ROSTER = {
    "agents": "list the types of agents, or show one and its tools: agents show NAME",
    "doctor": "say what is protected here and what is not, each with its remedy",
    "completion": "print what a shell completes commands and flags by: bash, zsh, fish",
    "plugin": "plug-ins: add, list, remove, update",
    "mcp": "MCP servers: list, get, add, remove, check; login and logout",
    "remote": "try a machine on which agents are to work: remote check NAME",
    "acp": "serve an editor: the Agent Client Protocol over standard input and output",
}
_ACCOUNTS = {
    "cost": "what a session cost: by agent, by fan-out, and the least it could have",
    "receipt": "what a session's forks shared, paid and saved",
    "explain": "where two requests part, and what that costs",
    "trace": "when its agents did what, as a file for Chrome's and Perfetto's viewers",
    "web": "show a session in a browser: shared bytes, agents, times, cost",
    "plan-fork": "what a fork, fresh agents and working alone would cost",
}
COMMANDS = {**_COMMANDS, **_FILES, **_ROSTER, **_ACCOUNTS}
"""All of them, each with what it is for."""
_PROGRAMS = {
    "acp": "acp.serve:run_acp",
    "agents": "type_list:run_agents",
    "doctor": "doctor:run_doctor",
    "mcp": "mcp_command:run_mcp",
    "merge": "merge_command:run_merge",
    "plugin": "plugin_command:run_plugin",
    "remote": "remote_command:run_remote",
    "team": "team_command:run_team",
    "trace": "trace_command:run_trace",
    "web": "web.web_command:run_web",
}
"""Commands that are programs of their own, and the functions that run them."""

_KEYS = (
    "keys come from variables such as ANTHROPIC_API_KEY, or from the setting apiKeyHelper "
    "(docs/models.md)"
)
_UPDATES = "what installed it updates it: pipx upgrade prong, uv tool upgrade prong, or pip"
_ELSEWHERE = {
    **dict.fromkeys(("login", "logout", "auth", "setup-token"), _KEYS),
    **dict.fromkeys(("update", "upgrade", "install"), _UPDATES),
    "config": "settings are files, such as ~/.prong/settings.json (docs/settings.md)",
    "resume": "'prong --resume' goes on with a session, and 'prong sessions' lists them",
    "exec": "'prong -p \"what to do\"' works without a terminal",
}
"""Commands of other programs for what is had in another way here, and how."""

_PATIENCE = 3.0
"""Seconds without standard input after which the user is told."""


def main(argv: list[str] | None = None) -> int:
    """Run the command line; gives the exit code."""
    words = sys.argv[1:] if argv is None else argv
    # First of all: no file that is opened from here on may get the number of a standard stream.
    missing = hold_streams()
    _tolerate()
    try:
        if STDOUT in missing:
            tell(
                "standard output is closed, so nothing was done; "
                "where nobody is to read it, use > /dev/null"
            )
            return 2
        return _guarded(lambda: _run(words))
    finally:
        _forget_unwritten()


def _tolerate() -> None:
    """Let no character that a terminal or file cannot hold end the program."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if hasattr(sys.stdin, "reconfigure"):
        cast("io.TextIOWrapper", sys.stdin).reconfigure(encoding="utf-8", errors="replace")


def _run(words: list[str]) -> int:
    if words in (["--version"], ["-V"]):
        show(f"prong {__version__}")
        return 0
    if words == ["worker", "--stdio"]:
        # Not for people: a session starts it for agents in a process of their own.
        from prong.session import run_worker

        return run_worker()
    if words[:1] == ["--member"] and len(words) == len(("--member", "TEAM/NAME")):
        # Not for people: a leader starts its members so, in panes.
        return _member(words[1])
    words = _spelled(words)
    folder, rest = _led(words)
    name = rest[0] if rest else ""
    if name in COMMANDS:
        if folder is not None:
            _enter(folder)
        return _command(name, rest[1:])
    _refuse_slip(name)
    from prong.face.garbage import held_off

    with held_off():
        return _work(words)


def _command(name: str, words: list[str]) -> int:
    if name in _PROGRAMS:
        from importlib import import_module

        home, _, own = _PROGRAMS[name].partition(":")
        return getattr(import_module(f"prong.face.{home}"), own)(words)
    if name == "completion":
        from prong.face.completion import run_completion

        return run_completion(words, COMMANDS)
    if name in _COMMANDS:
        from prong.face.inspect import run_command

        return run_command(name, words)
    if name in _FILES:
        from prong.face.session_file import run_session_file

        return run_session_file(name, words)
    from prong.face.spending import run_account

    return run_account(name, words)


def _spelled(words: list[str]) -> list[str]:
    """Give the options that people mean by two words which other programs have for commands."""
    match words:
        case ["help"]:
            return ["--help"]
        case ["help", name] if name in COMMANDS:
            return [name, "--help"]
        case ["version"]:
            return ["--version"]
        case _:
            return words


def _led(words: list[str]) -> tuple[str | None, list[str]]:
    """Take a folder that stands before a command off the words."""
    match words:
        case ["-C" | "--cwd", folder, *rest]:
            return folder, rest
        case [first, *rest] if first.startswith("--cwd="):
            return first.removeprefix("--cwd="), rest
        case [first, *rest] if first.startswith("-C") and first != "-C":
            return first.removeprefix("-C"), rest
        case _:
            return None, words


def _enter(folder: str) -> None:
    from prong.errors import BadInput

    try:
        os.chdir(folder)
    except (OSError, ValueError) as error:
        raise BadInput(f"-C {folder}: {getattr(error, 'strerror', None) or error}") from error


def _refuse_slip(word: str) -> None:
    """Take a word that is nearly a command for a slip, and not for something to tell a model."""
    if word.startswith("-") or not word.replace("-", "").isalpha():  # empty, too
        return
    from prong.errors import UnknownName, nearest

    told = _ELSEWHERE.get(word, "")
    if not told and (close := nearest(word, COMMANDS, cutoff=0.8)):
        told = f"did you mean 'prong {close}'?"
    if told:
        end = "" if told.endswith("?") else "."
        raise UnknownName(
            f"there is no command {word!r}; {told}{end} To say it to the model, write: "
            f"prong -- {word}"
        )


def _guarded(work: Callable[[], int]) -> int:
    try:
        return _written(work)
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        code = _explain(_bare(error))
        if code is None:
            raise
        return code


def _written(work: Callable[[], int]) -> int:
    """Do it, and let nobody hear that it is done before all of its output has left."""
    try:
        code = work()
    except SystemExit:
        # It only had something to print, such as its options.
        flush()
        raise
    flush()
    return code


def _is_adrift() -> bool:
    """Whether the folder in which the program was started is no more."""
    try:
        os.getcwd()  # noqa: PTH109 - what is asked is whether the system knows it
    except FileNotFoundError:
        return True
    return False


def _explain(error: BaseException) -> int | None:
    """Say what went wrong, and give the exit code; None for what only we can mend."""
    from prong.errors import ConfigError, ProngError, UsageError

    match error:
        case UsageError() | ConfigError():
            tell(str(error))
            return 2
        case ProngError():
            tell(str(error))
            return 1
        case BrokenPipeError():
            return 141
        case FileNotFoundError(filename=None) if _is_adrift():
            tell("the current folder was removed; go to another")
            return 2
        case OSError():
            tell(f"{error.filename or 'the system'}: {error.strerror or error}")
            return 1
        case _:
            return None


def _bare(error: BaseException) -> BaseException:
    """Take a failure out of the groups around it."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    group = cast("BaseExceptionGroup[BaseException]", error)
    return _bare(next(iter(group.exceptions))) if len(group.exceptions) == 1 else group


def _forget_unwritten() -> None:
    """Let what could not be written not fail a second time when the interpreter ends."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            lead_nowhere(stream.fileno())


def _work(words: list[str]) -> int:
    import anyio

    from prong.errors import BadInput
    from prong.face.flag import check, options_of, parse, text_of

    args = parse(words, COMMANDS)
    options = options_of(args)
    check(args)
    if args.print or args.input_format == "stream-json":
        from prong.face import headless

        prompt = None if args.input_format == "stream-json" else _prompt(args)
        resumes = args.resume is not None or args.continue_last
        if prompt is not None and not prompt.strip() and not resumes:
            raise BadInput("there is no prompt: give it as an argument or on standard input")
        return anyio.run(
            lambda: headless.run(
                options,
                prompt,
                output=args.output_format,
                reads=args.input_format,
                detail="debug" if args.debug else "verbose" if args.verbose else "",
            )
        )
    from prong.face import interactive

    wanted = "full" if args.full else "line" if args.plain else ""
    first = "/resume" if args.resume == "" else text_of(args.prompt or "")
    return anyio.run(lambda: interactive.run(options, first, wanted))


def _member(name: str) -> int:
    """Be a member of a team, in a pane that its leader has opened."""
    import anyio

    from prong.face import interactive
    from prong.session import take_start

    start = take_start(name)
    os.environ.update(start.env)
    return anyio.run(lambda: interactive.run(start.options, start.brief, ""))


def _prompt(args: argparse.Namespace) -> str:
    """Join the argument and what comes on standard input."""
    from prong.errors import BadInput
    from prong.face.flag import STDIN_PROMPT, text_of

    wanted = args.prompt == STDIN_PROMPT
    parts = [text_of(args.prompt)] if args.prompt and not wanted else []
    if wanted or not sys.stdin.isatty():
        _say_if_waiting()
        with named("standard input"):
            piped = sys.stdin.buffer.read().decode(errors="replace")
        parts += [piped] if piped.strip() else []
    if wanted and not parts:
        raise BadInput("there is no prompt: '-' is to read it, and nothing came on standard input")
    return "\n\n".join(parts)


def _say_if_waiting() -> None:
    """Say what is being waited for when standard input is open and nothing comes."""
    if sys.stdin.isatty():
        tell("the prompt is what you write now, up to the end of input (Ctrl+D; Windows: Ctrl+Z)")
    elif not wait_input(_PATIENCE):
        tell("waiting for standard input; without it, use < /dev/null")
