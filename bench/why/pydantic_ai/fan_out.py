import asyncio

from pydantic_ai import Agent

agent = Agent("anthropic:claude-sonnet-5-5")


async def main() -> None:
    read = (await agent.run("Read the report.")).all_messages()
    asked = [agent.run(f"Sum up chapter {n}.", message_history=read) for n in range(1, 6)]
    for result in await asyncio.gather(*asked):
        print(result.output)


asyncio.run(main())
