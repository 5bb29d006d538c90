import anyio

import prong


async def main() -> None:
    async with prong.open_session(model="claude-sonnet-5-5", mode="dontAsk") as session:
        await session.run("Read the report.")
        for fork in await session.fork([f"Sum up chapter {n}." for n in range(1, 6)]):
            print(fork.text)


anyio.run(main)
