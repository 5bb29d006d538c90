"""The command that looks at teams from a shell, and writes to them."""

from __future__ import annotations

import argparse
from functools import partial

import anyio

from prong.face.command_parser import CommandParser
from prong.face.output import show
from prong.session import (
    delete_team,
    describe_backends,
    end_member,
    list_shared_tasks,
    list_teams,
    send_from_outside,
    show_team,
)


def run_team(words: list[str]) -> int:
    """Run `prong team`; gives the exit code."""
    parser = CommandParser(
        prog="prong team",
        description="Look at teams of agents, and write to them. A message is signed as `outside`: "
        "it can say something, and decide nothing.",
    )
    of = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    of.add_parser("list", help="the teams, with their members")
    for name, told in (("show", "a team, its members and tasks"), ("tasks", "its tasks")):
        of.add_parser(name, help=told).add_argument("team", metavar="NAME")
    send = of.add_parser("send", help="write to a member, `leader` or `*`")
    for name in ("team", "member", "text"):
        send.add_argument(name, metavar="NAME" if name == "team" else name.upper())
    kill = of.add_parser("kill", help="end a member at once, with everything it started")
    kill.add_argument("team", metavar="NAME")
    kill.add_argument("member", metavar="MEMBER")
    delete = of.add_parser("delete", help="remove a team, if nobody of it is at work")
    delete.add_argument("team", metavar="NAME")
    delete.add_argument("--force", action="store_true", help="end who is at work, at once")
    of.add_parser("backends", help="where members would run here, why, and what others lack")
    args = parser.parse_args(words)
    show("\n".join(_lines(args)))
    return 0


def _lines(args: argparse.Namespace) -> list[str]:
    match args.action:
        case "list":
            return list_teams()
        case "backends":
            return anyio.run(describe_backends)
        case "show":
            return show_team(args.team)
        case "tasks":
            return list_shared_tasks(args.team)
        case "send":
            return [send_from_outside(args.team, args.member, args.text)]
        case "delete":
            return anyio.run(partial(delete_team, args.team, force=args.force))
        case _:
            return anyio.run(end_member, args.team, args.member)
