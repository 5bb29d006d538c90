from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

agent = Agent("anthropic:claude-sonnet-5-5", defer_model_check=True)


@agent.tool_plain
def weather(city: str) -> str:
    """Tell the weather in a city."""
    return f"It rains in {city}."


def test_the_tool_is_used() -> None:
    with agent.override(model=TestModel(custom_output_text="Yes.")):
        result = agent.run_sync("Do I need an umbrella in Oslo?")
    assert result.output == "Yes."
    assert "It rains in" in str(result.all_messages())


test_the_tool_is_used()
