"""A session whose model is scripted: `make story`, or `python -m prong.testing.demo --scripted`.

Needs no key, no network and no engine. The model's words are scripted; the requests, the tools, the
forks and the server's count of the cache are real.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence

import anyio
import anyio.to_thread

from prong.cost import Total, total
from prong.cost.receipt import describe
from prong.event import (
    Event,
    ReplyFinished,
    TaskFinished,
    TaskStarted,
    ToolFinished,
    ToolStarted,
)
from prong.prompt import first_difference
from prong.session import Session
from prong.testing.page import Story, heading, put, watch, wrap
from prong.testing.sample import ALLOWED, DIRECTIVES, FILES, QUESTION, script
from prong.testing.scene import World, inside, world
from prong.testing.service import Record


def _said(event: Event) -> str | None:
    """Say an event in a line; None for those that would only be noise here."""
    match event:
        case ToolStarted(title=title):
            return title
        case ToolFinished(failed=True, interrupted=False, text=text):
            last = text.strip().splitlines()[-1]
            return f"  failed: {last}"
        case ReplyFinished(text=text, sidecar="") if text and not text.startswith("Scope:"):
            return f'says "{text}"'
        case TaskStarted(title=title):
            return f"fork started: {title}"
        case TaskFinished(status=status):
            return status
        case _:
            return None


async def _tests(made: World) -> str:
    """Run the project's tests ourselves; gives the last line of what they print."""
    ran = await anyio.to_thread.run_sync(
        lambda: subprocess.run(
            [sys.executable, "-m", "unittest"],
            cwd=made.root,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
    )
    return ran.stderr.strip().splitlines()[-1]


def _reports(session: Session) -> None:
    for child in inside(session).supervisor.children:
        report = child.report
        put(f"{child.spec.task_id}: {report.scope}")
        wrap(report.result, "    ")
        put(f"    changed: {report.files_changed}")


def _receipts(session: Session) -> None:
    first, *others = session.receipts()
    for line in describe(first).splitlines():
        put(line)
    for receipt in others:
        put(
            f"{receipt.task_id:<9} read {receipt.read:,} of {receipt.predicted_read:,} predicted, "
            f"saved {receipt.saved_share or 0:.1%}"
        )


def _costs(session: Session) -> None:
    put(f"{'agent':<16}{'requests':>9}{'new':>7}{'written':>9}{'read':>9}{'paid':>10}{'bare':>10}")
    rows = inside(session).ledger.rows
    for path in dict.fromkeys(row.agent for row in rows):
        _cost(path, total(row for row in rows if row.agent == path))
    _cost("session", total(rows))
    put("(bare: the same requests without any cache; dollars)")


def _cost(name: str, summed: Total) -> None:
    usage = summed.usage
    put(
        f"{name:<16}{summed.requests:>9}{usage.uncached:>7,}{usage.written:>9,}{usage.read:>9,}"
        f"{summed.cost or 0:>10.4f}{summed.uncached or 0:>10.4f}"
    )


def _first_requests(made: World) -> dict[str, Record]:
    """Find the first request of each fork among what the server received."""
    found: dict[str, Record] = {}
    for record in made.server.records:
        for name, directive in DIRECTIVES.items():
            if directive in record.request.last_text:
                found.setdefault(name, record)
    return found


def _alike(bodies: Sequence[bytes]) -> int:
    """Count the bytes with which all bodies begin."""
    columns = enumerate(zip(*bodies, strict=False))
    return next((at for at, column in columns if len(set(column)) > 1), min(map(len, bodies)))


def _witnesses(made: World) -> bool:
    """Show the sharing three times over, by those who saw it; gives whether they agree."""
    firsts = _first_requests(made)
    bodies = [record.body for record in firsts.values()]
    shared = _alike(bodies)
    reaches = all(b"Directive:" in body[:shared] for body in bodies)
    put("1. The bytes, as they came in at the server's socket:")
    for name, record in firsts.items():
        share = shared / len(record.body)
        put(f"   {name:<9} {len(record.body):,} bytes, the first {shared:,} alike ({share:.2%})")
    put("2. The server's count of the cache, by the vendor's rules:")
    for name, record in firsts.items():
        usage = record.usage
        put(f"   {name:<9} {usage.read:,} tokens read, {usage.input - usage.read:,} not")
    paid, least, bare = (
        made.server.paid(),
        made.server.least_possible(),
        made.server.uncached(),
    )
    put(f"   all {len(made.server.records)} requests: {paid:,.0f} token prices paid;")
    put(f"   the least possible is {least:,.0f}, without a cache it is {bare:,.0f}")
    put("3. prong.prompt.first_difference of two siblings' requests:")
    difference = first_difference(bodies[0], bodies[1])
    assert difference is not None, "siblings have different directives"
    put(f"   at {difference.path}, byte {difference.byte},")
    put(f"   after {difference.shared_items} equal items of {difference.shared_bytes:,} bytes")
    put(f"   <  {difference.left!r}")
    put(f"   >  {difference.right!r}")
    read = min(record.usage.read / record.usage.input for record in firsts.values())
    return len(firsts) == len(DIRECTIVES) and reaches and read > 0.9


async def _play(pace: float, files: Mapping[str, str]) -> bool:
    async with world(
        script(pace=pace), files=files, opens=False, mode="acceptEdits", allow=(ALLOWED,)
    ) as made:
        wrap(
            "Prong, a scripted session: it needs no key, no network and no model, for what the "
            "model says is written down. Everything else is real: the requests, the forks, the "
            "tools that work on a small project in a temporary folder, and the count of the "
            "prompt cache by a server on this machine that keeps the vendor's rules (a token is "
            "four bytes here)."
        )
        put()
        put(f"project tests before: {await _tests(made)}")
        heading("The parent reads, plans and forks; the forks work at the same time")
        put(f"> {QUESTION}")
        well = False
        async with made.open() as session, anyio.create_task_group() as group:
            group.start_soon(watch, session, Story(_said), len(DIRECTIVES), 0.8)
            well = (await session.run(QUESTION)).ok
            group.cancel_scope.cancel()
            heading("What the forks reported")
            _reports(session)
            heading("Their receipts")
            _receipts(session)
            heading("What it cost")
            _costs(session)
        heading("Three witnesses that the forks shared the parent's conversation")
        agree = _witnesses(made)
        after = await _tests(made)
        put()
        put(f"project tests after: {after}")
        return agree and well and after == "OK"


def main(*, pace: float = 0.3, files: Mapping[str, str] = FILES) -> int:
    """Play the demo; gives the exit code, which is 0 only if every claim came true."""
    if not anyio.run(_play, pace, files):
        put("something did not come out as it should; this is a bug in Prong")
        return 1
    put("everything came out as claimed")
    return 0
