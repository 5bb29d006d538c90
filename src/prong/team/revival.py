"""Takes up the children of a resumed session where they were.

A child that was running when the process ended goes on from its stored prompt, its unfinished calls
answered as interrupted. One that had ended can be sent messages again; if its end was stored and
its notice was not, the notice is made up for.
"""

from __future__ import annotations

from collections.abc import Iterator

from prong.agent import Agent
from prong.agent.answer import interrupted
from prong.cost import markable
from prong.cost.budget import Purse
from prong.cost.receipt import Receipt
from prong.entry import Reply, Usage
from prong.journal.note import (
    ChildEnded,
    ChildRun,
    ChildSpec,
    MessagesUnread,
    ReceiptClosed,
    ReceiptOpened,
)
from prong.journal.read import Replay
from prong.prompt import Node, Prompt
from prong.team.child import Child, last_text


def ended(child: Child) -> ChildEnded:
    """Say of a child that has ended what is worth storing."""
    return ChildEnded(
        child.runs,
        child.status,
        child.detail,
        child.tool_uses,
        child.outcome,
        len(child.rows),
        child.since,
    )


def specs(replay: Replay) -> Iterator[ChildSpec]:
    """Give what each child of the session was."""
    for path in replay.agents:
        spec = replay.last(path, ChildSpec)
        if spec is not None:
            yield spec


def revived(spec: ChildSpec, agent: Agent, replay: Replay) -> Child:
    """Make a child of what is stored of it; its status says whether it was still running."""
    prompt = replay.agents[spec.path]
    agent.prompt = prompt
    agent.base = _base(prompt, spec)
    agent.sent = _last_sent(prompt)
    agent.last_usage, agent.last_length, agent.last_id, agent.last_at = Usage(), 0, "", 0.0
    agent.recall(replay)
    last = replay.last(spec.path, ChildEnded) or ChildEnded()
    started = max(1, (replay.last(spec.path, ChildRun) or ChildRun()).value)
    runs = last.run < started
    child = Child(
        spec,
        agent,
        status="running" if runs else last.status,
        runs=started,
        text=last_text(prompt),
        detail="" if runs else last.detail,
        tool_uses=max(last.tool_uses, _uses(prompt, spec)) if runs else last.tool_uses,
        since=(last.requests, last.tool_uses) if runs else last.since,
        rows=replay.rows(spec.path),
        outcome=None if runs else last.outcome,
    )
    noted = replay.last(spec.path, ReceiptClosed) or replay.last(spec.path, ReceiptOpened)
    child.receipt = (
        noted.value
        if noted is not None
        else Receipt(task_id=spec.task_id, agent=spec.path, kind=spec.kind, base=spec.base)
    )
    child.miss = child.receipt.miss
    if runs and (results := interrupted(prompt)) is not None:
        agent.append(results)
    if (unread := replay.last(spec.path, MessagesUnread)) is not None and unread.value:
        child.tell(*unread.value)
    return child


def spent_purse(parent: Agent, spec: ChildSpec, replay: Replay) -> Purse:
    """Make a child's purse with what it, and all that it started, have spent before."""
    purse = Purse(spec.budget, parent=parent.purse, name=f"agent {spec.task_id}")
    below = [path for path in replay.agents if f"{path}/".startswith(f"{spec.path}/")]
    for row in (row for path in below for row in replay.rows(path)):
        tokens = row.usage.input + row.usage.output
        purse.remember(tokens, row.cost or 0.0, 0 if row.sidecar else 1)
    return purse


def _uses(prompt: Prompt, spec: ChildSpec) -> int:
    """Count the calls of a child's own replies: what it did before it was cut off counts too."""
    node, found = prompt.tip, 0
    while node is not None and node.depth > spec.base_depth:
        if node.kind == "reply":
            reply = prompt.head.dialect.read(node.role, node.data)
            found += len(reply.calls) if isinstance(reply, Reply) else 0
        node = node.parent
    return found


def _base(prompt: Prompt, spec: ChildSpec) -> Node | None:
    """Find the fork base in a prompt; None if a compaction has replaced it."""
    node = prompt.tip
    while node is not None and node.depth > spec.base_depth:
        node = node.parent
    return node if node is not None and node.digest.hex() == spec.base else None


def _last_sent(prompt: Prompt) -> Node | None:
    """Find where a conversation ended when it was last sent: before its last reply."""
    node = prompt.tip
    while node is not None and node.kind != "reply":
        node = node.parent
    return markable(node.parent) if node is not None else None
