"""Takes up the children of a resumed session where they were.

A child that was running when the process ended goes on from its stored prompt, its unfinished calls
answered as interrupted. One that had ended can be sent messages again; if its end was stored and
its notice was not, the notice is made up for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import msgspec

from prong.agent import Agent
from prong.agent.answer import interrupted
from prong.cost import Row, markable
from prong.cost.budget import Purse
from prong.cost.receipt import Receipt
from prong.entry import Reply, Usage
from prong.host.worktree import Kept, Removed
from prong.prompt import Node, Prompt
from prong.team.child import Child, ChildSpec, Status, last_text


class Ended(msgspec.Struct, frozen=True):
    """How often a child has ended, and how it did last."""

    run: int = 0
    status: Status = "running"
    detail: str = ""
    tool_uses: int = 0
    outcome: Kept | Removed | None = None
    """What became of its worktree."""
    requests: int = 0
    """How many it had made by then, in all its runs; `tool_uses` likewise."""
    since: tuple[int, int] = (0, 0)
    """Requests and tool uses before that run."""


def ended(child: Child) -> Ended:
    """Say of a child that has ended what is worth storing."""
    return Ended(
        child.runs,
        child.status,
        child.detail,
        child.tool_uses,
        child.outcome,
        len(child.rows),
        child.since,
    )


class NoteReader(Protocol):
    """Reads a stored note of an agent as a type; None if there is none."""

    def __call__(self, agent: str, name: str, kind: Any) -> Any:
        """Read it."""
        ...


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """What a journal knows of a session's agents."""

    prompts: Mapping[str, Prompt]
    note: NoteReader
    rows: Callable[[str], list[Row]]
    """Gives the requests of an agent."""
    restore: Callable[[Agent], None]
    """Lets an agent remember its last request."""


def specs(past: Past) -> Iterator[ChildSpec]:
    """Give what each child of the session was."""
    for path in past.prompts:
        spec = past.note(path, "child", ChildSpec)
        if spec is not None:
            yield spec


def revived(spec: ChildSpec, agent: Agent, past: Past) -> Child:
    """Make a child of what is stored of it; its status says whether it was still running."""
    prompt = past.prompts[spec.path]
    agent.prompt = prompt
    agent.base = _base(prompt, spec)
    agent.sent = _last_sent(prompt)
    agent.last_usage, agent.last_length, agent.last_id, agent.last_at = Usage(), 0, "", 0.0
    past.restore(agent)
    last = past.note(spec.path, "ended", Ended) or Ended()
    started = max(1, past.note(spec.path, "run", int) or 1)
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
        rows=past.rows(spec.path),
        outcome=None if runs else last.outcome,
    )
    child.receipt = (
        past.note(spec.path, "receipt", Receipt)
        or past.note(spec.path, "opened", Receipt)
        or Receipt(task_id=spec.task_id, agent=spec.path, kind=spec.kind, base=spec.base)
    )
    child.miss = child.receipt.miss
    if runs and (results := interrupted(prompt)) is not None:
        agent.append(results)
    if unread := past.note(spec.path, "unread", list[str]):
        child.tell(*unread)
    return child


def spent_purse(parent: Agent, spec: ChildSpec, past: Past) -> Purse:
    """Make a child's purse with what it, and all that it started, have spent before."""
    purse = Purse(spec.budget, parent=parent.purse, name=f"agent {spec.task_id}")
    below = [path for path in past.prompts if f"{path}/".startswith(f"{spec.path}/")]
    for row in (row for path in below for row in past.rows(path)):
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
