"""Commands that look at sessions without talking to a model."""

from __future__ import annotations

import argparse
import os
import time
from typing import TYPE_CHECKING

import msgspec

from prong.errors import BadInput
from prong.face.command_grammar import parser_of
from prong.face.line import counted
from prong.face.output import flat, show, show_json, tell
from prong.session import list_sessions, money, verify_session
from prong.system.path_form import real_path

if TYPE_CHECKING:
    from prong.session import MemoryState


def run_command(name: str, words: list[str]) -> int:
    """Run one of the commands; gives the exit code."""
    commands = {
        "sessions": _sessions,
        "verify": _verify,
        "trust": _trust,
        "memory": _memory,
    }
    return commands[name](parser_of(name).parse_args(words))


def say(text: str) -> None:
    """Say on the way what was chosen or left out."""
    tell(text)


def print_json(value: object) -> None:
    """Print a value for programs."""
    show_json(msgspec.json.format(msgspec.json.encode(value, enc_hook=str)))


def _sessions(args: argparse.Namespace) -> int:
    if args.clean is not None:
        return _clean(args.clean, dry=args.dry_run, json=args.json)
    found = list_sessions(everywhere=args.all)
    if args.json:
        print_json(found)
        return 0
    for info in found:
        day = time.strftime("%Y-%m-%d %H:%M", time.localtime(info.modified))
        where = f"  {flat(info.cwd)}" if args.all else ""
        title = f"damaged: {info.damage}" if info.damage else flat(info.title)[:60]
        show(f"{flat(info.id)}  {day}  {money(info.cost):>14}  {info.entries:>4}  {title}{where}")
    if not found:
        tell("no sessions here; --all lists those of other folders", lead="")
        from prong.session import importable

        if number := len(importable(real_path("."))):
            others = f"{counted(number, 'session')} of Claude Code or Codex"
            tell(f"{others} can be taken over: 'prong import' lists them", lead="")
    return 0


def _clean(days: int, *, dry: bool, json: bool) -> int:
    from prong.session import clean_sessions

    if days < 1:
        raise BadInput("--clean takes a number of days above 0")
    report = clean_sessions(days, dry=dry)
    if json:
        print_json(report)
        return 0
    for session in report.removed:
        show(f"{flat(session)}: {'would be removed' if dry else 'removed'}")
    for one in report.kept:
        show(f"{flat(one.id)}: kept, {flat(one.why)}")
    if not report.removed and not report.kept:
        tell(f"no session is older than {days} days", lead="")
    return 0


def _verify(args: argparse.Namespace) -> int:
    report = verify_session(args.session, say)
    if args.json:
        print_json(report)
        return 0 if report.sound else 1
    show(f"{report.path}: session {report.session}")
    entries = "1 entry" if report.entries == 1 else f"{report.entries} entries"
    requests = counted(report.requests, "request")
    show(f"{counted(report.records, 'record')}, {entries}, {requests} good")
    for agent, held, digest in report.agents:
        show(f"  {agent}: {held} {'entry' if held == 1 else 'entries'}, digest {digest}")
    if report.torn:
        show(f"unfinished last record of {report.torn} bytes; the next resume cuts it off")
    if report.damage is not None:
        damage = report.damage
        show(f"damaged at line {damage.line}, byte {damage.offset}: {damage.why}")
        if damage.line > 1:
            show("what stands before is good; go on from there with --resume ID --fork-session")
    return 0 if report.sound else 1


def _trust(args: argparse.Namespace) -> int:
    from prong.session import decide_trust, folder_trust

    if not args.remove and not os.path.isdir(args.folder):  # noqa: PTH112 - any word
        raise BadInput(f"{args.folder!r} is not a folder; name the one to trust")
    found = folder_trust(args.folder)
    for want in found.wants:
        show(f"  {flat(want)}")
    if args.list:
        show("trusted" if found.trusted else "not trusted")
    elif args.remove:
        decide_trust(found, trusted=False)
        show(f"{found.folder} is not trusted any more")
    else:
        decide_trust(found, trusted=True)
        may = "what is listed above may run" if found.wants else "so far nothing in it needs that"
        show(f"{found.folder} is trusted: {may}")
    return 0


def _memory(args: argparse.Namespace) -> int:
    from prong.session import clear_memory, folder_memory

    if args.json and args.action != "show":
        raise BadInput("--json is for 'prong memory show'")
    found = folder_memory(".")
    match args.action:
        case "path":
            show(found.path)
        case "clear":
            show(f"{found.path}: {'deleted' if clear_memory('.') else 'there are no notes'}")
            for path, _ in found.files:
                if path != found.path:
                    show(f"{path}: left, since Prong did not write it")
        case _ if args.json:
            print_json(found)
        case _:
            show("\n".join(describe_memory(found)))
    return 0


def describe_memory(found: MemoryState) -> list[str]:
    """Say whether notes are kept, where, and which there are."""
    state = (
        "kept and read" if found.on else "neither kept nor read; the setting memory, --memory on"
    )
    state += "" if found.on else " or /memory on switches that"
    lines = [f"notes for later sessions are {state}", found.path]
    for path, text in found.files:
        if path != found.path:
            lines.append(path)
        lines += [f"  {line}" for line in text.splitlines()]
    return lines if found.files else [*lines, "  (none yet)"]
