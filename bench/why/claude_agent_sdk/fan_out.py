import asyncio

from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, query


async def ask(prompt: str, session: str | None = None) -> ResultMessage:
    options = ClaudeAgentOptions(resume=session, fork_session=session is not None)
    async for message in query(prompt=prompt, options=options):
        if isinstance(message, ResultMessage):
            result = message
    return result


async def main() -> None:
    read = await ask("Read the report.")
    asked = [ask(f"Sum up chapter {n}.", read.session_id) for n in range(1, 6)]
    for result in await asyncio.gather(*asked):
        print(result.result)


asyncio.run(main())
