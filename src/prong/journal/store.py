"""Where sessions are kept, and how they are found again.

A session is one file, `<store>/projects/<slug of the folder>/<id>.jsonl`. A list of sessions reads
the first and the last lines of each, because every answered request carries a tally of the session
so far; only a file whose end holds no request is read whole.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

import msgspec

from prong.errors import BadInput, NoSuchSession, NotPossibleNow, UnknownName
from prong.foreign_json import NOT_JSON
from prong.journal.record import (
    FIRST_LINE,
    EntryRecord,
    Foreign,
    HeadRecord,
    NoteRecord,
    Opened,
    Record,
    RequestRecord,
    Tally,
    check,
    decode,
    is_unused,
)
from prong.journal.replay import noted
from prong.system.path_form import is_absolute

_LAST = 16384
_LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"
_ID = r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}"


class SessionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A session as a list shows it."""

    id: str
    path: Path
    cwd: str
    created: float
    modified: float
    title: str
    """Its title, or the first words of the user."""
    name: str
    """Its title only if it was given one."""
    entries: int
    model: str
    cost: float | None
    """In dollars; None when some request's price is unknown."""
    forked_from: str = ""
    damage: str = ""
    """What is wrong with its first record, if anything; the others are not looked at."""


def home(env: Mapping[str, str] = os.environ) -> Path:
    """Give the folder for everything that is kept across sessions.

    Where `XDG_STATE_HOME` is set it is there, unless `~/.prong` has sessions already: nobody's
    sessions are in two places.
    """
    chosen = env.get("PRONG_HOME")
    if chosen:
        return Path(os.path.expanduser(chosen)).absolute()  # noqa: PTH111 - leaves ~nobody alone
    own = Path(env.get("HOME") or Path.home()) / ".prong"
    state = env.get("XDG_STATE_HOME", "")
    # By its own rules what is not absolute counts as not set.
    if not is_absolute(state) or (own / "projects").exists():
        return own
    return Path(state) / "prong"


def slug(cwd: str | Path) -> str:
    """Name a folder's sessions: readable, and unlike that of any other folder."""
    path = str(cwd)
    words = re.sub(r"[^A-Za-z0-9]+", "-", path).strip("-")[-60:].strip("-")
    mark = blake2b(os.fsencode(path), digest_size=5).hexdigest()
    return f"{words}-{mark}" if words else mark


def project(cwd: str | Path, store: Path | None = None) -> Path:
    """Give the folder that holds the sessions of a working folder."""
    return (store or home()) / "projects" / slug(cwd)


def location(cwd: str | Path, session: str, store: Path | None = None) -> Path:
    """Give the place of a session's journal."""
    if not re.fullmatch(_ID, session):
        raise BadInput(
            f"{session[:80]!r} cannot name a session; use letters, digits, '.', '_' and '-'"
        )
    return project(cwd, store) / f"{session}.jsonl"


def new_id(now: float | None = None) -> str:
    """Make a session id: sorts by time, and cannot be guessed from it."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now))
    return f"{stamp}-{''.join(_LETTERS[byte % 32] for byte in os.urandom(6))}"


def sessions(cwd: str | Path | None = None, store: Path | None = None) -> list[SessionInfo]:
    """List the sessions of a folder, or all, the latest first.

    What is no journal is left out, and a session in which nothing was said.
    """
    found = (inspect(path) for path, _ in _newest_first(_files(cwd, store)))
    return [info for info in found if info is not None and info.entries]


_FIRST = (
    "start one without --continue; 'prong sessions --all' lists those of other folders and of "
    "worktrees, in which -C goes on"
)


def latest(cwd: str | Path, store: Path | None = None, *, remedy: str = _FIRST) -> SessionInfo:
    """Give the session of a folder that was written to last.

    Raises NoSuchSession, with what to do instead, if nothing was said in any.
    """
    for path, _ in _newest_first(_files(cwd, store)):
        if (info := inspect(path)) is not None and info.entries:
            return info
    raise NoSuchSession(f"there is no session in {cwd} yet; {remedy}")


def find(
    ref: str,
    cwd: str | Path | None = None,
    store: Path | None = None,
    *,
    say: Callable[[str], None] | None = None,
) -> SessionInfo:
    """Find a session by id, by the beginning of its id, or by name; those of `cwd` go first.

    Of several with one name it is the latest, and that is said.
    """
    places = [cwd, None] if cwd is not None else [None]
    for place in places:
        paths = [path for path, _ in _newest_first(_files(place, store))]
        if info := _matching(ref, paths):
            return info
        if infos := _named(ref, paths):
            if len(infos) > 1 and say is not None:
                say(
                    f"{len(infos)} sessions are named {ref!r}; this is the latest, "
                    f"{infos[0].id}, and the others are {_list(infos[1:])}"
                )
            return infos[0]
    if any(path.stem == ref and _is_unused(path) for path, _ in _files(None, store)):
        raise NoSuchSession(
            f"session {ref} was ended before anything was stored in it; begin it again with "
            f"--session-id {ref}"
        )
    raise NoSuchSession(_no_such(ref, sessions(None, store)))


def must_be_free(
    name: str | None, cwd: str | Path, store: Path | None = None, *, but: str = ""
) -> None:
    """See to it that a name means one session of a folder, other than the one with the id `but`.

    Raises UsageError if another one has it.
    """
    if not name:
        return
    for info in _named(name, [path for path, _ in _newest_first(_files(cwd, store))]):
        if info.id != but:
            raise NotPossibleNow(
                f"the session {info.id} is named {name!r} already; choose another name, or go on "
                f"with it: --resume {info.id}"
            )


def untouched(before: float, store: Path | None = None) -> list[Path]:
    """List the journals of all folders to which nothing was written since, the oldest first."""
    files = _newest_first(_files(None, store))
    return [path for path, modified in reversed(files) if modified < before * 1e9]


def discard(path: Path) -> None:
    """Remove a journal in which nothing was stored, and the folder beside it if that is empty."""
    path.unlink(missing_ok=True)
    folder = path.with_suffix("")
    with suppress(OSError):
        (folder / "events.jsonl").unlink(missing_ok=True)
        outbox = folder / "outbox.jsonl"
        if not outbox.stat().st_size:
            outbox.unlink()
        folder.rmdir()


def remove(path: Path) -> None:
    """Remove a session that is not to be kept: its journal, and all that lies beside it."""
    import shutil

    path.unlink(missing_ok=True)
    shutil.rmtree(path.with_suffix(""), ignore_errors=True)


def inspect(path: Path) -> SessionInfo | None:
    """Read what a list shows of a session; None if the file is no journal.

    One whose first record is damaged is still known by its name and by the other records.
    """
    try:
        with path.open("rb") as file:
            opened, damage = _opening(path, file.readline(FIRST_LINE))
            status = os.fstat(file.fileno())
            tally = Tally()
            size = _LAST
            while True:
                start = max(0, status.st_size - size)
                file.seek(start)
                lines = file.read(status.st_size - start).split(b"\n")
                tally, complete = _tally(lines[1:] if start else lines)
                if complete or not start:
                    break
                size *= 8
    except OSError:
        return None
    if damage and tally == Tally():
        return None
    return SessionInfo(
        id=opened.session,
        path=path,
        cwd=opened.cwd,
        created=opened.created,
        modified=status.st_mtime,
        title=tally.title or tally.about,
        name=tally.title,
        entries=tally.entries,
        model=tally.model,
        cost=None if tally.unpriced else tally.cost,
        forked_from=opened.forked_from,
        damage=damage,
    )


def _opening(path: Path, line: bytes) -> tuple[Opened, str]:
    """Read the first record; what is damaged is put in by what the file's name says."""
    record = _parse(line.removesuffix(b"\n"))
    if isinstance(record, Opened) and check(line.removesuffix(b"\n"), 0) is not None:
        return record, ""
    why = "the checksum of line 1 (byte 0) does not match"
    return Opened(session=path.stem, created=0.0, cwd=""), why


def _is_unused(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return is_unused(file.read(FIRST_LINE))
    except OSError:
        return False


def _tally(lines: list[bytes]) -> tuple[Tally, bool]:
    """Sum up lines from the last request on; without a request, all lines are needed."""
    after: list[Record] = []
    start = Tally()
    complete = False
    for line in reversed(lines):
        record = _parse(line)
        if isinstance(record, RequestRecord):
            start, complete = record.tally, True
            break
        if record is not None:
            after.append(record)
    for record in reversed(after):
        start = _counted(start, record)
    return start, complete


def _counted(tally: Tally, record: Record) -> Tally:
    match record:
        case EntryRecord():
            return msgspec.structs.replace(tally, entries=tally.entries + 1)
        case HeadRecord():
            return msgspec.structs.replace(tally, model=record.spec.model)
        case NoteRecord():
            return noted(tally, record)
        case _:
            return tally


def _parse(line: bytes) -> Record | None:
    try:
        record = decode(line)
    except NOT_JSON:
        return None
    return None if isinstance(record, Foreign) else record


def _files(cwd: str | Path | None, store: Path | None) -> Iterator[tuple[Path, int]]:
    if cwd is not None:
        yield from _journals(project(cwd, store))
        return
    for folder in _scan((store or home()) / "projects"):
        if folder.is_dir(follow_symlinks=False):
            yield from _journals(Path(folder.path))


def _journals(folder: Path) -> Iterator[tuple[Path, int]]:
    for file in _scan(folder):
        if file.name.endswith(".jsonl") and file.is_file(follow_symlinks=False):
            try:
                yield Path(file.path), file.stat(follow_symlinks=False).st_mtime_ns
            except FileNotFoundError:
                continue


def _scan(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _newest_first(files: Iterable[tuple[Path, int]]) -> list[tuple[Path, int]]:
    return sorted(files, key=lambda file: (file[1], file[0].name), reverse=True)


def _matching(ref: str, paths: list[Path]) -> SessionInfo | None:
    exact = [path for path in paths if path.stem == ref]
    begun = [path for path in paths if ref and path.stem.startswith(ref)]
    for path in exact:
        if (info := inspect(path)) is not None:
            return info
    infos = [info for path in begun if (info := inspect(path)) is not None]
    if len(infos) > 1:
        raise UnknownName(
            f"{ref!r} names {len(infos)} sessions; say which by more of its id: {_list(infos)}"
        )
    return infos[0] if infos else None


def _named(name: str, paths: list[Path]) -> list[SessionInfo]:
    wanted = name.strip().casefold()
    every = (inspect(path) for path in paths if wanted)
    return [
        info for info in every if info and info.entries and info.name.strip().casefold() == wanted
    ]


def _no_such(ref: str, infos: list[SessionInfo]) -> str:
    from difflib import get_close_matches

    by_word = {word: info for info in reversed(infos) for word in (info.id, info.name) if word}
    words = get_close_matches(ref, by_word, n=3, cutoff=0.5)
    near = list({by_word[word].id: by_word[word] for word in words}.values())
    if near:
        return f"there is no session {ref!r}; did you mean {_list(near)}?"
    if infos:
        return f"there is no session {ref!r}; the latest are {_list(infos[:3])}"
    return f"there is no session {ref!r}, nor any other yet"


def _list(infos: list[SessionInfo]) -> str:
    return ", ".join(f"{i.id} ({i.title[:40]})" if i.title else i.id for i in infos[:5])
