"""Takes over sessions of other programs: they are stored as ours, and go on as a new prompt."""

from __future__ import annotations

import re
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from prong.about import __version__
from prong.errors import BadInput, JournalFull
from prong.event import MAIN
from prong.ids import TaskId, below
from prong.journal import store
from prong.journal.claude_session import is_claude, read_claude
from prong.journal.codex_session import is_codex, read_codex
from prong.journal.foreign_session import ForeignSession, ObjectLines, items, members, texts
from prong.journal.lock import remedy
from prong.journal.note import Titled
from prong.journal.record import Opened
from prong.journal.writer import Journal
from prong.prompt import Head, Prompt
from prong.system.path_form import real_path, user_home
from prong.wire import HeadSpec, dialect

_LOOKED_AT = 50
"""Lines in which a file says whose it is."""
_LISTED = 200
"""Files that are listed, the latest."""


class ImportedSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session that was taken over."""

    id: str
    program: str
    entries: int
    agents: int
    """Beside the main one."""
    text: str
    """What was done, for people."""
    notes: tuple[str, ...] = ()
    """What was left out."""


def import_session(
    path: Path, *, name: str = "", cwd: str | None = None, home: Path | None = None
) -> ImportedSession:
    """Store a session of Claude Code or Codex as one of this folder, whole or not at all.

    Raises BadInput if the file is of neither, or of a version that is not known yet; JournalFull.
    """
    found = _read(path)
    folder = real_path(cwd or ".")
    store.must_be_free(name, folder, home)
    session = store.new_id()
    opened = Opened(session=session, created=time.time(), cwd=folder, program=__version__)
    # No model has this name: whoever goes on makes a head of their own, and that is said.
    spec = HeadSpec(model=f"{found.model or 'unknown'} (imported)", cache_key=session)
    head = Head(dialect("anthropic"), spec)
    begun = Journal.create(store.location(folder, session, home), opened)
    with _whole_or_gone(begun.path, path), begun as journal:
        for agent, entries in found.agents.items():
            place = MAIN if agent == "main" else below(MAIN, TaskId(agent))
            journal.keep(place, Prompt(head).append(*entries))
        if title := name or " ".join(found.title.split())[:200]:
            journal.note(MAIN, Titled(title))
    count, children = len(found.agents["main"]), len(found.agents) - 1
    more = f" and {children} agents" if children else ""
    return ImportedSession(
        id=session,
        program=found.program,
        entries=count,
        agents=children,
        text=f"{found.program}: {count} entries{more} taken over; go on with: prong --resume "
        f"{session}. It begins a new prompt: nothing of it is cached, and agents can only be read.",
        notes=found.notes,
    )


@contextmanager
def _whole_or_gone(journal: Path, source: Path) -> Generator[None]:
    """Remove a journal that was not written to its end: half a session is none to go on with."""
    try:
        yield
    except BaseException as error:
        store.discard(journal)
        if isinstance(error, JournalFull) and isinstance(cause := error.__cause__, OSError):
            raise JournalFull(
                f"{journal} cannot be written ({cause.strerror}); nothing of {source} was taken "
                f"over: {remedy(cause)}, then import it again"
            ) from cause
        raise


def _read(path: Path) -> ForeignSession:
    for number, line in enumerate(ObjectLines(path)):
        if is_codex(line):
            return read_codex(path)
        if is_claude(line):
            return read_claude(path)
        if "crc" in line and "k" in line:
            raise BadInput(f"{path} is a session of prong; go on with it: --resume {path.stem}")
        if number >= _LOOKED_AT:
            break
    raise BadInput(f"{path} is no session of Claude Code or Codex that is known here")


class Importable(msgspec.Struct, frozen=True, kw_only=True):
    """A session of another program that could be taken over."""

    program: str
    path: Path
    day: str
    title: str
    """The first words of the user."""


def importable(cwd: str, *, home: Path | None = None) -> list[Importable]:
    """List the sessions of other programs that were held in a folder, the latest first."""
    top = home or Path(user_home())
    slug = re.sub(r"[^A-Za-z0-9]", "-", cwd)
    claude = [("Claude Code", one) for one in (top / ".claude/projects" / slug).glob("*.jsonl")]
    codex = [("Codex", one) for one in (top / ".codex/sessions").glob("**/rollout-*.jsonl")]
    files = sorted([*claude, *codex], key=lambda file: _modified(file[1]), reverse=True)
    found = (_importable(program, path, cwd) for program, path in files[:_LISTED])
    return [one for one in found if one is not None]


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _importable(program: str, path: Path, cwd: str) -> Importable | None:
    """Look at the first lines of a file; None if it is of another folder."""
    title = ""
    try:
        for number, line in enumerate(ObjectLines(path)):
            payload = members(line.get("payload"))
            if line.get("type") == "session_meta" and payload.get("cwd") != cwd:
                return None
            title = title or next(_first_words(line, payload), "")
            if title or number >= _LOOKED_AT:
                break
    except BadInput:
        return None
    day = time.strftime("%Y-%m-%d %H:%M", time.localtime(_modified(path)))
    return Importable(program=program, path=path, day=day, title=title)


def _first_words(line: dict[str, object], payload: dict[str, object]) -> Iterator[str]:
    if payload.get("type") == "user_message":
        yield texts(payload.get("message"))[:200]
    if line.get("type") == "user" and not line.get("isMeta"):
        content = members(line.get("message")).get("content")
        blocks = [texts(block.get("text")) for block in items(content)]
        if text := texts(content) or next(filter(None, blocks), ""):
            yield text[:200]
