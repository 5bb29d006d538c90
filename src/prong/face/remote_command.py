"""`prong remote`: other machines on which agents work."""

from __future__ import annotations

import argparse
import signal

import anyio
import msgspec

from prong.face.command_grammar import parser_of
from prong.face.doctor import describe_findings
from prong.face.output import show, show_json, tell
from prong.session import Checkup, check_remote
from prong.system.stop_signal import received, stop_signals


def run_remote(words: list[str]) -> int:
    """Run `prong remote check`; gives 1 if something is broken, more if it was stopped."""
    args = parser_of("remote").parse_args(words)
    found = anyio.run(_check, args)
    if isinstance(found, signal.Signals):
        return 128 + found
    if args.json:
        show_json(msgspec.json.format(msgspec.json.encode(found)))
    else:
        show("\n".join(describe_findings(found)))
    return int(any(one.state == "broken" for one in found))


async def _check(args: argparse.Namespace) -> tuple[Checkup, ...] | signal.Signals:
    """Try the target; gives the signal that came before the end, if one did."""
    found: tuple[Checkup, ...] | signal.Signals = ()
    async with anyio.create_task_group() as group:
        with received(*stop_signals()) as signals:

            async def heed() -> None:
                nonlocal found
                found = await anext(signals)
                tell("stopped: removing what was sent there")
                group.cancel_scope.cancel()

            group.start_soon(heed)
            found = await check_remote(args.cwd, args.name, settings=args.settings, tell=tell)
            group.cancel_scope.cancel()
    return found
