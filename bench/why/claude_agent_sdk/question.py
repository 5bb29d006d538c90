import asyncio

from claude_agent_sdk import ResultMessage, query


async def main() -> None:
    async for message in query(prompt="What is six times seven?"):
        if isinstance(message, ResultMessage):
            print(message.result)


asyncio.run(main())
