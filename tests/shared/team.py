"""What stands in the conversations of a team."""

from __future__ import annotations

from prong.session.parts import Parts


def text_of(parts: Parts, path: str = "main") -> str:
    """All that stands in an agent's conversation."""
    agent = parts.supervisor.registry.agents[path]
    return "\n".join(str(entry) for _, entry in agent.conversation.prompt.entries())
