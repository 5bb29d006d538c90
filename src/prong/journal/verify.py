"""Says whether a journal is sound, and where it is not."""

from __future__ import annotations

from pathlib import Path

import msgspec

from prong.errors import JournalDamaged
from prong.journal.record import Opened
from prong.journal.replay import Damage, Replay, examine
from prong.journal.transfer import Dialects
from prong.wire import dialect


class VerifyReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a journal holds up to its end or its first damage."""

    path: Path
    session: str
    records: int
    agents: tuple[tuple[str, int, str], ...]
    """Each agent with the number of entries and the digest of its prompt."""
    entries: int
    """Entries whose bytes match their digest."""
    requests: int
    bytes: int
    """Length of the good lines."""
    torn: int
    """Bytes of an unfinished line at the end; harmless, and cut off on the next resume."""
    damage: Damage | None

    @property
    def sound(self) -> bool:
        """Whether everything that was ever stored whole is there."""
        return self.damage is None


def verify(path: Path, dialects: Dialects = dialect) -> VerifyReport:
    """Check every line and every digest of a journal; takes no lock and changes nothing."""
    try:
        replay, damage = examine(path, dialects)
    except JournalDamaged as error:
        replay = Replay(Opened(session=path.stem, created=0.0, cwd=""))
        damage = Damage(error.line, error.offset, error.why)
    return VerifyReport(
        path=path,
        session=replay.opened.session,
        records=replay.lines,
        agents=tuple((name, p.depth, p.digest) for name, p in replay.agents.items()),
        entries=len(replay.entries),
        requests=len(replay.requests),
        bytes=replay.length,
        torn=replay.torn,
        damage=damage,
    )
