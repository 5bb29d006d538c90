"""What a journal knows of a session's agents."""

from __future__ import annotations

from prong.agent import Agent
from prong.cost import markable
from prong.journal.read import Replay
from prong.team.revival import Past


def past_of(replay: Replay) -> Past:
    """Give what a journal knows of a session's agents."""
    return Past(
        prompts=replay.agents,
        note=replay.note,
        rows=lambda path: [paid.row for paid in replay.requests if paid.row.agent == path],
        restore=lambda agent: restore(agent, replay),
    )


def restore(agent: Agent, replay: Replay) -> None:
    """Let an agent remember its last request: what was counted, when, and where it ended."""
    for paid in reversed(replay.requests):
        row, prompt = paid.row, replay.known.get(paid.row.digest)
        if row.agent == agent.path and not (row.sidecar or row.broken) and prompt:
            if agent.prompt.extends(prompt):
                agent.last_usage, agent.last_length = row.usage, len(prompt)
                agent.last_id, agent.last_at = row.response_id, paid.at - row.latency
                agent.sent = markable(prompt.tip)
            return
