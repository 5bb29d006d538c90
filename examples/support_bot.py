"""A support bot: Python functions are its tools, and its answers are values of a type.

    python examples/support_bot.py "Where is order 1002?"

It can touch neither files nor commands. `test_support_bot.py` is its test.
"""

import sys
from dataclasses import dataclass
from typing import Literal

import anyio

import prong


@dataclass
class Order:
    """What somebody has bought."""

    customer: str
    item: str
    status: str
    cents: int


ORDERS = {
    1001: Order("Ada", "lamp", "delivered", 3900),
    1002: Order("Ben", "desk", "in transit", 24900),
}
"""Stands in for a database."""

ABOUT = (
    "You answer customers of a furniture shop. Look every order up; never guess. Refund only what "
    "was delivered and is broken. Be brief and kind."
)


@dataclass
class Answer:
    """What the customer is told, and what is to be done about it."""

    text: str
    next_step: Literal["none", "refund", "human"]


@prong.tool(read_only=True)
def find_order(number: int) -> Order:
    """Look up an order.

    Args:
        number: As on the bill, such as 1001.

    """
    if number not in ORDERS:
        raise LookupError(f"there is no order {number}; ask for the number on the bill")
    return ORDERS[number]


@prong.tool
def refund(number: int, reason: str) -> str:
    """Pay an order back.

    Args:
        number: As on the bill.
        reason: For the books, in a sentence.

    """
    order = ORDERS[number]
    order.status = "refunded"
    return f"{order.cents / 100:.2f} paid back for order {number}: {reason}"


BOT = prong.Options(
    system=ABOUT,
    # Its functions, and of Prong's own tools only a list to keep: neither files nor commands.
    tools=[find_order, refund, "TodoWrite"],
    allow=("refund",),
    mode="dontAsk",
    bare=True,
)


async def main(question: str) -> None:
    """Answer one question."""
    async with prong.open_session(BOT) as session:
        turn = await session.run(question, returns=Answer)
        print(f"{turn.value.text} [{turn.value.next_step}]")


if __name__ == "__main__":
    anyio.run(main, sys.argv[1])
