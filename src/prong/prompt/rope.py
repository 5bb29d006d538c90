"""The rope: an immutable chain of entries with their wire bytes.

An entry is encoded once, when it is appended. A prompt is a head and a tip; to extend it makes a
new tip that points at the old one, and to share it is to hand over the same object. Hence the law,
for every prompt p and every extension q of it:

    q.open().startswith(p.open())

What would break it: encoding an entry again, filtering the past, or putting anything into a delta
that is not known when the entry is appended. There is no clone, no rebuild and no setter here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Self

import msgspec

from prong.entry import Entry, EntryKind, Role, kind_of, role_of
from prong.wire import NO_MARK, Dialect, Encoded, HeadSpec, Tail, Ttl

_DIGEST_SIZE = 20
_BODIES = 4
"""Bodies of a flat prompt that are kept, each with its marks in other places."""


def _digest(before: bytes, data: bytes) -> bytes:
    return blake2b(data, key=before, digest_size=_DIGEST_SIZE).digest()


class Head:
    """Model, system text, tools and every other prompt-affecting parameter, rendered once."""

    __slots__ = ("betas", "data", "dialect", "digest", "flat", "mark_at", "positions", "spec")

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
        self.flat: Flat | None = None
        """The prompt with this head that was flattened last."""

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
        kind: EntryKind,
        role: Role,
        encoded: Encoded,
    ) -> None:
        """Chain encoded bytes to what came before."""
        glue = head.dialect.glue(parent.role if parent else None, role)
        self.parent = parent
        self.kind: EntryKind = kind
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


class Flat:
    """A prompt with its bytes in one piece, for the many that extend it.

    Their requests share that piece: none goes through the whole chain again, or copies it.
    """

    __slots__ = ("_bodies", "_chain", "tip")

    def __init__(self, head: Head, nodes: list[Node]) -> None:
        self.tip = nodes[-1]
        self._chain: list[Head | Node] = [head, *nodes]
        self._bodies: dict[tuple[tuple[int, Ttl | None], ...], bytes] = {}

    @property
    def depth(self) -> int:
        """How many entries it has."""
        return len(self._chain) - 1

    def holds(self, node: Node) -> bool:
        """Whether a node is one of its own."""
        return node.depth <= self.depth and self._chain[node.depth] is node

    def body(self, marks: dict[int, Ttl | None]) -> bytes:
        """Give its bytes with marks at these depths; siblings have theirs in the same places."""
        key = tuple(sorted(marks.items()))
        body = self._bodies.get(key)
        if body is None:
            if len(self._bodies) >= _BODIES:
                self._bodies.clear()
            assert isinstance(self._chain[0], Head)
            pieces = _marked(self._chain[0].dialect, self._chain, marks, 0)
            body = self._bodies[key] = b"".join(pieces)
        return body


def _marked(
    dialect: Dialect, chain: Sequence[Head | Node], marks: Mapping[int, Ttl | None], first: int
) -> list[bytes]:
    """Give the bytes of a stretch of a chain, the first at that depth, with marks put in."""
    pieces: list[bytes] = []
    for depth, one in enumerate(chain, first):
        data = one.delta if isinstance(one, Node) else one.data
        if depth in marks and one.mark_at != NO_MARK:
            pieces += (data[: one.mark_at], dialect.mark(marks[depth]), data[one.mark_at :])
        else:
            pieces.append(data)
    return pieces


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

    def append_encoded(self, kind: EntryKind, role: Role, encoded: Encoded) -> Prompt:
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

    def flatten(self) -> None:
        """Keep the bytes in one piece from now on: many prompts are about to extend this one.

        It holds until `unflatten`, or until another prompt with the same head is flattened.
        """
        if nodes := self.nodes():
            self.head.flat = Flat(self.head, nodes)

    def unflatten(self) -> None:
        """Let go of what `flatten` keeps: nobody is about to extend this prompt any more."""
        if self.head.flat is not None and self.head.flat.tip is self.tip:
            self.head.flat = None

    def entries(self) -> Iterator[tuple[EntryKind, Entry]]:
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
        flat, chain = self._parts()
        first = 0 if flat is None else flat.depth + 1
        old: dict[int, Ttl | None] = {}
        new: dict[int, Ttl | None] = {}
        for mark in marks:
            # A node stands at its depth, if it is one of this prompt's.
            depth = mark.node.depth if mark.node else 0
            if depth < first:
                if flat is not None and (mark.node is None or flat.holds(mark.node)):
                    old[depth] = mark.ttl
            elif depth - first < len(chain) and chain[depth - first] is (mark.node or self.head):
                new[depth] = mark.ttl
        pieces = [] if flat is None else [flat.body(old)]
        pieces += _marked(dialect, chain, new, first)
        pieces.append(dialect.close(self.tip.role if self.tip else None))
        pieces.append(dialect.tail(tail or Tail(), self.head.spec))
        return pieces

    def _parts(self) -> tuple[Flat | None, Sequence[Head | Node]]:
        """Give what of this prompt is in one piece, if it is, and the chain after that."""
        flat, node = self.head.flat, self.tip
        if flat is None:
            return None, [self.head, *self.nodes()]
        fresh: list[Head | Node] = []
        while node is not None and node is not flat.tip:
            fresh.append(node)
            node = node.parent
        if node is None:
            fresh.append(self.head)
        fresh.reverse()
        return None if node is None else flat, fresh

    def extends(self, other: Self) -> bool:
        """Say whether this prompt is `other`, or grew out of it."""
        if other.tip is None:
            return self.head.digest == other.head.digest
        node = self.tip
        while node is not None and node.depth > other.tip.depth:
            node = node.parent
        return node is not None and node.digest == other.tip.digest
