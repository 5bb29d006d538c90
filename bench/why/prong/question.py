import anyio

import prong


async def main() -> None:
    async with prong.open_session(model="claude-sonnet-5-5") as session:
        turn = await session.run("What is six times seven?")
        print(turn.text)


anyio.run(main)
