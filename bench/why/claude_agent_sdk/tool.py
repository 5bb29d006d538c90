import asyncio

from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, create_sdk_mcp_server, query, tool


@tool("weather", "Tell the weather in a city.", {"city": str})
async def weather(args):
    return {"content": [{"type": "text", "text": f"It rains in {args['city']}."}]}


async def main() -> None:
    options = ClaudeAgentOptions(
        mcp_servers={"own": create_sdk_mcp_server("own", tools=[weather])},
        allowed_tools=["mcp__own__weather"],
    )
    async for message in query(prompt="Do I need an umbrella in Oslo?", options=options):
        if isinstance(message, ResultMessage):
            print(message.result)


asyncio.run(main())
