"""Branches a session off another: the same bytes under a new id."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from prong.event import MAIN
from prong.journal.note import TurnSettled
from prong.journal.record import Opened
from prong.journal.replay import Dialects, examine
from prong.journal.writer import Journal
from prong.wire import dialect


def branch(
    source: Path,
    target: Path,
    opened: Opened,
    dialects: Dialects = dialect,
    *,
    upto: int | None = None,
    settled: str = "",
    say: Callable[[str], None] | None = None,
) -> Opened:
    """Copy a journal's good lines, or those up to number `upto`, under another session's id.

    `settled` is the digest of a prompt that waits for no reply in the copy, whatever it ends with.
    Heads and entries keep their bytes, so the provider's cache serves the new session too. The
    source may be damaged or open in another process. What is lost by that is said.
    """
    replay, damage = examine(source, dialects)
    if damage is not None and say is not None:
        lost = source.read_bytes()[damage.offset :].count(b"\n")
        say(
            f"{source} is damaged at line {damage.line} ({damage.why}): the copy has the "
            f"{replay.lines} good lines before it, and {lost or 1} from there on are lost"
        )
    last = replay.lines if upto is None else min(upto, replay.lines)
    opened = msgspec.structs.replace(
        opened, forked_from=replay.opened.session, inherited=max(last, 1) - 1
    )
    journal = Journal.create(target, opened)
    try:
        journal.copy(source, last=last)
        if settled:
            journal.note(MAIN, TurnSettled(settled))
    except BaseException:
        target.unlink(missing_ok=True)
        raise
    finally:
        journal.close()
    return opened
