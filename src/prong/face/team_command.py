"""The command that looks at teams from a shell, and writes to them."""

from __future__ import annotations

import argparse
from functools import partial

import anyio

from prong.face.command_grammar import parser_of
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
    args = parser_of("team").parse_args(words)
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
