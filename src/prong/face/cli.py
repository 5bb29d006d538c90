"""The command line.

Nothing heavy is imported before it is known to be needed: `prong --version` must answer at once,
and `prong -p` must have its request on the wire soon after.
"""

from __future__ import annotations

import io
import os
import re
import sys
from typing import TYPE_CHECKING, Any, cast

from prong.about import __version__
from prong.face.output import show, tell

if TYPE_CHECKING:
    import argparse

    from prong.session import Options

_COMMANDS = {
    "sessions": "list the sessions of this folder, or of all",
    "verify": "check a session's journal, record by record",
    "show": "draw a session's conversation as the model sees it",
    "merge": "bring the branches of children into the current one",
    "team": "teams of agents: list, show, send, tasks, kill",
    "memory": "notes for later sessions of this folder: show, path, clear",
    "trust": "let this folder's own agents, hooks, servers and rules work",
}
_ROSTER = {
    "agents": "list the types of agents, or show one and its tools: agents show NAME",
    "doctor": "say what is protected here and what is not, each with its remedy",
    "remote": "try a machine on which agents are to work: remote check NAME",
}
_ACCOUNTS = {
    "cost": "what a session cost: by agent, by fan-out, and the least it could have",
    "receipt": "what a session's forks shared, paid and saved",
    "explain": "where two requests part, and what that costs",
    "plan-fork": "what a fork, fresh agents and working alone would cost",
}

_EXITS = """exit codes:
  0    done; that the last reply had no text is said on standard error
  1    the provider, the journal or Prong itself failed, or no answer of the JSON
       schema came
  2    the command line or a file of settings is wrong
  3    the limit of turns was reached
  4    the budget is spent
  5    the model refused, or a hook ended the turn
  6    the reply was cut off at the output limit
  7    the model only repeated the same calls
  130  interrupted
"""


_RULE_OPTIONS = ("--allowed-tools", "--allowedTools", "--disallowed-tools", "--disallowedTools")
_RULE = re.compile(
    r"mcp__\S+|[A-Z][A-Za-z]+\(.*\)|(?:[A-Z][a-z]+){2,}|Agent|Bash|Edit|Glob|Grep|Read|Skill|Write"
)
"""What looks like a rule or a tool's name."""
_PATIENCE = 3.0
"""Seconds without standard input after which the user is told."""


def main(argv: list[str] | None = None) -> int:
    """Run the command line; gives the exit code."""
    words = sys.argv[1:] if argv is None else argv
    if words in (["--version"], ["-V"]):
        show(f"prong {__version__}")
        return 0
    _tolerate()
    return _guarded(lambda: _run(words))


def _tolerate() -> None:
    """Let no character that a terminal or file cannot hold end the program."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if hasattr(sys.stdin, "reconfigure"):
        cast("io.TextIOWrapper", sys.stdin).reconfigure(encoding="utf-8", errors="replace")


def _text(word: str) -> str:
    """Read a word as the UTF-8 that it is, whatever the locale made of it."""
    try:
        return os.fsencode(word).decode(errors="replace")
    except UnicodeEncodeError:
        return word


def _run(words: list[str]) -> int:
    if words == ["worker", "--stdio"]:
        # Not for people: a session starts it for an agent in a process of its own.
        from prong.session import run_worker

        return run_worker()
    if words[:1] == ["--member"] and len(words) == len(("--member", "TEAM/NAME")):
        # Not for people: a leader starts its members so, in panes.
        return _member(words[1])
    folder, rest = _led(words)
    name = rest[0] if rest else ""
    if name in _COMMANDS | _ROSTER | _ACCOUNTS:
        if folder is not None:
            _enter(folder)
        return _command(name, rest[1:])
    _refuse_slip(name)
    from prong.face.garbage import held_off

    with held_off():
        return _work(_parse(words))


def _command(name: str, words: list[str]) -> int:
    if name == "merge":
        from prong.face.merge_command import run_merge

        return run_merge(words)
    if name == "team":
        from prong.face.team_command import run_team

        return run_team(words)
    if name in _COMMANDS:
        from prong.face.inspect import run_command

        return run_command(name, words)
    if name == "doctor":
        from prong.face.doctor import run_doctor

        return run_doctor(words)
    if name == "remote":
        from prong.face.remote_command import run_remote

        return run_remote(words)
    if name in _ROSTER:
        from prong.face.type_list import run_agents

        return run_agents(words)
    from prong.face.spending import run_account

    return run_account(name, words)


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
    from difflib import get_close_matches

    from prong.errors import UnknownName

    if close := get_close_matches(word, _COMMANDS | _ROSTER | _ACCOUNTS, n=1, cutoff=0.8):
        raise UnknownName(
            f"there is no command {word!r}; did you mean 'prong {close[0]}'? To say it to the "
            f"model, write: prong -- {word}"
        )


def _parse(words: list[str]) -> argparse.Namespace:
    """Read the options and the prompt; what is wrong is named by the word that is."""
    parser = _parser()
    args, extra = parser.parse_known_args(words)
    options = [word.partition("=")[0] for word in extra if word.startswith("-") and word != "-"]
    if options:
        from difflib import get_close_matches

        known = re.findall(r"(?<!\S)--?\w[\w-]*", parser.format_help())
        close = get_close_matches(options[0], known, n=1)
        hint = f"; did you mean {close[0]}?" if close else "; --help lists them"
        parser.error(f"there is no option {options[0]}{hint}")
    stray = extra[0] if extra else _stray_rule(words, args.prompt)
    if stray is not None:
        parser.error(
            f"{stray!r} is one word too many: put the prompt into quotes, and rules and names "
            "behind one option, with commas between them"
        )
    return args


def _stray_rule(words: list[str], prompt: str | None) -> str | None:
    """Find a rule that was to follow another behind one option and would be taken for the prompt.

    A rule that forbids something must not get lost so.
    """
    if prompt is None or not _RULE.fullmatch(prompt):
        return None
    for place, word in enumerate(words[:-2]):
        if word in _RULE_OPTIONS and words[place + 2] == prompt:
            return prompt
    return None


def _guarded(work: Any) -> int:
    from prong.errors import ConfigError, ProngError, UsageError

    try:
        return work()
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        match _bare(error):
            case UsageError() | ConfigError() as wrong:
                tell(str(wrong))
                return 2
            case ProngError() as failed:
                tell(str(failed))
                return 1
            case BrokenPipeError():
                _forget_stdout()
                return 141
            case OSError() as failed:
                tell(f"{failed.filename or 'the system'}: {failed.strerror or failed}")
                return 1
            case _:
                raise


def _bare(error: BaseException) -> BaseException:
    """Take a failure out of the groups around it."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    group = cast("BaseExceptionGroup[BaseException]", error)
    return _bare(next(iter(group.exceptions))) if len(group.exceptions) == 1 else group


def _forget_stdout() -> None:
    """Nobody reads any more: what is still held must not fail a second time at the exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _work(args: argparse.Namespace) -> int:
    import anyio

    from prong.errors import BadInput

    options = _options(args)
    _check(args)
    if args.print or args.input_format == "stream-json":
        from prong.face import headless

        prompt = None if args.input_format == "stream-json" else _prompt(args)
        resumes = args.resume is not None or args.continue_last
        if prompt is not None and not prompt.strip() and not resumes:
            raise BadInput("there is no prompt: give it as an argument or on standard input")
        return anyio.run(
            lambda: headless.run(
                options, prompt, output=args.output_format, reads=args.input_format
            )
        )
    from prong.face import interactive

    wanted = "full" if args.full else "line" if args.plain else ""
    first = "/resume" if args.resume == "" else _text(args.prompt or "")
    return anyio.run(lambda: interactive.run(options, first, wanted))


def _member(name: str) -> int:
    """Be a member of a team, in a pane that its leader has opened."""
    import anyio

    from prong.face import interactive
    from prong.session import take_start

    start = take_start(name)
    os.environ.update(start.env)
    return anyio.run(lambda: interactive.run(start.options, start.brief, ""))


def _check(args: argparse.Namespace) -> None:
    """Refuse flags that would be ignored."""
    from prong.errors import BadInput

    streams = args.input_format == "stream-json"
    if streams and args.prompt:
        raise BadInput("with --input-format stream-json the prompt comes on standard input")
    if args.resume == "" and (args.print or streams or args.prompt or args.fork_session):
        raise BadInput(
            "--resume alone lets you choose in the terminal; here it needs the id or name of a "
            "session: 'prong sessions' lists them"
        )
    if (args.plain or args.full) and (args.print or streams):
        flag = "--plain" if args.plain else "--full"
        raise BadInput(f"{flag} talks in a terminal and -p works without one; give one of them")
    if args.plain and args.full:
        raise BadInput("--plain and --full are two ways to talk; give one of them")
    for flag, given in (
        ("--output-format", args.output_format != "text"),
        ("--json-schema", args.json_schema is not None),
    ):
        if given and not (args.print or streams):
            raise BadInput(f"{flag} is for runs without a terminal; add -p")


def _prompt(args: argparse.Namespace) -> str:
    """Join the argument and what comes on standard input."""
    parts = [_text(args.prompt)] if args.prompt else []
    if not sys.stdin.isatty():
        _say_if_waiting()
        piped = sys.stdin.buffer.read().decode(errors="replace")
        parts += [piped] if piped.strip() else []
    return "\n\n".join(parts)


def _say_if_waiting() -> None:
    """Say what is being waited for when standard input is open and nothing comes."""
    import select

    if not select.select([sys.stdin], [], [], _PATIENCE)[0]:
        tell("waiting for standard input; without it, use < /dev/null")


def _options(args: argparse.Namespace) -> Options:
    from prong.session import Options

    return Options(
        model=args.model,
        cwd=args.cwd,
        base_url=args.base_url,
        api=args.api,
        headers=dict(_header(text) for text in args.header),
        proxy=args.proxy,
        resume=args.resume or None,
        continue_last=args.continue_last,
        fork_session=args.fork_session,
        session_id=args.session_id,
        name=args.name,
        mode=args.permission_mode,
        team=args.team or None,
        coordinator=args.coordinator,
        worker_tools=args.worker_tools,
        allow=_rules(args.allowed_tools),
        ask=(),
        deny=_rules(args.disallowed_tools),
        add_dirs=tuple(args.add_dir),
        tools=_rules(args.tools) if args.tools is not None else None,
        system=None if args.system_prompt is None else _text(args.system_prompt),
        append_system=_text(args.append_system_prompt),
        max_turns=args.max_turns,
        max_usd=args.max_budget_usd,
        max_output=args.max_output_tokens,
        context_tokens=args.context_tokens,
        effort=args.effort,
        thinking=_thinking(args.thinking),
        temperature=args.temperature,
        seed=args.seed,
        cache_ttl=args.cache_ttl,
        settings=args.settings,
        mcp_config=tuple(args.mcp_config),
        strict_mcp=args.strict_mcp_config,
        bare=args.bare,
        agents=args.agents,
        json_schema=args.json_schema,
        memory=None if args.memory is None else args.memory == "on",
    )


def _thinking(value: str | None) -> bool | int | None:
    if value is None:
        return None
    return int(value) if value.isdecimal() else value == "on"


def _header(text: str) -> tuple[str, str]:
    from prong.errors import BadInput

    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise BadInput(f"--header {text!r} must be of the form 'Name: value'")
    return name.strip(), value.strip()


def _rules(texts: list[str]) -> tuple[str, ...]:
    """Split rules at commas and spaces, but not inside their brackets."""
    found: list[str] = []
    for text in texts:
        depth, current = 0, ""
        for char in text:
            depth += (char == "(") - (char == ")")
            if depth == 0 and char in ", ":
                found.append(current)
                current = ""
            else:
                current += char
        found.append(current)
    return tuple(rule.strip() for rule in found if rule.strip())


def _thinking_value(value: str) -> str:
    import argparse

    if value not in {"on", "off"} and not value.isdecimal():
        raise argparse.ArgumentTypeError("must be on, off, or a number of tokens")
    return value


def _parser() -> argparse.ArgumentParser:
    import argparse

    commands = "\n".join(
        f"  {name:<10} {what}" for name, what in (_COMMANDS | _ROSTER | _ACCOUNTS).items()
    )
    parser = argparse.ArgumentParser(
        prog="prong",
        # All options in a row would be 20 lines above each sentence that says what is wrong.
        usage="prong [option ...] [prompt]\n       prong COMMAND [option ...]\n       prong --help",
        description="A coding agent that can split itself into parallel forks, with a receipt.",
        epilog=f"commands:\n{commands}\n\n{_EXITS}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        add_help=False,
    )
    for add in (_add_run, _add_model, _add_session, _add_permission, _add_context):
        add(parser)
    return parser


def _add_run(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("running")
    add = group.add_argument
    # In a group, since the parser itself would lay out help for each argument as it is added.
    add("prompt", nargs="?", help="what to do; may also come on standard input")
    add("-h", "--help", action="help", help="show this text")
    add("-V", "--version", action="version", version=f"prong {__version__}")
    add("-p", "--print", action="store_true", help="work without a terminal and print the answer")
    add(
        "--full", action="store_true", help="talk on a full screen (what prong opens in a terminal)"
    )
    add("--plain", action="store_true", help="talk line by line; with a screen reader, say")
    add("--output-format", choices=("text", "json", "stream-json"), default="text")
    add("--input-format", choices=("text", "stream-json"), default="text")
    add("--team", action="store_true", help="may lead a team of agents that talk to each other")
    add("--coordinator", action="store_true", help="only give work to others, who do everything")
    add("--worker-tools", choices=("simple", "full"), help="what a coordinator's workers have")
    add("--json-schema", metavar="JSON|FILE", help="answer with an object of this JSON schema")
    add("--max-turns", type=int, metavar="N", help="requests to the model at most")
    add("--max-budget-usd", type=float, metavar="USD", help="money to spend at most")
    add("-C", "--cwd", default=".", metavar="DIR", help="the project folder")


def _add_model(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("model")
    add = group.add_argument
    add(
        "-m",
        "--model",
        help="any model; anthropic:, openai: or chat: before it chooses the API;"
        " local, or local:FILE for a GGUF file, runs on this machine without a key",
    )
    add("--base-url", metavar="URL", help="any compatible server")
    add("--api", choices=("anthropic", "responses", "chat"), help="which API that server speaks")
    add("--header", action="append", default=[], metavar="'NAME: VALUE'", help="sent every time")
    add("--proxy", metavar="URL", help="the proxy through which servers are reached")
    add("--effort", metavar="LEVEL", help="how hard the model should think")
    add("--thinking", metavar="on|off|TOKENS", type=_thinking_value)
    add("--temperature", type=float, metavar="N", help="how freely words are picked, from 0 on")
    add("--seed", type=int, metavar="N", help="to pick the same words again, where it is taken")
    add("--max-output-tokens", type=int, metavar="N", help="tokens in one reply at most")
    add("--context-tokens", type=int, metavar="N", help="tokens that the model can read")
    add("--cache-ttl", choices=("5m", "1h"), help="how long the provider keeps cached prompts")


def _add_session(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("session")
    add = group.add_argument
    add("-c", "--continue", dest="continue_last", action="store_true", help="the last one here")
    told = "go on with a session; alone, choose one"
    add("-r", "--resume", nargs="?", const="", metavar="ID|NAME", help=told)
    add("--fork-session", action="store_true", help="go on in a copy of it")
    add("--session-id", metavar="ID", help="id for a new session")
    add("-n", "--name", help="a name to find the session by")


def _add_permission(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("permissions")
    add = group.add_argument
    add(
        "--permission-mode",
        choices=("default", "acceptEdits", "plan", "auto", "dontAsk", "bypassPermissions"),
    )
    rules = "RULE[,RULE]"
    add("--allowed-tools", "--allowedTools", action="append", default=[], metavar=rules)
    add("--disallowed-tools", "--disallowedTools", action="append", default=[], metavar=rules)
    add("--tools", action="append", metavar="NAME[,NAME]", help="only these tools; '' for none")
    add("--add-dir", action="append", default=[], metavar="DIR", help="another folder to work in")


def _add_context(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("context")
    add = group.add_argument
    add("--system-prompt", metavar="TEXT", help="in place of Prong's own")
    add("--append-system-prompt", default="", metavar="TEXT", help="after Prong's own")
    add("--settings", metavar="JSON|FILE")
    add("--mcp-config", action="append", default=[], metavar="JSON|FILE")
    add("--strict-mcp-config", action="store_true", help="no other MCP servers than these")
    add("--agents", metavar="JSON", help="further types of agents, by name")
    add("--memory", choices=("on", "off"), help="keep and read notes for later sessions, or not")
    add("--bare", action="store_true", help="no instructions, hooks, skills or servers")
