"""Commands that look at sessions without talking to a model."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

import msgspec

from prong.config.trust import Trust, needs_trust
from prong.cost.receipt import money
from prong.errors import UsageError
from prong.face.line import counted, printable
from prong.journal import store
from prong.journal.read import Replay, examine
from prong.journal.verify import verify
from prong.prompt import outline
from prong.wire import dialect


def run_command(name: str, words: list[str]) -> int:
    """Run one of the commands; gives the exit code."""
    commands = {
        "sessions": _sessions,
        "verify": _verify,
        "show": _show,
        "trust": _trust,
    }
    parser = argparse.ArgumentParser(prog=f"prong {name}", allow_abbrev=False)
    return commands[name](parser, words)


def session_argument(parser: argparse.ArgumentParser) -> None:
    """Let a command take a session and `--json`."""
    parser.add_argument("session", nargs="?", help="id, name or journal file; default: the last")
    parser.add_argument("--json", action="store_true", help="for programs")


def find_journal(wanted: str | None) -> Path:
    """Find a session's journal by id, name or file; None means the last session here."""
    if wanted and (path := Path(wanted)).suffix == ".jsonl" and path.is_file():
        return path
    here = os.path.realpath(".")
    if wanted:
        return store.find(wanted, here, say=_say).path
    remedy = "give a session's id: 'prong sessions --all' lists those of other folders"
    return store.latest(here, remedy=remedy).path


def _say(text: str) -> None:
    print(f"prong: {printable(text)}", file=sys.stderr)


def print_json(value: object) -> None:
    """Print a value for programs."""
    print(msgspec.json.format(msgspec.json.encode(value, enc_hook=str)).decode())


def _sessions(parser: argparse.ArgumentParser, words: list[str]) -> int:
    parser.description = "List sessions, the latest first."
    parser.add_argument("--all", action="store_true", help="of all folders")
    parser.add_argument("--json", action="store_true", help="for programs")
    args = parser.parse_args(words)
    found = store.sessions(None if args.all else os.path.realpath("."))
    if args.json:
        print_json(found)
        return 0
    for info in found:
        day = time.strftime("%Y-%m-%d %H:%M", time.localtime(info.modified))
        where = f"  {info.cwd}" if args.all else ""
        title = printable(info.title)[:60]
        print(f"{info.id}  {day}  {money(info.cost):>14}  {info.entries:>4}  {title}{where}")
    if not found:
        print("no sessions here; --all lists those of other folders", file=sys.stderr)
    return 0


def _verify(parser: argparse.ArgumentParser, words: list[str]) -> int:
    parser.description = "Check every record and every digest of a session's journal."
    session_argument(parser)
    args = parser.parse_args(words)
    report = verify(find_journal(args.session), dialect)
    if args.json:
        print_json(report)
        return 0 if report.sound else 1
    print(f"{report.path}: session {report.session}")
    entries = "1 entry" if report.entries == 1 else f"{report.entries} entries"
    requests = counted(report.requests, "request")
    print(f"{counted(report.records, 'record')}, {entries}, {requests} good")
    for agent, held, digest in report.agents:
        print(f"  {agent}: {held} {'entry' if held == 1 else 'entries'}, digest {digest}")
    if report.torn:
        print(f"unfinished last record of {report.torn} bytes; the next resume cuts it off")
    if report.damage is not None:
        damage = report.damage
        print(f"damaged at line {damage.line}, byte {damage.offset}: {damage.why}")
        print("what stands before is good; go on from there with --resume ID --fork-session")
    return 0 if report.sound else 1


def replayed(wanted: str | None) -> Replay:
    """Read a session's journal, as far as it is sound."""
    replay, damage = examine(find_journal(wanted), dialect)
    if damage is not None:
        print(f"prong: damaged at line {damage.line}; what follows is left out", file=sys.stderr)
    return replay


def _show(parser: argparse.ArgumentParser, words: list[str]) -> int:
    parser.description = "Draw a session's conversations as the model sees them."
    session_argument(parser)
    args = parser.parse_args(words)
    drawn = {agent: outline(prompt) for agent, prompt in replayed(args.session).agents.items()}
    if args.json:
        print_json(drawn)
        return 0
    for agent, text in drawn.items():
        print(f"{agent}\n{printable(text)}\n")
    return 0


def _trust(parser: argparse.ArgumentParser, words: list[str]) -> int:
    parser.description = "Let a folder's own agents, hooks, servers and rules work, or no longer."
    parser.add_argument("folder", nargs="?", default=".")
    parser.add_argument("--list", action="store_true", help="only say what the folder wants")
    parser.add_argument("--remove", action="store_true", help="trust it no longer")
    args = parser.parse_args(words)
    home, folder = os.path.expanduser("~"), os.path.realpath(args.folder)  # noqa: PTH111
    if not args.remove and not Path(folder).is_dir():
        raise UsageError(f"{args.folder!r} is not a folder; name the one to trust")
    trust = Trust(home)
    wants = needs_trust(home, folder)
    for want in wants:
        print(f"  {printable(want)}")
    if args.list:
        print("trusted" if trust.is_trusted(folder) else "not trusted")
    elif args.remove:
        trust.distrust(folder)
        print(f"{folder} is not trusted any more")
    else:
        trust.trust(folder)
        may = "what is listed above may run" if wants else "so far nothing in it needs that"
        print(f"{folder} is trusted: {may}")
    return 0
