from pydantic_ai import Agent

agent = Agent("anthropic:claude-sonnet-5-5")


@agent.tool_plain
def weather(city: str) -> str:
    """Tell the weather in a city."""
    return f"It rains in {city}."


print(agent.run_sync("Do I need an umbrella in Oslo?").output)
