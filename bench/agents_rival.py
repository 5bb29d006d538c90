"""Other programs' delegation, each written as its documentation shows; run alone.

Each has a main agent with one tool that gives a brief to a second agent and waits for its answer.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from importlib.metadata import version

import scenario

# A rival's package is called as a file beside this one.
sys.path.pop(0)

WORKER = "You do one part of the work and report."


async def pydantic_ai(url: str) -> str:
    """A tool of one agent that runs another."""
    from anthropic import AsyncAnthropic
    from pydantic_ai import Agent
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    client = AsyncAnthropic(base_url=url, api_key="k", max_retries=0)
    model = AnthropicModel(scenario.MODEL, provider=AnthropicProvider(anthropic_client=client))
    worker = Agent(model, instructions=WORKER)
    agent = Agent(model, instructions=scenario.system())

    async def delegate(prompt: str) -> str:
        """Start an agent."""
        return (await worker.run(prompt)).output

    agent.tool_plain(delegate)
    ready = await agent.run("Are you ready?")
    return (await agent.run(scenario.GO, message_history=ready.all_messages())).output


async def openai_agents(url: str) -> str:
    """An agent as another's tool."""
    from agents import (  # the rival's package: this runs in its own environment
        Agent,  # pyright: ignore[reportAttributeAccessIssue]
        OpenAIChatCompletionsModel,  # pyright: ignore[reportAttributeAccessIssue]
        Runner,  # pyright: ignore[reportAttributeAccessIssue]
        set_tracing_disabled,  # pyright: ignore[reportAttributeAccessIssue]
    )
    from openai import AsyncOpenAI

    set_tracing_disabled(disabled=True)
    client = AsyncOpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0)
    model = OpenAIChatCompletionsModel(model="gpt-5", openai_client=client)
    worker = Agent(name="worker", instructions=WORKER, model=model)
    tool = worker.as_tool(tool_name="delegate", tool_description="Start an agent.")
    agent = Agent(name="main", instructions=scenario.system(), model=model, tools=[tool])
    ready = await Runner.run(agent, "Are you ready?")
    asked = [*ready.to_input_list(), {"role": "user", "content": scenario.GO}]
    return (await Runner.run(agent, asked)).final_output


RIVALS = {
    "pydantic-ai": (pydantic_ai, ("pydantic-ai-slim", "anthropic")),
    "openai-agents": (openai_agents, ("openai-agents", "openai")),
}


def main(name: str, url: str, _: str) -> None:
    run, packages = RIVALS[name]
    if url == "version":
        print(json.dumps([f"{package} {version(package)}" for package in packages]))
        return
    start = time.monotonic()
    text = asyncio.run(run(url))
    wall = time.monotonic() - start
    print(json.dumps({"ok": text == scenario.CLOSING, "wall": wall, "detail": text}))


if __name__ == "__main__":
    main(*sys.argv[1:])
