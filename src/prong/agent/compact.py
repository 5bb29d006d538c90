"""Compaction: a summary takes the place of a long conversation.

The summary is asked for on the very prompt that is cached, so it costs a read and not a write. Only
then does a new prompt start. If even that request is too long, the oldest part that still fits is
summarised and the rest is carried over; if that is too long by itself, large results in it are
stored and previews take their place. A prompt that would not be shorter is never taken.

What nobody has answered yet is no past: before the model's first step there is nothing to sum up,
and what was said since its last one is carried over as long as it can be read beside a summary.

What a child was told to do is never left to a summary: a fork's directives and a typed child's
brief stand before it word for word, as entries of their own kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Literal

from msgspec.structs import replace

from prong.agent.agent import Agent
from prong.agent.dispatch import fit
from prong.agent.request import request
from prong.entry import CallId, Entry, Part, Reply, Result, Results, Text, User
from prong.errors import BrokenReply, ContextOverflow, NotPossibleNow
from prong.event import Warned
from prong.prompt import Node, Prompt
from prong.text import load_text

_TRIES = 6
_PREVIEWS = (20_000, 4_000, 1_000)
"""Characters to which results are cut, as far as it takes."""
BYTES_PER_TOKEN = 4
_STEPS = {"reply", "results", "summary"}
"""Kinds of entries that say that the model has worked on what stands before them."""


async def compact_if_due(agent: Agent) -> None:
    """Compact when the conversation nears the end of what the model can read."""
    conversation, share = agent.conversation, agent.client.settings.compact_at
    if not share:
        return
    tokens, window = conversation.tokens, _window(agent)
    if tokens > share * window and _last_step(conversation.prompt) is not None:
        detail = f"the conversation nears the context limit ({tokens} of {window} tokens)"
        try:
            await compact(agent, detail=detail)
        except (BrokenReply, ContextOverflow, NotPossibleNow) as error:
            agent.emit(Warned(text=str(error)))


def _window(agent: Agent) -> int:
    return agent.client.window(agent.conversation.prompt.head)


async def compact(
    agent: Agent,
    *,
    detail: str,
    focus: str = "",
    trigger: Literal["manual", "auto"] = "auto",
) -> None:
    """Replace the conversation by a summary of it.

    What a child was told to do, and what was said since the model's last step, is carried over
    word for word.

    Raises ContextOverflow if not even a small part of it can be summarised or it would not become
    shorter, BrokenReply if the model gives no summary, NotPossibleNow if a hook objects; the
    conversation then is as it was.
    """
    payload = {"trigger": trigger, "custom_instructions": focus or None, "detail": detail}
    verdict = await agent.consult("PreCompact", payload, matcher=trigger)
    if verdict.block is not None:
        raise NotPossibleNow(f"a PreCompact hook refused a summary: {verdict.block}")
    ask = load_text("compact") + (f"\n\nThe user adds: {focus}" if focus else "")
    ask += "".join(f"\n\n{context}" for context in verdict.context)
    prompt = kept = agent.conversation.prompt
    for _ in range(_TRIES):
        try:
            asked = kept.append(User((Text(ask),), "reminder"))
            ended = await request(agent.client, agent.conversation, asked, sidecar="compaction")
        except ContextOverflow:
            kept = _half(kept)
            if kept.tip is None:
                raise
            continue
        if ended.reply.stop == "refusal" or not ended.reply.text.strip():
            raise BrokenReply("the model gave no summary; the conversation stays as it was")
        if ended.reply.stop == "length":
            agent.emit(Warned(text="the summary reached the output limit and is cut off"))
        after = _summed_up_to(agent) if kept is prompt else kept.tip
        told = _told(agent, after)
        words = [load_text("summary"), load_text("told") if told else "", ended.reply.text]
        summary = User((Text("\n\n".join(filter(None, words))),), "summary")
        fresh = _shortened(agent, [*told, summary], carried(prompt, after=after))
        agent.restart(fresh, reason="compaction", detail=detail)
        await _tell_begun(agent)
        return
    raise ContextOverflow("the conversation is too long even for its own summary; use /clear")


async def _tell_begun(agent: Agent) -> None:
    """Tell the hooks that the main agent begins with a summary; what they add stands after it."""
    if agent.lineage.parent:
        return
    verdict = await agent.consult("SessionStart", {"source": "compact"}, matcher="compact")
    if verdict.context:
        notes = (User((Text(note),), "reminder") for note in verdict.context)
        agent.conversation.append(*notes)


async def shrink(agent: Agent, error: ContextOverflow) -> None:
    """Make a conversation shorter that the provider finds too long.

    Raises ContextOverflow if it cannot be made any shorter, with what can be done about it.
    """
    why = "there is nothing before this message that could be summarised"
    prompt = agent.conversation.prompt
    if _last_step(prompt) is not None:
        try:
            await compact(agent, detail=f"the provider says it is too long: {error}")
        except (BrokenReply, ContextOverflow, NotPossibleNow) as failure:
            why = str(failure)
        else:
            return
    head = len(prompt.head.data) // BYTES_PER_TOKEN
    first = [node.kind for node in prompt.nodes() if node.kind != "reminder"] == ["user"]
    raise ContextOverflow(
        f"{error}; {why}. Instructions and tools take about {head} tokens of the {_window(agent)} "
        f"that the model is taken to read: {'shorten the message' if first else 'start a new one'}"
        ", choose a model that reads more, or say with --context-tokens how much it reads",
        status=error.status,
        kind=error.kind,
    ) from error


def _told(agent: Agent, until: Node | None) -> list[User]:
    """Give what a child was told to do, as far as a summary would take its place.

    Every directive of a fork, messages to it among them, and the brief of a typed child.
    """
    prompt = agent.conversation.prompt
    nodes = prompt.nodes()[: until.depth if until else 0]
    found = [node for node in nodes if node.kind == "directive"]
    if not found and agent.lineage.origin == "typed":
        found = [node for node in nodes if node.kind == "user"][:1]
    read = prompt.head.dialect.read
    entries = (one for node in found for one in _carried(read(node.role, node.data), node, set()))
    return [entry for entry in entries if isinstance(entry, User)]


def _shortened(agent: Agent, begin: list[User], rest: list[Entry]) -> Prompt:
    """Make the new prompt; what is carried over is cut as far as it must be.

    Raises ContextOverflow if it would be no shorter than the old one.
    """
    head, before = agent.conversation.prompt.head, len(agent.conversation.prompt)
    room = _room(agent)
    fresh = Prompt(head).append(*begin, *rest)
    for limit in _PREVIEWS:
        if len(fresh) < min(before, room):
            break
        rest = [_cut(agent, entry, limit) for entry in rest]
        fresh = Prompt(head).append(*begin, *rest)
    if len(fresh) + len(agent.upcoming.head.data) - len(head.data) < min(before, room):
        fresh = Prompt(agent.upcoming.head).append(*begin, *rest)
    if len(fresh) >= before:
        raise ContextOverflow(
            f"a summary would make the conversation no shorter ({len(fresh)} bytes instead of "
            f"{before}), so it stays as it was"
        )
    return fresh


def _cut(agent: Agent, entry: Entry, limit: int) -> Entry:
    """Store long results and leave previews; pictures are left out."""
    if not isinstance(entry, Results):
        return entry

    def cut(result: Result, number: int, part: Part) -> Part:
        if isinstance(part, Text):
            return Text(fit(agent, f"{result.call_id}-{number}", part.text, limit))
        return Text("[a picture was left out here; look at it again if it is needed]")

    return Results(
        tuple(
            replace(one, parts=tuple(cut(one, at, part) for at, part in enumerate(one.parts)))
            for one in entry.results
        )
    )


def _half(prompt: Prompt) -> Prompt:
    """Cut a conversation near its middle."""
    middle = (len(prompt.head.data) + len(prompt)) // 2
    place = min(cuts(prompt), key=lambda node: abs(node.length - middle), default=None)
    return Prompt(prompt.head, place)


def cuts(prompt: Prompt) -> list[Node]:
    """Give the nodes after which a conversation may be cut: no call is parted from its result."""
    return [node for node, after in pairwise(prompt.nodes()) if not _answers(prompt, after)]


def _answers(prompt: Prompt, node: Node) -> bool:
    """Say whether an entry answers calls: a directive may be carried by the result of one."""
    if node.kind != "directive":
        return node.kind == "results"
    return isinstance(prompt.head.dialect.read(node.role, node.data), Results)


def _last_step(prompt: Prompt) -> Node | None:
    """Find the node after which only people and notices speak; None before the first step."""
    node = prompt.tip
    while node is not None and node.kind not in _STEPS:
        node = node.parent
    return node


def _summed_up_to(agent: Agent) -> Node | None:
    """Find the node up to which a summary takes the place of everything.

    What was said since the last step must not be lost in it, unless it is too long even beside a
    summary. Behind one that is there already nothing more is to be won: half must go then.
    """
    prompt = agent.conversation.prompt
    node = _last_step(prompt)
    if node is None:
        return prompt.tip
    said, room = len(prompt) - node.length, len(prompt) // 2
    if node.kind != "summary":
        room = max(room, int(_room(agent)) - len(prompt.head.data))
    return node if said < room else prompt.tip


def _room(agent: Agent) -> float:
    """Give the bytes at which a conversation is compacted, or at which it ends."""
    return _window(agent) * (agent.client.settings.compact_at or 1.0) * BYTES_PER_TOKEN


def carried(prompt: Prompt, *, after: Node | None = None) -> list[Entry]:
    """Take entries out of a prompt, to be put into another.

    Thinking stays behind: it is bound to the model and to the bytes before it.
    """
    read = prompt.head.dialect.read
    called: set[CallId] = set()
    entries: list[Entry] = []
    for node in prompt.nodes()[after.depth if after else 0 :]:
        entry = read(node.role, node.data)
        if isinstance(entry, Reply):
            called.update(call.id for call in entry.calls)
        entries.extend(_carried(entry, node, called))
    return entries


def _carried(entry: Entry, node: Node, called: set[CallId]) -> Iterator[Entry]:
    match entry:
        case Reply():
            yield Reply((), "", entry.text, "", entry.calls, entry.stop)
        case User():
            assert node.kind != "reply"
            assert node.kind != "results"
            yield User(entry.parts, node.kind)
        case Results(results=results) if node.kind == "directive":
            yield from _set_down(results, called)
        case Results():
            yield entry


def _set_down(results: tuple[Result, ...], called: set[CallId]) -> Iterator[Entry]:
    """Part a directive from the result that carries it, after a line and a blank one.

    The result itself stays as long as its call does.
    """
    for result in results:
        first, *others = result.parts
        line, _, directive = first.text.partition("\n\n") if isinstance(first, Text) else ("",) * 3
        if result.call_id in called:
            yield Results((replace(result, parts=(Text(line),)),))
        yield User((*([Text(directive)] if directive else []), *others), "directive")
