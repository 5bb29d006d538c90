import asyncio

from agents import Agent, Runner

agent = Agent(name="assistant", model="gpt-5.6")


async def main() -> None:
    read = (await Runner.run(agent, "Read the report.")).to_input_list()
    asked = [{"role": "user", "content": f"Sum up chapter {n}."} for n in range(1, 6)]
    for result in await asyncio.gather(*(Runner.run(agent, [*read, one]) for one in asked)):
        print(result.final_output)


asyncio.run(main())
