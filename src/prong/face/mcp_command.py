"""`prong mcp`: the servers of this folder."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from typing import Any

import anyio
import msgspec

from prong.errors import BadInput
from prong.face.output import show, show_json, tell
from prong.session import (
    ServerReport,
    add_server,
    check_servers,
    list_servers,
    log_in_at,
    log_out_of,
    remove_server,
    show_server,
)

_SCOPES = ("local", "project", "user")


def run_mcp(words: list[str]) -> int:
    """Run `prong mcp`; gives 1 if a server that was tried does not work."""
    given, rest = _parted(words)
    if given[:1] == ["add"]:
        # Words and options in any order, which a parser of several commands cannot.
        adding = argparse.ArgumentParser(prog="prong mcp add", allow_abbrev=False)
        _add_adding(adding)
        lines = _added(adding.parse_intermixed_args(given[1:]), rest)
        show("\n".join(lines))
        return 0
    args = _parser().parse_args(given)
    match args.action:
        case "add-json":
            lines = add_server(args.name, _read(args.json), args.scope)
        case "remove":
            lines = [remove_server(args.name, args.scope)]
        case "get":
            lines = show_server(args.name)
        case "login":
            lines = [anyio.run(partial(log_in_at, args.name, tell, browse=not args.no_browser))]
        case "logout":
            lines = [log_out_of(args.name)]
        case "check":
            return _check(args)
        case _:
            lines = _listed()
    show("\n".join(lines))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="prong mcp",
        description="MCP servers: which there are, whether they work, and logins at them.",
        epilog="scopes: local (you, in this folder; the default), project (.mcp.json), user (you, "
        "everywhere)",
        allow_abbrev=False,
    )
    of = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    of.add_parser("list", help="the servers of this folder; none is started")
    check = of.add_parser("check", help="start servers, and say what each has")
    check.add_argument("names", nargs="*", metavar="NAME")
    check.add_argument("--json", action="store_true", help="for programs")
    _add_adding(of.add_parser("add", help="add NAME URL, or add NAME -- COMMAND ARGUMENT ..."))
    more = of.add_parser("add-json", help="add NAME '{...}', as it would stand in a file")
    more.add_argument("name", metavar="NAME")
    more.add_argument("json", metavar="JSON")
    more.add_argument("-s", "--scope", choices=_SCOPES, default="local")
    for name, told in (
        ("get", "what is configured of a server"),
        ("remove", "take a server out of its file"),
        ("login", "log in at a server, in your browser"),
        ("logout", "delete the login at a server"),
    ):
        one = of.add_parser(name, help=told)
        one.add_argument("name", metavar="NAME")
        if name == "remove":
            one.add_argument("-s", "--scope", choices=_SCOPES)
        if name == "login":
            one.add_argument("--no-browser", action="store_true", help="only say where to go")
    return parser


def _add_adding(add: argparse.ArgumentParser) -> None:
    add.add_argument("name", metavar="NAME")
    add.add_argument("words", nargs="*", metavar="URL|COMMAND")
    add.add_argument("-s", "--scope", choices=_SCOPES, default="local")
    add.add_argument("-t", "--transport", choices=("stdio", "http", "sse"))
    add.add_argument("-e", "--env", action="append", default=[], metavar="NAME=VALUE")
    add.add_argument("-H", "--header", action="append", default=[], metavar="NAME: VALUE")


def _added(args: argparse.Namespace, rest: list[str]) -> list[str]:
    return add_server(args.name, _server(args, rest), args.scope)


def _parted(words: list[str]) -> tuple[list[str], list[str]]:
    """Part our own words from those of a server's command, which follow two dashes."""
    if words[:1] == ["add"] and "--" in words:
        at = words.index("--")
        return words[:at], words[at + 1 :]
    return words, []


def _server(args: argparse.Namespace, rest: list[str]) -> dict[str, Any]:
    """Write a server down as it stands in a file.

    Raises UsageError if something of it is missing.
    """
    words: list[str] = [*args.words, *rest]
    if not words:
        raise BadInput("say what it is: prong mcp add NAME URL, or prong mcp add NAME -- COMMAND")
    web = words[0].startswith(("http://", "https://"))
    kind = args.transport or ("http" if web else "stdio")
    if kind == "stdio":
        if args.header:
            raise BadInput("only an address has headers; a command has --env")
        value: dict[str, Any] = {"command": words[0], "args": words[1:]}
        return {**value, **({"env": _pairs(args.env, "=")} if args.env else {})}
    if len(words) > 1 or args.env:
        raise BadInput("an address has neither further words nor --env; it has --header")
    value = {"type": kind, "url": words[0]}
    return {**value, **({"headers": _pairs(args.header, ":")} if args.header else {})}


def _pairs(texts: list[str], mark: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts:
        name, found, value = text.partition(mark)
        if not found or not name.strip():
            raise BadInput(f"{text!r} must be NAME{mark}VALUE")
        pairs[name.strip()] = value.strip() if mark == ":" else value
    return pairs


def _read(text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise BadInput(f"that is no JSON object: {error}") from error


def _listed() -> list[str]:
    found, wrong = list_servers()
    lines = [f"{one.name}  {one.scope}  {one.transport}  {one.summary}" for one in found]
    return [*(lines or ["no MCP servers are configured"]), *wrong]


def _check(args: argparse.Namespace) -> int:
    found = anyio.run(check_servers, args.names)
    if args.json:
        show_json(msgspec.json.format(msgspec.json.encode(found)))
    else:
        lines = [line for one in found for line in describe_server(one)]
        show("\n".join(lines or ["no MCP servers are configured"]))
    return int(any(one.state != "ready" for one in found))


def _counted(names: tuple[str, ...], noun: str) -> str:
    return f"1 {noun}" if len(names) == 1 else f"{len(names):,} {noun}s"


def describe_server(one: ServerReport) -> Iterator[str]:
    """Say how a server stands, in a line or a few."""
    if one.state != "ready":
        mark, why = ("~", "it is still starting") if one.state == "starting" else ("!", one.why)
        yield f"{mark} {one.name}  {one.summary}  {why}"
        return
    has = [f"{_counted(one.tools, 'tool')} ({one.bytes:,} bytes)"]
    has += [_counted(one.prompts, "prompt")] if one.prompts else []
    has += ["resources"] if one.resources else []
    has += [f"instructions ({one.instructions:,} characters)"] if one.instructions else []
    more = f"; {one.why}" if one.why else ""
    yield f"+ {one.name}  {one.about}  ready in {one.seconds:.1f} s: {', '.join(has)}{more}"
