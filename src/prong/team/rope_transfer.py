"""Ropes on their way to a worker: of what several agents share, one copy travels and is held there.

A prompt is named by its digest, and so is every prompt that it grew out of. Whoever sends knows
what the other side has, and sends the rest; what no run begins from any more is forgotten on both
sides, but for the latest, since the next fork often begins where the last one did.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prong.errors import WorkerFailed
from prong.foreign_json import NOT_JSON
from prong.journal.transfer import begin, entry_record, grow, head_record
from prong.prompt import Prompt
from prong.team.message import EntrySent, Forget, HeadSent
from prong.wire import dialect


class SentRopes:
    """What of which prompts a worker has, as its session knows."""

    def __init__(self) -> None:
        """Know that it has nothing yet."""
        self._there: set[str] = set()
        self._uses: Counter[str] = Counter()
        self._latest: tuple[str, ...] = ()

    def lend(self, prompt: Prompt) -> tuple[str, ...]:
        """Hold on to a prompt until it is given back by what this gives: the names of its parts."""
        digests = (prompt.head.digest.hex(), *(node.digest.hex() for node in prompt.nodes()))
        self._uses.update(digests)
        self._latest = digests
        return digests

    def missing(self, prompt: Prompt) -> Iterator[HeadSent | EntrySent]:
        """Give what the worker has not of a prompt; each counts as sent when it is given."""
        head = prompt.head
        if self._is_new(head.digest.hex()):
            yield HeadSent(record=head_record("", head, "", 0.0))
        for node in prompt.nodes():
            if self._is_new(node.digest.hex()):
                yield EntrySent(record=entry_record("", head, node, 0.0))

    def _is_new(self, digest: str) -> bool:
        if digest in self._there:
            return False
        self._there.add(digest)
        return True

    def give_back(self, digests: tuple[str, ...]) -> Forget | None:
        """Let go of a prompt; gives what is to be forgotten by it."""
        self._uses.subtract(digests)
        kept = {name for name, uses in self._uses.items() if uses > 0} | set(self._latest)
        gone = tuple(sorted(self._there - kept))
        self._there.difference_update(gone)
        self._uses = Counter({name: uses for name, uses in self._uses.items() if uses > 0})
        return Forget(digests=gone) if gone else None


class KnownRopes:
    """The prompts that a worker was sent, each part of them once."""

    def __init__(self) -> None:
        """Nothing was sent yet."""
        self._known: dict[str, Prompt] = {}

    def take(self, message: HeadSent | EntrySent | Forget) -> None:
        """Keep a part, or forget some.

        Raises WorkerFailed if it does not fit to what is there.
        """
        try:
            match message:
                case HeadSent(record=head):
                    self._known[head.digest] = begin(head, dialect)
                case EntrySent(record=entry):
                    self._known[entry.digest] = grow(self._known[entry.parent], entry)
                case Forget(digests=digests):
                    for name in digests:
                        self._known.pop(name, None)
        except (*NOT_JSON, ValueError, LookupError) as error:
            raise WorkerFailed(f"a rope did not come whole ({error})") from error

    def find(self, digest: str) -> Prompt:
        """Give a prompt.

        Raises WorkerFailed if it has not come.
        """
        if (found := self._known.get(digest)) is None:
            raise WorkerFailed("the rope did not come whole")
        return found
