import prong


@prong.tool(read_only=True)
def weather(city: str) -> str:
    """Tell the weather in a city."""
    return f"It rains in {city}."


question = "Do I need an umbrella in Oslo?"
print(prong.run(question, model="claude-sonnet-5-5", tools=[weather]).text)
