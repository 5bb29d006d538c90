"""A test of one's own agent: with a model that is scripted, and with a run that was recorded.

    python -m pytest examples/test_support_bot.py
    PRONG_RECORD=1 python -m pytest examples/test_support_bot.py     records anew, with your key

The first says what the model does, so it can try what no model does on demand. The second is what a
model once did, and fails if anything that it was told has moved.
"""

from pathlib import Path

import pytest
from support_bot import BOT, ORDERS, Answer

import prong
from prong.testing import Server, call, recorded_run, say

MODEL = "claude-sonnet-5-5"
RUN = Path(__file__).with_name("support_bot.run")

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    """Prong runs on asyncio."""
    return "asyncio"


async def test_a_wrong_number_is_asked_for_again(tmp_path: Path) -> None:
    """The model is told what went wrong, in the words of the function, and can say so."""
    script = [
        call("find_order", {"number": 7}),
        say('{"text": "Which number is on your bill?", "next_step": "none"}'),
    ]
    async with (
        Server(script) as server,
        prong.open_session(
            BOT, model=MODEL, base_url=server.url, cwd=str(tmp_path), store=str(tmp_path / "kept")
        ) as session,
    ):
        turn = await session.run("Where is order 7?", returns=Answer)

        assert turn.value == Answer("Which number is on your bill?", "none")
        assert "there is no order 7" in server.records[1].request.last_text


async def test_a_broken_lamp_is_paid_back(tmp_path: Path) -> None:
    """A recorded run: the order is looked up, refunded, and the customer is told."""
    ORDERS[1001].status = "delivered"
    async with (
        recorded_run(RUN) as server,
        prong.open_session(
            BOT, model=MODEL, base_url=server.url, cwd=str(tmp_path), store=str(tmp_path / "kept")
        ) as session,
    ):
        turn = await session.run("My lamp, order 1001, came broken.", returns=Answer)

        assert turn.value.next_step == "refund"
        assert ORDERS[1001].status == "refunded"
