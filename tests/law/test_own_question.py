"""Questions of the full screen's own: a key answers the one that was seen, and no other."""

from __future__ import annotations

from functools import partial

import anyio
import pytest

from prong.face.edit.key import TEXT, KeyPress
from prong.face.full.asking import Asking, OwnQuestion
from prong.question import Answer

pytestmark = [pytest.mark.anyio, pytest.mark.spec("X3")]

QUIET = 0.5


async def test_a_key_that_comes_twice_answers_once() -> None:
    """The question that waits behind the first is neither agreed to nor taken for the same."""
    own, asking, given = OwnQuestion(), Asking(QUIET), dict[str, bool]()

    async def ask(question: str) -> None:
        given[question] = await own.ask(question, lambda: None)

    async def press() -> None:
        answer = asking.press(KeyPress(TEXT, "y"))
        assert isinstance(answer, Answer)
        own.take(answer)
        await anyio.wait_all_tasks_blocked()

    async with anyio.create_task_group() as group:
        for question in ("one", "two"):
            group.start_soon(partial(ask, question))
            await anyio.wait_all_tasks_blocked()
        asking.see(own.asked, 1.0)
        assert asking.armed(1.0 + QUIET)
        await press()
        await press()
        assert given == {"one": True}
        assert asking.see(own.asked, 3.0), "another question"
        assert not asking.armed(3.0)
        own.refuse()

    assert given == {"one": True, "two": False}
