"""The way to a session of another process: its socket, and the link of who acts there."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import anyio.abc
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

from prong.command import Refused, Say
from prong.errors import OutcomeUnknown
from prong.face.web.page_action import PageActions
from prong.mail.socket_folder import new_socket_path
from prong.session.control_client import ControlLink, act_in
from prong.session.outside_control import ControlRequest, OutsideControl
from prong.testing import Worlds, say
from shared.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.spec("X3")]


@asynccontextmanager
async def playing(journal: Path, after: Callable[..., Awaitable[None]]) -> AsyncGenerator[None]:
    """Play a session: it says yes to whoever comes, and then does what it is given."""

    async def serve(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                await stream.receive()
                await stream.send(b'{"why": ""}\n')
                await after(stream)

    path = new_socket_path(journal, "main", "control")
    listener = await anyio.create_unix_listener(path)
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, serve)
        yield
        group.cancel_scope.cancel()
    path.unlink()


@asynccontextmanager
async def played(
    journal: Path, after: Callable[..., Awaitable[None]]
) -> AsyncGenerator[ControlLink]:
    """Be let in to what plays a session."""
    async with playing(journal, after), act_in(journal) as link:
        await link.wait_admitted()
        yield link


@pytest.mark.parametrize("size", [5, 250_000])
async def test_what_came_of_an_order_is_unknown_if_the_session_dies(
    tmp_path: Path, size: int
) -> None:
    """Nothing is told as done or refused that the session has not said to be, sent whole or not."""

    async def die(stream: anyio.abc.SocketStream) -> None:
        await stream.receive(1)

    async with played(tmp_path / "s.jsonl", die) as link:
        with pytest.raises(OutcomeUnknown, match="transcript"):
            await link.send(Say("x" * size))
        await link.wait_ended()
        assert isinstance(await link.send(Say("Again")), Refused)


async def test_orders_do_not_mix(tmp_path: Path) -> None:
    """Two that are sent at once, each longer than the way holds, arrive one after the other."""

    async def answer(stream: anyio.abc.SocketStream) -> None:
        lines = BufferedByteReceiveStream(stream)
        for _ in range(2):
            order = json.loads(await lines.receive_until(b"\n", 256_000))
            done = {"id": order["id"], "outcome": {"type": "refused", "why": order["id"]}}
            await stream.send(json.dumps(done).encode() + b"\n")
        await anyio.sleep_forever()

    async with played(tmp_path / "s.jsonl", answer) as link, anyio.create_task_group() as group:

        async def send(name: str) -> None:
            assert await link.send(Say("x" * 250_000), order=name) == Refused(name)

        group.start_soon(send, "one")
        group.start_soon(send, "two")


async def test_what_goes_wrong_beside_a_link_is_not_lost(tmp_path: Path) -> None:
    """Whoever uses a link has its own errors, as they were raised."""

    async def stay(_: anyio.abc.SocketStream) -> None:
        await anyio.sleep_forever()

    async def fail() -> None:
        async with act_in(tmp_path / "s.jsonl") as link:
            await link.wait_admitted()
            raise ZeroDivisionError

    async with playing(tmp_path / "s.jsonl", stay):
        with pytest.raises(ZeroDivisionError):
            await fail()


async def test_a_page_is_told_what_nobody_knows(tmp_path: Path) -> None:
    """Of an order that a session took along when it died no page hears that it was refused."""

    async def die(stream: anyio.abc.SocketStream) -> None:
        await stream.receive()

    journal, order = tmp_path / "s.jsonl", b'{"id": "12345678", "command": {"type": "interrupt"}}'
    async with playing(journal, die), anyio.create_task_group() as group:
        actions = PageActions(group)
        await actions.ask(journal)
        await until(lambda: actions.state(journal).state == "admitted")
        assert (await actions.carry_out(journal, order))["type"] == "unknown"
        await until(lambda: actions.state(journal).state == "lost")
        assert (await actions.carry_out(journal, order))["type"] == "refused"
        assert (await actions.ask(journal)).state in {"asking", "admitted"}, "it can be asked again"
        group.cancel_scope.cancel()


async def test_outcomes_are_kept_for_who_asks_again_but_not_forever() -> None:
    """Of very many orders the latest thousand are known; the oldest are forgotten first."""
    control = OutsideControl()
    kept = [control.begin(str(number))[0] for number in range(1_001)]

    assert control.begin("1") == (kept[1], False)
    assert control.begin("1000") == (kept[1000], False)
    assert control.begin("0")[1]


@pytest.mark.parametrize("first", [True, False])
async def test_only_the_first_decision_counts(*, first: bool) -> None:
    """A yes after a no, as two faces may give them, lets nobody in; nor does a no send away."""
    request = ControlRequest(1, "4711")
    request.settle(allow=first)
    request.settle(allow=not first)
    assert request.allowed is first


async def test_a_socket_goes_with_its_session(world: Worlds) -> None:
    """One that a killed process has left is replaced; at the end its own goes, and no other's."""
    async with world([say("One.")], opens=False) as w:
        async with w.open(session_id="it", allow_actions=True) as session:
            await session.run("Go")
            (journal,) = w.store.glob("projects/*/it.jsonl")
            path = new_socket_path(journal, "main", "control")
            await until(lambda: answers(path))
        assert not path.exists()
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(path))
        async with w.open(resume="it", allow_actions=True):
            await until(lambda: answers(path))
            path.unlink()
            with socket.socket(socket.AF_UNIX) as others:
                others.bind(str(path))
        assert path.is_socket()
        path.unlink()


def answers(path: Path) -> bool:
    """Say whether somebody listens at a socket."""
    with socket.socket(socket.AF_UNIX) as own:
        return own.connect_ex(str(path)) == 0
