"""Compaction: a summary takes the place of a long conversation.

The summary is asked for on the very prompt that is cached, so it costs a read and not a write. Only
then does a new prompt start. If even that request is too long, the oldest part that still fits is
summarised and the rest is carried over.
"""

from __future__ import annotations

from itertools import pairwise

from prong.agent.agent import Agent
from prong.agent.request import request
from prong.entry import Entry, Reply, Results, Text, User
from prong.errors import BrokenReply, ContextOverflow
from prong.event import Warned
from prong.prompt import Node, Prompt
from prong.text import load_text

_TRIES = 6


async def compact_if_due(agent: Agent) -> None:
    """Compact when the conversation nears the end of what the model can read."""
    if (
        agent.compact_at
        and agent.prompt.depth > 1
        and (agent.tokens > agent.compact_at * agent.window)
    ):
        share = f"{agent.tokens} of {agent.window} tokens"
        try:
            await compact(agent, detail=f"the conversation nears the context limit ({share})")
        except BrokenReply as error:
            agent.emit(Warned(text=str(error)))


async def compact(agent: Agent, *, detail: str, focus: str = "") -> None:
    """Replace the conversation by a summary of it.

    What was said since the model's last step is carried over word for word.

    Raises ContextOverflow if not even a small part of it can be summarised, BrokenReply if the
    model gives no summary; the conversation then is as it was.
    """
    payload = {"trigger": detail, "focus": focus}
    verdict = agent.heed(await agent.hooks.fire("PreCompact", payload))
    ask = load_text("compact") + (f"\n\nThe user adds: {focus}" if focus else "")
    ask += "".join(f"\n\n{told}" for told in verdict.context)
    kept = agent.prompt
    for _ in range(_TRIES):
        try:
            ended = await request(
                agent, kept.append(User((Text(ask),), "reminder")), sidecar="compaction"
            )
        except ContextOverflow:
            kept = _half(kept)
            if kept.tip is None:
                raise
            continue
        if ended.reply.stop == "refusal" or not ended.reply.text.strip():
            raise BrokenReply("the model gave no summary; the conversation stays as it was")
        if ended.reply.stop == "length":
            agent.emit(Warned(text="the summary reached the output limit and is cut off"))
        after = _last_step(agent.prompt) if kept is agent.prompt else kept.tip
        rest = carried(agent.prompt, after=after)
        summary = User((Text(load_text("summary") + "\n\n" + ended.reply.text),), "summary")
        fresh = Prompt(agent.prompt.head).append(summary, *rest)
        agent.restart(fresh, reason="compaction", detail=detail)
        return
    raise ContextOverflow("the conversation is too long even for its own summary; use /clear")


def _half(prompt: Prompt) -> Prompt:
    """Cut a conversation near its middle, where no call is left without its result."""
    middle = (len(prompt.head.data) + len(prompt)) // 2
    nodes = prompt.nodes()
    places = [node for node, after in pairwise(nodes) if after.kind != "results"]
    place = min(places, key=lambda node: abs(node.length - middle), default=None)
    return Prompt(prompt.head, place)


def _last_step(prompt: Prompt) -> Node | None:
    """Find the node after which only people and notices speak; the tip if that would be too much.

    What they said must not be lost in a summary, unless it is what makes the prompt so long.
    """
    node = prompt.tip
    while node is not None and node.kind not in {"reply", "results", "summary"}:
        node = node.parent
    start = node.length if node else len(prompt.head.data)
    return node if node is not None and len(prompt) - start < len(prompt) // 2 else prompt.tip


def carried(prompt: Prompt, *, after: Node | None = None) -> list[Entry]:
    """Take entries out of a prompt, to be put into another.

    Thinking stays behind: it is bound to the model and to the bytes before it.
    """
    read = prompt.head.dialect.read
    nodes = prompt.nodes()[after.depth if after else 0 :]
    return [_carried(read(node.role, node.data), node) for node in nodes]


def _carried(entry: Entry, node: Node) -> Entry:
    match entry:
        case Reply():
            return Reply((), "", entry.text, "", entry.calls, entry.stop)
        case User():
            assert node.kind != "reply"
            assert node.kind != "results"
            return User(entry.parts, node.kind)
        case Results():
            return entry
