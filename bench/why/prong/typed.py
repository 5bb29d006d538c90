from dataclasses import dataclass

import anyio

import prong


@dataclass
class City:
    name: str
    people: int


async def main() -> None:
    async with prong.open_session(model="claude-sonnet-5-5") as session:
        turn = await session.run("How many people live in Oslo?", returns=City)
        print(turn.value.people)


anyio.run(main)
