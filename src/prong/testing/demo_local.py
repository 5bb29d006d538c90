"""A session on the embedded model, with forks that share what is computed: `make demo`.

Needs no key and no network. Which tools are called is a plan of ours, and so is how each sentence
begins: a model of 135 million parameters cannot decide that. How the sentences go on, every byte,
every count and every second is real.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TypeAlias

import anyio

from prong.entry import Usage
from prong.errors import BrokenReply
from prong.event import (
    CallDelta,
    Event,
    Progressed,
    ReplyFinished,
    TaskFinished,
    TaskStarted,
    ToolStarted,
)
from prong.prompt import Prompt
from prong.provider import Preparing
from prong.provider.local import Local
from prong.session import Options, Session, open_session
from prong.team.child import Child
from prong.testing.page import Story, heading, put, watch, wrap
from prong.testing.plot import PLOT, Plan, Plot, marked
from prong.testing.scene import inside
from prong.wire import Ended, Tail

Claims: TypeAlias = dict[str, bool]
"""What is claimed, and whether it came true."""
QUICKER = "sharing takes less time"
_PACE = 5.0
"""Seconds between two looks at the tree, or at how far a comparison is."""
_ONLY_ITS_OWN = 48
"""Tokens: more than any directive of ours has beside the rules that all forks are given."""


def _said(event: Event) -> str | None:
    """Say an event in a line; None for those that would only be noise here."""
    match event:
        case Progressed(what="prompt", done=done, total=total):
            return f"reads: {done:,} of {total:,} tokens"
        case Progressed():
            return "loads the model"
        case CallDelta(name=name):
            return f"calls {name}"
        case ToolStarted(title=title):
            return title
        case TaskStarted():
            return "starts"
        case TaskFinished(status=status):
            return status
        case ReplyFinished(text=text, sidecar="") if text and not text.startswith("Result:"):
            return f"says: {marked(text)}"
        case _:
            return None


def _reports(children: Sequence[Child], last: str) -> None:
    for child in children:
        put(f"{child.spec.task_id:<8} [{child.report.scope}]")
        wrap(marked(child.report.result), " " * 9)
    put(f"{'main':<8} having got their reports:")
    wrap(marked(last), " " * 9)


def _receipts(session: Session, parent: int, slack: int | None) -> Claims:
    """Show what each fork shared with its parent."""
    children, receipts = inside(session).supervisor.children, session.receipts()
    columns = f"{'tokens':>9}{'reused':>8}{'computed':>10}{'first token':>13}  report"
    put(f"{'':<8} {'bytes shared':<18}{columns}")
    for child, receipt in zip(children, receipts, strict=True):
        first = child.account.rows[0]
        shared = f"{receipt.bytes_shared:,} of {receipt.bytes_first:,}"
        put(
            f"{receipt.task_id:<8} {shared:<18}{first.usage.input:>9,}{first.usage.read:>8,}"
            f"{first.usage.uncached:>10,}{first.first_event:>11.1f} s  {receipt.delivered}"
        )
    put()
    reused = sorted(child.account.rows[0].usage.read for child in children)
    computed = sorted(child.account.rows[0].usage.uncached for child in children)
    wrap(
        f"Tokens are the engine's own count. The parent had computed {parent:,}, and every fork "
        "reused them, all but those that ask the parent to speak. What remains is a fork's "
        f"directive: {reused[1] - reused[0]} tokens of rules, which one fork computed and the "
        f"others reused, and at most {computed[-2]} of its own."
    )
    return {
        "every fork reuses all that its parent computed": reused[0] >= parent - (slack or 0),
        "only one computes what all forks are told": computed[-2] < _ONLY_ITS_OWN,
        "no cache is missed": not any(one.miss for one in receipts),
        "every report arrives": all(one.delivered == "notice" for one in receipts),
    }


def _alike(children: Sequence[Child]) -> bool:
    """Say whether the bytes of all first requests are alike for as long as the receipts say."""
    bodies = [_first_prompt(child).open() for child in children]
    receipts = [child.account.receipt for child in children]
    return all(
        body[: receipt.bytes_shared] == bodies[0][: receipts[0].bytes_shared]
        and len(body) == receipt.bytes_first
        for receipt, body in zip(receipts, bodies, strict=True)
    )


def _first_prompt(child: Child) -> Prompt:
    """Give the prompt of a child's first request."""
    prompt = child.agent.conversation.prompt
    node = prompt.tip
    while node is not None and node.kind != "directive":
        node = node.parent
    return Prompt(prompt.head, node)


async def _ask(provider: Local, prompts: Sequence[Prompt], total: int) -> tuple[float, Usage]:
    """Send prompts at once; gives the seconds until all are answered, and what was counted."""
    done: dict[int, int] = {}
    counted = Usage()
    start = shown = time.monotonic()

    async def ask(number: int, prompt: Prompt) -> None:
        nonlocal counted, shown
        async with aclosing(provider.stream(prompt, (), Tail())) as events:
            async for event in events:
                if isinstance(event, Ended):
                    counted += event.usage
                if isinstance(event, Preparing):
                    done[number] = event.done
                    if time.monotonic() - shown > _PACE:
                        shown = time.monotonic()
                        read = sum(done.values())
                        put(f"{shown - start:6.1f} s  reads: {read:,} of {total:,} tokens")

    async with anyio.create_task_group() as group:
        for number, prompt in enumerate(prompts):
            group.start_soon(ask, number, prompt)
    return time.monotonic() - start, counted


async def _compare(children: Sequence[Child], provider: Local, plan: Plan) -> Claims:
    """Send the forks' first requests again without sharing."""
    firsts = [child.account.rows[0] for child in children]
    shared = sum((row.usage for row in firsts), Usage())
    seconds = max(row.latency for row in firsts)
    before = await provider.figures()
    bare = Local(provider.engine, "local", notes=provider.notes, plan=plan, share=False)
    alone, counted = await _ask(bare, [_first_prompt(child) for child in children], shared.input)
    after = await provider.figures()
    size = int(provider.facts["cell_bytes"])
    added = (shared.uncached + shared.output) * size, (after["cells"] - before["cells"]) * size
    put(f"{'':<17}{'until all are answered':>24}{'tokens computed':>18}{'cache added':>14}")
    for name, took, used, held in (
        ("with sharing", seconds, shared, added[0]),
        ("without sharing", alone, counted, added[1]),
    ):
        put(f"{name:<17}{took:>22.1f} s{used.uncached:>18,}{held / 1e6:>11.1f} MB")
    put()
    wrap(
        f"Without sharing it took {alone / seconds:.1f} times as long, although with sharing the "
        f"parent worked beside its forks. All {len(children) + 1} agents together held "
        f"{before['cells'] * size / 1e6:.0f} MB of cache; the engine's whole process has "
        f"{after['resident'] / 1e6:.0f} MB of memory."
    )
    return {
        "without sharing everything is computed": counted.uncached == shared.input,
        "sharing takes less memory": added[0] < added[1],
        QUICKER: seconds < alone,
    }


async def _play(root: Path, plot: Plot) -> Claims:
    for name, content in plot.files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    options = Options(
        model="local",
        cwd=str(root),
        store=str(root / ".store"),
        # Nothing outlives the demo, so nothing is worth writing to disk.
        env={**os.environ, "HOME": str(root), "PRONG_LOCAL_DISK_MB": "0"},
        bare=True,
        tools=("Read", "Agent"),
        allow=("Read",),
        system="You help with a small Python project. Be brief.",
    )
    async with open_session(options) as session:
        client = inside(session).agent.client
        provider = client.provider
        assert isinstance(provider, Local)
        planned = Local(provider.engine, "local", notes=provider.notes, plan=Plan(plot))
        client.connect(planned)
        try:
            return await _perform(session, planned, plot)
        except anyio.get_cancelled_exc_class():
            put()
            put("stopping: the engine ends its step")
            raise


async def _perform(session: Session, provider: Local, plot: Plot) -> Claims:
    heading("A parent reads a small project, then forks")
    put(f"> {plot.question}")
    story = Story(_said, told=lambda agent: agent == "main")
    turn = None
    async with anyio.create_task_group() as group:
        group.start_soon(watch, session, story, len(plot.parts), _PACE)
        turn = await session.run(plot.question)
        group.cancel_scope.cancel()
    assert turn is not None
    if turn.why == "error":
        raise BrokenReply(turn.detail)
    return await _account(session, provider, Plan(plot), turn.text)


async def _account(session: Session, provider: Local, plan: Plan, last: str) -> Claims:
    """Show what came of it."""
    children = inside(session).supervisor.children
    done = all(child.status == "completed" and child.report.structured for child in children)
    heading("What the forks reported")
    _reports(children, last)
    if not done:
        return {"every fork completes": False}
    heading("Their receipts: what each shared with its parent in its first request")
    dispatching = [row for row in inside(session).ledger.rows if row.agent == "main"][1]
    shared = _receipts(session, dispatching.usage.input, provider.trait.slack)
    heading("Now the same requests with nothing shared, to compare")
    compared = await _compare(children, provider, plan)
    return {
        "all begin with the same bytes": _alike(children),
        **shared,
        **compared,
    }


def main(plot: Plot = PLOT) -> int:
    """Play the demo; gives the exit code, which is 0 only if every claim came true.

    Raises ProngError if the engine cannot run here.
    """
    wrap(
        "Prong on a real language model, with no key and no network: SmolLM2, 135 million "
        "parameters, in a process of its own on this machine. It is far too small to code, so the "
        "plan is ours: which tools are called, and the words in [brackets]. Real is all the rest: "
        "the words that follow them, every byte, every count of tokens, every second."
    )
    with tempfile.TemporaryDirectory(prefix="prong-demo-") as folder:
        claims = anyio.run(_play, Path(folder).resolve(), plot)
    put()
    if all(claims.values()):
        put("everything came out as claimed: bytes, counts, cache and time agree")
        return 0
    for claim, holds in claims.items():
        if not holds:
            put(f"not as claimed: {claim}")
    return 1
