"""Removes old sessions, never one that something hangs on: unmerged work, a team, a process.

Whatever is in doubt stays. What was removed and what was kept is said.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from prong.errors import ProngError
from prong.event import MAIN
from prong.host.escape import escaped
from prong.host.worktree import Worktree
from prong.journal import store
from prong.journal.lock import held
from prong.journal.note import ChildSpec
from prong.journal.replay import Replay, examine

DAY = 86_400.0
_PATIENCE = 2.0
"""Seconds after which the daily cleaning leaves the rest for another day."""
_MARK = "cleaned"
"""A file whose time is that of the last time all was looked through."""


class KeptSession(msgspec.Struct, frozen=True):
    """An old session that was not removed."""

    id: str
    why: str


class CleanReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was removed, and what was not though it is old."""

    days: float
    removed: tuple[str, ...] = ()
    kept: tuple[KeptSession, ...] = ()
    whole: bool = True
    """Whether all were looked at."""

    @property
    def text(self) -> str:
        """What was done, for people; empty if there was nothing to do."""
        if not self.removed and not self.kept:
            return ""
        number = len(self.removed)
        what = "session" if number == 1 else "sessions"
        done = f"{number} {what} older than {self.days:g} days removed"
        kept = "; ".join(f"{one.id} ({one.why})" for one in self.kept[:5])
        more = f" and {len(self.kept) - 5} more" if len(self.kept) > 5 else ""
        return f"{done}; kept: {kept}{more}" if kept else done


def clean_sessions(
    days: float,
    *,
    home: Path | None = None,
    spare: str = "",
    dry: bool = False,
    clock: Callable[[], float] = time.time,
    patience: float | None = None,
) -> CleanReport:
    """Remove the sessions of all folders to which nothing was written for so many days.

    One is spared by its id. With `dry` nothing is removed; after so many seconds of `patience` the
    rest is left for another time.
    """
    before, until = clock() - days * DAY, time.monotonic() + (patience or 1e9)
    removed: list[str] = []
    kept: list[KeptSession] = []
    for path in store.untouched(before, home):
        if time.monotonic() > until:
            return CleanReport(days=days, removed=(*removed,), kept=(*kept,), whole=False)
        if path.stem == spare:
            continue
        with held(path) as ours:
            why = _hangs_on(path) if ours else "it is open in another process"
            if not why and not dry:
                why = _remove(path)
        if why:
            kept.append(KeptSession(path.stem, why))
        else:
            removed.append(path.stem)
    return CleanReport(days=days, removed=tuple(removed), kept=tuple(kept))


def clean_daily(days: float, *, home: Path, spare: str, clock: Callable[[], float]) -> str:
    """Do so at most once a day, and not for long; gives what to tell the user."""
    mark = home / _MARK
    with suppress(OSError):
        if clock() - mark.stat().st_mtime < DAY:
            return ""
    report = clean_sessions(days, home=home, spare=spare, clock=clock, patience=_PATIENCE)
    if report.whole:
        with suppress(OSError):
            mark.touch(mode=0o600)
            os.utime(mark, (clock(), clock()))
    return f"{report.text} (the setting cleanupPeriodDays)" if report.text else ""


def _hangs_on(path: Path) -> str:
    """Say what keeps a session from being removed; empty if nothing does."""
    try:
        replay, damage = examine(path)
        return "it is damaged" if damage is not None else next(_reasons(replay), "")
    except ProngError as error:
        return str(error)


def _reasons(replay: Replay) -> Iterator[str]:
    noted = replay.noted(MAIN)
    if noted.team is not None and noted.team.team:
        yield f"it leads the team {noted.team.team}"
    if noted.member_of is not None:
        yield "it is a member of a team"
    for _, spec in replay.each(ChildSpec):
        if spec.isolation == "remote":
            yield f"{spec.task_id} worked on another machine"
        if spec.worktree is not None and (why := _unmerged(spec.worktree, replay.opened.cwd)):
            yield f"{spec.task_id} has unmerged work: {why}"
    if escaped(replay.opened.session):
        yield "a process that it started still runs"


def _unmerged(worktree: Worktree, cwd: str) -> str:
    """Say where work of a child is that is nowhere else; empty if there is none."""
    if os.path.lexists(worktree.path):
        return worktree.path
    ref = f"refs/heads/{worktree.branch.removeprefix('refs/heads/')}"
    if not os.path.isdir(cwd) or _git(cwd, "rev-parse", "--verify", "--quiet", ref) == 1:  # noqa: PTH112 - a text
        return ""
    merged = _git(cwd, "merge-base", "--is-ancestor", ref, "HEAD") == 0
    return "" if merged else f"the branch {worktree.branch}"


def _git(cwd: str, *words: str) -> int:
    """Ask git; gives its code, which is neither 0 nor 1 where it cannot say."""
    try:
        done = subprocess.run(
            ["git", "-C", cwd, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return -1
    return done.returncode


def _remove(path: Path) -> str:
    """Remove a session with all that is kept of it; gives why that was not possible."""
    from shutil import rmtree

    folder = path.with_suffix("")
    try:
        if folder.is_dir() and not folder.is_symlink():
            rmtree(folder)
        path.unlink()
    except OSError as error:
        return f"it cannot be removed ({error.strerror})"
    return ""
