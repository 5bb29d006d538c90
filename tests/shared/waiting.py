"""Waiting for what is to happen, however long a busy machine takes for it."""

from __future__ import annotations

from collections.abc import Callable

import anyio


async def until(fact: Callable[[], object], *, within: float = 60.0) -> None:
    """Wait until something holds; TimeoutError if it never does."""
    with anyio.fail_after(within):
        while not fact():
            await anyio.sleep(0.01)
