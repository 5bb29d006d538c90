"""A tool of an MCP server that is asked for permission where no person is."""

from __future__ import annotations

from typing import Any

import msgspec

from prong.entry import CallId, plain
from prong.errors import UnknownName
from prong.event import PermissionAsked, QuestionAsked, Warned
from prong.foreign_json import NOT_JSON
from prong.question import Answer
from prong.session.parts import Parts
from prong.tools.kit import Kit
from prong.tools.tool import Failed


class _Ruling(msgspec.Struct):
    """What such a tool gives back."""

    behavior: str
    message: str = ""
    updatedInput: dict[str, Any] | None = None  # noqa: N815 - as it stands in the JSON


def check_prompt_tool(name: str | None, kit: Kit) -> None:
    """Demand that a tool is there: without it everything would be refused, call by call.

    Raises UnknownName.
    """
    if name is not None and kit.get(name) is None:
        brought = [tool for tool in kit.names if tool.startswith("mcp__")]
        raise UnknownName(
            f"--permission-prompt-tool: there is no tool {name!r}; the tools of servers are "
            f"{', '.join(brought) or 'none'}"
        )


async def answer_by_tool(
    parts: Parts, name: str, asked: PermissionAsked | QuestionAsked
) -> Answer | None:
    """Ask the tool about a call; what cannot be understood, or done as it says, is a no."""
    if isinstance(asked, QuestionAsked):
        return None
    tool = parts.supervisor.resolver.kit.get(name)
    assert tool is not None, "the tool was there when the session began"
    given = msgspec.json.decode(asked.arguments or "{}")
    args = {"tool_name": asked.tool, "input": given, "tool_use_id": asked.call_id}
    outcome = await tool.run(CallId(asked.call_id), args, parts.agent.context)
    text = outcome.why if isinstance(outcome, Failed) else plain(outcome.parts)
    why = text[:500]
    try:
        ruling = msgspec.json.decode(text, type=_Ruling)
    except NOT_JSON:
        parts.agent.emit(Warned(text=f"{name} gave no answer that can be read: {why}"))
        return Answer(asked.request_id, allow=False, text=f"{name} gave no answer")
    if ruling.behavior != "allow":
        return Answer(asked.request_id, allow=False, text=ruling.message)
    if ruling.updatedInput is not None and ruling.updatedInput != given:
        why = f"{name} allows the call with other arguments, which is not possible; refused"
        parts.agent.emit(Warned(text=why))
        return Answer(asked.request_id, allow=False, text=why)
    return Answer(asked.request_id)
