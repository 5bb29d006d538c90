"""Copies of a session that is open: as it is, or as it was before one of the user's messages.

A copy has the same bytes up to where it ends, so the provider's cache serves it too.
"""

from __future__ import annotations

from functools import partial

import anyio.to_thread
import msgspec

from prong.entry import Image, Text, User
from prong.errors import UnknownName
from prong.event import MAIN, Warned
from prong.journal import store
from prong.journal.branch import branch
from prong.journal.replay import read_journal
from prong.session.entrance import opened_as
from prong.session.parts import Parts
from prong.wire import dialect


class TurnOpener(msgspec.Struct, frozen=True):
    """A message of the user with which a turn began."""

    number: int
    """From 1."""
    text: str
    """Its words."""
    line: int
    """The number of its line in the journal."""
    after: str
    """The digest of the prompt before it; empty if it is the first."""
    pictures: tuple[Image, ...] = ()
    """What went with it."""

    @property
    def title(self) -> str:
        """What it is listed as."""
        return self.text or "(a picture)"


async def messages(parts: Parts) -> list[TurnOpener]:
    """List the messages before which a copy can end: those of the conversation as it stands."""
    replay = await anyio.to_thread.run_sync(read_journal, parts.journal.path)
    placed = [(one.prompt.tip, one.seq) for one in replay.entries if one.agent == MAIN]
    lines = {tip.digest: seq for tip, seq in placed if tip is not None}
    rests = {one.tip.digest for one in replay.rests if one.tip is not None}
    found: list[TurnOpener] = []
    before = "reply"
    prompt = parts.agent.conversation.prompt
    for node in prompt.nodes():
        # A message that steered a turn stands after results, which wait for a reply; after a turn
        # that was stopped nothing does, whatever it ends with.
        if node.kind == "user" and before in {"reply", "summary"} and node.digest in lines:
            said = prompt.head.dialect.read(node.role, node.data)
            given = said.parts if isinstance(said, User) else ()
            text = "\n".join(part.text for part in given if isinstance(part, Text))
            pictures = tuple(part for part in given if isinstance(part, Image))
            after = "" if node.parent is None else node.parent.digest.hex()
            found.append(TurnOpener(len(found) + 1, text, lines[node.digest], after, pictures))
        if node.digest in rests:
            before = "reply"
        elif node.kind not in {"reminder", "notice"}:
            before = node.kind
    return found


async def copy_session(parts: Parts, before: int) -> tuple[str, str]:
    """Copy the session; gives the id of the copy, and the message before which it ends.

    Raises UsageError if a turn runs or there is no such message.
    """
    parts.must_live()
    parts.must_be_idle("copy the session")
    upto, text, after = None, "", ""
    if before:
        found = next((one for one in await messages(parts) if one.number == before), None)
        if found is None:
            raise UnknownName(f"there is no message {before}; /rewind lists them")
        upto, text, after = found.line - 1, found.text, found.after
    place, session = parts.place, store.new_id()
    await parts.journal.sync()
    target = store.location(place.cwd, session, place.store)
    make = partial(
        branch,
        parts.journal.path,
        target,
        opened_as(place, session),
        dialect,
        upto=upto,
        settled=after,
        say=lambda told: parts.agent.emit(Warned(text=told)),
    )
    await anyio.to_thread.run_sync(make)
    return session, text
