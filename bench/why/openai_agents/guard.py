import json
from pathlib import Path

from agents import Agent, Runner, ToolGuardrailFunctionOutput, function_tool, tool_input_guardrail

OUT = Path("out").resolve()


@tool_input_guardrail
def only_out(data):
    if Path(json.loads(data.context.tool_arguments)["path"]).resolve().is_relative_to(OUT):
        return ToolGuardrailFunctionOutput.allow()
    return ToolGuardrailFunctionOutput.reject_content("Only files in out are written.")


@function_tool(tool_input_guardrails=[only_out])
def write(path: str, content: str) -> str:
    """Write a file."""
    return f"{Path(path).write_text(content)} characters were written."


agent = Agent(name="assistant", model="gpt-5.6", tools=[write])
print(Runner.run_sync(agent, "Take notes.").final_output)
