"""Which notices and mails stand in the conversations of a journal."""

from __future__ import annotations

from collections.abc import Collection

from prong.entry import User
from prong.journal.replay import Replay
from prong.team.notice import mentions
from prong.team.received import holds_mail


def told(replay: Replay, ids: Collection[str]) -> set[str]:
    """Name those of some notices and mails that stand, or once stood, in a conversation."""
    found = set[str]()
    for placed in replay.entries if ids else ():
        tip = placed.prompt.tip
        if tip is None or tip.kind != "notice":
            continue
        entry = placed.prompt.head.dialect.read(tip.role, tip.data)
        if isinstance(entry, User):
            text = entry.text
            found |= {name for name in ids if mentions(text, name) or holds_mail(text, name)}
    return found
