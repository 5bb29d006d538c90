"""The flags of the command line: read from words, checked, and made the options of a session."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from prong.about import __version__
from prong.errors import BadInput
from prong.face.command_parser import first_option, hint
from prong.foreign_number import whole_number

if TYPE_CHECKING:
    from prong.session import Options

_EXITS = """exit codes:
  0    done; that the last reply had no text is said on standard error
  1    the provider, the journal or Prong itself failed, or no answer of the JSON
       schema came
  2    the command line or a file of settings is wrong, or standard output is
       closed
  3    the limit of turns was reached
  4    the budget is spent
  5    the model refused, or a hook ended the turn
  6    the reply was cut off at the output limit
  7    the model only repeated the same calls
  130  interrupted
  141  nobody reads standard output any more
"""


STDIN_PROMPT = "-"
"""In the place of the prompt: it comes on standard input, and there alone."""
_RULE_OPTIONS = ("--allowed-tools", "--allowedTools", "--disallowed-tools", "--disallowedTools")
_LARGEST = 4_000_000
"""Bytes that a file of a prompt may have."""
_RULE = re.compile(
    r"mcp__\S+|[A-Z][A-Za-z]+\(.*\)|(?:[A-Z][a-z]+){2,}|Agent|Bash|Edit|Glob|Grep|Read|Skill|Write"
)
"""What looks like a rule or a tool's name."""


_ELSEWHERE = {
    "--chrome": "no browser is built in: a server brings one, as with 'prong mcp add chrome -- npx "
    "-y chrome-devtools-mcp'",
    "--ide": "an editor starts 'prong acp' and shows the session itself (docs/editors.md); in its "
    "terminal, as in any other, leave --ide out",
    "--mcp-debug": "'prong mcp check' starts all servers and says what each has, or why not",
    "--teleport": "sessions are on this machine: 'prong sessions' lists them, 'prong import' takes "
    "over those of other programs",
}
"""Options of other programs for things that are had in another way here, and how."""


def parse(words: list[str], commands: Mapping[str, str]) -> argparse.Namespace:
    """Read the options and the prompt; what is wrong is named by the word that is."""
    parser = make_parser(commands)
    args, extra = parser.parse_known_args(words)
    if wrong := first_option(extra):
        instead = _ELSEWHERE.get(wrong)
        told = f"; {instead}" if instead else hint(parser, wrong)
        parser.error(f"there is no option {wrong}{told}")
    stray = extra[0] if extra else _stray_rule(words, args.prompt)
    if stray is not None:
        parser.error(
            f"{stray!r} is one word too many: put the prompt into quotes, and rules and names "
            "behind one option, with commas between them"
        )
    if args.worktree and args.prompt is None and len(args.worktree.split()) > 1:
        # No name has blanks: it is the prompt, of a worktree that nobody has named.
        return argparse.Namespace(**{**vars(args), "prompt": args.worktree, "worktree": ""})
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


def check(args: argparse.Namespace) -> None:
    """Refuse flags that would be ignored."""
    streams = args.input_format == "stream-json"
    if streams and args.prompt:
        raise BadInput("with --input-format stream-json the prompt comes on standard input")
    if args.prompt == STDIN_PROMPT and not args.print:
        raise BadInput(
            "a prompt of '-' is read from standard input, for runs without a terminal; add -p"
        )
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
    if args.skip_permissions and args.permission_mode not in {None, "bypassPermissions"}:
        raise BadInput(
            f"--dangerously-skip-permissions and --permission-mode {args.permission_mode} "
            "contradict each other; give one of them"
        )
    for flag, given in (
        ("--output-format", args.output_format != "text"),
        ("--json-schema", args.json_schema is not None),
        ("--include-partial-messages", args.include_partial_messages),
        ("--permission-prompt-tool", args.permission_prompt_tool is not None),
        ("--verbose", args.verbose),
        ("--debug", args.debug),
    ):
        if given and not (args.print or streams):
            raise BadInput(f"{flag} is for runs without a terminal; add -p")


def options_of(args: argparse.Namespace) -> Options:
    """Make the options of a session of what was given."""
    from prong.session import Options

    return Options(
        model=args.model,
        fallback_model=args.fallback_model,
        cwd=args.cwd,
        base_url=args.base_url,
        api=args.api,
        headers=dict(_header(text) for text in args.header),
        proxy=args.proxy,
        resume=args.resume or None,
        continue_last=args.continue_last,
        fork_session=args.fork_session,
        session_id=args.session_id,
        persist=not args.no_session_persistence,
        name=args.name,
        mode="bypassPermissions" if args.skip_permissions else args.permission_mode,
        allow_actions=args.allow_actions,
        permission_prompt_tool=args.permission_prompt_tool,
        agent=args.agent,
        worktree=args.worktree,
        team=args.team or None,
        coordinator=args.coordinator,
        worker_tools=args.worker_tools,
        allow=_rules(args.allowed_tools),
        ask=(),
        deny=_rules(args.disallowed_tools),
        add_dirs=tuple(args.add_dir),
        tools=None if args.tools in (None, ["default"]) else _rules(args.tools),
        skills=not args.disable_slash_commands,
        system=_system(args),
        append_system=_appended(args),
        max_turns=args.max_turns,
        max_usd=args.max_budget_usd,
        max_output=args.max_output_tokens,
        context_tokens=args.context_tokens,
        effort=args.effort,
        thinking=_thinking(args.thinking),
        temperature=args.temperature,
        seed=args.seed,
        cache_ttl=args.cache_ttl,
        betas=_rules(args.betas),
        settings=args.settings,
        setting_sources=None if args.setting_sources is None else _rules([args.setting_sources]),
        mcp_config=tuple(args.mcp_config),
        strict_mcp=args.strict_mcp_config,
        plugin_dirs=tuple(args.plugin_dir),
        bare=args.bare,
        agents=args.agents,
        json_schema=args.json_schema,
        memory=None if args.memory is None else args.memory == "on",
    )


def _system(args: argparse.Namespace) -> str | None:
    """Give what stands in place of our own system prompt, if anything does."""
    if args.system_prompt_file is None:
        return None if args.system_prompt is None else text_of(args.system_prompt)
    if args.system_prompt is not None:
        raise BadInput("--system-prompt and --system-prompt-file are one thing; give one of them")
    return _content("--system-prompt-file", args.system_prompt_file)


def _appended(args: argparse.Namespace) -> str:
    """Give what follows the system prompt: the text, and then what the file holds."""
    texts = [text_of(args.append_system_prompt)]
    if (name := args.append_system_prompt_file) is not None:
        texts.append(_content("--append-system-prompt-file", name))
    return "\n\n".join(text for text in texts if text)


def _content(flag: str, name: str) -> str:
    try:
        with open(name, "rb") as file:  # noqa: PTH123 - pathlib is not needed for anything else
            data = file.read(_LARGEST + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise BadInput(f"{flag} {name}: {why}") from error
    if len(data) > _LARGEST:
        raise BadInput(f"{flag} {name}: it has more than {_LARGEST:,} bytes")
    return data.decode("utf-8-sig", errors="replace")


def _thinking(value: str | None) -> bool | int | None:
    if value is None:
        return None
    number = whole_number(value)
    return value == "on" if number is None else number


def _header(text: str) -> tuple[str, str]:
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
    if value not in {"on", "off"} and whole_number(value) is None:
        raise argparse.ArgumentTypeError("must be on, off, or a number of tokens")
    return value


def make_parser(commands: Mapping[str, str]) -> argparse.ArgumentParser:
    """Make what reads the flags, and names the commands there are in its help."""
    listed = "\n".join(f"  {name:<10} {what}" for name, what in commands.items())
    parser = argparse.ArgumentParser(
        prog="prong",
        # All options in a row would be 20 lines above each sentence that says what is wrong.
        usage="prong [option ...] [prompt]\n       prong COMMAND [option ...]\n       prong --help",
        description="A coding agent that can split itself into parallel forks, with a receipt.",
        epilog=f"commands:\n{listed}\n\n{_EXITS}",
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
    add(
        "prompt", nargs="?", help="what to do; with -p standard input is added, and - is that alone"
    )
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
    add("-w", "--worktree", nargs="?", const="", metavar="NAME", help="in a worktree of its own")
    add("--verbose", action="store_true", help="with -p, tell of each step on standard error")
    add("--debug", action="store_true", help="with -p, tell of requests and hooks as well")
    told = "for other programs' scripts: stream-json always has them"
    add("--include-partial-messages", action="store_true", help=told)
    told = "likewise: it always tells what was taken in"
    add("--replay-user-messages", action="store_true", help=told)
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
        help="any model, or opus, sonnet, haiku, fast, best; anthropic:, openai:, chat: or gemini:"
        " before it chooses the API, bedrock:, vertex: or azure: a cloud;"
        " local, or local:FILE for a GGUF file, runs on this machine without a key",
    )
    add("--fallback-model", metavar="MODEL", help="goes on where the model is overloaded")
    add("--base-url", metavar="URL", help="any compatible server")
    add(
        "--api",
        choices=("anthropic", "responses", "chat", "gemini"),
        help="which API that server speaks",
    )
    add("--header", action="append", default=[], metavar="'NAME: VALUE'", help="sent every time")
    add("--proxy", metavar="URL", help="the proxy through which servers are reached")
    add(
        "--effort",
        metavar="LEVEL",
        help="how hard the model should think: low, medium, high, or another word that it knows",
    )
    add("--thinking", metavar="on|off|TOKENS", type=_thinking_value)
    add("--temperature", type=float, metavar="N", help="how freely words are picked, from 0 on")
    add("--seed", type=int, metavar="N", help="to pick the same words again, where it is taken")
    add("--max-output-tokens", type=int, metavar="N", help="tokens in one reply at most")
    add("--context-tokens", type=int, metavar="N", help="tokens that the model can read")
    add(
        "--betas",
        action="append",
        default=[],
        metavar="NAME[,NAME]",
        help="beta features to ask for",
    )
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
    add("--no-session-persistence", action="store_true", help="keep nothing of it in the end")


def _add_permission(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("permissions")
    add = group.add_argument
    add(
        "--permission-mode",
        choices=(
            *("default", "manual", "acceptEdits", "plan", "auto", "dontAsk", "bypassPermissions"),
        ),
    )
    add(
        "--dangerously-skip-permissions",
        dest="skip_permissions",
        action="store_true",
        help="the mode bypassPermissions",
    )
    told = "for other programs' scripts: that mode can always be chosen"
    add("--allow-dangerously-skip-permissions", action="store_true", help=told)
    add(
        "--allow-actions",
        action="store_true",
        help="let 'prong web --allow-actions' act in this session, and ask nobody",
    )
    add("--permission-prompt-tool", metavar="TOOL", help="with -p, a server's tool that is asked")
    rules = "RULE[,RULE]"
    add("--allowed-tools", "--allowedTools", action="append", default=[], metavar=rules)
    add("--disallowed-tools", "--disallowedTools", action="append", default=[], metavar=rules)
    told = "only these tools; '' for none, default for all"
    add("--tools", action="append", metavar="NAME[,NAME]", help=told)
    add("--add-dir", action="append", default=[], metavar="DIR", help="another folder to work in")


def _add_context(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("context")
    add = group.add_argument
    add("--system-prompt", metavar="TEXT", help="in place of Prong's own")
    add("--append-system-prompt", default="", metavar="TEXT", help="after Prong's own")
    add("--system-prompt-file", metavar="FILE", help="the same, from a file")
    add("--append-system-prompt-file", metavar="FILE", help="after that, from a file")
    add("--agent", metavar="TYPE", help="be an agent of this type: its prompt, tools and model")
    add("--settings", metavar="JSON|FILE")
    add("--setting-sources", metavar="user,project,local", help="only these files of settings")
    add("--mcp-config", action="append", default=[], metavar="JSON|FILE")
    add("--strict-mcp-config", action="store_true", help="no other MCP servers than these")
    told = "for other programs' scripts: no browser is built in"
    add("--no-chrome", action="store_true", help=told)
    add("--agents", metavar="JSON", help="further types of agents, by name")
    add(
        "--plugin-dir",
        action="append",
        default=[],
        metavar="DIR",
        help="a plug-in's folder, for this session",
    )
    add("--memory", choices=("on", "off"), help="keep and read notes for later sessions, or not")
    add("--disable-slash-commands", action="store_true", help="no skills, no commands of files")
    add("--bare", action="store_true", help="no instructions, hooks, skills or servers")


def text_of(word: str) -> str:
    """Read a word as the UTF-8 that it is, whatever the locale made of it."""
    try:
        return os.fsencode(word).decode(errors="replace")
    except UnicodeEncodeError:
        return word
