"""Which bytes the requests of a session share: every stretch once, and each request as its last.

A request's body is the way from its last stretch up to the head, so a stretch that many requests
have stands here once, and equal bytes in equal places are the same stretch. Offsets are those of
the body without its cache marks.
"""

from __future__ import annotations

import msgspec

from prong.cost.mark import plan
from prong.entry import Usage
from prong.journal.note import ReceiptOpened
from prong.journal.replay import Paid, Replay
from prong.prompt import Node, Prompt


class ByteStretch(msgspec.Struct, frozen=True, array_like=True):
    """The bytes of one entry, or of a head, at their place in every body that has them."""

    above: int
    """The number of the stretch before it; -1 of a head."""
    size: int
    kind: str
    """An entry's kind, or `head`."""
    role: str
    digest: str
    """Of all bytes up to its end."""


class MappedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request, by the last stretch of its body, and what the provider counted."""

    number: int
    """From 1 on, as `prong explain SESSION:N` counts."""
    agent: str
    model: str
    at: float
    last: int
    """The number of its last stretch; -1 if its body is not stored."""
    size: int
    usage: Usage
    input: int
    written: int
    cost: float | None
    uncached: float | None
    latency: float
    sidecar: str
    broken: bool
    inherited: bool
    marks: int
    marked: tuple[int, ...] | None
    """Where its marks are; None if that cannot be told from what is stored."""


class ByteMap:
    """Grows with a replay."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.stretches: list[ByteStretch] = []
        self.requests: list[MappedRequest] = []
        self._numbers: dict[bytes, int] = {}
        self._sent: dict[str, Node | None] = {}

    def take(self, replay: Replay) -> None:
        """Take in the requests that have come since the last time."""
        fresh = replay.requests[len(self.requests) :]
        if not fresh:
            return
        bases = {agent: note.value.base for agent, note in replay.each(ReceiptOpened)}
        for paid in fresh:
            prompt = replay.known.get(paid.row.digest)
            base = replay.known.get(bases.get(paid.row.agent, ""))
            self.requests.append(self._mapped(paid, prompt, base))

    def _mapped(self, paid: Paid, prompt: Prompt | None, base: Prompt | None) -> MappedRequest:
        row = paid.row
        marked = None if prompt is None else self._marked(paid, prompt, base)
        if prompt is not None and not row.sidecar:
            self._sent[row.agent] = prompt.tip
        return MappedRequest(
            number=len(self.requests) + 1,
            agent=row.agent,
            model=row.model,
            at=paid.at,
            last=-1 if prompt is None else self._number(prompt),
            size=0 if prompt is None else len(prompt),
            usage=row.usage,
            input=row.usage.input,
            written=row.usage.written,
            cost=row.cost,
            uncached=row.uncached,
            latency=row.latency,
            sidecar=row.sidecar,
            broken=row.broken,
            inherited=paid.inherited,
            marks=row.marks,
            marked=marked,
        )

    def _marked(self, paid: Paid, prompt: Prompt, base: Prompt | None) -> tuple[int, ...] | None:
        """Place the marks anew; they are told only if they are as many as were sent."""
        sent = self._sent.get(paid.row.agent)
        lies = sent is not None and prompt.extends(Prompt(prompt.head, sent))
        shares = base is not None and prompt.extends(base)
        marks = plan(
            prompt,
            sent=sent if lies else None,
            base=base.tip if base is not None and shares else None,
        )
        if len(marks) != paid.row.marks:
            return None
        places = (mark.node.length if mark.node else len(prompt.head.data) for mark in marks)
        return tuple(sorted(places))

    def _number(self, prompt: Prompt) -> int:
        """Give the number of a prompt's last stretch, with all before it in their places."""
        fresh: list[Node] = []
        node = prompt.tip
        while node is not None and node.digest not in self._numbers:
            fresh.append(node)
            node = node.parent
        above = self._numbers[node.digest] if node is not None else self._head(prompt)
        for each in reversed(fresh):
            above = self._add(each.digest, above, len(each.delta), each.kind, each.role)
        return above

    def _head(self, prompt: Prompt) -> int:
        head = prompt.head
        known = self._numbers.get(head.digest)
        return self._add(head.digest, -1, len(head.data), "head", "") if known is None else known

    def _add(self, digest: bytes, above: int, size: int, kind: str, role: str) -> int:
        self.stretches.append(ByteStretch(above, size, kind, role, digest.hex()))
        self._numbers[digest] = len(self.stretches) - 1
        return len(self.stretches) - 1
