"""Notes on work that is on another machine, for whoever looks for it here.

`refs/prong/away/<slug>` leads to a commit whose message says where the work is and who has it. It
is there from the start of an agent until all that it has done is here.
"""

from __future__ import annotations

import hashlib

import msgspec

from prong.foreign_json import NOT_JSON
from prong.host.git import Git
from prong.host.worktree import FOLDER
from prong.system.identity import machine_name

AWAY = "refs/prong/away/"

_TITLE = "prong: work on another machine"


class AwayWork(msgspec.Struct, frozen=True, kw_only=True):
    """Work that is on another machine, or may be."""

    target: str
    """The machine, as the settings call it."""
    folder: str
    """Where copies of repositories are kept there."""
    task: str
    session: str
    place: str = ""
    """The workspace there."""


def repository_key(common: str) -> str:
    """Name a repository by its own folder: the same for all children of one."""
    whose = f"{machine_name()}\0{common}".encode(errors="surrogateescape")
    return hashlib.sha256(whose).hexdigest()[:16]


async def write_note(git: Git, slug: str, start: str, common: str, work: AwayWork) -> str:
    """Make the commit that says where a child's work is; raises GitFailed."""
    place = f"{work.folder}/{repository_key(common)}/{FOLDER}/{slug}"
    told = msgspec.json.encode(msgspec.structs.replace(work, place=place)).decode()
    # The start hangs on it, without which nothing could come back.
    return await git.commit(f"{start}^{{tree}}", [start], f"{_TITLE}\n\n{told}\n")


async def find_away(git: Git) -> dict[str, AwayWork | None]:
    """Give what is noted of work on other machines, by slug; None if a note cannot be read.

    Raises GitFailed.
    """
    form = "--format=%(refname) %(contents:subject)%00%(contents:body)%00"
    found: dict[str, AwayWork | None] = {}
    words = ("for-each-ref", "--sort=version:refname", form, AWAY)
    fields = (await git.run(*words)).split("\0")
    for head, body in zip(fields[::2], fields[1::2], strict=False):
        ref, _, title = head.strip().partition(" ")
        found[ref.removeprefix(AWAY)] = _read(body) if title == _TITLE else None
    return found


def _read(body: str) -> AwayWork | None:
    try:
        told = msgspec.json.decode(body, type=dict[str, str])
        return msgspec.convert({key: _flat(text) for key, text in told.items()}, AwayWork)
    except NOT_JSON:
        return None


def _flat(text: str) -> str:
    """Keep a name on its line, whoever wrote it."""
    return "".join(c if c.isprintable() else "?" for c in text)


def remedy_away(slug: str, work: AwayWork | None) -> str:
    """Say where work is, and what brings it here."""
    import shlex

    # Whoever works in the repository can have made the ref.
    forget = f"'git update-ref -d {shlex.quote(AWAY + slug)}' forgets it"
    if work is None:
        return f"its agent went to another machine, and nobody knows where that was: {forget}"
    return (
        f"the work of {work.task} is still on {work.target}, in {work.place}: wait until it has "
        f"ended; if it has, a message brings it: '/tell {work.task} TEXT' in 'prong --resume "
        f"{work.session}'. If that machine is gone for good, {forget}"
    )
