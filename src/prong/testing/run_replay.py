"""Replays a recorded run: a server that gives each agent the replies it got, for the same prompts.

Replies are given in the recorded order. Each waits until everything has happened that had happened
before it, as far as it is still going to: so what siblings do to each other, and the order in which
they end, is that of the recording, however fast this machine is.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import msgspec

from prong.errors import BadInput
from prong.prompt import first_difference
from prong.testing.clock import AnyClock, WallClock
from prong.testing.http import Exchange, Hangup, Incoming, listen
from prong.testing.placeholder import Form, Normal
from prong.testing.run_file import RecordedExchange, RecordedRun, read_run
from prong.testing.run_recorder import (
    given_places,
    path_of,
    refusal,
    secrets_of,
    who_asks,
    without_secrets,
)
from prong.testing.split_delta import filled_pieces

_SETTLE = 0.05
"""Seconds in which an agent may end after its last reply, before others are answered."""
_END = 1.0
"""The same where it must have ended: whoever is answered next was told of it."""
_REMEDY = "if that is meant, record the run anew"


class RunDiffers(AssertionError):
    """A run is not the recorded one; says where it first differs."""


class ReplayServer:
    """Answers the requests of a run as they were answered when it was recorded."""

    def __init__(self, run: RecordedRun, form: Form, patience: float) -> None:
        self.port = 0
        self._run = run
        self._form = form
        self._patience = patience
        self.clock: AnyClock = WallClock()
        """By which agents are given time to end."""
        self._played: set[int] = set()
        self._sequence = _Sequence(run)
        self._differences: dict[int, str] = {}

    @property
    def url(self) -> str:
        """The base URL for the agents, without `/v1`."""
        return f"http://127.0.0.1:{self.port}"

    def difference(self) -> str:
        """Say where the run first differs from the recorded one; empty if it does not so far."""
        return self._differences[min(self._differences)] if self._differences else ""

    def check(self) -> None:
        """Demand that the run was the recorded one, and went to its end.

        Raises RunDiffers.
        """
        if said := self.difference():
            raise RunDiffers(said)
        for at, one in enumerate(self._run.exchanges):
            if at not in self._played and not one.optional:
                raise RunDiffers(f"request {one.number} of {one.key} did not come; {_REMEDY}")

    async def answer(self, exchange: Exchange) -> None:
        """Answer one request."""
        try:
            incoming = exchange.incoming
            normal = self._form.normal(without_secrets(incoming.body, secrets_of(incoming)))
        except ValueError as error:
            await self._refuse(exchange, _Difference(0, str(error)))
            return
        at = self._match(exchange.incoming, normal)
        if isinstance(at, _Difference):
            await self._refuse(exchange, at)
            return
        self._played.add(at)
        one = self._run.exchanges[at]
        try:
            await self._play(exchange, one, normal.names)
        finally:
            # However it ended: a client may go while it waits.
            self._sequence.passed(*one.order)

    async def _refuse(self, exchange: Exchange, found: _Difference) -> None:
        self._differences.setdefault(found.place, found.said)
        self._sequence.give_up()
        await exchange.send(400, refusal(found.said), {"content-type": "application/json"})

    def _match(self, incoming: Incoming, normal: Normal) -> int | _Difference:
        """Find the request that this one is."""
        agent, sidecar = who_asks(incoming)
        left = [
            (at, one)
            for at, one in enumerate(self._run.exchanges)
            if at not in self._played
            and (one.method, one.path, one.sidecar) == (incoming.method, path_of(incoming), sidecar)
        ]
        own = [(at, one) for at, one in left if one.agent == agent]
        # Agents may be numbered by who was first; the same prompt is the same agent's.
        for at, one in (*own, *(pair for pair in left if pair not in own)):
            if _describe(one.body, normal.body) is None:
                return at
        who = f"{agent} [{sidecar}]" if sidecar else agent
        if not own:
            sent = sum(one.agent == agent for one in self._run.exchanges)
            why = f"has no more than {sent} requests of it" if sent else "has no such agent"
            return _Difference(
                len(self._run.exchanges), f"{who} asks, and the recording {why}; {_REMEDY}"
            )
        at, one = own[0]
        said = _describe(one.body, normal.body)
        return _Difference(
            at, f"request {one.number} of {who} is not the one that was recorded: {said}"
        )

    async def _play(
        self, exchange: Exchange, one: RecordedExchange, names: Mapping[str, str]
    ) -> None:
        asked, began, answered = one.order
        self._sequence.passed(asked)
        await exchange.wait(self._turn, began)
        pieces = filled_pieces(one.pieces, names)
        headers = {"content-type": one.kind} if one.kind else {}
        if one.status >= 429:
            # The wait was for the real server's sake.
            headers["retry-after"] = "0"
        await exchange.start(one.status, headers)
        # What made the agent give up was in it, so nothing of that may be waited for.
        first = len(pieces) if one.end == "gone" else 1
        for piece in pieces[:first]:
            await exchange.write(piece)
        self._sequence.passed(began)
        if one.end == "gone":
            self._sequence.passed(answered)
            await exchange.wait(anyio.sleep, self._patience)
        await exchange.wait(self._turn, answered)
        for piece in pieces[first:]:
            await exchange.write(piece)
        if one.end == "whole":
            await exchange.finish()
        if "/" in one.agent and not any(other.agent == one.agent for other in self._left()):
            await self.clock.sleep(_settling(self._run, one))
        if one.end != "whole":
            raise Hangup

    def _left(self) -> Iterator[RecordedExchange]:
        return (e for at, e in enumerate(self._run.exchanges) if at not in self._played)

    async def _turn(self, number: float) -> None:
        """Wait until it is the turn of what happened as number so and so."""
        with anyio.move_on_after(self._patience):
            await self._sequence.reach(int(number))


def _settling(run: RecordedRun, last: RecordedExchange) -> float:
    """Say how long an agent has to end after its last reply.

    A parent that waits for a reply meanwhile goes on when it has it. What its next request says
    tells whether it had heard of the end by then.
    """
    parent, _, name = last.agent.rpartition("/")
    own = [one for one in run.exchanges if one.agent == parent and not one.optional]
    end = last.order[2]
    if not any(asked < end < answered for asked, _, answered in (one.order for one in own)):
        return _SETTLE
    told = f"<task-id>{name}</task-id>".encode()
    following = min((one for one in own if one.order[0] > end), key=_asked, default=None)
    return _END if following is not None and told in following.body else 0.0


def _asked(one: RecordedExchange) -> int:
    return one.order[0]


class _Difference(msgspec.Struct, frozen=True):
    place: int
    """Which of the recorded requests it is about."""
    said: str


class _Sequence:
    """What has happened of all that is to happen, and who waits for it."""

    def __init__(self, run: RecordedRun) -> None:
        # What may be left out is waited for by nobody.
        self._ahead = {n for one in run.exchanges if not one.optional for n in one.order}
        self._changed = anyio.Event()

    def passed(self, *numbers: int) -> None:
        """Say that something has happened."""
        self._ahead.difference_update(numbers)
        self._changed.set()
        self._changed = anyio.Event()

    def give_up(self) -> None:
        """Let nobody wait any more: it is another run."""
        self.passed(*self._ahead)

    async def reach(self, number: int) -> None:
        """Wait until everything before has happened."""
        while any(one < number for one in self._ahead):
            await self._changed.wait()


@asynccontextmanager
async def replay_run(
    path: str | Path, *, places: Mapping[str, str] | None = None, patience: float = 20.0
) -> AsyncGenerator[ReplayServer]:
    """Replay a recorded run to the agents that ask at the server's `url`; needs no network.

    `places` are the values of this machine for the names that were given when it was recorded. A
    reply waits `patience` seconds at most for what happened before it.

    Raises on leaving:
        RunDiffers: a prompt has moved, or requests are missing; says where it first differs.
        UsageError: the file is no recorded run, or a place is not given.

    """
    run = read_run(await anyio.Path(path).read_bytes(), str(path))
    given = given_places(places)
    if missing := sorted({*run.places}.difference(given)):
        raise BadInput(f"{path} was recorded with a place {missing[0]!r}: give it in places")
    form = Form(masks=run.masks, places={name: given[name] for name in run.places})
    server = ReplayServer(run, form, patience)
    async with listen(server.answer) as server.port:
        try:
            yield server
        except Exception as error:
            if said := server.difference():
                raise RunDiffers(said) from error
            raise
    server.check()


def _describe(recorded: bytes, now: bytes) -> str | None:
    """Say where two prompts first differ, with both sides; None if they are the same."""
    if recorded == now:
        return None
    try:
        found = first_difference(recorded, now)
    except msgspec.MsgspecError:
        return f"recorded {recorded[:200]!r}, now {now[:200]!r}"
    if found is None:
        return None
    place = f"{found.path}, byte {found.byte}" if found.byte >= 0 else found.path
    return (
        f"{place}, after {found.shared_items} equal items\n"
        f"  recorded: {found.left or '(nothing)'}\n"
        f"  now:      {found.right or '(nothing)'}\n{_REMEDY}"
    )
