"""Opens the journal of a session: a new one, a resumed one, or a copy of one."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from prong.about import __version__
from prong.config.place import Place
from prong.host import close_to_others
from prong.journal import store
from prong.journal.branch import branch
from prong.journal.record import Opened
from prong.journal.replay import Replay
from prong.journal.writer import Journal
from prong.wire import dialect


class Entered(msgspec.Struct, frozen=True):
    """An open journal, and what it held."""

    journal: Journal
    replay: Replay | None = None
    """What a resumed session finds; None for a new one."""
    made: Path | None = None
    """The file, if this start has made it; it goes again if the start fails."""


def enter(place: Place) -> Entered:
    """Open the journal that the options ask for.

    Raises NoSuchSession, JournalBusy, JournalDamaged or UsageError.
    """
    options = place.options
    usual = {Path(place.home) / ".prong", Path(place.env.get("XDG_STATE_HOME", "")) / "prong"}
    if place.store in usual and close_to_others(place.store):
        place.warn(f"{place.store} could be read by other users; now it is for you alone")
    if options.resume is None and not options.continue_last:
        session = options.session_id or store.new_id()
        path = store.location(place.cwd, session, place.store)
        store.must_be_free(options.name, place.cwd, place.store)
        return Entered(Journal.create(path, opened_as(place, session)), made=path)
    if options.resume is not None:
        info = store.find(options.resume, place.cwd, place.store, say=place.warnings.append)
    else:
        info = store.latest(place.cwd, place.store)
    kept = "" if options.fork_session else info.id
    store.must_be_free(options.name, place.cwd, place.store, but=kept)
    if not options.fork_session:
        return Entered(*Journal.resume(info.path, dialect))
    session = options.session_id or store.new_id()
    path = store.location(place.cwd, session, place.store)
    branch(info.path, path, opened_as(place, session), dialect, say=place.warnings.append)
    return Entered(*Journal.resume(path, dialect), made=path)


def opened_as(place: Place, session: str) -> Opened:
    """Give the first line of a session's journal."""
    return Opened(session=session, created=time.time(), cwd=place.cwd, program=__version__)
