"""`prong remote`: other machines on which agents work."""

from __future__ import annotations

import anyio
import msgspec

from prong.face.command_grammar import parser_of
from prong.face.doctor import describe_findings
from prong.face.output import show, show_json, tell
from prong.session import check_remote


def run_remote(words: list[str]) -> int:
    """Run `prong remote check`; gives 1 if something is broken."""
    args = parser_of("remote").parse_args(words)
    found = anyio.run(lambda: check_remote(args.cwd, args.name, settings=args.settings, tell=tell))
    if args.json:
        show_json(msgspec.json.format(msgspec.json.encode(found)))
    else:
        show("\n".join(describe_findings(found)))
    return int(any(one.state == "broken" for one in found))
