from agents import Agent, Runner, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call


@function_tool
def weather(city: str) -> str:
    """Tell the weather in a city."""
    return f"It rains in {city}."


def test_the_tool_is_used() -> None:
    called = function_call("weather", {"city": "Oslo"}, call_id="1")
    model = ScriptedModel([[called], [assistant_message("Yes.")]])
    agent = Agent(name="assistant", model=model, tools=[weather])
    result = Runner.run_sync(agent, "Do I need an umbrella in Oslo?")
    assert result.final_output == "Yes."
    assert "It rains in Oslo." in str(model.last_call.input)


test_the_tool_is_used()
