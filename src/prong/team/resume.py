"""Takes up the children of a resumed session where they were.

A child that was running when the process ended goes on from its stored prompt, its unfinished calls
answered as interrupted. One that had ended can be sent messages again; if its end was stored and
its notice was not, the notice is made up for.
"""

from __future__ import annotations

from collections.abc import Iterator

from prong.agent import Agent, Sent, recalled
from prong.agent.answer import interrupted
from prong.cost import markable
from prong.cost.budget import Purse
from prong.cost.receipt import Receipt
from prong.entry import Reply
from prong.journal.note import (
    ChildEnded,
    ChildRun,
    ChildSpec,
    FilesRead,
    FolderEntered,
    MessagesUnread,
    ReceiptClosed,
    ReceiptOpened,
    TodosKept,
)
from prong.journal.read import Replay
from prong.prompt import Node, Prompt
from prong.team.account import ChildAccount
from prong.team.child import Child, last_text
from prong.team.make import Start
from prong.tools.base import Reads


def specs(replay: Replay) -> Iterator[ChildSpec]:
    """Give what each child of the session was."""
    for path in replay.agents:
        spec = replay.last(path, ChildSpec)
        if spec is not None:
            yield spec


def stored_start(spec: ChildSpec, replay: Replay) -> Start:
    """Start a child from what is stored of it."""
    prompt = replay.agents[spec.path]
    noted = replay.last(spec.path, ReceiptClosed) or replay.last(spec.path, ReceiptOpened)
    receipt = (
        noted.value
        if noted is not None
        else Receipt(task_id=spec.task_id, agent=spec.path, kind=spec.kind, base=spec.base)
    )
    last = recalled(replay, spec.path, prompt)
    return Start(
        prompt=prompt,
        account=ChildAccount(receipt, rows=replay.rows(spec.path)),
        last=last if last.node is not None else Sent(node=_last_sent(prompt)),
        base=_base(prompt, spec),
        beside=_beside(spec, replay),
    )


def _beside(spec: ChildSpec, replay: Replay) -> dict[str, object]:
    """Give what a child had beside its conversation, as far as it differed from its parent's."""
    found: dict[str, object] = {}
    if (reads := replay.last(spec.path, FilesRead)) is not None:
        found["reads"] = Reads(reads.value)
    if (todos := replay.last(spec.path, TodosKept)) is not None:
        found["todos"] = todos.value
    if (folder := replay.last(spec.path, FolderEntered)) is not None:
        found["cwd"] = folder.value
    return found


def take_up(child: Child, replay: Replay) -> Child:
    """Let a child be where it was; its status says whether it was still running."""
    spec, prompt = child.spec, child.agent.prompt
    last = replay.last(spec.path, ChildEnded) or ChildEnded()
    run = max(1, (replay.last(spec.path, ChildRun) or ChildRun()).value)
    child.recall(last, run)
    uses = last.tool_uses
    if child.status == "running":
        uses = max(uses, _uses(prompt, spec))
        if child.has_begun and (results := interrupted(prompt)) is not None:
            child.agent.append(results)
    child.voice.remember(last_text(prompt), uses)
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
