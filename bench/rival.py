"""Other programs' side of the fan-out, each written as its documentation shows; run alone.

Needs `anthropic`; the rest is imported only by the rival that is asked for.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import scenario

_READ = {"type": "object", "properties": {"file_path": {"type": "string"}}}
_BASH = {"type": "object", "properties": {"command": {"type": "string"}}}
_AGENT = {"type": "object", "properties": {"prompt": {"type": "string"}}}
TOOLS = [
    {"name": "Read", "description": "Read a file.", "input_schema": _READ},
    {"name": "Bash", "description": "Run a command.", "input_schema": _BASH},
    {"name": "Agent", "description": "Start an agent.", "input_schema": _AGENT},
]


async def shell(command: str, folder: str) -> str:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_shell(command, stdout=pipe, cwd=folder)
    return (await process.communicate())[0].decode()


async def plain(url: str, tokens: int, folder: str) -> tuple[float, str]:
    """The loop that everybody writes first: message lists, `messages.create`, `gather`."""
    from anthropic import AsyncAnthropic

    client = AsyncAnthropic(base_url=url, api_key="k", max_retries=0)
    marked = {"type": "ephemeral"}
    system = [{"type": "text", "text": scenario.system(), "cache_control": marked}]

    async def ask(messages: list[dict[str, Any]]) -> Any:
        last = messages[-1]["content"]
        tip = {**messages[-1], "content": [*last[:-1], {**last[-1], "cache_control": marked}]}
        async with (
            client.messages.stream(
                model=scenario.MODEL,
                max_tokens=8_000,
                system=system,  # type: ignore[arg-type]
                tools=TOOLS,  # type: ignore[arg-type]
                messages=[*messages[:-1], tip],  # type: ignore[list-item]
            ) as stream
        ):
            return await stream.get_final_message()

    async def perform(call: Any, messages: list[dict[str, Any]], reply: Any) -> str:
        if call.name == "Read":
            return Path(folder, call.input["file_path"]).read_text()
        if call.name == "Bash":
            return await shell(call.input["command"], folder)
        held = [result(one.id, "Started.") for one in reply.content if one.type == "tool_use"]
        told = [*held, {"type": "text", "text": call.input["prompt"]}]
        said = {"role": "assistant", "content": [one.model_dump() for one in reply.content]}
        return await run([*messages, said, {"role": "user", "content": told}])

    async def run(messages: list[dict[str, Any]]) -> str:
        while True:
            reply = await ask(messages)
            calls = [one for one in reply.content if one.type == "tool_use"]
            if not calls:
                return "".join(one.text for one in reply.content)
            done = await asyncio.gather(*(perform(call, messages, reply) for call in calls))
            results = [result(c.id, text) for c, text in zip(calls, done, strict=True)]
            said = {"role": "assistant", "content": [one.model_dump() for one in reply.content]}
            messages = [*messages, said, {"role": "user", "content": results}]

    def said(role: str, text: str) -> dict[str, Any]:
        return {"role": role, "content": [{"type": "text", "text": text}]}

    ready = [*scenario.history(tokens), said("user", "Are you ready?")]
    answer = await run(ready)
    cpu = time.process_time()
    text = await run([*ready, said("assistant", answer), said("user", scenario.GO)])
    return time.process_time() - cpu, text


def result(id_: str, text: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id_, "content": text}


async def pydantic_ai(url: str, tokens: int, folder: str) -> tuple[float, str]:
    """A tool that runs the same agent with `message_history`."""
    from anthropic import AsyncAnthropic
    from pydantic_ai import Agent, RunContext, messages
    from pydantic_ai.models.anthropic import AnthropicModel, AnthropicModelSettings
    from pydantic_ai.providers.anthropic import AnthropicProvider

    client = AsyncAnthropic(base_url=url, api_key="k", max_retries=0)
    model = AnthropicModel(scenario.MODEL, provider=AnthropicProvider(anthropic_client=client))
    settings = AnthropicModelSettings(
        max_tokens=8_000, anthropic_cache_instructions=True, anthropic_cache_messages=True
    )
    agent = Agent(model, instructions=scenario.system(), model_settings=settings)

    def read(file_path: str) -> str:
        """Read a file."""
        return Path(folder, file_path).read_text()

    async def bash(command: str) -> str:
        """Run a command."""
        return await shell(command, folder)

    async def delegate(ctx: Any, prompt: str) -> str:
        """Start an agent."""
        # The last message holds the calls themselves, which have no results yet.
        return (await agent.run(prompt, message_history=ctx.messages[:-1])).output

    # The annotation decides how the tool is called, and cannot be looked up by name from here.
    delegate.__annotations__["ctx"] = RunContext[None]
    agent.tool_plain(read)
    agent.tool_plain(bash)
    agent.tool(delegate)
    past: list[Any] = []
    for message in scenario.history(tokens):
        parts: list[Any] = []
        for block in message["content"]:
            match block["type"]:
                case "tool_use":
                    parts.append(messages.ToolCallPart("read", block["input"], block["id"]))
                case "tool_result":
                    id_ = block["tool_use_id"]
                    parts.append(messages.ToolReturnPart("read", block["content"], id_))
                case _ if message["role"] == "user":
                    parts.append(messages.UserPromptPart(block["text"]))
                case _:
                    parts.append(messages.TextPart(block["text"]))
        said = messages.ModelRequest if message["role"] == "user" else messages.ModelResponse
        past.append(said(parts))
    ready = await agent.run("Are you ready?", message_history=past)
    cpu = time.process_time()
    ended = await agent.run(scenario.GO, message_history=ready.all_messages())
    return time.process_time() - cpu, ended.output


async def deepagents(url: str, tokens: int, folder: str) -> tuple[float, str]:
    """A subagent of mode `fork`."""
    import warnings

    warnings.simplefilter("ignore")
    from deepagents import create_deep_agent
    from deepagents.backends.local_shell import LocalShellBackend
    from langchain_anthropic import ChatAnthropic
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

    model = ChatAnthropic(
        model=scenario.MODEL, base_url=url, api_key="k", max_tokens=8_000, max_retries=0
    )
    helper = {"name": "worker", "description": "Does one part of the work.", "mode": "fork"}
    agent = create_deep_agent(
        model=model,
        system_prompt=scenario.system(),
        subagents=[helper],  # type: ignore[list-item]
        backend=LocalShellBackend(root_dir=folder, inherit_env=True),
    )
    past: list[Any] = []
    for message in scenario.history(tokens):
        block = message["content"][-1]
        match block["type"]:
            case "tool_use":
                name = "read_file"
                call = {"name": name, "args": block["input"], "id": block["id"]}
                content = [message["content"][0], {**block, "name": name}]
                past.append(AIMessage(content=content, tool_calls=[call]))
            case "tool_result":
                past.append(ToolMessage(block["content"], tool_call_id=block["tool_use_id"]))
            case _ if message["role"] == "user":
                past.append(HumanMessage(block["text"]))
            case _:
                past.append(AIMessage(block["text"]))
    ready = await agent.ainvoke({"messages": [*past, HumanMessage("Are you ready?")]})
    cpu = time.process_time()
    final = await agent.ainvoke({"messages": [*ready["messages"], HumanMessage(scenario.GO)]})
    cpu = time.process_time() - cpu
    last = final["messages"][-1].content
    return cpu, last if isinstance(last, str) else "".join(part["text"] for part in last)


RIVALS = {
    "anthropic": (plain, ("anthropic",)),
    "pydantic-ai": (pydantic_ai, ("pydantic-ai-slim", "anthropic")),
    "deepagents": (deepagents, ("deepagents", "langchain-anthropic", "anthropic")),
}


def main(name: str, url: str, tokens: str) -> None:
    run, packages = RIVALS[name]
    if url == "version":
        print(json.dumps([f"{package} {version(package)}" for package in packages]))
        return
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, scenario.FILE).write_text(scenario.CONTENT)
        start = time.monotonic()
        cpu, text = asyncio.run(run(url, int(tokens), folder))
        wall = time.monotonic() - start
    print(json.dumps({"ok": text == scenario.CLOSING, "cpu": cpu, "wall": wall, "detail": text}))


if __name__ == "__main__":
    main(*sys.argv[1:])
