"""Acts in a session that another process runs: asks to be let in, then sends commands.

The other side is `control_socket`. Nothing is done here before the session's own user has agreed;
`code` is what that user is shown, and what this side has to show to its own.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from secrets import randbelow
from typing import Literal, TypeAlias
from uuid import uuid4

import anyio
import anyio.abc
import msgspec
from anyio.streams.buffered import BufferedByteReceiveStream

from prong.command import Outcome, Refused
from prong.errors import NotPossibleNow, OutcomeUnknown
from prong.foreign_json import NOT_JSON
from prong.journal.lock import has_writer
from prong.mail.socket_folder import socket_paths
from prong.session.control_message import (
    CONTROL,
    LONGEST,
    ControlHello,
    ControlVerdict,
    OrderDone,
    OutsideCommand,
    OutsideOrder,
)
from prong.system.peer import peer_process

_LOST = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, OSError)
_TORN = (anyio.IncompleteRead, anyio.DelimiterNotFound, *NOT_JSON)
LinkState: TypeAlias = Literal["asking", "admitted", "refused", "lost"]
UNKNOWN = (
    "the session went away before it said what came of this; its transcript shows whether it was "
    "done"
)


class ControlLink:
    """The way to act in one session; made by `act_in`."""

    def __init__(self, stream: anyio.abc.SocketStream) -> None:
        """Use `act_in`."""
        self.code = f"{randbelow(10_000):04}"
        """What the session's user is shown; show it to who is to compare."""
        self.state: LinkState = "asking"
        self.why = ""
        """Why it was refused or lost."""
        self._stream = stream
        self._lines = BufferedByteReceiveStream(stream)
        self._writing = anyio.Lock()
        self._decided = anyio.Event()
        self._ended = anyio.Event()
        self._waiting: dict[str, _PendingOutcome] = {}

    async def run(self) -> None:
        """Ask, and take what comes back until the session goes away."""
        try:
            await self._stream.send(msgspec.json.encode(ControlHello(self.code)) + b"\n")
            line = await self._lines.receive_until(b"\n", LONGEST)
            self.why = msgspec.json.decode(line, type=ControlVerdict).why
            self.state = "refused" if self.why else "admitted"
            self._decided.set()
            while not self.why:
                line = await self._lines.receive_until(b"\n", LONGEST)
                done = msgspec.json.decode(line, type=OrderDone)
                if (slot := self._waiting.get(done.id)) is not None:
                    slot.settle(done.outcome)
        except (*_LOST, *_TORN):
            self.state, self.why = "lost", "the session, or its user, has ended this"
        finally:
            if self.state in {"asking", "admitted"}:
                self.state, self.why = "lost", "this side has hung up"
            self._decided.set()
            self._ended.set()
            for slot in self._waiting.values():
                slot.settle(None)

    async def wait_admitted(self) -> None:
        """Wait until the session's user has decided; raises NotPossibleNow if it was a no."""
        await self._decided.wait()
        if self.state != "admitted":
            raise NotPossibleNow(self.why)

    async def wait_ended(self) -> None:
        """Wait until it was refused, or the session has gone."""
        await self._ended.wait()

    async def send(self, command: OutsideCommand, *, asked: int = 0, order: str = "") -> Outcome:
        """Have a command carried out, once: the same `order` sent again gives the same outcome.

        For an answer, `asked` is the number of the event that asked. Raises OutcomeUnknown if the
        session goes away before it says what came of it.
        """
        if self.state != "admitted":
            return Refused(self.why or "nobody has agreed to it yet")
        order = order or uuid4().hex
        data = msgspec.json.encode(OutsideOrder(order, command, asked)) + b"\n"
        if len(data) > LONGEST:
            return Refused(f"that is longer than {LONGEST:,} bytes")
        slot = self._waiting.setdefault(order, _PendingOutcome())
        try:
            async with self._writing:
                await self._stream.send(data)
        except _LOST as error:
            raise OutcomeUnknown(UNKNOWN) from error
        outcome = await slot.wait()
        self._waiting.pop(order, None)
        if outcome is None:
            raise OutcomeUnknown(UNKNOWN)
        return outcome


class _PendingOutcome:
    """Where the outcome of an order goes."""

    def __init__(self) -> None:
        self._outcome: Outcome | None = None
        self._known = anyio.Event()

    def settle(self, outcome: Outcome | None) -> None:
        self._outcome = outcome
        self._known.set()

    async def wait(self) -> Outcome | None:
        await self._known.wait()
        return self._outcome


@asynccontextmanager
async def act_in(journal: Path) -> AsyncGenerator[ControlLink, None]:
    """Ask to act in the session of a journal; the link is there until the block is left.

    Raises NotPossibleNow if nobody runs it, or it takes no commands from outside.
    """
    stream = await _connected(journal)
    failure: Exception | None = None
    async with stream, anyio.create_task_group() as group:
        link = ControlLink(stream)
        group.start_soon(link.run)
        try:
            yield link
        except Exception as error:  # noqa: BLE001 - given back below, bare of its group
            failure = error
        group.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def _connected(journal: Path) -> anyio.abc.SocketStream:
    for path in socket_paths(journal, "main", CONTROL):
        with suppress(OSError, AttributeError, NotImplementedError):
            stream = await anyio.connect_unix(path)
            peer = peer_process(stream)
            if peer is not None and peer.is_ours:
                return stream
            await stream.aclose()
    name = journal.stem
    if has_writer(journal):
        raise NotPossibleNow(
            "this session takes no commands from outside: it does in a terminal, where you are "
            "asked, or if it was started with --allow-actions (allow_actions=True)"
        )
    raise NotPossibleNow(
        f"nobody runs this session: 'prong --resume {name}' in a terminal goes on with it"
    )
