from agents import Agent, Runner, function_tool


@function_tool
def weather(city: str) -> str:
    """Tell the weather in a city."""
    return f"It rains in {city}."


agent = Agent(name="assistant", model="gpt-5.6", tools=[weather])
print(Runner.run_sync(agent, "Do I need an umbrella in Oslo?").final_output)
