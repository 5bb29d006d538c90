from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.capabilities import Hooks
from pydantic_ai.exceptions import SkipToolExecution

OUT = Path("out").resolve()
hooks = Hooks()
agent = Agent("anthropic:claude-sonnet-5-5", capabilities=[hooks])


@agent.tool_plain
def write(path: str, content: str) -> str:
    """Write a file."""
    return f"{Path(path).write_text(content)} characters were written."


@hooks.on.before_tool_execute(tools=["write"])
def only_out(_ctx, *, args, **_):
    if Path(args["path"]).resolve().is_relative_to(OUT):
        return args
    raise SkipToolExecution("Only files in out are written.")


print(agent.run_sync("Take notes.").output)
