"""`prong remote`: other machines on which agents work."""

from __future__ import annotations

import anyio
import msgspec

from prong.face.command_parser import CommandParser
from prong.face.doctor import describe_findings
from prong.face.output import show, show_json
from prong.session import check_remote


def run_remote(words: list[str]) -> int:
    """Run `prong remote check`; gives 1 if something is broken."""
    parser = CommandParser(
        prog="prong remote",
        description="Try a machine of the setting remote.targets from end to end, with no model "
        "and no key: a small repository is sent there and comes back.",
        epilog="exit code: 0 if agents can work there (+), be it with limits (~); 1 if not (!)",
    )
    parser.add_argument("action", choices=("check",))
    parser.add_argument("name", nargs="?", default="", help="which; default: remote.default")
    parser.add_argument("-C", "--cwd", default=".", metavar="DIR", help="the project folder")
    parser.add_argument("--settings", metavar="JSON|FILE")
    parser.add_argument("--json", action="store_true", help="for programs")
    args = parser.parse_args(words)
    found = anyio.run(lambda: check_remote(args.cwd, args.name, settings=args.settings))
    if args.json:
        show_json(msgspec.json.format(msgspec.json.encode(found)))
    else:
        show("\n".join(describe_findings(found)))
    return int(any(one.state == "broken" for one in found))
