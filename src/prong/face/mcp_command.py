"""`prong mcp`: the servers of this folder."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from typing import Any

import anyio
import msgspec

from prong.errors import BadInput
from prong.face.command_grammar import mcp_add_parser, parser_of
from prong.face.output import show, show_json, tell
from prong.foreign_json import NOT_JSON
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


def run_mcp(words: list[str]) -> int:
    """Run `prong mcp`; gives 1 if a server that was tried does not work."""
    given, rest = _parted(words)
    if given[:1] == ["add"]:
        # Words and options in any order, which a parser of several commands cannot.
        lines = _added(mcp_add_parser().parse_mixed(given[1:]), rest)
        show("\n".join(lines))
        return 0
    args = parser_of("mcp").parse_args(given)
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
        if args.header or args.client_id or args.callback_port is not None:
            raise BadInput("only an address has headers and a login; a command has --env")
        value: dict[str, Any] = {"command": words[0], "args": words[1:]}
        return {**value, **({"env": _pairs(args.env, "=")} if args.env else {})}
    if len(words) > 1 or args.env:
        raise BadInput("an address has neither further words nor --env; it has --header")
    login = {"clientId": args.client_id, "callbackPort": args.callback_port}
    login = {key: one for key, one in login.items() if one is not None}
    more = {"headers": _pairs(args.header, ":"), "oauth": login}
    value = {"type": kind, "url": words[0]}
    return {**value, **{key: one for key, one in more.items() if one}}


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
    except NOT_JSON as error:
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
