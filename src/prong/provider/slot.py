"""The slots of a llama.cpp server: what each holds, and which one a request takes. Pure.

A slot holds one conversation, and nobody reads a beginning out of a slot that is busy. What several
requests want is therefore written to a file once, and read into the slot of each. The server
compares tokens for itself, so a wrong guess here costs time and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, TypeAlias

import msgspec

from prong.prompt import Prompt, shared_bytes

_FILES = 8
"""Files that are kept on the server's disk at most; the one used longest ago is written over."""
WORTH = 1_024
"""Bytes of a prompt that must be gained before a file is written or read."""


class SlotState(msgspec.Struct):
    """A slot as the server tells of it; older servers tell less."""

    id: int
    is_processing: bool = False
    id_task: int = -1
    n_prompt_tokens: int | None = None


class Slot(msgspec.Struct, eq=False):
    """A slot, and what is believed of it."""

    number: int
    holds: Prompt | None = None
    """What it was last asked; the reply to it follows."""
    tokens: int = 0
    """How many tokens that is with the reply, by the server's count; 0 if there was no end."""
    agent: str = ""
    leased: bool = False
    """Whether a request of ours has it."""
    busy: bool = False
    """Whether it works, for whomever."""
    filled: bool = False
    task: int = -1
    """The server's number of its last task: the higher, the later."""

    def hold(self, prompt: Prompt | None, tokens: int = 0) -> None:
        """Note what it was asked, and the tokens of that with its reply if there was an end."""
        self.holds, self.tokens = prompt, tokens

    def lease(self, agent: str) -> None:
        """Give it to a request."""
        self.leased, self.agent = True, agent

    def release(self) -> None:
        """Take it back from its request."""
        self.leased = False


class File(msgspec.Struct, eq=False):
    """The state of a slot on the server's disk."""

    name: str
    holds: Prompt | None = None
    used: int = 0


class Files:
    """The files of a session on a server's disk: few, and written over in turn."""

    def __init__(self, prefix: str) -> None:
        """Have none yet; their names begin with the prefix, as no other session's do."""
        self._files: list[File] = []
        self._prefix = prefix
        self._clock = 0

    def __iter__(self) -> Iterator[File]:
        """Go through all."""
        return iter(self._files)

    @property
    def written(self) -> list[File]:
        """Those that may take room on the disk."""
        return [file for file in self._files if file.used]

    def empty(self) -> File:
        """Give a file to write to: a new one, or the one used longest ago if there are enough."""
        if len(self._files) < _FILES:
            file = File(f"{self._prefix}-{len(self._files)}")
            self._files.append(file)
        else:
            file = min(self._files, key=lambda file: file.used)
        file.holds = None
        return file

    def use(self, file: File, holds: Prompt | None) -> None:
        """Note that a file was written or read, and what it holds."""
        self._clock += 1
        file.holds, file.used = holds, self._clock

    def lose(self, file: File) -> None:
        """Note that a file is not what it was."""
        file.holds = None

    def forget(self) -> None:
        """Begin anew: none of them means anything to the server that is there now."""
        self._files = []


class Loose(msgspec.Struct, eq=False):
    """A reply from a slot of the server's choice."""

    prompt: Prompt
    agent: str
    tokens: int
    """What its slot holds since then, by the server's count."""


class SlotChoice(msgspec.Struct, eq=False):
    """The slot of a request, and where its beginning is taken from."""

    slot: Slot
    source: Slot | File | None = None
    """None: the slot has what there is. The slot itself: it is kept for others first."""


def choose(
    slots: Sequence[Slot], files: Iterable[File], prompt: Prompt, agent: str
) -> SlotChoice | None:
    """Choose among the slots that no request of ours has; None if there is none.

    An agent goes back to its own slot. A new one takes the slot that was used longest ago, and not
    the one whose beginning it continues: that one's agent will come back.
    """
    free = [slot for slot in slots if not slot.leased]
    if not free:
        return None
    # The first of equals is taken: what is in a file need not be written. A slot whose request
    # came to no end may hold less than it was asked.
    sources = (*files, *(slot for slot in free if slot.tokens))
    best = max(sources, key=lambda source: shared_bytes(source.holds, prompt), default=None)
    there = 0 if best is None else shared_bytes(best.holds, prompt)
    own = [slot for slot in free if slot.agent == agent and slot.holds is not None]
    if own:
        target = max(own, key=lambda slot: shared_bytes(slot.holds, prompt))
    else:
        target = min(free, key=lambda slot: (slot is best, slot.busy, slot.filled, slot.task))
    if target is best:
        lends = not own and len(slots) > 1 and there >= WORTH
        return SlotChoice(target, target if lends else None)
    gain = there - shared_bytes(target.holds, prompt)
    return SlotChoice(target, best if gain >= WORTH else None)


SlotLoss: TypeAlias = Literal["", "emptied", "restarted"]
"""How a server has lost what a slot was believed to hold."""


def take_in(slots: Sequence[Slot], states: Iterable[SlotState], loose: list[Loose]) -> SlotLoss:
    """Correct what is believed by what the server says; say whether it has lost something.

    A server with one memory for all slots empties those that are idle when a request begins.
    """
    found = {state.id: state for state in states}
    counts = any(state.n_prompt_tokens is not None for state in found.values())
    loss: SlotLoss = ""
    for slot in slots:
        state = found.get(slot.number, SlotState(slot.number))
        slot.busy, slot.task = state.is_processing, state.id_task
        slot.filled = bool(state.n_prompt_tokens) if counts else state.id_task >= 0
        if slot.leased or slot.busy or slot.holds is None:
            continue
        if not slot.filled:
            slot.holds = None
            loss = "emptied" if slot.task >= 0 else "restarted"
        elif counts and slot.tokens and abs((state.n_prompt_tokens or 0) - slot.tokens) > 1:
            # Somebody else was there.
            slot.holds = None
    loose[:] = [one for one in reversed(loose) if not _place(slots, found, one, counts=counts)][
        ::-1
    ]
    return loss


def _place(slots: Sequence[Slot], found: dict[int, SlotState], one: Loose, *, counts: bool) -> bool:
    """Find the slot of a reply: the last to work among those that hold as many tokens."""
    idle = [slot for slot in slots if slot.filled and not (slot.leased or slot.busy)]
    if counts:
        idle = [
            slot
            for slot in idle
            if abs((found[slot.number].n_prompt_tokens or 0) - one.tokens) <= 1
        ]
    slot = max(idle, key=lambda slot: slot.task, default=None)
    if slot is None or slot.holds is not None:
        return False
    slot.holds, slot.agent, slot.tokens = one.prompt, one.agent, one.tokens
    return True
