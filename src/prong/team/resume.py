"""Takes up the children of a resumed session where they were.

A child that was running when the process ended goes on from its stored prompt, its unfinished calls
answered as interrupted. One that had ended can be sent messages again; if its end was stored and
its notice was not, or the outbox has lost it, the notice is made up for. What an agent was told
stands in the journal, which knows better than the outbox.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from prong.agent import Agent, Sent, recalled
from prong.agent.answer import INTERRUPTED, interrupted, unanswered
from prong.cost import markable
from prong.cost.budget import Budget
from prong.cost.mark import ttl_of
from prong.cost.receipt import Receipt
from prong.entry import Reply, Result, Results, Text
from prong.ids import AgentPath, is_below
from prong.journal.note import ChildNotes, ChildSpec
from prong.journal.replay import Replay
from prong.prompt import Node, Prompt
from prong.team.account import ChildAccount
from prong.team.child import Child, RunStatus
from prong.team.delivery import Delivery
from prong.team.fork import PLACEHOLDER
from prong.team.make import Start
from prong.team.outbox import Expected
from prong.team.result import ending_of
from prong.team.standing import told
from prong.tools.tool import Reads
from prong.wire import Ttl


class TakenUp(msgspec.Struct):
    """What was taken up of a session."""

    running: set[str] = msgspec.field(default_factory=set[str])
    """Tasks that run again."""
    lost: list[str] = msgspec.field(default_factory=list[str])
    """Children whose notice the outbox had lost, and which are told of now."""


def specs(replay: Replay) -> Iterator[ChildSpec]:
    """Give what each child of the session was."""
    for path in replay.agents:
        spec = replay.last(path, ChildSpec)
        if spec is not None:
            yield spec


def stored_start(spec: ChildSpec, noted: ChildNotes, replay: Replay, *, ttl: Ttl | None) -> Start:
    """Start a child from what is stored of it; `ttl` is what the user has set."""
    prompt, run = replay.agents[spec.path], _last_run(noted)
    receipt = noted.receipt or Receipt(
        task_id=spec.task_id, agent=spec.path, kind=spec.kind, base=spec.base
    )
    sent, uses = recalled(replay, spec.path, prompt), noted.ended.tool_uses
    return Start(
        prompt=prompt,
        account=ChildAccount(receipt, ttl_of(prompt.head, ttl), rows=replay.rows(spec.path)),
        last=sent if sent.node is not None else Sent(node=_last_sent(prompt)),
        base=_base(prompt, spec),
        beside=_beside(noted),
        run=run,
        text=_last_text(prompt),
        tool_uses=max(uses, _uses(prompt, spec)) if run.status == "running" else uses,
        member=noted.member,
    )


def _last_run(noted: ChildNotes) -> RunStatus:
    """Say where a child's latest run is, or how it ended."""
    last, number = noted.ended, max(1, noted.runs)
    if last.run < number:
        return RunStatus(number=number, since=(last.requests, last.tool_uses))
    return RunStatus(
        number=number,
        since=last.since,
        status=last.status,
        detail=last.detail,
        outcome=last.outcome,
    )


def _beside(noted: ChildNotes) -> dict[str, object]:
    """Give what a child had beside its conversation, as far as it differed from its parent's."""
    reads = None if noted.reads is None else Reads(noted.reads)
    kept = {"reads": reads, "todos": noted.todos, "cwd": noted.cwd}
    return {name: value for name, value in kept.items() if value is not None}


def take_up(child: Child, unread: Sequence[str]) -> Child:
    """Answer the calls that were open when a child was cut off, and tell it what it missed."""
    if child.status == "running" and child.has_begun:
        results = interrupted(child.agent.conversation.prompt)
        if results is not None:
            child.agent.conversation.append(results)
    if unread:
        child.tell(*unread)
    return child


def make_up(child: Child, replay: Replay, delivery: Delivery, *, owed: bool) -> bool:
    """Send the notice of a child that has ended, if it never was; whether the outbox had lost it.

    If it is `owed`, the answer to its call was lost, so that it notifies where it would not have.
    """
    spec, name, ending = child.spec, child.notice_id, ending_of(child)
    for expected in delivery.outbox.orphans():
        if expected.id == name:
            delivery.send(expected, ending)
    lost = spec.notify and not delivery.outbox.knows(name) and not told(replay, {name})
    if lost or (owed and not spec.notify):
        delivery.send(Expected(name, spec.parent, spec.task_id, ""), ending)
    return lost


def answer_begun(replay: Replay, prompt: Prompt) -> Results | None:
    """Answer the open calls of a parent, if children came of some; None if none did."""
    begun = {spec.call_id for spec in specs(replay) if spec.call_id}
    calls = unanswered(prompt)
    if not any(call.id in begun for call in calls):
        return None
    return Results(
        tuple(
            Result(call.id, (Text(PLACEHOLDER),))
            if call.id in begun
            else Result(call.id, (Text(INTERRUPTED),), failed=True)
            for call in calls
        )
    )


def spent_budget(parent: Agent, spec: ChildSpec, replay: Replay) -> Budget:
    """Make a child's budget with what it, and all that it started, have spent before."""
    budget = Budget(spec.budget, parent=parent.client.billing.budget, name=f"agent {spec.task_id}")
    below = [
        path
        for path in map(AgentPath, replay.agents)
        if path == spec.path or is_below(path, spec.path)
    ]
    for row in (row for path in below for row in replay.rows(path)):
        budget.remember(row.tokens, row.cost or 0.0, int(row.is_turn))
    return budget


def _uses(prompt: Prompt, spec: ChildSpec) -> int:
    """Count the calls of a child's own replies: what it did before it was cut off counts too."""
    node, found = prompt.tip, 0
    while node is not None and node.depth > spec.base_depth:
        if node.kind == "reply":
            reply = prompt.head.dialect.read(node.role, node.data)
            found += len(reply.calls) if isinstance(reply, Reply) else 0
        node = node.parent
    return found


def _last_text(prompt: Prompt) -> str:
    """Give the text of the last reply that has any."""
    node = prompt.tip
    while node is not None:
        if node.kind == "reply":
            reply = prompt.head.dialect.read(node.role, node.data)
            if isinstance(reply, Reply) and reply.text:
                return reply.text
        node = node.parent
    return ""


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
