"""Commands that look at sessions without talking to a model."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

import msgspec

from prong.cost import Row, total
from prong.entry import Usage
from prong.face.line import describe_usage, money, printable
from prong.prompt import outline
from prong.session import store
from prong.session.replay import Replay, examine
from prong.session.trust import Trust, needs_trust
from prong.session.verify import verify
from prong.wire import dialect


def run_command(name: str, words: list[str]) -> int:
    """Run one of the commands; gives the exit code."""
    commands = {
        "sessions": _sessions,
        "verify": _verify,
        "cost": _cost,
        "show": _show,
        "trust": _trust,
    }
    parser = argparse.ArgumentParser(prog=f"prong {name}", allow_abbrev=False)
    return commands[name](parser, words)


def _session_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", nargs="?", help="id, name or journal file; default: the last")
    parser.add_argument("--json", action="store_true", help="for programs")


def _find(wanted: str | None) -> Path:
    if wanted and (path := Path(wanted)).suffix == ".jsonl" and path.is_file():
        return path
    here = os.path.realpath(".")
    return store.find(wanted, here).path if wanted else store.latest(here).path


def _print_json(value: object) -> None:
    print(msgspec.json.format(msgspec.json.encode(value, enc_hook=str)).decode())


def _sessions(parser: argparse.ArgumentParser, words: list[str]) -> int:
    parser.description = "List sessions, the latest first."
    parser.add_argument("--all", action="store_true", help="of all folders")
    parser.add_argument("--json", action="store_true", help="for programs")
    args = parser.parse_args(words)
    found = store.sessions(None if args.all else os.path.realpath("."))
    if args.json:
        _print_json(found)
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
    _session_argument(parser)
    args = parser.parse_args(words)
    report = verify(_find(args.session), dialect)
    if args.json:
        _print_json(report)
        return 0 if report.sound else 1
    print(f"{report.path}: session {report.session}")
    print(f"{report.records} records, {report.entries} entries, {report.requests} requests good")
    for agent, entries, digest in report.agents:
        print(f"  {agent}: {entries} entries, digest {digest}")
    if report.torn:
        print(f"unfinished last record of {report.torn} bytes; the next resume cuts it off")
    if report.damage is not None:
        damage = report.damage
        print(f"damaged at line {damage.line}, byte {damage.offset}: {damage.why}")
        print("what stands before is good; go on from there with --resume ID --fork-session")
    return 0 if report.sound else 1


class CostLine(msgspec.Struct, frozen=True):
    """What one agent, or the whole session, cost."""

    agent: str
    requests: int
    usage: Usage
    cost: float | None
    uncached: float | None


def _replayed(wanted: str | None) -> Replay:
    replay, damage = examine(_find(wanted), dialect)
    if damage is not None:
        print(f"prong: damaged at line {damage.line}; what follows is left out", file=sys.stderr)
    return replay


def _cost(parser: argparse.ArgumentParser, words: list[str]) -> int:
    parser.description = "Say what a session cost, agent by agent."
    _session_argument(parser)
    args = parser.parse_args(words)
    rows = [paid.row for paid in _replayed(args.session).requests if not paid.inherited]
    agents = dict.fromkeys(row.agent for row in rows)
    lines = [_cost_line(agent, [r for r in rows if r.agent == agent]) for agent in agents]
    lines.append(_cost_line("session", rows))
    if args.json:
        _print_json(lines)
        return 0
    for line in lines:
        without = "" if line.uncached is None else f" (without cache {money(line.uncached)})"
        print(f"{line.agent}: {money(line.cost)}{without}")
        print(f"  {line.requests} requests: {describe_usage(line.usage)}")
    return 0


def _cost_line(agent: str, rows: list[Row]) -> CostLine:
    summed = total(rows)
    return CostLine(agent, summed.requests, summed.usage, summed.cost, summed.uncached)


def _show(parser: argparse.ArgumentParser, words: list[str]) -> int:
    parser.description = "Draw a session's conversations as the model sees them."
    _session_argument(parser)
    args = parser.parse_args(words)
    drawn = {agent: outline(prompt) for agent, prompt in _replayed(args.session).agents.items()}
    if args.json:
        _print_json(drawn)
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
    trust = Trust(home)
    for want in needs_trust(home, folder):
        print(f"  {printable(want)}")
    if args.list:
        print("trusted" if trust.is_trusted(folder) else "not trusted")
    elif args.remove:
        trust.distrust(folder)
        print(f"{folder} is not trusted any more")
    else:
        trust.trust(folder)
        print(f"{folder} is trusted: what is listed above may run")
    return 0
