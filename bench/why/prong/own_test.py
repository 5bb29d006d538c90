import anyio

import prong
from prong.testing import Server, call, say


@prong.tool(read_only=True)
def weather(city: str) -> str:
    """Tell the weather in a city."""
    return f"It rains in {city}."


async def test_the_tool_is_used() -> None:
    async with Server([call("weather", {"city": "Oslo"}), say("Yes.")]) as server:
        options = prong.Options(model="claude-x", base_url=server.url, api_key="k")
        async with prong.open_session(options, tools=[weather]) as session:
            turn = await session.run("Do I need an umbrella in Oslo?")
        assert turn.text == "Yes."
        assert b"It rains in Oslo." in server.records[-1].body


anyio.run(test_the_tool_is_used)
