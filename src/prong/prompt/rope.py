"""The rope: an immutable chain of entries with their wire bytes.

An entry is encoded once, when it is appended. A prompt is a head and a tip; to extend it makes a
new tip that points at the old one, and to share it is to hand over the same object. Hence the law,
for every prompt p and every extension q of it:

    q.open().startswith(p.open())

What would break it: encoding an entry again, filtering the past, or putting anything into a delta
that is not known when the entry is appended. There is no clone, no rebuild and no setter here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Self

import msgspec

from prong.entry import Entry, Kind, Role, kind_of, role_of
from prong.wire import NO_MARK, Dialect, Encoded, HeadSpec, Tail, Ttl

_DIGEST_SIZE = 20


def _digest(before: bytes, data: bytes) -> bytes:
    return blake2b(data, key=before, digest_size=_DIGEST_SIZE).digest()


class Head:
    """Model, system text, tools and every other prompt-affecting parameter, rendered once."""

    __slots__ = ("betas", "data", "dialect", "digest", "mark_at", "positions", "spec")

    def __init__(self, dialect: Dialect, spec: HeadSpec, encoded: Encoded | None = None) -> None:
        """Render the head, or take over bytes that were rendered before."""
        encoded = dialect.head(spec) if encoded is None else encoded
        self.dialect = dialect
        self.spec = spec
        self.data = encoded.data
        self.mark_at = encoded.mark_at
        self.positions = encoded.positions
        # Betas travel as a header, yet they are part of what the provider's cache is keyed by.
        self.digest = _digest(",".join(spec.betas).encode()[:64], encoded.data)

    @property
    def model(self) -> str:
        """The model the head was rendered for."""
        return self.spec.model

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of the tools, in their order."""
        return tuple(tool.name for tool in self.spec.tools)


class Node:
    """One entry in a chain; shared by every prompt that extends it."""

    __slots__ = (
        "delta",
        "depth",
        "digest",
        "glue",
        "kind",
        "length",
        "mark_at",
        "parent",
        "positions",
        "role",
    )

    def __init__(
        self,
        head: Head,
        parent: Node | None,
        kind: Kind,
        role: Role,
        encoded: Encoded,
    ) -> None:
        """Chain encoded bytes to what came before."""
        glue = head.dialect.glue(parent.role if parent else None, role)
        self.parent = parent
        self.kind: Kind = kind
        self.role: Role = role
        self.delta = glue + encoded.data
        """The bytes this entry adds, glue first."""
        self.glue = len(glue)
        self.mark_at = encoded.mark_at + len(glue) if encoded.mark_at != NO_MARK else NO_MARK
        """Where in the delta a cache mark may go."""
        # Invariant: the digest identifies the open bytes up to here; marks are never hashed.
        self.digest = _digest(parent.digest if parent else head.digest, self.delta)
        self.length = (parent.length if parent else len(head.data)) + len(self.delta)
        """Length of the open bytes up to here."""
        self.depth = parent.depth + 1 if parent else 1
        self.positions = (parent.positions if parent else head.positions) + encoded.positions
        """Cache look-back positions up to here."""

    @property
    def data(self) -> bytes:
        """The entry's own bytes, without the glue."""
        return self.delta[self.glue :]


class Mark(msgspec.Struct, frozen=True):
    """A cache mark: on the last block of a node, or at the end of the head."""

    node: Node | None
    ttl: Ttl | None = None


class Prompt:
    """A head and a tip. Immutable; extending it never touches what is there."""

    __slots__ = ("head", "tip")

    def __init__(self, head: Head, tip: Node | None = None) -> None:
        """Start an empty prompt, or point at the tip of a chain made for this head."""
        self.head = head
        self.tip = tip

    def append(self, *entries: Entry) -> Prompt:
        """Extend by entries, encoding each of them for good."""
        tip = self.tip
        for entry in entries:
            encoded = self.head.dialect.encode(entry)
            tip = Node(self.head, tip, kind_of(entry), role_of(entry), encoded)
        return Prompt(self.head, tip)

    def append_encoded(self, kind: Kind, role: Role, encoded: Encoded) -> Prompt:
        """Extend by bytes that were encoded before, as a journal holds them."""
        return Prompt(self.head, Node(self.head, self.tip, kind, role, encoded))

    @property
    def digest(self) -> str:
        """Identify the open bytes."""
        return (self.tip.digest if self.tip else self.head.digest).hex()

    @property
    def depth(self) -> int:
        """How many entries there are."""
        return self.tip.depth if self.tip else 0

    @property
    def positions(self) -> int:
        """How many cache look-back positions there are, the head's included."""
        return self.tip.positions if self.tip else self.head.positions

    def __len__(self) -> int:
        """How many open bytes there are."""
        return self.tip.length if self.tip else len(self.head.data)

    def nodes(self) -> list[Node]:
        """List the nodes from the first to the tip."""
        found: list[Node] = []
        node = self.tip
        while node is not None:
            found.append(node)
            node = node.parent
        found.reverse()
        return found

    def entries(self) -> Iterator[tuple[Kind, Entry]]:
        """Read the entries back from their bytes, each with its kind."""
        for node in self.nodes():
            yield node.kind, self.head.dialect.read(node.role, node.data)

    def open(self) -> bytes:
        """Give the bytes up to the tip, JSON not yet closed."""
        return b"".join([self.head.data, *(node.delta for node in self.nodes())])

    def body(self, marks: Iterable[Mark] = (), tail: Tail | None = None) -> bytes:
        """Give a whole request body, with cache marks put in."""
        return b"".join(self.pieces(marks, tail))

    def pieces(self, marks: Iterable[Mark] = (), tail: Tail | None = None) -> list[bytes]:
        """Give a whole request body in pieces; those without a mark are shared, not copied."""
        dialect = self.head.dialect
        nodes = self.nodes()
        pieces = [self.head.data, *[node.delta for node in nodes]]
        chain = [self.head, *nodes]
        # A node stands at its depth. Marks are put in from the last to the first, so that what
        # comes before a mark is still in its place.
        at: dict[int, Ttl | None] = {}
        for mark in marks:
            depth = mark.node.depth if mark.node else 0
            if depth < len(chain) and chain[depth] is (mark.node or self.head):
                at[depth] = mark.ttl
        for depth in sorted(at, reverse=True):
            data, mark_at = pieces[depth], chain[depth].mark_at
            if mark_at != NO_MARK:
                split = (data[:mark_at], dialect.mark(at[depth]), data[mark_at:])
                pieces[depth : depth + 1] = split
        pieces.append(dialect.close(self.tip.role if self.tip else None))
        pieces.append(dialect.tail(tail or Tail()))
        return pieces

    def extends(self, other: Self) -> bool:
        """Say whether this prompt is `other`, or grew out of it."""
        if other.tip is None:
            return self.head.digest == other.head.digest
        node = self.tip
        while node is not None and node.depth > other.tip.depth:
            node = node.parent
        return node is not None and node.digest == other.tip.digest
