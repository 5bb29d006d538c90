"""The slots of one llama.cpp server, leased to requests.

Nothing is asked of a server before the first fork. From then on every request has a slot of its own
while it runs; others wait. Between reading a file into a slot and the begin of its request no
other request may begin: a server with one memory for all slots would empty the slot again.
Whatever fails here is left undone, and the request is sent as to any server.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Literal, TypeAlias

import anyio
import msgspec

from prong.entry import Usage
from prong.errors import ProngError
from prong.prompt import Prompt, shared_bytes
from prong.provider.slot import WORTH, Choice, File, Loose, Slot, State, choose, take_in
from prong.provider.transport import Transport, read

Kind: TypeAlias = Literal["unknown", "other", "plain", "single", "slots"]
"""Not asked yet; not llama.cpp; llama.cpp without slots that can be saved, with one, with many."""

_FILES = 8
"""Files that are kept on the server's disk at most; the one used longest ago is written over."""
_AGENTS = 256
_PROBE_SECONDS = 2.0
_PATIENCE_SECONDS = 120.0
"""How long the server may be in the middle of a step before an answer about slots."""
_PACED = 64
"""Tokens that must have been computed for a measure of the server's pace."""

_states = msgspec.json.Decoder(list[State]).decode


class _Settings(msgspec.Struct):
    n_ctx: int = 0


class _Props(msgspec.Struct):
    """What only llama.cpp's server says of itself."""

    total_slots: int
    default_generation_settings: _Settings
    model_path: str = ""
    build_info: str = ""
    endpoint_slots: bool = True
    """Whether it tells of its slots; older servers do not say."""


class _Moved(msgspec.Struct):
    """What a save or a restore has moved."""

    n_saved: int = 0
    n_restored: int = 0


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


class Rack:
    """What is known of one server."""

    def __init__(self, transport: Transport, root: str, headers: Sequence[tuple[str, str]]) -> None:
        """Ask nothing yet; `root` is the address without the version."""
        self.kind: Kind = "unknown"
        self.context: int | None = None
        """Tokens of a slot."""
        self._transport = transport
        self._root = root
        self._headers = (*headers, ("content-type", "application/json"))
        self._props: _Props | None = None
        self._asking = anyio.Lock()
        self._launch = anyio.Semaphore(1)
        self._room = anyio.Semaphore(1)
        self._freed = anyio.Event()
        self._slots: list[Slot] = []
        self._files: list[File] = []
        self._loose: list[Loose] = []
        self._seen: dict[str, Prompt] = {}
        self._answered: set[str] = set()
        self._running: list[Lease] = []
        self._secret = os.urandom(8).hex()
        self._clock = 0
        self._pace = 0.0
        self._forgets = False
        self._told = False
        self._doubted = False

    def meet(self, prompt: Prompt, agent: str) -> bool:
        """Say whether an agent that is new here begins as another did, as forks do."""
        if self.kind == "other":
            return False
        new = agent not in self._seen
        known = self._seen.values() if new else ()
        related = any(shared_bytes(other, prompt) >= WORTH for other in known)
        if new and len(self._seen) >= _AGENTS:
            del self._seen[next(iter(self._seen))]
        self._seen[agent] = prompt
        return related

    async def recognise(self) -> None:
        """Find out, once, whether this is llama.cpp and whether its slots can be saved."""
        async with self._asking:
            if self.kind != "unknown":
                return
            kind: Kind = "other"
            with anyio.move_on_after(_PROBE_SECONDS):
                kind = await self._ask_kind()
            self.kind = kind
            if kind == "slots":
                await self._refresh()

    async def _ask_kind(self) -> Kind:
        props = await self._ask_props()
        if props is None:
            return "other"
        self._props, self.context = props, props.default_generation_settings.n_ctx or None
        # No file has an empty name: the answer tells whether any other would be taken. Neither
        # question waits for the step that the server is at.
        status, _ = await self._call("POST", "/slots/0?action=save", b'{"filename":""}')
        if status != 400 or not props.endpoint_slots:
            return "plain"
        self._slots = [Slot(number) for number in range(props.total_slots)]
        self._room = anyio.Semaphore(max(1, props.total_slots))
        return "slots" if props.total_slots > 1 else "single"

    async def _ask_props(self) -> _Props | None:
        status, data = await self._call("GET", "/props")
        try:
            return msgspec.json.decode(data, type=_Props) if status == 200 else None
        except msgspec.MsgspecError:
            return None

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
            f"the llama.cpp server at {self._root} {why}; start it with "
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
            async with self._room:
                await self._wait_for_holder(prompt, agent)
                await self._launch.acquire()
                lease.launching = True
                try:
                    await self._place(lease)
                    yield lease
                finally:
                    self.launched(lease)
        finally:
            self._running.remove(lease)
            if lease.slot is not None:
                lease.slot.leased = False
            freed, self._freed = self._freed, anyio.Event()
            freed.set()

    def began(self, lease: Lease) -> None:
        """Note that the server has begun with a request: others may follow."""
        lease.began = lease.began or time.monotonic()
        if lease.slot is not None:
            lease.slot.holds, lease.slot.tokens = lease.prompt, 0
        self.launched(lease)

    def launched(self, lease: Lease) -> None:
        """Let other requests begin."""
        if lease.launching:
            lease.launching = False
            self._launch.release()

    def spoke(self, lease: Lease, usage: Usage, first: float) -> None:
        """Note a whole reply, of which the first word came at that time."""
        self._answered.add(lease.agent)
        lease.tokens = usage.input + usage.output - 1
        if lease.slot is not None:
            lease.slot.tokens = lease.tokens
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
        async with self._launch:
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
            with anyio.move_on_after(left):
                await self._freed.wait()

    async def _place(self, lease: Lease) -> None:
        await self._refresh()
        if self.kind != "slots":
            return
        agent = lease.agent
        if self._forgets and agent in self._answered and not self._own(agent):
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
            slot = lease.slot = chosen.slot
            slot.leased, slot.agent = True, agent

    def _own(self, agent: str) -> bool:
        free = (slot for slot in self._slots if not slot.leased and slot.holds is not None)
        return any(slot.agent == agent for slot in free)

    async def _bring(self, chosen: Choice) -> bool:
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
        states = await self._look()
        if states is None:
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
            slot.holds, slot.agent, slot.tokens = lease.prompt, lease.agent, lease.tokens
            slot.leased, lease.slot = True, slot

    async def _check_same(self) -> None:
        """Forget all files if another model is there now: a state means nothing to it."""
        props = await self._ask_props()
        if props is not None and props != self._props:
            self._props, self._files = props, []
            for slot in self._slots:
                slot.holds = None

    async def _look(self) -> list[State] | None:
        status, data = await self._call("GET", "/slots")
        if status in {404, 501}:
            self.kind = "plain"
        try:
            return _states(data) if status == 200 else None
        except msgspec.MsgspecError:
            return None

    async def _save(self, slot: Slot) -> File | None:
        """Write a slot's state to a file, over the one used longest ago if there are enough."""
        if slot.holds is None:
            return None
        if len(self._files) < _FILES:
            file = File(f"prong-{self._secret}-{len(self._files)}")
            self._files.append(file)
        else:
            file = min(self._files, key=lambda file: file.used)
        file.holds = None
        moved = await self._act(slot, "save", file.name)
        if moved is None or abs(moved.n_saved - slot.tokens) > 1:
            slot.holds = None
            return None
        file.holds = slot.holds
        self._use(file)
        return file

    async def _restore(self, file: File, slot: Slot) -> bool:
        slot.holds, slot.tokens = None, 0
        moved = await self._act(slot, "restore", file.name)
        if moved is None or not moved.n_restored:
            file.holds = None
            return False
        slot.holds = file.holds
        self._use(file)
        return True

    def _use(self, file: File) -> None:
        self._clock += 1
        file.used = self._clock

    async def _act(self, slot: Slot, action: str, name: str) -> _Moved | None:
        body = msgspec.json.encode({"filename": name})
        status, data = await self._call("POST", f"/slots/{slot.number}?action={action}", body)
        try:
            return msgspec.json.decode(data, type=_Moved) if status == 200 else None
        except msgspec.MsgspecError:
            return None

    async def _call(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        try:
            with anyio.fail_after(_PATIENCE_SECONDS):
                url = self._root + path
                async with self._transport.request(method, url, self._headers, body) as response:
                    data = await read(response)
                    response.settle()
                    return response.status, data
        except (ProngError, TimeoutError):
            return 0, b""

    async def aclose(self) -> None:
        """Empty the files that were written: the server has no way to delete them."""
        written = [file for file in self._files if file.used]
        free = [slot for slot in self._slots if not slot.leased]
        if not written or not free:
            return
        with anyio.move_on_after(_PROBE_SECONDS):
            await self._refresh()
            # An empty state is a few bytes; a slot that holds nothing is best for it.
            slot = min(free, key=lambda slot: (slot.busy, slot.filled, slot.task))
            if slot.filled:
                await self._call("POST", f"/slots/{slot.number}?action=erase", b"{}")
            for file in written:
                await self._act(slot, "save", file.name)
