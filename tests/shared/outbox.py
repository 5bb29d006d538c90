"""What waits in an outbox, as tests look at it."""

from __future__ import annotations

from collections.abc import Iterable

from prong.team.notice import Notice
from prong.team.received import Received


def notices_in(waiting: Iterable[Notice | Received]) -> list[Notice]:
    """Give the notices of tasks that have ended; what else waits is a mistake."""
    found = list(waiting)
    notices = [one for one in found if isinstance(one, Notice)]
    assert len(notices) == len(found), found
    return notices
