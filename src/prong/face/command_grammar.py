"""The words and options that each command takes.

They stand apart from what the commands do: the script by which a shell completes them is made
whenever a shell starts, and loads nothing else.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from prong.face.command_parser import CommandParser

SHELLS = ("bash", "zsh", "fish")
PAGE_FORMATS = ("markdown", "html", "jsonl")
FORECAST_NUMBERS = {
    "children": "how many",
    "turns": "requests of each child",
    "growth": "tokens a turn adds to a prompt",
    "directive": "tokens of what a fork is told",
    "dispatch": "tokens of the parent's dispatching reply; 0: forks by hand",
    "report": "tokens of a child's report",
    "wakes": "in how many requests the parent takes the reports",
    "brief": "tokens that a fresh agent must be told",
    "setup": "tokens of a fresh agent's system text and tools",
    "explore": "turns that a fresh agent needs to learn what the parent knows",
}
_SCOPES = ("local", "project", "user")


def parser_of(command: str) -> CommandParser:
    """Make what reads the words of a command; not of `acp`, whose options are a session's."""
    parser = CommandParser(prog=f"prong {command}")
    _GRAMMARS[command](parser)
    return parser


def mcp_add_parser() -> CommandParser:
    """Make what reads `prong mcp add` by itself."""
    parser = CommandParser(prog="prong mcp add")
    _mcp_add(parser)
    return parser


def _json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="for programs")


def _session(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", nargs="?", help="id, name or journal file; default: the last")


def _folder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-C", "--cwd", default=".", metavar="DIR", help="the project folder")


def _sessions(parser: CommandParser) -> None:
    parser.description = "List sessions, the latest first."
    parser.add_argument("--all", action="store_true", help="of all folders")
    _json(parser)
    parser.add_argument(
        "--clean",
        type=int,
        metavar="DAYS",
        help="remove those of all folders to which nothing was written for so long, but for "
        "sessions with unmerged work, a team or a process",
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would be removed")


def _verify(parser: CommandParser) -> None:
    parser.description = "Check every record and every digest of a session's journal."
    _session(parser)
    _json(parser)


def _merge(parser: CommandParser) -> None:
    parser.description = (
        "Merge the branches of children into the current branch, in order, up to the first that "
        "conflicts. What a child left uncommitted is committed on its branch first. Uncommitted "
        "changes of yours stay as they are."
    )
    add = parser.add_argument
    add(
        "slug", nargs="*", help="which, in this order; default: all, by name, fork-2 before fork-10"
    )
    add("--dry-run", "--preview", action="store_true", help="only show what would be done")
    add("--no-commit", action="store_true", help="stop at a child that left something uncommitted")
    add("--diff", action="store_true", help="merge nothing; show what each of them has changed")
    add("--undo", action="store_true", help="take the last merge back")
    add(
        "--clean",
        action="store_true",
        help="merge nothing; remove the worktrees and branches whose work is merged, and say what "
        "is kept and why",
    )
    _json(parser)
    _folder(parser)


def _team(parser: CommandParser) -> None:
    parser.description = (
        "Look at teams of agents, and write to them. A message is signed as `outside`: it can say "
        "something, and decide nothing."
    )
    add = parser.add_actions()
    add("list", help="the teams, with their members")
    for name, told in (("show", "a team, its members and tasks"), ("tasks", "its tasks")):
        add(name, help=told).add_argument("team", metavar="NAME")
    send = add("send", help="write to a member, `leader` or `*`")
    for name in ("team", "member", "text"):
        send.add_argument(name, metavar="NAME" if name == "team" else name.upper())
    kill = add("kill", help="end a member at once, with everything it started")
    kill.add_argument("team", metavar="NAME")
    kill.add_argument("member", metavar="MEMBER")
    delete = add("delete", help="remove a team, if nobody of it is at work")
    delete.add_argument("team", metavar="NAME")
    delete.add_argument("--force", action="store_true", help="end who is at work, at once")
    add("backends", help="where members would run here, why, and what others lack")


def _memory(parser: CommandParser) -> None:
    parser.description = "Show the notes that are kept for later sessions of this project."
    parser.add_argument(
        "action",
        nargs="?",
        choices=("show", "path", "clear"),
        default="show",
        help="show the notes; print the path of the file, to edit it; delete it",
    )
    _json(parser)


def _trust(parser: CommandParser) -> None:
    parser.description = "Let a folder's own agents, hooks, servers and rules work, or no longer."
    parser.add_argument("folder", nargs="?", default=".")
    parser.add_argument("--list", action="store_true", help="only say what the folder wants")
    parser.add_argument("--remove", action="store_true", help="trust it no longer")


def _show(parser: CommandParser) -> None:
    parser.description = "Print what was said in a session, whole, or its outline."
    _session(parser)
    _json(parser)
    parser.add_argument(
        "--format",
        choices=(*PAGE_FORMATS, "outline"),
        default="markdown",
        help="markdown; html; jsonl, the lines that other programs read; outline, a line for each "
        "entry as the model sees it",
    )


def _export(parser: CommandParser) -> None:
    parser.description = "Write what was said in a session to a file; none is replaced."
    _session(parser)
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        default="",
        help="default: prong-ID.md here, or the next that is free",
    )
    parser.add_argument("--format", choices=PAGE_FORMATS, help="by the file's name, else markdown")


def _import(parser: CommandParser) -> None:
    parser.description = (
        "Take over a session of Claude Code or Codex: what was said and done, not its cache."
    )
    parser.add_argument("file", nargs="?", help="its .jsonl file; without one those are listed")
    parser.add_argument("--name", default="", help="how to call the session here")
    _json(parser)


def _agents(parser: CommandParser) -> None:
    parser.description = "List the types of agents, or show one: prompt, model, mode and tools."
    parser.add_argument("action", nargs="?", choices=("list", "show"), default="list")
    parser.add_argument("name", nargs="?", help="the type to show")
    parser.add_argument("--agents", metavar="JSON", help="further types, before those of files")
    _folder(parser)


def _doctor(parser: CommandParser) -> None:
    parser.description = (
        "Say what is protected here and what is not: sandbox, terminal, tmux, git, keys, engine, "
        "MCP, packages."
    )
    parser.epilog = "exit code: 0 if everything works (+), be it with limits (~); 1 if not (!)"
    _folder(parser)
    parser.add_argument("--settings", metavar="JSON|FILE")
    _json(parser)


def _completion(parser: CommandParser) -> None:
    parser.description = "Print a script that lets a shell complete prong's commands and flags."
    parser.epilog = (
        'bash, zsh: eval "$(prong completion bash)" in ~/.bashrc or ~/.zshrc; '
        "fish: prong completion fish > ~/.config/fish/completions/prong.fish"
    )
    parser.add_argument("shell", choices=SHELLS)


def _plugin(parser: CommandParser) -> None:
    parser.description = (
        "Plug-ins bring skills, commands, agents, hooks and servers. A SOURCE is a folder, an "
        "address of git (a branch, tag or commit may follow after #), or owner/name of GitHub; it "
        "may be a marketplace. What a plug-in would run or widen is shown and asked about once."
    )
    act = parser.add_actions()
    add = act("add", help="add a plug-in, or those NAMEd of a marketplace")
    add.add_argument("source", metavar="SOURCE")
    add.add_argument("name", nargs="*", metavar="NAME")
    listed = act("list", help="the plug-ins that were added, or what a SOURCE offers")
    listed.add_argument("source", nargs="?", metavar="SOURCE")
    _json(listed)
    act("remove", help="remove one").add_argument("name", metavar="NAME")
    update = act("update", help="fetch all anew, or those NAMEd")
    update.add_argument("name", nargs="*", metavar="NAME")
    for one in (add, update):
        one.add_argument("--yes", action="store_true", help="approve what they want, unseen")


def _mcp(parser: CommandParser) -> None:
    parser.description = "MCP servers: which there are, whether they work, and logins at them."
    parser.epilog = (
        "scopes: local (you, in this folder; the default), project (.mcp.json), user (you, "
        "everywhere)"
    )
    add = parser.add_actions()
    add("list", help="the servers of this folder; none is started")
    check = add("check", help="start servers, and say what each has")
    check.add_argument("names", nargs="*", metavar="NAME")
    _json(check)
    _mcp_add(add("add", help="add NAME URL, or add NAME -- COMMAND ARGUMENT ..."))
    more = add("add-json", help="add NAME '{...}', as it would stand in a file")
    more.add_argument("name", metavar="NAME")
    more.add_argument("json", metavar="JSON")
    more.add_argument("-s", "--scope", choices=_SCOPES, default="local")
    for name, told in (
        ("get", "what is configured of a server"),
        ("remove", "take a server out of its file"),
        ("login", "log in at a server, in your browser"),
        ("logout", "delete the login at a server"),
    ):
        one = add(name, help=told)
        one.add_argument("name", metavar="NAME")
        if name == "remove":
            one.add_argument("-s", "--scope", choices=_SCOPES)
        if name == "login":
            one.add_argument("--no-browser", action="store_true", help="only say where to go")


def _mcp_add(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("name", metavar="NAME")
    add("words", nargs="*", metavar="URL|COMMAND")
    add("-s", "--scope", choices=_SCOPES, default="local")
    add("-t", "--transport", choices=("stdio", "http", "sse"))
    add("-e", "--env", action="append", default=[], metavar="NAME=VALUE")
    add("-H", "--header", action="append", default=[], metavar="NAME: VALUE")
    add("--client-id", metavar="ID", help="who asks for a login, if agreed on before")
    add("--callback-port", type=int, metavar="N", help="where a login leads back to")


def _remote(parser: CommandParser) -> None:
    parser.description = (
        "Try a machine of the setting remote.targets from end to end, with no model and no key: a "
        "small repository is sent there and comes back."
    )
    parser.epilog = "exit code: 0 if agents can work there (+), be it with limits (~); 1 if not (!)"
    parser.add_argument("action", choices=("check",))
    parser.add_argument("name", nargs="?", default="", help="which; default: remote.default")
    _folder(parser)
    parser.add_argument("--settings", metavar="JSON|FILE")
    _json(parser)


def _cost(parser: CommandParser) -> None:
    parser.description = "Say what a session cost: by agent, by fan-out, and in all."
    _session(parser)
    _json(parser)


def _receipt(parser: CommandParser) -> None:
    parser.description = "Show what the forks of a session shared, paid and saved."
    _session(parser)
    _json(parser)
    parser.add_argument("task", nargs="?", help="a task's id or an agent's path; default: all")


def _explain(parser: CommandParser) -> None:
    parser.description = "Say where two requests part. Without arguments: the last two."
    parser.add_argument(
        "requests",
        nargs="*",
        metavar="A B",
        help="a file with a request body, SESSION:N or SESSION:AGENT:N for the N-th request there",
    )
    _json(parser)


def _trace(parser: CommandParser) -> None:
    parser.description = (
        "Write when a session's agents did what, for Chrome's or Perfetto's viewer; no file is "
        "replaced."
    )
    _session(parser)
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="default: trace-SESSION.json here, or the next that is free; - for standard output",
    )
    parser.add_argument(
        "--otlp",
        nargs="?",
        const="",
        metavar="URL",
        help="send it to a collector of OpenTelemetry instead; default: where "
        "OTEL_EXPORTER_OTLP_ENDPOINT says, or this machine",
    )


def _web(parser: CommandParser) -> None:
    parser.description = (
        "Show a session in a browser, live or after the fact: which bytes its requests share, its "
        "agents, its times, its cost. The page is of this machine alone."
    )
    _session(parser)
    parser.add_argument(
        "--no-open", action="store_true", help="only print the address; open no browser"
    )
    parser.add_argument(
        "--allow-actions",
        action="store_true",
        help="let the page answer, send messages and stop agents, once the session's user agrees",
    )
    parser.add_argument(
        "--export",
        metavar="FILE",
        help="write the page as one new file instead, without its texts; none is replaced",
    )
    parser.add_argument("--with-text", action="store_true", help="export what was said as well")


def _plan_fork(parser: CommandParser) -> None:
    parser.description = "Compare a fork, fresh agents with a brief, and working alone."
    add = parser.add_argument
    add("-m", "--model", help="whose prices count")
    add("--history", type=int, metavar="N", help="tokens of the parent's prompt")
    add("--session", nargs="?", const="", metavar="ID", help="take model and history from there")
    for name, what in FORECAST_NUMBERS.items():
        add(f"--{name}", type=int, metavar="N", help=what)
    add(
        "--rates",
        metavar="READ,WRITE[,OUTPUT]",
        help="what they cost in input tokens, in place of the model's",
    )
    add("--ttl", choices=("5m", "1h", "30m", "12h"), help="how long cache entries live")
    add("--cold", action="store_true", help="the history is cached no more")
    _json(parser)


_GRAMMARS: dict[str, Callable[[CommandParser], None]] = {
    "sessions": _sessions,
    "verify": _verify,
    "merge": _merge,
    "team": _team,
    "memory": _memory,
    "trust": _trust,
    "show": _show,
    "export": _export,
    "import": _import,
    "agents": _agents,
    "doctor": _doctor,
    "completion": _completion,
    "plugin": _plugin,
    "mcp": _mcp,
    "remote": _remote,
    "cost": _cost,
    "receipt": _receipt,
    "explain": _explain,
    "trace": _trace,
    "web": _web,
    "plan-fork": _plan_fork,
}
