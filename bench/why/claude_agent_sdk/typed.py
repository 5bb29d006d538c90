import asyncio

from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, query

CITY = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "people": {"type": "integer"}},
    "required": ["name", "people"],
}


async def main() -> None:
    options = ClaudeAgentOptions(output_format={"type": "json_schema", "schema": CITY})
    async for message in query(prompt="How many people live in Oslo?", options=options):
        if isinstance(message, ResultMessage):
            print(message.structured_output["people"])


asyncio.run(main())
