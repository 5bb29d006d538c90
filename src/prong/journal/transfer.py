"""Prompts as records and back: how a rope is stored, and how it travels to another process.

What comes back is the very same bytes, or an error: every record names the digest of the prompt
that it makes, and an entry that of the prompt that it extends.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import msgspec

from prong.entry import ToolSpec
from prong.journal.record import EntryRecord, HeadRecord, unwrap, wrap
from prong.prompt import Head, Node, Prompt
from prong.wire import NO_MARK, Dialect, Encoded, HeadSpec
from prong.wire.raw import tidy


class Dialects(Protocol):
    """Finds a dialect by its name, as `prong.wire.dialect` does."""

    def __call__(self, name: str, *, explicit: bool) -> Dialect:
        """Give the dialect of that name."""
        ...


def head_record(agent: str, head: Head, reason: str, at: float) -> HeadRecord:
    """Make the record of a head."""
    return HeadRecord(
        agent=agent,
        digest=head.digest.hex(),
        dialect=head.dialect.name,
        explicit=head.spec.explicit_marks,
        mark_at=head.mark_at,
        positions=head.positions,
        reason=reason,
        at=at,
        spec=_one_line(head.spec),
        data=head.data.decode(),
    )


def _one_line(spec: HeadSpec) -> HeadSpec:
    # The dialects tidy a schema in the same way, so the spec still renders to the same bytes.
    tools = tuple(
        ToolSpec(tool.name, tool.description, msgspec.Raw(tidy(tool.schema))) for tool in spec.tools
    )
    return msgspec.structs.replace(spec, tools=tools)


def entry_record(agent: str, head: Head, node: Node, at: float) -> EntryRecord:
    """Make the record of one entry."""
    before = node.parent or head
    return EntryRecord(
        agent=agent,
        parent=before.digest.hex(),
        digest=node.digest.hex(),
        kind=node.kind,
        role=node.role,
        mark_at=node.mark_at - node.glue if node.mark_at != NO_MARK else NO_MARK,
        positions=node.positions - before.positions,
        at=at,
        data=wrap(node.data),
    )


def growth(agent: str, prompt: Prompt, *, after: Prompt | None = None) -> Iterator[EntryRecord]:
    """Give the records of a prompt's entries: of all, or of those that another has not."""
    for node in prompt.nodes()[after.depth if after is not None else 0 :]:
        yield entry_record(agent, prompt.head, node, 0.0)


def begin(record: HeadRecord, dialects: Dialects) -> Prompt:
    """Make the empty prompt of a head; raises ValueError if its bytes do not match its digest."""
    encoded = Encoded(record.data.encode(), record.mark_at, record.positions)
    speaks = dialects(record.dialect, explicit=record.explicit)
    prompt = Prompt(Head(speaks, record.spec, encoded))
    if prompt.digest != record.digest:
        raise ValueError("the head's bytes do not match its digest")
    return prompt


def grow(parent: Prompt, record: EntryRecord) -> Prompt:
    """Extend a prompt by a recorded entry; raises ValueError if it is not the one to follow."""
    if record.parent != parent.digest:
        raise ValueError(f"it extends {record.parent[:12]}, not {parent.digest[:12]}")
    encoded = Encoded(unwrap(record.data), record.mark_at, record.positions)
    prompt = parent.append_encoded(record.kind, record.role, encoded)
    if prompt.digest != record.digest:
        raise ValueError("the entry's bytes do not match its digest")
    return prompt
