"""Lets the session's user decide who may act in it from outside: by a question."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import anyio

from prong.face.carry import Outlet
from prong.session import ControlRequest, Session

Agreeing: TypeAlias = Callable[[str, str], Awaitable[bool]]
"""Puts a question that names a code; nothing answers it that was meant for another question."""


async def ask_about_others(session: Session, outlet: Outlet, agree: Agreeing) -> None:
    """Put whoever wants to act in the session before the user, one after the other."""
    while True:
        request = await session.records.control.next_request()
        outlet.tell([(line, "bold") for line in _explained(request)])
        async with anyio.create_task_group() as group:
            group.start_soon(_until_gone, request, group.cancel_scope)
            question = f"process {request.pid}, code {request.code}: let it act here?"
            request.settle(allow=await agree(question, request.code))
            group.cancel_scope.cancel()
        if request.allowed is None:
            outlet.tell([(f"(process {request.pid} has gone; nothing is to be decided)", "dim")])
        await session.records.control.wait_decided(request)


async def announce_others(session: Session, outlet: Outlet) -> None:
    """Say who wants to act in the session, where no question can be put at any time."""
    while True:
        request = await session.records.control.next_request()
        how = f"'/web act {request.code}' lets it, '/web act off' refuses"
        outlet.tell([(line, "bold") for line in (*_explained(request), how)])
        await request.wait_settled()
        await session.records.control.wait_decided(request)


async def _until_gone(request: ControlRequest, scope: anyio.CancelScope) -> None:
    await request.wait_settled()
    scope.cancel()


def _explained(request: ControlRequest) -> tuple[str, ...]:
    return (
        f"process {request.pid} wants to act in this session: answer for you, send messages, stop",
        f"agents. If it is your 'prong web --allow-actions', its page shows {request.code}; if you",
        "started nothing of the kind, say no.",
    )
