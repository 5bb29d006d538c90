import asyncio
from pathlib import Path

from claude_agent_sdk import ClaudeAgentOptions, HookMatcher, ResultMessage, query

OUT = Path("out").resolve()


async def only_out(call, _id, _context):
    if Path(call["cwd"], call["tool_input"]["file_path"]).resolve().is_relative_to(OUT):
        return {}
    return {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": "Only files in out are written.",
        }
    }


async def main() -> None:
    guard = HookMatcher("Write", [only_out], on_failure="block")
    options = ClaudeAgentOptions(
        tools=["Write"], permission_mode="acceptEdits", hooks={"PreToolUse": [guard]}
    )
    async for message in query(prompt="Take notes.", options=options):
        if isinstance(message, ResultMessage):
            print(message.result)


asyncio.run(main())
