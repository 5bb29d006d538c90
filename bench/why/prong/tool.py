import anyio

import prong


@prong.tool(read_only=True)
def weather(city: str) -> str:
    """Tell the weather in a city."""
    return f"It rains in {city}."


async def main() -> None:
    async with prong.open_session(model="claude-sonnet-5-5", tools=[weather]) as session:
        turn = await session.run("Do I need an umbrella in Oslo?")
        print(turn.text)


anyio.run(main)
