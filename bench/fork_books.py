"""What fan-outs cost on the loopback server, and what becomes of them when something goes wrong."""

from __future__ import annotations

import tempfile
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import fork_prong
import msgspec
import scenario

from prong.cost.breakeven import Scenario, estimate
from prong.cost.schedule import Rates
from prong.event import PermissionAsked
from prong.provider.api import Api, Patience
from prong.question import Answer
from prong.session import Session
from prong.testing import (
    Script,
    Server,
    Step,
    call,
    calls,
    cut,
    delay,
    fail,
    inside,
    malformed,
    say,
)
from prong.tools.kit import Kit
from prong.tools.tool import CallOutcome, Context, SideEffect

_LATER = 400.0


def turns(number: int) -> list[Step]:
    """Give a child's three turns."""
    return [
        call("Read", {"file_path": scenario.FILE}),
        call("Bash", {"command": f"echo part {number}"}),
        say(scenario.report(number)),
    ]


def script(children: int, *more: Step) -> Script:
    """Give the whole scenario, and what comes after it."""
    sent = [
        ("Agent", {"description": f"part {number}", "prompt": scenario.directive(number)})
        for number in range(children)
    ]
    steps = [say("Ready."), calls(*sent), say("I wait."), say(scenario.CLOSING), *more]
    return Script(steps, {f"PART-{number}.": turns(number) for number in range(children)})


@asynccontextmanager
async def serving(
    tokens: int, steps: Script, **options: Any
) -> AsyncGenerator[tuple[Server, Session]]:
    """Open a session with a history on a server of its own; it has answered once."""
    with tempfile.TemporaryDirectory() as folder:
        async with (
            Server(steps) as server,
            fork_prong.opened(server.url, folder, **options) as session,
        ):
            inside(session).agent.conversation.append(*fork_prong.entries(tokens))
            await session.run("Are you ready?")
            yield server, session


async def shared(tokens: int, children: int) -> tuple[int, int, int]:
    """Give the bytes that siblings' first requests share, should share, and have."""
    async with serving(tokens, script(children)) as (server, session):
        await session.run(scenario.GO)
        first = [records[0].body for path, records in server.lineages().items() if path != "main"]
        assert len(first) == children
    common = next(at for at, bytes_ in enumerate(zip(*first, strict=False)) if len({*bytes_}) > 1)
    # The directive ends the conversation; up to the number in it, all are to be the same.
    due = min(body.rindex(b"PART-") for body in first)
    return common, due, min(map(len, first))


async def cold(tokens: int, children: int) -> tuple[float, str]:
    """Give paid / least where the base expires while the user is asked for leave to fork."""
    late = False

    async def respond(path: str, asked: object) -> Answer:
        nonlocal late
        del path
        assert isinstance(asked, PermissionAsked)
        if not late:
            late = True
            server.clock.advance(_LATER)
            inside(session).agent.client.clock = lambda: time.time() + _LATER
        return Answer(request_id=asked.request_id, allow=True)

    steps = script(children)
    slow = Script(
        [delay(0.5, then=step) for step in steps.steps],
        {key: [delay(0.5, then=step) for step in route] for key, route in steps.routes.items()},
    )
    given = {"respond": respond, "mode": "default", "ask": ("Agent",)}
    async with serving(tokens, slow, **given) as (server, session):
        await session.run(scenario.GO)
        rates = server.ledger.rates
        # Everything up to the dispatching request must be written a second time by somebody.
        lost = server.records[1].usage.input * (rates.write_short - rates.read)
        ratio = server.paid() / (server.least_possible() + lost)
        return ratio, session.receipts()[0].schedule


async def woken(tokens: int) -> tuple[float, float]:
    """Give the shares of what was cached that a woken fork and a resumed session read."""
    steps = script(3, say("Noted."), say("Here again."))
    steps.routes["PART-0."].append(say(scenario.report(0)))
    with tempfile.TemporaryDirectory() as folder:
        async with Server(steps) as server:
            async with fork_prong.opened(server.url, folder) as session:
                inside(session).agent.conversation.append(*fork_prong.entries(tokens))
                await session.run("Are you ready?")
                await session.run(scenario.GO)
                task_id = session.receipts()[0].task_id
                await session.say("Look again.", to=task_id)
                await session.wait_settled()
            *_, before, after = server.lineages()[f"main/{task_id}"]
            fork = after.usage.read / (before.usage.read + before.usage.written)
            last = server.lineages()["main"][-1].usage
            async with fork_prong.opened(server.url, folder, resume=session.id) as again:
                await again.run("Are you still there?")
            read = server.lineages()["main"][-1].usage.read
    return fork, read / (last.read + last.written)


class Sizes(msgspec.Struct, frozen=True):
    """What a fan-out was like, in tokens for each child, and what it was billed."""

    history: int
    growth: int
    directive: int
    dispatch: int
    placeholder: int
    report: int
    billed: float


async def sizes(tokens: int, children: int) -> Sizes:
    """Measure a fan-out."""
    async with serving(tokens, script(children)) as (server, session):
        before = server.paid()
        await session.run(scenario.GO)
        lineages = server.lineages()
        asked = lineages["main"][1]
        path = next(path for path in lineages if path != "main")
        child = [record.usage for record in lineages[path]]
        receipt = session.receipts()[0]
        kept = lineages["main"][2].usage.input - asked.usage.input
        base = asked.usage.input + (kept if receipt.dispatch == "keep" else 0)
        notices = lineages["main"][-1].usage.input - lineages["main"][-2].usage.input
        billed = server.paid() - before - server.ledger.rates.cost(asked.usage)
    return Sizes(
        history=asked.usage.input,
        growth=(child[-1].input - child[0].input) // 2,
        directive=child[0].input - base,
        dispatch=asked.usage.output // children,
        placeholder=(kept - asked.usage.output) // children,
        report=notices // children,
        billed=billed,
    )


async def forecast(tokens: int, children: int) -> tuple[float, float]:
    """Give what a fan-out is estimated to cost, and what the server bills, in input tokens.

    What a child is like is taken from a small fan-out of another conversation; of the one that is
    billed, the estimate knows the length of the history and the number of children.
    """
    known, found = await sizes(20_000, 3), await sizes(tokens, children)
    guessed = estimate(
        Scenario(
            history=found.history,
            children=children,
            turns=3,
            growth=known.growth,
            directive=known.directive,
            dispatch=known.dispatch * children,
            placeholders=known.placeholder * children,
            report=known.report,
            closing=5,
            wakes=2,
        ),
        rates=Rates(),
    )
    return guessed.fork.input, found.billed


class Crash:
    """A tool with a mistake in it."""

    name = "Crash"
    effect: SideEffect = "reads"
    arguments: type[msgspec.Struct] = msgspec.defstruct("None_", [])
    budget = 0

    def title(self, args: object) -> str:
        del args
        return "Crash"

    def access(self, args: object, context: Context) -> Sequence[Any]:
        del args, context
        return ()

    async def run(self, call_id: str, args: object, context: Context) -> CallOutcome:
        del call_id, args, context
        raise ZeroDivisionError("a mistake in a tool")


FAULTS: dict[str, Step] = {
    "truncated": cut(300),
    "malformed": malformed(),
    "529 for ever": fail(529, "overloaded_error", "Overloaded"),
    "a tool crashes": call("Crash"),
}


async def faults(tokens: int, children: int) -> dict[str, tuple[int, int, bool]]:
    """For each fault of one child: siblings that completed, failed notices, the parent's end."""
    found: dict[str, tuple[int, int, bool]] = {}
    for name, step in FAULTS.items():
        steps = script(children)
        steps.routes["PART-1."] = [step] * 20
        async with serving(tokens, steps) as (server, session):
            agent = inside(session).agent
            agent.kit = Kit([*agent.kit, Crash()])
            assert isinstance(agent.client.provider, Api)
            agent.client.provider.patience = Patience(tries=3, first=0.01)
            turn = await session.run(scenario.GO)
            done = sum(receipt.status == "completed" for receipt in session.receipts())
            text = server.records[-1].body.decode()
            notices = text.count("<status>failed</status>")
            found[name] = (done, notices, turn.text == scenario.CLOSING)
    return found
