"""The slots of one llama.cpp server, leased to requests.

Nothing is asked of a server before the first fork. From then on every request has a slot of its own
while it runs; others wait. Between reading a file into a slot and the begin of its request no
other request may begin: a server with one memory for all slots would empty the slot again.
Whatever fails here is left undone, and the request is sent as to any server.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Literal, TypeAlias

import anyio
import msgspec

from prong.entry import Usage
from prong.prompt import Prompt, shared_bytes
from prong.provider.slot import WORTH, File, Files, Loose, Slot, SlotChoice, choose, take_in
from prong.provider.slot_server import Props, SlotServer

ServerKind: TypeAlias = Literal["unknown", "other", "plain", "single", "slots"]
"""Not asked yet; not llama.cpp; llama.cpp without slots that can be saved, with one, with many."""

_AGENTS = 256
_PROBE_SECONDS = 2.0
_PACED = 64
"""Tokens that must have been computed for a measure of the server's pace."""


class Lease(msgspec.Struct, eq=False):
    """A request's hold on a slot; without one the server chooses."""

    prompt: Prompt
    agent: str
    slot: Slot | None = None
    launching: bool = False
    """Whether it keeps other requests from beginning."""
    began: float = 0.0
    tokens: int = 0
    """What its slot holds at the end."""


class _Met:
    """The agents that have asked, each with what it asked last."""

    def __init__(self) -> None:
        self._asked: dict[str, Prompt] = {}
        self._answered: set[str] = set()

    def ask(self, prompt: Prompt, agent: str) -> bool:
        """Say whether an agent that is new begins as another did, as forks do."""
        new = agent not in self._asked
        known = self._asked.values() if new else ()
        related = any(shared_bytes(other, prompt) >= WORTH for other in known)
        if new and len(self._asked) >= _AGENTS:
            del self._asked[next(iter(self._asked))]
        self._asked[agent] = prompt
        return related

    def answer(self, agent: str) -> None:
        self._answered.add(agent)

    def was_answered(self, agent: str) -> bool:
        return agent in self._answered


class _Admission:
    """Who may begin: as many at a time as there are slots, and one after the other."""

    def __init__(self) -> None:
        self.room = anyio.Semaphore(1)
        self.launch = anyio.Semaphore(1)
        self._freed = anyio.Event()

    def widen(self, slots: int) -> None:
        """Let that many at a time."""
        self.room = anyio.Semaphore(max(1, slots))

    def free(self) -> None:
        """Wake those who wait for the end of any request."""
        freed, self._freed = self._freed, anyio.Event()
        freed.set()

    async def wait(self, seconds: float) -> None:
        """Wait for the end of any request, but no longer than that."""
        with anyio.move_on_after(seconds):
            await self._freed.wait()


class Rack:
    """What is known of one server."""

    def __init__(self, server: SlotServer) -> None:
        """Ask nothing yet."""
        self.kind: ServerKind = "unknown"
        self._server = server
        self._props: Props | None = None
        self._asking = anyio.Lock()
        self._admission = _Admission()
        self._slots: list[Slot] = []
        self._files = Files(f"prong-{os.urandom(8).hex()}")
        self._loose: list[Loose] = []
        self._met = _Met()
        self._running: list[Lease] = []
        self._pace = 0.0
        self._forgets = False
        self._told = False
        self._doubted = False

    @property
    def context(self) -> int | None:
        """Tokens of a slot, once they are known."""
        return self._props.context if self._props is not None else None

    def meet(self, prompt: Prompt, agent: str) -> bool:
        """Say whether an agent that is new here begins as another did, as forks do."""
        return self.kind != "other" and self._met.ask(prompt, agent)

    async def recognise(self) -> None:
        """Find out, once, whether this is llama.cpp and whether its slots can be saved."""
        async with self._asking:
            if self.kind != "unknown":
                return
            kind: ServerKind = "other"
            with anyio.move_on_after(_PROBE_SECONDS):
                kind = await self._ask_kind()
            self.kind = kind
            if kind == "slots":
                await self._refresh()

    async def _ask_kind(self) -> ServerKind:
        props = self._props = await self._server.props()
        if props is None:
            return "other"
        # Neither question waits for the step that the server is at.
        if not await self._server.saves() or not props.endpoint_slots:
            return "plain"
        self._slots = [Slot(number) for number in range(props.total_slots)]
        self._admission.widen(props.total_slots)
        return "slots" if props.total_slots > 1 else "single"

    def remark(self) -> str:
        """Say, once, what would let forks share here; nothing if they do."""
        if self._told or self.kind not in {"plain", "single"}:
            return ""
        self._told = True
        why = (
            "has a single slot, so agents take turns"
            if self.kind == "single"
            else "cannot save its slots, so each agent computes the common beginning anew"
        )
        return (
            f"the llama.cpp server at {self._server.root} {why}; start it with "
            "-np 5 --slot-save-path DIR (a slot for each agent at work, and not --no-slots) to "
            "let forks share"
        )

    @asynccontextmanager
    async def lease(self, prompt: Prompt, agent: str) -> AsyncGenerator[Lease, None]:
        """Hold a slot that has as much of a prompt as can be had; wait until one is free."""
        lease = Lease(prompt, agent)
        self._running.append(lease)
        try:
            if self.kind != "slots":
                yield lease
                return
            async with self._admission.room:
                await self._wait_for_holder(prompt, agent)
                await self._admission.launch.acquire()
                lease.launching = True
                try:
                    await self._place(lease)
                    yield lease
                finally:
                    self.launched(lease)
        finally:
            self._running.remove(lease)
            if lease.slot is not None:
                lease.slot.release()
            self._admission.free()

    def began(self, lease: Lease) -> None:
        """Note that the server has begun with a request: others may follow."""
        lease.began = lease.began or time.monotonic()
        if lease.slot is not None:
            lease.slot.hold(lease.prompt)
        self.launched(lease)

    def launched(self, lease: Lease) -> None:
        """Let other requests begin."""
        if lease.launching:
            lease.launching = False
            self._admission.launch.release()

    def spoke(self, lease: Lease, usage: Usage, first: float) -> None:
        """Note a whole reply, of which the first word came at that time."""
        self._met.answer(lease.agent)
        lease.tokens = usage.input + usage.output - 1
        if lease.slot is not None:
            lease.slot.hold(lease.slot.holds, lease.tokens)
        elif self.kind in {"unknown", "slots"}:
            self._loose = [*self._loose[-7:], Loose(lease.prompt, lease.agent, lease.tokens)]
        if lease.began and usage.uncached >= _PACED:
            computed = len(lease.prompt) * usage.uncached / usage.input
            self._pace = max(0.0, first - lease.began) / computed

    def doubt(self) -> None:
        """Note that the server could not be reached: it may come back as another one."""
        self._doubted = True

    async def keep(self, lease: Lease) -> None:
        """Save what a request has left in its slot, before anybody can go on from there."""
        if self.kind != "slots":
            return
        async with self._admission.launch:
            if lease.slot is None:
                await self._refresh()
            held = (slot for slot in self._slots if slot.holds is lease.prompt)
            slot = lease.slot or next(held, None)
            if slot is not None:
                await self._save(slot)

    async def _wait_for_holder(self, prompt: Prompt, agent: str) -> None:
        """Wait while a running request holds more than all others, as long as that may save."""
        start = time.monotonic()
        while True:
            mine = [s for s in self._slots if s.agent == agent and not s.leased]
            here = max((shared_bytes(s.holds, prompt) for s in (*self._files, *mine)), default=0)
            idle = max(
                (shared_bytes(s.holds, prompt) for s in self._slots if not s.leased), default=0
            )
            busy = max((shared_bytes(s.holds, prompt) for s in self._slots if s.leased), default=0)
            gain = busy - max(here, idle)
            left = gain * self._pace - (time.monotonic() - start)
            if gain < WORTH or left <= 0:
                return
            await self._admission.wait(left)

    async def _place(self, lease: Lease) -> None:
        await self._refresh()
        if self.kind != "slots":
            return
        agent = lease.agent
        if self._forgets and self._met.was_answered(agent) and not self._own(agent):
            # What the server empties it keeps elsewhere, and looks there only if it may choose.
            return
        chosen = choose(self._slots, self._files, lease.prompt, agent)
        if chosen is not None and not await self._bring(chosen):
            # The file is gone; the slot that it came from may be there.
            chosen = choose(self._slots, self._files, lease.prompt, agent)
            if chosen is not None:
                await self._bring(chosen)
        # Where somebody else is at work, the server knows best what comes next.
        if chosen is not None and not chosen.slot.busy:
            lease.slot = chosen.slot
            lease.slot.lease(agent)

    def _own(self, agent: str) -> bool:
        free = (slot for slot in self._slots if not slot.leased and slot.holds is not None)
        return any(slot.agent == agent for slot in free)

    async def _bring(self, chosen: SlotChoice) -> bool:
        """Do what was chosen; false if it could not be done, and something else may be."""
        slot, source = chosen.slot, chosen.source
        if source is None or slot.busy:
            return True
        kept = await self._save(source) if isinstance(source, Slot) else source
        if source is slot:
            return True
        return kept is not None and await self._restore(kept, slot)

    async def _refresh(self) -> None:
        """Ask the server what it holds, and believe it."""
        states = await self._server.states()
        if not states:
            self.kind = self.kind if states is None else "plain"
            self._doubted = True
            return
        loss = take_in(self._slots, states, self._loose)
        self._adopt()
        self._forgets = self._forgets or loss == "emptied"
        self._doubted = self._doubted or loss == "restarted"
        if self._doubted:
            self._doubted = False
            await self._check_same()

    def _adopt(self) -> None:
        """Find the slot of a request that began before the server was known, if it is clear."""
        busy = [slot for slot in self._slots if slot.busy and not slot.leased]
        loose = [lease for lease in self._running if lease.slot is None and lease.began]
        if len(busy) == len(loose) == 1:
            [slot], [lease] = busy, loose
            slot.hold(lease.prompt, lease.tokens)
            slot.lease(lease.agent)
            lease.slot = slot

    async def _check_same(self) -> None:
        """Forget all files if another model is there now: a state means nothing to it."""
        props = await self._server.props()
        if props is not None and props != self._props:
            self._props = props
            self._files.forget()
            for slot in self._slots:
                slot.hold(None)

    async def _save(self, slot: Slot) -> File | None:
        """Write a slot's state to a file, over the one used longest ago if there are enough."""
        if slot.holds is None:
            return None
        file = self._files.empty()
        saved = await self._server.save(slot.number, file.name)
        if saved is None or abs(saved - slot.tokens) > 1:
            slot.hold(None)
            return None
        self._files.use(file, slot.holds)
        return file

    async def _restore(self, file: File, slot: Slot) -> bool:
        slot.hold(None)
        if not await self._server.restore(slot.number, file.name):
            self._files.lose(file)
            return False
        slot.hold(file.holds)
        self._files.use(file, file.holds)
        return True

    async def aclose(self) -> None:
        """Empty the files that were written: the server has no way to delete them."""
        written = self._files.written
        free = [slot for slot in self._slots if not slot.leased]
        if not written or not free:
            return
        with anyio.move_on_after(_PROBE_SECONDS):
            await self._refresh()
            # An empty state is a few bytes; a slot that holds nothing is best for it.
            slot = min(free, key=lambda slot: (slot.busy, slot.filled, slot.task))
            if slot.filled:
                await self._server.erase(slot.number)
            for file in written:
                await self._server.save(slot.number, file.name)
